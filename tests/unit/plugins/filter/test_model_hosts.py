# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hosts of a play that the cluster model names."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.filter.model_hosts import FilterModule
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.schema import Model
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.wanted import NOBODY

model_hosts = FilterModule().filters()["model_hosts"]
GROUPS = {"slurm_controller": ["ctl"], "slurm_cluster": ["ctl", "c1", "c2"]}
PLAYBOOKS = Path(__file__).resolve().parents[4] / "playbooks"


@pytest.mark.parametrize(
    ("found", "pattern"),
    [
        (["c1", "c2"], "c1,c2"),
        ({"c1": "digest"}, "c1"),
        ([{"host": "c2", "path": "/scratch"}], "c2"),
        ([], NOBODY),
        ({}, NOBODY),
        (None, NOBODY),
    ],
)
def test_each_form_of_a_part(found: t.Any, pattern: str) -> None:
    assert model_hosts(GROUPS, {"ctl": {"slurm_model": {"some": found}}}, "some") == pattern
    within = {"ctl": {"slurm_model": {"stack": {"sources": {"efa": found}}}}}
    assert model_hosts(GROUPS, within, "stack.sources.efa") == pattern


@pytest.mark.parametrize("hostvars", [{}, {"ctl": {}}, {"ctl": {"slurm_model": {}}}])
def test_without_the_model_there_is_no_host(hostvars: dict[str, t.Any]) -> None:
    assert model_hosts(GROUPS, hostvars, "stack.sources.efa") == NOBODY
    assert model_hosts({}, hostvars, "wanted") == NOBODY


def test_playbooks_name_parts_of_the_model() -> None:
    named = {
        part
        for playbook in PLAYBOOKS.glob("*.yml")
        for part in re.findall(r"model_hosts\([^']*'([a-z_.]+)'", playbook.read_text("utf-8"))
    }
    known = {*Model.__annotations__, "wanted"}  # which a run adds
    assert len(named) >= 10 and {one.split(".")[0] for one in named} <= known
