# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where role enroot gives Enroot a profile of AppArmor: the role's own variables rendered, and the fact of a node."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.trainwright.slurm.plugins.module_utils.node import facts

from tests.unit.cluster import ROOT

LOADER = DataLoader()
ROLE = ROOT / "roles" / "enroot"


def render(name: str, **given: t.Any) -> t.Any:
    """A variable of the role; ``given`` are the fact, the virtualization and the public variable."""
    variables: dict[str, t.Any] = {}
    for path in (ROLE / "defaults/main.yml", ROLE / "vars/main/apparmor.yml"):
        variables.update(LOADER.load_from_file(str(path), trusted_as_template=True))
    node = {"virtualization": given.pop("virtualization", "kvm")}
    restricted = given.pop("restricted", True)
    variables.update(
        __enroot_node=node,
        __enroot_found={"userns_restricted": restricted},
        **given,
    )
    return Templar(loader=LOADER, variables=variables).template(variables[name])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, True),
        ({"restricted": False}, False),
        # The kernel's rules are those of its host there.
        ({"virtualization": "container"}, False),
        ({"enroot_apparmor": False}, False),
    ],
)
def test_enroot_gets_a_profile_where_user_namespaces_need_one(
    given: dict[str, t.Any], wanted: bool
) -> None:
    assert render("__enroot_apparmor", **given) is wanted


def test_the_profile_replaces_the_one_of_the_package_and_is_loaded() -> None:
    """Two files with a profile of one program would be a conflict."""
    (file,) = render("__enroot_apparmor_files")
    assert file["path"] == "/etc/apparmor.d/enroot"
    assert "profile /usr/bin/enroot-nsenter flags=(unconfined) {\n  userns,\n" in file["content"]
    (unit,) = render("__enroot_apparmor_units")
    assert unit["name"] == "apparmor" and unit["stamp"]


@pytest.mark.parametrize(("text", "restricted"), [("1\n", True), ("0\n", False), (None, False)])
def test_the_fact_is_what_the_kernel_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, restricted: bool
) -> None:
    path = tmp_path / "restrict"
    if text:
        path.write_text(text)
    monkeypatch.setattr(facts, "USERNS_RESTRICTED", str(path))
    assert facts.containers({})["userns_restricted"] is restricted
