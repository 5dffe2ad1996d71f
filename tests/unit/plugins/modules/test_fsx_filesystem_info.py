# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module fsx_filesystem_info, and the failures of AWS that all fsx_* modules meet alike."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.modules import fsx_filesystem_info as module

from tests.fixtures.aws.server import Aws

from .aws import Run, runner, serving
from .fsx_world import FS, World, lustre, openzfs

REGION = "eu-west-1"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Aws]:
    with serving(monkeypatch) as server:
        yield server


@pytest.fixture
def world(aws: Aws) -> World:
    return World(aws)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, aws: Aws) -> Run:
    return runner(capsys, monkeypatch, aws)


def test_all_pages_are_read_and_each_has_its_mount(run: Run, aws: Aws, world: World) -> None:
    world.file_systems = [lustre(number) for number in range(1, 121)]
    result = run(module, region=REGION)
    assert not result.get("changed")
    assert len(result["file_systems"]) == 120 and len(aws.calls) == 3
    first = result["file_systems"][0]
    assert first["mount"]["source"].endswith("@tcp:/abcdebev") and "path" not in first["mount"]
    assert aws.actions == {"fsx:DescribeFileSystems"}


@pytest.mark.parametrize(
    "path", ["{{ 7*7 }}", "/", "/bad path; rm -rf ", "/etc", "/fsx/../etc", "/fsx\n/x"]
)
def test_a_path_that_nothing_may_be_mounted_on_is_left_out_with_a_warning(
    run: Run, world: World, path: str
) -> None:
    world.file_systems = [lustre(1, {"trainwright:mount": path})]
    result = run(module, region=REGION)
    assert "path" not in result["file_systems"][0]["mount"]
    (warning,) = result["warnings"]
    assert "trainwright:mount is " in warning and " -> " in warning and warning.isprintable()


def test_filters_hold_together(run: Run, world: World) -> None:
    cluster = {"trainwright:cluster": "train1", "trainwright:mount": "/fsx", "n": "1"}
    world.file_systems = [
        lustre(1, cluster),
        lustre(2, {**cluster, "n": "2"}),
        lustre(3, cluster, VpcId="vpc-0000000000000000a"),
        openzfs(4, cluster),
    ]
    options: dict[str, t.Any] = {"tags": {"trainwright:cluster": "train1", "n": 1}}
    assert len(run(module, region=REGION, **options)["file_systems"]) == 3
    options |= {"types": ["LUSTRE"], "vpc_id": "vpc-0123456789abcdef0"}
    (only,) = run(module, region=REGION, **options)["file_systems"]
    assert only["id"] == f"fs-{1:017x}" and only["mount"]["path"] == "/fsx"
    assert only["tags"]["trainwright:cluster"] == "train1"


def test_what_nothing_mounts_has_no_mount(run: Run, world: World) -> None:
    world.file_systems = [lustre(1, FileSystemType="WINDOWS")]
    assert run(module, region=REGION)["file_systems"][0]["mount"] is None


def test_an_id_that_is_not_there(run: Run, world: World) -> None:
    result = run(module, region=REGION, file_system_ids=[FS, f"fs-{7:017x}"])
    assert result["failed"] and result["code"] == "FileSystemNotFound"
    assert f"fs-{7:017x} does not exist -> check the id, the region and the account" in result["msg"]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "message", "status", "said"),
    [
        ("AccessDeniedException",
         "User: arn:aws:iam::123456789012:user/ops is not authorized to perform: fsx:DescribeFileSystems", 400,
         "the permission fsx:DescribeFileSystems is missing for arn:aws:iam::123456789012:user/ops"),
        ("ExpiredTokenException", "The security token included in the request is expired", 400,
         "the credentials have expired -> get new ones"),
        ("UnrecognizedClientException", "The security token included in the request is invalid.", 400,
         "AWS does not accept the credentials"),
    ],
)  # fmt: skip
def test_failures_that_say_what_to_do(
    run: Run, aws: Aws, world: World, code: str, message: str, status: int, said: str
) -> None:
    aws.fail("fsx", "DescribeFileSystems", code, message, status=status)
    result = run(module, region=REGION)
    assert result["failed"] and said in result["msg"]
    assert result["action"] == "fsx:DescribeFileSystems" and result["code"] == code


def test_throttling_is_tried_again_and_given_up_in_the_end(
    run: Run, aws: Aws, world: World
) -> None:
    aws.fail("fsx", "DescribeFileSystems", "ThrottlingException", "Rate exceeded", times=3)
    assert len(run(module, region=REGION)["file_systems"]) == 1
    assert len(aws.calls) == 4
    aws.fail("fsx", "DescribeFileSystems", "ThrottlingException", "Rate exceeded")
    result = run(module, region=REGION)
    assert "still refused after 8 tries because of too many calls" in result["msg"]
    assert len(aws.calls) == 4 + 8


def test_a_fault_of_aws_is_tried_again(run: Run, aws: Aws, world: World) -> None:
    aws.fail("fsx", "DescribeFileSystems", "InternalServerError", "oops", status=500, times=2)
    assert len(run(module, region=REGION)["file_systems"]) == 1


def test_without_a_region_it_says_so(
    run: Run, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "requires a region" in run(module)["msg"]
