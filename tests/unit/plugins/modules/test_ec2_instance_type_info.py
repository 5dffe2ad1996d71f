# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module ec2_instance_type_info: from EC2, from the table, from a site's own lines."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware import machine_types
from ansible_collections.trainwright.slurm.plugins.modules import ec2_instance_type_info as module

from tests.fixtures.aws.server import Aws

from .aws import REGION, Run, recorded_types, runner, serve_types, serving


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Aws]:
    with serving(monkeypatch) as server:
        serve_types(server)
        yield server


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, aws: Aws
) -> Run:  # fmt: skip
    return runner(capsys, monkeypatch, aws)


def test_ec2_answers_by_name_and_the_table_what_it_lacks(run: Run, aws: Aws) -> None:
    names = ["p5.48xlarge", "c7gd.xlarge", "p6e-gb200.36xlarge", "x9.large"]
    result = run(module, names=names, region=REGION)
    origins = {name: one["origin"] for name, one in result["instance_types"].items()}
    assert origins == {"p5.48xlarge": "api", "c7gd.xlarge": "api", "p6e-gb200.36xlarge": "table"}
    assert result["missing"] == ["x9.large"]
    assert result["instance_types"]["p5.48xlarge"]["gpus"] == {
        "model": "H100", "count": 8, "memory_mib": 81920,
    }  # fmt: skip
    assert not result.get("warnings")
    assert [call.region for call in aws.calls] == [REGION] * 2, (
        "once refused, once without the unknown"
    )


def test_many_names_go_in_batches(run: Run, aws: Aws) -> None:
    names = sorted(recorded_types())[:250]
    result = run(module, names=names, region=REGION)
    assert len(result["instance_types"]) == 250
    assert [len(call.params["InstanceTypes"]) for call in aws.calls] == [100, 100, 50]


def test_a_family_is_read_over_pages(run: Run, aws: Aws) -> None:
    serve_types(aws, size=3)
    result = run(module, families=["g6e"], region=REGION, source="api")
    assert len(result["instance_types"]) == 8 and len(aws.calls) == 3
    assert {one["family"] for one in result["instance_types"].values()} == {"g6e"}


def test_without_names_all_types_with_gpus_or_trainium_come(run: Run) -> None:
    found = run(module, region=REGION)["instance_types"]
    assert set(machine_types.table()) <= set(found)
    assert {"trn2.48xlarge", "dgx-h100"} <= set(found) and "c7gd.xlarge" not in found
    assert all(one["gpus"] or one["neuron"] for one in found.values())


def test_gpu_filters(run: Run) -> None:
    with_gpus = run(module, gpu=True, source="table")["instance_types"]
    without = run(module, gpu=False, source="table")["instance_types"]
    assert set(with_gpus) | set(without) == set(machine_types.table())
    assert set(without) == {name for name in machine_types.table() if name.startswith("trn")}


def test_the_table_needs_neither_credentials_nor_region(
    run: Run, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    result = run(module, names=["g5.8xlarge"], source="table")
    assert result["instance_types"]["g5.8xlarge"]["efa_interfaces"] == 1
    assert not aws.calls


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("UnauthorizedOperation", "the permission ec2:DescribeInstanceTypes is missing"),
        ("RequestExpired", "the credentials have expired"),
    ],
)
def test_where_ec2_cannot_be_asked_the_table_answers_with_a_warning(
    run: Run, aws: Aws, code: str, said: str
) -> None:
    aws.fail("ec2", "DescribeInstanceTypes", code, "no")
    result = run(module, names=["p5.48xlarge"], region=REGION)
    assert result["instance_types"]["p5.48xlarge"]["origin"] == "table"
    (warning,) = result["warnings"]
    assert said in warning and f"in {REGION}" in warning
    failed = run(module, names=["p5.48xlarge"], region=REGION, source="api")
    assert failed["failed"] and said in failed["msg"] and failed["code"] == code
    assert failed["action"] == "ec2:DescribeInstanceTypes"


def test_without_a_region_the_table_answers_with_a_warning(run: Run, aws: Aws) -> None:
    result = run(module, names=["p5.48xlarge"])
    assert "no region is set -> " in result["warnings"][0] and not aws.calls
    assert run(module, names=["p5.48xlarge"], source="api")["failed"]


def test_no_credentials_is_a_warning_with_the_remedy(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    result = run(module, names=["p5.48xlarge"], region=REGION)
    assert "no usable credentials" in result["warnings"][0] and " -> " in result["warnings"][0]


def test_without_boto3_the_table_answers_with_a_warning(
    run: Run, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HAS_BOTO3", False)
    result = run(module, names=["p5.48xlarge"], region=REGION)
    assert result["instance_types"] and "-> pip install boto3" in result["warnings"][0]
    assert not run(module, names=["p5.48xlarge"], source="table")["warnings"] and not aws.calls


def test_lines_of_a_site_come_first(run: Run, aws: Aws) -> None:
    own = {
        "p5.48xlarge": {"nvme": None},
        "rack": {"vcpus": 64, "cores": 64, "memory_mib": 262144},
    }
    result = run(module, names=["p5.48xlarge", "rack"], region=REGION, machine_types=own)
    assert {one["origin"] for one in result["instance_types"].values()} == {"site"}
    assert result["instance_types"]["p5.48xlarge"]["nvme"] is None
    assert result["instance_types"]["p5.48xlarge"]["vcpus"] == 192
    assert not aws.calls


def test_a_wrong_line_of_a_site_fails_before_anything_is_asked(run: Run, aws: Aws) -> None:
    result = run(module, machine_types={"rack": {"cpus": 4}}, region=REGION)
    assert (
        result["failed"] and "machine_types['rack'].cpus: no field has that name" in result["msg"]
    )
    assert not aws.calls


def test_a_throttled_call_is_tried_again(run: Run, aws: Aws) -> None:
    aws.fail("ec2", "DescribeInstanceTypes", "RequestLimitExceeded", "slow", status=503, times=4)
    result = run(module, names=["p5.48xlarge"], region=REGION, source="api")
    assert result["instance_types"] and len(aws.calls) == 5
