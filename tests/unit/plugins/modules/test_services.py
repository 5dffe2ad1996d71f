# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module services returns and logs no stamp, which may be the digest of a file with a password."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.module_utils.node import answering
from ansible_collections.trainwright.slurm.plugins.module_utils.node.services import State
from ansible_collections.trainwright.slurm.plugins.modules import services

STAMP = "5d" * 32


def test_a_stamp_is_neither_returned_nor_logged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logged: list[t.Any] = []
    monkeypatch.setattr(
        services.AnsibleModule, "_log_to_syslog", lambda _self, text: logged.append(text)
    )
    monkeypatch.setattr(services.Services, "load", lambda _self: None)
    monkeypatch.setattr(services.Services, "plan", lambda _self, _check: [])
    units = [{"name": "slurmdbd", "stamp": STAMP}]
    # Without journald, the same text goes to syslog.
    monkeypatch.setattr("ansible.module_utils.basic.has_journal", False)
    with (
        patch_module_args({"units": units, "_ansible_check_mode": True}),
        pytest.raises(SystemExit),
    ):
        services.main()
    answer = json.loads(capsys.readouterr().out)
    assert answer["changed"] is False
    assert answer["invocation"]["module_args"]["units"][0]["name"] == "slurmdbd"
    assert any("slurmdbd" in text for text in logged)
    assert STAMP not in json.dumps([answer, logged])


@pytest.mark.parametrize(
    ("asked", "unread", "lacks", "check", "reloads"),
    [
        (True, False, False, False, 0),
        (True, True, False, False, 1),
        (True, False, True, False, 1),
        (True, True, True, True, 0),
        (False, False, True, False, 0),
        (False, True, False, False, 1),
    ],
)
def test_systemd_reads_its_files_again_only_where_they_differ(
    monkeypatch: pytest.MonkeyPatch,
    asked: bool,
    unread: bool,
    lacks: bool,
    check: bool,
    reloads: int,
) -> None:
    calls: list[str] = []

    def load(self: services.Services) -> None:
        calls.append("load")
        self.needs_reload = unread and "daemon-reload" not in calls
        missing = lacks and "daemon-reload" not in calls
        load_state = "not-found" if missing else "loaded"
        self.states = {"slurmd.service": State(load=load_state, active="active")}

    monkeypatch.setattr(services.Services, "load", load)
    monkeypatch.setattr(services.Services, "plan", lambda _self, _check: calls.append("plan") or [])
    monkeypatch.setattr(
        services.Services, "daemon_reload", lambda _self: calls.append("daemon-reload")
    )
    monkeypatch.setattr(services.Services, "_wait_ready", lambda *_given: None)
    monkeypatch.setattr("ansible.module_utils.basic.has_journal", False)
    given = {"units": [{"name": "slurmd", "state": "started"}], "daemon_reload": asked}
    with (
        patch_module_args({**given, "_ansible_check_mode": check}),
        pytest.raises(SystemExit),
    ):
        services.main()
    assert calls.count("daemon-reload") == reloads
    # What is planned is planned with what systemd has read by then, if the caller asked for that.
    if asked and reloads:
        assert calls == ["load", "daemon-reload", "load", "plan"]


@pytest.mark.parametrize("check", [False, True])
def test_a_unit_that_a_debugger_holds_is_left_as_it_is_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], check: bool
) -> None:
    def load(self: services.Services) -> None:
        for name, why in (("slurmd", answering.TRACED), ("munge", "")):
            state = State(load="loaded", active="active", halted=why)
            self.states[f"{name}.service"] = state

    monkeypatch.setattr(services.Services, "load", load)
    monkeypatch.setattr("ansible.module_utils.basic.has_journal", False)
    warned: list[str] = []
    monkeypatch.setattr(services.AnsibleModule, "warn", lambda _self, line: warned.append(line))
    units = [{"name": name, "state": "started"} for name in ("slurmd", "munge")]
    with (
        patch_module_args({"units": units, "_ansible_check_mode": check}),
        pytest.raises(SystemExit),
    ):
        services.main()
    answer = json.loads(capsys.readouterr().out)
    assert answer["actions"] == []
    (line,) = warned
    assert line.startswith("slurmd.service: a debugger holds its main process")


@pytest.mark.parametrize(
    ("command", "check", "warns"),
    [("false", False, True), ("false", True, False), ("true", False, False)],
)
def test_a_question_that_is_answered_wrongly_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    check: bool,
    warns: bool,
) -> None:
    def load(self: services.Services) -> None:
        self.states["chronyd.service"] = State(load="loaded", active="active")

    monkeypatch.setattr(services.Services, "load", load)
    monkeypatch.setattr("ansible.module_utils.basic.has_journal", False)
    warned: list[str] = []
    monkeypatch.setattr(services.AnsibleModule, "warn", lambda _self, line: warned.append(line))
    asked = {"command": command, "remedy": "open 123/udp"}
    units = [{"name": "chronyd", "state": "started", "asked": asked}]
    with (
        patch_module_args({"units": units, "_ansible_check_mode": check}),
        pytest.raises(SystemExit),
    ):
        services.main()
    answer = json.loads(capsys.readouterr().out)
    assert answer["changed"] is False and not answer.get("failed")
    wanted = "chronyd.service: `false` ended with 1. Remedy: open 123/udp"
    assert warned == ([wanted] if warns else [])
