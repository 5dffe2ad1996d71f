# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Programs that Slurm runs around jobs and that are not the same on all nodes, or that nobody declared.

`scan` reads them on a node, and `drift` compares nodes. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import glob
import hashlib
import os
import pwd
import stat
import typing as t

from ..node import slurm_places
from ..slurm.hostlist import fold

#: The directory of role job_hooks, which no site's script belongs into.
DIRECTORY = "/usr/lib/trainwright/hooks"
#: Options of slurm.conf whose programs run on nodes, and their kinds.
OPTIONS = ("Prolog", "Epilog", "TaskProlog", "TaskEpilog")
_DRAINS = ("Prolog", "Epilog")
_KINDS = ("prolog", "epilog", "task_prolog", "prolog_slurmctld", "epilog_slurmctld")

#: Bytes of a program that are read.
_MOST = 64 << 20

Found = t.Mapping[str, t.Any]


def _entry(option: str, name: str, path: str, root: str) -> dict[str, t.Any]:
    """Return one program. name: the same on all nodes, also where the directory of its path is not."""
    real = os.path.join(root, path.lstrip("/"))
    entry: dict[str, t.Any] = {"option": option, "name": name, "digest": "", "writable": ""}
    try:
        # A pipe or a device, which whoever can write there may have put there, must not hold this up.
        handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode):
                return {**entry, "error": "is not a file"}
            if info.st_size > _MOST:
                return {**entry, "error": f"has more than {_MOST >> 20} MiB"}
            with open(handle, "rb", closefd=False) as file:
                entry["digest"] = hashlib.sha256(file.read(_MOST)).hexdigest()
        finally:
            os.close(handle)
    except OSError as error:
        return {**entry, "writable": "", "digest": "", "error": error.strerror or "cannot be read"}
    if info.st_uid != os.geteuid() and info.st_uid:
        try:
            entry["writable"] = pwd.getpwuid(info.st_uid).pw_name
        except KeyError:
            entry["writable"] = f"user {info.st_uid}"
    elif info.st_mode & 0o022:
        entry["writable"] = "others than its owner"
    return entry


def scan(
    prefix: str = "", declared: t.Sequence[str] = (), root: str = "/"
) -> list[dict[str, t.Any]]:
    """Return the programs of this node: those that slurm.conf names, the role's directory, and the declared ones."""
    config = slurm_places.slurm_places(root, prefix)["config_dir"]
    conf = slurm_places.slurm_conf(config, root)
    found = []
    for option in OPTIONS:
        for pattern in slurm_places.scripts(conf, option):
            if not pattern.startswith("/"):
                continue  # slurmctld hands it out, so all nodes have the same
            base = os.path.join(root, pattern.lstrip("/"))
            for real in sorted(glob.glob(base)):
                path = "/" + os.path.relpath(real, root)
                if os.path.dirname(path) != DIRECTORY:
                    found.append(_entry(option, path, path, root))
    directory = os.path.join(root, DIRECTORY.lstrip("/"))
    if os.path.isdir(directory):
        for name in sorted(os.listdir(directory)):
            found.append(_entry("ours", f"{DIRECTORY}/{name}", f"{DIRECTORY}/{name}", root))
    found += [_entry("declared", path, path, root) for path in declared]
    return found


def drift(
    nodes: t.Mapping[str, t.Sequence[Found]],
    declared: t.Collection[str] = (),
    silent: t.Collection[str] = (),
) -> list[str]:
    """Return what differs between nodes, a line each with its remedy.

    nodes: host -> what scan found there. declared: paths in job_hooks_parts. silent: hosts that did not answer.
    """
    by_program: dict[tuple[str, str], dict[str, Found]] = {}
    for host, entries in nodes.items():
        for entry in entries:
            by_program.setdefault((str(entry["option"]), str(entry["name"])), {})[host] = entry
    lines = [
        line
        for key, found in sorted(by_program.items())
        for line in _of(key, found, nodes, declared)
    ]
    if silent:
        lines.append(
            f"{fold(silent)}: did not answer, so its hooks are unknown -> start it, and run this again"
        )
    return lines


def _of(
    key: tuple[str, str],
    found: t.Mapping[str, Found],
    nodes: t.Collection[str],
    declared: t.Collection[str],
) -> t.Iterator[str]:
    option, path = key
    name = os.path.basename(path)
    what = f"{option} {path}" if option in OPTIONS else path
    harm = ", and drains the node if it fails" if option in _DRAINS else ""
    if option == "ours" and name not in _KINDS:
        yield (
            f"{fold(found)}: {what}: somebody put it there; no hook runs it -> remove it, or declare it in"
            " job_hooks_parts"
        )
        return
    there = {host: entry for host, entry in found.items() if entry["digest"]}
    lacking = [host for host in nodes if host not in there]
    mine = path in declared and option in OPTIONS
    if not there:
        yield f"{fold(found)}: {what}: {_why(found)} -> install it on all nodes, or take it out of the inventory"
    elif lacking and len(lacking) < len(there):
        yield (
            f"{fold(lacking)}: {what}: is missing, and the other nodes have it -> run site.yml for all nodes, or"
            " install it there"
        )
    elif lacking and not mine:
        yield (
            f"{fold(there)}: {what}: is not on the other nodes{harm} -> remove it there, or declare it in"
            " job_hooks_parts"
        )
    by_digest: dict[str, list[str]] = {}
    for host, entry in there.items():
        by_digest.setdefault(str(entry["digest"]), []).append(host)
    if len(by_digest) > 1:
        most = max(by_digest.values(), key=len)
        others = [host for hosts in by_digest.values() if hosts is not most for host in hosts]
        yield (
            f"{fold(others)}: {what}: differs from that of {fold(most)}{harm} -> compare them, and write one for"
            " all nodes"
        )
    writable = {host: str(entry["writable"]) for host, entry in there.items() if entry["writable"]}
    if writable:
        who = ", ".join(sorted(set(writable.values())))
        yield f"{fold(writable)}: {what}: {who} can change it, and root runs it -> chown root, chmod 755"


def _why(found: t.Mapping[str, Found]) -> str:
    return ", ".join(sorted({str(entry.get("error") or "is missing") for entry in found.values()}))
