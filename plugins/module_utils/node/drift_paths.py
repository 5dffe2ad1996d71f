# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compares the paths of a manifest with what was left there.

Times of files are not believed: the content is read wherever the size is right, and never more of it than was left.
Nothing that somebody put in the place of a file is followed, waited for or read.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import typing as t

from . import hosts_file, manifest, safe_path
from .file_blocks import block_of, is_in_place
from .manifest import Item

#: How a host is, compared with its manifest.
AS_LEFT, DRIFTED, NOT_KNOWN = "as left", "drifted", "not known"
#: One difference: what differs, what is there, what was left; the last two without contents.
Difference = tuple[str, str, str]
Seen = dict[str, t.Any]

_CHUNK = 1 << 20
#: A difference that no run repairs: lines of others that count before those of a block.
FIRST = "lines above"
_MOST_LINES = 3
#: Bytes of a file in which a block is looked for, and names in a directory that are read.
_MOST_TEXT, _MOST_NAMES = 16 << 20, 10000
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}
_WANTED = {
    "file": "a file",
    "attributes": "a file",
    "block": "a file",
    "directory": "a directory",
    "link": "a symbolic link",
}


def look(item: Item, key: str) -> Seen:
    """Return what is at the path of an item; `fault` is why that is not known. Raises nothing for what is there."""
    return {**_seen(item, key), "ids": _ids(item)}


def _ids(item: Item) -> dict[str, int | None]:
    """Return the numbers that the names of an item's owner and group have now, None for a name of nobody."""
    found: dict[str, int | None] = {}
    for name, number in (
        ("owner", lambda one: pwd.getpwnam(one).pw_uid),
        ("group", lambda one: grp.getgrnam(one).gr_gid),
    ):
        if name in item:
            try:
                found[name] = number(item[name])
            except KeyError:
                found[name] = None
    return found


def _seen(item: Item, key: str) -> Seen:
    try:
        if item["kind"] == "directory":
            return _look_at_directory(item)
        # Only a file of which a part is managed may be a link of the site's.
        follow = item["kind"] in ("attributes", "block")
        with safe_path.parent(item["name"], follow=follow) as (place, name):
            return _look_at(place, name, item, key)
    except FileNotFoundError:
        return {"type": ""}
    except NotADirectoryError:
        return {"type": "", "detail": "something above it is not a directory"}
    except safe_path.UnsafePathError as error:
        return {"type": "behind a symbolic link", "detail": str(error).partition(" Remedy:")[0]}
    except OSError as error:
        return {"fault": error.strerror or str(error)}


def _attributes(info: os.stat_result) -> Seen:
    kind = _KINDS.get(stat.S_IFMT(info.st_mode), "of an unknown type")
    mode = stat.S_IMODE(info.st_mode)
    return {"type": kind, "uid": info.st_uid, "gid": info.st_gid, "mode": mode}


def _look_at_directory(item: Item) -> Seen:
    path = item["name"]
    try:
        with safe_path.directory(path) as place:
            seen = _attributes(os.fstat(place.fd))
            if "only" in item:
                with os.scandir(place.pinned()) as entries:
                    names = [entry.name for entry, _n in zip(entries, range(_MOST_NAMES))]
                seen["extra"] = sorted(set(names) - set(item["only"]))[:20]
            return seen
    except NotADirectoryError:
        with safe_path.parent(path) as (place, name):
            info = place.lstat(name)
            return {"type": ""} if info is None else _attributes(info)


def _look_at(place: safe_path.Directory, name: str, item: Item, key: str) -> Seen:
    info = place.lstat(name)
    if info is None:
        return {"type": ""}
    seen = _attributes(info)
    if stat.S_ISLNK(info.st_mode):
        return {**seen, "target": os.readlink(name, dir_fd=place.fd)}
    reads = "digest" in item or item["kind"] == "block"
    if not stat.S_ISREG(info.st_mode) or not reads:
        return seen
    if item["kind"] == "file" and info.st_size != item["size"]:
        return {**seen, "size": info.st_size}
    handle = place.open(name, os.O_RDONLY | os.O_NOCTTY)
    with os.fdopen(handle, "rb", buffering=0) as stream:
        # Another file may have the name by now.
        info = os.fstat(stream.fileno())
        seen = _attributes(info)
        if not stat.S_ISREG(info.st_mode):
            return seen
        if item["kind"] == "block":
            return {**seen, **_block(stream, item, key)}
        made, size = manifest.Digest(key), 0
        while size <= item["size"]:
            part = stream.read(_CHUNK)
            if not part:
                break
            made.add(part)
            size += len(part)
        return {**seen, "size": size, "digest": made.text()}


def _block(stream: t.Any, item: Item, key: str) -> Seen:
    data = b""
    while len(data) <= _MOST_TEXT:
        part = stream.read(_CHUNK)
        if not part:
            text = data.decode("utf-8", errors="surrogateescape")
            lines = block_of(text, item["marker"])
            if lines is None:
                return {"block": False}
            found = lines.encode("utf-8", errors="surrogateescape")
            there = manifest.digest(found, key)
            first = hosts_file.overridden(text, lines) if item["name"] == hosts_file.PATH else []
            in_place = is_in_place(text, item)
            return {"block": True, "digest": there, "in_place": in_place, "first": first}
        data += part
    return {"fault": f"has more than {_MOST_TEXT >> 20} MiB"}


# -- comparing: pure -------------------------------------------------------------------------------------------
def differences(item: Item, seen: Seen) -> list[Difference]:
    """Return how what is at the path of an item differs from what was left there."""
    kind = item["kind"]
    if seen.get("fault"):
        return [("unknown", str(seen["fault"]), _WANTED.get(kind, "nothing"))]
    there = seen["type"]
    if kind == "absent":
        return [("extra", there, "nothing")] if there else []
    wanted = _WANTED[kind]
    if not there:
        if kind == "block" and "digest" not in item:
            return []
        return [("missing", str(seen.get("detail") or "nothing"), wanted)]
    if there != wanted:
        return [("type", str(seen.get("detail") or there), wanted)]
    found = _attributes_differ(item, seen)
    if kind == "link" and seen["target"] != item["target"]:
        found.append(("target", seen["target"], item["target"]))
    if kind == "block":
        found += _block_differs(item, seen)
    elif "digest" in item:
        if seen["size"] != item["size"]:
            found.append(("content", f"{seen['size']} bytes", f"{item['size']} bytes"))
        elif seen["digest"] != item["digest"]:
            found.append(
                ("content", "another content of the same size", "the content that was left")
            )
    if seen.get("extra"):
        found.append(("extra", ", ".join(seen["extra"]), "only what the role lists"))
    return found


def _attributes_differ(item: Item, seen: Seen) -> list[Difference]:
    found: list[Difference] = []
    for name, what in (("uid", "owner"), ("gid", "group")):
        if name in item and item[name] != seen[name]:
            found.append((what, f"{name} {seen[name]}", f"{name} {item[name]}"))
        elif what in item and seen["ids"][what] != item[name]:
            now = seen["ids"][what]
            words = "nobody's" if now is None else f"{name} {now}"
            found.append((what, f"{item[what]} is {words}", f"{name} {item[name]}"))
    if "mode" in item and item["mode"] != seen["mode"]:
        found.append(("mode", f"{seen['mode']:04o}", f"{item['mode']:04o}"))
    return found


def _block_differs(item: Item, seen: Seen) -> list[Difference]:
    name = f"the lines of {item['marker']}"
    if "digest" not in item:
        return [("extra", name, "nothing")] if seen["block"] else []
    if not seen["block"]:
        return [("missing", "nothing", name)]
    if seen["digest"] != item["digest"]:
        return [("content", "other lines", name)]
    if seen["first"]:
        more = ["and more"] if len(seen["first"]) > _MOST_LINES else []
        shown = ", ".join([*seen["first"][:_MOST_LINES], *more])
        return [(FIRST, shown, name)]
    beside = item.get("insertbefore") or item.get("insertafter")
    return [] if seen["in_place"] else [("place", "on the other side", f"{name} beside {beside}")]


# -- what check mode cannot see --------------------------------------------------------------------------------
#: Differences for which a call of config_files writes a file again, and does not only set its attributes.
_WRITTEN = ("missing", "type", "content", "place", "target", "extra")


def units_to_start(
    managed_by: t.Mapping[str, str], directory: str = manifest.DIRECTORY
) -> set[str]:
    """Return the units of a call that it would start again, since an earlier task of its role puts a file back.

    Also those that watch a file which any role puts back. For check mode, in which these tasks have changed nothing
    (Record.put_back). managed_by: of the call of services.
    Raises OSError where the manifest cannot be read.
    """
    found, key = manifest.entries(directory), manifest.key_of(directory)
    call = (managed_by["manager"], managed_by["part"], "services")
    own = next((one for one in found if (one.manager, one.part, one.module) == call), None)
    if own is None:
        return set()
    items = [
        item
        for one in found
        if one.manager == own.manager and one.module == "config_files" and one.born < own.born
        for item in one.kept
        if item["kind"] in ("file", "link", "absent")
    ]
    stamped = any(_is_put_back(item, key) for item in items)
    return {
        item["name"]
        for item in own.kept
        if (stamped and item.get("stamp")) or put_back(item.get("watch") or (), directory)
    }


def put_back(paths: t.Collection[str], directory: str = manifest.DIRECTORY) -> list[str]:
    """Return those of the paths that a call of config_files, of any role, would write again. For check mode, too.

    Raises OSError where the manifest cannot be read.
    """
    if not paths:
        return []
    key = manifest.key_of(directory)
    return [
        item["name"]
        for one in manifest.entries(directory)
        if one.module == "config_files"
        for item in one.kept
        if item["kind"] == "file" and item["name"] in paths and _is_put_back(item, key)
    ]


def _is_put_back(item: Item, key: str) -> bool:
    return any(what in _WRITTEN for what, _f, _l in differences(item, look(item, key)))
