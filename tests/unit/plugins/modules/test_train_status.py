# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the module train_status itself: its options and results are those documented."""

from __future__ import annotations

import json
import time
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    module as slurm_module,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import session
from ansible_collections.trainwright.slurm.plugins.modules import train_status

from ..module_utils.slurm.client.fake_cluster import FakeCluster

pytestmark = pytest.mark.usefixtures("alice")

OPTIONS = yaml.safe_load(train_status.DOCUMENTATION)["options"]
EXAMPLES = yaml.safe_load(train_status.EXAMPLES)
RETURN = yaml.safe_load(train_status.RETURN)


def test_every_option_is_documented_as_it_is() -> None:
    keys = ("type", "elements", "default", "choices", "required")
    documented = {
        name: {key: option[key] for key in keys if key in option}
        for name, option in OPTIONS.items()
    }
    assert documented == train_status.SPEC


@pytest.mark.parametrize("task", [task for task in EXAMPLES if "ansible.builtin.debug" not in task])
def test_the_examples_are_taken(task: dict[str, t.Any]) -> None:
    spec = slurm_module.arguments(**train_status.SPEC)
    given = task["trainwright.slurm.train_status"]
    assert not ArgumentSpecValidator(spec).validate(given).error_messages


def main(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    cluster: FakeCluster,
    **options: t.Any,
) -> dict[str, t.Any]:
    """Run the module with options and return what it prints."""
    monkeypatch.setattr(session.Session, "using", lambda *_names: cluster)
    with patch_module_args(options), pytest.raises(SystemExit):
        train_status.main()
    printed: dict[str, t.Any] = json.loads(capsys.readouterr().out)
    return printed


def test_what_it_returns_is_documented(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "train.out"
    log.write_text("step 1/9 loss nan\n")
    (tmp_path / "step-1").mkdir()
    (tmp_path / "gpu-c1-100.csv").write_text("2026/01/16 06:33:24.456, A, 98 %, 7 MiB, 8 MiB, 62\n")
    cluster = FakeCluster()
    start = int(time.time()) - 60
    cluster.add(state="RUNNING", reason="", stdout=str(log), start_time=start, elapsed=60)
    seen = main(
        capsys,
        monkeypatch,
        cluster,
        job="train",
        checkpoints=str(tmp_path),
        report=str(tmp_path / "r"),
    )
    success = {name for name, value in RETURN.items() if value["returned"] == "success"}
    assert success | {"report"} == set(seen) - {"invocation", "changed", "warnings"}
    for name in ("progress", "checkpoints", "gpus"):
        one = seen[name] if name == "progress" else seen[name][0]
        assert set(one) == set(RETURN[name]["contains"]), name


def test_a_job_that_is_not_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = main(capsys, monkeypatch, FakeCluster(), job="7")
    assert printed["failed"] and printed["error"] == "unknown" and " -> " in printed["msg"]
