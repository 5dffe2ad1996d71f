# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A partition that somebody has closed stays closed while slurmctld takes another slurm.conf, and no job starts."""

from __future__ import annotations

import pathlib
import time
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import partition_states
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.partition_states import (
    FILE,
    kept,
    take_up,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import accepted

_SHOWN = """PartitionName={name}
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=NO QoS=N/A
   Nodes=c[1-2]
   State={state} TotalCPUs=4 TotalNodes=2 SelectTypeParameters=NONE
"""


class Slurmctld:
    """Partitions with their states in slurm.conf and now; which may start jobs at each reconfigure."""

    def __init__(self, **now: str) -> None:
        self.conf = dict.fromkeys(now, "UP")
        self.now = now
        self.held: set[str] = set()
        self.open_at: list[list[str]] = []
        self.away = False
        self.changes, self.refuses = 0, False

    def __call__(self, verb: str, *words: str) -> tuple[int, str, str]:
        if self.away:
            return 1, "", "Unable to contact slurm controller (connect failure)"
        given = dict(word.split("=", 1) for word in words if "=" in word)
        if verb == "show":
            shown = [_SHOWN.format(name=name, state=state) for name, state in self.now.items()]
            return 0, "\n".join(shown), ""
        if verb == "create":
            assert given["Flags"] == "IGNORE_JOBS,OVERLAP,PART_NODES" and given["Nodes"] == "ALL"
            assert int(given["Duration"]) <= 10, "it ends by itself after a run that was killed"
            self.held.add(given["ReservationName"])
        elif verb == "delete":
            self.held.discard(given["ReservationName"])
        elif verb == "update":
            if self.refuses:
                return 1, "", "Access/permission denied"
            self.changes += 1
            self.now[given["PartitionName"]] = given["State"]
        return 0, "", ""

    def reconfigure(self) -> None:
        self.now = dict(self.conf)
        held = {one.removeprefix(partition_states.RESERVATION) for one in self.held}
        self.open_at.append(
            [one for one, state in self.now.items() if state == "UP" and one not in held]
        )


def test_a_closed_partition_stays_closed_and_starts_nothing_meanwhile(
    tmp_path: pathlib.Path,
) -> None:
    slurmctld = Slurmctld(gpu="DOWN", cpu="UP", old="DRAIN", off="INACTIVE")
    place = str(tmp_path / "applied")
    with kept(slurmctld, place, slurmctld.conf):
        slurmctld.reconfigure()
    assert slurmctld.open_at == [["cpu", "old"]], "jobs that wait in a drained one may start"
    assert slurmctld.now == {"gpu": "DOWN", "cpu": "UP", "old": "DRAIN", "off": "INACTIVE"}
    assert not slurmctld.held and not (tmp_path / "applied" / FILE).exists()


def test_nothing_is_done_where_each_state_is_that_of_slurm_conf(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(gpu="UP", cpu="DOWN")
    slurmctld.conf["cpu"] = "DOWN"
    with kept(slurmctld, str(tmp_path / "applied"), slurmctld.conf):
        slurmctld.reconfigure()
    assert slurmctld.changes == 0 and not (tmp_path / "applied").exists()


def test_a_partition_that_was_opened_stays_open_and_one_that_is_to_change_changes(
    tmp_path: pathlib.Path,
) -> None:
    slurmctld = Slurmctld(opened="UP", closed="DOWN", changed="DOWN")
    slurmctld.conf["opened"] = "DOWN"
    for usual in (slurmctld.conf, None):
        with kept(slurmctld, str(tmp_path), usual, ["changed"]):
            slurmctld.reconfigure()
        assert slurmctld.now == {"opened": "UP", "closed": "DOWN", "changed": "UP"}


def test_the_states_come_back_after_a_change_that_failed(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(gpu="DOWN")

    def fail() -> None:
        with kept(slurmctld, str(tmp_path), slurmctld.conf):
            slurmctld.reconfigure()
            raise OSError("refused")

    with pytest.raises(OSError, match="refused"):
        fail()
    assert slurmctld.now == {"gpu": "DOWN"}


def test_a_run_closes_again_what_one_that_was_killed_has_left_open(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(gpu="DOWN", opened="UP", gone="DOWN")
    slurmctld.conf["opened"] = "DOWN"
    with kept(slurmctld, str(tmp_path), slurmctld.conf):
        slurmctld.reconfigure()
        slurmctld.away = True
    assert (tmp_path / FILE).exists()
    assert take_up(slurmctld, str(tmp_path)) == [], "slurmctld does not answer"
    slurmctld.away = False
    del slurmctld.now["gone"]
    assert take_up(slurmctld, str(tmp_path)) == ["gpu"]
    assert slurmctld.now == {"gpu": "DOWN", "opened": "DOWN"}, "somebody may have closed it since"
    assert not slurmctld.held
    assert take_up(slurmctld, str(tmp_path)) == []


def test_states_that_slurmctld_does_not_take_stay_noted(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(gpu="DOWN")
    slurmctld.refuses = True
    with kept(slurmctld, str(tmp_path), slurmctld.conf):
        slurmctld.reconfigure()
    assert slurmctld.held and (tmp_path / FILE).exists()
    slurmctld.refuses = False
    with kept(slurmctld, str(tmp_path), slurmctld.conf):
        slurmctld.reconfigure()
    assert slurmctld.now == {"gpu": "DOWN"} and not slurmctld.held


def test_an_operator_who_may_not_write_there_keeps_states_too(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(gpu="DOWN")
    (tmp_path / "file").write_text("")
    with kept(slurmctld, str(tmp_path / "file"), slurmctld.conf):
        slurmctld.reconfigure()
    assert slurmctld.now == {"gpu": "DOWN"} and not slurmctld.held


def test_states_that_were_noted_long_ago_are_forgotten(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurmctld = Slurmctld(gpu="DOWN")
    with kept(slurmctld, str(tmp_path), slurmctld.conf):
        slurmctld.reconfigure()
        slurmctld.away = True
    slurmctld.away, then = False, time.time()
    monkeypatch.setattr(partition_states.time, "time", lambda: then + 3700)
    assert take_up(slurmctld, str(tmp_path)) == []
    assert slurmctld.now == {"gpu": "UP"} and not (tmp_path / FILE).exists()


@pytest.mark.parametrize("noted", ["", "{", "[]", "null", '{"at": 1}', '{"at": "x", "states": {}}'])
def test_a_note_that_is_not_whole_is_forgotten(tmp_path: pathlib.Path, noted: str) -> None:
    (tmp_path / FILE).write_text(noted)
    assert take_up(Slurmctld(gpu="UP"), str(tmp_path)) == []
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(
    ("there", "wanted", "found"),
    [
        ("PartitionName=a\n", "PartitionName=a\n", ({"a": "UP"}, [])),
        ("PartitionName=a\n", "PartitionName=a State=down\n", ({"a": "UP"}, ["a"])),
        ("PartitionName=a State=DOWN\n", "PartitionName=a\n", ({"a": "DOWN"}, ["a"])),
        (
            "PartitionName=DEFAULT State=Drain\nPartitionName=a\nPartitionName=b State=UP\n",
            "PartitionName=a State=DRAIN\nPartitionName=c State=DOWN\n",
            ({"a": "DRAIN", "b": "UP"}, []),
        ),
        ("A=1 B=2\n", "PartitionName=a\n", ({}, [])),
    ],
)
def test_states_by_slurm_conf(
    tmp_path: pathlib.Path, there: str, wanted: str, found: t.Any
) -> None:
    spec = {"path": str(tmp_path / "slurm.conf"), "content": wanted}
    assert accepted.partition_states(there, spec) == found


def test_a_state_that_was_written_into_slurm_conf_by_hand_is_taken_back(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "slurm.conf").write_text("PartitionName=a State=DOWN\n")
    spec = {"path": str(tmp_path / "slurm.conf"), "content": "PartitionName=a\n"}
    assert accepted.partition_states("PartitionName=a\n", spec) == ({"a": "UP"}, ["a"])
