# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""When plugstack.conf may include each host's own part: not before every node that Slurm knows has it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.plugstack import plugstack
from ansible_collections.trainwright.slurm.plugins.module_utils.node import spank

EARLIER = "optional /usr/lib/trainwright/spank_pyxis.so runtime_path=/run/pyxis sbatch_support=1"
NODES = [{"name": "c1", "host": "c1"}, {"name": "c2", "host": "c2"}]


def lines_of(
    current: list[str],
    *,
    own: dict[str, str],
    recorded: tuple[str, ...] = ("c1", "c2"),
    pyxis: bool = True,
) -> tuple[list[str], list[str], list[str], list[str]]:
    """The result for a controller with this plugstack.conf; own: what the hosts in this run have."""
    facts: dict[str, t.Any] = {
        host: {"containers": {"plugstack": part}} for host, part in own.items()
    }
    facts["ctl1"] = {"slurm": {"plugstack": current}}
    inputs: t.Any = {
        "settings": {"slurm_plugstack": ["optional site.so"]},
        "groups": {"slurm_pyxis": ["c1", "c2"]} if pyxis else {},
        "facts": facts,
        "record": {"nodes": {name: {} for name in recorded}},
    }
    messages: list[str] = []
    found = plugstack(inputs, NODES, ["ctl1"], messages)
    return (*found, messages)


def test_a_new_cluster_includes_it_at_once() -> None:
    lines, waits, before, messages = lines_of([], own={"c1": "", "c2": ""}, recorded=())
    assert (lines, waits, before) == (["optional site.so", spank.INCLUDE], [], []) and not messages


@pytest.mark.parametrize("current", [[], [EARLIER]])
def test_a_cluster_that_runs_jobs_waits_for_each_node(current: list[str]) -> None:
    """Without containers until now, or with the line of an earlier release."""
    lines, waits, before, messages = lines_of(current, own={"c1": "pyxis", "c2": ""})
    assert lines == ["optional site.so", spank.INCLUDE] and waits == ["c2"]
    assert before == ["optional site.so", *current] and not messages


@pytest.mark.parametrize("current", [[], [EARLIER]])
def test_it_stays_as_it_is_while_a_node_is_not_in_the_run(current: list[str]) -> None:
    lines, waits, _before, messages = lines_of(current, own={"c1": ""})
    assert lines == ["optional site.so", *current] and not waits
    assert (
        messages[0].startswith("c2: not in this run")
        and "-> run site.yml for all nodes" in messages[0]
    )


def test_once_included_it_stays_and_nothing_waits() -> None:
    lines, waits, _before, messages = lines_of([spank.INCLUDE], own={"c1": "guard"})
    assert lines == ["optional site.so", spank.INCLUDE] and not waits and not messages


def test_without_the_group_it_goes() -> None:
    assert lines_of([spank.INCLUDE], own={}, pyxis=False)[0] == ["optional site.so"]


@pytest.mark.parametrize(
    "odd", ["required /tmp/x.so", f"{EARLIER} \\", "optional /usr/lib/trainwright/spank_pyxis.so.1"]
)
def test_no_other_line_is_taken_over(odd: str) -> None:
    assert lines_of([odd], own={"c1": ""})[0] == ["optional site.so"]
