# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""This clone as ansible_collections.trainwright.slurm, the order of the parts (fast ones first), where time went."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import typing as t
from collections import defaultdict
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS.parent / ".collections"))
# A directory's name and its part, in the order in which they run.
PARTS = ("lint", "unit", "sanity", "integration", "machines")

# The first tests of the processes of `make test`, the longest first. A machine's preparation takes seven minutes and
# waits for nobody; what a cluster takes is in the table that each run prints.
LONGEST = ("machines", "debian13", "debian12", "integration", "sanity", "lint")
# These only compute, and get the time that the clusters leave: those have timeouts to meet.
YIELDING = ("lint", "sanity")
PRIORITY = os.getpriority(os.PRIO_PROCESS, 0)
# Files that take less than this are not listed.
LISTED_SECONDS = 5

_seconds: dict[str, dict[str, float]] = {
    "part": defaultdict(float),
    "process": defaultdict(float),
    "file": defaultdict(float),
}
_tests: dict[str, dict[str, int]] = {kind: defaultdict(int) for kind in _seconds}


def part_of(path: Path) -> str:
    """The part that a test file belongs to: the inner one of its two top directories that is named in PARTS."""
    named = [name for name in path.relative_to(TESTS).parts[:-1][:2] if name in PARTS]
    return named[-1] if named else path.stem


def share_of(nodeid: str) -> str:
    """Tests that run in one process: those of a cluster, and each part of those without one."""
    found = re.search(r"\[(debian\d+)\b", nodeid)
    return found[1] if found else part_of(TESTS.parent / nodeid.split("::")[0])


class ByCluster(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each process a share, the longest first, and another one when it is done with that."""

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)

    def _assign_work_unit(self, node: t.Any) -> None:
        for share in reversed(LONGEST):
            if share in self.workqueue:
                self.workqueue.move_to_end(share, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: t.Any) -> None:
        # xdist hands out the next share two tests before the end of one. A process begins a test when it knows the
        # next one, so one test before the end is the latest; what is handed out late finds the process that is free.
        if not self.workqueue or self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: t.Any) -> ByCluster | None:
    """Where pytest has several processes for clusters (`make test`)."""
    return ByCluster(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the parts in their order, within a part in pytest's own; leave out what only `make soak` runs."""

    def order(item: pytest.Item) -> int:
        part = part_of(item.path)
        return PARTS.index(part) if part in PARTS else len(PARTS)

    items.sort(key=order)
    for item in items:
        marker = item.get_closest_marker("soak")
        if marker and "TRAINWRIGHT_SOAK" not in os.environ:
            (why,) = marker.args
            item.add_marker(pytest.mark.skip(reason=f"{why}; run by `make soak`"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let what only computes give way, in a process of `make test`."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Only root may lower it again; without root there are not any clusters either.
        with contextlib.suppress(PermissionError):
            step = 19 if part_of(item.path) in YIELDING else 0
            os.setpriority(os.PRIO_PROCESS, 0, PRIORITY + step)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time of each phase of each test; with several processes, all report to the one that prints."""
    file = report.nodeid.split("::")[0]
    shares = {
        "part": part_of(TESTS.parent / file),
        "process": share_of(report.nodeid),
        "file": file.removeprefix("tests/"),
    }
    for kind, name in shares.items():
        _seconds[kind][name] += report.duration
        _tests[kind][name] += report.when == "call"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the split, so that `make test` shows where its time went."""
    for kind, names in _seconds.items():
        terminalreporter.section(f"time by {kind}")
        order = sorted(names, key=lambda name: -names[name]) if kind != "part" else list(names)
        for name in order:
            if kind != "file" or names[name] >= LISTED_SECONDS:
                terminalreporter.line(
                    f"{name:<48} {_tests[kind][name]:>5} tests  {names[name]:7.1f} s"
                )
