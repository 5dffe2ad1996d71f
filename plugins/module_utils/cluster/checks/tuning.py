# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tuning of compute nodes: values that can be set, on nodes with a kernel of their own."""

from __future__ import annotations

import typing as t

from ...hooks.plan import GROUP as HOOKS
from .. import tuning
from ..inputs import CLUSTER, Problem, members, seen

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs

#: Variables by which a site asks for something itself; the defaults simply do not apply to containers.
_ASKED = (
    "node_tuning_sysctl",
    "node_tuning_hugepages",
    "node_tuning_transparent_hugepages",
    "node_tuning_kernel_arguments",
)


def node_tuning(inputs: Inputs) -> Iterator[Problem]:
    """Each value can be meant, and the nodes can have it."""
    settings = inputs["settings"]
    found = [*tuning.problems(settings)]
    yield from (Problem(CLUSTER, *problem) for problem in found)
    if found:
        return
    hook = str(settings.get("job_hooks_cpu_governor") or "")
    own = str(settings.get("node_tuning_cpu_governor") or "")
    ours = settings.get("node_tuning_profile") in (tuning.AUTO, tuning.TAKE)
    # Role job_hooks has a check of its own for one that is none.
    both = own and tuning.GOVERNOR.fullmatch(hook)
    if members(inputs, HOOKS) and ours and both and hook != own:
        yield Problem(
            CLUSTER,
            "job_hooks_cpu_governor",
            f"is {hook}, and node_tuning_cpu_governor {own}: the first job of a node would change it for good",
            "write the same, or leave one of the two empty",
        )
    for host, facts in seen(inputs, "slurm_compute"):
        if facts.get("virtualization") == "container":
            for name in _ASKED:
                if settings.get(name):
                    yield Problem(
                        host,
                        name,
                        "this node is a container, and its kernel is that of its host",
                        "tune the host, and take it out",
                    )
        else:
            for problem in tuning.host_problems(facts, settings):
                yield Problem(host, *problem)


CHECKS: tuple[Check, ...] = (node_tuning,)
