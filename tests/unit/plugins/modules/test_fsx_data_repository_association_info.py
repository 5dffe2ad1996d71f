# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module fsx_data_repository_association_info."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.modules import (
    fsx_data_repository_association_info as module,
)

from tests.fixtures.aws.server import Aws

from .aws import Run, runner, serving
from .fsx_world import FS, World, link

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


def test_all_pages_of_at_most_25_are_read(run: Run, aws: Aws, world: World) -> None:
    world.add(*(link(number, f"/d{number:02}", f"s3://bucket/{number}") for number in range(60)))
    found = run(module, region=REGION)["associations"]
    assert [one["path"] for one in found] == [f"/d{number:02}" for number in range(60)]
    assert [call.params["MaxResults"] for call in aws.calls] == [25, 25, 25]


def test_filters(run: Run, aws: Aws, world: World) -> None:
    other = f"fs-{9:017x}"
    cached = link(
        3, "/ignored", "nfs://filer/x", FileCacheId=f"fc-{1:017x}", NFS={"Version": "NFS3"}
    )
    del cached["FileSystemPath"]
    cached["FileCachePath"] = "/cached"
    world.add(link(1, "/a", "s3://a"), link(2, "/b", "s3://b", FileSystemId=other), cached)
    got = run(module, region=REGION, file_system_ids=[other])["associations"]
    assert [one["path"] for one in got] == ["/b"]
    assert aws.calls[-1].params["Filters"] == [{"Name": "file-system-id", "Values": [other]}]
    got = run(module, region=REGION, type="NFS")["associations"]
    assert [(one["path"], one["type"]) for one in got] == [("/cached", "NFS")]
    got = run(module, region=REGION, association_ids=[f"dra-{1:017x}"], type="S3")["associations"]
    assert [one["file_system_id"] for one in got] == [FS]


def test_an_ill_one_says_why(run: Run, world: World) -> None:
    why = {"Message": "The bucket has another region."}
    world.add(link(1, "/a", "s3://a", Lifecycle="MISCONFIGURED", FailureDetails=why))
    (one,) = run(module, region=REGION)["associations"]
    assert (one["lifecycle"], one["failure"]) == ("MISCONFIGURED", why["Message"])


def test_an_id_that_is_not_there(run: Run, world: World) -> None:
    result = run(module, region=REGION, association_ids=[f"dra-{1:017x}"])
    assert result["code"] == "DataRepositoryAssociationNotFound"
    assert "list them with fsx_data_repository_association_info" in result["msg"]
