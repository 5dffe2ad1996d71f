# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of slurm_node's plan: who may end which drain, which reasons stay, what is one call."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import node, objects
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import (
    USABLE,
    Job,
    Node,
)
from hypothesis import given
from hypothesis import strategies as st

from .fake_control import FakeControl, session

HEALTH = "tw:health:gpu: GPU 3 is lost -> replace it"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects.time, "sleep", lambda seconds: None)


def control(*nodes: Node) -> FakeControl:
    return FakeControl(*(nodes or (Node("c1", "IDLE"), Node("c2", "IDLE"), Node("c3", "IDLE"))))


def run(fake: FakeControl, check: bool = False, **params: t.Any) -> dict[str, t.Any]:
    return node.work(session("slurm_node", fake, check, **params))


def test_a_drain_of_several_nodes_is_one_call_and_a_second_run_changes_nothing() -> None:
    fake = control()
    wish = {"names": ["c[1-2]"], "state": "drained", "reason": "rack 4"}
    first = run(fake, **wish)
    assert fake.calls == [("update_nodes", ("c1", "c2"), {"State": "DRAIN", "Reason": "rack 4"})]
    assert first["changed"] and first["changed_names"] == ["c1", "c2"]
    assert [shown["flags"] for shown in first["nodes"]] == [["DRAIN"], ["DRAIN"]]
    again = run(fake, **wish)
    assert not again["changed"] and len(fake.calls) == 1
    assert again["diff"] == {"before": "", "after": ""}


def test_a_list_that_ansible_split_at_the_commas_in_brackets_is_put_together() -> None:
    done = run(control(), names=["c[1", "3]"], weight=1)
    assert done["names"] == ["c1", "c3"]


def test_names_that_slurm_does_not_know_are_an_error_or_are_returned() -> None:
    fake = control()
    with pytest.raises(SlurmError, match="c9"):
        run(fake, names=["c1,c9"], state="drained", reason="x")
    assert fake.calls == []
    done = run(fake, names=["c1,c9"], state="drained", reason="x", absent="ignore")
    assert (done["names"], done["absent"]) == (["c1"], ["c9"])
    assert fake.calls == [("update_nodes", ("c1",), {"State": "DRAIN", "Reason": "x"})]
    assert not run(fake, names=["c9"], state="drained", reason="x", absent="ignore")["changed"]


def test_check_mode_says_the_same_and_calls_nothing() -> None:
    real, dry = control(), control()
    wish = {"names": ["ALL"], "state": "drained", "reason": "x", "weight": 7, "comment": "hi"}
    would = run(dry, check=True, **wish)
    done = run(real, **wish)
    assert dry.calls == [] and would["changed"]
    assert would["diff"] == done["diff"]
    assert '"state": "IDLE+DRAIN"' in would["diff"]["after"]


@pytest.mark.parametrize(
    ("reason", "owner"),
    [("disk", ""), ("tw:hook:scratch: full -> empty it", ""), (HEALTH, "remove")],
)
def test_a_node_that_is_drained_keeps_its_reason(reason: str, owner: str) -> None:
    fake = control(Node("c1", "IDLE", ("DRAIN",), reason))
    assert not run(fake, names=["c1"], state="drained", reason="rack 4", owner=owner)["changed"]


def test_a_person_takes_a_node_over_from_a_part_that_would_resume_it() -> None:
    fake = control(Node("c1", "IDLE", ("DRAIN",), HEALTH))
    assert run(fake, names=["c1"], state="drained", reason="rack 4")["changed"]
    written = f"rack 4; before: {HEALTH}"
    assert fake.calls[0][2] == {"Reason": written}
    assert node.owner_of(written) == ""
    again = control(Node("c1", "IDLE", ("DRAIN",), written))
    assert not run(again, names=["c1"], state="drained", reason="rack 4")["changed"]


def test_a_part_that_removes_a_node_takes_it_over_by_force() -> None:
    """Else node health would resume it while its jobs are waited for."""
    wish: dict[str, t.Any] = {"names": ["c1"], "state": "drained", "owner": "remove", "force": True}
    fake = control(Node("c1", "IDLE", ("DRAIN",), HEALTH))
    assert run(fake, reason="it leaves", **wish)["changed"]
    written = f"tw:remove:it leaves; before: {HEALTH}"
    assert fake.calls[0][2] == {"Reason": written}
    for reason in (written, "tw:remove:it leaves", "a person's"):
        again = control(Node("c1", "IDLE", ("DRAIN",), reason))
        assert not run(again, reason="it leaves", **wish)["changed"]


@pytest.mark.parametrize(
    ("reason", "owner", "force", "written"),
    [
        ("Not responding", "", False, "rack 4"),
        ("Not responding", "reboot", False, "tw:reboot:rack 4"),
        ("Not responding : reboot timed out", "reboot", False, "tw:reboot:rack 4"),
        ("", "reboot", False, "tw:reboot:rack 4"),
        ("bad DIMM", "", False, "rack 4"),
        ("bad DIMM", "reboot", False, "bad DIMM"),
        ("bad DIMM : Not responding", "reboot", False, "bad DIMM : Not responding"),
        ("bad DIMM", "remove", True, "tw:remove:rack 4"),
        (HEALTH, "", False, f"rack 4; before: {HEALTH}"),
        ("tw:hook:scratch: full -> empty it", "", False, "tw:hook:scratch: full -> empty it"),
        (HEALTH, "remove", False, HEALTH),
        (HEALTH, "health", False, "tw:health:rack 4"),
        (HEALTH, "", True, "rack 4"),
    ],
)
def test_a_node_that_is_down_keeps_the_reason_of_another_owner_when_it_is_drained(
    reason: str, owner: str, force: bool, written: str
) -> None:
    fake = control(Node("c1", "DOWN", (), reason))
    run(fake, names=["c1"], state="drained", reason="rack 4", owner=owner, force=force)
    assert fake.calls[0][2] == {"State": "DRAIN", "Reason": written}
    assert not run(fake, names=["c1"], state="drained", reason="rack 4", owner=owner, force=force)[
        "changed"
    ]
    assert fake.all_nodes["c1"].reason == written


@pytest.mark.parametrize(("state", "shown"), [("drained", "DOWN+DRAIN"), ("down", "DOWN")])
def test_a_person_takes_a_node_that_is_down_from_the_part_that_would_resume_it(
    state: str, shown: str
) -> None:
    fake = control(Node("c1", "DOWN", (), HEALTH))
    run(fake, names=["c1"], state=state, reason="rack 4")
    assert not run(fake, names=["c1"], state=state, reason="rack 4")["changed"]
    assert run(fake, names=["c1"], state="resumed", owner="health")["kept"]
    assert fake.all_nodes["c1"].shown == shown
    assert run(fake, names=["c1"], state="resumed")["changed"]


def test_a_reboot_gives_no_node_back_that_a_person_has_set_down() -> None:
    fake = control(Node("c1", "DOWN", (), "bad DIMM"))
    run(fake, names=["c1"], state="drained", reason="kernel", owner="reboot")
    done = run(fake, names=["c1"], state="resumed", owner="reboot")
    assert done["kept"] == {"c1": "bad DIMM"} and fake.all_nodes["c1"].drained


def test_a_drained_node_that_is_set_down_keeps_its_reason() -> None:
    fake = control(Node("c1", "IDLE", ("DRAIN",), "disk"))
    run(fake, names=["c1"], state="down", reason="power")
    assert fake.calls[0][2] == {"State": "DOWN", "Reason": "disk"}


def test_draining_without_a_reason_is_an_error_that_says_so() -> None:
    fake = control()
    with pytest.raises(SlurmError, match="c1: reason is not set -> give the reason"):
        run(fake, names=["c1"], state="drained")
    assert fake.calls == []


def test_a_reason_with_a_line_break_is_refused() -> None:
    with pytest.raises(SlurmError, match="reason has a line break"):
        run(control(), names=["c1"], state="drained", reason="a\nb")


def test_the_owner_marks_the_reason_once() -> None:
    assert node.owned("gpu: lost -> replace", "health") == "tw:health:gpu: lost -> replace"
    assert node.owned("tw:health:gpu", "health") == "tw:health:gpu"
    assert node.owned("plain", "") == "plain"


@pytest.mark.parametrize(
    ("reason", "owner", "force", "ended"),
    [
        ("rack 4", "", False, True),
        ("", "", False, True),
        (HEALTH, "", False, False),
        (HEALTH, "", True, True),
        (HEALTH, "health", False, True),
        (HEALTH, "remove", False, False),
        ("rack 4", "health", False, False),
    ],
)
def test_a_resume_ends_its_own_drains_only(
    reason: str, owner: str, force: bool, ended: bool
) -> None:
    fake = control(Node("c1", "IDLE", ("DRAIN",), reason))
    done = run(fake, names=["c1"], state="resumed", owner=owner, force=force)
    assert done["changed"] is ended
    assert done["kept"] == ({} if ended else {"c1": reason})
    assert bool(done["warnings"]) is not ended
    assert fake.calls == ([("update_nodes", ("c1",), {"State": "RESUME"})] if ended else [])


def test_a_resume_wakes_what_is_down_and_leaves_what_works() -> None:
    fake = control(Node("c1", "DOWN"), Node("c2", "MIXED"))
    assert run(fake, names=["ALL"], state="resumed")["changed_names"] == ["c1"]
    assert fake.all_nodes["c1"].state == "IDLE"


def test_unknown_names_come_with_the_nearest_and_nothing_is_changed() -> None:
    fake = control(Node("gpu01"), Node("gpu02"))
    with pytest.raises(
        SlurmError, match=r"not know the node gpu11 \(did you mean gpu01.*write one of"
    ) as e:
        run(fake, names=["gpu01", "gpu11"], state="drained", reason="x")
    assert e.value.kind == "unknown" and fake.calls == []


@pytest.mark.parametrize("names", ["c[1-", "c[2-1]"])
def test_a_malformed_host_list_is_an_error(names: str) -> None:
    with pytest.raises(SlurmError, match="names: .* -> write names such as") as caught:
        run(control(), names=[names])
    assert caught.value.kind == "invalid"


def test_a_reboot_is_asked_for_once() -> None:
    fake = control()
    wish: dict[str, t.Any] = {
        "names": ["c1"],
        "state": "rebooted",
        "reboot_asap": True,
        "reboot_next_state": "resume",
        "reason": "kernel",
        "owner": "reboot",
    }
    assert run(fake, **wish)["changed"]
    assert fake.calls == [("reboot_nodes", ("c1",), True, "RESUME", "tw:reboot:kernel")]
    assert not run(fake, **wish)["changed"]


def test_a_reboot_leaves_the_drain_of_another_owner() -> None:
    fake = control(Node("c1", "IDLE", ("DRAIN",), HEALTH))
    run(fake, names=["c1"], state="rebooted", reboot_asap=True, reboot_next_state="resume")
    assert fake.calls == [("reboot_nodes", ("c1",), False, "", "")]


def test_features_that_go_leave_the_active_ones_first() -> None:
    both = ("a", "b")
    fake = control(Node("c1", features=both, active_features=both))
    done = run(fake, names=["c1"], features=["b", "c"], active_features=["c"])
    assert [call[2] for call in fake.calls] == [
        {"ActiveFeatures": "b"},
        {"AvailableFeatures": "b,c"},
        {"ActiveFeatures": "c"},
    ]
    assert "slurm.conf has the same setting" in done["warnings"][0]
    assert not run(fake, names=["c1"], features=["c", "b"], active_features=["c"])["changed"]


def test_an_active_feature_that_the_node_has_not_is_an_error() -> None:
    with pytest.raises(SlurmError, match="active_features has x"):
        run(control(), names=["c1"], active_features=["x"])


@given(
    st.sets(st.sampled_from("abcd")),
    st.sets(st.sampled_from("abcd")),
    st.sets(st.sampled_from("abcd")),
    st.none() | st.sets(st.sampled_from("abcd")),
)
def test_features_always_converge(
    available: set[str], active: set[str], wanted: set[str], wanted_active: set[str] | None
) -> None:
    """The fake refuses active features that are not available, as slurmctld does."""
    if wanted_active is not None:
        wanted_active &= wanted
    fake = control(Node("c1", features=tuple(available), active_features=tuple(available & active)))
    wish = {
        "names": ["c1"],
        "features": list(wanted),
        "active_features": None if wanted_active is None else list(wanted_active),
    }
    run(fake, **wish)
    assert set(fake.all_nodes["c1"].features) == wanted
    if wanted_active is not None:
        assert set(fake.all_nodes["c1"].active_features) == wanted_active
    assert not run(fake, **wish)["changed"]


def test_it_waits_until_the_last_job_has_ended() -> None:
    fake = control(Node("c1", "MIXED"))

    def ends() -> None:
        fake.all_nodes["c1"] = dataclasses.replace(fake.all_nodes["c1"], state="IDLE")

    fake.looks = [lambda: None, lambda: None, ends]
    done = run(fake, names=["c1"], state="drained", reason="x", wait="drained", wait_timeout=60)
    assert done["nodes"][0]["state"] == "IDLE" and fake.looks == []


def test_a_wait_for_jobs_that_go_on_ends_with_their_nodes() -> None:
    fake = control(Node("c1", "ALLOCATED"), Node("c2", "DOWN", ("COMPLETING",)))
    with pytest.raises(SlurmError, match="^c1: jobs still run after 0 s -> ") as caught:
        run(fake, names=["c1", "c2"], state="drained", reason="x", wait="drained", wait_timeout=0)
    assert caught.value.kind == "timeout" and fake.calls


def test_it_waits_for_suspended_jobs_on_nodes_that_slurm_shows_as_idle() -> None:
    fake = control(Node("c1"), Node("c2"), Node("c3", "DOWN"))
    fake.all_jobs = [
        Job(7, state="SUSPENDED", nodes="c[1,3]"),
        Job(8, state="RUNNING", nodes="c1"),
        Job(9, state="SUSPENDED", nodes="c2"),
        Job(10, state="PENDING"),
    ]
    wish: dict[str, t.Any] = {"state": "drained", "reason": "x", "wait": "drained"}
    with pytest.raises(SlurmError) as caught:
        run(fake, names=["c1", "c3"], wait_timeout=0, **wish)
    assert caught.value.kind == "timeout"
    assert str(caught.value).startswith("c1: suspended jobs are left after 0 s (7) -> resume them")
    assert fake.all_nodes["c1"].drained and fake.all_nodes["c3"].drained

    def ends() -> None:
        fake.all_jobs = fake.all_jobs[1:]

    fake.looks = [lambda: None, lambda: None, ends]
    assert run(fake, names=["c1", "c3"], wait_timeout=60, **wish)["nodes"][0]["name"] == "c1"
    assert fake.looks == []


def test_it_asks_for_jobs_only_when_none_runs_on_the_nodes() -> None:
    fake = control(Node("c1", "MIXED"), Node("c2"), Node("c3", "DOWN"))
    wish: dict[str, t.Any] = {"state": "drained", "reason": "x", "wait_timeout": 0}
    with pytest.raises(SlurmError, match="^c1: jobs still run"):
        run(fake, names=["c1", "c2"], wait="drained", **wish)
    run(fake, names=["c3"], wait="drained", **wish)
    run(fake, names=["c2"], wait="none", **wish)
    assert fake.asked_jobs == 0
    run(fake, names=["c2"], wait="drained", **wish)
    assert fake.asked_jobs == 1


@pytest.mark.parametrize(
    ("state", "flags", "idle", "usable"),
    [
        ("IDLE", (), True, True),
        ("IDLE", ("RESERVED",), True, True),
        ("IDLE", ("NOT_RESPONDING",), False, False),
        ("IDLE", ("REBOOT_ISSUED",), False, False),
        ("IDLE", ("DRAIN",), False, False),
        ("IDLE", ("POWERED_DOWN",), False, False),
        ("MIXED", (), False, True),
        ("MIXED", ("DRAIN",), False, False),
        ("ALLOCATED", (), False, True),
        ("DOWN", (), False, False),
    ],
)
def test_which_nodes_are_not_waited_for(
    state: str, flags: tuple[str, ...], idle: bool, usable: bool
) -> None:
    one = Node("c1", state, flags)
    assert node._is(one, ("IDLE",)) is idle and node._is(one, USABLE) is usable
    assert not node._is(None, USABLE)


def test_the_rest_of_24_11_cannot_reboot_and_says_what_can() -> None:
    fake = FakeControl(Node("c1"), name="rest")
    with pytest.raises(SlurmError, match="cannot do reboot .* -> use transport: cli") as caught:
        run(fake, names=["c1"], state="rebooted", reboot_asap=False)
    assert caught.value.kind == "impossible" and fake.calls == []
    assert run(fake, names=["c1"], weight=5)["changed"]


@pytest.mark.parametrize(
    ("reason", "owner", "ends"),
    [
        ("rack 4", "", True),
        ("rack 4", "health", False),
        ("tw:health:gpu: lost -> replace", "", False),
        ("tw:health:gpu: lost -> replace", "health", True),
        ("tw:hook:scratch: full -> empty it", "", True),
        ("tw:hook:scratch: full -> empty it", "health", False),
        ("tw:hook:scratch: full -> empty it", "hook", True),
    ],
)
def test_whose_drain_may_be_ended(reason: str, owner: str, ends: bool) -> None:
    one = Node("c1", "IDLE", ("DRAIN",), reason=reason)
    assert node.may_end(one, owner, False) is ends and node.may_end(one, owner, True)
