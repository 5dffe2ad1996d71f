# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The parts of each job hook, from the role's switches and the site's own list, and what slurm.conf needs for them.

Pure. docs/job_hooks.md has the table of the shipped parts.
"""

from __future__ import annotations

import re
import typing as t

from .drift import DIRECTORY

GROUP = "slurm_job_hooks"

#: Kind -> its option in slurm.conf.
OPTIONS = {
    "prolog": "Prolog",
    "epilog": "Epilog",
    "task_prolog": "TaskProlog",
    "prolog_slurmctld": "PrologSlurmctld",
    "epilog_slurmctld": "EpilogSlurmctld",
}
ON_NODES = ("prolog", "epilog")
ON_CONTROLLERS = ("prolog_slurmctld", "epilog_slurmctld")
#: Kind -> the policies that a part of it can have. A Prolog cannot requeue a job without draining the node (tried with
#: 24.11), slurmctld only logs an Epilog of its own that fails, and a TaskProlog that fails would end the user's task.
POLICIES = {
    "prolog": ("drain", "warn"),
    "epilog": ("drain", "warn"),
    "task_prolog": ("warn",),
    "prolog_slurmctld": ("requeue", "warn"),
    "epilog_slurmctld": ("warn",),
}
#: slurmctld hands out Prolog and Epilog that are named without a path from 23.11 on (its RELEASE_NOTES: "Added ability
#: for configless to push Prolog and Epilog scripts to slurmds"; commit 0178bfbcfb), TaskProlog from 25.11 on.
HANDED_OUT = (23, 11)
#: From 24.05 on slurm.conf may have several lines of each (commit ce7b61f6a6); before, the last one counts.
SEVERAL = (24, 5)
#: PrologTimeout and EpilogTimeout take the place of PrologEpilogTimeout from 25.05 on (slurm.conf(5)).
SPLIT = (25, 5)
#: Seconds besides the deadlines: the start of the program, its results, the note to the user.
MARGIN = 15
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_MOST = 600
#: Directories in which any user can make a link.
_OF_USERS = ("/tmp/", "/var/tmp/", "/dev/shm/")
_GPUS = "SLURM_JOB_GPUS"


def group_of(kind: object) -> str:
    """Return the group of the hosts that run a kind of hook."""
    return "slurm_controller" if kind in ON_CONTROLLERS else "slurm_compute"


class Part(t.NamedTuple):
    """One part of one hook. Exactly one of shipped (the name of ours), path, file and text is given."""

    name: str
    kind: str
    order: int
    deadline: float
    policy: str
    remedy: str = ""
    shipped: str = ""
    options: tuple[tuple[str, t.Any], ...] = ()
    needs: str = ""
    path: str = ""
    file: str = ""
    text: str = ""


class Shipped(t.NamedTuple):
    """A part that the collection has: the variable that switches it, its kinds and orders, its deadline in s."""

    variable: str
    kinds: tuple[tuple[str, int], ...]
    deadline: float
    remedy: str
    #: variable of the job without which there is nothing to do
    needs: str = ""


SHIPPED: dict[str, Shipped] = {
    "job_processes": Shipped(
        "job_hooks_end_processes",
        (("epilog", 10),),
        5,
        "end the process that is named, or reboot this node",
    ),
    "gpu": Shipped(
        "job_hooks_gpu",
        (("prolog", 20), ("epilog", 20)),
        10,
        "end what uses the GPU, or look at nvidia-smi -q on this node",
        _GPUS,
    ),
    "gpu_mig": Shipped(
        "job_hooks_mig", (("prolog", 15),), 10, "set the MIG mode of the GPU", _GPUS
    ),
    "gpu_mps": Shipped(
        "job_hooks_mps",
        (("prolog", 30), ("epilog", 30), ("task_prolog", 30)),
        10,
        "look at nvidia-cuda-mps-control on this node",
        _GPUS,
    ),
    "cpu_governor": Shipped(
        "job_hooks_cpu_governor", (("prolog", 40),), 3, "set the governor of the CPUs"
    ),
    "dcgm_job_map": Shipped(
        "job_hooks_dcgm_directory",
        (("prolog", 50), ("epilog", 50)),
        3,
        "look at the directory of job_hooks_dcgm_directory",
        _GPUS,
    ),
    "enroot": Shipped(
        "job_hooks_enroot", (("epilog", 60),), 20, "remove what the job's containers have left"
    ),
    "page_cache": Shipped(
        "job_hooks_drop_page_cache", (("epilog", 90),), 20, "look at the storage of this node"
    ),
}


def parts_of(settings: t.Mapping[str, t.Any]) -> list[Part]:
    """Return all parts, in the order in which they run. Settings are valid (problems)."""
    policies = settings.get("job_hooks_policies") or {}
    found = []
    for name, one in SHIPPED.items():
        value = settings.get(one.variable)
        if not value:
            continue
        found += [
            Part(
                name,
                kind,
                order,
                one.deadline,
                policies.get(name, "warn") if kind in ON_NODES else "warn",
                one.remedy,
                shipped=name,
                options=(("kind", kind), ("value", value)),
                needs=one.needs if kind in ON_NODES else "",
            )
            for kind, order in one.kinds
        ]
    for given in settings.get("job_hooks_parts") or []:
        found.append(
            Part(
                str(given["name"]),
                str(given["kind"]),
                int(given.get("order", 70)),
                float(given.get("deadline", 5)),
                str(given.get("policy") or "warn"),
                str(given.get("remedy") or ""),
                path=str(given.get("path") or ""),
                file=str(given.get("file") or ""),
                text=str(given.get("text") or ""),
            )
        )
    return sorted(found, key=lambda part: (part.kind, part.order, part.name))


def script_fault(text: str) -> tuple[str, str]:
    """Return what is wrong with the text of a script, and the remedy; ("", "") for one that can be run.

    Each of these would fail on every node alike, and so drain all of them.
    """
    first = text.partition("\n")[0]
    if not text.strip():
        return "is empty", "write a script"
    if "\0" in text:
        return "has a null byte", "write a script as text"
    if "\r\n" in text:
        return "has line ends of Windows, which its interpreter does not know", "write it with LF"
    if first.startswith("#!") and not first[2:].strip().startswith("/"):
        return (
            f"begins with {first!r}, which does not name an interpreter",
            "write its absolute path, such as #!/bin/bash",
        )
    return "", ""


def problems(settings: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, str, str]]:
    """Yield (variable, what is wrong, remedy) for the settings of the role."""
    for name, policy in (settings.get("job_hooks_policies") or {}).items():
        where = f"job_hooks_policies.{name}"
        if name not in SHIPPED:
            yield where, "is not a part of this collection", f"one of {', '.join(SHIPPED)}"
        elif policy not in POLICIES["prolog"]:
            yield where, f"{policy!r} is not a policy", "write drain or warn"
    governor = str(settings.get("job_hooks_cpu_governor") or "")
    if governor and not re.fullmatch(r"[a-z_]{1,30}", governor):
        yield "job_hooks_cpu_governor", f"{governor!r} is not a governor", "write one word"
    directory = str(settings.get("job_hooks_dcgm_directory") or "")
    if directory and not re.fullmatch(r"(/[\w.@+-]+){2,}", directory):
        yield (
            "job_hooks_dcgm_directory",
            f"{directory!r} is not a directory of its own",
            "write an absolute path, such as /run/trainwright/dcgm-jobs",
        )
    if directory.startswith(_OF_USERS):
        yield (
            "job_hooks_dcgm_directory",
            f"{directory} is where users can write, and root works there for each job",
            "write another directory, such as /run/trainwright/dcgm-jobs",
        )
    seen: set[tuple[str, str]] = set()
    for index, given in enumerate(settings.get("job_hooks_parts") or []):
        where = f"job_hooks_parts[{index}]"
        name, kind = str(given.get("name")), str(given.get("kind"))
        if not _NAME.fullmatch(name):
            yield (
                f"{where}.name",
                f"{name!r} is not a name of a part",
                "write lower-case letters, digits and _, at most 32, a letter first",
            )
        if name in SHIPPED:
            yield f"{where}.name", f"{name} is a part of this collection", "take another name"
        if (kind, name) in seen:
            yield f"{where}.name", f"{kind} has two parts {name}", "take another name"
        seen.add((kind, name))
        policy = str(given.get("policy") or "warn")
        if kind in POLICIES and policy not in POLICIES[kind]:
            yield (
                f"{where}.policy",
                f"a part of {kind} cannot {policy}",
                f"write {' or '.join(POLICIES[kind])}",
            )
        sources = [key for key in ("path", "file", "text") if given.get(key)]
        if len(sources) != 1:
            yield (
                where,
                f"has {' and '.join(sources) or 'no program'}",
                "write one of file (beside the inventory), text, and path (of a program on the nodes)",
            )
        if given.get("text"):
            what, remedy = script_fault(str(given["text"]))
            if what:
                yield f"{where}.text", what, remedy
        path = str(given.get("path") or "/")
        if not re.fullmatch(r"(/[\w.@+-]+)+|/", path) or "/../" in f"{path}/":
            yield f"{where}.path", f"{path!r} is not an absolute path", "write it from / on"
        deadline = float(given.get("deadline", 5))
        if not 0 < deadline <= _MOST:
            yield (
                f"{where}.deadline",
                f"{deadline:g} is not a deadline",
                f"write seconds, more than 0 and at most {_MOST}",
            )


def seconds(parts: t.Iterable[Part], kind: str) -> int:
    """Return the time that Slurm must give a hook: all of its deadlines and a margin. 0 without a part."""
    own = [part.deadline for part in parts if part.kind == kind]
    return int(sum(own) + 0.999) + MARGIN if own else 0


def needs_file(kind: str, version: tuple[int, int]) -> bool:
    """Whether every compute node must have the program before slurm.conf may name it."""
    return kind == "task_prolog" or (kind in ON_NODES and version < HANDED_OUT)


def place_of(kind: str, version: tuple[int, int]) -> str:
    """Return how slurm.conf names the program of a hook."""
    if kind in ON_NODES and version >= HANDED_OUT:
        return f"trainwright-{kind}"
    return f"{DIRECTORY}/{kind}"


def settings_of(
    parts: t.Sequence[Part], version: tuple[int, int], others: t.Collection[str], batch: int
) -> list[list[str]]:
    """Return the settings of slurm.conf that the hooks need, besides their own lines.

    others: options for which the site has a program of its own, whose time is not known. batch: the BatchStartTimeout
    that is set.
    """
    before, after = (seconds(parts, kind) for kind in ON_NODES)
    controller = [seconds(parts, kind) for kind in ON_CONTROLLERS]
    found = []
    if not others:
        longest = (max(before, controller[0]), max(after, controller[1]))
        if version >= SPLIT:
            found += [
                [name, str(value)]
                for name, value in zip(("PrologTimeout", "EpilogTimeout"), longest)
                if value
            ]
        elif max(longest):
            found.append(["PrologEpilogTimeout", str(max(longest))])
    if before > batch:
        found.append(["BatchStartTimeout", str(before)])
    return found
