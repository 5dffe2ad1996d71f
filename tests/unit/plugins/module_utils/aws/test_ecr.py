# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Repositories of ECR, made by moto."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import ecr
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import AwsProblem
from moto import mock_aws

REGISTRY = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    with mock_aws():
        yield


def names() -> dict[str, str]:
    found = boto3.client("ecr", region_name="eu-west-1").describe_repositories()["repositories"]
    return {one["repositoryName"]: one["imageTagMutability"] for one in found}


def test_a_repository_is_made_once_and_its_tags_do_not_move() -> None:
    assert ecr.ensure(REGISTRY, "team/train", check=True) and names() == {}
    assert ecr.ensure(REGISTRY, "team/train")
    assert names() == {"team/train": "IMMUTABLE"}
    assert not ecr.ensure(REGISTRY, "team/train")


def test_what_is_no_registry_of_ecr() -> None:
    for registry in (
        "registry.example.org",
        f"{REGISTRY}.example.org",
        "1.dkr.ecr.eu-west-1.amazonaws.com",
    ):
        with pytest.raises(AwsProblem, match="is not a registry of ECR -> "):
            ecr.ensure(registry, "team/train")


def test_what_aws_refuses_names_the_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.exceptions import ClientError

    made = boto3.client("ecr", region_name="eu-west-1")

    def denied(**_given: object) -> None:
        answer = {"Error": {"Code": "AccessDeniedException", "Message": "no"}}
        raise ClientError(answer, "CreateRepository")

    monkeypatch.setattr(made, "create_repository", denied)
    monkeypatch.setattr(ecr.boto3, "client", lambda *_given, **_more: made)
    with pytest.raises(AwsProblem, match="ecr:CreateRepository"):
        ecr.ensure(REGISTRY, "team/train")
