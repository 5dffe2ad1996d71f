# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A validation drains no more nodes than the cap allows, and only nodes that Slurm knows."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.filter.drains_within_cap import FilterModule

within = FilterModule().filters()["drains_within_cap"]
WHY = {"c2": "open_files: 64 of 1024 -> raise it", "c3": "open_files: 64 of 1024 -> raise it"}
DRAINED = {"flags": ["DRAIN"], "reason": "tw:hook:prolog: no disk -> replace it"}


def nodes(**others: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    common: dict[str, t.Any] = {"state": "IDLE", "flags": [], "partitions": ["p"]}
    return [{"name": name, **common, **others.get(name, {})} for name in ("c1", "c2", "c3")]


@pytest.mark.parametrize(
    ("states", "cap", "drained", "over"),
    [
        ({}, None, ["c2"], ["c3"]),
        ({}, 67, ["c2", "c3"], []),
        ({}, "67", ["c2", "c3"], []),
        # At least one node.
        ({}, 0, ["c2"], ["c3"]),
        # A hook drained another node while the jobs ran.
        ({"c1": DRAINED}, None, [], ["c2", "c3"]),
        ({"c1": DRAINED}, 67, ["c2"], ["c3"]),
        # A node that is drained already needs no room.
        ({"c3": DRAINED}, None, ["c3"], ["c2"]),
    ],
)
def test_the_cap_counts_the_drains_of_now(
    states: dict[str, t.Any], cap: t.Any, drained: list[str], over: list[str]
) -> None:
    found = within(WHY, nodes(**states), cap)
    assert (list(found["drains"]), found["over_cap"], found["unknown"]) == (drained, over, [])
    assert all(found["drains"][name] == WHY[name] for name in drained)


def test_a_name_that_slurm_does_not_know_is_not_drained_and_takes_no_room() -> None:
    found = within({"ALL": "x", "c[1-3]": "x", "c9": "x", **WHY}, nodes(), 5)
    assert list(found["drains"]) == ["c2"] and found["over_cap"] == ["c3"]
    assert found["unknown"] == ["ALL", "c[1-3]", "c9"]


def test_a_cap_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="cap: 'many' is not a number -> "):
        within(WHY, nodes(), "many")
