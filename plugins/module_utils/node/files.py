# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings files and directories of a node to a wanted state: first plan, then apply.

The plan is what check mode reports, so both modes give the same verdict.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import grp
import os
import pwd
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import safe_path, trusted_path, whole_file
from .acting import user_name
from .file_blocks import BlockError, block_of, edit_block
from .terminal import PrintableError

HIDDEN = "[hidden: secret]\n"
_MOST_EDITED = 8 << 20  # bytes of a file that gets a block; each of its lines takes memory


class FilesError(PrintableError):
    """A wanted state that cannot be reached; the message has the place, the cause and the remedy."""


@dataclass
class Change:
    """The changes to one path, and its state before and after."""

    path: str
    kind: str  # directory, file, link, absent, attributes
    data: bytes = b""
    target: str = ""
    uid: int | None = None
    gid: int | None = None
    mode: int | None = None
    validate: str | None = None
    before: str = ""
    after: str = ""
    header_before: str = ""
    header_after: str = ""

    def diff(self) -> dict[str, str]:
        return {
            "before_header": self.header_before,
            "after_header": self.header_after,
            "before": self.before,
            "after": self.after,
        }


@dataclass
class Plan:
    """Changes in the order in which they are made; existing paths that stay are not in it."""

    changes: list[Change] = field(default_factory=list)
    made: set[str] = field(default_factory=set)  # directories that this plan makes
    opened: list[str] = field(default_factory=list)  # directories that others can change after it
    #: Items of the manifest: the state in which the plan leaves each path, also where nothing changes.
    leaves: list[dict] = field(default_factory=list)


def parse_mode(value: object, path: str) -> int | None:
    """Octal mode from text; a number is refused, since YAML reads 0644 as decimal 420."""
    if value is None:
        return None
    if not isinstance(value, str) or not re.fullmatch(r"0?[0-7]{3,4}", value):
        raise FilesError(
            "%s: mode %r is not octal text. Remedy: quote it with a leading 0, as in '0644'"
            % (path, value)
        )
    return int(value, 8)


def resolve_owner(name: str | None, database: str, path: str, check: bool) -> int | None:
    """Numeric id of a user or group; -1 in check mode for one that does not exist yet."""
    if name is None:
        return None
    if name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid if database == "user" else grp.getgrnam(name).gr_gid
    except KeyError:
        if check:
            return -1
        raise FilesError(
            "%s: %s %r does not exist on this host. Remedy: create it first (cluster_users, cluster_groups), "
            "or correct the name" % (path, database, name)
        ) from None


def as_text(data: bytes | None, secret: bool) -> str:
    """Content as a diff shows it."""
    if data is None:
        return ""
    if secret:
        return HIDDEN
    if len(data) > safe_path.LARGEST:
        return "[more than %d bytes]\n" % safe_path.LARGEST
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "[binary, %d bytes]\n" % len(data)


def plan_all(directories: list[dict], files: list[dict], check: bool) -> Plan:
    """Everything that has to change; raises FilesError before anything is touched.

    check: owners and parents that do not exist yet count as a change instead of an error, because
    what would have made them (a package, an account) did not run.
    """
    plan = Plan()
    if check:
        directories, files = (
            [_planned_home(spec) for spec in each] for each in (directories, files)
        )
    # Those above come first: one that is made on the way to another is root's, and no longer empty.
    for spec in sorted(directories, key=lambda spec: spec["path"].rstrip("/").count("/")):
        with _reported(spec["path"]):
            _plan_directory(plan, spec, check)
    for spec in files:
        with _reported(spec["path"]):
            _plan_file(plan, spec, check)
    listed = {spec["path"] for spec in [*directories, *files]}
    whole = {spec["path"].rstrip("/") for spec in directories if spec.get("only_listed")}
    for item in plan.leaves:
        if item["kind"] == "directory" and item["name"] in whole:
            below = [path.rstrip("/").rpartition("/") for path in listed]
            item["only"] = sorted(name for above, _slash, name in below if above == item["name"])
    for spec in directories:
        if spec.get("only_listed") and os.path.isdir(spec["path"]):
            for name in sorted(os.listdir(spec["path"])):
                path = os.path.join(spec["path"], name)
                if path not in listed:
                    _plan_absent(plan, path, False)
                    plan.leaves.pop()  # that nothing else is there is part of the directory
    return plan


def _planned_home(spec: dict) -> dict:
    """Return a specification with the home that a user of `~USER` will probably get, who is not made yet."""
    path = spec["path"]
    return {**spec, "path": f"/home/{path[1:]}" if path.startswith("~") else path}


@contextlib.contextmanager
def _reported(path: str) -> Iterator[None]:
    """Turn a path that cannot be used into a FilesError."""
    try:
        yield
    except safe_path.UnsafePathError as error:
        raise FilesError(str(error)) from None
    except NotADirectoryError as error:
        raise FilesError(
            "%s: is not a directory. Remedy: move it out of the way" % (error.filename or path)
        ) from error
    except OSError as error:
        raise FilesError(
            "%s: %s. Remedy: %s and run again"
            % (path, error.strerror or error, whole_file.room(error))
        ) from error


def _seen(
    path: str, follow: bool = False, block: bool = False
) -> tuple[str, os.stat_result | None, bytes | None]:
    """Return a path, the one that it links to with follow; what is there; and a file's content, for a block all."""
    most = _MOST_EDITED if block else safe_path.LARGEST
    try:
        with safe_path.parent(path, follow=follow) as (place, name):
            info, data = place.lstat(name), None
            if info and stat.S_ISREG(info.st_mode):
                info, data = place.read(name, most, cut=not block)  # it may be another by now
            return (place.at(name) if follow else path), info, data
    except FileNotFoundError:
        return path, None, None


def _attributes(info: os.stat_result | None) -> str:
    if info is None:
        return "absent"
    return "%d:%d %04o" % (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode))


def _headers(change: Change, info: os.stat_result | None) -> None:
    def pick(wanted: int | None, current: int) -> int:
        return current if wanted is None else wanted

    change.header_before = "%s (%s)" % (change.path, _attributes(info))
    if change.kind in ("absent", "link"):
        change.header_after = "%s (%s)" % (change.path, change.kind)
        return
    mode = pick(change.mode, stat.S_IMODE(info.st_mode) if info else 0)
    change.header_after = "%s (%d:%d %04o)" % (
        change.path,
        pick(change.uid, info.st_uid if info else 0),
        pick(change.gid, info.st_gid if info else 0),
        mode,
    )


def _same_attributes(change: Change, info: os.stat_result | None) -> bool:
    return info is not None and (
        change.uid in (None, info.st_uid)
        and change.gid in (None, info.st_gid)
        and change.mode in (None, stat.S_IMODE(info.st_mode))
    )


def _owned(change: Change, spec: dict) -> dict[str, int | str]:
    """Return the owner, group and mode that a change decides; the names too, which may get other numbers."""
    found = {"uid": change.uid, "gid": change.gid, "mode": change.mode}
    names = {key: spec.get(key) or "root" for key in ("owner", "group")}
    return {
        **{name: value for name, value in found.items() if value is not None},
        **{key: name for key, name in names.items() if name != "root" and not name.isdigit()},
    }


def _leaves(change: Change, spec: dict, wanted: bytes | None) -> list[dict]:
    """Return what a plan leaves of a file: all of it, or a block and the attributes that it decides."""
    path, block = change.path, spec.get("block")
    if wanted is not None and not block:
        return [{"kind": "file", "name": path, "data": wanted, **_owned(change, spec)}]
    items: list[dict] = []
    if spec["state"] == "present" or _owned(change, spec):
        items.append({"kind": "attributes", "name": path, **_owned(change, spec)})
    if block:
        text = (wanted or b"").decode("utf-8", errors="surrogateescape")
        lines = block_of(text, block["marker"])
        data = None if lines is None else lines.encode("utf-8", errors="surrogateescape")
        where = {key: block[key] for key in ("insertbefore", "insertafter") if block.get(key)}
        items.append(
            {"kind": "block", "name": path, "marker": block["marker"], **where, "data": data}
        )
    return items


def _fault(place: safe_path.Directory | None, info: os.stat_result, uid: int | None) -> str:
    """Return why what is in a directory may not be given to another owner, "" if it may.

    A user can rename what others have in the user's own directory: the name alone does not tell whose it is.
    """
    if place is None or uid in (None, -1, info.st_uid) or os.geteuid():
        return ""
    return trusted_path.fault_of_directory(place)


def _other_owner(path: str, info: os.stat_result, uid: int | None, fault: str) -> FilesError:
    owner, wanted = user_name(info.st_uid), user_name(uid or 0)
    return FilesError(
        f"{path}: belongs to {owner}, not to {wanted}, and root does not change that: {fault}, so it may have been "
        f"moved there. Remedy: find out whose it is; `chown` it by hand if it is to be {wanted}'s, or use a "
        "directory below one that only root can change"
    )


def _refuse_other_owner(place: safe_path.Directory, uid: int | None, fault: str = "") -> None:
    """Raise FilesError for a directory that may not be given to a user; an empty one of root's may.

    That is what a run leaves that ends before the owner is set.
    """
    info = os.fstat(place.fd)
    if uid in (-1, info.st_uid) or not (info.st_uid or os.listdir(place.pinned())):
        return
    fault = _fault(place.above, info, uid) or fault
    if fault:
        raise _other_owner(place.path, info, uid, fault)


def _plan_absent(plan: Plan, path: str, secret: bool) -> None:
    plan.leaves.append({"kind": "absent", "name": path})
    _path, info, data = _seen(path)
    if info is None:
        return
    change = Change(path, "absent", before=as_text(data, secret))
    _headers(change, info)
    plan.changes.append(change)


def _plan_directory(plan: Plan, spec: dict, check: bool) -> None:
    path = spec["path"].rstrip("/") or "/"
    if spec["state"] == "absent":
        _plan_absent(plan, path, False)
        return
    info, real = None, path
    change = Change(
        path,
        "directory",
        uid=resolve_owner(spec.get("owner") or "root", "user", path, check),
        gid=resolve_owner(spec.get("group") or "root", "group", path, check),
        mode=parse_mode(spec.get("mode") or "0755", path),
    )
    # A site may have moved the directory to another disk, by a link of its own.
    with contextlib.suppress(FileNotFoundError), safe_path.directory(path) as place:
        info, real = os.fstat(place.fd), place.path
        opened = [above for above in plan.opened if real.startswith(f"{above}/")]
        _refuse_other_owner(
            place, change.uid, f"others can change {opened[0]} after this run" if opened else ""
        )
    mode = change.mode or 0
    if change.uid or mode & 0o002 or (mode & 0o020 and change.gid):
        plan.opened.append(real)
    made = path
    while made not in ("", "/"):  # missing parents are made too
        plan.made.add(made)
        made = os.path.dirname(made)
    plan.leaves.append({"kind": "directory", "name": path, **_owned(change, spec)})
    if not _same_attributes(change, info):
        _headers(change, info)
        plan.changes.append(change)


def _plan_file(plan: Plan, spec: dict, check: bool) -> None:
    block = spec.get("block")
    edits = bool(block) or (spec["state"] == "present" and _content(spec) is None)
    path, info, current = _seen(spec["path"], edits and spec.get("link") is None, bool(block))
    if info is not None and stat.S_ISDIR(info.st_mode):
        raise FilesError(
            "%s: is a directory. Remedy: move it away, since a file belongs there" % path
        )
    if spec["state"] == "absent" and not block:
        _plan_absent(plan, path, spec["secret"])
        return
    if spec.get("link") is not None:
        _plan_link(plan, path, info, spec["link"])
        return
    parent = os.path.dirname(path)
    if not os.path.isdir(parent) and parent not in plan.made and not check:
        raise FilesError(
            "%s: its directory %s does not exist. Remedy: list it under `directories`, or install "
            "what brings it first" % (path, parent)
        )
    # An edit leaves the attributes alone.
    keep = info is not None and (block or _content(spec) is None)
    change = Change(
        path,
        "file",
        uid=resolve_owner(spec["owner"] or (None if keep else "root"), "user", path, check),
        gid=resolve_owner(spec["group"] or (None if keep else "root"), "group", path, check),
        mode=parse_mode(spec["mode"] or (None if keep else "0644"), path),
        validate=spec.get("validate"),
    )
    fault = ""
    if info is not None:
        with safe_path.parent(path) as (place, _name):
            fault = _fault(place, info, change.uid)
        if fault and keep:
            raise _other_owner(path, info, change.uid, fault)
    wanted = _wanted_content(path, spec, current, check)
    if wanted is None and spec["state"] == "absent":
        return
    plan.leaves += _leaves(change, spec, wanted)
    # A file that may not be given to another owner is replaced.
    if (wanted is None or wanted == current) and not fault:
        if current is not None and _same_attributes(change, info):
            return
        change.kind = "attributes" if info is not None else "file"
    else:
        change.before, change.after = (
            as_text(current, spec["secret"]),
            as_text(wanted, spec["secret"]),
        )
    if change.kind == "file" and info is not None:
        # The replacing file is a new one: it needs the attributes of the old one.
        change.uid = info.st_uid if change.uid is None else change.uid
        change.gid = info.st_gid if change.gid is None else change.gid
        change.mode = stat.S_IMODE(info.st_mode) if change.mode is None else change.mode
    change.data = wanted or b""
    _headers(change, info)
    plan.changes.append(change)


def _content(spec: dict) -> bytes | None:
    if spec.get("content") is not None:
        return spec["content"].encode("utf-8")
    if spec.get("content_b64") is not None:
        return base64.b64decode(spec["content_b64"])
    return None


def _wanted_content(path: str, spec: dict, current: bytes | None, check: bool) -> bytes | None:
    """Bytes the file shall have; None where only its attributes (or nothing) are managed."""
    content, block = _content(spec), spec.get("block")
    missing_ok = check or spec["create"]
    if block:
        if current is None and spec["state"] == "absent":
            return None
        if current is None and not missing_ok:
            raise FilesError(
                "%s: does not exist, so there is nothing to put the block %r into. Remedy: install "
                "the package that brings it, or give `create: true`" % (path, block["marker"])
            )
        if content is None and spec["state"] != "absent":
            raise FilesError("%s: a block needs `content`" % path)
        body = None if spec["state"] == "absent" else (content or b"").decode("utf-8")
        text = (current or b"").decode("utf-8", errors="surrogateescape")
        try:
            return edit_block(text, body, block).encode("utf-8", errors="surrogateescape")
        except BlockError as error:
            raise FilesError("%s: %s" % (path, error)) from None
    if content is None and current is None and not missing_ok:
        raise FilesError(
            "%s: does not exist and no content is given. Remedy: give `content`, or "
            "`create: true` for an empty file" % path
        )
    return content


def _plan_link(plan: Plan, path: str, info: os.stat_result | None, target: str) -> None:
    plan.leaves.append({"kind": "link", "name": path, "target": target})
    is_link = info is not None and stat.S_ISLNK(info.st_mode)
    if is_link and os.readlink(path) == target:
        return
    change = Change(path, "link", target=target, after="%s -> %s\n" % (path, target))
    if is_link:
        change.before = "%s -> %s\n" % (path, os.readlink(path))
    _headers(change, info)
    plan.changes.append(change)


def apply(change: Change) -> bool:
    """Make one planned change, atomically where the file system allows it.

    Returns whether the place is root's alone, so that its path can be used again.
    """
    with _reported(change.path):
        if change.kind == "directory":
            return _apply_directory(change)
        with safe_path.parent(change.path) as (place, name):
            _APPLY[change.kind](change, place, name)
            return place.firm


def _set_attributes(change: Change, handle: int) -> None:
    # Owner first: chown clears the set-id bits that a mode may have.
    if change.uid is not None or change.gid is not None:
        os.fchown(
            handle,
            -1 if change.uid is None else change.uid,
            -1 if change.gid is None else change.gid,
        )
    if change.mode is not None:
        os.fchmod(handle, change.mode)


def _apply_directory(change: Change) -> bool:
    # A new one is opened to others only once the owner is set.
    with safe_path.directory(change.path, make=0o700) as place:
        handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.fd)
        try:
            _refuse_other_owner(place, change.uid)  # it may have been moved there since the plan
            _set_attributes(change, handle)
        finally:
            os.close(handle)
        return place.above_firm


def _apply_file(change: Change, place: safe_path.Directory, name: str) -> None:
    temporary, handle = place.temporary()
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(change.data)
            stream.flush()
            _set_attributes(change, stream.fileno())
            # Else the name may lead to an empty file after a power failure.
            os.fsync(stream.fileno())
        if change.validate:
            run_validate(change.path, change.validate, place.at(temporary))
        try:
            place.rename(temporary, name)
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.EXDEV):
                raise
            # A mount point of its own (/etc/hosts in a container): can only be written in place.
            with os.fdopen(place.open_to_change(name, os.O_WRONLY), "wb") as stream:
                stream.truncate()
                stream.write(change.data)
                stream.flush()
                _set_attributes(change, stream.fileno())
                os.fsync(stream.fileno())
    finally:
        place.unlink(temporary)


def run_validate(path: str, command: str, temporary: str) -> None:
    """Run the checker on the new content; raises FilesError with its words if it refuses."""
    if "%s" not in command:
        raise FilesError("%s: validate %r has no %%s for the file to check" % (path, command))
    argv = [word.replace("%s", temporary) for word in shlex.split(command)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise FilesError("%s: validate could not run %s: %s" % (path, argv[0], error)) from error
    if done.returncode != 0:
        raise FilesError(
            "%s: refused by %r (exit %d), left as it was: %s. Remedy: correct the variables that "
            "this file is made from"
            % (path, command, done.returncode, (done.stderr + done.stdout).strip()[-2000:])
        )


def _apply_link(change: Change, place: safe_path.Directory, name: str) -> None:
    temporary = safe_path.unused_name()
    os.symlink(change.target, temporary, dir_fd=place.fd)
    try:
        place.rename(temporary, name)
    finally:
        place.unlink(temporary)


def _apply_absent(_change: Change, place: safe_path.Directory, name: str) -> None:
    info = place.lstat(name)
    if info is not None and stat.S_ISDIR(info.st_mode):
        shutil.rmtree(place.pinned(name))
    else:
        place.unlink(name)


def _apply_attributes(change: Change, place: safe_path.Directory, name: str) -> None:
    handle = place.open_to_change(name, os.O_RDONLY)
    try:
        info = os.fstat(handle)
        fault = _fault(place, info, change.uid)
        if fault:
            raise _other_owner(change.path, info, change.uid, fault)
        _set_attributes(change, handle)
    finally:
        os.close(handle)


_APPLY = {
    "file": _apply_file,
    "link": _apply_link,
    "absent": _apply_absent,
    "attributes": _apply_attributes,
}
