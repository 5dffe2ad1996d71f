# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module slurm_conf: check mode, diff, backup, and its errors."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.modules import slurm_conf

TEXT = "ClusterName=t\nStateSaveLocation=/var/spool/slurmctld\n"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "slurm.conf"
    path.write_text(TEXT)
    return path


def run(capsys: pytest.CaptureFixture[str], path: Path, **options: t.Any) -> dict[str, t.Any]:
    given = {"path": str(path), "version": "24.11", "slurm_prefix": str(path.parent), **options}
    with patch_module_args(given), pytest.raises(SystemExit):
        slurm_conf.main()
    return t.cast("dict[str, t.Any]", json.loads(capsys.readouterr().out))


def test_check_mode_says_the_same_and_writes_nothing(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {"settings": {"KillWait": 9}, "_ansible_diff": True, "backup": True}
    checked = run(capsys, conf, **wanted, _ansible_check_mode=True)
    assert conf.read_text() == TEXT and list(conf.parent.iterdir()) == [conf]
    done = run(capsys, conf, **wanted)
    assert conf.read_text() == TEXT + "KillWait=9\n"
    assert Path(done["backup_file"]).read_text() == TEXT
    for name in ("changed", "action", "reasons", "next_steps", "diff"):
        assert checked[name] == done[name]
    assert done["changed"] and done["action"] == "reconfigure"
    assert done["diff"]["after"] == TEXT + "KillWait=9\n"
    again = run(capsys, conf, **wanted)
    assert not again["changed"] and again["action"] == "none" and "backup_file" not in again


def test_what_loses_jobs_fails_with_the_reasons(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = {"settings": {"StateSaveLocation": "/other"}}
    failed = run(capsys, conf, **moved)
    assert failed["failed"] and failed["action"] == "refuse" and not failed["changed"]
    assert failed["reasons"][0]["old"] == "/var/spool/slurmctld" and conf.read_text() == TEXT
    done = run(capsys, conf, **moved, allow_refused=True)
    assert done["action"] == "restart" and "/other" in conf.read_text()


def test_an_error_has_its_kind(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = run(capsys, conf, settings={"KillWaits": 9})
    assert failed["error"] == "unknown" and "did you mean KillWait" in failed["msg"]
    assert run(capsys, conf.parent / "none.conf")["error"] == "missing"


def test_passwords_are_in_no_output(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = {"JobCompPass": "hunter22"}
    done = run(capsys, conf, secret_settings=secret, _ansible_diff=True)
    assert "hunter22" in conf.read_text() and "hunter22" not in json.dumps(done)
