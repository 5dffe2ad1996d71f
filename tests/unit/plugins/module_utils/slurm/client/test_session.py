# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of how a module finds its transport and tries again while Slurm does not answer."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    session as under_test,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.session import (
    Session,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError

DOWN = SlurmError("down", "slurmctld does not answer -> wait")


class Clock:
    """Time that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleeps: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.sleeps.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(under_test, "time", made)
    return made


class Way:
    """A transport of a name and a version."""

    def __init__(self, name: str, version: str) -> None:
        self.name, self.version = name, version


def session(module: str = "slurm_partition", **params: t.Any) -> Session:
    return Session(module, {"transport": "auto", "controller_timeout": 60.0, **params}, False)


def opened(module: str = "slurm_partition", transport: str = "auto", **versions: str) -> Session:
    made = session(module, transport=transport)
    made._open = {name: t.cast(t.Any, Way(name, v)) for name, v in versions.items()}
    return made


def answers(*given: SlurmError | str) -> t.Callable[[], str]:
    left = list(given)

    def call() -> str:
        one = left.pop(0)
        if isinstance(one, SlurmError):
            raise one
        return one

    return call


def test_a_call_is_tried_again_over_a_failover(clock: Clock) -> None:
    database = SlurmError("database", "slurmdbd does not answer -> wait")
    assert session().call(answers(DOWN, database, DOWN, "ok")) == "ok"
    assert len(clock.sleeps) == 3 and clock.sleeps == sorted(clock.sleeps)


def test_what_stays_down_ends_with_the_timeout_and_its_own_words(clock: Clock) -> None:
    with pytest.raises(SlurmError, match="does not answer"):
        session(controller_timeout=10.0).call(answers(*[DOWN] * 99))
    assert 7 < clock.now <= 10


@pytest.mark.parametrize("kind", ["denied", "unknown", "invalid", "off", "timeout"])
def test_what_will_not_pass_is_not_tried_again(clock: Clock, kind: t.Any) -> None:
    with pytest.raises(SlurmError):
        session().call(answers(SlurmError(kind, "no -> x"), "never"))
    assert clock.sleeps == []


def test_auto_takes_the_commands_where_they_can() -> None:
    both = opened(cli="24.11.5", rest="26.05.5")
    assert both.using("read", "create").name == "cli"


def test_auto_takes_slurmrestd_where_there_are_no_commands(tmp_path: Path) -> None:
    one = opened(rest="26.05.5")
    one.params = {**one.params, "slurm_prefix": str(tmp_path)}
    assert one.using("read", "create").name == "rest"


def test_auto_without_commands_says_why_slurmrestd_cannot(tmp_path: Path) -> None:
    one = opened(rest="24.11.5")
    one.params = {**one.params, "slurm_prefix": str(tmp_path)}
    with pytest.raises(SlurmError, match="^slurmrestd of Slurm 24.11 cannot do create") as caught:
        one.using("read", "create")
    assert caught.value.kind == "impossible"


def test_no_way_at_all_names_both(tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match="scontrol is not in .*; rest_url is not set") as caught:
        session(slurm_prefix=str(tmp_path)).using("read")
    assert caught.value.kind == "missing"


def test_the_transport_of_the_task_is_the_only_one() -> None:
    with pytest.raises(SlurmError, match="26.05 can"):
        opened(transport="rest", cli="24.11.5", rest="24.11.5").using("create")
