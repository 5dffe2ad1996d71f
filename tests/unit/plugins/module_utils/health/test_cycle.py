# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A whole run on a node: files, metrics, publication, and what a full disk or a silent controller changes (nothing)."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import signal
import subprocess
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Verdict
from ansible_collections.trainwright.slurm.plugins.module_utils.health import (
    cycle,
    host,
    manifest,
    publication,
    runner,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.health.agent.decide import (
    Action,
    Settings,
    decide,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import cli
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Node

from .test_corpus import FAULTS, config, own_check, tool
from .world import World

ROOT = Path(__file__).resolve().parents[5]
SHOWN = (
    "NodeName=gpu1 Arch=x86_64 CoresPerSocket=1\n   CPUAlloc=0 CPUEfctv=4 CPUTot=4 CPULoad=0.10\n"
    "   State={} ThreadsPerCore=1\n   Reason={}\n   Comment=rack 7\n   Extra={}\n"
)


class Disk:
    """The disk of some directories. error: ENOSPC refuses new files, EROFS whatever writes, 0 nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *places: Path) -> None:
        self.error, self.places = 0, [*places]
        self._open = os.open
        monkeypatch.setattr(os, "open", self.open)

    def open(self, path: t.Any, flags: int, mode: int = 0o777, dir_fd: int | None = None) -> int:
        above = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
        whole = Path(above, os.fspath(path))
        new = flags & os.O_CREAT and not whole.exists()
        writes = flags & (os.O_WRONLY | os.O_RDWR) and self.error == errno.EROFS
        if self.error and (new or writes) and any(one in whole.parents for one in self.places):
            raise OSError(self.error, os.strerror(self.error), str(path))
        return self._open(path, flags, mode, dir_fd=dir_fd)


class Place:
    """A node with its directories below one; Slurm is a list of calls."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = World(directory)
        self.monkeypatch = monkeypatch
        self.directory = directory
        self.calls: list[list[str]] = []
        self.extra, self.answers = "", True
        self.state, self.reason = "IDLE", "none"
        for name in ("results", "state", "textfiles", "run"):
            (directory / name).mkdir()
        on_disk = [directory / name for name in ("results", "state", "textfiles")]
        self.disk = Disk(monkeypatch, *on_disk)
        monkeypatch.setattr(cycle, "VOLATILE", str(directory / "run" / "health"))
        monkeypatch.setattr(cycle, "RESULTS", str(directory / "results"))
        monkeypatch.setattr(cycle, "STATE", str(directory / "state"))
        monkeypatch.setattr(cycle, "TEXTFILES", str(directory / "textfiles"))
        monkeypatch.setattr(cycle, "this_host", self._host)

        place = self

        class Cli(cli.Cli):
            def command(self, name: str, *arguments: str, **_more: t.Any) -> str:
                if not place.answers:
                    raise cli.SlurmError("down", "slurmctld does not answer")
                place.calls.append([name, *arguments])
                if arguments[0] == "update":
                    place.extra = arguments[2].partition("=")[2]
                return SHOWN.format(place.state, place.reason, place.extra)

        monkeypatch.setattr(cli, "Cli", Cli)

    def _host(self, context: str, memory: dict[str, t.Any]) -> host.Host:
        made = self.world.build()
        made.context, made.memory = context, memory
        return made

    def run(self, publish: bool = True, context: str = "idle", **more: t.Any) -> dict[str, Verdict]:
        return {one.check: one.verdict for one in cycle.run(context, publish=publish, **more)}

    def agent(self, state: dict[str, t.Any]) -> list[Action]:
        """Return what an enforcing agent does about the record of this node."""
        base, _plus, flags = self.state.partition("+")
        reason = "" if self.reason == "none" else self.reason
        node = Node(
            "gpu1",
            base,
            flags=tuple(filter(None, flags.split("+"))),
            partitions=("batch",),
            version="24.11",
            reason=reason,
            extra=self.extra,
        )
        settings = Settings(enforce=True, checks=manifest.checks())
        return decide([node], state, settings, int(time.time())).actions

    @property
    def updates(self) -> list[publication.Publication]:
        found = [call[3].partition("=")[2] for call in self.calls if call[1] == "update"]
        words = [publication.load(text, "gpu1") for text in found]
        assert None not in words
        return t.cast("list[publication.Publication]", words)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def test_results_metrics_and_state_are_written(place: Place) -> None:
    place.run()
    document = json.loads((place.directory / "results" / "health.json").read_text())
    assert document["suite"] == "health" and document["verdict"] == "PASS"
    text = (place.directory / "textfiles" / "trainwright_health.prom").read_text()
    assert 'trainwright_health_check_verdict{check="gpu_count"} 0' in text
    assert "trainwright_health_cycle_cpu_seconds " in text
    assert (
        json.loads((place.directory / "state" / "state.json").read_text())["published"]["seq"] == 1
    )
    assert {path.name for path in place.directory.glob("*/.*")} == set(), "no draft is left"


def test_it_publishes_changes_recoveries_and_a_heartbeat(place: Place) -> None:
    for _turn in range(5):
        place.run()
    assert len(place.updates) == 3, "a node that begins is followed closely"
    word = place.updates[0]
    assert (word.kernel, word.versions) == ("6.8.0-1021-aws", {"efa": "2.13.0g"})
    place.calls.clear()
    FAULTS["mount-missing"][0](place.world)
    place.run()
    place.run()
    assert [one.check for one in place.updates[0].failures] == ["mounts"]
    assert len(place.updates) == 1
    place.world.files["/proc/self/mounts"] = World(place.directory / "state").files[
        "/proc/self/mounts"
    ]
    for _turn in range(5):
        place.run()
    assert len(place.updates) == 4, "each of three passes, and then nothing new"
    for _turn in range(6):
        place.run()
    assert len(place.updates) == 5
    assert [one.seq for one in place.updates] == [4, 5, 6, 7, 8]


def test_each_pass_is_published_after_a_check_that_could_not_be_tested(place: Place) -> None:
    lost = place.world.gpus.pop()
    place.run()
    place.world.gpus.append(lost)
    place.world.tools["nvidia-smi"] = "kill -9 $$"
    for _turn in range(5):
        assert place.run()["gpu_count"] is Verdict.INCOMPLETE
    del place.world.tools["nvidia-smi"]
    place.calls.clear()
    for _turn in range(5):
        place.run()
    assert len(place.updates) == 3


DPKG = """
case " $* " in *" libnccl2 "*) ;; *) exit 9 ;; esac
case " $* " in *" my-lib+x "*) echo 'installed my-lib+x 4' ;; esac
echo 'installed libnccl2 2.23.4-1+cuda12.6'; echo 'config-files efa 1.38.0'
echo 'dpkg-query: no packages found matching enroot' >&2; exit 1
"""
RPM = """
echo 'installed libnccl2 2.23.4-1'; echo 'package enroot is not installed'; exit 1
"""


@pytest.mark.parametrize(
    ("tool_name", "answer", "found"),
    [
        ("dpkg-query", DPKG, {"libnccl2": "2.23.4-1+cuda12.6", "my-lib+x": "4"}),
        ("rpm", RPM, {"libnccl2": "2.23.4-1"}),
        ("dpkg-query", "kill -9 $$", {}),
    ],
)
def test_versions_of_packages_are_published(
    place: Place, tool_name: str, answer: str, found: dict[str, str]
) -> None:
    """Those that are there; a version of a removed package's configuration is none."""
    config(versions={"packages": {"my-lib+x": "fleet"}})(place.world)
    tool("dpkg-query", "")(place.world)
    tool(tool_name, answer)(place.world)
    made = place.world.build()
    place.monkeypatch.setattr(
        place.world, "build", lambda: dataclasses.replace(made, tools=made.tools[:1])
    )
    place.run()
    assert place.updates[0].versions == {"efa": "2.13.0g", **found}


def test_versions_leave_room_for_failures(place: Place) -> None:
    """The whole text is limited, and a failure says more."""
    place.run()
    bad = tuple(publication.Failure(f"check{n}", "x" * 90, "y" * 90) for n in range(6))
    many = {f"package-{number}": "1" * 40 for number in range(30)}
    word = dataclasses.replace(place.updates[0], versions=many)
    assert len(publication.load(publication.dump(word), "gpu1").versions) == 20
    full = publication.load(publication.dump(dataclasses.replace(word, failures=bad)), "gpu1")
    assert len(full.failures) == 6 and not full.versions


def test_a_text_of_the_site_stays(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.extra = "rack 7, row 3"
    place.run()
    assert not place.updates and "has a text of the site, which stays" in capsys.readouterr().err
    assert (
        "trainwright_health_publish_failed 1"
        in (place.directory / "textfiles" / "trainwright_health.prom").read_text()
    )
    place.extra = ""
    place.run()
    assert len(place.updates) == 1


def test_a_silent_controller_is_told_in_the_next_cycle(place: Place) -> None:
    place.answers = False
    place.run()
    place.answers = True
    place.run()
    assert len(place.updates) == 1


def test_a_full_disk_changes_no_verdict(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: t.Any) -> t.Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cycle.safe_path, "write", full)
    found = place.run()
    assert set(found.values()) <= {Verdict.PASS, Verdict.NOT_APPLICABLE} and len(place.updates) == 1


@pytest.mark.parametrize("lock", [True, False], ids=["lock", "no lock"])
def test_a_read_only_root_is_published_and_ends_in_a_reboot(place: Place, lock: bool) -> None:
    if lock:
        with cycle.alone():
            place.run()
    place.disk.error = errno.EROFS
    FAULTS["root-read-only"][0](place.world)
    with cycle.alone() as mine, cycle.alone(patience=0) as other:
        assert (mine, other) == (True, False), "the lock still keeps a second run out"
        assert place.run()["root_writable"] is Verdict.FAIL
    assert [one.check for one in place.updates[-1].failures] == ["root_writable"]
    state: dict[str, t.Any] = {}
    [drain] = place.agent(state)
    assert (drain.kind, drain.check) == ("drain", "root_writable")
    place.state, place.reason = "IDLE+DRAIN", drain.reason
    assert [one.kind for one in place.agent(state)] == ["reboot"]


def test_a_full_disk_without_a_lock_does_not_prevent_a_run(place: Place) -> None:
    place.disk.error = errno.ENOSPC
    with cycle.alone() as mine, cycle.alone(patience=0) as other:
        assert (mine, other) == (True, False)
    assert (place.directory / "run" / "health").stat().st_mode & 0o777 == 0o700


def test_a_lock_that_somebody_else_has_made_is_an_error(place: Place) -> None:
    (place.directory / "state" / "lock").symlink_to("/dev/null")
    with pytest.raises(OSError, match="symbolic links"), cycle.alone():
        pass


def test_a_check_that_the_kernel_holds_does_not_keep_the_lock(place: Place) -> None:
    """As one in state D, which SIGKILL does not end: the node would publish nothing more."""
    left: list[int] = []

    def hangs(_host: host.Host) -> list[t.Any]:
        time.sleep(60)
        return []

    place.monkeypatch.setitem(runner.SUBJECTS, "mounts", hangs)
    place.monkeypatch.setattr(runner, "end_group", left.append)
    place.monkeypatch.setattr(runner, "_gone", lambda pid, _patience: pid not in left)
    place.world.config["checks"] = [{"name": "mounts", "deadline": 0.5}]
    try:
        with cycle.alone():
            assert place.run()["mounts"] is Verdict.FAIL and left
        with cycle.alone(patience=0) as mine:
            assert mine
    finally:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
def test_a_full_disk_changes_nothing_that_is_published(place: Place, error: int) -> None:
    """As on a disk with room: a failure, three passes, then a heartbeat."""
    for _turn in range(5):
        place.run()
    place.disk.error = error
    place.calls.clear()
    good = place.world.files["/proc/self/mounts"]
    FAULTS["mount-missing"][0](place.world)
    for _turn in range(3):
        place.run()
    place.world.files["/proc/self/mounts"] = good
    for _turn in range(5):
        place.run()
    words = [[one.check for one in word.failures] for word in place.updates]
    assert words == [["mounts"], [], [], []]
    for _turn in range(6):
        place.run()
    assert [one.seq for one in place.updates] == [4, 5, 6, 7, 8]


def test_what_was_kept_on_run_goes_once_there_is_room(place: Place) -> None:
    on_disk = place.directory / "state" / "state.json"
    on_run = place.directory / "run" / "health" / "state.json"
    place.run()
    place.disk.error = errno.ENOSPC
    place.run()
    assert on_run.stat().st_mode & 0o777 == 0o600
    assert on_run.parent.stat().st_mode & 0o777 == 0o700
    assert json.loads(on_run.read_text())["published"]["seq"] == 2
    assert json.loads(on_disk.read_text())["published"]["seq"] == 1
    place.disk.error = 0
    place.run()
    assert not on_run.exists() and place.updates[-1].seq == 3


@pytest.mark.parametrize(("turn", "mode", "seq"), [(9, 0o600, 8), (0, 0o600, 2), (9, 0o666, 2)])
def test_the_newer_memory_counts_if_root_has_written_it(
    place: Place, turn: int, mode: int, seq: int
) -> None:
    place.run()
    on_run = place.directory / "run" / "health" / "state.json"
    on_run.parent.mkdir()
    on_run.write_text(json.dumps({"turn": turn, "published": {"seq": 7, "cycle": 9}}))
    on_run.chmod(mode)
    place.run()
    assert place.updates[-1].seq == seq


def test_the_memory_of_an_earlier_release_counts(place: Place) -> None:
    """Else repaired faults would fail again, and a reset would be made twice in one boot."""
    place.run()
    kept = place.directory / "state" / "state.json"
    before = json.loads(kept.read_text())
    del before["turn"]
    kept.write_text(json.dumps({**before, "published": {"seq": 7, "cycle": 9}}))
    place.run()
    assert place.updates[-1].seq == 8


def test_a_node_without_any_memory_publishes_each_cycle(place: Place) -> None:
    """Else its failure would never be followed by a pass, and a good node would be silent."""
    for _turn in range(5):
        place.run()
    place.disk.error = errno.ENOSPC
    place.disk.places.append(place.directory / "run")
    place.calls.clear()
    good = place.world.files["/proc/self/mounts"]
    FAULTS["mount-missing"][0](place.world)
    place.run()
    state: dict[str, t.Any] = {}
    [drain] = place.agent(state)
    place.state, place.reason = "IDLE+DRAIN", drain.reason
    place.world.files["/proc/self/mounts"] = good
    now = time.time()
    kinds = []
    for turn in range(4):
        place.monkeypatch.setattr(time, "time", lambda turn=turn: now + 300 * (turn + 1))
        place.run()
        kinds += [one.kind for one in place.agent(state)]
    assert len(place.updates) == 5 and "resume" in kinds


@pytest.mark.parametrize("text", ["{", "[]", '{"counted": 7}'])
def test_a_state_that_is_broken_is_forgotten(place: Place, text: str) -> None:
    path = place.directory / "state" / "state.json"
    path.write_text(text)
    if text == '{"counted": 7}':
        path.chmod(0o666)  # others could have written it
    assert place.run()["gpu_count"] is Verdict.PASS


def test_a_cycle_ends_before_slurmd_ends_it(place: Place) -> None:
    """Else it publishes nothing, and the agent leaves a silent node alone whatever else is wrong there."""
    place.monkeypatch.setattr(cycle, "_BUDGET", 2)
    own_check("sleep 60")(place.world)
    [check] = place.world.config["checks"]
    place.world.config["checks"] = [
        {**check, "name": f"slow_{number}", "deadline": 45} for number in range(33)
    ]
    FAULTS["mount-missing"][0](place.world)
    began = time.monotonic()
    found = place.run()
    assert time.monotonic() - began < 10
    assert {found[f"slow_{number}"] for number in range(33)} == {Verdict.INCOMPLETE}
    assert [one.check for one in place.updates[0].failures] == ["mounts"]


@pytest.mark.parametrize("error", [0, errno.ENOSPC])
def test_failures_are_confirmed_where_the_manifest_wants_it(place: Place, error: int) -> None:
    place.disk.error = error
    place.world.config["checks"] = [{"name": "mounts", "confirm": 3}]
    FAULTS["mount-missing"][0](place.world)
    assert [place.run()["mounts"].value for _turn in range(4)] == ["WARN", "WARN", "FAIL", "FAIL"]


def test_a_failure_that_is_not_confirmed_yet_is_not_a_pass_of_a_check_that_recovers(
    place: Place,
) -> None:
    """A mount that comes and goes was given back after a pass and two such failures."""
    place.world.config["checks"] = [{"name": "mounts", "confirm": 3}]
    good = place.world.files["/proc/self/mounts"]
    state: dict[str, t.Any] = {}
    FAULTS["mount-missing"][0](place.world)
    bad = place.world.files["/proc/self/mounts"]
    for _turn in range(3):
        place.run()
    place.state, place.reason = "IDLE+DRAIN", place.agent(state)[0].reason
    for mounts in (good, bad, bad, good, bad, bad):
        place.world.files["/proc/self/mounts"] = mounts
        place.run()
        assert not place.agent(state)
    place.world.files["/proc/self/mounts"] = good
    for _turn in range(2):
        place.run()
        assert not place.agent(state)
    place.run()
    assert [one.kind for one in place.agent(state)] == ["resume"]
    place.state, place.reason = "IDLE", "none"
    place.run()
    place.world.files["/proc/self/mounts"] = bad
    assert [place.run()["mounts"].value for _turn in range(3)] == ["WARN", "WARN", "FAIL"]


def diag(place: Place, status: str) -> None:
    """Let DCGM's diagnosis end with this status."""
    tests = place.world.dcgm_diag["DCGM Diagnostic"]["test_categories"][0]["tests"]
    tests[0]["results"][0]["status"] = status


def test_a_check_of_the_boot_that_failed_counts_until_it_passes(place: Place) -> None:
    """It runs again at the next boot, and the agent takes a check that does not fail for one that passed."""
    diag(place, "Fail")
    state: dict[str, t.Any] = {}
    assert place.run(context="boot")["dcgm_diag"] is Verdict.FAIL
    drain = place.agent(state)[0]
    assert (drain.kind, drain.check) == ("drain", "dcgm_diag")
    place.state, place.reason = "IDLE+DRAIN", drain.reason
    for _turn in range(5):
        assert place.run()["dcgm_diag"] is Verdict.FAIL
        assert not place.agent(state)
    place.world.tools["dcgmi"] = "kill -9 $$"
    assert place.run(context="boot")["dcgm_diag"] is Verdict.INCOMPLETE
    for _turn in range(5):
        assert place.run()["dcgm_diag"] is Verdict.INCOMPLETE
        assert not place.agent(state)
    del place.world.tools["dcgmi"]
    diag(place, "Pass")
    assert place.run(context="boot")["dcgm_diag"] is Verdict.PASS
    for _turn in range(2):
        assert not place.agent(state)
        assert "dcgm_diag" not in place.run()
    assert [one.kind for one in place.agent(state)] == ["resume"]


@pytest.mark.parametrize("only", [(), ("dcgm_diag",)], ids=["all", "alone"])
def test_a_check_of_the_boot_can_be_repeated_by_hand(place: Place, only: tuple[str, ...]) -> None:
    diag(place, "Fail")
    place.run(context="boot")
    assert place.run(publish=False, context="on_demand", only=only)["dcgm_diag"] is Verdict.FAIL
    assert place.run()["dcgm_diag"] is Verdict.FAIL
    diag(place, "Pass")
    assert place.run(publish=False, context="on_demand", only=only)["dcgm_diag"] is Verdict.PASS
    assert "dcgm_diag" not in place.run()


def test_a_check_of_the_boot_that_is_switched_off_is_forgotten(place: Place) -> None:
    diag(place, "Fail")
    place.run(context="boot")
    place.world.config["checks"] = [{"name": "dcgm_diag", "enabled": False}]
    assert "dcgm_diag" not in place.run()


def test_one_check_writes_nothing(place: Place) -> None:
    assert place.run(publish=False, only=["memory"]) == {"memory": Verdict.PASS}
    assert not list((place.directory / "results").iterdir())


def test_a_check_that_nobody_knows_is_an_error(place: Place) -> None:
    with pytest.raises(cycle.manifest.ManifestError, match="not a check"):
        place.run(only=["warp_core"])


def test_errors_of_the_kernel_log_can_be_declared_repaired(place: Place) -> None:
    place.world.log("NVRM: Xid (PCI:0000:86:00): 95, x")
    assert place.run()["gpu_xid"] is Verdict.FAIL
    cycle.repaired()
    assert place.run()["gpu_xid"] is Verdict.PASS
    place.world.log("NVRM: Xid (PCI:0000:86:00): 95, x", at=90000.0)
    assert place.run()["gpu_xid"] is Verdict.FAIL


@pytest.mark.parametrize("run_is_full", [False, True])
def test_a_repair_that_is_not_kept_is_an_error(place: Place, run_is_full: bool) -> None:
    place.world.log("NVRM: Xid (PCI:0000:86:00): 95, x")
    place.run()
    place.disk.error = errno.ENOSPC
    if run_is_full:
        place.disk.places.append(place.directory / "run")
    with pytest.raises(OSError, match="make room") if run_is_full else contextlib.nullcontext():
        cycle.repaired()
    assert place.run()["gpu_xid"] is (Verdict.FAIL if run_is_full else Verdict.PASS)


RESET = "tw:health:gpu_xid: Xid 95 of 0000:86:00 -> reset the GPU [slurm@2026-11-23T08:55:26]"


def resets(place: Place, code: int = 0) -> t.Callable[[], int]:
    """Let nvidia-smi note resets, and end so; return how many there were."""
    calls = place.directory / "resets"
    place.world.tools["nvidia-smi"] = (
        f'case "$*" in *gpu-reset*) echo >>{calls}; exit {code};; *query-gpu*) cat {place.directory}/data/gpus;;'
        f" *remapped*) cat {place.directory}/data/remaps;; *nvlink*) cat {place.directory}/data/nvlink;; esac"
    )
    return lambda: len(calls.read_text().splitlines()) if calls.exists() else 0


def test_a_drained_idle_node_resets_its_gpus_once_and_passes(place: Place) -> None:
    count = resets(place)
    place.world.log("NVRM: Xid (PCI:0000:86:00): 95, x")
    assert place.run()["gpu_xid"] is Verdict.FAIL and not count(), (
        "not before the agent has drained it"
    )
    place.state, place.reason = "IDLE+DRAIN", RESET
    place.run()
    assert count() == 1 and place.updates[-1].did == "reset"
    assert place.run()["gpu_xid"] is Verdict.PASS
    place.world.log("NVRM: Xid (PCI:0000:86:00): 95, x", at=90000.0)
    assert place.run()["gpu_xid"] is Verdict.FAIL
    assert count() == 1, "a reset that does not last is not made again in this boot"


@pytest.mark.parametrize(("run_is_full", "made"), [(False, 1), (True, 0)])
def test_a_full_disk_repeats_no_reset(place: Place, run_is_full: bool, made: int) -> None:
    """Where it cannot be noted, it is not made: the agent reboots the node later."""
    count = resets(place)
    # An error that the reset does not cure.
    place.world.links[0] = ["<inactive>", *place.world.links[0][1:]]
    place.run()
    place.disk.error = errno.ENOSPC
    if run_is_full:
        place.disk.places.append(place.directory / "run")
    place.state, place.reason = "IDLE+DRAIN", RESET.replace("gpu_xid", "gpu_nvlink")
    for _turn in range(4):
        assert place.run()["gpu_nvlink"] is Verdict.FAIL
    assert count() == made
    assert [one.did for one in place.updates[1:]] == ["reset" if made else "", "", "", ""]


def test_a_reset_is_noted_before_it_is_made(place: Place) -> None:
    """slurmd ends a cycle after 60 seconds, and the next one would make it again."""
    count = resets(place)
    place.world.log("NVRM: Xid (PCI:0000:86:00): 95, x")
    place.state, place.reason = "IDLE+DRAIN", RESET

    class Killed(BaseException):
        """The run is killed at this moment."""

    made = cycle.publication.dump

    def killed(_word: publication.Publication) -> str:
        raise Killed

    place.monkeypatch.setattr(cycle.publication, "dump", killed)
    with pytest.raises(Killed):
        place.run()
    place.monkeypatch.setattr(cycle.publication, "dump", made)
    for _turn in range(2):
        place.run()
    assert count() == 1


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("MIXED+DRAIN", RESET),
        ("IDLE+DRAIN", "bad fan, ask Ann"),
        ("IDLE+DRAIN", RESET.replace("gpu_xid", "mounts")),
        ("IDLE", "none"),
        ("DOWN+DRAIN", RESET),
    ],
)
def test_nothing_is_reset_without_the_agents_word(place: Place, state: str, reason: str) -> None:
    count = resets(place)
    place.world.log("NVRM: Xid (PCI:0000:86:00): 95, x")
    place.state, place.reason = state, reason
    place.run()
    place.run()
    assert not count()


@pytest.mark.parametrize(
    ("title", "uid", "resets_then"),
    [
        ("slurmstepd: [42.batch]", 0, 0),
        # A user's process with that title, and the holder of the steps' scope.
        ("slurmstepd: [42.batch]", 1000, 1),
        ("/usr/sbin/slurmstepd\0infinity", 0, 1),
    ],
)
def test_nothing_is_reset_under_a_job(place: Place, title: str, uid: int, resets_then: int) -> None:
    count = resets(place)
    place.world.log("NVRM: Xid (PCI:0000:86:00): 95, x")
    place.world.files["/proc/77/cmdline"] = title
    place.world.files["/proc/77/status"] = f"Name:\tslurmstepd\nUid:\t{uid}\t{uid}\t{uid}\t{uid}"
    place.state, place.reason = "IDLE+DRAIN", RESET
    place.run()
    assert count() == resets_then


def test_a_reset_that_fails_is_published(place: Place) -> None:
    count = resets(place, code=1)
    place.world.log("NVRM: Xid (PCI:0000:86:00): 95, x")
    place.state, place.reason = "IDLE+DRAIN", RESET
    assert place.run()["gpu_xid"] is Verdict.FAIL
    assert count() == 1 and place.updates[-1].did == "reset failed"


HOOK = "tw:hook:scratch-disk: exit code 1: no disk -> mount /scratch"


@pytest.mark.parametrize(
    ("document", "failures"),
    [
        (
            {"hooks": {"drain": {"reason": HOOK, "mode": "enforce"}}},
            [("scratch_disk", "exit code 1: no disk")],
        ),
        ({"hooks": {"drain": {"reason": HOOK, "mode": "observe"}}}, []),
        ({"hooks": {"drain": {"reason": "tw:health:x: y -> z", "mode": "enforce"}}}, []),
        ({"hooks": {"drain": {}}}, []),
        ({"hooks": 7}, []),
        ({"hooks": {"drain": 7}}, []),
        ({}, []),
    ],
)
def test_the_part_of_a_hook_that_drained_the_node_is_published(
    place: Place, document: t.Any, failures: list[tuple[str, str]]
) -> None:
    (place.directory / "results" / "hooks.json").write_text(json.dumps(document))
    place.run()
    assert [(one.check, one.fault) for one in place.updates[0].hooks] == failures


def test_a_node_outside_the_group_checks_and_publishes_nothing(place: Place) -> None:
    place.world.config["enabled"] = False
    assert place.run() == {} and not place.calls


def test_what_is_published_is_short_and_harmless() -> None:
    bad = tuple(publication.Failure(f"check_{n}", "f" * 100, "r" * 100, "drain") for n in range(6))
    text = publication.dump(
        publication.Publication("n" * 60, "boot", 1, 2, bad, tuple(["gpu_count"] * 20))
    )
    assert len(text) <= publication.LONGEST and text.isascii()
    assert publication.plain('a\nb="c" -> d\' \x1b[2J|') == "a.b..c. > d. .[2J."


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_configuration_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "health.json"
    path.write_text("{}")
    path.chmod(mode)
    with pytest.raises(host.ConfigError, match="others than root"):
        host.roots_json(str(path))


@pytest.mark.parametrize("can", [True, False])
def test_a_cycle_begins_where_no_marker_of_the_boot_can_be_made(tmp_path: Path, can: bool) -> None:
    text = (ROOT / "roles/node_health/templates/health-cycle.j2").read_text()
    script = text.partition("{% else %}")[2].partition("{% endif %}")[0]
    marker = tmp_path / ("marker" if can else "missing/marker")
    script = script.replace("/run/trainwright-health-booted", str(marker))
    script = script.replace("nice -n 10 /usr/local/sbin/trainwright-health", "echo")
    done = [
        subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        for _turn in range(2)
    ]
    contexts = ["boot", "idle"] if can else ["idle", "idle"]
    assert [one.stdout for one in done] == [
        f"run --publish --context {name}\n" for name in contexts
    ]
    assert not any(one.stderr for one in done)
