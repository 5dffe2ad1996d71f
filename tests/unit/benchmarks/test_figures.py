# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ratios, limits, table and JSON of `make bench`, without running anything."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[3]))

from tests.benchmarks import accounts, figures
from tests.benchmarks.accounts import Accounts
from tests.benchmarks.figures import Measurement, Run

ROLES = {"ctl1": "controller", "login1": "login", "c1": "compute", "c2": "compute"}


def run(
    seconds: float, compute: int = 20, changed: int = 0, busy: float = 0.1, job: float | None = None
) -> Run:
    counts = {"ctl1": 60, "login1": 25, "c1": compute - 1, "c2": compute}
    return Run(seconds, busy, job, counts, {"ctl1": changed, "c1": 0})


def yardstick(first: float = 20.0, second: float = 2.0) -> tuple[Run, Run]:
    return Run(first, 0.1, 1.5, {}, {}), Run(second, 0.1, 1.4, {}, {})


def measurement(first: Run, second: Run, compute: int = 2) -> Measurement:
    return Measurement(compute, ROLES, yardstick(), (first, second))


def test_ratios_are_against_the_same_measurement_s_yardstick() -> None:
    figures_of = figures.values(measurement(run(80), run(30)))
    assert figures_of["first_ratio"] == 4
    assert figures_of["second_ratio"] == 1.5
    assert figures_of["second_ratio_second"] == 15


def test_the_peer_is_measured_against_the_same_hosts() -> None:
    theirs = (run(50), run(10))
    with_peer = Measurement(2, ROLES, yardstick(), (run(80), run(30)), peer=theirs)
    figures_of = figures.values(with_peer)
    assert (figures_of["peer_first_ratio"], figures_of["peer_second_ratio"]) == (1.6, 3)
    assert "peer" in figures.render([with_peer])
    assert "peer" not in figures.render([measurement(run(80), run(30))])


def test_the_busiest_host_of_a_role_counts() -> None:
    figures_of = figures.values(measurement(run(80, compute=33), run(30, compute=21)))
    assert figures_of["executions_compute_first"] == 33
    assert figures_of["executions_compute_second"] == 21
    assert figures_of["executions_controller_first"] == 60


def test_what_meets_its_limit_exactly_misses_nothing() -> None:
    assert figures.misses([measurement(run(100, compute=40), run(60, compute=40))]) == []


@pytest.mark.parametrize(
    ("first", "second", "label"),
    [
        (run(100.1), run(30), "first run / yardstick's first"),
        (run(80), run(60.5), "second run / yardstick's first"),
        (run(80, compute=41), run(30), "executions, compute, first run"),
        (run(80), run(30, compute=41), "executions, compute, second run"),
        (run(80), run(30, changed=1), "changes in the second run"),
    ],
)
def test_each_limit_is_missed_alone(first: Run, second: Run, label: str) -> None:
    (line,) = figures.misses([measurement(first, second, compute=4)])
    assert line.startswith(f"4 compute nodes: {label} is ")
    assert " !" in figures.render([measurement(first, second)])


def test_growth_is_relative_to_the_first() -> None:
    factors = figures.growth([measurement(run(40), run(10)), measurement(run(60), run(10), 4)])
    assert factors["site_first_s"] == [1, 1.5]
    assert factors["yardstick_first_s"] == [1, 1]


def test_without_site_only_the_yardstick_is_shown() -> None:
    alone = [Measurement(2, ROLES, yardstick()), Measurement(4, ROLES, yardstick(30, 3))]
    text = figures.render(alone)
    assert figures.misses(alone) == []
    assert "site.yml" not in text and "executions" not in text
    assert "x 1.50" in text


def test_the_table_has_a_column_a_size_and_names_the_limits() -> None:
    lines = figures.render(
        [measurement(run(80.04), run(30)), measurement(run(90), run(30), 8)]
    ).splitlines()
    assert lines[0].split() == ["2", "compute", "8", "compute", "limit"]
    first = next(line for line in lines if line.startswith("first run / yardstick's first"))
    assert first.split()[-3:] == ["4.00", "4.50", "5.00"]
    assert not any("Mitogen" in line for line in lines)


def test_other_work_on_the_machine_is_said() -> None:
    assert "upper bound" in figures.render([measurement(run(80, busy=0.6), run(30))])
    assert "upper bound" not in figures.render([measurement(run(80), run(30))])


def test_busy_share_counts_waiting_for_disks_as_idle() -> None:
    before = "cpu  100 0 100 1000 100 0 0 0 0 0\ncpu0 1 2\n"
    after = "cpu  130 0 120 1040 110 0 0 0 0 0\ncpu0 1 2\n"
    assert figures.busy_share(before, after) == 0.5
    assert figures.busy_share(before, before) == 0.0


def test_the_report_is_json_and_holds_every_run() -> None:
    kept = json.loads(json.dumps(figures.report([measurement(run(80), run(90))], {"cores": 2})))
    assert kept["machine"] == {"cores": 2}
    assert kept["limits"]["first_ratio"] == 5
    assert kept["measurements"][0]["site"][1]["seconds"] == 90
    assert kept["measurements"][0]["figures"]["second_ratio"] == 4.5
    assert len(kept["missed"]) == 1


def test_marks_are_read_from_among_other_output() -> None:
    output = (
        "mark facts 0.90\nc1.log:changed: packages\nmark stands 17.25\nremark x 1\nmark job 19\n"
    )
    assert figures.marks(output) == {"facts": 0.9, "stands": 17.25, "job": 19.0}


def test_accounts_must_be_ten_times_faster_than_the_loop() -> None:
    def found(first: float, changed: int) -> list[str]:
        made = measurement(run(80), run(30))
        measured = Accounts(300.0, first, 2.0, changed)
        return figures.misses([dataclasses.replace(made, accounts=measured)])

    assert found(30, 0) == []
    assert "accounts.yml / loop is 0.11" in found(33, 0)[0]
    assert "changes in the second run is 1" in found(3, 1)[0]


def test_the_loop_makes_the_same_tree() -> None:
    made = accounts.tree()
    listed, users = accounts.calls(made)
    assert (len(listed), len(users)) == (accounts.ACCOUNTS, accounts.USERS)
    names = [call[2] for call in listed]
    assert len(set(names)) == len(names)
    assert all(call[3] in ("parent=root", *(f"parent={name}" for name in names)) for call in listed)
    groups = {name for call in users for name in call[3].removeprefix("account=").split(",")}
    assert groups <= set(names)
    script = accounts.loop(accounts.tree(3, 2, "x"))
    assert script.count("sacctmgr -i add") == 5 and script.count("mark") == 2
    assert accounts.without(accounts.tree(3, 2, "x")).endswith("account x-g0,x-d0,x > /dev/null")
