# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The rights of a database's user, from a client that answers as MariaDB's does, and the look at them."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    database,
    drift,
    manifest,
    manifest_place,
)
from ansible_collections.trainwright.slurm.plugins.modules import database_rights

GRANTS = (
    "GRANT USAGE ON *.* TO `slurm`@`localhost` IDENTIFIED BY PASSWORD '*0123'\n"
    "GRANT ALL PRIVILEGES ON `slurm_acct_db`.* TO `slurm`@`localhost`\n"
)
NO_SERVER = "ERROR 2002 (HY000): Can't connect to local server through socket '/run/m.sock' (2)"
NO_USER = "ERROR 1141 (42000) at line 1: There is no such grant defined for user 'slurm' on host 'localhost'"


class Client:
    """The client of MariaDB as a shell script, which keeps what it was asked."""

    def __init__(self, directory: Path) -> None:
        self.path, self.asked = directory / "mariadb", directory / "asked"
        self.says(GRANTS + "slurm_acct_db\n")

    def says(self, text: str, rc: int = 0) -> None:
        (self.path.parent / "answer").write_text(text)
        stream = "" if rc == 0 else ">&2"
        self.path.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" >{self.asked}\ncat {self.path.parent}/answer {stream}\nexit {rc}\n'
        )
        self.path.chmod(0o755)


@pytest.fixture(name="client")
def _client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(manifest, "DIRECTORY", str(tmp_path / "manifest"))
    monkeypatch.setattr(manifest.os, "geteuid", lambda: 0)
    return Client(tmp_path)


def record(capsys: pytest.CaptureFixture[str], check: bool = False) -> dict[str, t.Any]:
    given: dict[str, t.Any] = {
        "database": "slurm_acct_db",
        "user": "slurm",
        "socket": "/run/m.sock",
        "managed_by": {"manager": "mariadb", "part": "Record it", "version": "1"},
        "_ansible_check_mode": check,
    }
    with patch_module_args(given), pytest.raises(SystemExit):
        database_rights.main()
    found: dict[str, t.Any] = json.loads(capsys.readouterr().out)
    return found


def look() -> dict[str, t.Any]:
    return drift.look(manifest.DIRECTORY)


def test_the_server_is_asked_as_root_by_its_socket_and_names_are_quoted(client: Client) -> None:
    text = database.rights("a'b", "u\\", "/run/m.sock")
    assert text == "\n".join(sorted((GRANTS + "slurm_acct_db").splitlines()))
    asked = client.asked.read_text()
    assert "--no-defaults\n--user=root\n--socket=/run/m.sock\n" in asked
    assert "SHOW GRANTS FOR 'u\\\\'@'localhost'" in asked and "SCHEMA_NAME = 'a''b'" in asked


def test_what_was_recorded_is_as_left_and_its_password_is_nowhere(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    result = record(capsys)
    assert (result["changed"], result["recorded"]) == (False, True) and "*0123" not in str(result)
    kept = "".join(path.read_text() for path in Path(manifest.DIRECTORY).glob("*.json"))
    assert '"database"' in kept and "*0123" not in kept
    assert look()["state"] == drift.AS_LEFT


@pytest.mark.parametrize(
    "answer",
    [
        GRANTS.replace("*0123", "*9876") + "slurm_acct_db\n",  # another password
        GRANTS.replace("ALL PRIVILEGES", "SELECT") + "slurm_acct_db\n",
        GRANTS,  # the database was removed
    ],
)
def test_another_password_other_rights_and_a_removed_database_are_differences(
    client: Client, capsys: pytest.CaptureFixture[str], answer: str
) -> None:
    record(capsys)
    client.says(answer)
    found = look()
    assert found["state"] == drift.DRIFTED
    (one,) = found["differences"]
    assert (one["kind"], one["name"], one["what"]) == ("database", "slurm_acct_db", "rights")
    assert "*9876" not in str(found)


def test_a_removed_user_is_a_difference(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    record(capsys)
    client.says(NO_USER, rc=1)
    found = look()
    assert found["state"] == drift.DRIFTED
    (one,) = found["differences"]
    assert (one["what"], one["found"], one["left"]) == (
        "missing",
        "no such user",
        "the user slurm",
    )
    assert "no such grant" in record(capsys)["msg"]


def test_a_server_that_does_not_answer_is_not_known_and_fails_the_call(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    record(capsys)
    client.says(NO_SERVER, rc=1)
    found = look()
    assert found["state"] == drift.NOT_KNOWN and "ERROR 2002" in found["differences"][0]["found"]
    assert "ERROR 2002" in record(capsys)["msg"]
    client.path.unlink()
    assert "no client" in look()["differences"][0]["found"]


def test_a_change_has_the_next_run_walk_over_the_host_and_the_same_does_not(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    record(capsys)
    manifest_place.remember("d1", manifest.DIRECTORY)
    record(capsys)
    assert manifest_place.wanted(manifest.DIRECTORY) == "d1"
    client.says(GRANTS.replace("*0123", "*9876"))
    assert record(capsys, check=True)["recorded"] is False
    assert manifest_place.wanted(manifest.DIRECTORY) == "d1"
    record(capsys)
    assert manifest_place.wanted(manifest.DIRECTORY) == ""
    assert look()["state"] == drift.AS_LEFT
