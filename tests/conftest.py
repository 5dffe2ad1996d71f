# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""This clone as ansible_collections.trainwright.slurm, the order of the parts (fast ones first), where time went."""

from __future__ import annotations

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

_seconds: dict[str, float] = defaultdict(float)
_tests: dict[str, int] = defaultdict(int)


def part_of(path: Path) -> str:
    """The part that a test file belongs to: the inner one of its two top directories that is named in PARTS."""
    named = [name for name in path.relative_to(TESTS).parts[:-1][:2] if name in PARTS]
    return named[-1] if named else path.stem


class ByCluster(LoadScopeScheduling):  # type: ignore[misc]
    """Gives the tests of a cluster to one process, and of those without one each part."""

    def _split_scope(self, nodeid: str) -> str:
        found = re.search(r"\[(debian\d+)\b", nodeid)
        return found[1] if found else part_of(TESTS.parent / nodeid.split("::")[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: t.Any) -> ByCluster | None:
    """Where pytest has several processes for clusters (`make test`)."""
    return ByCluster(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the parts in their order; within a part pytest's own order stays."""

    def order(item: pytest.Item) -> int:
        part = part_of(item.path)
        return PARTS.index(part) if part in PARTS else len(PARTS)

    items.sort(key=order)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time of each phase of each test."""
    part = part_of(TESTS.parent / report.nodeid.split("::")[0])
    _seconds[part] += report.duration
    _tests[part] += report.when == "call"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the split, so that `make test` says where its minutes went."""
    terminalreporter.section("time by part")
    for part, seconds in _seconds.items():
        terminalreporter.line(f"{part:<12} {_tests[part]:>4} tests  {seconds:7.1f} s")
