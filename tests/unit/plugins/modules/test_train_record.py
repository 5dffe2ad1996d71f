# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the module train_record: what it writes, what it does not, and what it refuses."""

from __future__ import annotations

import types
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import acting
from ansible_collections.trainwright.slurm.plugins.module_utils.training.record import document
from ansible_collections.trainwright.slurm.plugins.modules import train_record

from . import control


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> t.Callable[..., t.Any]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(acting, "user_name", lambda _uid: "alice")
    slurm = types.SimpleNamespace(version="24.11.5")

    def call(**options: t.Any) -> dict[str, t.Any]:
        job = {
            "name": "train",
            "command": "train.py",
            "checkpoints": f"{tmp_path}/c",
            "memory": "0",
        }
        given = {"id": 7, "description": job, **options}
        made: dict[str, t.Any] = control.run(
            train_record, t.cast("t.Any", slurm), capsys, monkeypatch, **given
        )
        return made

    return call


def test_documentation() -> None:
    control.check_documentation(train_record)


def test_it_writes_the_record(tmp_path: Path, run: t.Callable[..., t.Any]) -> None:
    assert run(_ansible_check_mode=True)["changed"] and not (tmp_path / "c").exists()
    made = run(script="/x/train.sbatch")
    assert made["changed"] and made["record"] == f"{tmp_path}/c/run-7.json" and not made["problems"]
    found = document.read(made["record"])
    assert found["description"]["command"] == "train.py"
    assert found["submitted"]["script"] == "/x/train.sbatch"


def test_values_from_a_vault_are_left_out(run: t.Callable[..., t.Any]) -> None:
    job = {"name": "train", "command": "train.py --x my-value-1", "logs": "/none/l"}
    job["logs"] = run()["record"].rpartition("/")[0]
    made = run(description={**job, "secrets": [{"name": "T"}]}, given={"T": "my-value-1"}, id=8)
    text = Path(made["record"]).read_text()
    assert "my-value-1" not in text and "train.py --x [left out]" in text


def test_nothing_to_write(run: t.Callable[..., t.Any]) -> None:
    for more in ({"id": None}, {"description": {"name": "a", "command": "b"}}):
        made = run(**more)
        assert not made["changed"] and made["record"] == ""


def test_root_writes_none(
    tmp_path: Path, run: t.Callable[..., t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "user_name", lambda _uid: "root")
    made = run()
    assert made["failed"] and made["error"] == "denied" and not (tmp_path / "c").exists()


def test_a_wrong_description_is_refused(run: t.Callable[..., t.Any]) -> None:
    made = run(description={"name": "a"})
    assert made["failed"] and made["error"] == "invalid" and " -> " in made["msg"]
