# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The pauses between probes are short here, and most tests run all checks in their own process."""

from __future__ import annotations

import os
import time
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.health import fabric, runner

if t.TYPE_CHECKING:
    from ansible_collections.trainwright.slurm.plugins.module_utils.health.host import Host
    from ansible_collections.trainwright.slurm.plugins.module_utils.health.manifest import Check

# Words in the ids of tests whose checks need processes of their own: they do not end by themselves.
APART = (
    *("test_runner.py", "that_the_kernel_holds", "before_slurmd"),
    *("slow-nvidia-smi", "check-that-hangs"),
)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric, "_PAUSE", 0.01)


@pytest.fixture(autouse=True)
def in_this_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the checks without a process for each: a fork of pytest with all its tests takes 60 ms."""
    if any(word in request.node.nodeid for word in APART):
        return

    def start(subject: str, checks: list[Check], host: Host) -> runner._Running:
        remembered = host.remembered
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as stream:
            stream.write(runner._found(subject, checks, host))
        host.remembered = remembered
        # No process has this number, so the runner does not wait for one.
        return runner._Running(subject, 2**30, reading, time.monotonic() + 60, checks)

    monkeypatch.setattr(runner, "_start", start)
