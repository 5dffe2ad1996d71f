# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The agent on a Slurm of its own: cap, ladder, other people's reasons, crashes and failovers."""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.health import manifest
from ansible_collections.trainwright.slurm.plugins.module_utils.health.agent import run as agent_run
from ansible_collections.trainwright.slurm.plugins.module_utils.health.agent.decide import (
    Decision,
    Settings,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.health.agent.run import (
    Agent,
    AgentError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.health.publication import (
    Failure,
    Publication,
    dump,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import (
    Controller,
    Node,
    Reservation,
)

GPU = Failure("gpu_count", "7 of 8 GPUs", "reboot the node", "reboot")
MOUNT = Failure("mounts", "not mounted: /fsx", "mount it", "drain")
WORN = Failure("nvme_health", "critical warning of nvme1", "replace the disk", "replace")


class Killed(BaseException):
    """The agent is killed at this moment."""


class Slurm:
    """Slurm's nodes; calls are noted. die: the number of changes after which the agent is killed."""

    def __init__(self, count: int = 1, partition: str = "batch") -> None:
        self.known = {
            f"n{number}": Node(
                f"n{number}", "IDLE", partitions=(partition,), version="24.11", boot_time=1000
            )
            for number in range(1, count + 1)
        }
        self.calls: list[tuple[str, str, str]] = []
        self.up = ["ctl1", "ctl2"]
        self.reserved: dict[str, str] = {}
        self.die_before = self.die_after = -1

    def nodes(self) -> list[Node]:
        return list(self.known.values())

    def controllers(self) -> list[Controller]:
        return [Controller(name, up=name in self.up) for name in ("ctl1", "ctl2")]

    def reservations(self) -> list[Reservation]:
        return [Reservation(name, nodes=nodes) for name, nodes in self.reserved.items()]

    def create_reservation(self, name: str, settings: t.Mapping[str, str]) -> None:
        raise AssertionError("only site.yml holds nodes")

    def update_reservation(self, name: str, settings: t.Mapping[str, str]) -> None:
        self.reserved[name] = settings["Nodes"]

    def delete_reservation(self, name: str) -> None:
        del self.reserved[name]

    def _called(self, *call: str) -> None:
        if len(self.calls) == self.die_before:
            raise Killed
        self.calls.append(t.cast("tuple[str, str, str]", call))

    def _made(self) -> None:
        if len(self.calls) == self.die_after:
            self.die_after = -1
            raise Killed

    def update_nodes(self, names: t.Sequence[str], settings: t.Mapping[str, str]) -> None:
        for name in names:
            self._called(settings.get("State", "reason"), name, settings.get("Reason", ""))
            node = self.known[name]
            flags = {*node.flags}
            if settings.get("State") == "DRAIN":
                flags.add("DRAIN")
            if settings.get("State") == "RESUME":
                flags.discard("DRAIN")
            reason = (
                "" if settings.get("State") == "RESUME" else settings.get("Reason", node.reason)
            )
            self.known[name] = dataclasses.replace(node, flags=tuple(flags), reason=reason)
        self._made()

    def reboot_nodes(
        self, names: t.Sequence[str], asap: bool, next_state: str, reason: str
    ) -> None:
        for name in names:
            self._called("reboot", name, reason)
            node = self.known[name]
            self.known[name] = dataclasses.replace(
                node, flags=(*node.flags, "REBOOT_REQUESTED"), reason=reason or node.reason
            )
        self._made()

    # -- what happens on the cluster -------------------------------------------------------------
    def set(self, name: str, **values: t.Any) -> None:
        self.known[name] = dataclasses.replace(self.known[name], **values)

    def kinds(self) -> list[tuple[str, str]]:
        return [(kind, name) for kind, name, _reason in self.calls]


class World:
    """A cluster with two controllers that share a directory, and a clock."""

    def __init__(
        self, directory: Path, count: int = 1, enforce: bool = True, **settings: t.Any
    ) -> None:
        self.directory, self.slurm, self.now = directory, Slurm(count), 100_000.0
        self.settings = Settings(enforce=enforce, checks=manifest.checks(), **settings)
        self.seq = 0
        self.boots: dict[str, str] = {}

    def agent(self, controller: str = "ctl1", **more: t.Any) -> Agent:
        own = self.directory / controller
        own.mkdir(exist_ok=True)
        return Agent(
            controller,
            str(self.directory / "state"),
            str(own),
            self.settings,
            self.slurm,
            clock=lambda: self.now,
            **more,
        )

    def publish(self, name: str, *failures: Failure, **more: t.Any) -> None:
        self.seq += 1
        word = Publication(
            name, self.boots.get(name, "boot1"), self.seq, int(self.now), failures, **more
        )
        self.slurm.set(name, extra=dump(word))

    def look(self, controller: str = "ctl1", seconds: float = 30, **more: t.Any) -> Decision:
        self.now += seconds
        found = self.agent(controller, **more).run()
        assert found is not None
        return found

    def reboot(self, name: str) -> None:
        node = self.slurm.known[name]
        self.boots[name] = f"boot{self.now:.0f}"
        flags = tuple(flag for flag in node.flags if not flag.startswith("REBOOT"))
        self.slurm.set(name, flags=flags, boot_time=int(self.now))

    def report(self) -> dict[str, t.Any]:
        return t.cast(
            "dict[str, t.Any]", json.loads((self.directory / "ctl1" / "report.json").read_text())
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_failure_drains_with_check_fault_and_remedy(world: World) -> None:
    world.publish("n1", MOUNT)
    world.look()
    assert world.slurm.calls == [("DRAIN", "n1", "tw:health:mounts: not mounted: /fsx -> mount it")]
    world.look()
    assert len(world.slurm.calls) == 1


def test_observe_reports_and_changes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, enforce=False)
    world.publish("n1", GPU)
    world.look()
    assert not world.slurm.calls
    assert world.report()["lines"] == [
        "would drain n1: tw:health:gpu_count: 7 of 8 GPUs -> reboot the node"
    ]
    assert 'state="failing"} 1' in (tmp_path / "ctl1" / "metrics.prom").read_text()


def test_it_resumes_its_own_drain_after_passes_in_a_row(world: World) -> None:
    world.publish("n1", MOUNT)
    world.look()
    for _turn in range(2):
        world.publish("n1")
        world.look()
        world.look()  # the same word is not another pass
    world.publish("n1", MOUNT)
    world.look()
    for _turn in range(2):
        world.publish("n1")
        world.look()
    assert world.slurm.kinds() == [("DRAIN", "n1")], "a failure in between begins the count again"
    world.publish("n1")
    world.look()
    assert world.slurm.kinds() == [("DRAIN", "n1"), ("RESUME", "n1")]


@pytest.mark.parametrize(
    "unsure",
    [("gpu_count",), tuple(f"check_{number}" for number in range(25))],
    ids=["its check", "more than are named"],
)
def test_a_check_that_could_not_be_tested_has_not_passed(
    world: World, unsure: tuple[str, ...]
) -> None:
    """A driver that hangs after GPUs are lost says nothing of them."""
    world.publish("n1", GPU)
    world.look()
    for _turn in range(2):
        world.publish("n1")
        world.look()
    for _turn in range(4):
        world.publish("n1", unsure=unsure)
        world.look()
    for _turn in range(2):
        world.publish("n1")
        world.look()
    assert world.slurm.kinds() == [("DRAIN", "n1")]
    world.publish("n1", unsure=("clock",))
    world.look()
    assert world.slurm.kinds() == [("DRAIN", "n1"), ("RESUME", "n1")]


@pytest.mark.parametrize(
    "reason",
    ["bad fan, ask Ann", "tw:validate:hardware: 7 GPUs -> replace", "tw:hook:tmp: full -> clean"],
)
def test_the_drain_of_another_stays(world: World, reason: str) -> None:
    world.slurm.set("n1", flags=("DRAIN",), reason=reason)
    world.publish("n1", GPU)
    world.look()
    for _turn in range(5):
        world.publish("n1")
        world.look()
    assert not world.slurm.calls


def test_a_person_who_drains_between_look_and_action_is_not_overwritten(world: World) -> None:
    world.publish("n1", MOUNT)
    agent = world.agent()
    before = world.slurm.nodes()
    answers = [before]

    def nodes() -> list[Node]:
        if answers:
            return answers.pop()
        return list(world.slurm.known.values())

    world.slurm.nodes = nodes  # type: ignore[method-assign]
    world.slurm.set("n1", flags=("DRAIN",), reason="mine")
    agent.run()
    assert not world.slurm.calls


@pytest.mark.parametrize(
    ("reason", "failure", "more"),
    [
        ("tw:health:mounts: not mounted: /fsx -> mount it", GPU, {}),
        ("Prolog error", None, {"hooks": (Failure("scratch", "exit code 1", "mount /scratch"),)}),
    ],
)
def test_a_reason_that_a_person_gives_between_look_and_action_stays(
    world: World, reason: str, failure: Failure | None, more: dict[str, t.Any]
) -> None:
    world.publish("n1", *filter(None, [failure]), **more)
    world.slurm.set("n1", flags=("DRAIN",), reason=reason)
    answers = [world.slurm.nodes()]

    def nodes() -> list[Node]:
        return answers.pop() if answers else list(world.slurm.known.values())

    world.slurm.nodes = nodes  # type: ignore[method-assign]
    world.slurm.set("n1", flags=("DRAIN",), reason="bad fan, ask Ann")
    world.look()
    assert not world.slurm.calls and world.slurm.known["n1"].reason == "bad fan, ask Ann"


def test_of_eight_nodes_that_fail_at_once_one_is_drained(tmp_path: Path) -> None:
    world = World(tmp_path, count=8)
    for number in range(1, 9):
        world.publish(f"n{number}", MOUNT)
    decision = world.look()
    assert world.slurm.kinds() == [("DRAIN", "n1")]
    assert decision.groups["deferred"] == [f"n{number}" for number in range(2, 9)]
    assert 'state="deferred"} 7' in (tmp_path / "ctl1" / "metrics.prom").read_text()
    world.look()
    assert len(world.slurm.calls) == 1


@pytest.mark.parametrize(("count", "drained"), [(19, 1), (40, 2), (100, 5)])
def test_the_cap_is_five_percent(tmp_path: Path, count: int, drained: int) -> None:
    world = World(tmp_path, count=count)
    for number in range(1, count + 1):
        world.publish(f"n{number}", MOUNT)
    world.look()
    assert len(world.slurm.calls) == drained


@pytest.mark.parametrize("reason", ["Prolog error", "Epilog error", "tw:hook:tmp: full -> clean"])
def test_a_drain_by_a_hook_counts_and_that_of_a_person_does_not(
    tmp_path: Path, reason: str
) -> None:
    world = World(tmp_path, count=3)
    world.slurm.set("n2", flags=("DRAIN",), reason=reason)
    world.publish("n1", MOUNT)
    assert world.look().groups["deferred"] == ["n1"]
    world.slurm.set("n2", reason="maintenance")
    world.look()
    assert world.slurm.kinds() == [("DRAIN", "n1")]


def test_the_part_of_a_hook_that_failed_becomes_the_reason(world: World) -> None:
    world.slurm.set("n1", flags=("DRAIN",), reason="Prolog error")
    world.publish("n1", hooks=(Failure("private_tmp", "exit 1", "see journalctl"),))
    world.look()
    assert world.slurm.calls == [("reason", "n1", "tw:hook:private_tmp: exit 1 -> see journalctl")]


# -- what is no failure ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state", "flags"),
    [
        ("IDLE", ("CLOUD", "POWERED_DOWN")),
        ("IDLE", ("CLOUD", "POWERING_UP")),
        ("IDLE", ("POWERING_DOWN",)),
        ("FUTURE", ()),
        ("DOWN", ("NOT_RESPONDING",)),
        ("IDLE", ("NOT_RESPONDING",)),
    ],
)
def test_a_node_that_is_off_or_silent_is_left_alone(
    world: World, state: str, flags: tuple[str, ...]
) -> None:
    world.publish("n1", GPU)
    world.slurm.set("n1", state=state, flags=flags)
    world.look()
    assert not world.slurm.calls


def test_an_old_word_is_not_acted_on(world: World) -> None:
    world.publish("n1", GPU)
    decision = world.look(seconds=100_000)
    assert not world.slurm.calls and decision.groups["silent"] == ["n1"]


@pytest.mark.parametrize(
    "text",
    [
        dump(Publication("n2", "b", 1, 1, (GPU,))),  # another node's
        '{"tw":1,"node":"n1","boot":"b","seq":1,"at":1,"ok":1,"bad":[["gpu_count","x","y","format"]]}',
        '{"tw":1,"node":"n1","boot":"b","seq":1,"at":1,"ok":1,"bad":[["gpu_count","x -> y","y","drain"]]}',
        '{"tw":1,"node":"n1","boot":"b","seq":1,"at":1,"ok":1,"bad":[["../etc","x","y","drain"]]}',
        '{"tw":1,"node":"n1","boot":"b","seq":-1,"at":1,"ok":1}',
        '{"tw":1,"node":"n1","boot":"b\\u001b[2J","seq":1,"at":1,"ok":1}',
        '{"tw":1,"node":"n1","boot":"b","seq":1,"at":1,"ok":1,"versions":{"nvidia":"x\\ny"}}',
        '{"tw":1,"node":"n1","boot":"b","seq":1,"at":1,"ok":1,"versions":["x"]}',
        '{"tw":2,"node":"n1"}',
        '{"tw":1',
        '{"tw":1,"x":"' + "y" * 5000 + '"}',
        '{"tw":' + "[" * 1600,  # the recursion of Python before 3.12 ends here
    ],
)
def test_a_word_that_is_wrong_is_refused_as_a_whole(tmp_path: Path, text: str) -> None:
    world = World(tmp_path, count=2)
    world.slurm.set("n1", extra=text)
    decision = world.look()
    assert decision.groups["refused"] == ["n1"] and not world.slurm.calls


def test_a_text_of_the_site_is_no_word(world: World) -> None:
    world.slurm.set("n1", extra="rack 7")
    assert world.look().groups["silent"] == ["n1"]


# -- the fleet -------------------------------------------------------------------------------------
def test_a_node_with_another_kernel_or_driver_than_most_is_named_and_not_drained(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, count=4)
    for number in range(1, 4):
        world.publish(f"n{number}", kernel="6.1.0-25", versions={"nvidia": "550.54"})
    world.publish("n4", kernel="6.1.0-20", versions={"nvidia": "535.1", "libnccl2": "2.23.4-1+c"})
    decision = world.look()
    assert decision.groups["differs"] == ["n4", "n4"] and not world.slurm.calls
    assert world.report()["nodes"]["differs"] == ["n4"]
    (kernel, driver) = world.report()["lines"]
    assert kernel.startswith("n4: kernel 6.1.0-20, and 6.1.0-25 on 3 of 4 nodes of its partitions")
    assert driver.startswith("n4: nvidia 535.1, and 550.54 on 3 of 4")


def test_halves_other_partitions_and_few_nodes_make_no_majority(tmp_path: Path) -> None:
    world = World(tmp_path, count=6)
    for number, kernel in enumerate(("a", "a", "b", "b", "c", "d"), 1):
        world.publish(f"n{number}", kernel=kernel)
    for name in ("n5", "n6"):
        world.slurm.set(name, partitions=("other",))
    assert world.look().groups["differs"] == []


# -- new nodes, and nodes in quarantine -----------------------------------------------------------
def test_a_new_node_gets_jobs_after_its_first_checks_and_one_that_fails_is_drained(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, count=4)
    world.slurm.reserved["trainwright_first_checks"] = "n[2-4]"
    world.publish("n2")
    world.publish("n3", MOUNT)
    decision = world.look()
    assert world.slurm.reserved == {"trainwright_first_checks": "n[3-4]"}
    assert decision.groups["held"] == ["n3", "n4"]
    assert world.slurm.kinds() == [("DRAIN", "n3")]
    said = "\n".join(world.report()["lines"])
    assert "n3: held in the reservation trainwright_first_checks: tw:health:mounts: not" in said
    assert "n4: held in the reservation trainwright_first_checks: it has not published" in said
    world.publish("n3")
    world.publish("n4")
    world.look()
    assert world.slurm.reserved == {}


def test_in_observe_mode_no_node_is_kept_from_the_jobs(tmp_path: Path) -> None:
    world = World(tmp_path, enforce=False)
    world.slurm.reserved["trainwright_first_checks"] = "n1"
    world.look()
    assert world.slurm.reserved == {} and not world.slurm.calls


def test_a_node_that_left_the_group_is_not_held_for_ever(tmp_path: Path) -> None:
    world = World(tmp_path, count=2, nodes=frozenset({"n2"}))
    world.slurm.reserved["trainwright_first_checks"] = "n[1-2]"
    world.look()
    assert world.slurm.reserved == {"trainwright_first_checks": "n2"}


def test_a_release_that_slurm_refuses_is_tried_again(world: World) -> None:
    world.slurm.reserved["trainwright_first_checks"] = "n1"
    world.publish("n1")
    made = world.slurm.delete_reservation

    def refused(_name: str) -> None:
        raise SlurmError("denied", "Requested reservation is in use")

    world.slurm.delete_reservation = refused  # type: ignore[method-assign]
    world.look()
    assert world.report()["lines"] == ["release n1: Requested reservation is in use"]
    world.slurm.delete_reservation = made  # type: ignore[method-assign]
    world.look()
    assert world.slurm.reserved == {}


def test_a_node_in_quarantine_is_left_alone_and_judged_afterwards(world: World) -> None:
    world.slurm.reserved["trainwright_quarantine"] = "n1"
    world.publish("n1", GPU)
    decision = world.look()
    assert decision.groups["quarantine"] == ["n1"] and not world.slurm.calls
    for _turn in range(3):
        world.publish("n1")
        world.look()
    # What quarantine.yml does at its end.
    del world.slurm.reserved["trainwright_quarantine"]
    world.slurm.set("n1", flags=("DRAIN",), reason="tw:health:quarantine: ended -> wait")
    world.look()
    assert world.slurm.kinds() == [("RESUME", "n1")]
    world.publish("n1", GPU)
    world.look()
    assert world.slurm.kinds()[1:] == [("DRAIN", "n1")]


# -- the ladder ------------------------------------------------------------------------------------
def test_a_reboot_waits_for_jobs_cures_and_ends(world: World) -> None:
    world.slurm.set("n1", state="MIXED")
    world.publish("n1", GPU)
    world.look()
    world.look()
    assert world.slurm.kinds() == [("DRAIN", "n1")]
    world.slurm.set("n1", state="IDLE")
    world.look()
    assert world.slurm.kinds()[1:] == [("reboot", "n1")]
    world.look()
    assert len(world.slurm.calls) == 2, "one that is under way is not asked for again"
    world.reboot("n1")
    for _turn in range(3):
        world.publish("n1")
        world.look()
    assert world.slurm.kinds()[-1] == ("RESUME", "n1")


def test_what_a_reboot_does_not_cure_is_to_be_replaced_with_one_event(
    world: World, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    command = tmp_path / "command"
    command.write_text(f"#!/bin/sh\ncat >>{told}\n")
    command.chmod(0o755)
    world.publish("n1", GPU)
    world.look()
    world.look()
    world.reboot("n1")
    for _turn in range(3):
        world.publish("n1", GPU)
        world.look(command=(str(command),))
    assert world.slurm.kinds() == [("DRAIN", "n1"), ("reboot", "n1"), ("reason", "n1")]
    assert world.slurm.known["n1"].reason == (
        "tw:health:gpu_count: 7 of 8 GPUs -> replace the machine; a reboot did not cure it"
    )
    events = (tmp_path / "ctl1" / "events.jsonl").read_text().splitlines()
    assert len(events) == 1 and told.read_text().splitlines() == events
    event = json.loads(events[0])
    assert (event["event"], event["node"], event["check"]) == ("replace", "n1", "gpu_count")


def test_a_command_that_a_user_can_change_is_not_run(world: World, tmp_path: Path) -> None:
    told, command = tmp_path / "told", tmp_path / "command"
    command.write_text(f"#!/bin/sh\ncat >>{told}\n")
    command.chmod(0o757)
    world.publish("n1", WORN)
    world.look()
    world.look(command=(str(command),))
    assert not told.exists()
    assert any("so it is not run" in line for line in world.report()["lines"])
    # The event is there all the same.
    assert len((tmp_path / "ctl1" / "events.jsonl").read_text().splitlines()) == 1


def test_a_worn_disk_is_replaced_without_a_reboot(world: World, tmp_path: Path) -> None:
    world.publish("n1", WORN)
    for _turn in range(3):
        world.look()
    assert "reboot" not in dict(world.slurm.kinds())
    assert len((tmp_path / "ctl1" / "events.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize("failure", [WORN, GPU], ids=["replace", "reboot"])
def test_a_machine_that_waits_for_days_is_one_event(
    world: World, tmp_path: Path, failure: Failure
) -> None:
    world.publish("n1", failure)
    for _turn in range(3):
        world.look()
    world.reboot("n1")
    for _turn in range(12):
        world.publish("n1", failure)
        decision = world.look(seconds=6 * 3600)
    assert decision.groups["person"] == ["n1"]
    assert len((tmp_path / "ctl1" / "events.jsonl").read_text().splitlines()) == 1
    assert [kind for kind, _name in world.slurm.kinds()].count("reboot") == (failure is GPU)
    # The next fault of the machine that came in its place is another one.
    for _turn in range(3):
        world.publish("n1")
        world.look(seconds=3600)
    assert world.slurm.kinds()[-1] == ("RESUME", "n1")
    for _turn in range(3):
        world.publish("n1", WORN)
        world.look(seconds=3600)
    assert len((tmp_path / "ctl1" / "events.jsonl").read_text().splitlines()) == 2


def test_a_node_that_was_rebooted_too_often_waits_for_a_person_for_days(world: World) -> None:
    for _turn in range(2):
        world.publish("n1", GPU)
        world.look()
        world.look()
        world.reboot("n1")
        for _pass in range(3):
            world.publish("n1")
            world.look()
    for seconds in [30] * 3 + [4 * 3600] * 12:
        world.publish("n1", GPU)
        decision = world.look(seconds=seconds)
    assert decision.groups["person"] == ["n1"]
    assert [kind for kind, _name in world.slurm.kinds()].count("reboot") == 2


def test_a_command_that_prints_other_than_utf_8_ends_nothing(world: World, tmp_path: Path) -> None:
    command = tmp_path / "command"
    command.write_text("#!/bin/sh\nprintf 'no \\351tat\\n' >&2\nexit 3\n")
    command.chmod(0o755)
    world.publish("n1", WORN)
    world.look()
    world.look(command=(str(command),))
    assert any("exit 3" in line for line in world.report()["lines"])


def test_a_reset_is_waited_for_and_then_the_node_reboots(world: World) -> None:
    world.publish("n1", Failure("gpu_xid", "Xid 95", "reset the GPU", "reset"))
    world.look()
    world.look()
    assert world.slurm.kinds() == [("DRAIN", "n1")]
    world.look(seconds=1000)
    assert world.slurm.kinds()[-1] == ("reboot", "n1")


def test_after_a_reset_that_failed_the_node_reboots_at_once(world: World) -> None:
    bad = Failure("gpu_xid", "Xid 95", "reset the GPU", "reset")
    world.publish("n1", bad)
    world.look()
    world.publish("n1", bad, did="reset failed")
    world.look()
    assert world.slurm.kinds() == [("DRAIN", "n1"), ("reboot", "n1")]


def test_two_reboots_in_two_hours_end_in_a_person(world: World) -> None:
    for _turn in range(2):
        world.publish("n1", GPU)
        world.look()
        world.look()
        world.reboot("n1")
        for _pass in range(3):
            world.publish("n1")
            world.look()
    assert world.slurm.kinds() == [("DRAIN", "n1"), ("reboot", "n1"), ("RESUME", "n1")] * 2
    for _turn in range(4):
        world.publish("n1", GPU)
        decision = world.look()
    assert decision.groups["person"] == ["n1"]
    assert [kind for kind, _name in world.slurm.kinds()].count("reboot") == 2
    assert "a person has to look" in world.slurm.known["n1"].reason


def test_five_reboots_in_a_day_end_in_a_person(world: World) -> None:
    for _turn in range(7):
        world.publish("n1", GPU)
        world.look()
        world.look()
        world.reboot("n1")
        for _pass in range(3):
            world.publish("n1")
            world.look()
        world.now += 3 * 3600
    assert [kind for kind, _name in world.slurm.kinds()].count("reboot") == 5


# -- crashes and failovers -------------------------------------------------------------------------
def restarts(world: World, controller: str) -> None:
    """The agent is killed, and the next run is that of a controller."""
    with pytest.raises(Killed):
        world.look()
    world.slurm.die_before = world.slurm.die_after = -1
    if controller == "ctl2":
        world.slurm.up = ["ctl2"]
    for _turn in range(3):
        world.look(controller)


@pytest.mark.parametrize("controller", ["ctl1", "ctl2"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_while_it_drains(world: World, moment: str, controller: str) -> None:
    world.publish("n1", MOUNT)
    setattr(world.slurm, f"die_{moment}", 0 if moment == "before" else 1)
    restarts(world, controller)
    assert world.slurm.kinds() == [("DRAIN", "n1")]


@pytest.mark.parametrize("controller", ["ctl1", "ctl2"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_while_it_reboots(world: World, moment: str, controller: str) -> None:
    world.publish("n1", GPU)
    world.look()
    setattr(world.slurm, f"die_{moment}", 1 if moment == "before" else 2)
    restarts(world, controller)
    assert world.slurm.kinds() == [("DRAIN", "n1"), ("reboot", "n1")]


def test_killed_after_a_reboot_that_is_over_before_the_next_run(world: World) -> None:
    world.publish("n1", GPU)
    world.look()
    world.slurm.die_after = 2
    with pytest.raises(Killed):
        world.look()
    world.now += 120
    world.reboot("n1")
    world.publish("n1")
    world.look("ctl1")
    assert world.slurm.kinds() == [("DRAIN", "n1"), ("reboot", "n1")]


@pytest.mark.parametrize("controller", ["ctl1", "ctl2"])
def test_killed_while_it_resumes(world: World, controller: str) -> None:
    world.publish("n1", MOUNT)
    world.look()
    for _turn in range(2):
        world.publish("n1")
        world.look()
    world.publish("n1")
    world.slurm.die_before = 1
    restarts(world, controller)
    assert world.slurm.kinds() == [("DRAIN", "n1"), ("RESUME", "n1")]


def test_an_event_is_not_written_twice_after_a_crash(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish("n1", WORN)
    world.look()
    saved = Agent.save
    count = 0

    def save(agent: Agent, state: t.Mapping[str, t.Any]) -> None:
        nonlocal count
        count += 1
        if count == 2:  # after the line of the event, before the state that has it
            raise Killed
        saved(agent, state)

    monkeypatch.setattr(Agent, "save", save)
    with pytest.raises(Killed):
        world.look()
    monkeypatch.setattr(Agent, "save", saved)
    world.look()
    world.look()
    assert len((tmp_path / "ctl1" / "events.jsonl").read_text().splitlines()) == 1


class FullDisk:
    """The disk of the events, with room for some bytes: then a line is written in part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        monkeypatch.setattr(agent_run, "open", self.open, raising=False)

    def open(self, path: str, mode: str = "r", **more: t.Any) -> t.Any:
        if not path.endswith("events.jsonl"):
            return open(path, mode, **more)
        disk = self

        class File(io.FileIO):
            def write(self, data: t.Any) -> int:
                if data and not disk.room:
                    raise OSError(errno.ENOSPC, "No space left on device")
                count = super().write(data[: disk.room])
                disk.room -= count
                return count

        file = File(path, mode.replace("b", ""))
        return file if "b" in mode else io.TextIOWrapper(io.BufferedRandom(file), **more)


def test_an_event_that_cannot_be_written_stops_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, count=40)
    told, command = tmp_path / "told", tmp_path / "command"
    command.write_text(f"#!/bin/sh\ncat >>{told}\n")
    command.chmod(0o755)
    world.publish("n1", WORN)
    world.look()
    disk = FullDisk(monkeypatch, room=30)
    world.look(command=(str(command),))
    events = tmp_path / "ctl1" / "events.jsonl"
    [line] = [one for one in world.report()["lines"] if "events.jsonl" in one]
    assert line.startswith("replace n1: ")
    remedy = "make room there (df, df -i), or raise the quota; the event is written then"
    assert line.endswith(f"{events}: No space left on device -> {remedy}")
    world.publish("n2", MOUNT)
    world.settings = dataclasses.replace(world.settings, cap=50)
    world.look(command=(str(command),))
    assert ("DRAIN", "n2") in world.slurm.kinds(), "the other node is drained"
    assert events.read_text() == "" and not told.exists(), "no part of a line is left"
    disk.room = 10_000
    for _turn in range(2):
        world.look(command=(str(command),))
    [event] = events.read_text().splitlines()
    assert json.loads(event)["node"] == "n1" and told.read_text().splitlines() == [event]


@pytest.mark.parametrize(
    ("cut", "count"),
    [(None, 1), (-1, 1), (-20, 2), (40, 2)],
    ids=["whole", "no end", "with the id", "begin"],
)
def test_a_line_that_a_crash_has_cut_is_not_the_event(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int | None, count: int
) -> None:
    world.publish("n1", WORN)
    world.look()
    events = tmp_path / "ctl1" / "events.jsonl"
    saved = Agent.save

    def save(agent: Agent, state: t.Mapping[str, t.Any]) -> None:
        if events.exists():
            raise Killed
        saved(agent, state)

    monkeypatch.setattr(Agent, "save", save)
    with pytest.raises(Killed):
        world.look()
    monkeypatch.setattr(Agent, "save", saved)
    whole = events.read_text()
    events.write_text(whole[:cut])
    world.look()
    lines = events.read_text().splitlines()
    assert len(lines) == count and events.read_text().endswith("\n")
    assert json.loads(lines[-1])["id"] == json.loads(whole)["id"]


def test_a_controller_that_is_not_active_does_nothing(world: World) -> None:
    world.publish("n1", GPU)
    assert world.agent("ctl2").run() is None
    assert not (world.directory / "state").exists() and not world.slurm.calls


def test_two_agents_at_once_are_one(world: World) -> None:
    world.publish("n1", GPU)
    code = (
        "import fcntl,os,sys,time; h=os.open(sys.argv[1],os.O_RDWR|os.O_CREAT); fcntl.lockf(h,fcntl.LOCK_EX);"
        "print('held',flush=True); time.sleep(60)"
    )
    import subprocess
    import sys

    (world.directory / "state").mkdir()
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(world.directory / "state" / "lock")],
        stdout=subprocess.PIPE,
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        assert world.agent().run() is None
    finally:
        other.kill()
        other.wait()
    assert world.agent().run() is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        '{"format": 99}',
        "[]",
        '{"format": 1}',
        '{"format": 1, "nodes": {"n1": 3}}',
        '{"format": 1, "nodes": {"n1": {"steps": [{"kind": "reboot"}]}}}',
        '{"format": 1, "nodes": {"n1": {"seen": "today"}}}',
        '{"format": 1, "nodes": {}, "pending": [{"kind": "reboot"}]}',
    ],
)
def test_a_state_that_cannot_be_read_stops_it(world: World, text: str) -> None:
    (world.directory / "state").mkdir()
    (world.directory / "state" / "state.json").write_text(text)
    world.publish("n1", GPU)
    with pytest.raises(AgentError, match="the agent begins again"):
        world.look()
    assert not world.slurm.calls


def test_nothing_is_done_that_cannot_be_noted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: t.Any, **_more: t.Any) -> t.Any:
        raise OSError(28, "No space left on device")

    world.publish("n1", GPU)
    monkeypatch.setattr(agent_run.safe_path, "replacing", full)
    with pytest.raises(AgentError, match="nothing was done"):
        world.look()
    assert not world.slurm.calls


def test_a_refusal_of_slurm_is_a_line_and_is_tried_again(world: World) -> None:
    world.publish("n1", MOUNT)
    made = world.slurm.update_nodes

    def refused(*_given: t.Any) -> None:
        raise SlurmError("down", "slurmctld does not answer")

    world.slurm.update_nodes = refused  # type: ignore[method-assign]
    world.look()
    assert "slurmctld does not answer" in world.report()["lines"][0]
    world.slurm.update_nodes = made  # type: ignore[method-assign]
    world.look()
    assert world.slurm.kinds() == [("DRAIN", "n1")]


@pytest.mark.parametrize(("kind", "reboots"), [("invalid", 3), ("down", 0), ("timeout", 0)])
def test_a_reboot_that_slurm_refused_is_tried_again_and_does_not_count(
    world: World, kind: t.Any, reboots: int
) -> None:
    """After one that may have reached slurmctld, the agent waits for the boot."""
    asked = []

    def refused(names: t.Sequence[str], *_more: t.Any) -> None:
        asked.extend(names)
        raise SlurmError(kind, "not rebooted")

    world.slurm.reboot_nodes = refused  # type: ignore[method-assign]
    world.publish("n1", GPU)
    world.look()
    world.look()
    before = len(asked)
    for _turn in range(3):
        world.look()
    assert (before, len(asked) - before) == (1, reboots)
    assert "a person has to look" not in world.slurm.known["n1"].reason


def test_it_fails_where_no_controller_answers(world: World) -> None:
    world.publish("n1", GPU)
    world.slurm.up = []
    with pytest.raises(AgentError, match="no slurmctld answers.* -> systemctl status slurmctld"):
        world.look()
    assert not world.slurm.calls


def test_an_event_that_slurm_interrupts_is_written_by_the_next_run(
    world: World, tmp_path: Path
) -> None:
    world.publish("n1", GPU)
    world.look()
    world.look()
    world.reboot("n1")
    world.publish("n1", GPU)
    made = world.slurm.update_nodes

    def refused(*_given: t.Any) -> None:
        raise SlurmError("down", "slurmctld does not answer")

    world.slurm.update_nodes = refused  # type: ignore[method-assign]
    world.look()
    world.look()
    world.slurm.update_nodes = made  # type: ignore[method-assign]
    world.look()
    world.look()
    [event] = (tmp_path / "ctl1" / "events.jsonl").read_text().splitlines()
    assert json.loads(event)["node"] == "n1"
    assert "replace the machine" in world.slurm.known["n1"].reason


def test_a_clock_that_was_ahead_for_a_while_holds_nothing_up(world: World) -> None:
    world.now += 300 * 86400
    world.publish("n1", GPU)
    world.look()
    world.look()
    world.now -= 300 * 86400
    world.look()
    world.slurm.set("n1", flags=("DRAIN",))  # the reboot did not come
    assert world.slurm.kinds() == [("DRAIN", "n1"), ("reboot", "n1")]
    world.publish("n1", GPU)
    world.look(seconds=3700)
    assert world.slurm.kinds()[2:] == [("reboot", "n1")]


def test_a_word_that_was_seen_by_a_clock_ahead_grows_old_as_any_other(world: World) -> None:
    world.now += 300 * 86400
    world.publish("n1")
    world.look()
    world.now -= 300 * 86400
    world.look()
    assert world.look(seconds=2 * 86400).groups["silent"] == ["n1"]


def test_the_last_word_of_a_node_that_is_no_longer_checked_is_not_acted_on(tmp_path: Path) -> None:
    world = World(tmp_path, 2, nodes=frozenset({"n2"}))
    world.publish("n1", GPU)
    decision = world.look()
    assert not world.slurm.calls and not decision.groups["failing"]
    assert decision.groups["silent"] == ["n2"]
