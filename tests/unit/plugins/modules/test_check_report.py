# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module that writes reports: its files, what it leaves alone, and what it refuses."""

from __future__ import annotations

import json
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
        ({}, "one of the following is required: results, document"),
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
