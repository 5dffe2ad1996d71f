# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The runner survives what a check can do, and manifests are data that is checked."""

from __future__ import annotations

import os
import signal
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Verdict
from ansible_collections.trainwright.slurm.plugins.module_utils.health import (
    manifest,
    runner,
    storage,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.health.finding import (
    Finding,
    passed,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.health.host import Host
from ansible_collections.trainwright.slurm.plugins.module_utils.health.manifest import (
    Check,
    ManifestError,
)

from .world import World


def run_subject(
    monkeypatch: pytest.MonkeyPatch, behaviour: t.Callable[[Host], t.Any], deadline: float = 5
) -> tuple[Finding, Host]:
    monkeypatch.setitem(runner.SUBJECTS, "odd", behaviour)
    host = Host({"node": "n1"})
    found = runner.run({"odd": [Check("odd", "odd", deadline=deadline)]}, host)
    return found[0], host


def hangs(_host: Host) -> list[Finding]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
    return []


def kills_itself(_host: Host) -> list[Finding]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def raises(_host: Host) -> list[Finding]:
    raise KeyError("\x1b[2Jsurprise")


def floods(_host: Host) -> list[Finding]:
    print("x" * 10_000_000)
    return [passed("odd", "y" * 10_000_000)]


def leaves(_host: Host) -> list[Finding]:
    os._exit(0)


def is_silent(_host: Host) -> list[Finding]:
    return []


@pytest.mark.parametrize("behaviour", [hangs, kills_itself, raises, leaves, is_silent])
def test_a_check_that_fails_itself_is_incomplete(
    monkeypatch: pytest.MonkeyPatch, behaviour: t.Callable[[Host], t.Any]
) -> None:
    began = time.monotonic()
    found, _host = run_subject(monkeypatch, behaviour, deadline=0.5)
    assert found.verdict is Verdict.INCOMPLETE and found.remedy
    assert "\x1b" not in found.detail
    assert time.monotonic() - began < 3


def test_a_flood_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _host = run_subject(monkeypatch, floods)
    assert found.verdict is Verdict.PASS and len(found.detail) < 200


def test_a_subject_that_hangs_does_not_delay_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runner.SUBJECTS, "odd", hangs)
    monkeypatch.setitem(runner.SUBJECTS, "fine", lambda _host: [passed("fine")])
    checks = {"odd": [Check("odd", "odd", deadline=0.4)], "fine": [Check("fine", "fine")]}
    began = time.monotonic()
    found = runner.run(checks, Host({"node": "n1"}))
    assert [one.verdict for one in found] == [Verdict.INCOMPLETE, Verdict.PASS]
    assert time.monotonic() - began < 2


def test_a_process_that_the_kernel_holds_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one in state D: it is still there after SIGKILL."""
    monkeypatch.setattr(runner, "_gone", lambda _pid, _patience: False)
    monkeypatch.setattr(runner, "_still", lambda _entry: True)
    found, host = run_subject(monkeypatch, hangs, deadline=0.2)
    assert list(host.remembered["hanging"]) == ["odd"]
    host.memory = dict(host.remembered)
    began = time.monotonic()
    again = runner.run({"odd": [Check("odd", "odd", deadline=5)]}, host)
    assert again[0].verdict is Verdict.INCOMPLETE and time.monotonic() - began < 1


def test_a_mount_that_does_not_answer_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(runner.SUBJECTS, "mounts", hangs)
    host = World(tmp_path).build()
    found = runner.run({"mounts": [Check("mounts", "mounts", deadline=0.3)]}, host)
    assert found[0].verdict is Verdict.FAIL and "/fsx" in found[0].detail


def test_a_mount_that_had_too_little_time_to_answer_does_not_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(runner.SUBJECTS, "mounts", hangs)
    host = World(tmp_path).build()
    began = time.monotonic()
    found = runner.run({"mounts": [Check("mounts", "mounts", deadline=20)]}, host, budget=0.3)
    assert found[0].verdict is Verdict.INCOMPLETE and time.monotonic() - began < 3


def test_a_user_who_fills_tmp_drains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's disk is full, and /tmp is on it; slurmd's directory on a full disk of its own is a fault."""
    monkeypatch.setattr(storage, "_used", lambda _path: (100.0, 1.0, 0.0))
    host = World(tmp_path).build()
    found = {one.check: one for one in storage.space(host)}
    assert found["disk_space"].verdict is Verdict.WARN
    assert found["mount_space"].verdict is Verdict.WARN, "shared storage is full for all nodes"
    real = os.stat

    class Other:
        st_dev = -1

    monkeypatch.setattr(
        storage.os, "stat", lambda path: Other() if path.endswith("/tmp") else real(path)
    )
    assert {one.check: one.verdict for one in storage.space(host)}["disk_space"] is Verdict.FAIL


def test_a_user_who_fills_var_tmp_drains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many nodes have a file system of its own for /tmp, and not for /var/tmp."""
    monkeypatch.setattr(storage, "_used", lambda _path: (100.0, 1.0, 0.0))
    host = World(tmp_path).build()
    Path(host.path("/var/tmp")).mkdir(parents=True, exist_ok=True)
    real = os.stat

    class Other:
        st_dev = -1

    monkeypatch.setattr(
        storage.os, "stat", lambda path: Other() if path == host.path("/tmp") else real(path)
    )
    [found] = [one for one in storage.space(host) if one.check == "disk_space"]
    assert found.verdict is Verdict.WARN


OURS = "$(/usr/lib/trainwright/enroot-directory /var/lib/enroot/{0} /var/lib/trainwright/enroot-root/{0})"
ENROOT = "\n".join(
    f"ENROOT_{name}_PATH         {OURS.format(place)}"
    for name, place in (("RUNTIME", "run"), ("DATA", "data"), ("CACHE", "cache"), ("TEMP", "tmp"))
)


@pytest.mark.parametrize(
    ("enroot", "places", "on_var", "verdict"),
    [
        (ENROOT, (), "/var/lib/enroot/data", Verdict.WARN),
        (ENROOT, (), "/var/lib/enroot/cache", Verdict.WARN),
        (ENROOT, (), "/var/lib/enroot/tmp", Verdict.WARN),
        ("", (), "/var/lib/trainwright/images/users", Verdict.WARN),
        ("", ("/var/lib/enroot/data",), "/var/lib/enroot/data", Verdict.WARN),
        ("ENROOT_DATA_PATH /var/enroot/user-${USER}", (), "/var/enroot", Verdict.WARN),
        ("ENROOT_DATA_PATH /bind/enroot", (), "/bind/enroot", Verdict.WARN),
        # Enroot's directories are not there, or somewhere else.
        ("", (), "/var/lib/enroot/data", Verdict.FAIL),
        (ENROOT.replace("/var/lib/enroot", "/scratch"), (), "/var/lib/enroot/data", Verdict.FAIL),
        # Root's own.
        (ENROOT, (), "/var/lib/trainwright/enroot-root/data", Verdict.FAIL),
        # Storage whose server hangs is not looked at.
        ("ENROOT_DATA_PATH /fsx/enroot/data", (), "/fsx/enroot/data", Verdict.FAIL),
    ],
)
def test_a_user_who_fills_var_by_enroot_drains_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    enroot: str,
    places: tuple[str, ...],
    on_var: str,
    verdict: Verdict,
) -> None:
    """The node has a file system of its own for /var, and /tmp and /var/tmp are not on it."""
    monkeypatch.setattr(storage, "_used", lambda _path: (100.0, 1.0, 0.0))
    world = World(tmp_path)
    world.files["/etc/enroot/enroot.conf"] = enroot
    world.files["/proc/self/mounts"] += (
        "\n/dev/nvme0n1p2 /var ext4 rw 0 0\n/dev/nvme0n1p2 /bind ext4 rw 0 0"
    )
    world.files[f"{on_var}/.keep"] = world.files["/var/tmp/.keep"] = ""
    world.config["enroot_directories"] = list(places)
    host = world.build()
    real = os.stat

    class Other:
        st_dev = -1

    here = {host.path(on_var), host.path("/var/spool/slurmd")}
    with monkeypatch.context() as patched:
        patched.setattr(storage.os, "stat", lambda path: real(path) if path in here else Other())
        [found] = [one for one in storage.space(host) if one.check == "disk_space"]
    assert found.verdict is verdict


def test_root_runs_no_check_that_a_user_can_change(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("root alone can give a file away")
    ran, program = tmp_path / "ran", tmp_path / "check"
    program.write_text(f"#!/bin/sh\ntouch {ran}\nexit 2\n")
    program.chmod(0o755)
    check = Check("mine", command=(str(program),))
    (tmp_path / "world").mkdir()
    host = World(tmp_path / "world").build()
    for change in (
        lambda: os.chown(program, 2001, 2001),
        lambda: program.chmod(0o777),
        lambda: os.chown(tmp_path, 2001, 2001),
    ):
        change()
        found = runner.command(host, check)
        assert found.verdict is Verdict.INCOMPLETE and not ran.exists(), found
        os.chown(program, 0, 0)
        program.chmod(0o755)
    os.chown(tmp_path, 0, 0)
    assert runner.command(host, check).verdict is Verdict.FAIL and ran.exists()


def test_contexts_platforms_and_switches_decide_what_runs(tmp_path: Path) -> None:
    host = World(tmp_path).build()
    host.context = "prolog"
    names = {one.name for those in runner.due(manifest.checks(), host).values() for one in those}
    assert names == {"gpu_driver", "gpu_count", "gpu_recovery_action"}
    changed = manifest.checks(
        [{"name": "gpu_count", "enabled": False}, {"name": "gpu_driver", "platforms": ["g5.*"]}]
    )
    names = {one.name for those in runner.due(changed, host).values() for one in those}
    assert names == {"gpu_recovery_action"}
    only = runner.due(changed, host, ["dcgm_diag_2"])
    assert list(only) == ["dcgm_diag_2"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("text", "is not a list"),
        ([7], "is not a mapping"),
        ([{"name": "Bad Name"}], "is not a name"),
        ([{"name": "mine"}], "absolute path"),
        ([{"name": "mine", "command": ["ls"]}], "absolute path"),
        ([{"name": "gpu_count", "command": ["/bin/true"]}], "built in"),
        ([{"name": "gpu_count", "action": "explode"}], "one of drain"),
        ([{"name": "gpu_count", "contexts": ["sometimes"]}], "one of idle"),
        ([{"name": "gpu_count", "deadline": 0}], "0.1 to 7200"),
        ([{"name": "gpu_count", "deadline": "5"}], "wrong type"),
        ([{"name": "gpu_count", "confirm": True}], "wrong type"),
        ([{"name": "gpu_count", "colour": "red"}], "is not a key"),
    ],
)
def test_a_manifest_that_is_wrong_is_refused(given: t.Any, words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        manifest.checks(given)


def test_a_built_in_subject_has_each_of_its_checks(tmp_path: Path) -> None:
    """A check without a result would be INCOMPLETE forever."""
    host = World(tmp_path).build()
    for subject, function in runner.SUBJECTS.items():
        wanted = {one.name for one in manifest.BUILT_IN.values() if one.subject == subject}
        assert {one.check for one in function(host)} == wanted, subject
