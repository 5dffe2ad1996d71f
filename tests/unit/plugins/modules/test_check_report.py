# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module that writes reports: its files, what it leaves alone, and what it refuses."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.modules import check_report

GOOD = {"host": "c1", "check": "gpus", "verdict": "PASS", "value": 8, "threshold": 8}
Run = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    def call(check: bool = False, **arguments: t.Any) -> dict[str, t.Any]:
        given = {"suite": "preflight", "directory": str(tmp_path / "new" / "reports"), **arguments}
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
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
