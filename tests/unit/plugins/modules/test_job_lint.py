# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the module job_lint: what it returns, and how it fails."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils import _internal
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import context
from ansible_collections.trainwright.slurm.plugins.modules import job_lint

SCRIPT = "#!/bin/bash\n#SBATCH -N2 --mem=1G -t 60\nexport NCCL_PROTO=simple\nsrun python a.py\n"
WRONG = SCRIPT + "#SBATCH --exclusive\n"
Run = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the module and return what it prints, all of it documented."""
    monkeypatch.setattr(_internal, "is_controller", False)

    def once(**options: t.Any) -> dict[str, t.Any]:
        with patch_module_args(options), pytest.raises(SystemExit):
            job_lint.main()
        printed: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        returned = set(yaml.safe_load(job_lint.RETURN))
        assert set(printed) - {"invocation", "changed", "failed", "msg", "exception"} <= returned
        assert not printed.get("changed")
        return printed

    return once


def test_the_documented_options_are_those_of_the_module() -> None:
    documented = yaml.safe_load(job_lint.DOCUMENTATION)["options"]
    assert set(documented) == set(job_lint.SPEC)
    for name, spec in job_lint.SPEC.items():
        for key in ("type", "elements", "choices", "default"):
            assert documented[name].get(key) == spec.get(key), (name, key)


def test_findings(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "train.sbatch"
    path.write_text(WRONG)
    made = run(path=str(path))
    assert [(one["line"], one["rule"]) for one in made["findings"]] == [
        (3, "obsolete-variable"), (5, "directive-ignored")
    ]  # fmt: skip
    assert (made["errors"], made["warnings_found"], len(made["messages"])) == (1, 1, 2)
    assert made["messages"] == run(content=WRONG)["messages"]


@pytest.mark.parametrize(
    ("text", "fail_on", "failed"),
    [
        (WRONG, "never", False),
        (WRONG, "error", True),
        (SCRIPT, "error", False),
        (SCRIPT, "warning", True),
    ],
)
def test_what_fails(run: Run, text: str, fail_on: str, failed: bool) -> None:
    made = run(content=text, fail_on=fail_on)
    assert bool(made.get("failed")) is failed
    assert not failed or "[obsolete-variable]" in made["msg"]


def test_what_is_known_of_the_cluster(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "#!/bin/bash\n#SBATCH -N2 -p gpu -t 60\nexport GLOO_SOCKET_IFNAME=eth0\nsrun python a.py\n"
    )

    def rules(**options: t.Any) -> set[str]:
        return {one["rule"] for one in run(content=text, **options)["findings"]}

    config = tmp_path / "jobs.json"
    defaults = context.cluster.__kwdefaults__
    monkeypatch.setitem(defaults, "config", str(config))
    assert rules() == {"memory-missing"}
    assert rules(interfaces=["ens5"], partitions=["cpu"], default_memory=True, planned="2:00:00") == {
        "interface", "partition-unknown", "time-short"
    }  # fmt: skip
    config.write_text('{"interfaces": ["ens5"], "partitions": ["gpu"], "default_memory": true}')
    assert rules() == {"interface"}
    config.write_text("{")
    assert "role slurm_login writes it" in run(content=text)["msg"]


def test_translation(run: Run) -> None:
    made = run(content=SCRIPT, translate=True)
    assert yaml.safe_load(made["job_yaml"]) == made["job"]
    assert made["job"]["command"] == "python a.py" and "NCCL_PROTO" not in made["rendered"]
    assert made["corrections"][0]["line"] == 3 and not made["untranslated"]
    unclear = run(content="#!/bin/bash\nsrun a \\ # b\n  --c\n", translate=True)
    assert not unclear["job"] and "correct the script" in unclear["untranslated"]


def test_files_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    made = run(path=str(tmp_path / "none"))
    assert made["failed"] and "No such file" in made["msg"] and " -> " in made["msg"]
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    assert "is not text in UTF-8" in run(path=str(binary))["msg"]
    assert "wrong" not in run(content=SCRIPT)
    assert "planned: " in run(content=SCRIPT, planned="a week")["msg"]
