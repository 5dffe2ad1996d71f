"""Versions that go together: each rule finds its fault, and leaves what fits alone."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware import stack
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware.machine_types import table
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware.stack_data import (
    COMPONENTS,
    DEFAULT_RELEASE,
    EFA_BRINGS,
    GPU_NEEDS,
    LEAST_DRIVER,
)

GOOD = {
    "driver": "595.91.07",
    "fabric_manager": "595.91.07-1",
    "cuda": "13.2",
    "efa": "1.50.0",
    "libfabric": "2.6.0amzn1.0",
    "ofi_nccl": "1.21.1",
}


def parts(found: list[stack.Misfit]) -> list[tuple[str, str, str]]:
    return [(one.component, one.found, one.wanted) for one in found]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2.6.0amzn1.0", (2, 6, 0)),
        ("1:1.19.0-1", (1, 19, 0)),
        ("6.8.0-1066-aws", (6, 8, 0)),
        ("", ()),
    ],
)
def test_the_numbers_of_a_version(text: str, read: tuple[int, ...]) -> None:
    assert stack.numbers(text) == read


def test_versions_are_compared_as_far_as_the_wanted_one_is_written() -> None:
    assert stack.same("6.8.0-1066-aws", "6.8")
    assert stack.same("2.5", "2.5.0")
    assert not stack.same("6.17.0", "6.1")
    assert not stack.same("", "6.8")
    assert stack.older("525.60.12", "525.60.13")
    assert not stack.older("525.60.13-1", "525.60.13")
    assert not stack.older("580", "525.60.13")


def test_every_release_names_known_parts_with_versions_and_a_source() -> None:
    found = stack.releases()
    assert DEFAULT_RELEASE in found
    assert len(found) >= 7
    for release in found.values():
        assert release.source
        assert release.versions.keys() <= COMPONENTS.keys()
        assert all(stack.VERSION.fullmatch(text) for text in release.versions.values())
        assert stack.node(release.versions) == [], release.name
        assert stack.against(release.versions, release) == []


def test_the_other_tables_name_what_exists() -> None:
    models = {kind.gpus.model for kind in table().values() if kind.gpus}
    assert GPU_NEEDS.keys() <= models
    assert all(stack.numbers(driver) for driver in LEAST_DRIVER.values())
    assert all(stack.numbers(part) for pair in EFA_BRINGS.values() for part in pair)


def test_a_row_of_the_site_comes_before_ours() -> None:
    site = {"dlami-2026-10": {"driver": "580.65.06", "source": "our image"}}
    assert stack.releases(site)["dlami-2026-10"].versions == {"driver": "580.65.06"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"driver": 580.1, "source": "x"},
            r"driver: 580.1 is not the text of a version, in quotes",
        ),
        ({"drivers": "580", "source": "x"}, "drivers: is not one of kernel, driver"),
        ({"driver": "580"}, "source: says who ships"),
        ([], "is not a mapping"),
        ({"driver": "580; reboot", "source": "x"}, "is not the text of a version"),
    ],
)
def test_a_row_of_the_site_that_is_wrong(row: object, message: str) -> None:
    with pytest.raises(stack.StackError, match=message):
        stack.releases({"ours": row})


def test_a_machine_that_fits() -> None:
    assert stack.node(GOOD, "H100") == []


@pytest.mark.parametrize(
    ("change", "model", "fault"),
    [
        ({"fabric_manager": "595.58.03-1"}, "", ("fabric_manager", "595.58.03-1", "595.91.07")),
        ({"driver": "550.90.07", "fabric_manager": ""}, "", ("driver", "550.90.07", ">= 580")),
        (
            {"driver": "550.90.07", "cuda": "12.4", "fabric_manager": ""},
            "B200",
            ("driver", "550.90.07", ">= 570"),
        ),
        ({"libfabric": "1.22.0"}, "", ("libfabric", "1.22.0", "2.6.0")),
        ({"ofi_nccl": "1.16.3"}, "", ("ofi_nccl", "1.16.3", "1.21.1")),
    ],
)
def test_what_does_not_fit_on_one_machine(
    change: dict[str, str], model: str, fault: tuple[str, str, str]
) -> None:
    assert parts(stack.node({**GOOD, **change}, model)) == [fault]


def test_a_machine_against_a_release() -> None:
    release = stack.releases()[DEFAULT_RELEASE]
    found = stack.against({**GOOD, "cuda": "12.8.1", "kernel": "6.8.0-1066-aws"}, release)
    assert parts(found) == [("cuda", "12.8.1", "13.2")]
    assert release.source in found[0].why
    # What is missing is not a wrong version.
    assert stack.against({}, release) == []


def test_the_odd_one_among_its_peers() -> None:
    stacks = {f"gpu{number}": dict(GOOD) for number in range(5)}
    assert stack.odd_ones(stacks) == {}
    stacks["gpu3"]["efa"] = "1.47.0"
    del stacks["gpu4"]["ofi_nccl"]
    found = stack.odd_ones(stacks)
    assert parts(found["gpu3"]) == [("efa", "1.47.0", "1.50.0")]
    assert found["gpu3"][0].why == "4 of 5 like it"
    assert parts(found["gpu4"]) == [("ofi_nccl", "", "1.21.1")]
    assert found.keys() == {"gpu3", "gpu4"}
    assert found["gpu4"][0].what == (
        "AWS OFI NCCL plugin is missing, wanted 1.21.1 (4 of 5 like it)"
    )


def test_two_machines_that_differ_are_both_innocent() -> None:
    found = stack.odd_ones({"a": {"driver": "580"}, "b": {"driver": "595"}})
    assert [(host, one.why) for host, misfits in found.items() for one in misfits] == [
        ("a", "its peers differ")
    ]


@pytest.mark.parametrize(
    ("image", "efa", "faults"),
    [
        ({"cuda": "12.6", "nccl": "2.23.4", "ofi_nccl": "1.13", "efa": "1.38.0"}, True, []),
        ({"cuda": "12.6", "nccl": "2.23.4"}, False, []),
        ({"cuda": "12.6", "nccl": "2.23.4"}, True, [("ofi_nccl", "", "any")]),
        ({"cuda": "12.6", "nccl": "2.23.4", "ofi_nccl": "1.13"}, True, [("libfabric", "", "any")]),
        ({"cuda": "13.0"}, False, [("driver", "550.90.07", ">= 580")]),
        ({"cuda": "13.0", "cuda_compat": "580.65.06"}, False, []),
        ({"cuda": "13.0", "cuda_compat": "570.1"}, False, [("driver", "550.90.07", ">= 580")]),
        (
            {"cuda": "12.6", "nccl": "2.28", "ofi_nccl": "1.21", "efa": "1.50.0"},
            True,
            [("efa", "1.50.0", "<= 1.47.0")],
        ),
        ({}, True, []),
    ],
)
def test_an_image_on_a_machine(
    image: dict[str, str], efa: bool, faults: list[tuple[str, str, str]]
) -> None:
    host = {"driver": "550.90.07", "efa": "1.47.0"}
    found = stack.host_and_image(host, image, efa)
    assert parts(found) == faults
    assert [one.sure for one in found] == [one.component != "efa" for one in found]
