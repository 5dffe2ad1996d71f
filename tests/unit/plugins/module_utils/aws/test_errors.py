# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Messages of failed AWS calls, from answers that the real boto3 got over HTTP."""

from __future__ import annotations

import boto3
import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import (
    AwsProblem,
    explain,
    explained,
)
from botocore.config import Config

from tests.fixtures.aws.server import Aws

DENIED = (
    "You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/ops is not authorized to "
    "perform: ec2:DescribeInstances because no identity-based policy allows it. Encoded authorization failure "
    "message: 8fQ"
)


def ask(
    aws: Aws,
    service: str = "ec2",
    operation: str = "DescribeInstances",
    method: str = "describe_instances",
) -> str:
    client = boto3.client(
        service,
        region_name="eu-west-1",
        endpoint_url=aws.url,
        config=Config(retries={"total_max_attempts": 1, "mode": "standard"}),
        **aws.credentials,
    )
    with pytest.raises(AwsProblem) as caught, explained(service, operation, "eu-west-1"):
        getattr(client, method)()
    return str(caught.value)


@pytest.mark.parametrize(
    ("code", "message", "said"),
    [
        ("UnauthorizedOperation", DENIED,
         "ec2:DescribeInstances in eu-west-1: the permission ec2:DescribeInstances is missing for "
         "arn:aws:iam::123456789012:user/ops -> allow it in their policy (docs/aws.md has it whole)"),
        ("RequestExpired", "Request has expired.",
         "ec2:DescribeInstances in eu-west-1: the credentials have expired -> get new ones (aws sso login, or assume "
         "the role again) and run again"),
        ("AuthFailure", "AWS was not able to validate the provided access credentials", "has eu-west-1 enabled"),
        ("OptInRequired", "You are not subscribed to this service", "leave this region out"),
        ("InvalidParameterValue", "The filter 'x' is invalid.", "InvalidParameterValue: The filter 'x' is invalid"),
    ],
)  # fmt: skip
def test_what_it_says(code: str, message: str, said: str) -> None:
    with Aws() as aws:
        aws.fail("ec2", "DescribeInstances", code, message)
        assert said in ask(aws)


def test_calls_of_the_json_protocol_name_their_action() -> None:
    with Aws() as aws:
        aws.fail("fsx", "DescribeFileSystems", "AccessDeniedException", "not authorized")
        message = ask(aws, "fsx", "DescribeFileSystems", "describe_file_systems")
    assert "the permission fsx:DescribeFileSystems is missing for these credentials" in message


def test_throttling_is_said_after_the_last_try() -> None:
    with Aws() as aws:
        aws.fail(
            "ec2",
            "DescribeInstances",
            "RequestLimitExceeded",
            "Request limit exceeded.",
            status=503,
        )
        message = ask(aws)
        assert len(aws.calls) == 1
    assert "too many calls (RequestLimitExceeded)" in message


def test_no_connection_is_said_with_its_remedy() -> None:
    with Aws() as aws:
        pass
    assert "no connection" in ask(aws)


def test_an_answer_that_the_service_model_does_not_allow_is_a_fault_of_the_test() -> None:
    with (
        pytest.raises(AssertionError, match="fsx:DescribeFileSystems: .*FileSystemId"),
        Aws() as aws,
    ):
        aws.on("fsx", "DescribeFileSystems", {"FileSystems": [{"FileSystemId": "fs-1"}]})
        client = boto3.client(
            "fsx", region_name="eu-west-1", endpoint_url=aws.url, **aws.credentials
        )
        client.describe_file_systems()


def test_an_error_without_an_answer_keeps_its_words() -> None:
    assert str(explain(ValueError("odd"), "ec2", "DescribeRegions")) == "ec2:DescribeRegions: odd"
