# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The table of machine types: held against a recording of EC2's answers; and a site's own lines."""

from __future__ import annotations

import dataclasses
import gzip
import json
import typing as t
from functools import cache
from pathlib import Path

import moto
import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware.machine_types import (
    Devices,
    MachineType,
    MachineTypeError,
    Nvme,
    find,
    from_api,
    row_of,
    site_types,
    table,
)

#: Fields that EC2's DescribeInstanceTypes returns.
FIELDS = (
    "architecture", "vcpus", "cores", "threads_per_core", "memory_mib", "gpus", "neuron", "efa_interfaces", "nvme",
)  # fmt: skip


@cache
def recording() -> dict[str, t.Any]:
    path = Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz"
    with gzip.open(path) as file:
        return t.cast("dict[str, t.Any]", json.load(file))


EC2_TYPES = [name for name in table() if "." in name]


@pytest.mark.parametrize("name", [name for name in EC2_TYPES if name in recording()])
def test_our_line_is_what_ec2_said(name: str) -> None:
    ours, said = table()[name], from_api(recording()[name])
    doubts = {doubt.split(".")[0] for doubt in ours.unverified}
    for field in FIELDS:
        if field not in doubts:
            assert getattr(ours, field) == getattr(said, field), field
    for doubt in ours.unverified:
        if "." in doubt:  # only a part is in doubt, so the rest holds
            mine, theirs = getattr(ours, doubt.split(".")[0]), getattr(said, doubt.split(".")[0])
            assert (mine.model, mine.count) == (theirs.model, theirs.count)


def test_every_gpu_type_that_ec2_knows_has_a_line() -> None:
    """Of those with GPUs of NVIDIA."""
    known = {
        name
        for name, item in recording().items()
        if any(gpu["Manufacturer"] == "NVIDIA" for gpu in item.get("GpuInfo", {}).get("Gpus", []))
    }
    assert len(known) > 60
    assert not known - set(table())
    assert set(EC2_TYPES) - set(recording()) == {"p6e-gb200.36xlarge"}


def test_a_line_holds_together() -> None:
    for one in table().values():
        assert one.vcpus == one.cores * one.threads_per_core, one.name
        assert one.source and (one.gpus is None) != (one.neuron is None), one.name
        assert one.network_layers in (None, 3, 4), one.name
        fields = {field.name for field in dataclasses.fields(one)}
        assert {doubt.split(".")[0] for doubt in one.unverified} <= fields, one.name
        assert json.loads(json.dumps(one.to_json())) == one.to_json()


@pytest.mark.parametrize(
    ("name", "gpus", "efa", "layers"),
    [
        ("p4d.24xlarge", Devices("A100", 8, 40960), 4, 3),
        ("p5.48xlarge", Devices("H100", 8, 81920), 32, 3),
        ("p5en.48xlarge", Devices("H200", 8, 144384), 16, 3),
        ("p6-b300.48xlarge", Devices("B300", 8, 275040), 16, 4),
        ("p6e-gb200.36xlarge", Devices("GB200", 4, 189440), 4, 3),
        ("g5.8xlarge", Devices("A10G", 1, 22888), 1, None),
        ("g7e.12xlarge", Devices("RTX PRO Server 6000", 2, 98304), 1, 3),
        ("dgx-h100", Devices("H100", 8, 81920), 0, None),
    ],
)
def test_what_the_table_says(name: str, gpus: Devices, efa: int, layers: int | None) -> None:
    one = find(name)
    assert one is not None
    assert (one.gpus, one.efa_interfaces, one.network_layers) == (gpus, efa, layers)


def test_an_unknown_type_is_none() -> None:
    assert find("c7i.large") is None


def test_what_ec2_does_not_say_comes_from_the_table() -> None:
    one = from_api(recording()["p5en.48xlarge"])
    assert (one.nvlink_links, one.pcie_width, one.network_layers) == (18, 16, 3)
    assert one.unverified == ("pcie_width",)
    assert one.source == "EC2 DescribeInstanceTypes"


def test_a_type_that_the_table_lacks_is_read_from_ec2_alone() -> None:
    one = from_api(recording()["c7gd.xlarge"])
    assert one == MachineType(
        name="c7gd.xlarge", architecture="aarch64", vcpus=4, cores=4, threads_per_core=1, memory_mib=8192,
        nvme=Nvme(1, 237), source="EC2 DescribeInstanceTypes",
    )  # fmt: skip
    assert one.family == "c7gd"


def test_a_fraction_of_a_gpu_is_one_with_its_memory() -> None:
    assert from_api(recording()["g6f.xlarge"]).gpus == Devices("L4", 1, 2861)


OWN = {
    "vcpus": 224,
    "cores": 112,
    "memory_mib": 2097152,
    "gpus": {"model": "H100", "count": 8, "memory_mib": 81559},
    "nvme": {"count": 8, "size_gb": 3840},
}


def test_a_line_of_a_site() -> None:
    one = site_types({"node-h100": OWN})["node-h100"]
    assert (one.threads_per_core, one.architecture, one.source) == (2, "x86_64", "machine_types")
    assert one.gpus == Devices("H100", 8, 81559) and one.nvme == Nvme(8, 3840)
    assert find("node-h100", {"node-h100": one}) is one


def test_a_line_of_a_name_that_we_have_changes_only_what_it_says() -> None:
    one = site_types({"p5en.48xlarge": {"pcie_width": 8, "efa_interfaces": 15}})["p5en.48xlarge"]
    ours = table()["p5en.48xlarge"]
    assert (one.pcie_width, one.efa_interfaces, one.gpus) == (8, 15, ours.gpus)
    assert one.unverified == ()
    assert find("p5en.48xlarge", {"p5en.48xlarge": one}) is one


def test_no_lines() -> None:
    assert site_types(None) == {} == site_types({})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "machine_types: is a list -> write a mapping"),
        ({"a": 1}, "machine_types['a']: is not a mapping -> "),
        ({"a": {"vcpus": 8, "cores": 8}}, "machine_types['a'].memory_mib: is missing -> "),
        ({"a": {**OWN, "vcpus": "many"}}, "['a'].vcpus: is 'many' -> a whole number of at least 1"),
        ({"a": {**OWN, "vcpus": True}}, "['a'].vcpus: is True -> a whole number"),
        ({"a": {**OWN, "vcpus": 100}}, "100 vcpus are not 112 cores of 1 threads"),
        ({"a": {**OWN, "gpu": 8}}, "['a'].gpu: no field has that name -> one of vcpus"),
        ({"a": {**OWN, "gpus": 8}}, "['a'].gpus: is 8 -> a mapping with model, count, memory_mib"),
        ({"a": {**OWN, "gpus": {"model": "", "count": 0, "memory_mib": 1}}}, "['a'].gpus.count: is 0"),
        ({"a": {**OWN, "architecture": "arm64"}}, "architecture: is 'arm64' -> x86_64 or aarch64"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_refused_with_its_remedy(given: object, said: str) -> None:
    with pytest.raises(MachineTypeError) as caught:
        site_types(given)
    assert said in str(caught.value)


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(MachineTypeError) as caught:
        site_types({"a": {"vcpus": 0}, "b": {**OWN, "nvme": {}}})
    assert len(str(caught.value).splitlines()) >= 4


def test_every_type_that_ec2_knows_can_be_a_row() -> None:
    """The AWS inventory passes them to preflight."""
    for name, item in recording().items():
        kind = from_api(item)
        again = site_types({name: row_of(kind)})[name]
        for field in ("vcpus", "cores", "memory_mib", "efa_interfaces", "nvme", "source"):
            assert getattr(again, field) == getattr(kind, field), name
        assert (again.gpus is None) == (kind.gpus is None), name
