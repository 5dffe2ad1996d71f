# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where a file system may be mounted. One judge for the inventory's tags, the modules of FSx and preflight. Pure.

Source of the directories: the Filesystem Hierarchy Standard 3.0.
"""

from __future__ import annotations

import re
import typing as t

#: Purposes of a mount, as in the argument specification of cluster_mounts.
PURPOSES = ("home", "shared", "scratch", "containers", "data", "checkpoints", "logs")

# Accepted by fstab, systemd and shells without quoting.
_PART = re.compile(r"[\w.+@-]+")


class Row(t.NamedTuple):
    """A directory that is not a mount point. below: which paths below it are refused too."""

    path: str
    below: str
    reason: str


#: Values of Row.below: all; those that a tag names, which more people can write than the inventory; none.
ALL, TAGGED, NONE = "all", "tagged", "none"
_PROGRAMS = "has the programs of the system"
_KERNEL = "belongs to the kernel"
TABLE = (
    Row("/", NONE, "is the root of the system"),
    Row("/bin", ALL, _PROGRAMS),
    Row("/boot", ALL, "has the kernel and its loader"),
    Row("/dev", ALL, _KERNEL),
    Row("/efi", ALL, "has the kernel and its loader"),
    Row("/etc", ALL, "has the configuration and passwords of the system"),
    Row("/home", NONE, ""),
    Row("/lib", ALL, _PROGRAMS),
    Row("/lib32", ALL, _PROGRAMS),
    Row("/lib64", ALL, _PROGRAMS),
    Row("/libx32", ALL, _PROGRAMS),
    Row("/lost+found", ALL, "belongs to the file system of the root"),
    Row("/media", NONE, ""),
    Row("/mnt", NONE, ""),
    # Sites mount /opt/apps and the like; the whole would hide what packages have installed.
    Row("/opt", NONE, "has programs that packages have installed"),
    Row("/opt/aws", ALL, "has the programs of AWS"),
    Row("/opt/parallelcluster", ALL, "has the programs of AWS ParallelCluster"),
    Row("/opt/slurm", TAGGED, "has the programs of Slurm"),
    Row("/proc", ALL, _KERNEL),
    Row("/root", ALL, "is the home of root"),
    Row("/run", ALL, "has the sockets of running services"),
    Row("/sbin", ALL, _PROGRAMS),
    Row("/srv", NONE, ""),
    Row("/sys", ALL, _KERNEL),
    Row("/tmp", ALL, "is local to each host, and is emptied when it starts"),
    Row("/usr", ALL, _PROGRAMS),
    # A disk of its own for a service is usual: /var/lib/mysql. A tag must not replace Slurm's state.
    Row("/var", TAGGED, "has the state of services"),
    Row("/var/lib", TAGGED, "has the state of services"),
    Row("/var/lib/dpkg", ALL, "has the list of packages"),
    Row("/var/lib/rpm", ALL, "has the list of packages"),
    Row("/var/lib/systemd", ALL, "has the state of the system"),
    Row("/var/log", TAGGED, "has the logs of the host"),
    Row("/var/run", ALL, "has the sockets of running services"),
    Row("/var/spool", TAGGED, "has the state of services"),
    Row("/var/tmp", ALL, "is local to each host"),
)
#: Below a directory that is refused as a whole, these are a site's own.
_EXCEPT = ("/usr/local",)


class Wrong(t.NamedTuple):
    """What is wrong with a path, and the remedy; both parts of a sentence."""

    what: str
    remedy: str


def shape_problem(path: t.Any) -> Wrong | None:
    """Return what is wrong with the form of an absolute path; a slash at its end is allowed."""
    if not isinstance(path, str) or not path.startswith("/"):
        return Wrong("is not an absolute path below /", "begin it with /")
    parts = path.rstrip("/").split("/")[1:]
    if any(part in (".", "..") for part in parts):
        return Wrong("contains . or .., which lead to another directory", "write the path itself")
    if not all(_PART.fullmatch(part) for part in parts):
        return Wrong(
            "contains characters that fstab or a shell reads as something else",
            "begin with /, and use letters, digits and ._+@-/ only",
        )
    return None


def system_directory(path: str, *, tagged: bool = False) -> Row | None:
    """Return the row of the system's directory that a path is, or is in. Arguments are those of :func:`problem_of`."""
    plain = path.rstrip("/") or "/"
    if any(plain.startswith(f"{own}/") for own in _EXCEPT):
        return None
    for row in TABLE:
        below = row.below == ALL or (tagged and row.below == TAGGED)
        if (row.reason and plain == row.path) or (below and plain.startswith(f"{row.path}/")):
            return row
    return None


def problem_of(path: t.Any, *, tagged: bool = False) -> Wrong | None:
    """Return what is wrong with a mount point, None when nothing is.

    Args:
        tagged: whether a tag names it, and not the inventory.
    """
    wrong = shape_problem(path)
    if wrong:
        return wrong
    row = system_directory(path, tagged=tagged)
    if row is None:
        return None
    return Wrong(
        f"is in the system's directory {row.path}, which {row.reason}"
        if (path.rstrip("/") or "/") != row.path
        else f"{row.reason}, so nothing may be mounted over it",
        "choose a directory of your own, such as /data",
    )


def purpose_problem(purpose: str) -> Wrong | None:
    """Return what is wrong with the purpose of a mount; an empty one is allowed."""
    if not purpose or purpose in PURPOSES:
        return None
    return Wrong("is not a purpose of a mount", f"use {', '.join(PURPOSES)}")
