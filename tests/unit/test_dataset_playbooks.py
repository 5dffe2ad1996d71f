# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""playbooks/dataset.yml and results.yml, run unchanged: S3 is moto's, FSx the replay server's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from tests.fixtures.aws.server import Aws, Call, Params
from tests.unit.plugins.module_utils.data.run import client, content, make, many
from tests.unit.plugins.modules.fsx_world import FS, World, link

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = """\
slurm_cluster: {children: {slurm_login: {hosts: {login1: {ansible_connection: local}}}}}
"""


@pytest.fixture
def moto() -> t.Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def world() -> t.Iterator[World]:
    """An FSx in which time passes with each look."""
    with Aws() as aws:
        made = World(aws)
        made.born = [{"Lifecycle": "AVAILABLE"}]

        def looked(answer: t.Callable[[Call], Params]) -> t.Callable[[Call], Params]:
            def later(call: Call) -> Params:
                made.sleep(0)
                return answer(call)

            return later

        for name in ("DescribeDataRepositoryAssociations", "DescribeDataRepositoryTasks"):
            aws.on("fsx", name, looked(getattr(made, name)))
        made.aws = aws  # type: ignore[attr-defined]
        yield made


def play(
    tmp_path: Path, name: str, variables: dict[str, t.Any], *more: str, **environment: str
) -> tuple[int, str]:
    """Run a playbook on this host; return how it ends and what it prints."""
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(tmp_path / "hosts.yml"),
            str(ROOT / "playbooks" / f"{name}.yml"), "-e", json.dumps(variables),
            "-e", f"ansible_python_interpreter={sys.executable}", *more,
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"), "ANSIBLE_NOCOLOR": "1", "HOME": str(tmp_path),
            "AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "not-a-secret", "AWS_DEFAULT_REGION": "eu-west-1",
            "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
            "AWS_EC2_METADATA_DISABLED": "true", **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_a_data_set_goes_to_s3_and_into_fsx(moto: str, world: World, tmp_path: Path) -> None:
    source = many(tmp_path / "set", 12)
    # The files on nodes once FSx has imported them.
    mount = make(tmp_path / "fsx", content(source))
    validator = tmp_path / "judge"
    validator.write_text('#!/bin/sh\n[ "$1" = --strict ] && [ -e "$2/0/f00000" ]\n')
    validator.chmod(0o755)

    def create(call: Call) -> Params:
        world.born = [{"Lifecycle": "SUCCEEDED"}]
        return world.CreateDataRepositoryTask(call)

    world.aws.on("fsx", "CreateDataRepositoryTask", create)  # type: ignore[attr-defined]
    variables = {
        "dataset_source": str(source), "dataset_destination": "s3://example-new/set", "dataset_bucket": True,
        "dataset_validator": [str(validator), "--strict"], "dataset_file_system_id": FS,
        "dataset_file_system_path": "/datasets/set", "dataset_mount": str(mount), "dataset_sample": 3,
    }  # fmt: skip
    urls = {"AWS_ENDPOINT_URL_S3": moto, "AWS_ENDPOINT_URL_FSX": world.aws.url}  # type: ignore[attr-defined]
    code, said = play(tmp_path, "dataset", variables, **urls)
    assert code == 0, said
    assert "12 files, " in said and "12 sent at " in said and "12 verified by SHA256" in said
    s3 = client(moto)
    assert s3.list_objects_v2(Bucket="example-new")["KeyCount"] == 12
    closed = s3.get_public_access_block(Bucket="example-new")["PublicAccessBlockConfiguration"]
    assert set(closed.values()) == {True} and len(closed) == 4
    assert s3.get_bucket_encryption(Bucket="example-new")
    (made,) = world.links.values()
    assert (made["FileSystemPath"], made["DataRepositoryPath"]) == (
        "/datasets/set",
        "s3://example-new/set",
    )
    (task,) = world.tasks.values()
    assert task["Type"] == "IMPORT_METADATA_FROM_REPOSITORY" and task["Paths"] == [
        "s3://example-new/set"
    ]
    (mount / "0/f00000").unlink()
    code, said = play(tmp_path, "dataset", variables, **urls)
    assert code == 2 and "1 files of s3://example-new/set are not there (0/f00000)" in said


def test_a_data_set_that_the_validator_refuses_is_not_sent(tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"a": b"1"})
    validator = tmp_path / "judge"
    validator.write_text("#!/bin/sh\necho a has no label >&2\nexit 3\n")
    validator.chmod(0o755)
    variables = {
        "dataset_source": str(source), "dataset_destination": str(tmp_path / "nfs"),
        "dataset_validator": [str(validator)],
    }  # fmt: skip
    code, said = play(tmp_path, "dataset", variables)
    assert code == 2 and "judge refuses it and ended with 3: a has no label" in " ".join(
        said.split()
    )
    assert not (tmp_path / "nfs").exists()
    variables["dataset_validator"] = ["/nonexistent/judge"]
    code, said = play(tmp_path, "dataset", variables)
    assert code == 2 and not (tmp_path / "nfs").exists(), said


def test_a_data_set_goes_to_shared_storage(tmp_path: Path) -> None:
    source, there = many(tmp_path / "set", 8), tmp_path / "nfs"
    variables = {"dataset_source": str(source), "dataset_destination": str(there)}
    code, said = play(tmp_path, "dataset", variables, "--check")
    assert code == 0 and "8 sent" in said and not there.exists(), said
    code, said = play(tmp_path, "dataset", {**variables, "dataset_mount": str(there)})
    assert code == 0 and "8 sent" in said and content(there) == content(source), said


@pytest.mark.parametrize(
    ("variables", "wrong"),
    [
        ({}, "source or destination is missing"),
        ({"dataset_source": "/x", "dataset_destination": "/y", "dataset_bucket": True}, "not in S3"),
        ({"dataset_source": "/x", "dataset_destination": "s3://b", "dataset_file_system_id": FS}, "where in FSx"),
        ({"dataset_jobs": "many"}, "dataset_jobs"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, variables: dict[str, t.Any], wrong: str
) -> None:
    code, said = play(tmp_path, "dataset", variables)
    assert code == 2 and wrong in " ".join(said.split())


def test_check_mode_counts_what_goes_into_a_bucket_that_the_run_would_make(
    moto: str, tmp_path: Path
) -> None:
    source = make(tmp_path / "set", {"a": b"1", "b": b"2"})
    variables = {
        "dataset_source": str(source), "dataset_destination": "s3://to-be-made/set", "dataset_bucket": True,
    }  # fmt: skip
    where = {"AWS_ENDPOINT_URL_S3": moto}
    code, said = play(tmp_path, "dataset", variables, "--check", **where)
    assert code == 0 and "2 files, " in said and ": 2 sent at " in said, said
    assert "to-be-made" not in [one["Name"] for one in client(moto).list_buckets()["Buckets"]]
    # Without it, the real run would fail too.
    code, said = play(
        tmp_path, "dataset", {**variables, "dataset_bucket": False}, "--check", **where
    )
    assert code == 2 and "there is no such bucket" in said, said


def test_results_that_are_not_in_s3_are_named(moto: str, world: World, tmp_path: Path) -> None:
    results = make(
        tmp_path / "fsx",
        {"checkpoints/1.pt": b"1", "checkpoints/2.pt": b"2", "checkpoints/3.tmp": b""},
    )
    s3 = client(moto)
    s3.create_bucket(Bucket="out", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    s3.put_object(Bucket="out", Key="checkpoints/1.pt", Body=b"1")
    paths = [{"path": str(results / "checkpoints"), "s3": "s3://out/checkpoints"}]
    variables: dict[str, t.Any] = {"results_paths": paths, "results_exclude": ["*.tmp"]}
    urls = {"AWS_ENDPOINT_URL_S3": moto, "AWS_ENDPOINT_URL_FSX": world.aws.url}  # type: ignore[attr-defined]
    code, said = play(tmp_path, "results", variables, **urls)
    assert code == 2 and "2.pt" in said and "2 files, 1 missing, 0 others" in said, said
    assert "checkpoints: not all is in S3" in said
    code, said = play(tmp_path, "results", {**variables, "results_settle": 3600}, **urls)
    assert code == 0 and "2 too recent" in said, said

    # The export brings what is missing; the inventory knows the directory.
    s3.put_object(Bucket="out", Key="checkpoints/2.pt", Body=b"2")
    world.add(link(1, "/checkpoints", "s3://out/checkpoints"))
    world.born = [{"Lifecycle": "SUCCEEDED"}]
    known = [
        {**paths[0], "auto_import": [], "auto_export": ["NEW"]},
        {"path": "/x", "s3": "s3://x", "auto_export": []},
    ]
    variables = {
        "cluster_data_repositories": known, "results_exclude": ["*.tmp"], "results_file_system_id": FS,
        "results_export": ["checkpoints"],
    }  # fmt: skip
    code, said = play(tmp_path, "results", variables, **urls)
    assert code == 0 and "2 files, 0 missing" in said, said
    (task,) = world.tasks.values()
    assert task["Type"] == "EXPORT_TO_REPOSITORY" and task["Paths"] == ["checkpoints"]
    code, said = play(tmp_path, "results", {}, **urls)
    assert code == 2 and "no directory is known to be exported" in said


def test_results_that_cannot_be_compared_are_not_taken_for_saved(moto: str, tmp_path: Path) -> None:
    results = make(tmp_path / "fsx", {"run/1.pt": b"1"})
    (results / "empty").mkdir()
    make(tmp_path / "scratch", {"2.pt": b"2"})
    s3 = client(moto)
    s3.create_bucket(Bucket="kept", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    s3.put_object(Bucket="kept", Key="run/1.pt", Body=b"1")
    paths = [{"path": str(results / name), "s3": f"s3://kept/{name}"} for name in ("run", "empty")]
    where = {"AWS_ENDPOINT_URL_S3": moto}
    code, said = play(tmp_path, "results", {"results_paths": paths[:1]}, **where)
    assert code == 0, said
    code, said = play(tmp_path, "results", {"results_paths": paths}, **where)
    said = " ".join(said.split())
    assert code == 2 and "empty: no file on" in said and "run: no file" not in said, said
    (results / "run/old").symlink_to(tmp_path / "scratch")
    code, said = play(tmp_path, "results", {"results_paths": paths[:1]}, **where)
    said = " ".join(said.split())
    assert code == 2 and "old: a link to directories elsewhere" in said, said
    left_out = {"results_paths": paths[:1], "results_exclude": ["old"]}
    assert play(tmp_path, "results", left_out, **where)[0] == 0


def test_names_of_files_and_words_of_a_validator_do_not_command_the_terminal(
    tmp_path: Path,
) -> None:
    trap = "x\x1b]52;c;T1dORUQ=\x07\x1b[2K\nok: [localhost]"
    source, there = make(tmp_path / "set", {trap: b"1", "a": b"2"}), tmp_path / "nfs"
    mount = make(tmp_path / "mount", {"a": b"2"})
    variables: dict[str, t.Any] = {
        "dataset_source": str(source), "dataset_destination": str(there), "dataset_mount": str(mount),
    }  # fmt: skip
    code, said = play(tmp_path, "dataset", variables, "--diff")
    assert code == 2 and "1 files of " in said, said
    assert "are not there (x\\x1b]52;c;T1dORUQ=\\x07\\x1b[2K\\nok: [localhost])" in said
    assert "\x1b" not in said and "\x07" not in said
    validator = tmp_path / "judge"
    validator.write_text('#!/bin/sh\nls "$1" >&2\nexit 3\n')
    validator.chmod(0o755)
    code, said = play(tmp_path, "dataset", {**variables, "dataset_validator": [str(validator)]})
    assert code == 2 and "judge refuses it" in said and "x\\x1b]52;c;" in said, said
    assert "\x1b" not in said and "\x07" not in said
