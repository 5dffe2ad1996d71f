# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The figures of a benchmark: ratios, limits, table, JSON. Pure; nothing here runs anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from driver.layout import table
from tests.benchmarks.accounts import Accounts
from tests.benchmarks.containers import Starts

# What `make bench` holds the collection to.
LIMIT_FIRST = 5.0  # first run of site.yml / first run of the yardstick
LIMIT_SECOND = 3.0  # second run of site.yml / first run of the yardstick
LIMIT_EXECUTIONS = 40  # module executions on a compute node, in either run
LIMIT_CHANGED = 0  # a second run must not change anything
LIMIT_STAGED = 1.0  # seconds that a container from the nodes' own disks adds to the start of a step
LIMIT_ACCOUNTS = 0.1  # accounts.yml with 200 accounts and 1,000 users / a loop over sacctmgr calls

# Share of the CPU time in use before a run above which its time depends more on other work.
BUSY = 0.25

_MARK = re.compile(r"^mark (\w+) (\d+(?:\.\d+)?)$", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """One timed run. seconds: until the cluster stood, asserted; busy: share of the CPU time that was
    in use just before it.

    job_seconds: the two-node job after that, None where none was run. executions and changed
    count by host name, and are empty for the yardstick.
    """

    seconds: float
    busy: float
    job_seconds: float | None
    executions: Mapping[str, int]
    changed: Mapping[str, int]


@dataclass(frozen=True)
class Measurement:
    """Measurements with one number of compute nodes; site.yml is None with --yardstick-only.

    roles: controller, login or compute by host name. mitogen_seconds: a further run that changes
    nothing with Mitogen's strategy, None where Mitogen is not installed. peer: with --peer.
    """

    compute: int
    roles: Mapping[str, str]
    yardstick: tuple[Run, Run]
    site: tuple[Run, Run] | None = None
    mitogen_seconds: float | None = None
    peer: tuple[Run, Run] | None = None
    accounts: Accounts | None = None
    containers: Starts | None = None

    def executions(self, role: str, run: int) -> int | None:
        """The most module executions on any host of `role` in run 0 or 1 of site.yml."""
        return self._most(role, self.site[run].executions) if self.site else None

    def peer_ratio(self, run: int) -> float | None:
        """Seconds of site.yml's first or second run over those of the peer's."""
        if not (self.site and self.peer):
            return None
        return self.site[run].seconds / self.peer[run].seconds

    def changed(self) -> int | None:
        """Results that reported a change in the second run of site.yml, all hosts together."""
        return sum(self.site[1].changed.values()) if self.site else None

    def _most(self, role: str, counts: Mapping[str, int]) -> int:
        return max(
            (counts.get(host, 0) for host in self.roles if self.roles[host] == role), default=0
        )

    def ratio(self, site_run: int, yardstick_run: int) -> float | None:
        """Seconds of site.yml's run over those of the yardstick's."""
        if not self.site:
            return None
        return self.site[site_run].seconds / self.yardstick[yardstick_run].seconds

    def disturbed(self) -> bool:
        """Whether other work was running on this machine when one of the runs began."""
        return any(run.busy > BUSY for run in (*self.yardstick, *(self.site or ())))


@dataclass(frozen=True)
class Figure:
    """A row of the table: how to get its value from a measurement, and the most it may be."""

    key: str
    label: str
    value: Callable[[Measurement], float | None]
    limit: float | None = None


FIGURES = (
    Figure("site_first_s", "site.yml, first run (s)", lambda m: m.site and m.site[0].seconds),
    Figure("site_second_s", "site.yml, second run (s)", lambda m: m.site and m.site[1].seconds),
    Figure(
        "mitogen_second_s", "site.yml, further run with Mitogen (s)", lambda m: m.mitogen_seconds
    ),
    Figure("yardstick_first_s", "yardstick, first run (s)", lambda m: m.yardstick[0].seconds),
    Figure("yardstick_second_s", "yardstick, second run (s)", lambda m: m.yardstick[1].seconds),
    Figure("first_ratio", "first run / yardstick's first", lambda m: m.ratio(0, 0), LIMIT_FIRST),
    Figure("second_ratio", "second run / yardstick's first", lambda m: m.ratio(1, 0), LIMIT_SECOND),
    Figure("second_ratio_second", "second run / yardstick's second", lambda m: m.ratio(1, 1)),
    *(
        Figure(
            f"peer_{word}_s",
            f"peer, {word} run (s)",
            lambda m, run=run: m.peer and m.peer[run].seconds,  # type: ignore[misc]
        )
        for run, word in enumerate(("first", "second"))
    ),
    *(
        Figure(
            f"peer_{word}_ratio",
            f"{word} run / peer's {word}",
            lambda m, run=run: m.peer_ratio(run),  # type: ignore[misc]
        )
        for run, word in enumerate(("first", "second"))
    ),
    *(
        Figure(
            f"executions_{role}_{word}",
            f"executions, {role}, {word} run",
            lambda m, role=role, run=run: m.executions(role, run),  # type: ignore[misc]
            LIMIT_EXECUTIONS if role == "compute" else None,
        )
        for role in ("compute", "controller", "login")
        for run, word in enumerate(("first", "second"))
    ),
    Figure("changed_second", "changes in the second run", lambda m: m.changed(), LIMIT_CHANGED),
    Figure("site_job_s", "first_job.yml (s)", lambda m: m.site and m.site[0].job_seconds),
    Figure("yardstick_job_s", "yardstick's first job (s)", lambda m: m.yardstick[0].job_seconds),
    Figure(
        "accounts_first_s",
        "accounts.yml, 200 accounts, 1,000 users (s)",
        lambda m: m.accounts and m.accounts.first_seconds,
    ),
    Figure(
        "accounts_second_s",
        "accounts.yml, second run (s)",
        lambda m: m.accounts and m.accounts.second_seconds,
    ),
    Figure(
        "accounts_loop_s",
        "loop over sacctmgr, scaled from a sample (s)",
        lambda m: m.accounts and m.accounts.loop_seconds,
    ),
    Figure(
        "accounts_ratio",
        "accounts.yml / loop",
        lambda m: m.accounts and m.accounts.ratio,
        LIMIT_ACCOUNTS,
    ),
    Figure(
        "accounts_changed_second",
        "accounts.yml, changes in the second run",
        lambda m: m.accounts and m.accounts.changed,
        LIMIT_CHANGED,
    ),
    *(
        Figure(
            f"start_{name}_s",
            f"start of a step on two nodes, {label} (s)",
            lambda m, name=name: m.containers and getattr(m.containers, name),  # type: ignore[misc]
        )
        for name, label in (
            ("plain", "no container"),
            ("cold", "container, cold"),
            ("warm", "container, warm from shared storage"),
            ("staged", "container, staged on local disk"),
            ("unpacked", "container, unpacked"),
        )
    ),
    *(
        Figure(
            f"start_{name}_ratio",
            f"start {name} / no container",
            lambda m, name=name: (  # type: ignore[misc]
                m.containers and getattr(m.containers, name) / m.containers.plain
            ),
        )
        for name in ("cold", "warm", "staged")
    ),
    Figure(
        "start_staged_adds_s",
        "a staged container adds (s)",
        lambda m: m.containers and m.containers.staged_adds,
        LIMIT_STAGED,
    ),
)

# Values that grow with the number of compute nodes, relative to the first measurement.
GROWTH = ("site_first_s", "site_second_s", "yardstick_first_s", "yardstick_second_s")


def marks(output: str) -> dict[str, float]:
    """The `mark NAME SECONDS` lines that yardstick.sh prints."""
    return {name: float(seconds) for name, seconds in _MARK.findall(output)}


def busy_share(before: str, after: str) -> float:
    """Share of the CPU time in use between two readings of /proc/stat."""

    def ticks(text: str) -> tuple[int, int]:
        fields = [int(field) for field in text.splitlines()[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]  # idle and iowait, as proc(5) orders them

    (all_before, idle_before), (all_after, idle_after) = ticks(before), ticks(after)
    spent = all_after - all_before
    return round(1 - (idle_after - idle_before) / spent, 2) if spent else 0.0


def values(measurement: Measurement) -> dict[str, float | None]:
    """Every figure of a measurement by its key."""
    return {figure.key: figure.value(measurement) for figure in FIGURES}


def misses(measurements: Sequence[Measurement]) -> list[str]:
    """One line for each figure over its limit; a figure that was not measured misses nothing."""
    lines = []
    for measurement in measurements:
        for figure in FIGURES:
            value = figure.value(measurement)
            if figure.limit is not None and value is not None and value > figure.limit:
                lines.append(
                    f"{measurement.compute} compute nodes: {figure.label} is {_text(value)}, "
                    f"over the limit of {_text(figure.limit)}"
                )
    return lines


def growth(measurements: Sequence[Measurement]) -> dict[str, list[float | None]]:
    """Figures of GROWTH over those of the first measurement, in the order of the measurements."""
    listed = [values(measurement) for measurement in measurements]

    def relative(key: str) -> list[float | None]:
        base = listed[0][key]
        return [row[key] / base if base and row[key] is not None else None for row in listed]  # type: ignore[operator]

    return {key: relative(key) for key in GROWTH}


def render(measurements: Sequence[Measurement]) -> str:
    """The table, what grew, and a warning where other work disturbed the times."""
    rows = [["", *(f"{m.compute} compute" for m in measurements), "limit"]]
    for figure in FIGURES:
        cells = [figure.value(measurement) for measurement in measurements]
        if any(cell is not None for cell in cells):
            limit = "" if figure.limit is None else _text(figure.limit)
            rows.append([figure.label, *(_cell(cell, figure.limit) for cell in cells), limit])
    if len(measurements) > 1:
        labels = {figure.key: figure.label for figure in FIGURES}
        for key, factors in growth(measurements).items():
            if any(factor is not None for factor in factors):
                label = labels[key].replace(" (s)", ", growth")
                rows.append([label, *("-" if f is None else f"x {f:.2f}" for f in factors), ""])
    text = table(rows)
    if any(measurement.disturbed() for measurement in measurements):
        text += (
            "\n\nOther work was running on this machine: take the seconds as an upper bound, and "
            "measure again when it is quiet."
        )
    return text


def report(measurements: Sequence[Measurement], machine: Mapping[str, Any]) -> dict[str, Any]:
    """The saved JSON: the machine and its versions, every run, every figure, what was missed."""
    return {
        "format": 1,
        "machine": dict(machine),
        "limits": {figure.key: figure.limit for figure in FIGURES if figure.limit is not None},
        "measurements": [
            {**asdict(measurement), "figures": values(measurement)} for measurement in measurements
        ],
        "growth": growth(measurements) if measurements else {},
        "missed": misses(measurements),
    }


def _cell(value: float | None, limit: float | None) -> str:
    if value is None:
        return "-"
    return _text(value) + (" !" if limit is not None and value > limit else "")


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.2f}"
