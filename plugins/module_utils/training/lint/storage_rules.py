# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Paths of a script on storage that the cluster does not mount. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import os
import re
import typing as t

from ...slurm.batch import shell
from ...slurm.batch.script import Script
from .rule import COMMENT, Cluster, Found, placeholder, rule

# An absolute path: not the end of a relative one, of an address, or of a variable's value, and not a path inside a
# container (SOURCE:TARGET).
_PATH = re.compile(r"(?<![\w./:~}*)@-])/[\w.+@-]+(?:/[\w.+@-]+)*")
_SOURCES = re.compile(r"--container-mounts[= ]([^\s\"']+)")
_NUMBERED = re.compile(r"(/.*?[A-Za-z_-])(\d+)")
#: Directories of every system; a container may bring its own.
_SYSTEM = frozenset(
    "bin boot dev etc home lib lib32 lib64 libx32 media mnt opt proc root run sbin srv sys tmp usr var".split()
)

#: Names that sites give shared storage; a directory of this name that is not mounted is on no node.
_SHARED = re.compile(r"(fsx|lustre|gpfs|beegfs|efs|weka|wekafs|vast|nfs|cephfs|fss)\d*")


def _is_on(path: str, mounts: t.Iterable[str]) -> bool:
    return any(path == mount or path.startswith(f"{mount.rstrip('/')}/") for mount in mounts)


def _siblings(path: str, mounts: t.Collection[str]) -> str:
    """Return the place that a path would be mounted on as its numbered siblings are (/fsx4 beside /fsx1), else ""."""
    stems = {found[1] for mount in mounts if (found := _NUMBERED.fullmatch(mount))}
    parts = path.split("/")[1:]
    for count in range(1, len(parts) + 1):
        place = "/" + "/".join(parts[:count])
        found = _NUMBERED.fullmatch(place)
        if found and found[1] in stems:
            return place
    return ""


@rule("mount-missing", "error", "a path on storage that the cluster does not mount")
def _missing(script: Script, cluster: Cluster) -> Found:
    mounts = cluster.mounts
    if not mounts:
        return
    there = cluster.directory_exists or (lambda path: False)
    told: set[str] = set()
    inside = {
        one.split(":")[1].split("/")[1]
        for given in _SOURCES.findall(script.text)
        for one in given.split(",")
        if re.match(r"[^:]+:/\w", one)
    }
    for number, line in enumerate(script.lines, 1):
        text = COMMENT.sub("", line)
        bound = {
            one.partition(":")[0] for given in _SOURCES.findall(text) for one in given.split(",")
        }
        for path in [*_PATH.findall(text), *sorted(one for one in bound if _PATH.fullmatch(one))]:
            if _is_on(path, mounts):
                continue
            top = path.split("/")[1]
            shared = _SHARED.fullmatch(top) and top not in inside
            place = _siblings(path, mounts) or (
                f"/{top}" if (path in bound and top not in _SYSTEM) or shared else ""
            )
            if not place or place in told or there(place):
                continue
            told.add(place)
            yield (
                number,
                f"{place} is not one of the cluster's mounts ({', '.join(sorted(mounts))}), so the nodes do not have "
                f"{path}, or have it on their own disks",
                "use one of these mounts, or have an administrator add it to cluster_mounts",
            )


_CONTAINER = re.compile(
    r"container-image|\b(singularity|apptainer|docker|podman|enroot|ch-run|shifter)\b"
)
_RUNS = re.compile(r"(?:python[\d.]*|bash|sh)$")
#: Commands after which a relative path is somewhere else, or a file may be there that is not yet.
_MOVES = frozenset("cd pushd git wget curl tar unzip cp rsync aws gsutil mv ln".split())


@rule("program-missing", "warning", "a script that does not exist on this host")
def _program(script: Script, cluster: Cluster) -> Found:
    if cluster.file_exists is None or _CONTAINER.search(script.text):
        return
    base = os.path.join(cluster.workdir, script.value("chdir") or "")
    moved = any(command.name in _MOVES for command in script.commands)
    made = {
        target for command in script.commands for sign, target in command.redirects if ">" in sign
    }
    for command in script.commands:
        path = (
            ""
            if command.function
            else script_of([shell.plain(word.text) for word in command.words])
        )
        if not path or path in made or placeholder(path) or (moved and not os.path.isabs(path)):
            continue
        whole = os.path.normpath(os.path.join(base, path))
        if os.path.isabs(whole) and not cluster.file_exists(whole):
            yield (
                command.line,
                f"{whole} does not exist here",
                "correct the path, or run sbatch in its directory",
            )
            return


def script_of(words: t.Sequence[str]) -> str:
    """Return the file that a command has Python or a shell run; "" where the text does not say."""
    for place, word in enumerate(words[:-1]):
        if _RUNS.fullmatch(word.rpartition("/")[2]):
            rest = words[place + 1 :]
            while rest and re.fullmatch(r"-[uBEOsSIxel]+", rest[0]):
                rest = rest[1:]
            path = rest[0] if rest else ""
            return path if re.fullmatch(r"[\w./@+ -]+\.(py|sh)", path) else ""
    return ""
