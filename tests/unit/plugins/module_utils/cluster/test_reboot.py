# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plan of reboot.yml."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import reboot


def facts(*reasons: tuple[str, str], **more: Any) -> dict[str, Any]:
    """The registered result of node_facts of a host with reasons for a reboot."""
    node = {
        "boot_id": "a",
        "reboot": [{"part": part, "reason": reason} for part, reason in reasons],
        "mounts": [],
        "unmounted": [],
        "services": {"slurmd": "inactive", "munge": "active"},
        **more,
    }
    return {"node": node}


def node(
    name: str, state: str = "IDLE", reason: str = "", *flags: str, boot_time: int = 100
) -> dict[str, Any]:
    shown = [*flags, "DRAIN"] if reason else list(flags)
    return {"name": name, "state": state, "flags": shown, "reason": reason, "boot_time": boot_time}


def chosen(plan: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(one["host"], one["done"]) for one in plan["hosts"]]


def test_those_that_wait_are_taken_idle_first() -> None:
    answers = {
        "c1": facts(("system", "upgrade of linux-image-6.12")),
        "c2": facts(),
        "c3": facts(("lustre_client", "credits"), ("system", "upgrade of linux-image-6.12")),
        "login1": facts(("system", "an upgrade")),
        "c4": {"unreachable": True, "msg": "Connection refused"},
    }
    nodes = [node("c1", "ALLOCATED"), node("c2"), node("c3"), node("c4")]
    plan = reboot.plan(answers, nodes, False)
    assert chosen(plan) == [("c3", False), ("c1", False), ("login1", False)]
    assert plan["through_slurm"] == ["c3", "c1"] and plan["directly"] == ["login1"]
    assert plan["mark"] == [] and plan["problems"] == []
    assert plan["lines"][0].startswith("c4: Connection refused")
    assert "c1: system: upgrade of linux-image-6.12" in plan["lines"]


def test_a_host_has_another_name_in_slurm() -> None:
    """Without it such a node had no plan, or was rebooted under its jobs once slurmd was stopped there."""
    answers = {name: facts(("system", "x")) for name in ("gpu-1.example.org", "10.0.0.7", "login1")}
    answers["10.0.0.7"]["node"]["services"]["slurmd"] = "active"
    hosts = {"gpu-1": "gpu-1.example.org", "gpu-2": "10.0.0.7"}
    record = {"nodes": {name: {"host": host} for name, host in hosts.items()}}
    nodes = [{**node("gpu-1", "ALLOCATED"), "partitions": ["all"]}, node("gpu-2")]
    plan = reboot.plan(answers, nodes, False, record=record)
    found = [(one["host"], one["node"]) for one in plan["hosts"]]
    assert found == [("10.0.0.7", "gpu-2"), ("gpu-1.example.org", "gpu-1"), ("login1", "")]
    assert plan["through_slurm"] == ["10.0.0.7", "gpu-1.example.org"] and not plan["problems"]
    # A node of the wave does not count as one that stays.
    all_at_once = reboot.Floor(1, "100%")
    (problem,) = reboot.plan(answers, nodes, True, floor=all_at_once, record=record)["problems"]
    assert problem.startswith("0 nodes would stay usable")


@pytest.mark.parametrize(
    ("at_once", "usable", "left"),
    [("1", 2, ""), ("2", 2, "1 nodes would stay"), ("100%", 1, "0 nodes would"), ("34%", 2, "")],
)
def test_a_first_wave_below_the_floor_is_refused_with_the_plan(
    at_once: str, usable: int, left: str
) -> None:
    """Before a reason is written on a host, and with --check too. c4 is drained, so it does not count."""
    nodes = [{**node(f"c{n}"), "partitions": ["all"]} for n in (1, 2, 3)]
    nodes.append({**node("c4", "IDLE", "broken"), "partitions": ["all"]})
    answers = {f"c{n}": facts() for n in (1, 2, 3)}
    plan = reboot.plan(answers, nodes, True, "new kernel", floor=reboot.Floor(usable, at_once))
    (problem,) = plan["problems"] or [""]
    assert problem.startswith(left) and bool(problem) == bool(left)
    assert ("reboot_at_once" in problem) == bool(left)


def test_a_container_is_refused_unless_its_kernel_need_not_restart() -> None:
    answers = {"c1": facts(virtualization="container")}
    (problem,) = reboot.plan(answers, [node("c1")], True)["problems"]
    assert problem.startswith("c1: a container ends with a reboot")
    assert chosen(reboot.plan(answers, [node("c1")], True, boot_check=False)) == [("c1", False)]


def test_a_host_that_is_away_has_the_cause_and_what_is_unfinished() -> None:
    said = "Failed to connect: " + "x" * 300 + " port 22: \x1b[2J No route to host"
    drain = "tw:reboot:node: kernel -> reboot.yml resumes it"
    answers = {"c1": {"unreachable": True, "msg": said}, "c2": {"unreachable": True, "msg": ""}}
    first, second = reboot.plan(answers, [node("c1", "DOWN", drain)], False)["lines"]
    assert first.startswith("c1: drained by reboot, and does not answer: x")
    assert r"\x1b[2J No route to host -> see whether it runs" in first and len(first) < 320
    assert second == "c2: no answer -> see whether it runs and answers SSH"


def test_slurm_does_not_reboot_its_controller() -> None:
    """slurmctld would not see that the node comes back."""
    answers = {"ctl1": facts(("system", "an upgrade"))}
    (one,) = reboot.plan(answers, [node("ctl1")], False, controllers=["ctl1"])["hosts"]
    assert one["node"] and not one["through_slurm"]


def test_nothing_waits() -> None:
    plan = reboot.plan({"c1": facts()}, [node("c1")], False)
    assert plan["hosts"] == [] and plan["lines"] == ["no host waits for a reboot"]


def test_named_hosts_are_taken_and_marked_with_the_moment() -> None:
    plan = reboot.plan(
        {"c1": facts(), "c2": facts()}, [node("c1"), node("c2")], True, "kernel", now=50
    )
    assert chosen(plan) == [("c1", False), ("c2", False)]
    assert plan["text"] == "kernel (asked 50)" and plan["mark"] == ["c1", "c2"]


@pytest.mark.parametrize("reason", ['a "b"\nc', "x" * 500, "päper=1|2"])
def test_a_reason_is_one_that_slurm_can_hold(reason: str) -> None:
    plan = reboot.plan({"c1": facts()}, [], True, reason, now=50)
    said = reboot.slurm_reason(plan["hosts"][0]["why"])
    assert not set('"\n=|') & set(said) and said.isascii() and len(said) < 220


def test_an_ended_run_goes_on() -> None:
    """c1 was given back, c2 has booted and is still drained, c3 has its mark, c4 was not marked yet."""
    asked = "kernel (asked 50)"
    answers = {
        "c1": facts(),
        "c2": facts(),
        "c3": facts(("person", asked)),
        "c4": facts(),
    }
    nodes = [
        node("c1", boot_time=70),
        node("c2", "IDLE", reboot.slurm_reason(asked), boot_time=80),
        node("c3", "MIXED", boot_time=10),
        node("c4", boot_time=10),
    ]
    plan = reboot.plan(answers, nodes, True, "kernel", now=90)
    assert chosen(plan) == [("c2", True), ("c4", False), ("c3", False)]
    assert plan["text"] == asked and plan["mark"] == ["c4", "c3"]
    assert "c1: rebooted by the run before this one" in plan["lines"]


def test_another_reason_is_another_run() -> None:
    """A node that never came back from the last one does not make the others of this one be left out."""
    nodes = [
        node("c1", "IDLE", reboot.slurm_reason("firmware (asked 50)"), boot_time=10),
        node("c2", boot_time=70),
    ]
    answers = {"c1": facts(("person", "firmware (asked 50)")), "c2": facts()}
    plan = reboot.plan(answers, nodes, True, "kernel", now=90)
    assert chosen(plan) == [("c1", False), ("c2", False)] and plan["text"] == "kernel (asked 90)"


def test_the_drain_of_somebody_else_is_no_reboot_of_ours() -> None:
    nodes = [node("c1", "IDLE", "tw:health:gpu: lost -> reboot")]
    assert reboot.plan({"c1": facts()}, nodes, False)["hosts"] == []
    assert chosen(reboot.plan({"c1": facts()}, nodes, True, "x", now=9)) == [("c1", False)]


@pytest.mark.parametrize("named", [True, False])
def test_a_node_that_does_not_answer_is_named(named: bool) -> None:
    answers = {"c1": facts(("system", "an upgrade"))}
    plan = reboot.plan(answers, [node("c1", "DOWN", "", "NOT_RESPONDING")], named, "x", now=9)
    said = plan["problems"] if named else plan["lines"]
    assert plan["hosts"] == [] and "start slurmd there" in said[0]


BAD = "bad DIMM"


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("state", "flags", "reason", "left"),
    [
        ("DOWN", (), BAD, f"c1: set down by alice: {BAD} -> resume it, or drain it first"),
        ("DOWN", (), f"{BAD} : Not responding", f"c1: set down by alice: {BAD} : Not responding"),
        ("DOWN", (), "tw:health:gpu: lost -> replace it", "c1: set down by alice: tw:health:gpu"),
        ("DOWN", ("DRAIN",), BAD, ""),
        ("IDLE", ("DRAIN",), BAD, ""),
        ("DOWN", (), "Not responding", ""),
        ("DOWN", (), "Node unexpectedly rebooted", ""),
        ("DOWN", (), "", ""),
        ("DOWN", (), "tw:reboot:node: x -> reboot.yml resumes it : reboot timed out", ""),
    ],
)
def test_a_node_that_somebody_set_down_is_left(
    named: bool, state: str, flags: tuple[str, ...], reason: str, left: str
) -> None:
    """A reboot would give it back: slurmctld takes a node that has booted for up, whoever set it down."""
    answers = {"c1": facts(("system", "an upgrade"))}
    down = {**node("c1", state), "flags": list(flags), "reason": reason, "reason_user": "alice"}
    plan = reboot.plan(answers, [down], named, "x", now=9)
    assert chosen(plan) == ([] if left else [("c1", False)])
    assert plan["mark"] == (["c1"] if named and not left else [])
    if left:
        said = plan["problems"] if named else plan["lines"]
        waits = "" if named else "waits for a reboot (system: an upgrade); "
        assert said[0].startswith(left.replace("c1: ", f"c1: {waits}")) and len(said) == 1
        assert bool(plan["problems"]) is named
        # The run ends with these, after it has rebooted the others.
        assert plan["waiting"] == ([] if named else said)


def test_a_node_that_only_slurmd_knows_is_not_rebooted_past_its_jobs() -> None:
    running = facts(("system", "an upgrade"), services={"slurmd": "active"})
    plan = reboot.plan({"c1": running}, [], False)
    assert plan["hosts"] == [] and "slurmctld does not know the node" in plan["lines"][0]
    assert reboot.plan({"c1": running}, [], True)["problems"]


def test_a_named_host_without_an_answer_is_a_problem() -> None:
    answers = {"c1": facts(), "c2": {"failed": True, "msg": "gpus[0]: 9 is not\nso"}}
    plan = reboot.plan(answers, [], True, "x", now=9)
    assert plan["problems"] == ["c2: gpus[0]: 9 is not so -> see whether it runs and answers SSH"]


def test_a_host_that_is_back_has_what_it_had() -> None:
    before = facts(mounts=[{"path": "/fsx"}, {"path": "/home"}])["node"]
    assert reboot.still_wrong(before, {**before, "boot_id": "b"}) == []
    assert reboot.still_wrong(before, before) == ["its kernel was not restarted"]
    assert reboot.still_wrong(before, before, boot_check=False) == []
    assert reboot.still_wrong(before, before, done=True) == []
    after = {
        "boot_id": "b",
        "reboot": [{"part": "system", "reason": "an upgrade"}],
        "mounts": [{"path": "/home"}],
        "services": {"munge": "failed"},
    }
    assert reboot.still_wrong(before, after) == [
        "it still waits for a reboot (system: an upgrade)",
        "not mounted any more: /fsx",
        "not running any more: munge",
    ]


def test_a_node_that_an_earlier_run_rebooted_needs_the_mounts_of_fstab() -> None:
    """A second run without a repair must not give a node back that the first one has refused."""
    asked = reboot.slurm_reason("kernel (asked 50)")
    bare = facts(mounts=[{"path": "/home"}], unmounted=["/fsx"])
    for drain, uses in ((asked, ["/fsx", "/home"]), ("", ["/home"])):
        (one,) = reboot.plan({"c1": bare}, [node("c1", "IDLE", drain)], True, "x", now=9)["hosts"]
        assert one["done"] == bool(drain) and one["uses"] == uses
    before = bare["node"]
    assert reboot.still_wrong(before, before, done=True) == ["in fstab, and not mounted: /fsx"]
    assert reboot.still_wrong(before, {**before, "unmounted": []}, done=True) == []
    # One that was away before the reboot, too, is not the reboot's fault.
    assert reboot.still_wrong(before, before, boot_check=False) == []


def test_a_run_says_who_waits() -> None:
    kernel = ("system", "upgrade of linux-image-6.12")
    found = reboot.messages(
        {host: facts(kernel)["node"] for host in ("c1", "c2")} | {"c3": facts()["node"]}
    )
    assert len(found) == 1
    assert found[0].startswith("c[1-2]: waits for a reboot (system: upgrade of linux-image-6.12)")
