# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The simulated fleet answers as this version of the plugins asks, or its figures would be those of a failed run."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import fact_schema, facts

from tests.benchmarks import fleet

GATHERED = facts.gather([], [], ["/var"], [], [], [])
CLOCK = dict.fromkeys(fact_schema.ADDED, 0.5)


@pytest.mark.parametrize("host", sorted(fleet.FACTS))
def test_the_recorded_facts_are_whole(host: str) -> None:
    found = fleet.FACTS[host]
    assert fact_schema.fault({**found, **CLOCK}, whole=True) == ""
    for name in ("slurm", "containers"):
        assert found[name].keys() == GATHERED[name].keys()


def test_only_a_changed_node_is_walked_over(tmp_path: Path) -> None:
    small = fleet.Fleet(tmp_path, 2)
    small.learn()
    small.change_one()
    _seconds, _busy, summary = small.play()
    assert fleet.walked(summary) == 1
    small.ping()  # fails where the hosts do not answer it
