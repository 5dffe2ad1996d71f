# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module fsx_volume_info."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.modules import fsx_volume_info as module

from tests.fixtures.aws.server import Aws

from .aws import Run, runner, serving
from .fsx_world import DNS, World, openzfs, volume

REGION = "eu-west-1"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Aws]:
    with serving(monkeypatch) as server:
        yield server


@pytest.fixture
def world(aws: Aws) -> World:
    made = World(aws)
    made.file_systems = [openzfs(5), openzfs(6)]
    home = {"trainwright:mount": "/home", "trainwright:purpose": "home"}
    made.volumes = [volume(1, 5, "/fsx"), volume(2, 5, "fsx/home", home), volume(3, 6, "/fsx")]
    return made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, aws: Aws) -> Run:
    return runner(capsys, monkeypatch, aws)


def test_paths_limits_exports_and_mounts(run: Run, world: World) -> None:
    found = run(module, region=REGION, file_system_ids=[f"fs-{5:017x}"])["volumes"]
    assert [one["path"] for one in found] == ["/fsx", "/fsx/home"]
    home = found[1]
    assert (home["quota"], home["reservation"], home["record_size"]) == (1024, None, 128)
    assert home["nfs_exports"] == [{"clients": "*", "options": ["rw", "crossmnt"]}]
    assert home["quotas"] == [{"type": "USER", "id": 1000, "quota": 50}]
    assert home["mount"] == {
        "path": "/home",
        "source": f"fs-{5:017x}.{DNS}:/fsx/home",
        "fstype": "nfs",
        "options": "nfsvers=4.2,nconnect=16,rsize=1048576,wsize=1048576,_netdev",
        "purpose": "home",
    }
    assert "path" not in found[0]["mount"]


def test_names_are_asked_for_once_and_only_where_needed(run: Run, aws: Aws, world: World) -> None:
    assert len(run(module, region=REGION)["volumes"]) == 3
    names = [call for call in aws.calls if call.operation == "DescribeFileSystems"]
    assert len(names) == 1
    assert names[0].params["FileSystemIds"] == [f"fs-{5:017x}", f"fs-{6:017x}"]
    world.volumes = []
    aws.calls.clear()
    assert run(module, region=REGION)["volumes"] == []
    assert aws.actions == {"fsx:DescribeVolumes"}


def test_tags_narrow_it_down(run: Run, world: World) -> None:
    (only,) = run(module, region=REGION, tags={"trainwright:purpose": "home"})["volumes"]
    assert only["name"] == "home"


def test_an_id_that_is_not_there(run: Run, world: World) -> None:
    result = run(module, region=REGION, volume_ids=[f"fsvol-{9:017x}"])
    assert "VolumeNotFound" in result["msg"] and "fsx_volume_info lists all" in result["msg"]


def test_a_missing_permission_is_named(run: Run, aws: Aws, world: World) -> None:
    aws.fail("fsx", "DescribeFileSystems", "AccessDeniedException", "no")
    result = run(module, region=REGION)
    assert "the permission fsx:DescribeFileSystems is missing" in result["msg"]
