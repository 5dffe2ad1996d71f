# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module fsx_data_repository_association: makes, changes and removes links, and says what AWS would refuse."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.modules import (
    fsx_data_repository_association as module,
)

from tests.fixtures.aws.server import Aws

from .aws import Run, runner, serving
from .fsx_world import FS, World, link, lustre, openzfs

READS = {"fsx:DescribeDataRepositoryAssociations", "fsx:DescribeFileSystems"}
WANTED: dict[str, t.Any] = {
    "region": "eu-west-1",
    "file_system_id": FS,
    "file_system_path": "/checkpoints",
    "data_repository_path": "s3://bucket/checkpoints/",
    "auto_export": ["NEW", "CHANGED"],
}
GONE = {**WANTED, "state": "absent"}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Aws]:
    with serving(monkeypatch) as server:
        yield server


@pytest.fixture
def world(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(aws)
    monkeypatch.setattr(module, "Wait", made.wait)
    return made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, aws: Aws) -> Run:
    plain = runner(capsys, monkeypatch, aws)
    return lambda **options: plain(module, **options)


def params(aws: Aws, operation: str) -> list[dict[str, t.Any]]:
    return [call.params for call in aws.calls if call.operation == operation]


def here(world: World, **more: t.Any) -> dict[str, t.Any]:
    """A link as WANTED is there."""
    one = link(1, "/checkpoints", "s3://bucket/checkpoints", **more)
    world.add(one)
    return one


# --- a new one ----------------------------------------------------------------------------------------------------


def test_it_is_made_and_waited_for_and_then_stays(run: Run, aws: Aws, world: World) -> None:
    world.born = [None, {"Lifecycle": "AVAILABLE"}]
    wanted = {**WANTED, "imported_file_chunk_size": 512, "import_metadata": True, "tags": {"team": "llm"}}  # fmt: skip
    result = run(**wanted)
    assert result["changed"] and result["association"]["lifecycle"] == "AVAILABLE"
    assert len(world.paused) == 2
    assert result["diff"] == {
        "before": {},
        "after": {
            "file_system_path": "/checkpoints",
            "data_repository_path": "s3://bucket/checkpoints/",
            "auto_import": [],
            "auto_export": ["NEW", "CHANGED"],
            "imported_file_chunk_size": 512,
            "tags": {"team": "llm"},
        },
    }
    (asked,) = params(aws, "CreateDataRepositoryAssociation")
    assert asked.pop("ClientRequestToken")
    assert asked == {
        "FileSystemId": FS,
        "FileSystemPath": "/checkpoints",
        "DataRepositoryPath": "s3://bucket/checkpoints/",
        "BatchImportMetaDataOnCreate": True,
        "ImportedFileChunkSize": 512,
        "S3": {"AutoExportPolicy": {"Events": ["NEW", "CHANGED"]}},
        "Tags": [{"Key": "team", "Value": "llm"}],
    }
    aws.calls.clear()
    again = run(**wanted)
    assert not again["changed"] and again["diff"]["before"] == again["diff"]["after"]
    assert aws.actions == {"fsx:DescribeDataRepositoryAssociations"}


def test_check_mode_says_so_and_makes_nothing(run: Run, aws: Aws, world: World) -> None:
    planned = run(**WANTED, _ansible_check_mode=True)
    assert planned["changed"] and planned["association"] is None
    assert aws.actions == READS and not world.links
    made = run(**WANTED)
    kept = ("file_system_path", "data_repository_path", "auto_import", "auto_export")
    for key in kept:
        assert planned["diff"]["after"][key] == made["diff"]["after"][key]


def test_without_wait_it_returns_at_once(run: Run, world: World) -> None:
    result = run(**WANTED, wait=False)
    assert result["association"]["lifecycle"] == "CREATING" and world.paused == []


def test_a_call_that_is_repeated_makes_one_link(run: Run, aws: Aws, world: World) -> None:
    aws.fail("fsx", "CreateDataRepositoryAssociation", "InternalServerError", "oops", status=500, times=1)  # fmt: skip
    assert run(**WANTED)["changed"]
    first, second = params(aws, "CreateDataRepositoryAssociation")
    assert first["ClientRequestToken"] == second["ClientRequestToken"]


def test_one_that_comes_out_ill_fails_with_the_reason(run: Run, world: World) -> None:
    why = {"Message": "FSx may not write to the bucket."}
    world.born = [{"Lifecycle": "MISCONFIGURED", "FailureDetails": why}]
    result = run(**WANTED)
    assert result["failed"] and result["code"] == "MISCONFIGURED"
    assert (
        f"links /checkpoints of {FS} to s3://bucket/checkpoints/, is MISCONFIGURED: FSx may not write to the bucket "
        "-> let FSx' service role read and write the bucket"
    ) in result["msg"]


def test_one_that_never_comes_is_given_up(run: Run, world: World) -> None:
    world.born = []
    result = run(**WANTED, wait_timeout=60)
    assert result["failed"] and result["code"] == "timeout"
    assert "of /checkpoints is still CREATING after 60 s -> it goes on in AWS" in result["msg"]
    assert sum(world.paused) == 60
    world.script[next(iter(world.links))] = [{"Lifecycle": "AVAILABLE"}]
    assert run(**WANTED)["association"]["lifecycle"] == "AVAILABLE"


@pytest.mark.parametrize(
    ("links", "options", "said"),
    [
        ([], {"file_system_path": "checkpoints"}, "file_system_path: 'checkpoints' does not begin with /"),
        ([], {"data_repository_path": "bucket/x"}, "'bucket/x' is not an S3 location -> write s3://bucket/prefix/"),
        ([], {"data_repository_path": None}, "has no link at /checkpoints yet -> give data_repository_path"),
        ([link(1, "/", "s3://a")], {}, "/checkpoints overlaps with /, which dra-"),
        ([link(1, "/checkpoints/run1/", "s3://a")], {}, "/checkpoints overlaps with /checkpoints/run1"),
        ([link(1, "/x", "s3://bucket/checkpoints")], {}, "s3://bucket/checkpoints is linked to /x by dra-"),
        ([link(number, f"/d{number}", f"s3://a/{number}") for number in range(8)], {},
         "has 8 links, the most that AWS allows -> remove one (/d0, /d1"),
    ],
)  # fmt: skip
def test_what_aws_would_refuse_is_refused_before(
    run: Run, aws: Aws, world: World, links: list[t.Any], options: dict[str, t.Any], said: str
) -> None:
    world.add(*links)
    for check in (True, False):
        result = run(**{**WANTED, **options}, _ansible_check_mode=check)
        assert result["failed"] and said in result["msg"], result["msg"]
    assert aws.actions <= READS


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (openzfs(0, FileSystemId=FS), "is OPENZFS, and only FSx for Lustre links"),
        (lustre(LustreConfiguration={"DeploymentType": "SCRATCH_1"}), "is SCRATCH_1"),
        (lustre(FileSystemTypeVersion="2.10"), "is of Lustre 2.10"),
        (lustre(StorageType="INTELLIGENT_TIERING"), "Intelligent-Tiering, which links to no bucket"),
        (lustre(LustreConfiguration={"DataRepositoryConfiguration": {"ImportPath": "s3://old"}}),
         "was made with a link to s3://old of its own"),
        (lustre(Lifecycle="CREATING"), "is CREATING -> run again when it is AVAILABLE"),
        (lustre(Lifecycle="FAILED", FailureDetails={"Message": "No room."}), "is FAILED (No room) ->"),
    ],
)  # fmt: skip
def test_file_systems_that_cannot_be_linked(
    run: Run, aws: Aws, world: World, raw: dict[str, t.Any], said: str
) -> None:
    world.file_systems = [raw]
    result = run(**WANTED, _ansible_check_mode=True)
    assert result["failed"] and said in result["msg"], result["msg"]
    assert aws.actions <= READS


def test_a_directory_beside_another_of_nearly_its_name_is_free(run: Run, world: World) -> None:
    world.add(link(1, "/check", "s3://bucket/check"), link(2, "/checkpoints2", "s3://bucket/2"))
    assert run(**WANTED)["changed"]


def test_what_only_aws_knows_is_said_with_a_remedy(run: Run, aws: Aws, world: World) -> None:
    aws.fail("fsx", "CreateDataRepositoryAssociation", "BadRequest",
             "The S3 bucket is not in the same Region as the file system.")  # fmt: skip
    result = run(**WANTED)
    assert result["action"] == "fsx:CreateDataRepositoryAssociation"
    assert "-> use a bucket in the region of the file system" in result["msg"]


# --- one that is there --------------------------------------------------------------------------------------------


def test_slashes_and_the_order_of_events_are_no_change(run: Run, aws: Aws, world: World) -> None:
    here(world)
    result = run(**{**WANTED, "file_system_path": "/checkpoints/"})
    assert not result["changed"] and aws.actions <= READS


def test_policies_change_and_the_rest_is_sent_as_it_was(run: Run, aws: Aws, world: World) -> None:
    here(world, S3={"AutoImportPolicy": {"Events": ["NEW"]}, "AutoExportPolicy": {"Events": ["NEW"]}})  # fmt: skip
    changed = {**WANTED, "auto_export": ["DELETED", "NEW", "CHANGED"]}
    planned = run(**changed, _ansible_check_mode=True)
    assert aws.actions <= READS
    result = run(**changed)
    assert planned["changed"] and result["changed"] and planned["diff"] == result["diff"]
    assert result["diff"]["before"]["auto_export"] == ["NEW"]
    assert result["diff"]["after"]["auto_export"] == ["NEW", "CHANGED", "DELETED"]
    (asked,) = params(aws, "UpdateDataRepositoryAssociation")
    assert asked["S3"] == {
        "AutoImportPolicy": {"Events": ["NEW"]},
        "AutoExportPolicy": {"Events": ["NEW", "CHANGED", "DELETED"]},
    }
    assert not run(**changed)["changed"]


def test_an_empty_list_ends_a_policy_and_none_keeps_it(run: Run, aws: Aws, world: World) -> None:
    here(world)
    assert not run(**{key: WANTED[key] for key in WANTED if key != "auto_export"})["changed"]
    result = run(**{**WANTED, "auto_export": []})
    assert result["changed"] and result["association"]["auto_export"] == []
    (asked,) = params(aws, "UpdateDataRepositoryAssociation")
    assert asked["S3"]["AutoExportPolicy"] == {"Events": []}


def test_tags_change_alone(run: Run, aws: Aws, world: World) -> None:
    here(world)
    result = run(**WANTED, tags={"team": "llm", "n": 1})
    assert result["association"]["tags"] == {"team": "llm", "n": "1"}
    assert not params(aws, "UpdateDataRepositoryAssociation")
    assert params(aws, "UntagResource")[0]["TagKeys"] == ["Name"]
    assert not run(**WANTED, tags={"team": "llm", "n": 1})["changed"]
    kept = run(**WANTED, tags={"team": "vlm"}, purge_tags=False)
    assert kept["association"]["tags"] == {"team": "vlm", "n": "1"}


def test_another_place_in_s3_is_an_error_with_the_way_to_it(
    run: Run, aws: Aws, world: World
) -> None:
    here(world)
    result = run(**{**WANTED, "data_repository_path": "s3://bucket/other"})
    assert "AWS cannot move it to s3://bucket/other -> remove it (state: absent" in result["msg"]
    assert aws.actions <= READS


def test_an_ill_one_is_sent_again_so_that_aws_looks(run: Run, aws: Aws, world: World) -> None:
    here(world, Lifecycle="MISCONFIGURED", FailureDetails={"Message": "denied"})
    planned = run(**WANTED, _ansible_check_mode=True)
    result = run(**WANTED)
    assert planned["changed"] and result["changed"]
    assert result["association"]["lifecycle"] == "AVAILABLE"
    assert len(params(aws, "UpdateDataRepositoryAssociation")) == 1


def test_one_that_failed_for_good_says_so(run: Run, aws: Aws, world: World) -> None:
    here(world, Lifecycle="FAILED", FailureDetails={"Message": "The bucket is gone."})
    result = run(**WANTED)
    assert "is FAILED: The bucket is gone -> this does not recover; remove" in result["msg"]
    assert aws.actions <= READS


def test_a_change_waits_for_one_that_is_still_being_made(run: Run, world: World) -> None:
    one = here(world, Lifecycle="CREATING")
    world.script[one["AssociationId"]] = [{"Lifecycle": "AVAILABLE"}]
    assert run(**{**WANTED, "auto_export": ["NEW"]})["association"]["auto_export"] == ["NEW"]


# --- removal ------------------------------------------------------------------------------------------------------


def test_it_is_removed_and_files_stay_unless_asked(run: Run, aws: Aws, world: World) -> None:
    here(world)
    assert run(**GONE, _ansible_check_mode=True)["changed"] and aws.actions <= READS
    result = run(**GONE)
    assert result["changed"] and result["association"] is None and not world.links
    assert result["diff"]["after"] == {} and result["diff"]["before"]["auto_export"]
    assert params(aws, "DeleteDataRepositoryAssociation")[0]["DeleteDataInFileSystem"] is False
    assert not run(**GONE)["changed"]
    here(world)
    run(**GONE, delete_data_in_filesystem=True)
    assert params(aws, "DeleteDataRepositoryAssociation")[1]["DeleteDataInFileSystem"] is True


def test_one_that_is_being_deleted_is_waited_for(run: Run, aws: Aws, world: World) -> None:
    one = here(world, Lifecycle="DELETING")
    assert "is being deleted -> run again when it is gone" in run(**WANTED, wait=False)["msg"]
    world.script[one["AssociationId"]] = [None, {"Lifecycle": "GONE"}]
    assert not run(**GONE)["changed"]
    assert not params(aws, "DeleteDataRepositoryAssociation") and len(world.paused) == 2
    again = here(world, Lifecycle="DELETING")
    world.script[again["AssociationId"]] = [{"Lifecycle": "GONE"}]
    assert run(**WANTED)["changed"] and len(world.links) == 1


def test_one_that_goes_away_does_not_hide_its_successor(run: Run, aws: Aws, world: World) -> None:
    world.add(link(7, "/checkpoints", "s3://old", Lifecycle="DELETING"))
    here(world)
    assert not run(**WANTED)["changed"] and aws.actions <= READS


def test_without_wait_it_is_on_its_way(run: Run, world: World) -> None:
    here(world)
    assert run(**GONE, wait=False)["association"]["lifecycle"] == "DELETING"


def test_a_removal_that_hangs_is_given_up(run: Run, world: World) -> None:
    one = here(world, Lifecycle="DELETING")
    result = run(**GONE, wait_timeout=30)
    assert f"{one['AssociationId']} is still DELETING after 30 s" in result["msg"]


def test_a_missing_permission_is_named(run: Run, aws: Aws, world: World) -> None:
    here(world)
    aws.fail("fsx", "DeleteDataRepositoryAssociation", "AccessDeniedException", "no")
    result = run(**GONE)
    assert "the permission fsx:DeleteDataRepositoryAssociation is missing" in result["msg"]
    assert result["action"] == "fsx:DeleteDataRepositoryAssociation"
