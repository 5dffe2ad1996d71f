# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The Python environments that a job names, and why they cannot be used. Nothing in them is executed.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import platform
import re
import typing as t
from pathlib import Path

from ...node import acting
from ..job.schema import Job

_PATH = r"(?:~|\$HOME|\$\{HOME\})?[\w./@+-]*"
_ACTIVATED = re.compile(rf"(?:^|[;&|({{\n]|\s)(?:source|\.)\s+[\"']?({_PATH}/?bin/activate)\b")
_PROGRAM = re.compile(
    rf"(?:^|[;&|(\n]|\s)[\"']?({_PATH}/bin/(?:python[\d.]*|torchrun|accelerate|deepspeed))(?=[\s\"';&|)]|$)"
)
_COMMENT = re.compile(r"(?:^|\s)#.*")
#: Lines that may make an environment, or that run only where it exists.
_MAKES = re.compile(
    r"\b(?:venv|virtualenv|conda|mamba|micromamba|uv|tar|unzip|rsync|cp|mv|ln|git|mount|cd|pushd|if|test)\b|\[|\|\|"
)


def faults(job: Job, mounts: t.Collection[str]) -> list[str]:
    """Return why a job cannot use the Python environments that it names, a line each.

    Looks at paths on storage that this host shares with the nodes: below the home, and below mounts, paths of file
    systems that all nodes mount. An environment that the job may make first is not looked for, nor one in a container.
    """
    inside = bool(job.container)
    command = "" if inside and job.launcher != "batch" else job.command
    named: dict[str, str] = {}
    for key, text in (("hooks.pre", job.pre), ("command", command)):
        made = ""
        for line in _COMMENT.sub("", text).splitlines():
            if not _MAKES.search(re.sub(_PATH + r"/[\w./@+-]*", "", made + line)):
                found = _ACTIVATED.findall(line)
                found += _PROGRAM.findall(line) if key == "command" else []
                named.update({path: key for path in reversed(found)})
            made += f"{line}\n"
    own = str(job.environment.get("VIRTUAL_ENV") or "")
    if own and not inside:
        named.setdefault(f"{own.rstrip('/')}/bin/activate", "environment.VIRTUAL_ENV")
    shared = [*mounts, str(Path.home())]
    return [
        f"job {job.name}.{key}: {why}"
        for path, key in named.items()
        if (whole := _whole(path, job)) and _below(whole, shared) and (why := _fault(whole))
    ]


def _whole(path: str, job: Job) -> str:
    """Return a path as the batch script means it, "" where that is not known."""
    path = re.sub(r"\A(?:~|\$HOME|\$\{HOME\})(?=/)", str(Path.home()), path)
    if not path.startswith("/"):
        # A task of a sweep has its own working directory.
        if path.startswith(("~", "$")) or not job.workdir or job.sweep:
            return ""
        path = f"{job.workdir}/{path}"
    return os.path.normpath(path)


def _below(path: str, places: t.Iterable[str]) -> bool:
    return any(path.startswith(f"{place.rstrip('/')}/") for place in places if place)


def _fault(path: str) -> str:
    """Return why an environment cannot be used, by the path of its activate or of a program in it; "" if it can."""
    directory = os.path.dirname(os.path.dirname(path))
    where = f"(looked on {platform.node()} as {acting.user_name(os.geteuid())})"
    make = f"correct the path, or make the environment: python3 -m venv {directory}"
    if not os.path.exists(path):
        above = path
        while not os.path.lexists(above):
            above = os.path.dirname(above)
        if above != path and not os.access(above, os.X_OK, effective_ids=True):
            return f"{path} cannot be looked up: {above} is closed to you {where} -> ask its owner for the right"
        if os.path.islink(above) and above != path:
            return ""  # of the nodes' own disks, perhaps
        if above == path:
            return _broken(path, where, make)
        return f"{path} does not exist {where} -> {make}"
    if os.path.basename(path) != "activate":
        return _no_program(path, where)
    programs = [os.path.join(directory, "bin", name) for name in ("python", "python3")]
    there = [one for one in programs if os.path.lexists(one)]
    if not there:
        conda = os.path.isdir(os.path.join(directory, "conda-meta"))
        return "" if conda else f"{programs[0]} does not exist {where} -> {make}"
    return (
        _no_program(there[0], where) if os.path.exists(there[0]) else _broken(there[0], where, make)
    )


def _broken(path: str, where: str, make: str) -> str:
    """Return the fault of a link to nothing; "" where its end may be on the nodes' own disks."""
    end = os.path.realpath(path)
    top = os.path.dirname(os.path.dirname(path))
    return (
        f"{path} is a link to {end}, which does not exist {where} -> {make}"
        if _below(end, [top])
        else ""
    )


def _no_program(path: str, where: str) -> str:
    if os.path.isfile(path) and os.access(path, os.X_OK, effective_ids=True):
        return ""
    what = "is not executable" if os.path.isfile(path) else "is not a file"
    mode = f", its mode is {os.stat(path).st_mode & 0o7777:04o}"
    return f"{path} {what}{mode} {where} -> make it executable for you (chmod +x), or make the environment again"
