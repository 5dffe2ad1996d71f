# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hosts of the play that keeps machines out of a run."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.filter.kept_out_hosts import FilterModule
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.wanted import NOBODY

kept_out_hosts = FilterModule().filters()["kept_out_hosts"]
GROUPS = {"slurm_controller": ["ctl"], "slurm_cluster": ["ctl", "c1", "c2", "c3"]}


def model(*hosts: str, service: bool = False) -> dict[str, t.Any]:
    return {"slurm_model": {"kept_out": [{"host": host, "service": service} for host in hosts]}}


@pytest.mark.parametrize(
    ("hostvars", "pattern"),
    [
        ({"ctl": model("c2", "c3")}, "ctl,c2,c3"),
        # With --limit c1,c2 only those have the model.
        ({"ctl": {}, "c1": model("c2")}, "c2"),
        ({"ctl": model("c2", service=True)}, NOBODY),
        ({"ctl": model()}, NOBODY),
        ({"ctl": {}, "c1": {}}, NOBODY),
        ({}, NOBODY),
    ],
)
def test_the_pattern(hostvars: dict[str, t.Any], pattern: str) -> None:
    assert kept_out_hosts(GROUPS, hostvars) == pattern


def test_an_inventory_without_our_groups() -> None:
    assert kept_out_hosts({}, {}) == NOBODY
