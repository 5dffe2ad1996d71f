# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what the proof decides: which nodes, what a job says, what comes back, and the message."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import attention, text
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import (
    accepted,
    proof,
    proof_message,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Node

IDLE = Node("c1", "IDLE", version="24.11.5", slurmd_start_time=100)


def node(**more: t.Any) -> Node:
    return dataclasses.replace(IDLE, **more)


def spec(content: str, path: str = "/etc/slurm/slurm.conf", **more: t.Any) -> dict[str, t.Any]:
    given = {"path": path, "content": content, "state": "present", "mode": "0644"}
    return {**given, "owner": "root", "group": "root", **more}


SHOWN = """NodeName=c1 Arch=x86_64 CoresPerSocket=1
   State=IDLE ThreadsPerCore=1
   BootTime=2026-01-01T00:00:00 SlurmdStartTime=2026-01-01T00:00:09
NodeName=c2 CoresPerSocket=1
   State=IDLE+DRAIN ThreadsPerCore=1
   BootTime=None SlurmdStartTime=None
"""


def test_only_a_node_that_has_something_new_is_proved() -> None:
    stamps = {"c1": proof.stamp_of(IDLE, "a", "")}
    assert proof.stale([IDLE], stamps, "a", {}) == []
    assert proof.stale([IDLE], stamps, "b", {}) == [IDLE]
    for other in (node(version="25.05.1"), node(slurmd_start_time=101), node(name="c2")):
        assert proof.stale([other], stamps, "a", {}) == [other]


def test_a_node_whose_files_changed_is_proved() -> None:
    old, new = "0123456789abcdef", "fedcba9876543210"
    stamps = {"c1": proof.stamp_of(IDLE, "a", old)}
    assert proof.stale([IDLE], stamps, "a", {"c1": old}) == []
    assert proof.stale([IDLE], stamps, "a", {"c1": new}) == [IDLE]
    # One that says nothing is not proved for it, and what it ran its last step with is kept.
    assert proof.stale([IDLE], stamps, "a", {}) == []
    assert proof.loads_of(IDLE, stamps, {}) == old
    # A stamp of an earlier release does not have the files.
    before = {"c1": {key: stamps["c1"][key] for key in ("conf", "version", "start")}}
    assert proof.stale([IDLE], before, "a", {"c1": old}) == [IDLE]


def test_what_does_not_look_like_an_answer_is_none() -> None:
    good = "0123456789abcdef"
    odd = [good.upper(), good + "\n", good + "0", "", None, 5, [good], {"x": good}]
    told = {"c1": good, **{f"n{number}": word for number, word in enumerate(odd)}}
    assert proof.told_by(told, proof.DIGEST) == {"c1": good}
    assert proof.told_by({"a": "", "b": "x\ny", "c": "x" * 501, "d": "no"}, proof.WORDS) == {
        "d": "no"
    }


@pytest.fixture
def proved(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Any:
    """A controller whose node was proved with this configuration; steps are only noted. Returns a call of prove."""
    files = [spec("KillWait=30\n")]
    (tmp_path / accepted.ACCEPTED).write_text(accepted.manifest(files))
    stamps = {"c1": proof.stamp_of(IDLE, accepted.digest(files), "0123456789abcdef")}
    state = {"digest": accepted.digest(files), "files": files, "nodes": stamps}
    accepted.write(str(tmp_path), accepted.PROVED, state)
    monkeypatch.setattr(proof.Slurm, "run", lambda *_words, **_more: (0, ""))
    monkeypatch.setattr(proof.text, "nodes", lambda _shown: [IDLE])

    def run(self: t.Any, names: list[str]) -> proof.Result:
        return proof.Result(proved=names)

    monkeypatch.setattr(proof.Steps, "run", run)
    settings = proof.Settings("24.11", applied_dir=str(tmp_path))
    return lambda **known: proof.prove(proof.Reported(["c1"], **known), settings)


def test_other_packages_make_a_step_run_once(proved: t.Any) -> None:
    assert proved() is None
    assert proved(loads={"c1": "0123456789abcdef"}) is None
    assert proved(loads={"c1": "fedcba9876543210"}).proved == ["c1"]
    assert proved(loads={"c1": "fedcba9876543210"}) is None


def test_no_step_is_run_while_the_commands_of_a_login_host_do_not_start(proved: t.Any) -> None:
    loads = {"c1": "fedcba9876543210"}
    found = proved(loads=loads, clients={"login1": "error: no plugin"})
    assert found.proved == []
    assert found.failed == {"login1": "no command starts: error: no plugin"}
    assert proved(loads=loads).proved == ["c1"]


def test_the_digest_is_of_what_nodes_are_given() -> None:
    digest = accepted.digest([spec("KillWait=30\n")])
    assert digest == accepted.digest([spec("# a comment\nKillWait=30\n")])
    unit = spec("x", "/etc/systemd/system/slurmctld.service.d/a.conf")
    record, secret = spec("{}", "/var/lib/record.json"), spec("p", "/etc/slurm/b.conf", secret=True)
    gone = spec("", "/etc/slurm/gres.conf", state="absent")
    assert digest == accepted.digest([spec("KillWait=30\n"), unit, record, secret, gone])
    assert digest != accepted.digest([spec("KillWait=31\n")])
    # The files of a manifest have the digest of those that were given.
    given = [spec("KillWait=30\n"), record, secret]
    assert accepted.digest(json.loads(accepted.manifest(given))["files"]) == digest


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (IDLE, ""),
        (node(state="ALLOCATED"), "busy"),
        (node(state="MIXED"), "busy"),
        (node(flags=("COMPLETING",)), "busy"),
        (node(flags=("DRAIN",), reason="fan"), "drained (fan)"),
        (node(flags=("NOT_RESPONDING",)), "does not answer"),
        (node(flags=("POWERED_DOWN",)), "powered down"),
        (node(flags=("RESERVED",)), "reserved"),
        (node(state="DOWN"), "down"),
        (node(version=""), "its slurmd has not registered"),
        (node(flags=("PLANNED",)), ""),
    ],
)
def test_only_an_idle_node_gets_a_job(given: Node, why: str) -> None:
    assert proof.away(given) == why


def test_a_slurmd_that_is_the_old_process_has_not_taken_the_configuration() -> None:
    assert accepted.starts(SHOWN) == {"c1": "2026-01-01T00:00:09"}
    before = {"told": True, "starts": {"c1": "2026-01-01T00:00:09"}}
    assert proof.not_taken([IDLE], before, SHOWN) == ["c1"]
    assert proof.not_taken([IDLE], {**before, "told": False}, SHOWN) == []
    assert proof.not_taken([IDLE], {}, SHOWN) == []
    assert proof.not_taken([node(flags=("NOT_RESPONDING",))], before, SHOWN) == []
    assert proof.not_taken([IDLE], before, SHOWN.replace("00:00:09", "00:00:10")) == []


def test_nodes_that_a_job_drained_are_told_from_others() -> None:
    before = {"drained": ["c3"], "since": 50}
    bad = node(flags=("DRAIN",), reason="batch job complete failure", reason_time=60)
    assert proof.drained_since([bad], before) == ["c1"]
    assert proof.drained_since([dataclasses.replace(bad, name="c3")], before) == []
    assert proof.drained_since([dataclasses.replace(bad, reason_time=40)], before) == []
    assert proof.drained_since([dataclasses.replace(bad, reason="Kill task failed")], before) == []
    assert proof.drained_since([bad], {}) == []


def test_the_files_of_the_last_proof_come_back(tmp_path: pathlib.Path) -> None:
    settings = proof.Settings("24.11", applied_dir=str(tmp_path))
    old, new = [spec("KillWait=30\n")], [spec("KillWait=31\n"), spec("x", "/etc/slurm/oci.conf")]
    (tmp_path / accepted.ACCEPTED).write_text(accepted.manifest(new))
    assert proof.files_before(settings) == []
    accepted.write(str(tmp_path), accepted.PROVED, {"digest": accepted.digest(old), "files": old})
    back = {file["path"]: file for file in proof.files_before(settings)}
    assert back["/etc/slurm/slurm.conf"]["content"] == "KillWait=30\n"
    assert back["/etc/slurm/oci.conf"]["state"] == "absent"
    (tmp_path / accepted.ACCEPTED).write_text(accepted.manifest(old))
    assert proof.files_before(settings) == []
    assert (tmp_path / accepted.PROVED).stat().st_mode & 0o777 == 0o600


def test_a_broken_record_is_as_good_as_none(tmp_path: pathlib.Path) -> None:
    for content in ("{", "[]", "\xff"):
        (tmp_path / accepted.PROVED).write_text(content, encoding="latin-1")
        assert accepted.read(str(tmp_path), accepted.PROVED) == {}


def test_nodes_before_a_change_are_those_before_the_first_one(tmp_path: pathlib.Path) -> None:
    settings = proof.Settings("24.11", applied_dir=str(tmp_path))
    accepted.note_nodes(settings, lambda *_words: (0, SHOWN, ""), "a", True)
    first = accepted.read(str(tmp_path), accepted.BEFORE)
    assert (first["drained"], first["told"], first["of"]) == (["c2"], True, "a")
    more = SHOWN.replace("State=IDLE ", "State=IDLE+DRAIN ").replace("00:00:09", "00:00:12")
    accepted.note_nodes(settings, lambda *_words: (0, more, ""), "b", True)
    second = accepted.read(str(tmp_path), accepted.BEFORE)
    assert (second["drained"], second["of"]) == (["c2"], "b")
    assert second["starts"] == {"c1": "2026-01-01T00:00:12"}
    accepted.note_nodes(settings, lambda *_words: (1, "", "no"), "c", True)
    assert accepted.read(str(tmp_path), accepted.BEFORE) == second
    old = proof.Settings("22.05", applied_dir=str(tmp_path))
    accepted.note_nodes(old, lambda *_words: (0, SHOWN, ""), "d", True)
    assert accepted.read(str(tmp_path), accepted.BEFORE)["told"] is False
    # Earlier releases wrote times in the zone of the controller.
    assert accepted.before(str(tmp_path)) == accepted.read(str(tmp_path), accepted.BEFORE)
    accepted.write(str(tmp_path), accepted.BEFORE, {**second, "zone": ""})
    assert accepted.before(str(tmp_path)) == {}


JOURNAL = """slurmd: slurmd version 24.11.5 started
slurmd: error: slurm_receive_msg_and_forward: failed: Zero Bytes were transmitted
slurmd: Caught SIGHUP. Triggering reconfigure.
slurmd: error: cannot find proctrack plugin for proctrack/guess
slurmd: error: slurmd initialization failed
slurmd: Resuming operation, reconfigure failed.
"""


def test_message_names_nodes_words_variable_and_remedy() -> None:
    words = {"c1": proof_message.words_of(JOURNAL)}
    assert words["c1"] == (
        "error: cannot find proctrack plugin for proctrack/guess; error: slurmd initialization failed"
    )
    back = {"reasons": ["ProctrackType: proctrack/guess -> proctrack/cgroup (reconfigure)"]}
    failed = {"c1": "its slurmd did not take the configuration"}
    said = proof_message.message(failed, words, back, proof.Result(proved=["c1"]))
    assert "the one of the last proof is back and runs a step again on c1" in said
    assert "c1: its slurmd did not take the configuration; slurmd said: error: cannot find" in said
    assert said.split(" -> ")[-1].startswith("correct slurm_conf.ProctrackType, or drain a node")
    both = {"failed": True, "msg": "no way", **back}
    assert "did not go back" in proof_message.message(failed, {}, both, proof.Result())
    first = proof_message.message(failed, {}, None, None)
    assert "no other configuration was proved" in first
    many = {f"n{number}": "its slurmd did not take the configuration" for number in range(1000)}
    assert len(proof_message.message(many, words, back, proof.Result())) < 1500


@pytest.mark.parametrize(
    ("why", "words", "remedy"),
    [
        ("its node is drained: tw:hook:gpu: no GPU -> reboot", "", "repair the hook gpu, or"),
        ("srun ended with 1", "error: [job 7] prolog failed status=1:0", "repair the Prolog or Epilog"),
        ("its node is drained: Prolog error", "", "repair the Prolog or Epilog"),
        ("srun ended with 1", "error: Parameter Prolog is fine", "correct slurm_conf.KillWait"),
    ],
)  # fmt: skip
def test_a_hook_that_failed_is_what_to_repair(why: str, words: str, remedy: str) -> None:
    back = {"reasons": ["KillWait: 30 -> 40 (reconfigure)"]}
    for again in (back, {**back, "failed": True}, None):
        said = proof_message.message({"c1": why}, {"c1": words}, again, proof.Result(proved=["c1"]))
        if again or "hook" in remedy:
            assert f" -> {remedy}" in said


@pytest.mark.parametrize(
    ("reason", "names"),
    [
        ("HealthCheckInterval: 60 -> 300 (reconfigure)", ["node_health_interval"]),
        ("Prolog: none -> x", ["job_hooks_parts", "slurm_conf.Prolog"]),
        ("PrologTimeout: 60 -> 90", ["job_hooks_parts"]),
        ("SlurmdPort: 6818 -> 7818", ["slurm_ports"]),
        ("KillWait: 30 -> 40", ["slurm_conf.KillWait"]),
        ("plugstack.conf: changed", ["slurm_plugstack"]),
    ],
)
def test_the_variable_is_the_one_that_the_site_sets(reason: str, names: list[str]) -> None:
    assert proof_message.variables([reason]) == names


def test_message_about_login_hosts_names_the_words_and_whether_they_work_again() -> None:
    failed = {"login1": "error: spank: /x.so"}
    back = {"reasons": ["plugstack.conf: changed -> reconfigure"]}
    said = proof_message.client_message(failed, back, [])
    assert said.startswith(
        "no command of Slurm starts on login1 with the new configuration; the one of the last proof"
        " is back, and they work again. login1: error: spank: /x.so -> correct slurm_plugstack, or"
    )
    still = proof_message.client_message(failed, back, ["login1"])
    assert "neither with the new configuration nor" in still
    assert ": login1: error: spank: /x.so -> install or repair on login1" in still
    refused = proof_message.client_message(failed, {"failed": True, "msg": "no way", **back}, [])
    assert "slurmctld did not go back to the last proved one (no way). login1:" in refused
    alone = proof_message.client_message(failed, None, [])
    assert alone.startswith("no command of Slurm starts on login1: login1: error: spank: /x.so ->")


def test_reasons_name_their_variables() -> None:
    reasons = [
        "NodeName=c3: present -> absent (reconfigure)",
        "plugstack.conf: changed -> reconfigure",
    ]
    reasons += ["KillWait: 1 -> 2 (reconfigure)", "slurmctld is not running -> start"]
    assert proof_message.variables(reasons) == [
        "slurm_node",
        "slurm_plugstack",
        "slurm_conf.KillWait",
    ]


def test_what_waits_for_a_person_is_named_and_bounded() -> None:
    nodes = [
        Node(f"n{number:02}", "IDLE", ("DRAIN",), reason="gpu fell\x1b]0;x off")
        for number in range(12)
    ]
    nodes += [IDLE, Node("d1", "DOWN", reason="Not responding"), Node("d2", "IDLE", ("DRAIN",))]
    lines = attention.drained_lines(nodes)
    assert lines[0].startswith("Drained nodes, gpu fell\\x1b]0;x off: n00, n01") and len(lines) == 3
    assert lines[0].endswith("n09 and 2 more")
    assert "Down nodes, Not responding: d1" in lines
    assert "Drained nodes, no reason given: d2" in lines
    apart = [Node(f"n{n}", "IDLE", ("DRAIN",), reason=f"why {n}\nmore") for n in range(30)]
    assert len(attention.drained_lines(apart)) == 11
    assert not any("\n" in line for line in attention.drained_lines(apart))

    queue = "7|alice|launch failed requeued held\n8|bob|JobHeldUser\n9|bob|JobHeldUser\n5|eve|JobHeldAdmin\n"
    held = attention.held_lines(queue + "11|eve|Resources\n")
    assert held[0].startswith("Held jobs, JobHeldAdmin: 5 (eve) -> scontrol release")
    assert held[1].startswith("Held jobs, launch failed requeued held: 7 (alice)")
    assert held[2] == "2 jobs are held by bob"
    assert attention.held_lines("11|eve|Resources\n") == []

    left = attention.skipped_lines({"c1": "busy", "c2": "drained (fan)", "c3": "busy"})
    assert left == ["No step was run to prove c1, c3: busy; the next run does it"]


def test_a_partition_that_starts_no_job_is_named() -> None:
    shown = text.partitions(
        "".join(
            f"PartitionName={name}\n   AllowGroups=ALL\n   AllocNodes=ALL Default=NO\n"
            f"   State={state} TotalCPUs=2 TotalNodes={nodes}\n\n"
            for name, state, nodes in (
                *(("up", "UP", 2), ("off", "DOWN", 2), ("old", "DRAIN", 2), ("none", "UP", 0)),
            )
        )
    )
    down, drained, empty = attention.partition_lines(shown)
    assert down.startswith(
        "Partition off is DOWN: its jobs wait -> scontrol update PartitionName=off State=UP"
    )
    assert drained.startswith("Partition old is DRAIN: it takes no new jobs -> ")
    assert empty.startswith("Partition none is empty: its jobs wait -> ")
    many = [dataclasses.replace(shown[1], name=f"p{number}") for number in range(12)]
    assert attention.partition_lines(many)[-1] == "and 2 more partitions -> sinfo"
