# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the module train_secrets: the files it writes and removes, and what it prints."""

from __future__ import annotations

import errno
import os
import types
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Job
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import render, secrets
from ansible_collections.trainwright.slurm.plugins.modules import train_secrets

from . import control

VALUE = "hf_secret value"
JOBS = [
    Job(7, state="RUNNING"),
    Job(13, state="PENDING", array_job_id=12),
    Job(9, state="COMPLETED"),
    Job(101, state="COMPLETED", array_job_id=100, array_task="0"),
    Job(102, state="FAILED", flags=("COMPLETING",), array_job_id=100, array_task="1"),
    Job(103, state="RUNNING", array_job_id=100, array_task="2"),
    Job(100, state="PENDING", array_job_id=100, array_task="4-9:2%2"),
    Job(200, state="PENDING", array_job_id=200, array_task="1,3,5,..."),
    Job(201, state="CANCELLED", array_job_id=200, array_task="0"),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / render.SECRETS


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> t.Callable[..., t.Any]:
    slurm = types.SimpleNamespace(jobs=lambda: JOBS)

    def call(**options: t.Any) -> dict[str, t.Any]:
        options = {"secrets": [{"name": "TOKEN"}], "given": {"TOKEN": VALUE}, **options}
        made = control.run(train_secrets, t.cast("t.Any", slurm), capsys, monkeypatch, **options)
        assert VALUE not in str(made)
        return made

    return call


def test_documentation() -> None:
    control.check_documentation(train_secrets)


def test_it_writes_one_file_for_its_owner(place: Path, run: t.Callable[..., t.Any]) -> None:
    assert run(id=42, _ansible_check_mode=True)["changed"] and not place.exists()
    made = run(id=42)
    assert made["changed"] and made["files"] == [str(place / "42")]
    assert (place / "42").read_text() == f"TOKEN='{VALUE}'\n"
    assert (place / "42").stat().st_mode & 0o777 == 0o600
    assert not run(id=42)["changed"]


def test_each_task_of_an_array_has_a_file(place: Path, run: t.Callable[..., t.Any]) -> None:
    run(id=12, array="0-2%1")
    assert sorted(one.name for one in place.iterdir()) == ["12_0", "12_1", "12_2"]


def test_tasks_that_have_ended_get_no_file_again(place: Path, run: t.Callable[..., t.Any]) -> None:
    """The play or `train submit` finds the array there, and its tasks have removed their files."""
    names = ["100_2", "100_4", "100_6", "100_8"]
    made = run(id=100, array="0-9%2")
    assert made["files"] == [str(place / name) for name in names] and made["changed"]
    assert sorted(one.name for one in place.iterdir()) == names
    assert not run(id=100, array="0-9%2")["changed"]
    # Slurm shortens a long list of tasks that wait.
    assert len(run(id=200, array="0-9")["files"]) == 9
    assert len(run(id=300, array="0-9")["files"]) == 10, "slurmctld does not list it yet"


def test_files_of_tasks_that_have_ended_go(place: Path, run: t.Callable[..., t.Any]) -> None:
    place.mkdir(parents=True)
    for name in ("100_0", "100_1", "100_2", "100_3", "100_4", "200_0", "200_7"):
        (place / name).write_text("")
        os.utime(place / name, (0, 0))
    removed = [str(place / name) for name in ("100_0", "100_3", "200_0")]
    assert run(id=7, _ansible_check_mode=True)["removed"] == removed
    assert run(id=7)["removed"] == removed and not (place / "100_3").exists()
    assert (place / "100_1").exists(), "it is COMPLETING and may be requeued"


def test_files_of_jobs_that_are_gone_go(place: Path, run: t.Callable[..., t.Any]) -> None:
    place.mkdir(parents=True)
    for name in ("7", "9", "12_0", "11"):
        (place / name).write_text("")
        os.utime(place / name, (0, 0))
    made = run(id=7)
    assert made["removed"] == [str(place / "11"), str(place / "9")]
    assert sorted(one.name for one in place.iterdir()) == ["12_0", "7"]


def test_without_a_job_it_only_looks(place: Path, run: t.Callable[..., t.Any]) -> None:
    made = run()
    assert not made["changed"] and made["names"] == ["TOKEN"] and not place.exists()
    refused = run(given={})
    assert refused["failed"] and "secrets.TOKEN: has no value -> name a file" in refused["msg"]


def test_a_home_without_a_place_is_refused_before_the_submission(
    place: Path, run: t.Callable[..., t.Any]
) -> None:
    place.parent.parent.write_text("")
    assert ".config is not a directory -> make that directory" in run()["msg"]


def test_files_that_others_remove_meanwhile_are_no_error(
    place: Path, run: t.Callable[..., t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their jobs do at their end, and another submission removes the same ones."""
    place.mkdir(parents=True)
    for name in ("8", "9", "11"):
        (place / name).write_text("")
        os.utime(place / name, (0, 0))
    listed, write = os.listdir, secrets.write

    def seen(path: str) -> list[str]:
        names = listed(path)
        (place / "8").unlink(missing_ok=True)
        return names

    def faster(path: str, text: str) -> None:
        write(path, text)
        (place / "9").unlink()

    monkeypatch.setattr(secrets.os, "listdir", seen)
    monkeypatch.setattr(secrets, "write", faster)
    made = run(id=7)
    assert made["changed"] and made["removed"] == [str(place / "11"), str(place / "9")]
    assert listed(place) == ["7"]


def test_a_full_home_is_said_with_the_job_that_waits(
    place: Path, run: t.Callable[..., t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, text: str) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), path)

    monkeypatch.setattr(secrets, "write", full)
    made = run(id=7)
    assert made["failed"] and made["error"] == "invalid"
    assert (
        f"job 7: its secrets cannot be written: {place / '7'}: Disk quota exceeded -> "
        in made["msg"]
    )
