# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of module_utils/containers/oci.py."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import oci

from tests.unit.cluster import inputs


def conf(version: tuple[int, int], **options: Any) -> dict[str, str]:
    return {key: value for key, value in oci.pairs(version, options)}


@pytest.mark.parametrize("version", [(21, 8), (22, 5), (23, 2), (24, 11), (26, 5)])
def test_ours_are_known_to_every_slurm(version: tuple[int, int]) -> None:
    made = conf(version)
    assert all(version >= oci.OPTIONS[name] for name in made)
    assert not list(oci.problems(version, {name: "x" for name in made}))
    # What Slurm wants for the operation `run`; with create or start besides it refuses the file.
    assert {"RunTimeRun", "RunTimeQuery", "RunTimeKill", "RunTimeDelete"} <= set(made)
    assert not {"RunTimeCreate", "RunTimeStart"} & set(made)


def test_slurm_22_05_gets_only_what_it_knows() -> None:
    assert set(conf((22, 5))) == {"RunTimeRun", "RunTimeQuery", "RunTimeKill", "RunTimeDelete"}
    # %U and %m came later than %u.
    assert not [value for value in conf((22, 5)).values() if "%U" in value or "%m" in value]


def test_options_go_over_ours_and_null_takes_one_out() -> None:
    made = conf((26, 5), RunTimeQuery=None, DisableCleanup=True, ContainerPath="/scratch/%u")
    assert "RunTimeQuery" not in made
    assert made["DisableCleanup"] == "yes" and made["ContainerPath"] == '"/scratch/%u"'


def test_mistakes_are_named_with_a_remedy() -> None:
    found = {what: (why, remedy) for what, why, remedy in oci.problems((22, 5), {
        "envexclude": "x", "Nonsense": 1, "EnvExclude": "^A=", "ContainerPath": 'a"b'})}  # fmt: skip
    assert found["oci_conf.envexclude"][1] == "write EnvExclude"
    assert found["oci_conf.Nonsense"][1].startswith("write one of ContainerPath, ")
    assert found["oci_conf.EnvExclude"][0] == "came with Slurm 23.02, and 22.05 runs here"
    assert "quote" in found["oci_conf.ContainerPath"][0]
    assert not list(oci.problems((26, 5), {"EnvExclude": None, "IgnoreFileConfigJson": True}))


def test_the_group_turns_it_on_and_preflight_reads_the_options() -> None:
    given = inputs(oci_conf={"EnvExcluded": "x"})
    assert not problems(given) and build_model(given)["oci_conf"] == []
    given["groups"]["slurm_oci"] = ["c1"]
    assert [problem.variable for problem in problems(given)] == ["oci_conf.EnvExcluded"]
    given["settings"]["oci_conf"] = {"SyslogDebug": "debug2"}
    assert not problems(given)
    made = dict(build_model(given)["oci_conf"])
    assert made["SyslogDebug"] == '"debug2"' and "MountSpoolDir" in made
