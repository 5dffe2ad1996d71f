# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the module slurm_partition itself: its options are those documented, its examples are taken."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Node
from ansible_collections.trainwright.slurm.plugins.modules import slurm_partition

from ..module_utils.slurm.client.fake_control import FakeControl
from .control import check_documentation, run


def test_documentation_and_examples() -> None:
    check_documentation(slurm_partition)


def test_a_run_of_the_module(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    control = FakeControl(Node("c1"), Node("c2"))
    wish = {"name": "course", "nodes": "ALL", "max_time": "60"}
    first = run(slurm_partition, control, capsys, monkeypatch, **wish)
    assert first["changed"] and first["partition"]["nodes"] == "c[1-2]"
    assert "forgets the change" in str(first["warnings"])
    assert not run(slurm_partition, control, capsys, monkeypatch, **wish)["changed"]
    gone = {"name": "course", "state": "absent"}
    assert run(slurm_partition, control, capsys, monkeypatch, **gone)["partition"] == {}
