# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the module slurm_info itself: its options and results are those documented."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import records
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    capabilities,
    info,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    module as slurm_module,
)
from ansible_collections.trainwright.slurm.plugins.modules import slurm_info

OPTIONS = yaml.safe_load(slurm_info.DOCUMENTATION)["options"]
EXAMPLES = yaml.safe_load(slurm_info.EXAMPLES)
RETURNED = yaml.safe_load(slurm_info.RETURN)
RECORDS = {
    "nodes": records.Node,
    "jobs": records.Job,
    "partitions": records.Partition,
    "reservations": records.Reservation,
    "licenses": records.License,
    "controllers": records.Controller,
    "events": records.Event,
    "configuration": records.Configuration,
}


def test_every_option_is_documented_as_it_is() -> None:
    documented = {
        name: {
            key: option[key] for key in ("type", "elements", "default", "choices") if key in option
        }
        for name, option in OPTIONS.items()
    }
    assert documented == slurm_info.SPEC


@pytest.mark.parametrize("subject", info.SUBJECTS)
def test_every_field_of_a_record_is_documented_with_its_type(subject: str) -> None:
    types = {"str": "str", "int": "int", "bool": "bool", "Tres": "dict", "tuple[str, ...]": "list"}
    wanted = {
        field.name: "dict"
        if str(field.type).startswith("dict")
        else types[str(field.type).replace(" | None", "")]
        for field in dataclasses.fields(RECORDS[subject])
    }
    shown = RETURNED[subject]["contains"]
    assert {name: value["type"] for name, value in shown.items()} == wanted
    assert all(
        value.get("elements") == "str" for value in shown.values() if value["type"] == "list"
    )


def test_every_subject_is_in_the_table_of_capabilities() -> None:
    assert set(capabilities.TABLE["slurm_info"]) == set(info.SUBJECTS)


@pytest.mark.parametrize("task", EXAMPLES, ids=lambda task: task["name"])
def test_the_examples_are_taken(task: dict[str, t.Any]) -> None:
    given = {
        name: "x" if isinstance(value, str) and "{{" in value else value
        for name, value in (task["trainwright.slurm.slurm_info"] or {}).items()
    }
    spec = slurm_module.arguments(**slurm_info.SPEC)
    assert not ArgumentSpecValidator(spec).validate(given).error_messages
