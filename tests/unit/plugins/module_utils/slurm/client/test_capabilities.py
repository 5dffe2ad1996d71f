# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the capability table: that it is whole and in order, and what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    capabilities,
    rest,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.capabilities import (
    NEVER,
    TABLE,
    TRANSPORTS,
    Capability,
    can,
    why_not,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.releases import KNOWN

ROOT = Path(__file__).resolve().parents[6]
ROWS = [
    pytest.param(module, operation, row, id=f"{module}-{operation}")
    for module, operations in TABLE.items()
    for operation, row in operations.items()
]


def test_every_module_that_talks_to_slurm_is_in_the_table_and_asks_only_for_what_is_there() -> None:
    used = set()
    for path in (ROOT / "plugins" / "modules").glob("slurm_*.py"):
        text = path.read_text(encoding="utf-8")
        used |= set(re.findall(r'\brun\(\s*"(slurm_\w+)"', text))
    assert used and used <= set(TABLE)


@pytest.mark.parametrize(("module", "operation", "row"), ROWS)
def test_each_row_names_known_releases_and_its_source(
    module: str, operation: str, row: Capability
) -> None:
    for transport in TRANSPORTS:
        assert row.since(transport) in (*KNOWN, NEVER)
    assert row.cli == KNOWN[0], "the commands could always do it"
    assert row.source and "|" not in row.source
    # An API version that a source names is one that rest.py knows.
    for api in re.findall(r"/(v0\.0\.\d+)/", row.source):
        assert api in rest.API_VERSIONS


@pytest.mark.parametrize(("module", "operation", "row"), ROWS)
def test_what_a_release_can_all_later_ones_can(
    module: str, operation: str, row: Capability
) -> None:
    for transport in TRANSPORTS:
        answers = [can(module, operation, f"{version}.3", transport) for version in KNOWN]
        assert answers == sorted(answers)
        assert any(answers) is (row.since(transport) != NEVER)


RECORDED = sorted((ROOT / "tests" / "fixtures" / "slurm").glob("*/rest/openapi.json"))
_PATH = re.compile(r"\b(GET|POST|DELETE) /(slurm(?:db)?)/v[0-9.]+/([a-z_/]+)(\{)?")


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.parts[-3])
def test_slurmrestd_of_a_release_offers_what_the_table_says(recorded: Path) -> None:
    """Against the list of paths that a real slurmrestd of that release printed."""
    paths = json.loads(recorded.read_text(encoding="utf-8"))["paths"]
    offered = {
        f"{method.upper()} /{top}/{rest.rstrip('/')}"
        for path, methods in paths.items()
        for method in methods
        for top, rest in re.findall(
            r"^/(slurm(?:db)?)/v[0-9.]+/(.*)$", re.sub(r"\{.*?\}", "{", path)
        )
    }
    compared = 0
    for module in ("slurm_info", "slurm_node", "slurm_partition", "slurm_reservation", "slurm_job"):
        for operation, row in TABLE[module].items():
            match = _PATH.search(row.source)
            if match:
                wanted = f"{match[1]} /{match[2]}/{match[3]}{match[4] or ''}".rstrip("/")
                there = can(module, operation, recorded.parts[-3], "rest")
                assert (wanted in offered) is there, (module, operation, wanted)
                compared += 1
    assert compared > 15


def test_every_module_that_changes_has_read() -> None:
    for module, operations in TABLE.items():
        assert module == "slurm_info" or "read" in operations, module


@pytest.mark.parametrize(
    ("module", "operations", "version", "said"),
    [
        (
            "slurm_partition",
            ["create"],
            "24.11.5",
            "24.11 cannot do create of slurm_partition; 26.05",
        ),
        ("slurm_partition", ["read"], "24.11.5", ""),
        ("slurm_partition", ["create"], "26.05.0", ""),
        ("slurm_reservation", ["update"], "25.05.1-0rc1", ""),
        (
            "slurm_node",
            ["read", "update"],
            "22.05.8",
            "22.05 cannot do update of slurm_node; 23.02",
        ),
        (
            "slurm_node",
            ["update", "reboot"],
            "22.05.8",
            "update and reboot of slurm_node; no version",
        ),
        ("slurm_info", ["configuration"], "27.11.0", ""),
    ],
)
def test_why_slurmrestd_cannot(module: str, operations: list[str], version: str, said: str) -> None:
    why = why_not(module, operations, version, "rest")
    assert said in why and bool(why) is bool(said)
    assert not why or why.endswith(
        "-> use transport: cli (or auto) on a host that has Slurm's commands"
    )


def test_a_slurm_that_is_older_than_the_table_is_told_to_upgrade() -> None:
    assert why_not("slurm_job", ["submit"], "20.11.7", "cli").endswith("22.05 can -> upgrade Slurm")


@pytest.mark.parametrize(("module", "operation"), [("slurm_foo", "read"), ("slurm_node", "eat")])
def test_an_operation_that_is_not_in_the_table_is_a_mistake(module: str, operation: str) -> None:
    with pytest.raises(KeyError):
        why_not(module, [operation], "24.11", "cli")


def test_the_page_has_every_row() -> None:
    lines = capabilities.markdown().splitlines()[2:]
    assert len(lines) == sum(map(len, TABLE.values()))
    assert "| `slurm_partition` | create | all | from 26.05 |" in capabilities.markdown()
    assert "| `slurm_node` | reboot | all | not yet |" in capabilities.markdown()
