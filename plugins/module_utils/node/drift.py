# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One look at a node: does it have what the calls of the roles have left there? Changes nothing.

Each kind of item is read once for all items: one `systemctl show`, one list of packages, one child process for all
paths, which is left behind where a dead server holds it up. Unreadable things are differences too: a node is as it
was left only where all of it was seen.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import typing as t

from . import (
    answering,
    database,
    deadline,
    dependencies,
    drift_paths,
    fstab,
    manifest,
    manifest_place,
    read_ahead,
    sysctl,
    tuning,
)
from .drift_paths import AS_LEFT, DRIFTED, NOT_KNOWN, Difference
from .left import accounts_of
from .machine import MOUNTINFO, read, unescape_mount
from .manifest import Entry, Item
from .mounting import FSTAB
from .packages import FORM, Installed
from .services import Services, ServicesError, decide, run
from .terminal import one_line
from .unit_properties import parse_show
from .users import Accounts

#: Calls of other runs, where nobody could count them: never as many as before.
NOT_COUNTED = -2
#: The module that keeps the secrets of the cluster.
SECRETS = "cluster_secrets"
#: Differences of one node that are returned; the others are counted.
MOST = 200
_LONGEST = 300
_UNKNOWN = "unknown"
_NOTHING = "nothing"
_WORDS = {
    "mask": "masked",
    "enable": "enabled",
    "disable": "enabled",
    "start": "active",
    "stop": "active",
    "restart": "started with",
}

Found = list[tuple[int, Difference]]
_PATIENCE_S = 10.0


# -- units -----------------------------------------------------------------------------------------------------
def _units(items: t.Sequence[Item]) -> Found:
    specs = [{**item, "restart": False, "reload": False} for item in items]
    services = Services(specs, parse_show)
    try:
        services.load()
    except (ServicesError, OSError) as error:
        return [(number, (_UNKNOWN, str(error), "a unit")) for number in range(len(items))]
    found: Found = []
    for number, spec in enumerate(specs):
        state = services.states[spec["name"]]
        if state.load == "not-found":
            if spec["enabled"] or spec["state"] == "started" or spec["masked"]:
                found.append((number, ("missing", "nothing", "a unit")))
            continue
        if state.load == "masked" and (spec["enabled"] or spec["state"] == "started"):
            found.append((number, ("masked", "masked", "not masked")))
        for action in decide(spec, state):
            wanted = {
                "mask": "masked",
                "enable": "enabled",
                "disable": "not enabled",
                "start": "started",
                "stop": "stopped",
            }.get(action.action, "as it was started by the role")
            if action.why == answering.STOPPED:
                found.append((number, ("stopped", action.why, "running")))
            else:
                found.append((number, (_WORDS[action.action], action.why, wanted)))
        if spec["state"] == "started" and state.halted == answering.TRACED:
            found.append((number, ("stopped", state.halted, "running")))
        known = {*(spec.get("drop_ins") or ()), *spec.get("known", ())}
        more = [path for path in state.drop_ins if "drop_ins" in spec and path not in known]
        if more:
            found.append((number, ("drop-ins", ", ".join(more), "written by a role")))
        # Also of a whole unit; a manifest of an earlier release does not have it.
        if "unit_file" in spec and state.unit_file not in ("", spec["unit_file"], *known):
            found.append(
                (number, ("unit file", state.unit_file, spec["unit_file"] or "the package's"))
            )
        if spec["name"] in services.unread:
            found.append((number, ("files", "changed on the disk", "as systemd has read them")))
    return found


# -- packages --------------------------------------------------------------------------------------------------
def _installed() -> Installed:
    if shutil.which("dpkg-query"):
        return Installed(run(["dpkg-query", "-W", "-f", FORM]).stdout)
    form = "installed\t%{NAME}\t%{ARCH}\t%{VERSION}-%{RELEASE}\t\t\n"
    return Installed(run(["rpm", "-qa", "--qf", form]).stdout)


def package_differences(item: Item, have: Installed) -> list[Difference]:
    """Return how an installed package differs: a version, or one that only another package provides."""
    name, version = item["name"], item["version"]
    if not have.has(name):
        return [("missing", "nothing", version or "installed")]
    if version and have.versions.get(name) != version:
        return [("version", have.versions.get(name, "another package"), version)]
    return []


def _packages(items: t.Sequence[Item]) -> Found:
    have = _installed()
    if not have.versions:
        fault = (_UNKNOWN, "the package manager lists no package", "a package")
        return [(number, fault) for number in range(len(items))]
    found = [
        (number, one)
        for number, item in enumerate(items)
        for one in package_differences(item, have)
    ]
    if have.unfinished:
        # Also one of somebody else: a run takes up what dpkg has not finished, before it installs anything.
        begun = ", ".join(sorted(have.unfinished))
        found.append((0, ("unfinished", f"dpkg has not finished {begun}", "packages as a whole")))
    if shutil.which("dpkg-query"):
        whole = dependencies.Packages(run(["dpkg-query", "-W", "-f", dependencies.FORM]).stdout)
        found += lost_dependencies(items, whole)
    return found


def lost_dependencies(items: t.Sequence[Item], whole: dependencies.Packages) -> Found:
    """Return which packages need what is not there any more."""
    if not whole.lost(item["name"] for item in items):
        return []
    found: Found = []
    for number, item in enumerate(items):
        lost = sorted(whole.lost([item["name"]]))
        if lost:
            found.append(
                (number, ("dependency", f"without {', '.join(lost)}", "all that it needs"))
            )
    return found


# -- accounts --------------------------------------------------------------------------------------------------
def account_differences(item: Item, accounts: Accounts) -> list[Difference]:
    """Return how a user or a group differs in what the role decides about it."""
    name = item["name"]
    if item["kind"] == "no user":
        return [("extra", "a user", "nothing")] if name in accounts.local_users else []
    if item["kind"] == "group":
        gid = accounts.groups.get(name)
        if gid is None:
            return [("missing", "nothing", f"gid {item['gid']}")]
        return [] if gid == item["gid"] else [("gid", str(gid), str(item["gid"]))]
    have = accounts.users.get(name)
    if have is None:
        return [("missing", "nothing", f"uid {item['uid']}")]
    found: list[Difference] = [
        (key, str(getattr(have, key)), str(item[key]))
        for key in ("uid", "gid", "home", "shell")
        if key in item and getattr(have, key) != item[key]
    ]
    if "groups" in item:
        primary = {one for one, gid in accounts.groups.items() if gid == have.gid}
        groups = sorted(have.groups - primary)
        if groups != item["groups"]:
            found.append(("groups", ", ".join(groups), ", ".join(item["groups"])))
    return found


def _accounts(items: t.Sequence[Item]) -> Found:
    specs = [{"name": item["name"]} for item in items]
    accounts = accounts_of(specs, [])
    return [
        (number, one)
        for number, item in enumerate(items)
        for one in account_differences(item, accounts)
    ]


# -- mounts, kernel settings, tuned --------------------------------------------------------------------------------
def mount_differences(item: Item, table: str, mountinfo: str) -> list[Difference]:
    """Return how a mount differs, in fstab and in the kernel. table: fstab."""
    path, found = item["name"], list[Difference]()
    lines = [
        # mount(8) does not read a line that ends as on Windows.
        " ".join(line.split()[:4]) + ("\r" if line.endswith("\r") else "")
        for line in fstab.lines_of(table)
        if not line.lstrip().startswith("#")
        and [one for one, _t, _o in fstab.entries(line)] == [path]
    ]
    if not lines:
        found.append(("missing", "nothing", "a line of fstab"))
    elif lines != [item["line"]]:
        # Not the line: its options may have a password.
        fields = zip(("source", "path", "type", "options"), lines[0].split(), item["line"].split())
        other = [name for name, now, then in fields if now != then]
        words = (
            f"another {' and '.join(other or ['end'])}"
            if len(lines) == 1
            else f"{len(lines)} lines"
        )
        found.append(("line of fstab", words, "the line that was left"))
    source, _path, fstype, options = item["line"].split(" ", 3)
    there = fstab.mounted(mountinfo).get(path)
    if there is None:
        if item["auto"]:
            found.append(("mounted", "nothing", fstype))
    elif there.fstype != "autofs":
        listed = options.split(",")
        if {"bind", "rbind"} & set(listed):
            if fstab.is_bound(mountinfo, item.get("real") or source, path) is False:
                found.append(("source", f"{there.fstype} {there.source}", source))
        else:
            found += fstab.other_mount(there, source, fstype, fstab.is_network(fstype, listed))
        if fstab.is_read_only(there, fstype, listed):
            found.append(("mounted", "read-only", "for writing"))
        kib = item.get("read_ahead", 0)
        if read_ahead.tune([path], kib, True, mountinfo)[0]:
            found.append(("read-ahead", "another", f"{kib} KiB"))
    return found


def _of_network(item: Item) -> bool:
    _source, _path, fstype, options = item["line"].split(" ", 3)
    return fstab.is_network(fstype, options.split(","))


def _used(path: str) -> dict[str, str]:
    """Use a mount, which makes an automount mount it, and return why that cannot be done."""
    try:
        os.statvfs(path)
    except OSError as error:
        return {"fault": error.strerror or str(error)}
    return {"fault": ""}


def _silent(paths: t.Sequence[str]) -> dict[str, str]:
    """Return the mounts that cannot be used, each with the reason."""
    answers = deadline.answers(_used, paths, _PATIENCE_S)
    nothing = {"fault": f"no answer within {_PATIENCE_S:g} s"}
    found = {path: answers.get(path, nothing)["fault"] for path in paths}
    return {path: fault for path, fault in found.items() if fault}


def _mounts(items: t.Sequence[Item]) -> Found:
    table, mountinfo = read(FSTAB), read(MOUNTINFO)
    sources = [item["line"].split(" ", 1)[0] for item in items]
    local = sorted({one for one in sources if one.startswith("/")})
    # By a child: a source may be below the mount of a dead server.
    real = deadline.answers(
        lambda path: {"path": os.path.realpath(unescape_mount(path))}, local, _PATIENCE_S
    )
    silent = _silent([item["name"] for item in items if item["auto"] and _of_network(item)])
    return [
        (number, (_UNKNOWN, silent[item["name"]], "a file system that answers"))
        for number, item in enumerate(items)
        if item["name"] in silent
    ] + [
        (number, one)
        for number, (item, source) in enumerate(zip(items, sources))
        for one in mount_differences(
            {**item, "real": real.get(source, {}).get("path")}, table, mountinfo
        )
    ]


def _sysctl(items: t.Sequence[Item]) -> Found:
    found: Found = []
    for number, item in enumerate(items):
        now, left = sysctl.current(item["name"]), item["value"]
        if now != left:
            there, wanted = (_NOTHING if one is None else one for one in (now, left))
            found.append((number, ("value", there, wanted)))
    return found


def _sysctl_files(items: t.Sequence[Item]) -> Found:
    """Files of somebody else that win over ours: without them ours holds, which a run has to bring about."""
    found: Found = []
    for number, item in enumerate(items):
        key = item["key"]
        _path, now = sysctl.decided([key], [item["name"]]).get(key, ("", _NOTHING))
        if now != item["value"]:
            found.append((number, (key, now, item["value"])))
    return found


def _settings_of_tuned(items: t.Sequence[Item]) -> Found:
    now = tuning.settings_of_tuned()
    return [
        (number, ("value", now[item["name"]] or _NOTHING, item["value"] or _NOTHING))
        for number, item in enumerate(items)
        if item["name"] in now and now[item["name"]] != item["value"]
    ]


def _tuned(items: t.Sequence[Item]) -> Found:
    active, mode = tuning.active_profile()
    return [
        (number, ("profile", f"{active or 'nothing'} ({mode or 'not set'})", item["name"]))
        for number, item in enumerate(items)
        if (active, mode) != (item["name"], "manual")
    ]


# -- databases -------------------------------------------------------------------------------------------------
def _databases(items: t.Sequence[Item], key: str) -> Found:
    found: Found = []
    for number, item in enumerate(items):
        try:
            there = database.rights(item["name"], item["user"], item["socket"])
        except database.NoSuchUser:
            found.append((number, ("missing", "no such user", f"the user {item['user']}")))
            continue
        except database.DatabaseError as error:
            found.append((number, (_UNKNOWN, str(error), "a server that answers")))
            continue
        if manifest.digest(there.encode(), key) != item["digest"]:
            left = f"those of {item['user']} that were left"
            found.append((number, ("rights", "another database, user or password", left)))
    return found


# -- paths -----------------------------------------------------------------------------------------------------
def _paths(items: t.Sequence[Item], key: str, seconds: float) -> Found:
    """Ask a child about all of them: what is on a mount whose server is dead holds up only that."""

    def question(number: str) -> drift_paths.Seen:
        return drift_paths.look(items[int(number)], key)

    answers = deadline.answers(question, map(str, range(len(items))), seconds)
    silent = {"fault": f"no answer within {seconds:g} s"}
    return [
        (number, one)
        for number, item in enumerate(items)
        for one in drift_paths.differences(item, answers.get(str(number), silent))
    ]


_LOOKS: dict[str, t.Callable[[t.Sequence[Item]], Found]] = {
    "unit": _units,
    "package": _packages,
    "user": _accounts,
    "group": _accounts,
    "no user": _accounts,
    "mount": _mounts,
    "sysctl": _sysctl,
    "sysctl file": _sysctl_files,
    "tuned": _tuned,
    "setting of tuned": _settings_of_tuned,
}


def _group(kind: str) -> str:
    """Return which look is at a kind, by the first kind of that look."""
    if kind in manifest.PATHS:
        return "path"
    looks = _LOOKS.get(kind)
    return next((one for one, look in _LOOKS.items() if look is looks), kind)


def _looked(items: t.Sequence[Item], group: str, key: str, seconds: float) -> Found:
    try:
        if group == "path":
            return _paths(items, key, seconds)
        if group == "database":
            return _databases(items, key)
        if group in _LOOKS:
            return _LOOKS[group](items)
        fault = "a kind that this release does not know"
    except (KeyError, TypeError, ValueError, OSError) as error:
        # A damaged item, or a node that cannot be asked: never silence.
        fault = f"cannot be looked at: {type(error).__name__}: {error}"
    return [(number, (_UNKNOWN, fault, "what was left")) for number in range(len(items))]


def _shown(text: str) -> str:
    return one_line(text, _LONGEST)


def _difference(entry: Entry, item: Item, one: Difference) -> dict[str, str]:
    what, there, left = one
    words = {
        "kind": item["kind"],
        "name": item["name"],
        "what": what,
        "found": there,
        "left": left,
        "role": entry.manager,
        "part": entry.part,
    }
    return {name: _shown(value) for name, value in words.items()}


def _refuse_of_others(directory: str) -> None:
    """Raise OSError for a manifest that others than this user can change: it would say what they like."""
    try:
        info = os.lstat(directory)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise PermissionError(
            errno.EPERM, "is not a directory that only root can change", directory
        )


def look(directory: str = manifest.DIRECTORY, seconds: float = 30.0) -> dict[str, t.Any]:
    """Return the state of the node, its differences, and the entries that tell nothing.

    seconds: to wait for one path. Raises OSError where the manifest cannot be read.
    """
    _refuse_of_others(directory)
    found = manifest.entries(directory)
    standing = manifest.standing(found)
    key = manifest.key_of(directory)
    groups: dict[str, list[tuple[Entry, Item]]] = {}
    for entry, item in standing:
        groups.setdefault(_group(item["kind"]), []).append((entry, item))
    differences: list[dict[str, str]] = []
    # First the paths: their look forks.
    for group in sorted(groups, key=lambda name: (name != "path", name)):
        pairs = groups[group]
        if group == "unit":
            # A role may have added one of its own.
            files = [
                item["name"] for _entry, item in groups.get("path", []) if item["kind"] == "file"
            ]
            pairs = [(entry, {**item, "known": files}) for entry, item in pairs]
        for number, one in _looked([item for _entry, item in pairs], group, key, seconds):
            differences.append(_difference(*pairs[number], one))
    unknown = [
        {"role": _shown(entry.manager), "part": _shown(entry.part), "why": _shown(entry.fault)}
        for entry in found
        if entry.fault
    ]
    if not manifest_place.is_whole(directory):
        # By no call of a role: each removes the digest of all entries first.
        why = "entries were changed or removed since the last whole run"
        unknown.append({"role": "", "part": _shown(directory), "why": why})
    differences.sort(key=lambda one: json.dumps(one, sort_keys=True))
    state = AS_LEFT
    if any(one["what"] != _UNKNOWN for one in differences):
        state = DRIFTED
    elif differences or unknown or not standing:
        state = NOT_KNOWN
    return {
        "state": state,
        "differences": differences[:MOST],
        "left_out": max(0, len(differences) - MOST),
        "unknown": unknown,
        "items": len(standing),
    }


def answer(
    directory: str = manifest.DIRECTORY, seconds: float = 30.0, run: str = ""
) -> dict[str, t.Any]:
    """Return the result of a look, with the digest for which the node was set up.

    run: the run of Ansible that looks. Raises OSError where the manifest cannot be read.
    """
    # Before and after the look: what another run changes meanwhile counts.
    others, kept = manifest_place.of_others(run, directory), manifest_place.wanted(directory)
    found = look(directory, seconds)
    secrets = "" if found["left_out"] else manifest.content_of(SECRETS, directory)
    managers = {one.manager for one in manifest.entries(directory) if one.module == SECRETS}
    if any(one["role"] in managers for one in found["differences"]):
        secrets = ""
    if manifest_place.wanted(directory) != kept:
        kept = ""
    return {**found, "secrets": secrets, "digest": kept, "others": others, "run": run}


def no_answer(error: Exception, run: str = "") -> dict[str, t.Any]:
    """Return what answer() does, for a look that has failed: nothing is known."""
    why = _shown(f"{type(error).__name__}: {error}")
    return {
        "state": NOT_KNOWN,
        "differences": [],
        "left_out": 0,
        "unknown": [{"role": "", "part": "", "why": why}],
        "items": 0,
        **{"secrets": "", "digest": "", "others": NOT_COUNTED, "run": run},
    }
