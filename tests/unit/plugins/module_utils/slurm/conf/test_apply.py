# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of slurmctld_config against a slurmctld that is played by a class."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import time
from unittest.mock import Mock

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.module_utils.node.slurm_places import conf_words
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import apply as config
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import (
    by_hand,
    messages,
    restart,
)
from ansible_collections.trainwright.slurm.plugins.modules import slurmctld_config

BASE = """ClusterName=t
SlurmctldHost=ctl1
SlurmctldParameters=enable_configless
NodeName=c1 CPUs=4
PartitionName=batch Nodes=ALL
"""
ME = {"owner": str(os.geteuid()), "group": str(os.getegid())}


class Slurm:
    """systemctl, scontrol and journalctl of one host; `bad` in a file makes slurmctld refuse it.

    given: what slurmctld runs with, "" while it does not run. calls: what was done to it.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.conf = directory / "slurm.conf"
        self.given = ""
        self.nodes_have = ""
        self.calls: list[str] = []
        self.dies_at_bad_reconfigure = False
        self.masked = ""
        self.enabled_as = "enabled"
        #: how many of the next reconfigures are done, and their answer is lost
        self.answers_lost = 0
        #: after a refused reconfigure: how often the unit is still called active before slurmctld ends
        self.lives_on: int | None = None
        #: whether it starts again then, whatever the files
        self.recovers = True
        self.enabled = False
        #: how many of the next `show node` are before a slurmd has registered
        self.unregistered = 0
        self.environment: set[str] = set()

    def __call__(self, argv: list[str]) -> tuple[int, str, str]:
        while argv[0] == "env" or "=" in argv[0]:
            self.environment.add(argv[0])
            argv = argv[1:]
        verb = {"systemctl": argv[1], "journalctl": "journal"}.get(argv[0]) or argv[1]
        return getattr(self, "_" + verb.replace("-", "_"))()

    def _is_active(self):
        if self.lives_on is not None:
            self.lives_on -= 1
            if self.lives_on < 0:
                self.given, self.lives_on = "", None
        return (0, "active", "") if self.given else (3, "inactive", "")

    def _show(self):
        # systemd is about to start one again that ended.
        state = "active\nSubState=running" if self.given else "activating\nSubState=auto-restart"
        return 0, f"ActiveState={state}\nNRestarts=0\n", ""

    def _stop(self):
        self.calls.append("stop")
        self.given = ""
        return 0, "", ""

    def _is_enabled(self):
        return (0 if self.enabled else 1, self.enabled_as if self.enabled else "", "")

    def _enable(self):
        if self.masked:
            return 1, "", f"Failed to enable unit: Unit file {self.masked} is masked.\n"
        self.enabled, self.enabled_as = True, "enabled"
        return 0, "", ""

    def _reset_failed(self):
        return 0, "", ""

    def _daemon_reload(self):
        self.calls.append("daemon-reload")
        return 0, "", ""

    def _show(self):
        self.unregistered -= 1
        start = "None" if self.unregistered >= 0 else "2026-01-01T00:00:09"
        return 0, f"NodeName=c1 Arch=x\n   State=IDLE\n   SlurmdStartTime={start}\n", ""

    def _ping(self):
        return 0, f"Slurmctld(primary) at ctl1 is {'UP' if self.given else 'DOWN'}\n", ""

    def _journal(self):
        return 0, "slurmctld: error: cannot find sched plugin\nslurmctld: fatal: bad plugin\n", ""

    def _start(self):
        self.calls.append("start")
        return self._run()

    def _run(self):
        bad = "bad" in self.conf.read_text() or not self.recovers
        self.given = "" if bad else self.conf.read_text()
        return 0, "", ""

    def _reload(self):
        return self._reconfigure()

    def _reconfigure(self):
        self.calls.append("reconfigure")
        if "bad" in self.conf.read_text():
            self.given = "" if self.dies_at_bad_reconfigure else self.given
            return 1, "", "slurm_reconfigure error: Unspecified error"
        self.given = self.nodes_have = self.conf.read_text()
        if self.answers_lost:
            self.answers_lost -= 1
            return 1, "", "slurm_reconfigure error: Socket timed out on send/recv operation"
        return 0, "", ""


class Site:
    """One controller with its files, on which the module's code runs."""

    def __init__(self, path: pathlib.Path) -> None:
        (path / "etc").mkdir()
        self.path = path
        self.conf = path / "etc" / "slurm.conf"
        self.slurm = Slurm(path / "etc")

    def run(self, text: str, check: bool = False, extra: tuple = (), **given) -> dict:
        settings = config.Settings(
            **{"version": "24.11", "applied_dir": str(self.path / "var" / "applied"), "timeout": 1}
            | {"bin_dir": str(self.path), "interval": 0.001, "settle": 0.05}
            | {"enabled": False}
            | given
        )
        base = {"mode": "0644", "state": "present", "secret": False, "content": None, **ME}
        specs = config.file_specs(
            [{**base, "path": str(self.conf), "content": text}]
            + [{**base, **spec, "path": str(self.conf.parent / spec["path"])} for spec in extra]
        )
        controller = config.Controller.of(settings, self.slurm, specs)
        self.slurm.calls.clear()
        wanted = config.plan(specs, settings, controller, check)
        strange = by_hand.changed(specs, settings)
        wanted = by_hand.add(wanted, strange, specs, settings)
        if not check:
            wanted = by_hand.note(wanted, strange, specs, settings)
            config.apply(wanted, settings, controller)
        return config.report(wanted, diff=True)


@pytest.fixture
def site(tmp_path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def running(site) -> Site:
    site.run(BASE)
    return site


def test_the_first_run_starts_and_the_second_does_nothing(site):
    assert site.run(BASE, check=True)["action"] == "start"
    assert site.slurm.calls == []
    assert not site.conf.exists()
    result = site.run(BASE)
    assert (result["changed"], result["action"]) == (True, "start")
    assert result["changed_paths"] == [str(site.conf)]
    assert site.slurm.calls == ["start"]
    again = site.run(BASE)
    assert (again["changed"], again["action"], again["diff"]) == (False, "none", [])
    assert site.slurm.calls == []


@pytest.mark.parametrize(
    "version, change, action, calls, pushed",
    [
        ("24.11", "SlurmctldTimeout=9", "reconfigure", ["reconfigure"], False),
        ("22.05", "SlurmctldTimeout=9", "reconfigure", ["reconfigure"], False),
        ("24.11", "NodeName=c2 CPUs=4", "reconfigure", ["reconfigure"], False),
        # A restart does not reach the nodes of a configless cluster.
        ("22.05", "NodeName=c2 CPUs=4", "restart", ["stop", "start", "reconfigure"], True),
        # slurmd is restarted as well and fetches the configuration by itself.
        ("24.11", "SlurmdPort=7000", "restart", ["stop", "start"], False),
        ("24.11", "# a comment", "none", [], False),
    ],
)
def test_a_change_costs_one_step(site, version, change, action, calls, pushed):
    site.run(BASE, version=version)
    text = BASE + change + "\n"
    expected = site.run(text, check=True, version=version)
    result = site.run(text, version=version)
    assert {**expected, "changed": True} == result
    assert (result["action"], site.slurm.calls, result["pushed"]) == (action, calls, pushed)
    assert site.slurm.given == text or action == "none"
    assert not site.run(text, version=version)["changed"]


def test_the_start_of_each_slurmd_is_noted_before_it_is_told(running, monkeypatch):
    """Also by a slurmctld that did not run: without it, a slurmd that refuses the configuration passed the proof."""
    monkeypatch.setattr(config.accepted.time, "sleep", lambda seconds: None)
    running.slurm.given, running.slurm.unregistered = "", 3
    result = running.run(BASE + "SlurmdTimeout=9\n")
    assert result["action"] == "start" and running.slurm.calls == ["start", "reconfigure"]
    noted = config.accepted.before(str(running.path / "var" / "applied"))
    assert noted["told"] and noted["starts"] == {"c1": "2026-01-01T00:00:09"}
    # slurm_proof reads the times of UTC, whatever the zone of the controller.
    assert {"TZ=UTC", "SLURM_TIME_FORMAT=standard"} <= running.slurm.environment


def test_another_order_or_spelling_of_options_is_no_step(site):
    site.run(BASE)
    first, *rest = BASE.replace("SlurmctldHost", "slurmctldhost").splitlines()
    result = site.run("\n".join([*rest, first, ""]))
    assert (result["action"], site.slurm.calls, result["changed"]) == ("none", [], True)
    assert conf_words("\n".join([*rest, first])) == conf_words(BASE), (
        "and hosts count as up to date"
    )


def test_lines_that_are_folded_otherwise_are_handed_out(site):
    two, one = ("NodeName=c2 CPUs=4\nNodeName=c3 CPUs=4\n", "NodeName=c[2-3] CPUs=4\n")
    site.run(BASE + two)
    result = site.run(BASE + one)
    assert (result["action"], site.slurm.calls) == ("reconfigure", ["reconfigure"])
    assert result["reasons"] == ["slurm.conf: the same -> in other lines (reconfigure)"]
    assert not site.run(BASE + one)["changed"]


def test_without_configless_nothing_is_handed_to_nodes(site):
    base = BASE.replace("enable_configless", "idle_on_node_suspend")
    site.run(base, version="22.05")
    assert not site.run(base + "NodeName=c2\n", version="22.05")["pushed"]
    assert site.slurm.calls == ["stop", "start"]


def test_an_interrupted_run_still_reconfigures(running):
    text = BASE + "SlurmctldTimeout=9\n"
    running.conf.write_text(text)  # written, and the run ended there
    result = running.run(text)
    assert result["action"] == "reconfigure"
    assert result["changed_paths"] == []
    assert not running.run(text)["changed"]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (BASE + "KillWait=99\n", ["reconfigure"]),
        (BASE + "SlurmctldPort=7001\n", ["stop", "start"]),
        (BASE + "StateSaveLocation=/tmp/x\n", ["reconfigure"]),
        (BASE + "# theirs\n", []),
        ("", ["reconfigure"]),
    ],
)
def test_slurmctld_takes_back_what_somebody_has_reconfigured_it_to(running, text, calls):
    """The file was written again, and slurmctld went on with the other one: as left, and wrong."""
    running.conf.write_text(text)
    running.slurm.given = text or BASE
    planned = running.run(BASE, check=True)
    assert running.slurm.calls == []
    result = running.run(BASE)
    assert result == {**planned, "changed": True}
    assert [one for one in running.slurm.calls if one != "reconfigure" or one in calls] == calls
    if calls:
        assert "slurm.conf: somebody has changed it on this host" in result["reasons"][0]
        assert running.slurm.given == BASE
    assert running.conf.read_text() == BASE
    assert not running.run(BASE)["changed"]


def test_other_arguments_are_a_restart_that_reaches_the_nodes(running):
    settings = config.Settings(version="24.11")
    specs = config.file_specs([{"path": str(running.conf), "content": BASE, "state": "present"}])
    planned = config.Wanted([], [], "reconfigure", ["x"])
    found = by_hand.restart(planned, "runs with other arguments", specs, settings)
    assert (found.action, found.push) == ("restart", True)
    assert found.reasons == ["x", "slurmctld: runs with other arguments -> restart"]
    assert by_hand.restart(planned, "", specs, settings) is planned


def test_a_run_that_was_killed_while_it_took_a_change_back_is_taken_up(running, monkeypatch):
    text = BASE + "KillWait=99\n"
    running.conf.write_text(text)
    running.slurm.given = text

    def killed(_self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(config.Controller, "reconfigure", killed)
        running.run(BASE)
    assert running.conf.read_text() == BASE
    assert running.run(BASE)["action"] == "reconfigure"
    assert running.slurm.given == BASE


def test_a_drop_in_that_somebody_changed_restarts_and_a_file_that_came_goes(running):
    drop_in = {"path": "systemd/system/slurmctld.service.d/x.conf", "content": "[Unit]\n"}
    (running.conf.parent / "systemd/system/slurmctld.service.d").mkdir(parents=True)
    gone = {"path": "gres.conf", "state": "absent"}
    running.run(BASE, extra=(drop_in, gone))
    (running.conf.parent / drop_in["path"]).write_text("[Unit]\nAfter=x\n")
    assert running.run(BASE, extra=(drop_in, gone))["action"] == "restart"
    (running.conf.parent / "gres.conf").write_text("Name=gpu\n")
    assert running.run(BASE, extra=(drop_in, gone))["action"] == "reconfigure"
    assert not running.run(BASE, extra=(drop_in, gone))["changed"]


def test_somebodys_running_cluster_is_compared_with_its_own_files(site):
    site.conf.write_text(BASE)
    site.slurm.given = BASE
    assert site.run(BASE)["action"] == "none"
    assert site.run(BASE + "SlurmctldTimeout=9\n")["action"] == "reconfigure"


@pytest.mark.parametrize("dies, said", [(False, "kept its old"), (True, "started again")])
def test_a_refused_reconfigure_puts_the_old_files_back(running, dies, said):
    running.slurm.dies_at_bad_reconfigure = dies
    with pytest.raises(config.ApplyError, match="Unspecified error.*fatal: bad plugin") as error:
        running.run(BASE + "Epilog=bad\n")
    assert said in str(error.value)
    assert running.conf.read_text() == running.slurm.given == BASE
    assert not running.run(BASE)["changed"]


def test_a_reconfigure_whose_answer_is_lost_is_repeated(running):
    running.slurm.answers_lost = 1
    result = running.run(BASE + "SlurmctldTimeout=9\n")
    assert result["action"] == "reconfigure" and running.slurm.calls == ["reconfigure"] * 2
    assert not running.run(BASE + "SlurmctldTimeout=9\n")["changed"]


def test_where_no_answer_comes_files_and_slurmctld_go_back_together(running):
    running.slurm.answers_lost = 2
    with pytest.raises(config.ApplyError, match="timed out"):
        running.run(BASE + "SlurmctldTimeout=9\n")
    assert running.conf.read_text() == BASE == running.slurm.given


def test_one_that_ends_a_while_after_it_refused_is_started_again(running):
    reconfigure = running.slurm._reconfigure

    def refuse():
        running.slurm.lives_on = 5
        return reconfigure()

    running.slurm._reconfigure = refuse
    with pytest.raises(config.ApplyError, match="ended; it was started again"):
        running.run(BASE + "Epilog=bad\n")
    assert running.slurm.calls == ["reconfigure", "start"]
    assert running.conf.read_text() == running.slurm.given == BASE
    running.slurm.recovers = False
    with pytest.raises(config.ApplyError, match="ended and does not start again"):
        running.run(BASE + "Epilog=bad\n")
    assert running.slurm.given == ""
    assert running.conf.read_text() == BASE


def test_a_restart_with_the_old_files_that_does_not_last_is_not_called_running(running):
    start = running.slurm._start

    def brief():
        result = start()
        running.slurm.lives_on = 5
        return result

    running.slurm._start = brief
    with pytest.raises(config.ApplyError, match="does not start with them either"):
        running.run(BASE + "SlurmdPort=7000\nEpilog=bad\n")
    assert running.conf.read_text() == BASE


def test_the_reason_comes_first_and_the_log_is_not_all_that_is_read(running):
    log = running.path / "slurmctld.log"
    log.write_text("")
    base = BASE + f"SlurmctldLogFile={log}\n"
    running.run(base)
    reconfigure = running.slurm._reconfigure

    def refuse():
        with log.open("a") as handle:
            for job in range(9):
                handle.write(
                    f"[2026-11-22T18:00:00.000] error: _handle_assoc_tres_run_secs: job {job}: assoc 5 "
                    f"TRES cpu grp_used_tres_run_secs underflow, tried to remove {job} seconds\n"
                )
        return reconfigure()

    running.slurm._reconfigure = refuse
    # The fatal line is in the journal only.
    with pytest.raises(config.ApplyError, match="slurmctld said: fatal: bad plugin") as error:
        running.run(base + "Epilog=bad\n")
    assert "underflow" not in str(error.value)
    assert running.conf.read_text() == base


def test_fatal_lines_precede_errors_and_errors_the_rest():
    lines = [
        "a",
        "fatal: open x: no",
        "invalid y",
        "error: one",
        "slurmctld: error: one",
        "error: two",
    ]
    assert messages.reason(lines) == "fatal: open x: no; error: one; error: two; invalid y"
    many = [f"error: {number}" for number in range(9)]
    assert (
        messages.reason(["fatal: no", *many]) == "fatal: no; error: 5; error: 6; error: 7; error: 8"
    )
    assert messages.reason(["one", "two"]) == "one; two"
    several = ["[2026-11-27T09:00:00.001] fatal: MISMATCH.", "started with 1", "[2026] error: two"]
    assert messages.reason(several) == "fatal: MISMATCH. started with 1; error: two"
    assert messages.reason(["error: x tres_run_secs underflow"]) == ""


def test_a_refused_restart_puts_the_old_files_back(running):
    with pytest.raises(config.ApplyError, match="runs with them again.*fatal: bad plugin"):
        running.run(BASE + "SlurmdPort=7000\nEpilog=bad\n", extra=({"path": "gres.conf"},))
    # The second stop ends the restarts of one that systemd would start again.
    assert running.slurm.calls == ["stop", "start", "stop", "start"]
    assert running.conf.read_text() == running.slurm.given == BASE
    assert not (running.conf.parent / "gres.conf").exists()


@pytest.mark.parametrize(
    "state",
    ["failed\nSubState=failed\nNRestarts=5", "active\nSubState=running\nNRestarts=1"],
)
def test_one_that_systemd_started_again_has_ended(running, state):
    """Nothing waits through the restarts: the time limit of this run is that of the test."""
    running.slurm._show = lambda: (0, f"ActiveState={state}\n", "")
    running.slurm._ping = lambda: (0, "Slurmctld(primary) at ctl1 is DOWN\n", "")
    begin = time.monotonic()
    with pytest.raises(config.ApplyError, match="does not start with the new configuration"):
        running.run(BASE + "SlurmdPort=7000\n", timeout=60)
    assert time.monotonic() - begin < 10
    assert running.conf.read_text() == BASE


def test_a_restart_of_long_ago_says_nothing_about_a_reconfigure(running):
    running.slurm._show = lambda: (0, "ActiveState=active\nSubState=running\nNRestarts=3\n", "")
    assert running.run(BASE + "SlurmctldTimeout=9\n")["action"] == "reconfigure"


def test_one_that_runs_and_does_not_answer_is_an_error(running):
    running.slurm._ping = lambda: (0, "Slurmctld(primary) at ctl1 is DOWN\n", "")
    with pytest.raises(config.ApplyError, match="runs and does not answer.*Remedy"):
        running.run(BASE)


def test_a_first_start_that_fails_keeps_the_files_and_says_why(site):
    with pytest.raises(config.ApplyError, match="does not start.*fatal: bad plugin.*Remedy"):
        site.run(BASE + "Epilog=bad\n")
    assert site.conf.exists()
    assert site.run(BASE)["action"] == "start"


def test_files_that_a_power_failure_has_emptied_are_written_again(running):
    """As if every option were to change, which would be refused: ClusterName, for one."""
    applied = running.path / "var" / "applied" / "slurm.conf"
    assert applied.read_text() == BASE
    applied.write_text("")
    running.conf.write_text("")
    running.slurm.given = ""
    assert running.run(BASE)["action"] == "start"
    assert running.conf.read_text() == applied.read_text() == BASE
    assert not running.run(BASE)["changed"]


@pytest.mark.parametrize("check", [True, False])
def test_what_loses_jobs_is_refused_before_writing(running, check):
    moved = BASE + "StateSaveLocation=/elsewhere\n"
    with pytest.raises(config.ApplyError, match="StateSaveLocation.*Remedy: drain"):
        running.run(moved, check=check)
    assert running.conf.read_text() == BASE
    result = running.run(moved, check=check, allow_refused=True)
    assert (result["action"], result["slurmd_restart"]) == ("restart", True)


@pytest.mark.parametrize("text, word", [("Metrix=1", "Metrix"), ("NodeName=c[2", "line 6")])
def test_unreadable_text_is_refused_before_writing(running, text, word):
    with pytest.raises(config.ApplyError, match="nothing was written.*" + word):
        running.run(BASE + text + "\n", check=True)


def test_slurms_own_parser_is_asked_where_it_is_installed(running):
    scontrol = running.path / "scontrol"
    scontrol.write_text("")
    scontrol.chmod(0o755)
    running.slurm._show = lambda: (1, "", "scontrol: error: TreeWidth value x\nscontrol: fatal: no")
    with pytest.raises(config.ApplyError, match="cannot read.*error: TreeWidth value x; fatal: no"):
        running.run(BASE + "TreeWidth=x\n")
    assert running.conf.read_text() == BASE


def test_other_files_of_slurmctld_reconfigure_and_the_rest_does_not(running):
    gres = {"path": "gres.conf", "content": "Name=gpu File=/dev/nvidia0\n"}
    record = {"path": "record.json", "content": "{}"}
    assert running.run(BASE, extra=(record,))["action"] == "none"
    assert running.run(BASE, extra=(gres, record))["reasons"] == [
        "gres.conf: changed -> reconfigure"
    ]
    assert not running.run(BASE, extra=(gres, record))["changed"]
    gone = {**gres, "content": None, "state": "absent"}
    assert running.run(BASE, extra=(gone,))["reasons"] == ["gres.conf: removed -> reconfigure"]
    assert running.slurm.calls == ["reconfigure"]
    assert not running.run(BASE, extra=(gone,))["changed"]


def test_a_secret_file_leaves_only_its_digest(running):
    secret = {"path": "key.conf", "content": "Key=sesame\n", "secret": True}
    result = running.run(BASE, extra=(secret,))
    assert result["action"] == "reconfigure"
    assert "sesame" not in str(result)
    kept = running.path / "var" / "applied" / "key.conf"
    plain = hashlib.sha256(b"Key=sesame\n").hexdigest()
    assert "sesame" not in kept.read_text()
    # By a plain digest, the secret could be guessed.
    assert plain not in kept.read_text()
    assert not running.run(BASE, extra=(secret,))["changed"]
    other = running.run(BASE, extra=({**secret, "content": "Key=mellon\n"},))
    assert other["action"] == "reconfigure"

    # The record of an older release is replaced, and slurmctld is left alone.
    assert running.run(BASE, extra=(secret,))["action"] == "reconfigure"
    kept.write_text(plain + "\n")
    assert running.run(BASE, extra=(secret,))["action"] == "none"
    assert plain not in kept.read_text()
    assert not running.run(BASE, extra=(secret,))["changed"]


def test_the_unit_is_enabled_once(site):
    site.run(BASE, enabled=True)
    assert site.slurm.enabled
    assert not site.run(BASE, enabled=True)["changed"]


def test_a_slurmctld_that_would_be_missing_after_the_next_boot_is_an_error(running):
    """It runs, so that nobody else sees it; until the next boot only is not enabled."""
    running.slurm.enabled, running.slurm.enabled_as = True, "enabled-runtime"
    assert running.run(BASE, enabled=True)["changed"] and running.slurm.enabled_as == "enabled"
    running.slurm.enabled, running.slurm.masked = False, "slurmctld.service"
    with pytest.raises(config.ApplyError, match=r"is masked\. Remedy: .*systemctl unmask"):
        running.run(BASE + "SlurmctldTimeout=9\n", enabled=True)
    assert running.conf.read_text() == BASE
    # A success that has no effect is none.
    running.slurm._enable = lambda: (0, "", "")
    with pytest.raises(config.ApplyError, match=r"next boot: disabled\. Remedy: "):
        running.run(BASE, enabled=True)


def test_a_standby_controller_is_restarted_where_a_primary_reconfigures(running):
    name = os.uname().nodename.split(".")[0]
    running.slurm._ping = lambda: (
        0,
        f"Slurmctld(primary) at x is DOWN\nSlurmctld(backup) at {name} is UP\n",
        "",
    )
    result = running.run(BASE + "SlurmctldTimeout=9\n", role="backup")
    assert result["action"] == "restart"
    assert running.slurm.calls == ["stop", "start"]


def test_a_drop_in_of_the_unit_restarts_once_and_systemd_reads_it_first(running):
    folder = running.path / "systemd" / "system" / "slurmctld.service.d"
    folder.mkdir(parents=True)
    path = str(folder / "trainwright.conf")
    # What the role hands over as long as the site has no lines of its own.
    none = ({"path": path, "state": "absent"},)
    assert running.run(BASE, extra=none)["changed"] is False
    lines = ({"path": path, "content": "[Service]\nEnvironment=A=#1\n"},)
    for check in (True, False):
        result = running.run(BASE, check=check, extra=lines)
        assert result["action"] == "restart"
        assert result["reasons"] == ["slurmctld.service: its drop-in changed -> restart"]
    assert running.slurm.calls == ["daemon-reload", "stop", "start"]
    assert running.run(BASE, extra=lines)["changed"] is False
    other = ({"path": path, "content": "[Service]\nEnvironment=A=#2\n"},)
    assert running.run(BASE, extra=other)["action"] == "restart"
    assert running.run(BASE, extra=none)["action"] == "restart"
    assert running.run(BASE, extra=none)["changed"] is False


def test_a_drop_in_that_systemd_does_not_take_goes_back_and_slurmctld_runs_on(running, monkeypatch):
    folder = running.path / "systemd" / "system" / "slurmctld.service.d"
    folder.mkdir(parents=True)
    path = folder / "trainwright.conf"
    good = ({"path": str(path), "content": "[Service]\nNice=1\n"},)
    running.run(BASE, extra=good)

    def refuse(units: list[str]) -> list[str]:
        if units:
            assert units == ["slurmctld.service"] and "Nice=much" in path.read_text()
            raise config.services.ServicesError("nothing was started; Nice=much")
        return []

    monkeypatch.setattr(config.unit_lines, "check", refuse)
    wrong = ({"path": str(path), "content": "[Service]\nNice=much\n"},)
    for _run in range(2):
        with pytest.raises(config.services.ServicesError, match="Nice=much"):
            running.run(BASE + "KillWait=31\n", extra=wrong)
        # systemd would otherwise call the file that is back a change.
        assert running.slurm.calls == ["daemon-reload"]
        assert path.read_text() == "[Service]\nNice=1\n" and running.conf.read_text() == BASE
    assert not running.run(BASE, extra=good)["changed"]


def test_a_drop_in_and_a_reconfigure_are_one_restart(running):
    folder = running.path / "systemd" / "system" / "slurmctld.service.d"
    folder.mkdir(parents=True)
    lines = ({"path": str(folder / "trainwright.conf"), "content": "[Service]\nNice=1\n"},)
    result = running.run(BASE + "KillWait=31\n", extra=lines)
    assert (result["action"], result["pushed"]) == ("restart", True)
    assert running.slurm.calls == ["daemon-reload", "stop", "start", "reconfigure"]


KILLED = BASE + "Epilog=bad\n"


def killed(site: Site, text: str, place: str, extra: tuple = ()) -> None:
    """A run that ends without a word at one place: a method of Controller, or a function that apply calls."""

    def end(*_given: object, **_more: object) -> None:
        raise KeyboardInterrupt

    owner = config.Controller if hasattr(config.Controller, place) else config.files
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, place, end)
        site.run(text, extra=extra)


def test_after_a_killed_run_the_files_that_slurmctld_accepted_come_back(running):
    """The next run finds the disk as it is wanted: it said that the old files are back, and changed none."""
    script, gone = (
        {"path": "job_container.conf", "content": "a=1\n"},
        {"path": "gres.conf", "state": "absent"},
    )
    leaving = {"path": "oci.conf", "content": "b=1\n", "mode": "0640"}
    running.run(BASE, extra=(script, gone, leaving))
    other = (
        {**script, "content": "a=2\n"},
        {"path": "gres.conf", "content": "Name=gpu\n"},
        {"path": "oci.conf", "state": "absent"},
        {"path": "record.json", "content": "{}"},
    )
    killed(running, KILLED, "reconfigure", other)
    etc = running.conf.parent
    running.conf.chmod(0o640)
    assert (running.conf.read_text(), (etc / "gres.conf").exists()) == (KILLED, True)
    with pytest.raises(config.ApplyError) as error:
        running.run(KILLED, extra=({**other[0], "mode": "0600"}, *other[1:]))
    assert "kept its old configuration; the files that slurmctld accepted last are back. " in str(
        error.value
    )
    assert (running.conf.read_text(), running.conf.stat().st_mode & 0o777) == (BASE, 0o640)
    # Each with the mode that it has; one that was gone, with the one that it had.
    files = {name: etc / name for name in ("job_container.conf", "gres.conf", "oci.conf")}
    assert {name: path.exists() and path.read_text() for name, path in files.items()} == {
        "job_container.conf": "a=1\n",
        "gres.conf": False,
        "oci.conf": "b=1\n",
    }
    modes = {
        name: f"{path.stat().st_mode & 0o777:o}" for name, path in files.items() if path.exists()
    }
    assert modes == {"job_container.conf": "644", "oci.conf": "640"}
    result = running.run(BASE, extra=(script, gone, leaving))
    assert (result["action"], result["changed_paths"]) == ("none", [str(running.conf)])
    assert running.slurm.given == BASE


def test_what_slurmctld_would_start_with_is_what_it_accepted(running):
    """At the boot after such a run."""
    killed(running, KILLED, "reconfigure")
    running.slurm.dies_at_bad_reconfigure = True
    with pytest.raises(config.ApplyError, match="ended; it was started again; the files that"):
        running.run(KILLED)
    assert running.slurm.given == running.conf.read_text() == BASE


def test_what_a_killed_run_wrote_does_not_come_back_for_another_that_is_refused(running):
    killed(running, KILLED, "reconfigure")
    with pytest.raises(config.ApplyError, match="the files that slurmctld accepted last are back"):
        running.run(KILLED + "KillWait=9\n")
    assert running.conf.read_text() == running.slurm.given == BASE
    # What somebody has written is not a run's, and slurmctld may have read it.
    theirs = BASE + "KillWait=8\n"
    running.conf.write_text(theirs)
    with pytest.raises(config.ApplyError, match="; the old files are back"):
        running.run(KILLED)
    assert running.conf.read_text() == theirs
    running.run(KILLED.replace("bad", "good"))
    assert not list((running.path / "var" / "applied").glob("tried*"))


def test_a_slurmctld_that_may_run_with_the_files_by_now_keeps_them(running):
    """It came up after the run had ended, and has accepted jobs in the new place since."""
    moved = BASE + "StateSaveLocation=/moved\n"
    running.slurm.given, running.slurm.recovers = "", False
    for _attempt in range(2):
        with pytest.raises(config.ApplyError):
            running.run(moved, allow_refused=True)
        assert running.conf.read_text() == moved
        running.slurm.given = moved
    running.slurm.recovers = True
    running.run(moved, allow_refused=True)
    assert running.slurm.given == moved


def test_no_way_back_is_one_that_loses_jobs(running):
    """A run that was killed while slurmctld started with another place of its state."""
    moved = BASE + "StateSaveLocation=/moved\n"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(config.Controller, "wait_up", Mock(side_effect=KeyboardInterrupt))
        running.run(moved, allow_refused=True)
    running.slurm.given, running.slurm.recovers = moved, False
    with pytest.raises(config.ApplyError):
        running.run(moved, allow_refused=True)
    assert running.conf.read_text() == moved


def test_a_file_of_which_no_copy_is_kept_is_named(running):
    secret = {"path": "key.conf", "content": "Key=sesame\n", "secret": True}
    running.run(BASE, extra=(secret,))
    other = ({**secret, "content": "Key=mellon\n"}, {"path": "site.conf", "content": "c=1\n"})
    killed(running, BASE, "reconfigure", other)
    running.slurm._reconfigure = lambda: (1, "", "slurm_reconfigure error: no")
    etc = running.conf.parent
    with pytest.raises(config.ApplyError) as error:
        running.run(BASE, extra=other)
    named = f"{etc}/key.conf, {etc}/site.conf"
    assert f"the old files are back (except {named}: no copy is kept)" in str(error.value)
    assert (etc / "key.conf").read_text() == "Key=mellon\n"
    assert (etc / "site.conf").exists()


PORT = BASE + "SlurmdPort=7000\n"
SOME = {"restarts_nodes": False, "walks_all": False}
BEFORE_SLURMD = "; an earlier run applied it and ended before it had restarted every slurmd. Remedy: run site.yml"


@pytest.fixture
def module(running, monkeypatch, capsys):
    """Run the module itself on the site with some options, and return its result."""
    monkeypatch.setattr(
        AnsibleModule, "run_command", lambda _self, argv, **_given: running.slurm(argv)
    )
    # systemd, which does not run here
    monkeypatch.setattr(slurmctld_config.Unit, "__init__", lambda *_given: None)
    monkeypatch.setattr(slurmctld_config.Unit, "outdated", lambda *_given: "")
    monkeypatch.setattr(slurmctld_config.Unit, "left", lambda *_given: {})
    monkeypatch.setattr(slurmctld_config.Unit, "held", lambda *_given: [])

    def run(text: str, check: bool = False, **given: object) -> dict:
        arguments = {
            "files": [{"path": str(running.conf), "content": text, **ME}],
            "applied_dir": str(running.path / "var" / "applied"),
            **{"version": "24.11", "bin_dir": str(running.path), "enabled": False, "timeout": 1},
            **{"_ansible_check_mode": check, "_ansible_remote_tmp": "/tmp", **given},
        }
        running.slurm.calls.clear()
        with patch_module_args(arguments), pytest.raises(SystemExit):
            slurmctld_config.main()
        return json.loads(capsys.readouterr().out)

    return run


@pytest.mark.parametrize("check", [True, False])
def test_a_run_of_some_hosts_is_refused_until_one_has_restarted_every_slurmd(
    running, module, check
):
    """The run that slurmctld took the new port from was killed before the play of slurmd."""
    mark = running.path / "var" / "applied" / restart.FILE
    assert not module(BASE, **SOME)["restart_pending"]
    assert module(PORT)["restart_pending"] and mark.stat().st_mode & 0o777 == 0o600
    more = PORT + "KillWait=9\n"
    result = module(more, check, **SOME)
    assert result["failed"] and running.slurm.calls == []
    assert running.conf.read_text() == running.slurm.given == PORT
    said = "this run does not do that: SlurmdPort: unset -> 7000 (restart_both)" + BEFORE_SLURMD
    assert said in result["msg"] and "old values" not in result["msg"]
    # A run of all hosts is not, and asks for the end of the mark; nor one that cannot reach a node which nobody lists.
    assert module(more, True, restarts_nodes=False)["restart_pending"]
    assert module(more, check)["restart_pending"]
    mark.unlink()  # role slurmctld, after the play of slurmd
    result = module(more, check, **SOME)
    assert not result.get("failed") and not result["restart_pending"]


def test_the_mark_is_there_before_slurmctld_is_told(running, module):
    killed(running, PORT, "start")
    assert restart.pending(str(running.path / "var" / "applied")) == [BASE]
    # slurmctld did not take it, and the difference itself refuses the run.
    assert "SlurmdPort: unset -> 7000" in module(PORT, **SOME)["msg"]
    # With the old values there is nothing to restart.
    assert module(BASE, **SOME)["restart_pending"]
    assert running.conf.read_text() == BASE


def test_of_two_killed_runs_both_count(running, module):
    """Some slurmd may have been restarted by the first one."""
    module(PORT)
    module(BASE)
    result = module(BASE, **SOME)
    assert "SlurmdPort: 7000 -> unset (restart_both)" + BEFORE_SLURMD in result["msg"]
    assert module(PORT)["action"] == "restart"
    assert restart.pending(str(running.path / "var" / "applied")) == [BASE, PORT]


def test_a_first_run_a_backup_and_a_removal_leave_no_mark(running, module):
    mark = running.path / "var" / "applied" / restart.FILE
    assert not mark.exists()  # the fixture has started it
    assert not running.run(PORT, role="backup", check=True)["restart_pending"]
    result = module(PORT, **SOME, removes_nodes=True)
    assert (result["action"], result["restart_pending"]) == ("restart", False)
    assert not mark.exists()
    assert not module(PORT, **SOME)["changed"]


def test_a_removal_is_not_refused_and_does_not_end_what_waits(running, module):
    module(PORT)
    assert module(PORT + "KillWait=9\n", **SOME, removes_nodes=True)["restart_pending"]
    assert module(PORT, **SOME)["failed"]


def test_a_slurmctld_that_does_not_run_is_started_by_a_run_of_some_hosts(running, module):
    module(PORT)
    running.slurm.given = ""
    assert module(PORT, **SOME)["action"] == "start"
    assert running.slurm.given == PORT
