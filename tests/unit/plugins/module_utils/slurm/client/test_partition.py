# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of slurm_partition: equal values in different forms, and what becomes a call."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import partition
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Node, Partition
from hypothesis import given
from hypothesis import strategies as st

from .fake_control import FakeControl, session


def control(*partitions: Partition, **more: t.Any) -> FakeControl:
    fake = FakeControl(Node("c1"), Node("c2"), **more)
    fake.all_partitions = {one.name: one for one in partitions}
    return fake


def run(fake: FakeControl, check: bool = False, **params: t.Any) -> dict[str, t.Any]:
    params = {"name": "course", "state": "present", **params}
    return partition.work(session("slurm_partition", fake, check, **params))


def test_create_change_no_change_remove() -> None:
    fake = control()
    made = run(fake, nodes=["c[1-2]"], max_time="02:00:00", allow_groups=["students"])
    assert fake.calls == [
        (
            "create_partition",
            "course",
            {"MaxTime": "120", "AllowGroups": "students", "Nodes": "c[1-2]"},
        )
    ]
    assert made["changed"] and made["partition"]["max_time"] == 7200
    assert made["diff"]["before"] == "" and "reconfigure" in made["warnings"][0]
    changed = run(fake, nodes=["c1", "c2"], max_time="3:00:00", allow_groups=[])
    assert fake.calls[1][2] == {"MaxTime": "180", "AllowGroups": "ALL"}
    assert '"max_time": 120' in changed["diff"]["before"]
    assert '"max_time": 180' in changed["diff"]["after"]
    same = run(fake, nodes=["c2,c1"], max_time="180", allow_groups=[])
    assert not same["changed"] and "warnings" not in same and len(fake.calls) == 2
    gone = run(fake, state="absent")
    assert gone["changed"] and gone["partition"] == {} and fake.all_partitions == {}
    assert not run(fake, state="absent")["changed"]


def test_check_mode_calls_nothing_and_says_the_same() -> None:
    fake = control(Partition("course", nodes="c1"))
    would = run(fake, check=True, nodes=["ALL"], default=True)
    assert would["changed"] and fake.calls == [] and would["partition"]["nodes"] == "c1"
    assert would["diff"] == run(fake, nodes=["ALL"], default=True)["diff"]
    assert run(control(), check=True, nodes=["c1"])["partition"] == {}
    assert run(fake, check=True, state="absent")["changed"] and len(fake.calls) == 1


@pytest.mark.parametrize(
    ("option", "wish", "has"),
    [
        ("max_time", "unlimited", {"max_time": None}),
        ("max_time", "60", {"max_time": 3600}),
        ("max_time", "0:59:30", {"max_time": 3600}),
        ("default_time", "1-0", {"default_time": 86400}),
        ("max_nodes", "unlimited", {"max_nodes": None}),
        ("max_nodes", "3", {"max_nodes": 3}),
        ("partition_state", "down", {"state": "DOWN"}),
        ("allow_accounts", ["B", "a"], {"allow_accounts": ("a", "b")}),
        ("allow_qos", [], {"allow_qos": ()}),
        ("qos", "", {"qos": ""}),
        ("preempt_mode", "suspend", {"preempt_mode": "GANG,SUSPEND"}),
        ("over_subscribe", "yes", {"over_subscribe": "YES:4"}),
        ("over_subscribe", "force:2", {"over_subscribe": "FORCE:2"}),
        ("hidden", False, {"hidden": False}),
        ("nodes", ["ALL"], {"nodes": "c[1-2]"}),
        ("nodes", ["c1", "c2"], {"nodes": "ALL"}),
        ("nodes", [], {"nodes": ""}),
    ],
)
def test_equal_in_another_form(option: str, wish: t.Any, has: dict[str, t.Any]) -> None:
    fake = control(Partition("course", **has))
    assert not run(fake, **{option: wish})["changed"], fake.calls


@pytest.mark.parametrize("option", ["max_time", "default_time"])
def test_a_time_that_is_a_number_is_refused(option: str) -> None:
    fake = control(Partition("course", nodes="c1"))
    with pytest.raises(SlurmError, match=f"{option}: is the number 3600; .* -> write it in quotes"):
        run(fake, **{option: 3600})
    assert fake.calls == []


@pytest.mark.parametrize(
    ("option", "wish", "setting"),
    [
        ("max_time", "unlimited", {"MaxTime": "UNLIMITED"}),
        ("max_time", "90", {"MaxTime": "90"}),
        ("max_nodes", "4", {"MaxNodes": "4"}),
        ("qos", "night", {"QoS": "night"}),
        ("deny_accounts", ["b", "a"], {"DenyAccounts": "a,b"}),
        ("hidden", True, {"Hidden": "YES"}),
        ("over_subscribe", "exclusive", {"OverSubscribe": "EXCLUSIVE"}),
        ("nodes", [], {"Nodes": ""}),
    ],
)
def test_what_differs_becomes_a_setting(option: str, wish: t.Any, setting: dict[str, str]) -> None:
    fake = control(Partition("course", nodes="c1", max_time=60, max_nodes=2))
    run(fake, **{option: wish})
    assert [call[2] for call in fake.calls] == [setting]


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "partition_state": st.sampled_from(["up", "down", "drain", "inactive"]),
            "max_time": st.integers(1, 10**6).map(str) | st.just("unlimited"),
            "default_time": st.integers(1, 10**4).map(str),
            "min_nodes": st.integers(0, 9),
            "max_nodes": st.integers(1, 9).map(str) | st.just("unlimited"),
            "default": st.booleans(),
            "root_only": st.booleans(),
            "priority_tier": st.integers(0, 65533),
            "allow_accounts": st.lists(st.sampled_from("abc"), unique=True),
            "deny_qos": st.lists(st.sampled_from("abc"), unique=True),
            "qos": st.sampled_from(["", "night"]),
            "over_subscribe": st.sampled_from(["no", "yes", "force:3", "exclusive"]),
            "nodes": st.lists(st.sampled_from(["c1", "c2", "ALL"]), max_size=1),
        },
    )
)
def test_a_second_run_changes_nothing(wish: dict[str, t.Any]) -> None:
    fake = control(Partition("course"))
    run(fake, **wish)
    assert not run(fake, **wish)["changed"], fake.calls


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"max_time": "soon"}, "max_time: .*soon.* -> write minutes"),
        ({"max_nodes": "many"}, "max_nodes: many is not a number"),
        ({"nodes": ["c9"]}, "not know the node c9 -> write one of: c1, c2"),
    ],
)
def test_wrong_values_are_named(wish: dict[str, t.Any], said: str) -> None:
    fake = control(Partition("course"))
    with pytest.raises(SlurmError, match=said):
        run(fake, **wish)
    assert fake.calls == []


def test_what_slurmrestd_does_not_show_counts_as_different() -> None:
    fake = control(Partition("course", default=None), version="26.05.5", name="rest")
    assert run(fake, default=False)["changed"]
    old = control(Partition("course", default=None), name="rest")
    with pytest.raises(
        SlurmError, match="24.11 cannot do update .*26.05 can -> use transport: cli"
    ):
        run(old, default=False)
    assert not run(old, max_time="unlimited")["changed"]


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"allow_accounts": ["fysics"]}, r"not know the account fysics \(did you mean physics\?\)"),
        ({"deny_qos": ["nihgt"]}, r"not know the qos nihgt \(did you mean night\?\)"),
        ({"qos": "day"}, "not know the qos day -> write one of: night"),
    ],
)
def test_names_that_are_in_no_accounting_are_refused(wish: dict[str, t.Any], said: str) -> None:
    """slurmctld takes them without a word."""
    fake = control(Partition("course"))
    fake.rows = {"account": [{"account": "physics"}], "qos": [{"name": "night"}]}
    with pytest.raises(SlurmError, match=said) as caught:
        run(fake, **wish)
    assert caught.value.kind == "unknown" and fake.calls == []
    fake.rows = {}
    assert run(fake, **wish)["changed"]


def test_a_creation_that_was_done_before_the_failover_is_finished() -> None:
    fake = control()

    def create(name: str, settings: t.Mapping[str, str]) -> None:
        fake.all_partitions[name] = Partition(name)
        raise SlurmError("invalid", "Invalid partition name specified -> x")

    fake.create_partition = create  # type: ignore[method-assign]
    assert run(fake, max_time="60")["partition"]["max_time"] == 3600
