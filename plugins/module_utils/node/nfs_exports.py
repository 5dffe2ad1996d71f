# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The exports of an NFS server: one file of ours, applied without a restart, and withdrawn only when nobody uses them.

The kernel is asked which clients have files open. Exports of other files stay as they are.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import glob
import os
import re
import stat
import typing as t
from dataclasses import dataclass, field

from . import safe_path
from .services import run
from .terminal import PrintableError

FILE = "/etc/exports.d/trainwright.exports"
OTHERS = ("/etc/exports", "/etc/exports.d/*.exports")
ETAB = "/var/lib/nfs/etab"
KERNEL = "/proc/fs/nfsd"
HEADER = "# Written by trainwright.slurm (role nfs_server).\n"
VERSIONS = ("3", "4.0", "4.1", "4.2")
_SUPERBLOCK = re.compile(r'superblock: "([0-9a-f]+):([0-9a-f]+):')
_ADDRESS = re.compile(r'^address: "(.*):\d+"$', re.M)


class ExportsError(PrintableError):
    """Exports that cannot be applied; the message has the path, the cause and the remedy."""


@dataclass
class Plan:
    """The changes to make. text: the file as it should be. restart: versions take one."""

    before: str
    text: str
    write: bool = False
    export: bool = False
    threads: int = 0
    restart: bool = False
    actions: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def line_of(export: t.Mapping[str, t.Any]) -> str:
    """Return the line of an export: path, options, clients."""
    return f"{export['path']} -{','.join(export['options'])} {' '.join(export['clients'])}"


def lines_of(text: str) -> dict[str, str]:
    """Return the line of each path in a file of exports. A backslash at the end of a line continues it."""
    found = {}
    for line in text.replace("\\\n", " ").splitlines():
        words = line.partition("#")[0].split()
        if words:
            found[words[0].strip('"').rstrip("/") or "/"] = line
    return found


def read(path: str) -> str:
    """Return the text of a file, "" without it."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as handle:
            return handle.read()
    except OSError:
        return ""


def elsewhere(paths: t.Collection[str]) -> dict[str, str]:
    """Return the files of others that export one of the paths, by path."""
    found = {}
    for name in (name for pattern in OTHERS for name in sorted(glob.glob(pattern))):
        if name != FILE:
            found.update(dict.fromkeys(lines_of(read(name)).keys() & set(paths), name))
    return found


def users_of(path: str) -> list[str]:
    """Return the addresses of the clients that have files open on the file system of a path. NFS 4 only.

    Source: nfsd's files clients/ID/info and clients/ID/states in the kernel.
    """
    try:
        device = os.stat(path).st_dev
    except OSError:
        return []
    found = set()
    for place in glob.glob(f"{KERNEL}/clients/*"):
        opened = _SUPERBLOCK.findall(read(f"{place}/states"))
        address = _ADDRESS.search(read(f"{place}/info"))
        if any((int(a, 16), int(b, 16)) == (os.major(device), os.minor(device)) for a, b in opened):
            found.add(address[1] if address else "unknown")
    return sorted(found)


def other_versions(text: str, wanted: t.Collection[str]) -> list[str]:
    """Return the versions that the kernel offers and should not, or the reverse, by nfsd's file versions."""
    words = text.split()
    return [
        version for version in VERSIONS if ("-" if version in wanted else "+") + version in words
    ]


def _changed_since(path: str, than: str) -> bool:
    """Whether a file is newer than another, or the other is not there."""
    try:
        return os.stat(path).st_mtime_ns > os.stat(than).st_mtime_ns
    except FileNotFoundError:
        return os.path.exists(path)


def _is_odd(path: str) -> bool:
    """Whether a file has another owner, group or mode than we give it, or is a link."""
    info = os.lstat(path)
    rights = (info.st_uid, info.st_gid, info.st_mode)
    return rights != (os.geteuid(), os.getegid(), stat.S_IFREG | 0o644)


def plan(
    exports: t.Sequence[t.Mapping[str, t.Any]], versions: t.Collection[str], threads: int
) -> Plan:
    """Compare the file, the kernel and the exports: path, options, clients. Changes nothing.

    Raises ExportsError where somebody else's file exports one of the paths.
    """
    wanted = {export["path"]: line_of(export) for export in exports}
    taken = elsewhere(wanted)
    if taken:
        lines = ", ".join(f"{path} in {name}" for path, name in sorted(taken.items()))
        raise ExportsError(
            f"exported already, with options of its own: {lines}. Nothing was changed. Remedy: remove the line there,"
            " or take the path out of nfs_server_exports"
        )
    before = read(FILE)
    now = lines_of(before)
    found = Plan(before, "")
    for path in sorted(now.keys() - wanted.keys()):
        clients = users_of(path)
        if clients:
            wanted[path] = now[path]
            shown = ", ".join(clients[:5]) + (" and others" if len(clients) > 5 else "")
            found.warnings.append(
                f"{path} is not in nfs_server_exports any more, and stays exported, since {shown} has files open on its"
                f" file system -> end these jobs, unmount {path} on the clients, and run again"
            )
        else:
            found.actions.append(f"withdraw {path}")
            found.warnings.append(
                f"{path} is not in nfs_server_exports any more and is not exported from now on. A client that still has"
                " it mounted gets errors (stale file handle) -> unmount it there"
            )
    found.actions += [f"export {path}" for path in sorted(wanted) if now.get(path) != wanted[path]]
    found.text = HEADER + "".join(f"{wanted[path]}\n" for path in sorted(wanted))
    found.write = found.text != before or (bool(before) and _is_odd(FILE))
    if found.write and not found.actions:
        found.actions.append(f"write {FILE}")
    running = read(f"{KERNEL}/threads").strip()
    if running.isdigit() and int(running):
        there = lines_of(read(ETAB))
        # Somebody may have withdrawn one by hand.
        found.export = (
            found.text != before or _changed_since(FILE, ETAB) or bool(wanted.keys() - there.keys())
        )
        if found.export and not found.actions:
            found.actions.append("export again")
        if int(running) != threads:
            found.threads = threads
            found.actions.append(f"run {threads} threads instead of {running}")
        found.restart = bool(other_versions(read(f"{KERNEL}/versions"), versions))
    return found


def leaves(todo: Plan) -> list[dict[str, t.Any]]:
    """Return the file as a plan leaves it: an item of the manifest."""
    data = todo.text.encode("utf-8", errors="surrogateescape")
    return [{"kind": "file", "name": FILE, "uid": 0, "gid": 0, "mode": 0o644, "data": data}]


def apply(todo: Plan, exports: t.Sequence[t.Mapping[str, t.Any]]) -> None:
    """Write the file, and have the kernel's server follow it. Raises ExportsError with the words of exportfs."""
    if todo.write:
        with safe_path.replacing(FILE, 0o644, make=0o755) as stream:
            stream.write(todo.text.encode("utf-8", errors="surrogateescape"))
    if todo.export:
        done = run(["exportfs", "-ra"])
        there = lines_of(read(ETAB))
        lacking = [export["path"] for export in exports if export["path"] not in there]
        if done.returncode or lacking:
            words = " | ".join(done.stderr.split("\n")[:3]).strip(" |") or "no message"
            raise ExportsError(
                f"exportfs -ra: exit {done.returncode}: {words}; not exported: {', '.join(lacking) or 'unknown'}."
                f" Remedy: correct what it names in {FILE} by nfs_server_exports, or in /etc/exports, and run again"
            )
    if todo.threads:
        with open(f"{KERNEL}/threads", "w", encoding="ascii") as handle:
            handle.write(f"{todo.threads}\n")
