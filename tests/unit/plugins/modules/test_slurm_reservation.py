# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the module slurm_reservation itself: its options are those documented, its examples are taken."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Node
from ansible_collections.trainwright.slurm.plugins.modules import slurm_reservation

from ..module_utils.slurm.client.fake_control import FakeControl
from .control import check_documentation, run


def test_documentation_and_examples() -> None:
    check_documentation(slurm_reservation)


def test_a_run_of_the_module(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    control = FakeControl(Node("c1"), Node("c2"))
    wish = {"name": "r", "duration": 60, "nodes": "c1", "users": "root", "flags": ["MAINT"]}
    first = run(slurm_reservation, control, capsys, monkeypatch, **wish)
    assert first["changed"] and first["reservation"]["users"] == ["root"]
    assert not run(slurm_reservation, control, capsys, monkeypatch, **wish)["changed"]
    gone = {"name": "r", "state": "absent"}
    assert run(slurm_reservation, control, capsys, monkeypatch, **gone)["reservation"] == {}


def test_end_and_duration_exclude_each_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"name": "r", "end": "now+1hour", "duration": "5"}
    failed = run(slurm_reservation, FakeControl(), capsys, monkeypatch, **options)
    assert "mutually exclusive" in failed["msg"]
