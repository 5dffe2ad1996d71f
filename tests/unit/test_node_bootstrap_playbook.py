# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""playbooks/node_bootstrap.yml: the places that it refuses, and its copies in S3, which is moto's."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import boto3
import pytest
import yaml
from moto.server import ThreadedMotoServer

from tests.unit import test_dataset_playbooks
from tests.unit.test_dataset_playbooks import ROOT

PLAYBOOK = ROOT / "playbooks" / "node_bootstrap.yml"
ACCESS = {
    "aws_access_key_id": "AKIDTEST",
    "aws_secret_access_key": "not-a-secret",
    "region_name": "eu-west-1",
}


@pytest.fixture
def moto() -> t.Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()


def run(
    tmp_path: Path, *names: str, url: str = "", check: bool = False, **variables: t.Any
) -> tuple[int, str]:
    """Run tasks of its last play on this host, with a bundle that another task would have made."""
    last = yaml.safe_load(PLAYBOOK.read_text(encoding="utf-8"))[-1]
    last["tasks"] = [task for task in last["tasks"] if task["name"] in names]
    assert len(last["tasks"]) == len(names)
    last.update(hosts="login1", become=False)
    (tmp_path / "play.yml").write_text(yaml.safe_dump([last]), encoding="utf-8")
    bundle = tmp_path / "node-bundle-0123456789ab.tar.gz"
    bundle.write_bytes(b"bundle")
    given = {
        "node_bundle": {"path": str(bundle), "sha256": "7" * 64, "python": 11, "size": 6},
        "__node_bootstrap_source": str(ROOT / "playbooks" / "files" / "node_bootstrap"),
        **variables,
    }
    play = str(tmp_path / "play")
    more = ["--check"] if check else []
    return test_dataset_playbooks.play(tmp_path, play, given, *more, AWS_ENDPOINT_URL_S3=url)


def test_both_are_copied_to_s3_once(moto: str, tmp_path: Path) -> None:
    s3 = boto3.client("s3", endpoint_url=moto, **ACCESS)
    place = {"LocationConstraint": "eu-west-1"}
    s3.create_bucket(Bucket="site", CreateBucketConfiguration=place)
    for changed in ("changed=1", "changed=0"):
        code, said = run(tmp_path, "Copy both to S3", url=moto, node_bootstrap_s3="s3://site/a/b")
        assert code == 0 and changed in said, said
    body = {
        one["Key"]: s3.get_object(Bucket="site", Key=one["Key"])["Body"].read()
        for one in s3.list_objects_v2(Bucket="site")["Contents"]
    }
    assert set(body) == {"a/b/node-bundle-0123456789ab.tar.gz", "a/b/node-bootstrap"}
    assert body["a/b/node-bundle-0123456789ab.tar.gz"] == b"bundle"
    lines = body["a/b/node-bootstrap"].decode().splitlines()
    assert lines[0] == "#!/bin/sh" and f"sha256={'7' * 64}" in lines and "minor=11" in lines


def test_check_mode_does_not_miss_the_bundle_that_it_does_not_make(
    moto: str, tmp_path: Path
) -> None:
    s3 = boto3.client("s3", endpoint_url=moto, **ACCESS)
    place = {"LocationConstraint": "eu-west-1"}
    s3.create_bucket(Bucket="checked", CreateBucketConfiguration=place)
    made = {"path": str(tmp_path / "none.tar.gz"), "sha256": "7" * 64, "python": 11, "size": 6}
    given = {"node_bootstrap_s3": "s3://checked/a", "node_bundle": made}
    code, said = run(tmp_path, "Copy both to S3", url=moto, check=True, **given)
    assert code == 0 and "changed=1" in said, said


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"node_bootstrap_s3": "s3://site", "node_bootstrap_path": "/shared/boot"}, 0),
        ({"node_bootstrap_s3": "https://site/a"}, 2),
        ({"node_bootstrap_path": "shared"}, 2),
    ],
)
def test_places_that_nodes_cannot_use(tmp_path: Path, given: dict[str, str], code: int) -> None:
    got, said = run(tmp_path, "Refuse wrong values", "Refuse places that nodes cannot use", **given)
    assert got == code, said
    assert ("-> node_bootstrap_path is an absolute path" in " ".join(said.split())) == bool(code)


def test_credentials_of_users_are_not_in_the_bundle() -> None:
    last = yaml.safe_load(PLAYBOOK.read_text(encoding="utf-8"))[-1]
    (task,) = (task for task in last["tasks"] if "trainwright.slurm.node_bundle" in task)
    assert task["trainwright.slurm.node_bundle"]["secrets"] == ["enroot_credentials"]
    assert json.dumps(last).count("enroot_credentials") == 1
