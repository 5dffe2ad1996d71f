# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which nodes slurm_new_nodes holds, and what it asks of Slurm."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import first_checks
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import (
    Configuration,
    Node,
    Reservation,
)
from ansible_collections.trainwright.slurm.plugins.modules import slurm_new_nodes

OLD = Node("c1", "IDLE", version="24.11", boot_time=1000)
NEW = Node("c2", "DOWN", ("NOT_RESPONDING",))


class Slurm:
    """A Slurm with nodes and reservations; changes are noted."""

    def __init__(self, *nodes: Node, held: str = "") -> None:
        self.known, self.held = list(nodes), held
        self.calls: list[t.Any] = []

    def nodes(self) -> list[Node]:
        return self.known

    def reservations(self) -> list[Reservation]:
        return [Reservation(first_checks.NAME, nodes=self.held)] if self.held else []

    def configuration(self) -> Configuration:
        return Configuration({"SlurmUser": "slurm(64030)"}, {})

    def __getattr__(self, name: str) -> t.Any:
        return lambda *given: self.calls.append((name, *given))


def hold(slurm: Slurm, *names: str, check: bool = False) -> tuple[bool, list[str]]:
    return slurm_new_nodes.hold(t.cast("t.Any", slurm), set(names), check)


def test_only_a_node_that_slurm_has_never_seen_is_held() -> None:
    slurm = Slurm(OLD, NEW)
    assert hold(slurm, "c1", "c2") == (True, ["c2"])
    ((name, reservation, settings),) = slurm.calls
    assert (name, reservation) == ("create_reservation", "trainwright_first_checks")
    assert settings["Nodes"] == "c2" and settings["Users"] == "slurm,root"
    assert settings["Flags"] == "IGNORE_JOBS,OVERLAP"


def test_it_adds_to_those_that_are_held_and_changes_nothing_twice() -> None:
    slurm = Slurm(OLD, NEW, Node("c3", "UNKNOWN"), held="c3,gone")
    assert hold(slurm, "c1", "c2", "c3") == (True, ["c2", "c3"])
    assert slurm.calls == [("update_reservation", "trainwright_first_checks", {"Nodes": "c[2-3]"})]
    slurm = Slurm(OLD, NEW, held="c2")
    assert hold(slurm, "c1", "c2") == (False, ["c2"]) and not slurm.calls


@pytest.mark.parametrize(
    "node",
    [
        Node("c2", "DOWN", ("NOT_RESPONDING",), version="24.11"),
        Node("c2", "DOWN", boot_time=1000),
        Node("c2", "DOWN", extra='{"tw":1}'),
        Node("c2", "IDLE", ("CLOUD", "POWERED_DOWN")),
        Node("c2", "FUTURE"),
    ],
)
def test_a_node_that_is_down_or_off_is_not_new(node: Node) -> None:
    slurm = Slurm(node)
    assert hold(slurm, "c2") == (False, []) and not slurm.calls


def test_check_mode_says_what_would_be_held_and_changes_nothing() -> None:
    slurm = Slurm(OLD, NEW)
    assert hold(slurm, "c1", "c2", "c9", check=True) == (True, ["c2", "c9"])
    assert hold(slurm, "c1", check=True) == (False, []) and not slurm.calls


def test_no_line_about_no_node() -> None:
    assert first_checks.line([]) == ""
    assert "c[1-2] -> the agent gives them" in first_checks.line(["c1", "c2"])
