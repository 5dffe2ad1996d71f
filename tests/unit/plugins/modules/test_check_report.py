# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module that writes reports: its files, what it leaves alone, and what it refuses."""

from __future__ import annotations

import errno
import json
import os
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import document
from ansible_collections.trainwright.slurm.plugins.modules import check_report

from tests.fixtures.validation.simulated import simulated

GOOD = {"host": "c1", "check": "gpus", "verdict": "PASS", "value": 8, "threshold": 8}
Run = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    def call(check: bool = False, **arguments: t.Any) -> dict[str, t.Any]:
        named = {} if "document" in arguments else {"suite": "preflight"}
        given = {**named, "directory": str(tmp_path / "new" / "reports"), **arguments}
        with patch_module_args({**given, "_ansible_check_mode": check}), pytest.raises(SystemExit):
            check_report.main()
        return t.cast("dict[str, t.Any]", json.loads(capsys.readouterr().out))

    return call


def test_all_formats_are_written_once(run: Run, tmp_path: Path) -> None:
    done = run(results=[GOOD])
    names = sorted(path.name for path in (tmp_path / "new" / "reports").iterdir())
    assert names == [f"preflight.{end}" for end in ("csv", "html", "json", "prom", "txt", "xml")]
    assert done["changed"] and done["verdict"] == "PASS" and done["counts"]["PASS"] == 1
    assert sorted(Path(name).name for name in done["files"]) == names
    assert not run(results=[GOOD])["changed"]
    assert run(results=[{**GOOD, "verdict": "FAIL", "value": 7}])["verdict"] == "FAIL"
    written = json.loads((tmp_path / "new" / "reports" / "preflight.json").read_text())
    assert written["results"][0]["value"] == 7


def test_check_mode_writes_nothing(run: Run, tmp_path: Path) -> None:
    assert run(check=True, results=[GOOD])["changed"]
    assert not (tmp_path / "new").exists()


def test_one_format(run: Run, tmp_path: Path) -> None:
    run(results=[GOOD], formats=["prom"])
    assert [path.name for path in (tmp_path / "new" / "reports").iterdir()] == ["preflight.prom"]


def test_the_files_of_a_validation_are_written_once(run: Run, tmp_path: Path) -> None:
    made = simulated(4, "gpu0002")
    done = run(document=made.to_json())
    directory = tmp_path / "new" / "reports"
    assert sorted(path.name for path in directory.iterdir()) == [
        f"validate.{end}" for end in ("csv", "html", "json", "prom", "txt", "xml")
    ]
    assert done["changed"] and done["verdict"] == "FAIL"
    assert (directory / "validate.json").read_text(encoding="utf-8") == document.as_text(made)
    assert "Pairs of nodes" in (directory / "validate.html").read_text(encoding="utf-8")
    assert 'suite="validate"' in (directory / "validate.prom").read_text(encoding="utf-8")
    assert not run(document=made.to_json())["changed"]
    assert run(document=simulated(4, "gpu0003").to_json())["changed"]
    assert not run(document=simulated(4, "gpu0003").to_json(), check=True)["changed"]


def test_a_file_that_somebody_changed_is_written_again(run: Run, tmp_path: Path) -> None:
    run(results=[GOOD])
    path = tmp_path / "new" / "reports" / "preflight.json"
    path.write_bytes(b"\xff")
    assert run(results=[GOOD])["changed"]
    assert json.loads(path.read_text(encoding="utf-8"))["verdict"] == "PASS"
    assert not list(path.parent.glob(".check_report.*"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"document": {"suite": "validate"}}, "run: is missing -> the schema requires it"),
        ({"document": {}, "results": []}, "mutually exclusive: results|document"),
        ({"document": {}, "suite": "x"}, "mutually exclusive: suite|document"),
        ({"results": [], "suite": None}, "missing parameter(s) required by 'results': suite"),
        ({}, "state is present but any of the following are missing: results, document"),
        ({"results": [], "directory": " "}, "directory: is empty -> name"),
        ({"suite": "../x", "results": []}, "suite '../x': is not a name -> letters"),
        ({"results": [{"host": "c1"}]}, "results[0].verdict: is missing -> "),
        (
            {"results": [], "directory": "/proc/reports"},
            "/proc/reports: the report cannot be written",
        ),
    ],
)
def test_what_is_refused(run: Run, arguments: dict[str, t.Any], said: str) -> None:
    done = run(**arguments)
    assert done["failed"] and said in done["msg"]


def test_a_place_that_can_be_written_is_made_and_left_empty(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "new" / "reports"
    assert run(state="writable", check=True)["changed"] and not (tmp_path / "new").exists()
    assert run(state="writable")["changed"] and not list(place.iterdir())
    assert not run(state="writable")["changed"]


def prepared(place: Path, how: str) -> str:
    """Return a directory for reports that cannot be used, in the namespace of mounts of this process."""
    (place / "there").mkdir()
    if how == "a file":
        (place / "there" / "reports").write_text("")
    elif how == "a file above":
        (place / "there" / "reports").write_text("")
        return str(place / "there" / "reports" / "deep" / "below")
    elif how == "a dangling link":
        (place / "there" / "reports").symlink_to("/nowhere/at/all")
    elif how == "made by nobody":
        return "/proc/reports"
    return str(place / "there" / "reports")


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("a file", "/there/reports is not a directory -> name a directory"),
        ("a file above", "/there/reports is not a directory -> name a directory"),
        ("a dangling link", "/there/reports is not a directory -> name a directory"),
        ("made by nobody", "/proc/reports: the report cannot be written: "),
    ],
)
def test_a_place_that_cannot_be_written_is_refused(
    run: Run, tmp_path: Path, how: str, said: str, check: bool
) -> None:
    if how == "made by nobody" and check:
        pytest.skip("access(2) allows it to root")
    done = run(state="writable", check=check, directory=prepared(tmp_path, how))
    assert done["failed"] and said in done["msg"], done


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "No space left on device -> make room there, or name another directory"),
        (errno.EDQUOT, "Disk quota exceeded -> make room there, or name another directory"),
        (errno.EROFS, "Read-only file system -> name a directory in which you may write"),
        (errno.EACCES, "Permission denied -> name a directory in which you may write"),
    ],
)
def test_a_draft_that_fails_is_removed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refuse(*_arguments: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(check_report.os, "posix_fallocate", refuse)
    done = run(state="writable")
    assert done["failed"] and words in done["msg"], done
    assert not list((tmp_path / "new" / "reports").iterdir())
