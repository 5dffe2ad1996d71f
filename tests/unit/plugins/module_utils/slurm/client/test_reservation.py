# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of slurm_reservation: times in their forms, flags, and what a second run does."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import values
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import reservation
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import (
    Node,
    Partition,
    Reservation,
)
from hypothesis import given
from hypothesis import strategies as st

from .fake_control import NOW, FakeControl, session

LATER = NOW + 86400
WISH: dict[str, t.Any] = {"duration": "60", "nodes": ["c1"], "users": ["root"]}


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation.time, "time", lambda: float(NOW))


def control(*there: Reservation, **more: t.Any) -> FakeControl:
    fake = FakeControl(Node("c1"), Node("c2"), Node("c3"), **more)
    fake.all_partitions = {"batch": Partition("batch")}
    fake.all_reservations = {one.name: one for one in there}
    return fake


def run(fake: FakeControl, check: bool = False, **params: t.Any) -> dict[str, t.Any]:
    params = {"name": "r", "state": "present", **params}
    return reservation.work(session("slurm_reservation", fake, check, **params))


def test_create_change_no_change_remove() -> None:
    fake = control()
    made = run(fake, start="now", **WISH)
    assert fake.calls == [
        (
            "create_reservation",
            "r",
            {"StartTime": "now", "Duration": "60", "Nodes": "c1", "Users": "root"},
        )
    ]
    assert made["reservation"]["end_time"] == NOW + 3600
    assert '"start": "2026-11-20T16:00:00"' in made["diff"]["after"]
    assert not run(fake, start="now", **WISH)["changed"]
    run(fake, start="now", **{**WISH, "duration": "2:00:00", "nodes": ["c[1-2]"]})
    assert fake.calls[1][2] == {"Duration": "120", "Nodes": "c[1-2]"}
    assert run(fake, state="absent")["changed"] and fake.all_reservations == {}
    assert not run(fake, state="absent")["changed"]


def test_check_mode_calls_nothing() -> None:
    fake = control()
    would = run(fake, check=True, **WISH)
    assert would["changed"] and would["reservation"] == {} and fake.calls == []
    assert would["diff"] == run(fake, **WISH)["diff"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("now", NOW),
        ("now+90", NOW + 90),
        ("now+2hours", NOW + 7200),
        ("now+1week", NOW + 604800),
        ("2026-11-20T16:00:00", NOW),
        ("2026-11-20T16:00", NOW),
        ("2026-11-20T16:00:00Z", NOW),
        ("2026-11-20T17:00:00+01:00", NOW),
        (str(NOW), NOW),
    ],
)
def test_forms_of_a_time(text: str, seconds: int) -> None:
    assert reservation.point("start", text, NOW) == seconds


@given(st.integers(0, 2**31 - 1))
def test_a_time_in_utc_comes_back(moment: int) -> None:
    assert reservation.point("start", values.stamp(moment), NOW) == moment


@pytest.mark.parametrize("text", ["soon", "2026-13-01T00:00:00", "now+1year", "16:00"])
def test_a_time_that_is_none_is_named(text: str) -> None:
    with pytest.raises(
        SlurmError, match=rf"start: {text.replace('+', '.')} is not a time -> write"
    ):
        reservation.point("start", text, NOW)


@pytest.mark.parametrize(
    ("start", "there", "flags", "moves"),
    [
        ("now", NOW - 60, (), False),
        ("now", LATER, (), True),
        ("now+2hours", LATER, (), False),
        ("2026-11-21T16:00:00", LATER, (), False),
        ("2026-11-21T17:00:00+01:00", LATER, (), False),
        ("2026-11-21T16:30:00", LATER, (), True),
        ("2026-11-20T16:00:00", LATER, ("DAILY",), False),
        ("2026-11-20T16:30:00", LATER, ("DAILY",), True),
        ("2026-11-20T16:00:00", LATER, ("WEEKLY",), True),
        ("2026-11-20T16:00:00", NOW + 3600, ("HOURLY",), False),
        ("2026-11-20T16:00:00", LATER + 5, ("TIME_FLOAT",), False),
    ],
)
def test_when_a_start_is_another_one(
    start: str, there: int, flags: tuple[str, ...], moves: bool
) -> None:
    old = Reservation("r", start_time=there, end_time=there + 3600, flags=flags)
    settings = reservation.plan(old, {"name": "r", "start": start}, now=NOW)[0]
    assert ("StartTime" in settings) is moves


def test_a_start_that_moves_takes_the_duration_along() -> None:
    old = Reservation("r", start_time=LATER, end_time=LATER + 3600)
    wish = {"name": "r", "start": "2026-11-22T16:00:00", "duration": "60"}
    settings = reservation.plan(old, wish, now=NOW)[0]
    assert settings == {"StartTime": "2026-11-22T16:00:00", "Duration": "60"}


def test_an_unlimited_duration_is_a_year() -> None:
    fake = control()
    wish = {**WISH, "duration": "unlimited"}
    run(fake, **wish)
    assert fake.calls[0][2]["Duration"] == "UNLIMITED"
    assert not run(fake, **wish)["changed"]


def test_flags_are_added_and_taken_away_and_slurms_own_stay() -> None:
    old = Reservation("r", start_time=NOW, end_time=LATER, flags=("DAILY", "PART_NODES"))
    fake = control(old)
    done = run(fake, flags=["MAINT", "FLEX"])
    assert fake.calls[0][2] == {"Flags": "+FLEX,+MAINT,-DAILY"}
    assert done["reservation"]["flags"] == ["FLEX", "MAINT", "PART_NODES"]
    assert not run(fake, flags=["FLEX", "MAINT"])["changed"]


def test_a_flag_that_cannot_be_taken_away_is_an_error() -> None:
    fake = control(Reservation("r", start_time=NOW, end_time=LATER, flags=("OVERLAP",)))
    with pytest.raises(SlurmError, match="cannot remove the flag OVERLAP from .* -> remove it"):
        run(fake, flags=[])
    assert not run(fake, flags=["OVERLAP"])["changed"]


@pytest.mark.parametrize(
    ("wish", "has"),
    [
        ({"licenses": ["b:2", "a"]}, {"licenses": "a:1,b:2"}),
        ({"tres": {"gres/gpu": "2"}}, {"tres": {"gres/gpu": 2, "cpu": 8}}),
        ({"nodes": ["c2", "c1"]}, {"nodes": "c[1-2]"}),
        ({"nodes": ["ALL"]}, {"nodes": "c[1-3]"}),
        (
            {"nodes": ["ALL"], "partition": "batch"},
            {"flags": ("PART_NODES",), "partition": "batch"},
        ),
        ({"users": ["b", "a"]}, {"users": ("a", "b")}),
        ({"node_count": 2}, {"node_count": 2}),
        ({"features": ""}, {"features": ""}),
    ],
)
def test_equal_in_another_form(wish: dict[str, t.Any], has: dict[str, t.Any]) -> None:
    fake = control(Reservation("r", start_time=NOW, end_time=LATER, **has))
    assert not run(fake, **wish)["changed"], fake.calls


@given(
    st.fixed_dictionaries(
        {"duration": st.integers(1, 10**5).map(str), "users": st.just(["root"])},
        optional={
            "start": st.sampled_from(["now", "now+1hour", "2026-11-21T16:00:00Z"]),
            "nodes": st.lists(st.sampled_from(["c1", "c2"]), min_size=1, unique=True),
            "accounts": st.lists(st.sampled_from("ab"), unique=True),
            "features": st.sampled_from(["", "big&fast"]),
            "licenses": st.lists(st.sampled_from(["x", "y:3"]), unique=True),
            "flags": st.lists(st.sampled_from(["MAINT", "FLEX", "DAILY"]), unique=True),
            "comment": st.text("ab c", max_size=5),
        },
    )
)
def test_a_second_run_changes_nothing(wish: dict[str, t.Any]) -> None:
    fake = control()
    wish.setdefault("nodes", ["c3"])
    run(fake, **wish)
    assert not run(fake, **wish)["changed"], fake.calls
    assert run(fake, **{**wish, "nodes": ["c[1-3]"]})["changed"]
    assert not run(fake, **{**wish, "nodes": ["c[1-3]"]})["changed"], fake.calls


def test_added_to_what_is_there_and_taken_from_it() -> None:
    fake = control()
    ann: dict[str, t.Any] = {**WISH, "users": ["ann"], "lists": "add"}
    run(fake, **ann)
    ben: dict[str, t.Any] = {**ann, "nodes": ["c[2-3]"], "users": ["ben"]}
    would = run(fake, check=True, **ben)
    done = run(fake, **ben)
    # All of them: scontrol of 22.05 takes Nodes+= for Nodes=.
    assert fake.calls[1:] == [("update_reservation", "r", {"Nodes": "c[1-3]", "Users": "ann,ben"})]
    assert would["diff"] == done["diff"]
    there = done["reservation"]
    assert (there["nodes"], there["users"]) == ("c[1-3]", ["ann", "ben"])
    assert not run(fake, **ann)["changed"] and not run(fake, **ben)["changed"]
    part = run(fake, nodes=["c2"], lists="remove")["reservation"]
    assert (part["nodes"], part["users"]) == ("c[1,3]", ["ann", "ben"])
    assert not run(fake, nodes=["c2"], lists="remove")["changed"]


@pytest.mark.parametrize("nodes", ["c[1-3]", "c[1-2]", "ALL"])
def test_it_is_removed_with_its_last_node(nodes: str) -> None:
    """Slurm would fill an empty list of nodes with others."""
    fake = control(Reservation("r", start_time=NOW, end_time=LATER, nodes="c[1-2]"))
    assert run(fake, check=True, nodes=[nodes], lists="remove")["changed"] and fake.calls == []
    done = run(fake, nodes=[nodes], lists="remove")
    assert done["changed"] and done["reservation"] == {}
    assert fake.calls == [("delete_reservation", "r")]
    assert not run(fake, nodes=[nodes], lists="remove")["changed"] and len(fake.calls) == 1


@pytest.mark.parametrize("nodes", ["c1", "ALL"])
def test_one_for_licences_alone_does_not_lose_its_last_node(nodes: str) -> None:
    fake = control(
        Reservation("r", start_time=NOW, end_time=LATER, licenses="a:1", users=("ann", "ben"))
    )
    run(fake, nodes=[nodes], users=["ben"], lists="remove")
    assert fake.calls == [("update_reservation", "r", {"Users": "ann"})]


def test_one_that_another_run_makes_meanwhile_keeps_what_that_has_set() -> None:
    fake = control()
    create = fake.create_reservation

    def second(name: str, settings: t.Mapping[str, str]) -> None:
        create(name, {"StartTime": "now", "Duration": "60", "Nodes": "c1", "Users": "ann"})
        raise SlurmError("exists", "Duplicate reservation name -> x")

    fake.create_reservation = second  # type: ignore[method-assign]
    done = run(fake, **{**WISH, "nodes": ["c2"], "users": ["ben"], "lists": "add"})
    assert fake.calls[1:] == [("update_reservation", "r", {"Nodes": "c[1-2]", "Users": "ann,ben"})]
    assert done["reservation"]["nodes"] == "c[1-2]"


def test_a_creation_that_was_done_before_the_failover_is_not_repeated() -> None:
    fake = control()
    create = fake.create_reservation

    def lost(name: str, settings: t.Mapping[str, str]) -> None:
        create(name, settings)
        raise SlurmError("exists", "Duplicate reservation name -> x")

    fake.create_reservation = lost  # type: ignore[method-assign]
    assert run(fake, **WISH)["changed"] and len(fake.calls) == 1


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({**WISH, "duration": None}, "does not have an end -> set end or duration"),
        ({**WISH, "users": []}, "is for nobody -> set users"),
        ({**WISH, "nodes": []}, "reserves nothing -> set one of nodes"),
        ({**WISH, "end": "now+1hour"}, "end and duration are both set"),
        ({**WISH, "nodes": ["c7"]}, "not know the node c7"),
        ({**WISH, "partition": "bach"}, r"not know the partition bach \(did you mean batch\?\)"),
        ({**WISH, "duration": "long"}, "duration: .* -> write minutes"),
        ({**WISH, "duration": 3600}, "duration: is the number 3600; .* -> write it in quotes"),
        ({**WISH, "start": 57600}, "start: is the number 57600; .* -> write it in quotes"),
    ],
)
def test_what_lacks_or_is_wrong_is_named(wish: dict[str, t.Any], said: str) -> None:
    fake = control()
    with pytest.raises(SlurmError, match=said):
        run(fake, **wish)
    assert fake.calls == []


def test_users_that_slurm_refuses_come_with_the_nearest() -> None:
    fake = control()
    fake.rows["user"] = [{"user": "alice"}, {"user": "bob"}]
    fake.fails = [SlurmError("denied", "Invalid user id -> only root")]
    with pytest.raises(SlurmError, match=r"not know the user allice \(did you mean alice\?\)"):
        run(fake, **{**WISH, "users": ["allice"]})


def test_a_user_who_exists_and_is_refused_is_told_who_may() -> None:
    fake = control()
    fake.rows["user"] = [{"user": "alice"}]
    fake.fails = [SlurmError("denied", "Invalid user id -> only root")]
    with pytest.raises(SlurmError, match="only root"):
        run(fake, **{**WISH, "users": ["root"]})


def test_the_rest_of_24_11_reads_only_and_says_which_version_adds_it() -> None:
    fake = control(Reservation("r", start_time=NOW, end_time=NOW + 3600), name="rest")
    assert not run(fake, start="now", duration="60")["changed"]
    with pytest.raises(SlurmError, match="24.11 cannot do update .*; 25.05 can -> use") as caught:
        run(fake, duration="61")
    assert caught.value.kind == "impossible"
