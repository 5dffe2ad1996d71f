# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes, changes and removes links between directories of FSx for Lustre and S3.

Sources: FSx for Lustre user guide, "Linking your file system to an S3 bucket", and botocore's service model of FSx.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, replace

from ansible_collections.amazon.aws.plugins.module_utils.tagging import (
    ansible_dict_to_boto3_tag_list,
    compare_aws_tags,
)

from . import fsx, fsx_records
from .errors import AwsProblem
from .fsx_mounts import association_remedy
from .fsx_records import Association, FileSystem, directory
from .waiting import Wait

# How many a file system can have.
LIMIT = 8
EVENTS = ("NEW", "CHANGED", "DELETED")
BUSY = ("CREATING", "UPDATING")
ILL = ("MISCONFIGURED", "FAILED")
S3_PATH = re.compile(r"s3://[a-z0-9][a-z0-9.-]+(/.*)?")

Settings = dict[str, t.Any]


@dataclass(frozen=True)
class Wanted:
    """A link as it shall be. None leaves a setting as it is; in a new one it is AWS' default (no automatic import or
    export, chunks of 1024 MiB). chunk_size: MiB."""

    file_system_id: str
    path: str
    data_repository_path: str | None = None
    auto_import: t.Sequence[str] | None = None
    auto_export: t.Sequence[str] | None = None
    chunk_size: int | None = None
    import_metadata: bool = False
    tags: t.Mapping[str, str] | None = None
    purge_tags: bool = True


@dataclass(frozen=True)
class Outcome:
    """The outcome. before, after: settings, {} without a link; association: None once it is gone."""

    changed: bool
    association: Association | None
    before: Settings
    after: Settings


def settings(one: Association | None) -> Settings:
    """The wanted settings of a link, named like the module's options."""
    if one is None:
        return {}
    return {
        "file_system_path": one.path,
        "data_repository_path": one.data_repository_path,
        "auto_import": ordered(one.auto_import),
        "auto_export": ordered(one.auto_export),
        "imported_file_chunk_size": one.chunk_size,
        "tags": one.tags,
    }


def ordered(events: t.Iterable[str]) -> list[str]:
    """Events in AWS' order; a list of them has none of its own."""
    found = set(events)
    return [event for event in EVENTS if event in found]


def check_paths(path: str, data_repository_path: str | None) -> None:
    """Refuse paths that AWS would refuse. Raises AwsProblem."""
    if not path.startswith("/"):
        raise AwsProblem(
            f"file_system_path: {path!r} does not begin with / -> give it from the root of the file system, "
            "without the directory that it is mounted on"
        )
    if data_repository_path is not None and not S3_PATH.fullmatch(data_repository_path):
        raise AwsProblem(
            f"data_repository_path: {data_repository_path!r} is not an S3 location -> write s3://bucket/prefix/"
        )


def present(client: t.Any, wanted: Wanted, *, check: bool, wait: Wait | None) -> Outcome:
    """See that a directory is linked as wanted.

    Args:
        client: boto3's, of FSx.
        check: change nothing, only return the changes.
        wait: how long for it to become usable; None does not wait.
    Raises:
        AwsProblem: AWS refused, it would refuse, or the link came out ill or late.
    """
    check_paths(wanted.path, wanted.data_repository_path)
    others = list(fsx.associations(client, file_system_ids=[wanted.file_system_id]))
    found = _found(others, wanted.path)
    if found and found.lifecycle == "DELETING":
        if wait is None:
            raise AwsProblem(
                f"{found.id} of {found.place} is being deleted -> run again when it is gone, or set wait"
            )
        if not check:
            gone(client, found, wait)
        others.remove(found)
        found = None
    if found is None:
        return _create(client, wanted, others, check=check, wait=wait)
    return _change(client, wanted, found, check=check, wait=wait)


def absent(
    client: t.Any,
    file_system_id: str,
    path: str,
    *,
    delete_data: bool,
    check: bool,
    wait: Wait | None,
) -> Outcome:
    """See that a directory is linked to nothing; delete_data: and delete it in the file system. Raises AwsProblem."""
    check_paths(path, None)
    found = _found(fsx.associations(client, file_system_ids=[file_system_id]), path)
    before = settings(found)
    if found is None or check:
        return Outcome(found is not None and found.lifecycle != "DELETING", found, before, {})
    changed = found.lifecycle != "DELETING"
    if changed:
        fsx.call(
            client,
            "DeleteDataRepositoryAssociation",
            AssociationId=found.id,
            DeleteDataInFileSystem=delete_data,
        )
    if wait is not None:
        gone(client, found, wait)
        return Outcome(changed, None, before, {})
    return Outcome(changed, replace(found, lifecycle="DELETING"), before, {})


def gone(client: t.Any, one: Association, wait: Wait) -> None:
    """Wait until AWS no longer knows it. Raises AwsProblem."""

    def look() -> Association | None:
        try:
            return next(iter(fsx.associations(client, [one.id])), None)
        except AwsProblem as problem:
            if problem.code == "DataRepositoryAssociationNotFound":
                return None
            raise

    def done(seen: Association | None) -> bool:
        if seen is not None and seen.lifecycle == "FAILED" and one.lifecycle != "FAILED":
            raise AwsProblem(_ill(seen), code="FAILED")
        return seen is None

    wait.until(look, done, lambda seen: f"{one.id} is still {seen.lifecycle if seen else 'there'}")


def usable(client: t.Any, one: Association, wait: Wait) -> Association:
    """Wait until it is AVAILABLE. Raises AwsProblem, also when it turns out ill."""

    def look() -> Association:
        try:
            return next(iter(fsx.associations(client, [one.id])), one)
        except AwsProblem as problem:
            # For a moment not every server of AWS knows a new one.
            if problem.code == "DataRepositoryAssociationNotFound":
                return one
            raise

    seen = wait.until(
        look,
        lambda seen: seen.lifecycle not in BUSY,
        lambda seen: f"{seen.id} of {seen.place} is still {seen.lifecycle}",
    )
    if seen.lifecycle in ILL:
        raise AwsProblem(_ill(seen), code=seen.lifecycle)
    return seen


def _ill(one: Association) -> str:
    why = f": {one.failure.rstrip('. ')}" if one.failure else ""
    return (
        f"{one.id}, which links {one.place} of {one.file_system_id} to {one.data_repository_path}, is "
        f"{one.lifecycle}{why} -> {association_remedy(one.lifecycle)}"
    )


def _found(all_of_it: t.Iterable[Association], path: str) -> Association | None:
    """The one of this directory; a living one before one that is being deleted."""
    here = [one for one in all_of_it if one.place == directory(path)]
    return min(here, key=lambda one: one.lifecycle == "DELETING", default=None)


# --- a new one ----------------------------------------------------------------------------------------------------


def _create(
    client: t.Any,
    wanted: Wanted,
    others: list[Association],
    *,
    check: bool,
    wait: Wait | None,
) -> Outcome:
    if wanted.data_repository_path is None:
        raise AwsProblem(
            f"{wanted.file_system_id} has no link at {wanted.path} yet -> give data_repository_path, the place in S3"
        )
    _check_room(wanted, others)
    check_file_system(next(iter(fsx.file_systems(client, [wanted.file_system_id]))))
    planned = Association(
        id="",
        arn="",
        file_system_id=wanted.file_system_id,
        file_cache_id="",
        lifecycle="",
        failure="",
        path=wanted.path,
        data_repository_path=wanted.data_repository_path,
        type="S3",
        auto_import=ordered(wanted.auto_import or ()),
        auto_export=ordered(wanted.auto_export or ()),
        chunk_size=wanted.chunk_size,
        import_metadata=wanted.import_metadata,
        created="",
        tags=dict(wanted.tags or {}),
    )
    if check:
        return Outcome(True, None, {}, settings(planned))
    request: dict[str, t.Any] = {
        "FileSystemId": wanted.file_system_id,
        "FileSystemPath": wanted.path,
        "DataRepositoryPath": wanted.data_repository_path,
        "BatchImportMetaDataOnCreate": wanted.import_metadata,
    }
    policies = _policies(wanted.auto_import, wanted.auto_export)
    if policies:
        request["S3"] = policies
    if wanted.chunk_size is not None:
        request["ImportedFileChunkSize"] = wanted.chunk_size
    if wanted.tags:
        request["Tags"] = ansible_dict_to_boto3_tag_list(dict(wanted.tags))
    # boto3 adds a ClientRequestToken, so that a call it repeats makes no second one.
    made = fsx_records.association(
        fsx.call(client, "CreateDataRepositoryAssociation", **request)["Association"]
    )
    if wait is not None:
        made = usable(client, made, wait)
    return Outcome(True, made, {}, settings(made))


def check_file_system(fs: FileSystem) -> None:
    """Refuse a file system that cannot be linked, with the reason, before AWS does. Raises AwsProblem."""
    why = ""
    if fs.type != "LUSTRE":
        why = f"is {fs.type}, and only FSx for Lustre links directories to S3"
    elif fs.deployment_type == "SCRATCH_1":
        why = "is SCRATCH_1, which takes its one bucket when it is made"
    elif fs.type_version == "2.10":
        why = "is of Lustre 2.10, which takes its one bucket when it is made"
    elif fs.storage_type == "INTELLIGENT_TIERING":
        why = "is of the storage class Intelligent-Tiering, which links to no bucket"
    elif fs.data_repository:
        why = f"was made with a link to {fs.data_repository.import_path} of its own"
    if why:
        raise AwsProblem(
            f"{fs.id} {why} -> use a SCRATCH_2 or PERSISTENT file system that was made without a link"
        )
    if fs.lifecycle not in fsx_records.USABLE:
        said = f" ({fs.failure.rstrip('. ')})" if fs.failure else ""
        raise AwsProblem(f"{fs.id} is {fs.lifecycle}{said} -> run again when it is AVAILABLE")


def _check_room(wanted: Wanted, others: list[Association]) -> None:
    place = directory(wanted.path)
    bucket = (wanted.data_repository_path or "").rstrip("/")
    for one in others:
        here, there = place.rstrip("/") + "/", one.place.rstrip("/") + "/"
        if here.startswith(there) or there.startswith(here):
            raise AwsProblem(
                f"file_system_path: {place} overlaps with {one.place}, which {one.id} links to "
                f"{one.data_repository_path} -> give a directory that lies neither in nor above it"
            )
        if one.data_repository_path.rstrip("/") == bucket:
            raise AwsProblem(
                f"data_repository_path: {bucket} is linked to {one.place} by {one.id} -> each prefix can be linked "
                "once; give another, or remove that link"
            )
    if len(others) >= LIMIT:
        raise AwsProblem(
            f"{wanted.file_system_id} has {len(others)} links, the most that AWS allows -> remove one "
            f"({', '.join(one.place for one in others)}), or link a directory above several"
        )


def _policies(
    auto_import: t.Sequence[str] | None, auto_export: t.Sequence[str] | None
) -> dict[str, t.Any]:
    policies = {"AutoImportPolicy": auto_import, "AutoExportPolicy": auto_export}
    return {
        name: {"Events": ordered(events)} for name, events in policies.items() if events is not None
    }


# --- one that is there --------------------------------------------------------------------------------------------


def _change(
    client: t.Any, wanted: Wanted, found: Association, *, check: bool, wait: Wait | None
) -> Outcome:
    asked = wanted.data_repository_path
    if asked is not None and asked.rstrip("/") != found.data_repository_path.rstrip("/"):
        raise AwsProblem(
            f"{found.id} links {found.place} to {found.data_repository_path}, and AWS cannot move it to {asked} -> "
            "remove it (state: absent, which keeps the files), then create it anew"
        )
    if found.lifecycle == "FAILED":
        raise AwsProblem(_ill(found), code="FAILED")
    after = replace(
        found,
        auto_import=_kept(wanted.auto_import, found.auto_import),
        auto_export=_kept(wanted.auto_export, found.auto_export),
        chunk_size=found.chunk_size if wanted.chunk_size is None else wanted.chunk_size,
    )
    to_set, to_unset = (
        ({}, [])
        if wanted.tags is None
        else compare_aws_tags(found.tags, dict(wanted.tags), wanted.purge_tags)
    )
    tags = {key: value for key, value in found.tags.items() if key not in to_unset}
    after = replace(after, tags={**tags, **to_set})
    update = {**settings(after), "tags": None} != {**settings(found), "tags": None}
    # AWS looks at an ill one again only after a quarter of an hour, or when it is updated.
    update |= found.lifecycle == "MISCONFIGURED" and wait is not None
    changed = bool(update or to_set or to_unset)
    if check:
        return Outcome(changed, found, settings(found), settings(after))
    now = found
    if update:
        if wait is not None and found.lifecycle in BUSY:
            usable(client, found, wait)
        now = _update(client, after)
    if to_unset:
        fsx.call(client, "UntagResource", ResourceARN=found.arn, TagKeys=to_unset)
    if to_set:
        fsx.call(
            client,
            "TagResource",
            ResourceARN=found.arn,
            Tags=ansible_dict_to_boto3_tag_list(to_set),
        )
    if wait is not None and now.lifecycle != "AVAILABLE":
        now = usable(client, now, wait)
    now = replace(now, tags=after.tags)
    return Outcome(changed, now, settings(found), settings(now))


def _kept(asked: t.Sequence[str] | None, now: list[str]) -> list[str]:
    return ordered(now if asked is None else asked)


def _update(client: t.Any, after: Association) -> Association:
    """Send all settings, since AWS does not document what happens to omitted ones."""
    request: dict[str, t.Any] = {
        "AssociationId": after.id,
        "S3": _policies(after.auto_import, after.auto_export),
    }
    if after.chunk_size is not None:
        request["ImportedFileChunkSize"] = after.chunk_size
    answer = fsx.call(client, "UpdateDataRepositoryAssociation", **request)
    return fsx_records.association(answer["Association"])
