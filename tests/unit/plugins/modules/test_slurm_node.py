# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the module slurm_node itself: its options are those documented, its examples are taken."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Node
from ansible_collections.trainwright.slurm.plugins.modules import slurm_node

from ..module_utils.slurm.client.fake_control import FakeControl
from .control import check_documentation, run


def test_documentation_and_examples() -> None:
    check_documentation(slurm_node)


def test_a_run_of_the_module(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    control = FakeControl(Node("c1"), Node("c2"))
    wish = {"names": "c[1-2]", "state": "drained", "reason": "rack 4"}
    first = run(slurm_node, control, capsys, monkeypatch, **wish)
    assert first["changed"] and first["changed_names"] == ["c1", "c2"]
    assert not run(slurm_node, control, capsys, monkeypatch, **wish)["changed"]


def test_a_failure_has_its_kind_and_its_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    control = FakeControl(Node("c1"))
    failed = run(slurm_node, control, capsys, monkeypatch, names="c2", weight=2)
    assert failed["failed"] and failed["error"] == "unknown"
    assert failed["msg"] == "Slurm knows no node c2 -> write one of: c1"
