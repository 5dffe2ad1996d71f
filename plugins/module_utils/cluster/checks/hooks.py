# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Job hooks: their parts, and what the site's own slurm_conf has for the same options."""

from __future__ import annotations

import typing as t

from ...hooks import plan
from ...slurm.conf import pairs
from ...slurm.releases import major_minor
from ..hooks import own_programs
from ..inputs import CLUSTER, Problem, cluster_version, members, seen
from .programs import is_missing

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs

_NO_HOLD = "nohold_on_prolog_fail"
_TIMEOUTS = {
    "prologepilogtimeout": plan.ON_NODES,
    "prologtimeout": ("prolog",),
    "epilogtimeout": ("epilog",),
    "batchstarttimeout": ("prolog",),
}


def job_hooks(inputs: Inputs) -> Iterator[Problem]:
    """Each part can run, and Slurm gives the hooks their time."""
    settings = inputs["settings"]
    if not members(inputs, plan.GROUP):
        return
    found = [*plan.problems(settings)]
    yield from (Problem(CLUSTER, *problem) for problem in found)
    if found:
        return
    parts = plan.parts_of(settings)
    version = major_minor(cluster_version(inputs))
    kinds = {part.kind for part in parts}
    theirs = own_programs(settings)
    for kind in sorted(kinds):
        option = plan.OPTIONS[kind]
        if option in theirs and (version < plan.SEVERAL or kind == "task_prolog"):
            yield Problem(
                CLUSTER,
                f"slurm_conf.{option}",
                f"Slurm {version[0]}.{version[1]:02d} runs one {option}, and role job_hooks has one",
                f"take it out, and add {{name: site, kind: {kind}, path: {theirs[option]}, order: 1}} to"
                " job_hooks_parts",
            )
    drains = any(part.policy == "drain" and part.kind == "prolog" for part in parts)
    given = {str(key).lower(): (key, value) for key, value in settings["slurm_conf"].items()}
    key, words = given.get("schedulerparameters", ("", None))
    if drains and words is not None and _NO_HOLD not in pairs.text_of(words).lower().split(","):
        yield Problem(
            CLUSTER,
            f"slurm_conf.{key}",
            f"lacks {_NO_HOLD}, so Slurm would hold each job that a part with the policy drain stops",
            "add this word",
        )
    for name, these in _TIMEOUTS.items():
        key, value = given.get(name, ("", None))
        needed = max(plan.seconds(parts, kind) for kind in these)
        if str(value or "").isdigit() and int(value) < needed:
            yield Problem(
                CLUSTER,
                f"slurm_conf.{key}",
                f"{value} s is less than the deadlines of the parts of role job_hooks together",
                f"write at least {needed}, or shorter deadlines in job_hooks_parts",
            )


def hook_programs(inputs: Inputs) -> Iterator[Problem]:
    """The program of a part that drains is there: without it, the first job would drain the node."""
    if not members(inputs, plan.GROUP):
        return
    for index, part in enumerate(inputs["settings"].get("job_hooks_parts") or []):
        path, policy = str(part.get("path") or ""), str(part.get("policy") or "warn")
        if not path or policy == "warn":
            continue
        for host, facts in seen(inputs, plan.group_of(part.get("kind"))):
            if is_missing(inputs, facts, path):
                yield Problem(
                    host,
                    f"job_hooks_parts[{index}].path",
                    f"{path} is not on this host, and its policy is {policy}",
                    "install it first, or give the script as file or text",
                )


CHECKS: tuple[Check, ...] = (job_hooks, hook_programs)
