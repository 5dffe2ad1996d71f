# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the module slurm_job itself: its options are those documented, its examples are taken."""

from __future__ import annotations

import json
import typing as t

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    job_options,
    session,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    module as slurm_module,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.modules import slurm_job

from ..module_utils.slurm.client.fake_cluster import FakeCluster

OPTIONS = yaml.safe_load(slurm_job.DOCUMENTATION)["options"]
EXAMPLES = yaml.safe_load(slurm_job.EXAMPLES)


def test_every_option_is_documented_as_it_is() -> None:
    documented = {
        name: {
            key: option[key] for key in ("type", "elements", "default", "choices") if key in option
        }
        for name, option in OPTIONS.items()
    }
    assert documented == slurm_job.SPEC


@pytest.mark.parametrize("task", EXAMPLES, ids=lambda task: task["name"])
def test_the_examples_are_taken(task: dict[str, t.Any]) -> None:
    given = {
        name: 1 if isinstance(value, str) and "{{" in value else value
        for name, value in task["trainwright.slurm.slurm_job"].items()
    }
    spec = slurm_module.arguments(**slurm_job.SPEC)
    assert not ArgumentSpecValidator(spec).validate(given).error_messages


def main(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    cluster: FakeCluster,
    **options: t.Any,
) -> dict[str, t.Any]:
    """Run the module with options and return what it prints."""
    monkeypatch.setattr(session.Session, "using", lambda *_names: cluster)
    monkeypatch.setattr(job_options, "home_of", lambda user: "/home/alice")
    with patch_module_args(options), pytest.raises(SystemExit):
        slurm_job.main()
    printed: dict[str, t.Any] = json.loads(capsys.readouterr().out)
    return printed


def test_a_run_of_the_module(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster()
    options = {"name": "train", "content": "#!/bin/sh", "nodes": 2}
    assert main(capsys, monkeypatch, cluster, **options)["changed"] is True
    second = main(capsys, monkeypatch, cluster, **options)
    assert (second["changed"], second["id"]) == (False, 100)
    # Every key of a result is documented, every key that is always there is there.
    returned = yaml.safe_load(slurm_job.RETURN)
    assert set(second) - {"invocation", "changed"} <= set(returned)
    always = {name for name, value in returned.items() if value["returned"] == "always"}
    assert always <= set(second)


def test_a_failed_job_fails_with_all_its_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster()
    cluster.add(state="FAILED", exit_code=3)
    printed = main(capsys, monkeypatch, cluster, id=100, state="completed")
    assert printed["failed"] and printed["exit_code"] == 3 and "exit code 3" in printed["msg"]


def test_a_refusal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    cluster.refuses = [SlurmError("unknown", "Invalid partition name specified")]
    printed = main(capsys, monkeypatch, cluster, name="x", content="#!/bin/sh", partition="gpuu")
    assert printed["failed"] and printed["error"] == "unknown" and "mean gpu" in printed["msg"]


@pytest.mark.parametrize(
    "options",
    [{}, {"name": "x", "script": "a", "content": "b"}, {"id": 1, "content": "b"}],
)
def test_options_that_do_not_go_together(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, t.Any],
) -> None:
    printed = main(capsys, monkeypatch, FakeCluster(), **options)
    assert printed["failed"]


def test_defaults_for_callers_without_the_argument_spec() -> None:
    assert {
        name: option.get("default") for name, option in slurm_job.SPEC.items()
    } == job_options.DEFAULTS
