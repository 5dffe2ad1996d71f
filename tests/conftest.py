# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""This clone as ansible_collections.trainwright.slurm, the order of the parts (fast ones first), where time went."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS.parent / ".collections"))
# A directory's name and its part, in the order in which they run.
PARTS = ("lint", "unit", "sanity", "integration", "machines")

_seconds: dict[str, float] = defaultdict(float)
_tests: dict[str, int] = defaultdict(int)


def part_of(path: Path) -> str:
    """The part that a test file belongs to: its innermost directory named in PARTS."""
    named = [name for name in path.relative_to(TESTS).parts[:-1] if name in PARTS]
    return named[-1] if named else path.stem


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep the tests of a cluster in one process, where pytest has two of them (`make test`)."""
    if part_of(item.path) not in ("lint", "unit"):
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        item.add_marker(pytest.mark.xdist_group(parameters.get("site", "others")))


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
