# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The data read from EC2's answers, compared with botocore's own parser on the same bytes."""

from __future__ import annotations

from typing import Any
from xml.parsers.expat import ExpatError

import boto3
import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import answers, errors
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.instances import instances, read
from botocore.config import Config
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.aws.instances import instance, pages_of, replay, reservation
from tests.fixtures.aws.server import Aws


def plain(aws: Aws) -> Any:
    settings = Config(**answers.config())
    return boto3.client(
        "ec2", region_name="eu-west-1", endpoint_url=aws.url, config=settings, **aws.credentials
    )


def client(aws: Aws) -> Any:
    return answers.checked(plain(aws))


def slim(one: dict[str, Any], owner: str) -> dict[str, Any]:
    """botocore's result, in our form."""
    kinds = [interface.get("InterfaceType") for interface in one["NetworkInterfaces"]]
    found = {
        "id": one["InstanceId"],
        "type": one["InstanceType"],
        "state": one["State"]["Name"],
        "zone": one["Placement"]["AvailabilityZone"],
        "placement_group": one["Placement"]["GroupName"],
        "subnet": one.get("SubnetId"),
        "vpc": one.get("VpcId"),
        "private_ip": one.get("PrivateIpAddress"),
        "public_ip": one.get("PublicIpAddress"),
        "private_dns": one["PrivateDnsName"],
        "public_dns": one["PublicDnsName"],
        "architecture": one["Architecture"],
        "lifecycle": one.get("InstanceLifecycle"),
        "reservation": one.get("CapacityReservationId"),
        "owner": owner,
        "launched": one["LaunchTime"].strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    }
    tags = {tag["Key"]: tag["Value"] for tag in one["Tags"]}
    return {
        **{name: value for name, value in found.items() if value},
        "tags": tags,
        "efa": sum(kind in ("efa", "efa-only") for kind in kinds),
    }


TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)


def test_the_same_as_botocore_reads() -> None:
    listed = [
        instance(1, efa=32, CapacityReservationId="cr-1", InstanceLifecycle="capacity-block"),
        instance(2, {"Name": "a <b> & 'c'", "empty": ""}, PublicIpAddress="198.51.100.7"),
        instance(3, {"naïve": "名前"}, State={"Code": 80, "Name": "stopped"}),
        instance(4, efa=1, InstanceLifecycle="spot"),
    ]
    with Aws() as aws:
        whole = [reservation(*listed[:2]), reservation(*listed[2:], owner="999999999999")]
        aws.pages("ec2", "DescribeInstances", "Reservations", whole, size=1)
        parsed = plain(aws).get_paginator("describe_instances").paginate().build_full_result()
        ours = list(instances(client(aws), {}))
    theirs = [slim(one, r["OwnerId"]) for r in parsed["Reservations"] for one in r["Instances"]]
    assert ours == theirs
    assert [one["efa"] for one in ours] == [32, 0, 0, 1]


@given(st.dictionaries(TEXT, TEXT, max_size=4), st.integers(0, 3))
def test_any_tags_come_through(tags: dict[str, str], efa: int) -> None:
    (body,) = pages_of([instance(7, tags, efa)])
    (one,), token = read(body)
    assert (one["tags"], one["efa"], token) == (tags, efa, "")


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda body: body.replace(b"<networkInterfaceSet>", b"<networkInterfaceSet >"),
        lambda body: body.replace(b"<requestId>", b"<!-- <networkInterfaceSet> --><requestId>"),
        lambda body: body.replace(b">gpu-1<", b"><![CDATA[<networkInterfaceSet>]]><"),
        lambda body: body.replace(b"><", b">\n    <"),
        lambda body: body.decode().replace("UTF-8", "UTF-16").encode("utf-16"),
    ],
)
def test_interfaces_count_in_whatever_way_they_are_written(rewrite: Any) -> None:
    (body,) = pages_of([instance(1, efa=3), instance(2, efa=0), instance(3, efa=16)])
    changed = rewrite(body)
    assert changed != body
    found, _token = read(changed)
    assert [one["efa"] for one in found] == [3, 0, 16]


def test_what_is_cut_off_is_no_answer() -> None:
    (body,) = pages_of([instance(number, efa=2) for number in range(3)])
    for end in (0, 50, len(body) // 2, len(body) - 1):
        with pytest.raises(ExpatError):
            read(body[:end])


def test_pages_and_filters() -> None:
    listed = [instance(number) for number in range(5)]
    with Aws() as aws:
        replay(aws, pages_of(listed, 2))
        found = list(instances(client(aws), {"tag:a": ["b", "c"]}))
        asked = [call.params for call in aws.calls]
    assert [one["id"] for one in found] == [one["InstanceId"] for one in listed]
    assert len(asked) == 3 and all(call["MaxResults"] == 1000 for call in asked)
    assert all(call["Filters"] == [{"Name": "tag:a", "Values": ["b", "c"]}] for call in asked)


def test_no_instances() -> None:
    with Aws() as aws:
        replay(aws, pages_of([]))
        assert list(instances(client(aws), {})) == []


def test_an_error_is_botocore_s() -> None:
    with Aws() as aws:
        aws.fail("ec2", "DescribeInstances", "UnauthorizedOperation", "no")
        with (
            pytest.raises(
                errors.AwsProblem, match="the permission ec2:DescribeInstances is missing"
            ),
            errors.explained("ec2", "DescribeInstances", "eu-west-1"),
        ):
            list(instances(client(aws), {}))


def test_a_proxy_s_page_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _seconds: None)
    with Aws() as aws:
        aws.on("ec2", "DescribeInstances", lambda _call: b"<html><br>Please sign in</html>")
        said = "in eu-west-1: the response .* look at the proxy"
        with (
            pytest.raises(errors.AwsProblem, match=said),
            errors.explained("ec2", "DescribeInstances", "eu-west-1"),
        ):
            list(instances(client(aws), {}))
        assert len(aws.calls) == errors.RETRIES["total_max_attempts"]
