# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the roles of the GPU software hold and start: their own variables rendered."""

from __future__ import annotations

import typing as t

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.stack_plan import plan
from ansible_collections.trainwright.slurm.plugins.module_utils.node.services import (
    newer_paths,
)

from tests.unit.cluster import ROOT

LOADER = DataLoader()
VERSIONS = {"cuda": "13.2", "dcgm": "4.7.0"}


def render(role: str, name: str, **versions: str) -> t.Any:
    """A private variable of a role, without the leading underscores and the role's name."""
    variables: dict[str, t.Any] = {}
    for path in sorted((ROOT / "roles" / role / "vars" / "main").glob("*.yml")):
        variables.update(LOADER.load_from_file(str(path), trusted_as_template=True))
    # Filters of the collection are for a play alone.
    variables["__nvidia_dcgm_unit_text"] = ""
    variables["slurm_model"] = {"stack": {"versions": {**VERSIONS, **versions}}}
    return Templar(loader=LOADER, variables=variables).template(variables[f"__{role}_{name}"])


@pytest.mark.parametrize(
    ("cuda", "wanted"),
    [
        ("13.2", "cuda-toolkit-13-2"),
        ("13.2.1", "cuda-toolkit-13-2=13.2.1[-+.]*?"),
        # No repository has it, and apt says so.
        ("13.2.99", "cuda-toolkit-13-2=13.2.99[-+.]*?"),
    ],
)
def test_a_whole_version_of_cuda_is_that_version_and_no_other(cuda: str, wanted: str) -> None:
    part = {kind: render("cuda_toolkit", kind, cuda=cuda) for kind in ("packages", "pins")}
    found = plan({"cuda_toolkit": part}, {"roles": ["cuda_toolkit"]}, {}, {"cuda": cuda})
    assert found["packages"] == [wanted]
    assert len(found["pins"]) == ("=" in wanted)


def test_dcgm_is_restarted_where_its_package_is_newer_than_its_process() -> None:
    """dpkg writes the lists at each unpacking, so a run that was killed before the restart is made up for."""
    [unit] = render("nvidia_dcgm", "units")
    assert unit["name"] == "nvidia-dcgm"
    lists = "/var/lib/dpkg/info/datacenter-gpu-manager-4"
    assert unit["watch"] == [f"{lists}-core.list", f"{lists}-cuda13.list"]
    assert newer_paths(unit["watch"], 0.0) == [], "one that does not run has nothing to restart"
    part = {"units": [unit]}
    [entry] = plan({"nvidia_dcgm": part}, {"roles": ["nvidia_dcgm"]}, {}, {})["units"]
    assert entry == {**unit, "enabled": True, "state": "started"}
