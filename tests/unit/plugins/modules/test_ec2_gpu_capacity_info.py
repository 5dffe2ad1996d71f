# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module ec2_gpu_capacity_info: reservations, capacity blocks, quotas, and permissions that are missing."""

from __future__ import annotations

import datetime
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.modules import ec2_gpu_capacity_info as module

from tests.fixtures.aws.server import Aws, Call, Fault, Params

from .aws import ACCOUNT, REGION, Run, runner, serve_types, serving

UTC = datetime.timezone.utc
START = datetime.datetime(2026, 11, 20, 11, 30, tzinfo=UTC)
END = datetime.datetime(2026, 12, 4, 11, 30, tzinfo=UTC)
LIMITS = {"L-417A185B": 1152.0, "L-DB2E81BA": 768.0}


def reservation(name: str, kind: str, total: int, free: int, **more: t.Any) -> dict[str, t.Any]:
    return {
        "CapacityReservationId": f"cr-{name}",
        "OwnerId": ACCOUNT,
        "InstanceType": kind,
        "AvailabilityZone": "us-east-2a",
        "AvailabilityZoneId": "use2-az1",
        "TotalInstanceCount": total,
        "AvailableInstanceCount": free,
        "State": "active",
        "StartDate": START,
        "InstanceMatchCriteria": "targeted",
        "ReservationType": "default",
        "Tags": [{"Key": "Name", "Value": name}],
        **more,
    }


BLOCK = {"ReservationType": "capacity-block", "EndDate": END, "CapacityBlockId": "cb-one"}
RESERVATIONS = [
    reservation("steady", "p5.48xlarge", 4, 1),
    reservation("block", "p5en.48xlarge", 16, 4, **BLOCK),
    reservation("later", "p6-b200.48xlarge", 8, 0, State="scheduled", **BLOCK),
    reservation("web", "c7i.large", 10, 10),
    reservation("shared", "p4d.24xlarge", 2, 2, OwnerId="999999999999"),
]


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Aws]:
    def reservations(call: Call) -> Params:
        kept = {f["Name"]: f["Values"] for f in call.params.get("Filters", [])}
        return {
            "CapacityReservations": [
                one for one in RESERVATIONS if one["State"] in kept.get("state", [one["State"]])
            ]
        }

    def quota(call: Call) -> Params:
        code = call.params["QuotaCode"]
        if code not in LIMITS:
            raise Fault(
                "NoSuchResourceException", "The request failed because the quota does not exist."
            )
        return {"Quota": {"QuotaCode": code, "Value": LIMITS[code]}}

    def instance(kind: str, **more: str) -> dict[str, t.Any]:
        return {"InstanceId": "i-0123456789abcdef0", "InstanceType": kind, **more}

    with serving(monkeypatch) as server:
        serve_types(server)
        server.on("ec2", "DescribeCapacityReservations", reservations)
        blocks = [
            {"CapacityBlockId": "cb-one", "CapacityReservationIds": ["cr-block"], "State": "active",
             "UltraserverType": "", "StartDate": START, "EndDate": END},
            {"CapacityBlockId": "cb-other", "CapacityReservationIds": ["cr-other"]},
        ]  # fmt: skip
        server.on("ec2", "DescribeCapacityBlocks", {"CapacityBlocks": blocks})
        running = [
            instance("p5.48xlarge"), instance("p5.48xlarge"), instance("p5.48xlarge"),
            instance("p5en.48xlarge", InstanceLifecycle="capacity-block"),
            instance("g5.8xlarge"), instance("g6.xlarge", InstanceLifecycle="spot"),
            instance("gr6.4xlarge"),
        ]  # fmt: skip
        server.on("ec2", "DescribeInstances", {"Reservations": [{"Instances": running}]})
        server.on("servicequotas", "GetServiceQuota", quota)
        default = {"Quota": {"QuotaCode": "L-2C3B7624", "Value": 256.0}}
        server.on("servicequotas", "GetAWSDefaultServiceQuota", default)
        server.on("sts", "GetCallerIdentity", {"Account": ACCOUNT})
        yield server


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, aws: Aws) -> Run:
    return runner(capsys, monkeypatch, aws)


def test_what_is_reserved_and_free(run: Run) -> None:
    result = run(module, region=REGION)
    by_name = {one["name"]: one for one in result["reservations"]}
    assert set(by_name) == {"steady", "block", "later", "shared"}, "without types that have no GPU"
    block = by_name["block"]
    assert (block["type"], block["total"], block["used"], block["available"]) == (
        "capacity-block", 16, 12, 4,
    )  # fmt: skip
    assert (block["gpu_model"], block["gpus_per_instance"], block["gpus_free"]) == ("H200", 8, 32)
    assert (block["start"], block["end"]) == ("2026-11-20T11:30:00Z", "2026-12-04T11:30:00Z")
    assert by_name["steady"]["type"] == "on-demand" and by_name["steady"]["end"] is None
    assert by_name["later"]["gpus_free"] == 0, "not before it is active"
    assert result["gpus_free"] == 8 + 32 + 16
    assert [one["id"] for one in result["capacity_blocks"]] == ["cb-one"], "of these reservations"
    assert (result["account"], result["region"], result["warnings"]) == (ACCOUNT, REGION, [])


def test_quotas_count_what_counts(run: Run) -> None:
    p, g, trn = run(module, region=REGION)["quotas"]
    # Three p5 run and one reserved is idle; the idle ones shared by another account are not ours.
    assert p == {
        "name": "Running On-Demand P instances", "code": "L-417A185B",
        "limit_vcpus": 1152, "used_vcpus": 4 * 192, "free_vcpus": 384,
    }  # fmt: skip
    assert (g["limit_vcpus"], g["used_vcpus"]) == (768, 32 + 16), "g5 and gr6, not the spot g6"
    assert (trn["limit_vcpus"], trn["used_vcpus"], trn["free_vcpus"]) == (256, 0, 256)


def test_filters_go_to_ec2_and_quotas_can_be_left_out(run: Run, aws: Aws) -> None:
    result = run(
        module, region=REGION, quotas=False, gpus_only=False, reservation_ids=["cr-steady"],
        instance_types=["p5*"], states=["active"],
    )  # fmt: skip
    assert result["quotas"] is None and result["account"] is None
    assert "web" in {one["name"] for one in result["reservations"]}
    asked = aws.calls[0].params
    assert asked["CapacityReservationIds"] == ["cr-steady"]
    assert asked["Filters"] == [
        {"Name": "instance-type", "Values": ["p5*"]},
        {"Name": "state", "Values": ["active"]},
    ]
    assert aws.actions == {
        "ec2:DescribeCapacityReservations", "ec2:DescribeInstanceTypes", "ec2:DescribeCapacityBlocks",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("service", "operation", "code"),
    [
        ("servicequotas", "GetServiceQuota", "AccessDeniedException"),
        ("ec2", "DescribeInstances", "UnauthorizedOperation"),
        ("ec2", "DescribeCapacityBlocks", "UnauthorizedOperation"),
        ("ec2", "DescribeInstanceTypes", "UnauthorizedOperation"),
        ("sts", "GetCallerIdentity", "AccessDenied"),
    ],
)
def test_a_permission_that_may_be_missing_is_a_warning_and_null(
    run: Run, aws: Aws, service: str, operation: str, code: str
) -> None:
    aws.fail(service, operation, code, "no", status=403)
    result = run(module, region=REGION)
    assert not result.get("failed")
    (warning,) = set(result["warnings"])
    assert f"the permission {service}:{operation} is missing" in warning and REGION in warning
    p, _g, trn = result["quotas"]
    if operation == "GetServiceQuota":
        assert p["limit_vcpus"] is None is p["free_vcpus"] and p["used_vcpus"] == 768
    elif operation == "DescribeInstances":
        assert p["used_vcpus"] is None is p["free_vcpus"] and p["limit_vcpus"] == 1152
    elif operation == "DescribeCapacityBlocks":
        assert result["capacity_blocks"] is None
    elif operation == "DescribeInstanceTypes":
        assert p["used_vcpus"] == 768, "from the table"
        assert result["gpus_free"] == 56
    else:
        assert result["account"] is None and trn["used_vcpus"] == 0


def test_a_region_without_capacity_blocks_is_a_warning(run: Run, aws: Aws) -> None:
    aws.fail("ec2", "DescribeCapacityBlocks", "UnsupportedOperation", "not here")
    result = run(module, region=REGION, quotas=False)
    assert result["capacity_blocks"] is None and len(result["warnings"]) == 1


@pytest.mark.parametrize(
    ("service", "operation", "code", "said"),
    [
        ("ec2", "DescribeCapacityReservations", "UnauthorizedOperation", "the permission"),
        ("ec2", "DescribeCapacityReservations", "InvalidCapacityReservationId.NotFound", "check the ids"),
        ("servicequotas", "GetServiceQuota", "ExpiredTokenException", "the credentials have expired"),
    ],
)  # fmt: skip
def test_what_must_be_there_fails_with_its_remedy(
    run: Run, aws: Aws, service: str, operation: str, code: str, said: str
) -> None:
    aws.fail(service, operation, code, "no")
    result = run(module, region=REGION)
    assert result["failed"] and said in result["msg"] and " -> " in result["msg"]
    assert result["msg"].startswith(f"{service}:{operation} in {REGION}: ")
    assert (result["action"], result["code"]) == (f"{service}:{operation}", code)
