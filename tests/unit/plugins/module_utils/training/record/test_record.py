# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of records: what is read of hostile files, the job's own part, packages."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.record import (
    batch,
    document,
    packages,
)

RECORD: dict[str, t.Any] = {"schema": batch.SCHEMA_NAME, "job": {"id": "7"}}


def test_a_file_of_somebody_else_is_data(tmp_path: Path) -> None:
    path = tmp_path / "run-7.json"
    path.write_text(
        json.dumps({**RECORD, "metrics": {"loss": "x"}, "links": [1], "starts": {}, "more": 1})
    )
    found = document.read(str(path))
    assert (
        found["metrics"] is None
        and found["links"] == []
        and found["starts"] == []
        and "more" not in found
    )
    for text in (
        "[" * 10**5,
        "{}",
        "nothing",
        json.dumps({**RECORD, "job": {"id": 7}}),
        "\0" * 9,
        '{"a": 1e999}',
    ):
        path.write_text(text)
        with pytest.raises(document.RecordError, match=" -> "):
            document.read(str(path))
    path.write_bytes(b" " * (batch.LARGEST + 1))
    with pytest.raises(document.RecordError, match="is larger than"):
        document.read(str(path))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(document.RecordError, match="is not a regular file"):
        document.read(str(path))
    with pytest.raises(document.RecordError, match="No such file"):
        document.read(str(tmp_path / "none"))


def test_what_is_there_is_replaced_and_not_followed(tmp_path: Path) -> None:
    path, victim = tmp_path / "run-7.json", tmp_path / "victim"
    victim.write_text(json.dumps(RECORD))
    path.symlink_to(victim)
    batch.change(str(path), "7", lambda record: record.update(links=["x"]))
    assert not path.is_symlink() and json.loads(victim.read_text()) == RECORD
    assert path.stat().st_mode & 0o777 == 0o600 and document.read(str(path))["links"] == ["x"]
    path.unlink()
    os.mkfifo(path)
    batch.change(str(path), "7", lambda record: record.update(links=[]))
    assert path.is_file() and sorted(os.listdir(tmp_path)) == ["run-7.json", "victim"]
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError):
        batch.change(str(path), "7", lambda record: None)
    assert sorted(os.listdir(tmp_path)) == ["run-7.json", "victim"]


def test_starts_and_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "run-7.json")
    batch.change(path, "7", lambda record: record.update(submitted={"time": 1}))
    monkeypatch.setenv("SLURM_JOB_NODELIST", "c[1-2]")
    assert batch.main(["start", path, "7", str(os.getpid())]) == 0
    assert batch.main(["end", path, "7", "3"]) == 0
    found = document.read(path)
    assert [one["nodes"] for one in found["starts"]] == ["c[1-2]"] and found["starts"][0]["kernel"]
    assert found["end"]["exit_code"] == 3
    # A requeued job has not ended, except by itself since then: the start is noted in the background.
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert batch.main(["start", path, "7", str(os.getpid())]) == 0
    assert document.read(path)["end"]["exit_code"] == 3
    batch.change(path, "7", lambda record: record["end"].update(time=1) or record["starts"].pop())
    assert batch.main(["start", path, "7", str(os.getpid())]) == 0
    found = document.read(path)
    assert [one["restart"] for one in found["starts"]] == [0, 1] and found["end"] is None
    # On a busy node the program may begin after its script has ended.
    assert batch.main(["end", path, "7", "3"]) == 0
    batch.change(path, "7", lambda record: record["end"].update(time=50))
    monkeypatch.setenv("RUN_BEGAN", "50")
    assert batch.main(["start", path, "7", str(os.getpid())]) == 0
    found = document.read(path)
    assert found["end"]["exit_code"] == 3 and found["starts"][-1]["time"] == 50
    assert batch.main(["end", "/none/run-7.json", "7", "0"]) == 1


def test_a_job_submitted_by_hand_waits_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_PATIENCE", 0)
    path = str(tmp_path / "run-7.json")
    assert batch.main(["start", path, "7", "1"]) == 0
    assert len(document.read(path)["starts"]) == 1


def test_packages_are_read_from_names(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    for name in (
        "torch-2.5.1+cu124.dist-info",
        "Typing_Extensions-4.1.dist-info",
        "old-1.0-py3.11.egg-info",
        "x.py",
    ):
        (site / name).mkdir()
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.9\n")
    found = packages.of(str(tmp_path))
    assert found and found["packages"] == {
        "torch": "2.5.1+cu124",
        "typing-extensions": "4.1",
        "old": "1.0",
    }
    assert found["python"] == "3.11.9" and not found["problem"]
    missing = packages.of(str(tmp_path / "none"))
    assert missing and "No such file" in missing["problem"]
    assert packages.of("") is None


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"hooks": {"pre": "module load x\nsource /shared/venv/bin/activate"}}, "/shared/venv"),
        ({"command": "/opt/conda/envs/a/bin/python train.py"}, "/opt/conda/envs/a"),
        ({"environment": {"VIRTUAL_ENV": "/v"}, "hooks": {"pre": ". /w/bin/activate"}}, "/v"),
        ({"command": "train.py", "hooks": None, "environment": "x"}, ""),
    ],
)
def test_the_environment_that_a_description_names(given: dict[str, t.Any], found: str) -> None:
    assert packages.environment_of(given) == found
