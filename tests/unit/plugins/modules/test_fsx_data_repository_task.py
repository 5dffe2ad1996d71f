# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module fsx_data_repository_task: starts, joins, follows and cancels tasks."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.modules import (
    fsx_data_repository_task as module,
)

from tests.fixtures.aws.server import Aws

from .aws import Run, runner, serving
from .fsx_world import FS, World, task

REGION = "eu-west-1"
EXPORT: dict[str, t.Any] = {
    "region": REGION,
    "file_system_id": FS,
    "type": "EXPORT_TO_REPOSITORY",
    "paths": ["/checkpoints/run1/"],
}
DONE = {
    "Lifecycle": "SUCCEEDED",
    "Status": {"TotalCount": 12, "SucceededCount": 12, "FailedCount": 0},
}
NUMBER = f"task-{1:017x}"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Aws]:
    with serving(monkeypatch) as server:
        yield server


@pytest.fixture
def world(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(aws)
    made.born = [{"Lifecycle": "EXECUTING"}, DONE]
    monkeypatch.setattr(module, "Wait", made.wait)
    return made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, aws: Aws) -> Run:
    plain = runner(capsys, monkeypatch, aws)
    return lambda **options: plain(module, **options)


def created(aws: Aws) -> list[dict[str, t.Any]]:
    return [call.params for call in aws.calls if call.operation == "CreateDataRepositoryTask"]


def test_an_export_is_followed_to_its_end(run: Run, aws: Aws, world: World) -> None:
    result = run(**EXPORT, report_path="s3://bucket/reports/", tags={"run": 1})
    assert result["changed"] and not result["joined"] and result["waited_for"] == []
    seen = result["task"]
    counts = (seen["total"], seen["succeeded"], seen["failed"])
    assert seen["lifecycle"] == "SUCCEEDED" and counts == (12, 12, 0)
    assert seen["failures"] == f"s3://bucket/reports/{seen['id']}/failures.csv"
    (asked,) = created(aws)
    assert asked.pop("ClientRequestToken")
    assert asked == {
        "FileSystemId": FS,
        "Type": "EXPORT_TO_REPOSITORY",
        "Paths": ["checkpoints/run1"],
        "Report": {
            "Enabled": True, "Path": "s3://bucket/reports/", "Format": "REPORT_CSV_20191124",
            "Scope": "FAILED_FILES_ONLY",
        },
        "Tags": [{"Key": "run", "Value": "1"}],
    }  # fmt: skip
    assert run(**EXPORT)["changed"], "one that has ended is not joined"


def test_check_mode_starts_nothing(run: Run, aws: Aws, world: World) -> None:
    result = run(**EXPORT, _ansible_check_mode=True)
    assert result["changed"] and result["task"] is None and not world.tasks
    world.add(task(1, Lifecycle="EXECUTING", Paths=["checkpoints/run1"]))
    result = run(**EXPORT, _ansible_check_mode=True)
    assert not result["changed"] and result["joined"] and result["task"]["id"] == NUMBER
    assert aws.actions == {"fsx:DescribeDataRepositoryTasks"} and world.paused == []


def test_the_same_task_is_joined_and_followed(run: Run, aws: Aws, world: World) -> None:
    world.add(*(task(number, Lifecycle="SUCCEEDED") for number in range(2, 8)))
    world.add(task(1, Lifecycle="EXECUTING", Paths=["checkpoints/run1"]))
    world.script[NUMBER] = [None, DONE]
    result = run(**EXPORT)
    assert result["joined"] and not result["changed"] and not created(aws)
    assert result["task"]["id"] == NUMBER and result["task"]["succeeded"] == 12


@pytest.mark.parametrize(
    "other",
    [
        {"Paths": ["checkpoints/run2"]},
        {"Type": "RELEASE_DATA_FROM_FILESYSTEM", "Paths": ["checkpoints/run1"]},
        {"Paths": ["checkpoints/run1", "datasets"]},
        {},
    ],
)
def test_another_task_is_in_the_way_until_it_ends(
    run: Run, aws: Aws, world: World, other: dict[str, t.Any]
) -> None:
    world.add(task(1, Lifecycle="EXECUTING", **other))
    world.script[NUMBER] = [None, DONE]
    result = run(**EXPORT)
    assert result["changed"] and result["waited_for"] == [NUMBER]
    assert result["task"]["id"] != NUMBER and result["task"]["lifecycle"] == "SUCCEEDED"
    assert len(created(aws)) == 3


def test_join_false_starts_another_after_the_same_one(run: Run, aws: Aws, world: World) -> None:
    world.add(task(1, Lifecycle="EXECUTING", Paths=["checkpoints/run1"]))
    world.script[NUMBER] = [DONE]
    result = run(**EXPORT, join=False)
    assert result["changed"] and result["waited_for"] == [NUMBER]


def test_without_wait_what_is_in_the_way_is_named(run: Run, world: World) -> None:
    status = {"TotalCount": 10, "SucceededCount": 4, "FailedCount": 1}
    world.add(task(1, Lifecycle="EXECUTING", Paths=["datasets"], Status=status))
    result = run(**EXPORT, wait=False)
    assert result["code"] == "DataRepositoryTaskExecuting" and result["task"]["id"] == NUMBER
    assert (
        f"another task is in the way: {NUMBER} (EXPORT_TO_REPOSITORY of datasets) EXECUTING, 4 of 10 files done, "
        "1 failed -> set wait to start after it, or cancel it"
    ) in result["msg"]


def test_without_wait_it_returns_at_once(run: Run, world: World) -> None:
    result = run(**EXPORT, wait=False)
    assert result["changed"] and result["task"]["lifecycle"] == "PENDING" and world.paused == []
    again = run(**EXPORT, wait=False)
    assert again["joined"] and again["task"]["id"] == result["task"]["id"]


def test_what_never_gets_out_of_the_way_is_given_up(run: Run, world: World) -> None:
    world.add(task(1, Lifecycle="EXECUTING"))
    result = run(**EXPORT, wait_timeout=60)
    assert result["code"] == "timeout"
    assert f"{FS}: {NUMBER} is still in the way after 60 s" in result["msg"]


def test_a_task_that_is_late_is_returned_with_its_progress(run: Run, world: World) -> None:
    world.born = [{"Lifecycle": "EXECUTING", "Status": {"TotalCount": 9, "SucceededCount": 3}}]
    result = run(**EXPORT, wait_timeout=60)
    assert result["failed"] and result["code"] == "timeout"
    assert "EXECUTING, 3 of 9 files done after 60 s -> it goes on in AWS: run again" in result["msg"]  # fmt: skip
    assert result["task"]["succeeded"] == 3


@pytest.mark.parametrize(
    ("report", "remedy"),
    [
        ("s3://bucket/reports", "the files that failed are listed in s3://bucket/reports/task-"),
        (None, "run again with report_path"),
    ],
)
def test_a_task_that_fails_says_why_and_where_it_is_listed(
    run: Run, world: World, report: str | None, remedy: str
) -> None:
    world.born = [{
        "Lifecycle": "FAILED", "FailureDetails": {"Message": "Some files could not be exported."},
        "Status": {"TotalCount": 12, "SucceededCount": 10, "FailedCount": 2},
    }]  # fmt: skip
    result = run(**EXPORT, report_path=report)
    assert result["code"] == "FAILED" and result["task"]["failed"] == 2
    assert "FAILED, 10 of 12 files done, 2 failed: Some files could not be exported -> " in result["msg"]  # fmt: skip
    assert remedy in result["msg"]


def test_one_that_somebody_cancels_is_no_success(run: Run, world: World) -> None:
    world.born = [{"Lifecycle": "CANCELED"}]
    assert "somebody cancelled it" in run(**EXPORT)["msg"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"paths": ["s3://bucket/x"]}, "paths: 's3://bucket/x' is in S3"),
        ({"type": "IMPORT_METADATA_FROM_REPOSITORY"}, "paths: '/checkpoints/run1/' is not an S3 location"),
        ({"paths": ["x"] * 101}, "paths: 101, AWS takes 100"),
        ({"report_path": "/reports"}, "report_path: '/reports' is not an S3 location"),
        ({"release_after_days": 3}, "release_after_days: EXPORT_TO_REPOSITORY releases nothing"),
    ],
)  # fmt: skip
def test_what_aws_would_refuse_is_refused_before(
    run: Run, aws: Aws, world: World, options: dict[str, t.Any], said: str
) -> None:
    result = run(**{**EXPORT, **options}, _ansible_check_mode=True)
    assert said in result["msg"] and not aws.calls


def test_a_release_says_how_long_nobody_may_have_used_it(run: Run, aws: Aws, world: World) -> None:
    release = {**EXPORT, "type": "RELEASE_DATA_FROM_FILESYSTEM", "paths": ["/"]}
    run(**release, release_after_days=30, wait=False)
    (asked,) = created(aws)
    after = {"DurationSinceLastAccess": {"Unit": "DAYS", "Value": 30}}
    assert asked["ReleaseConfiguration"] == after and asked["Paths"] == ["/"]
    assert run(**release, release_after_days=30, wait=False)["joined"]
    assert not run(**release, release_after_days=7, wait=False)["joined"]


def test_an_import_takes_places_in_s3(run: Run, aws: Aws, world: World) -> None:
    run(**{**EXPORT, "type": "IMPORT_METADATA_FROM_REPOSITORY", "paths": ["s3://b/new/"]})
    assert created(aws)[0]["Paths"] == ["s3://b/new"]


def test_a_task_of_before_is_waited_for(run: Run, aws: Aws, world: World) -> None:
    world.add(task(1, Lifecycle="EXECUTING"))
    world.script[NUMBER] = [DONE]
    result = run(region=REGION, task_id=NUMBER)
    assert not result["changed"] and result["joined"] and result["task"]["total"] == 12
    unknown = run(region=REGION, task_id=f"task-{2:017x}")
    assert unknown["code"] == "DataRepositoryTaskNotFound" and "check the id" in unknown["msg"]


def test_a_task_is_cancelled_once(run: Run, aws: Aws, world: World) -> None:
    world.add(task(1, Lifecycle="EXECUTING", Paths=["checkpoints/run1"]))
    assert run(**EXPORT, state="absent", _ansible_check_mode=True)["changed"]
    assert "fsx:CancelDataRepositoryTask" not in aws.actions
    result = run(**EXPORT, state="absent")
    assert result["changed"] and result["task"]["lifecycle"] == "CANCELED"
    assert not run(**EXPORT, state="absent")["changed"]
    assert not run(region=REGION, task_id=NUMBER, state="absent")["changed"]


def test_one_that_is_being_cancelled_is_waited_for(run: Run, aws: Aws, world: World) -> None:
    world.add(task(1, Lifecycle="CANCELING"))
    world.script[NUMBER] = [{"Lifecycle": "CANCELED"}]
    result = run(region=REGION, task_id=NUMBER, state="absent")
    assert not result["changed"] and result["task"]["lifecycle"] == "CANCELED"
    assert "fsx:CancelDataRepositoryTask" not in aws.actions


def test_one_that_ends_before_the_cancel_is_no_error(run: Run, aws: Aws, world: World) -> None:
    world.add(task(1, Lifecycle="EXECUTING"))
    aws.fail("fsx", "CancelDataRepositoryTask", "DataRepositoryTaskEnded", "The task has ended.")
    result = run(region=REGION, task_id=NUMBER, state="absent")
    assert not result["changed"] and not result.get("failed")


def test_options_that_belong_together(run: Run, world: World) -> None:
    assert "one of the following is required" in run(region=REGION)["msg"]
    assert "required together" in run(region=REGION, file_system_id=FS)["msg"]


def test_a_missing_permission_is_named(run: Run, aws: Aws, world: World) -> None:
    aws.fail("fsx", "CreateDataRepositoryTask", "AccessDeniedException", "no")
    result = run(**EXPORT)
    assert "the permission fsx:CreateDataRepositoryTask is missing" in result["msg"]
    assert result["action"] == "fsx:CreateDataRepositoryTask"
