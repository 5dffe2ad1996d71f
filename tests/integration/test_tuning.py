# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tuning leaves a container alone: its kernel is that of this machine. The machines' test_tuning.py tunes one."""

from __future__ import annotations

import pytest

from .conftest import Converged
from .modules import run_tasks

pytestmark = pytest.mark.systems("debian12")

KEY, FILE = "vm.max_map_count", "/etc/sysctl.d/91-trainwright-tuning.conf"


def test_the_kernel_of_a_container_is_left_alone(site: Converged) -> None:
    before = site.run("c1", f"sysctl -n {KEY}").strip()
    wanted = {"sysctl": {KEY: str(int(before) + 1)}, "profile": "trainwright-cpu"}
    tasks = [
        {"name": "tune", "trainwright.slurm.node_tuning": wanted},
        {"name": "undo", "trainwright.slurm.node_tuning": {"state": "absent"}},
    ]
    results = run_tasks(site, tasks, host="c1")
    assert results["tune"]["failed"] and "this is a container" in results["tune"]["msg"]
    assert not results["undo"]["changed"]
    assert site.run("c1", f"sysctl -n {KEY}").strip() == before
    # site.yml has not tuned it either.
    assert site.run("c1", f"ls {FILE} /etc/tuned 2>/dev/null || true") == ""
