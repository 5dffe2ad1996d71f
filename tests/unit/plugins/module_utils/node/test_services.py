# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of services: the decision as a table, and whole runs against a made-up systemctl."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    answering,
    files,
    services,
    started_unit,
    unit_properties,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.unit_properties import (
    parse_show,
)

State = services.State
RUNS = State(load="loaded", active="active", file="enabled", same_stamp=True)
DOWN = State(load="loaded", active="inactive", sub="dead", file="enabled")
FAILED = State(load="loaded", active="failed", sub="failed", file="enabled")
ABSENT = State()
MASKED = State(load="masked", file="masked")


def unit(name="slurmd", **values) -> dict:
    spec = {"enabled": None, "state": None, "stamp": "", "restart": False, "reload": False}
    return {"name": name, "watch": [], "ready": None, **spec, **values}


def running(**values) -> State:
    return State(**{**vars(RUNS), **values})


@pytest.mark.parametrize(
    ("spec", "state", "expected"),
    [
        ({"state": "started"}, RUNS, []),
        ({"state": "started"}, DOWN, ["start"]),
        ({"state": "started"}, FAILED, ["start"]),
        ({"state": "started"}, State(load="loaded", active="activating"), ["start"]),
        ({"state": "started", "enabled": True}, ABSENT, ["enable", "start"]),
        ({"state": "started", "stamp": "s1"}, RUNS, []),
        ({"state": "started", "stamp": "s2"}, running(same_stamp=False), ["restart"]),
        ({"state": "started", "stamp": "s1"}, running(same_stamp=None), ["restart"]),
        ({"state": "started", "stamp": "s2"}, DOWN, ["start"]),
        ({"state": "started", "restart": True}, RUNS, ["restart"]),
        ({"state": "started", "restart": True}, DOWN, ["start"]),
        ({"state": "started"}, running(newer=["/etc/x"]), ["restart"]),
        ({"state": "started"}, running(halted=answering.STOPPED), ["restart"]),
        # Somebody works there.
        ({"state": "started"}, running(halted=answering.TRACED), []),
        ({"state": "started", "stamp": "s2"}, running(same_stamp=False, halted="x"), ["restart"]),
        ({"enabled": True}, running(halted=answering.STOPPED), []),
        ({"state": "stopped"}, running(halted=answering.STOPPED), ["stop"]),
        ({"state": "started", "reload": True}, RUNS, ["reload"]),
        ({"state": "started", "reload": True, "restart": True}, RUNS, ["restart"]),
        ({"state": "started", "reload": True}, DOWN, ["start"]),
        ({"stamp": "s2"}, running(same_stamp=False), ["restart"]),
        ({"stamp": "s2"}, DOWN, []),
        ({"restart": True}, DOWN, []),
        ({"state": "stopped"}, RUNS, ["stop"]),
        ({"state": "stopped", "stamp": "s2", "restart": True}, RUNS, ["stop"]),
        ({"state": "stopped", "enabled": False}, ABSENT, []),
        ({"state": "stopped", "enabled": False}, MASKED, []),
        ({"state": "stopped"}, DOWN, []),
        ({"enabled": True}, running(file="disabled"), ["enable"]),
        ({"enabled": True}, running(file="static"), []),
        ({"enabled": False}, RUNS, ["disable"]),
        ({"enabled": False}, running(file="disabled"), []),
        ({"enabled": None}, running(file="disabled"), []),
        ({"masked": True, "state": "stopped"}, RUNS, ["mask", "stop"]),
        ({"masked": True, "state": "stopped"}, MASKED, []),
    ],
)
def test_decision(spec, state, expected):
    assert [action.action for action in services.decide(unit(**spec), state)] == expected


def test_every_action_says_why():
    spec = unit(state="started", enabled=True, stamp="s2")
    for action in services.decide(spec, running(file="disabled")):
        assert action.unit == "slurmd.service"
        assert action.why


@pytest.mark.parametrize(
    ("spec", "state", "check", "message"),
    [
        ({"state": "started"}, MASKED, True, "is masked"),
        ({"state": "started"}, MASKED, True, "`systemctl unmask slurmd.service`"),
        (
            {"state": "started"},
            State(load="masked", file="masked-runtime"),
            True,
            "`systemctl unmask --runtime slurmd.service`",
        ),
        ({"enabled": True}, MASKED, False, "systemctl unmask slurmd.service"),
        ({"state": "started"}, ABSENT, False, "Remedy: install the package"),
        ({"state": "started"}, State(load="bad-setting", error="line 3"), True, "line 3"),
    ],
)
def test_refused(spec, state, check, message):
    with pytest.raises(services.ServicesError, match=message):
        services.refuse(unit(**spec), state, check)


def test_a_missing_unit_is_no_error_before_its_package_is_there_or_when_it_shall_stop():
    services.refuse(unit(state="started", enabled=True), ABSENT, True)
    services.refuse(unit(state="stopped", enabled=False), ABSENT, False)
    services.refuse(unit(state="stopped"), MASKED, False)


def test_start_time_comes_from_the_monotonic_clock():
    shown = {
        "LoadState": "loaded",
        "ActiveState": "active",
        "ExecMainStartTimestampMonotonic": "90000000",
        "ActiveEnterTimestampMonotonic": "95000000",
    }
    assert services.state_of(shown, now=1000.0, monotonic=100.0).started == 990.0
    shown["ExecMainStartTimestampMonotonic"] = "0"
    assert services.state_of(shown, now=1000.0, monotonic=100.0).started == 995.0
    shown["ActiveState"] = "inactive"
    assert services.state_of(shown, now=1000.0, monotonic=100.0).started == 0.0


def test_unit_files_that_systemd_has_not_read(tmp_path):
    """Those of a real systemd that has read all of them, then one fault each."""
    own, extra = tmp_path / "slurmd.service", tmp_path / "slurmd.service.d" / "site.conf"

    def unread(**properties: str) -> bool:
        packaged = {"FragmentPath": "/usr/lib/systemd/system/slurmd.service", "DropInPaths": ""}
        told = {"NeedDaemonReload": "no", **packaged, **properties}
        return services.unread_files("slurmd.service", told, str(tmp_path))

    assert not unread()
    assert unread(NeedDaemonReload="yes")
    assert unread(DropInPaths=str(extra)), "a removed file"
    extra.parent.mkdir()
    extra.write_text("[Service]\n")
    assert unread(), "a new file"
    (extra.parent / "another.conf").write_text("")
    assert unread(DropInPaths=str(extra)), "a second file"
    (extra.parent / "another.conf").unlink()
    assert not unread(DropInPaths=str(extra))
    own.write_text("[Service]\n")
    assert unread(DropInPaths=str(extra)), "a unit file in place of the package's"
    assert not unread(DropInPaths=str(extra), FragmentPath=str(own))
    own.unlink()
    own.symlink_to("/dev/null")
    assert not unread(DropInPaths=str(extra), FragmentPath=str(own)), "a masked unit"
    assert unread(DropInPaths=str(extra)), "masked since"


def test_watched_paths(tmp_path):
    (tmp_path / "old").write_text("")
    os.utime(tmp_path / "old", (100, 100))
    (tmp_path / "new").write_text("")
    os.utime(tmp_path / "new", (300, 300))
    paths = [str(tmp_path / name) for name in ("old", "new", "missing")]
    assert services.newer_paths(paths, 200.0) == [str(tmp_path / "new")]
    assert services.newer_paths([str(tmp_path / "*")], 200.0) == [str(tmp_path / "new")]
    assert services.newer_paths(paths, 0.0) == []


def test_stamps(tmp_path):
    stamps = services.Stamps(str(tmp_path / "stamps"))
    assert stamps.started_with("x.service", "abc") is None
    stamps.write("x.service", "abc")
    assert stamps.started_with("x.service", "abc") is True
    assert stamps.started_with("x.service", "abd") is False
    stamps.forget("x.service")
    stamps.forget("x.service")
    assert stamps.started_with("x.service", "abc") is None


def test_a_stamp_is_kept_with_a_key_of_this_host_that_only_root_can_read(tmp_path):
    digest = hashlib.sha256(b"StoragePass=summer").hexdigest()
    kept = set()
    for host in ("a", "b"):
        stamps = services.Stamps(str(tmp_path / host))
        stamps.write("x.service", digest)
        stamps.write("y.service", digest)
        for path in (tmp_path / host).iterdir():
            assert path.stat().st_mode & 0o777 == 0o600, path
            assert digest not in path.read_text()
        kept |= {(tmp_path / host / f"{unit}.service").read_text() for unit in "xy"}
        # A service that is written later does not change the key of the others.
        assert stamps.started_with("x.service", digest) is True
    assert len(kept) == 4


def test_the_stamp_of_an_older_release_restarts_nothing_and_is_replaced(systemd, tmp_path):
    systemd.have(slurmd={"ActiveState": "active"})
    (tmp_path / "stamps").mkdir()
    kept = tmp_path / "stamps" / "slurmd.service"
    kept.write_text("s1\n")
    assert systemd.run(unit(state="started", stamp="s1"), check=True) == []
    assert kept.read_text() == "s1\n"
    assert systemd.run(unit(state="started", stamp="s1")) == []
    assert kept.read_text().startswith("hmac:")
    assert systemd.run(unit(state="started", stamp="s1")) == []
    kept.write_text("s1\n")
    assert systemd.run(unit(state="started", stamp="s2")) == ["restart slurmd.service"]
    assert systemd.run(unit(state="started", stamp="s2")) == []


FAKE = """#!{python}
import json, os, sys
path, log = {state!r}, {log!r}
units = json.load(open(path))
verb, names = sys.argv[1], [a for a in sys.argv[2:] if not a.startswith("-")]
open(log, "a").write(" ".join([verb, *names]) + "\\n")
if verb == "show":
    print("\\n\\n".join("\\n".join(f"{{k}}={{v}}" for k, v in units.get(
        n, {{"LoadState": "not-found", "ActiveState": "inactive"}}).items()) for n in names))
for name in names:
    unit = units.get(name, {{}})
    if verb in ("start", "restart"):
        if verb == "start" and unit.get("Hangs"):
            sys.exit("Job for %s failed because a timeout was exceeded" % name)
        if unit.get("Broken"):
            unit["ActiveState"] = "failed"
            json.dump(units, open(path, "w"))
            sys.exit("Job for %s failed" % name)
        unit["ActiveState"] = unit.get("After", "active")
    elif verb == "stop":
        unit["ActiveState"] = "inactive"
    elif verb in ("enable", "disable"):
        unit["UnitFileState"] = verb + "d"
    elif verb == "mask":
        unit["LoadState"] = "masked"
    elif verb == "is-active":
        sys.exit(0 if unit.get("ActiveState") == "active" else 3)
json.dump(units, open(path, "w"))
"""


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    """A systemctl that keeps its units in a file, and a journalctl with one line."""
    monkeypatch.setattr(services, "SETTLE_S", 0.0)
    monkeypatch.setattr(services, "POLL_S", 0.01)
    (tmp_path / "bin").mkdir()
    state, log = tmp_path / "units.json", tmp_path / "log"
    fake = FAKE.format(python=sys.executable, state=str(state), log=str(log))
    (tmp_path / "bin" / "systemctl").write_text(fake)
    (tmp_path / "bin" / "journalctl").write_text("#!/bin/sh\necho fatal: no slurm.conf\n")
    for path in (tmp_path / "bin").iterdir():
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    class Systemd:
        def have(self, **units) -> None:
            base = {"LoadState": "loaded", "ActiveState": "inactive", "UnitFileState": "disabled"}
            full = {f"{name}.service": {**base, **unit} for name, unit in units.items()}
            state.write_text(json.dumps(full))

        def calls(self) -> list[str]:
            lines = log.read_text().splitlines() if log.exists() else []
            log.write_text("")
            return lines

        def run(self, *specs, check=False, in_between=False) -> list[str]:
            manager = services.Services(
                list(specs),
                parse_show,
                services.Stamps(str(tmp_path / "stamps")),
                services.Proved(str(tmp_path / "proved")),
                in_between,
            )
            manager.load()
            actions = manager.plan(check)
            if not check:
                manager.apply(actions)
            return [f"{action.action} {action.unit}" for action in actions]

    return Systemd()


def test_a_start_that_had_begun_without_what_is_repaired_now_is_begun_again(systemd):
    systemd.have(slurmd={"ActiveState": "activating", "Hangs": True})
    assert systemd.run(unit(state="started", stamp="s1")) == ["start slurmd.service"]
    assert [one for one in systemd.calls() if "start " in one] == [
        "start slurmd.service",
        "restart slurmd.service",
    ]
    systemd.have(slurmd={"ActiveState": "failed", "Hangs": True})
    with pytest.raises(services.ServicesError, match="could not start"):
        systemd.run(unit(state="started", stamp="s1"))
    assert "restart slurmd.service" not in systemd.calls()


def test_a_daemon_whose_environment_somebody_has_changed_is_restarted(systemd, tmp_path):
    """With a wrong word there, it would not start at the next boot."""
    file = tmp_path / "default"
    file.write_text("")
    os.utime(file, (100, 100))
    shown = {
        "ActiveState": "active",
        "ActiveEnterTimestampMonotonic": str(int((time.monotonic() - 60) * 1e6)),
        "EnvironmentFiles": f"{tmp_path / 'none'} (ignore_errors=yes)\nEnvironmentFiles={file} (ignore_errors=no)",
    }
    systemd.have(munge=shown, cron={**shown, "UnitFileState": "enabled"})
    specs = unit("munge", state="started", stamp="s1"), unit("cron", enabled=True)
    assert systemd.run(*specs) == ["restart munge.service"], "nothing records its start"
    assert systemd.run(*specs) == []
    file.write_text("OPTIONS=--nonsense")
    assert systemd.run(*specs, check=True) == ["restart munge.service"]
    # The process of a reconfigure has the environment of the one before.
    shown["ExecMainStartTimestampMonotonic"] = str(int((time.monotonic() + 60) * 1e6))
    systemd.have(munge=shown, cron={**shown, "UnitFileState": "enabled"})
    assert systemd.run(*specs, check=True) == ["restart munge.service"]
    os.utime(file, (time.time() + 3600,) * 2)
    assert systemd.run(*specs) == [], "a time that is still to come would be newer than each start"
    os.utime(file)
    shown["ActiveEnterTimestampMonotonic"] = str(int((time.monotonic() + 60) * 1e6))
    systemd.have(munge=shown, cron={**shown, "UnitFileState": "enabled"})
    assert systemd.run(*specs) == []


def test_check_mode_says_what_the_real_run_does_and_a_second_run_is_quiet(systemd):
    systemd.have(slurmd={}, munge={"ActiveState": "active", "UnitFileState": "enabled"})
    wanted = [
        unit("munge", state="started", enabled=True),
        unit("slurmd", state="started", enabled=True, stamp="s1"),
    ]
    told = systemd.run(*wanted, check=True)
    assert systemd.calls() == ["show munge.service slurmd.service"]
    assert told == systemd.run(*wanted) == ["enable slurmd.service", "start slurmd.service"]
    systemd.calls()
    assert systemd.run(*wanted) == []
    assert systemd.calls() == ["show munge.service slurmd.service"]


def test_a_unit_that_somebody_started_with_files_of_an_interrupted_run_is_restarted(
    systemd, tmp_path, monkeypatch
):
    """The file is as it was at the last start of a run, which the stamp is of."""
    own = tmp_path / "own.conf"
    own.write_text("")
    wanted = unit("slurmd", state="started", stamp="s1", proved=[str(own)])
    systemd.have(slurmd={"ActiveState": "active"})
    assert systemd.run(wanted) == ["restart slurmd.service"]
    stamp = (tmp_path / "stamps" / "slurmd.service").stat().st_mtime

    def started(when: float, changed: float) -> list[str]:
        monkeypatch.setattr(services.Stamps, "is_older", lambda *_arguments: stamp < when)
        monkeypatch.setattr(
            services, "newer_paths", lambda paths, _s: [p for p in paths if changed > when]
        )
        return systemd.run(wanted, check=True)

    assert started(stamp + 60, changed=stamp + 90) == ["restart slurmd.service"]
    assert started(stamp + 60, changed=stamp + 30) == []
    assert started(stamp - 1, changed=stamp + 30) == [], "a file that is repaired is no reason"


def test_a_start_after_the_stamp(tmp_path):
    stamps = services.Stamps(str(tmp_path / "stamps"))
    assert not stamps.is_older("x.service", 300.0)
    stamps.write("x.service", "abc")
    os.utime(tmp_path / "stamps" / "x.service", (200, 200))
    assert stamps.is_older("x.service", 300.0) and not stamps.is_older("x.service", 100.0)


def test_a_unit_is_masked_and_stopped_once(systemd):
    systemd.have(logind={"ActiveState": "active"})
    wanted = unit("logind", masked=True, state="stopped")
    assert systemd.run(wanted, check=True) == ["mask logind.service", "stop logind.service"]
    assert systemd.run(wanted) == ["mask logind.service", "stop logind.service"]
    assert systemd.run(wanted) == []


def test_a_new_stamp_restarts_once(systemd):
    systemd.have(slurmd={"ActiveState": "active"})
    assert systemd.run(unit(state="started", stamp="s1")) == ["restart slurmd.service"]
    assert systemd.run(unit(state="started", stamp="s1")) == []
    assert systemd.run(unit(state="started", stamp="s2")) == ["restart slurmd.service"]
    assert systemd.run(unit(state="started", stamp="s2")) == []
    assert "reset-failed slurmd.service" in systemd.calls()


def test_stopping_forgets_the_stamp(systemd):
    systemd.have(slurmd={})
    systemd.run(unit(state="started", stamp="s1"))
    systemd.run(unit(state="stopped"))
    systemd.have(slurmd={"ActiveState": "active"})  # somebody started it
    assert systemd.run(unit(state="started", stamp="s1")) == ["restart slurmd.service"]


def test_a_restart_with_what_is_put_back_forgets_the_stamp(systemd):
    """The unit runs with another configuration than its stamp says."""
    systemd.have(slurmd={})
    systemd.run(unit(state="started", stamp="s1"))
    again = unit(state="started", restart=True)
    assert systemd.run(again, in_between=True) == ["restart slurmd.service"]
    assert systemd.run(unit(state="started", stamp="s1")) == ["restart slurmd.service"]
    assert systemd.run(unit(state="started", stamp="s1")) == []
    # As of sshd, whose stamp has the files of another role.
    assert systemd.run(again) == ["restart slurmd.service"]
    assert systemd.run(unit(state="started", stamp="s1")) == []


def test_a_failed_start_shows_the_journal_and_keeps_no_stamp(systemd):
    systemd.have(slurmd={"Broken": "yes"})
    with pytest.raises(services.ServicesError, match="fatal: no slurm.conf(.|\n)*Remedy"):
        systemd.run(unit(state="started", stamp="s1"))
    systemd.have(slurmd={"ActiveState": "active"})
    assert systemd.run(unit(state="started", stamp="s1")) == ["restart slurmd.service"]


def test_the_unit_that_keeps_another_one_down_is_named(monkeypatch):
    """systemd says that a dependency failed, and the journal of the unit itself is empty."""
    answers = {
        "systemctl start slurmd.service": (1, "", "A dependency job for slurmd.service failed.\n"),
        "systemctl show --property=Requires --value slurmd.service": (
            0, "sysinit.target trainwright-gpu-stack.service\n", ""),
        "systemctl is-failed sysinit.target trainwright-gpu-stack.service": (0, "active\nfailed\n", ""),
        "journalctl --unit trainwright-gpu-stack.service": (0, "E: Unable to locate package x\n", ""),
    }  # fmt: skip

    def run(argv, *_more):
        line = " ".join(argv)
        code, out, err = next(
            (answer for start, answer in answers.items() if line.startswith(start)), (0, "", "")
        )
        return subprocess.CompletedProcess(argv, code, out, err)

    monkeypatch.setattr(services, "run", run)
    with pytest.raises(services.ServicesError) as caught:
        services.Services([], parse_show)._do("slurmd.service", "start")
    text = str(caught.value)
    assert text.startswith("slurmd.service: could not start: A dependency job")
    assert "requires trainwright-gpu-stack.service, which failed" in text
    assert "E: Unable to locate package x" in text
    assert "systemctl status trainwright-gpu-stack.service" in text


@pytest.mark.parametrize("heals", [True, False])
def test_files_with_which_a_unit_does_not_run_are_put_back(systemd, tmp_path, monkeypatch, heals):
    conf, added = tmp_path / "slurmdbd.conf", tmp_path / "added.conf"
    spec = {"state": "started", "proved": [str(conf), str(added)]}
    conf.write_text("old")
    conf.chmod(0o600)
    systemd.have(slurmdbd={})
    systemd.run(unit("slurmdbd", stamp="s1", **spec))
    kept = tmp_path / "proved" / "slurmdbd.service.json"
    assert kept.stat().st_mode & 0o777 == 0o600 and kept.parent.stat().st_mode & 0o777 == 0o700

    conf.write_text("new")
    added.write_text("new")
    systemd.have(slurmdbd={"ActiveState": "active", "Broken": "yes"})
    do = services.Services._do

    def runs_with_the_old(self, name, verb):
        if heals and conf.read_text() == "old":
            systemd.have(slurmdbd={"ActiveState": "active"})
        do(self, name, verb)

    monkeypatch.setattr(services.Services, "_do", runs_with_the_old)
    with pytest.raises(services.ServicesError, match="Remedy") as caught:
        systemd.run(unit("slurmdbd", stamp="s2", **spec))
    assert ("runs with its files as they were before" in str(caught.value)) is heals
    assert conf.read_text() == ("old" if heals else "new") and added.exists() is not heals
    assert conf.stat().st_mode & 0o777 == 0o600
    systemd.have(slurmdbd={"ActiveState": "active"})
    assert systemd.run(unit("slurmdbd", stamp="s2", **spec)) == ["restart slurmdbd.service"]


@pytest.mark.parametrize("full", ["second", "second, and the first when it is brought back"])
def test_a_full_disk_at_the_put_back_of_files_hides_nothing_and_mixes_nothing(
    systemd, tmp_path, monkeypatch, full
):
    """As where MariaDB has filled it, which is why it does not start."""
    first, second = tmp_path / "60-slurm.cnf", tmp_path / "drop-in.conf"
    spec = {"state": "started", "proved": [str(first), str(second)]}
    first.write_text("old")
    second.write_text("old")
    systemd.have(mariadb={})
    systemd.run(unit("mariadb", stamp="s1", **spec))
    first.write_text("new")
    second.write_text("new")
    systemd.have(mariadb={"ActiveState": "active", "Broken": "yes"})
    apply, written = files.apply, []

    def without_room(change):
        written.append(change.path)
        if change.path == str(second) or (len(written) > 1 and "brought" in full):
            cause = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with files._reported(change.path):
                raise cause
        return apply(change)

    monkeypatch.setattr(files, "apply", without_room)
    with pytest.raises(services.ServicesError) as caught:
        systemd.run(unit("mariadb", stamp="s2", **spec))
    said = str(caught.value)
    assert said.startswith("mariadb.service: could not restart") and "journal" in said
    assert "as they were before" in said and "make room there" in said
    stuck = "brought" in full
    assert (f"{first}: No space left" if stuck else f"{second}: No space left") in said
    assert first.read_text() == ("old" if stuck else "new") and second.read_text() == "new"
    assert ("Not all of them are new again" in said) is stuck


@pytest.mark.parametrize("place", ["proved", "stamps"])
def test_a_full_disk_at_the_record_of_a_start_is_named(systemd, tmp_path, monkeypatch, place):
    own = tmp_path / "own.conf"
    own.write_text("")
    write = services.whole_file.write

    def without_room(path, data, mode=0o600):
        if f"/{place}/slurmd" in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        write(path, data, mode)

    wanted = unit("slurmd", state="started", stamp="s1", proved=[str(own)])
    systemd.have(slurmd={})
    with monkeypatch.context() as disk, pytest.raises(services.ServicesError) as caught:
        disk.setattr(services.whole_file, "write", without_room)
        systemd.run(wanted)
    said = str(caught.value)
    assert said.startswith("slurmd.service: is as wanted") and "make room there" in said
    assert f"{tmp_path}/{place}/slurmd.service" in said
    assert systemd.run(wanted) == ["restart slurmd.service"] and systemd.run(wanted) == []


def test_a_unit_that_somebody_ended_for_good_does_not_run_with_its_old_files(
    systemd, tmp_path, monkeypatch
):
    """As slurmdbd after its database was moved: what it records in the old one is lost."""
    conf = tmp_path / "slurmdbd.conf"
    spec = {"state": "started", "proved": [str(conf)]}
    conf.write_text("old")
    systemd.have(slurmdbd={})
    systemd.run(unit("slurmdbd", stamp="s1", **spec))
    conf.write_text("new")
    systemd.have(slurmdbd={"UnitFileState": "disabled", "Broken": "yes"})
    do = services.Services._do

    def runs_with_the_old(self, name, verb):
        if conf.read_text() == "old":
            systemd.have(slurmdbd={"ActiveState": "active"})
        do(self, name, verb)

    monkeypatch.setattr(services.Services, "_do", runs_with_the_old)
    with pytest.raises(services.ServicesError, match="Remedy") as caught:
        systemd.run(unit("slurmdbd", stamp="s2", enabled=True, **spec))
    assert "as they were before" not in str(caught.value) and conf.read_text() == "new"


def test_a_unit_that_ends_at_once_is_an_error(systemd):
    systemd.have(slurmd={"Type": "simple", "After": "failed"})
    with pytest.raises(services.ServicesError, match="ended right after it was started"):
        systemd.run(unit(state="started"))


def test_ready_waits_for_a_port_without_connecting(systemd):
    systemd.have(slurmctld={"ActiveState": "active"})
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0.05)
        ready = {"port": listener.getsockname()[1], "timeout": 2}
        assert systemd.run(unit("slurmctld", state="started", ready=ready)) == []
        with pytest.raises(socket.timeout):
            listener.accept()


def run(argv: list[str], timeout: float) -> subprocess.CompletedProcess:
    return services.run(argv, timeout)


def test_ready_for_a_socket_and_a_command(systemd, tmp_path):
    systemd.have(munge={"ActiveState": "active"})
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        ready = {"socket": path, "command": "test -e '%s'" % path, "timeout": 0.1}
        assert "nothing listens on" in answering.not_ready(ready, run)
        listener.listen()
        assert systemd.run(unit("munge", state="started", ready=ready)) == []
    absent = {"command": "no-such-command", "timeout": 1}
    assert "no-such-command" in answering.not_ready(absent, run)
    assert "ended with 1" in answering.not_ready({"command": "false", "timeout": 1}, run)


@pytest.mark.parametrize(("denied", "waits"), [(0, True), (1, True), (2, False)])
def test_nobody_waits_for_a_service_whose_journal_says_that_it_is_in_vain(
    systemd, tmp_path, denied: int, waits: bool
) -> None:
    systemd.have(slurmdbd={"ActiveState": "active"})
    lines = ["other", *["slurmdbd: error: mysql_real_connect failed: 1045 Access denied"] * denied]
    (tmp_path / "bin" / "journalctl").write_text(
        "#!/bin/sh\nprintf '%s\\n'" + "".join(f" '{line}'" for line in lines)
    )
    ready = {"port": 1, "timeout": 3, "hopeless": "mysql_real_connect failed: 1045 "}
    begin = time.monotonic()
    with pytest.raises(services.ServicesError) as error:
        systemd.run(unit("slurmdbd", state="started", ready=ready))
    assert ("was not ready within 3 s" in str(error.value)) == waits
    assert ("does not become ready: nothing listens on port 1" in str(error.value)) != waits
    assert (time.monotonic() - begin > 2.9) == waits
    assert lines[-1] in str(error.value)


def traced_stat(monkeypatch: pytest.MonkeyPatch, *letters: str) -> None:
    """Have /proc/7/stat show these states, one after the other; its name is one that could be mistaken for them."""
    answers = [f"7 (a) T (x) {letter} 1 7 7" for letter in letters]
    monkeypatch.setattr(answering, "open", lambda *_a, **_k: io.StringIO(answers.pop(0)), False)


@pytest.mark.parametrize(
    ("letters", "why"),
    [
        ("S", ""),
        ("R", ""),
        ("Z", ""),
        ("TT", answering.STOPPED),
        ("tt", answering.TRACED),
        # For a moment only.
        ("TS", ""),
        ("tR", ""),
    ],
)
def test_the_state_of_a_process(monkeypatch: pytest.MonkeyPatch, letters: str, why: str) -> None:
    traced_stat(monkeypatch, *letters)
    assert answering.halted("7", 0) == why


def test_a_daemon_that_is_stopped_by_a_signal_is_named_and_restarted(systemd):
    """Its unit is active and its port is open, so nothing else shows it."""
    with subprocess.Popen(["sleep", "60"]) as process, socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            systemd.have(slurmd={"ActiveState": "active", "MainPID": str(process.pid)})
            ready = {"port": listener.getsockname()[1], "timeout": 2}
            wanted = unit(state="started", ready=ready)
            assert systemd.run(wanted) == []
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            assert systemd.run(wanted, check=True) == ["restart slurmd.service"]
            daemon = started_unit.Unit("slurmd", True, {})
            assert daemon.outdated() == answering.STOPPED and daemon.held() == []
            process.send_signal(signal.SIGCONT)
            assert systemd.run(wanted) == []
        finally:
            process.kill()


def test_a_process_that_is_gone_is_not_halted():
    assert answering.halted("0") == answering.halted("") == ""


def test_a_debugger_is_named_with_the_way_to_find_it(systemd, monkeypatch):
    systemd.have(slurmctld={"ActiveState": "active", "MainPID": "7"})
    monkeypatch.setattr(answering, "halted", lambda _pid: answering.TRACED)
    daemon = started_unit.Unit("slurmctld", True, {})
    (line,) = daemon.held()
    assert line.startswith("slurmctld.service: a debugger holds") and "TracerPid" in line
    assert daemon.outdated() == ""


@pytest.mark.parametrize(
    ("fails", "wait", "answered", "times"),
    [(0, False, True, 1), (0, True, True, 1), (2, True, True, 3), (2, False, False, 1)],
)
def test_a_unit_is_asked_again_only_if_it_has_just_started(
    tmp_path, monkeypatch, fails: int, wait: bool, answered: bool, times: int
) -> None:
    monkeypatch.setattr(answering, "_PAUSE_S", 0)
    count, program = tmp_path / "count", tmp_path / "ask"
    program.write_text(
        f"#!/bin/sh\necho x >>{count}\n[ $(wc -l <{count}) -gt {fails} ] || {{ echo no; echo way; exit 1; }}\n"
    )
    program.chmod(0o755)
    asked = {"command": str(program), "timeout": 5, "remedy": "open 123/udp"}
    line = answering.unanswered("chronyd.service", asked, run, wait)
    assert len(count.read_text().split()) == times
    wanted = f"chronyd.service: `{program}` ended with 1: no way. Remedy: open 123/udp"
    assert line == ("" if answered else wanted)


def test_a_question_without_an_answer_ends_in_time(monkeypatch) -> None:
    monkeypatch.setattr(answering, "_PAUSE_S", 0.05)
    begin = time.monotonic()
    asked = {"command": "false", "timeout": 0.2, "remedy": "x"}
    assert "ended with 1" in answering.unanswered("a.service", asked, run, True)
    asked["command"] = "no-such-command"
    assert "no-such-command" in answering.unanswered("a.service", asked, run, False)
    assert time.monotonic() - begin < 5


def test_not_ready_in_time_names_what_is_missing(systemd):
    systemd.have(slurmd={"ActiveState": "active"})
    begin = time.monotonic()
    with pytest.raises(services.ServicesError, match="within 0.2 s: nothing listens on port 1"):
        systemd.run(unit(state="started", ready={"port": 1, "timeout": 0.2}))
    assert time.monotonic() - begin < 5


def test_no_systemd_is_said(monkeypatch):
    manager = services.Services([unit()], lambda _text: [])
    monkeypatch.setattr(
        services, "run", lambda *_a: type("Done", (), {"stdout": "", "stderr": "no bus"})
    )
    with pytest.raises(services.ServicesError, match="no bus. Remedy"):
        manager.load()


DROP_IN = "/etc/systemd/system/slurmd.service.d/zz.conf"


def remembered(item: dict, state: State, acted: bool = False) -> tuple[list, dict]:
    """Return what a second call does, and the item that it leaves. item: that of the first call."""
    unit = {"name": "slurmd", "enabled": None, "state": "started", "stamp": "1", "watch": []}
    found = services.Services([{**unit, "restart": False, "reload": False}], None)
    found.remember({"slurmd.service": item} if item else {}, {})
    found.states = {"slurmd.service": state}
    (left,) = found.leaves({"slurmd.service"} if acted else ())
    return services.decide(found.specs[0], state), left


def test_a_daemon_that_somebody_started_with_other_arguments_is_started_again() -> None:
    """Its files are as they were: the stamp alone does not tell."""
    first = remembered({}, running(command="hmac:1", drop_ins=[]))
    assert (first[0], first[1]["command"]) == ([], "hmac:1")
    assert remembered(first[1], running(command="hmac:1"))[0] == []
    actions, left = remembered(first[1], running(command="hmac:2"))
    assert [(one.action, "other arguments" in one.why) for one in actions] == [("restart", True)]
    assert left["command"] == "hmac:1"
    assert remembered(first[1], running(command="hmac:2"), acted=True)[1]["command"] == "hmac:2"
    # One that does not tell its arguments.
    assert remembered(first[1], running(command=""))[0] == []


def test_a_drop_in_of_somebody_else_is_not_taken_for_what_was_left() -> None:
    first = remembered({}, running(drop_ins=["/etc/a.conf"]))[1]
    assert first["drop_ins"] == ["/etc/a.conf"]
    for acted in (False, True):
        now = running(drop_ins=["/etc/a.conf", DROP_IN])
        assert remembered(first, now, acted)[1]["drop_ins"] == ["/etc/a.conf"]
    assert remembered(first, running(drop_ins=[]))[1]["drop_ins"] == []


def test_a_whole_unit_of_somebody_else_is_not_taken_for_what_was_left() -> None:
    """As by systemctl edit --full."""
    first = remembered({}, running())[1]
    assert first["unit_file"] == ""
    theirs = "/etc/systemd/system/slurmd.service"
    assert remembered(first, running(unit_file=theirs))[1]["unit_file"] == ""
    # A manifest of an earlier release does not have it.
    first.pop("unit_file")
    assert remembered(first, running(unit_file=theirs))[1]["unit_file"] == theirs


def test_the_unit_file_that_a_package_does_not_bring() -> None:
    for path, is_theirs in {
        "/etc/systemd/system/slurmd.service": True,
        "/run/systemd/system/slurmd.service": True,
        "/usr/lib/systemd/system/slurmd.service": False,
        "/run/systemd/generator.late/slurmd.service": False,
    }.items():
        state = services.state_of({"FragmentPath": path}, 0.0, 0.0)
        assert state.unit_file == (path if is_theirs else "")
    assert services.state_of({}, 0.0, 0.0).unit_file == ""


def test_the_drop_ins_that_a_package_does_not_bring() -> None:
    paths = ["/usr/lib/systemd/system/slurmd.service.d/p.conf", DROP_IN]
    paths += ["/run/systemd/system/slurmd.service.d/r.conf", "/run/systemd/generator/x.d/g.conf"]
    paths += ["/etc/systemd/system.control/slurmd.service.d/50-CPUWeight.conf"]
    found = unit_properties.drop_ins_of({"DropInPaths": " ".join(paths)})
    assert found == sorted([paths[1], paths[2], paths[4]])
    assert unit_properties.drop_ins_of({}) == []


def test_the_arguments_of_a_process() -> None:
    with subprocess.Popen(["/bin/sleep", "61"]) as process:
        while unit_properties.command_of(str(process.pid)) != "/bin/sleep\x0061\0":
            time.sleep(0.01)
        process.kill()
    assert unit_properties.command_of("0") == ""
    with subprocess.Popen(["sshd: /usr/sbin/sshd", "61"], executable="/bin/sleep") as process:
        time.sleep(0.05)
        assert unit_properties.command_of(str(process.pid)) == ""
        process.kill()


def test_a_kernel_setting_that_somebody_changed_is_set_again(tmp_path, monkeypatch) -> None:
    """One that the kernel never took, as in a container, restarts nothing and is not recorded."""
    ours, later = tmp_path / "90-slurm.conf", tmp_path / "99-site.conf"
    ours.write_text("# ours\n-net.core.somaxconn = 5000\n-kernel.pid_max = 9\n-vm.swappiness=1\n")
    later.write_text("vm.swappiness = 7\n")
    monkeypatch.setattr(services.sysctl, "PLACES", (str(tmp_path),))
    monkeypatch.setattr(services.sysctl, "LAST", str(tmp_path / "sysctl.conf"))
    kernel = {"net.core.somaxconn": "5000", "kernel.pid_max": "4", "vm.swappiness": "1"}
    monkeypatch.setattr(services.sysctl, "current", kernel.get)
    monkeypatch.setattr(
        services, "run", lambda _argv: subprocess.CompletedProcess([], 0, "LoadState=loaded\n", "")
    )
    spec = {"name": "systemd-sysctl", "enabled": None, "state": "started", "stamp": ""}
    spec |= {"watch": [], "restart": False, "reload": False, "sysctl": [str(ours)]}

    def call(earlier: dict) -> tuple[str, dict]:
        found = services.Services([dict(spec)], parse_show)
        found.remember({}, earlier)
        found.load()
        state = found.states["systemd-sysctl.service"]
        settings = {one["name"]: one for one in found.leaves() if one["kind"] == "sysctl"}
        return services.restart_reason(found.specs[0], state), settings

    why, settings = call({})
    assert (why, list(settings)) == ("", ["net.core.somaxconn"])
    kernel["net.core.somaxconn"] = "1"
    why, again = call(settings)
    assert why == "somebody has changed net.core.somaxconn"
    assert again == settings


def test_the_unit_of_a_daemon_that_a_module_starts(monkeypatch) -> None:
    text = "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\nMainPID=7\n"
    monkeypatch.setattr(services, "run", lambda _argv: subprocess.CompletedProcess([], 0, text, ""))
    monkeypatch.setattr(services.Stamps, "keyed", lambda _self, _unit, command: f"hmac:{command}")
    monkeypatch.setattr(services, "command_of", lambda _pid: "/usr/sbin/slurmctld")
    first = started_unit.Unit("slurmctld", True, {})
    assert first.outdated() == ""
    item = first.left(acted=True)
    assert (item["name"], item["enabled"], item["stamp"]) == ("slurmctld.service", True, "")
    assert item["command"] == "hmac:/usr/sbin/slurmctld"
    earlier = {"slurmctld.service": item}
    monkeypatch.setattr(services, "command_of", lambda _pid: "/usr/sbin/slurmctld -f x")
    second = started_unit.Unit("slurmctld", True, earlier)
    assert "other arguments" in second.outdated()
    assert second.left(acted=False) == item
    assert second.left(acted=True)["command"] == "hmac:/usr/sbin/slurmctld -f x"


def test_a_daemon_that_started_before_its_key_is_outdated(monkeypatch, tmp_path) -> None:
    key = tmp_path / "slurm.key"
    text = "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\nMainPID=7\nExecMainStartTimestampMonotonic=1\n"
    monkeypatch.setattr(services, "run", lambda _argv: subprocess.CompletedProcess([], 0, text, ""))
    assert started_unit.Unit("slurmctld", True, {}, [str(key)]).outdated() == ""
    key.write_text("x")
    assert started_unit.Unit("slurmctld", True, {}).outdated() == ""
    unit = started_unit.Unit("slurmctld", True, {}, [str(key)])
    assert unit.outdated() == f"{key} is newer than its start"
    assert unit.left(acted=True)["watch"] == [str(key)]
