# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Each directory of the policy goes to the mount with its purpose, else to the shared one."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.filter.storage_tree import storage_tree
from ansible_collections.trainwright.slurm.plugins.module_utils.node import mount_points

ROOT = Path(__file__).resolve().parents[4]
POLICY: list[dict[str, t.Any]] = [
    {**one, "remove_after_days": 30 if one["name"] == "tmp" else 0}
    for one in yaml.safe_load((ROOT / "roles/shared_storage/vars/main/policy.yml").read_text())[
        "__shared_storage_policy"
    ]
]


def mount(path: str, purpose: str, *directories: str) -> dict[str, t.Any]:
    return {"path": path, "purpose": purpose, "directories": [{"path": one} for one in directories]}


def paths(mounts: list[dict[str, t.Any]], group: str = "") -> list[str]:
    return [
        f"{one['path']} {one.get('group')} {one.get('mode')} {one.get('remove_after_days')}"
        for found in storage_tree(mounts, POLICY, group)
        for one in found["directories"]
    ]


def test_one_shared_file_system_has_the_whole_tree() -> None:
    assert paths([mount("/home", "home"), mount("/shared", "shared")], "research") == [
        "/shared/datasets research 2775 0",
        "/shared/checkpoints research 2775 0",
        "/shared/weights research 2775 0",
        "/shared/optimizer research 2775 0",
        "/shared/logs research 2775 0",
        "/shared/tmp research 1777 30",
    ]


def test_each_purpose_has_its_file_system() -> None:
    """The four file systems of a large plan, the last for temporary files; without a group everybody has a place."""
    found = paths(
        [mount("/fsx1", "data"), mount("/fsx2", "checkpoints"), mount("/fsx3", "logs"), mount("/fsx4", "scratch")]
    )  # fmt: skip
    assert found == [
        "/fsx1/datasets root 1777 0",
        "/fsx2/checkpoints root 1777 0",
        "/fsx2/weights root 1777 0",
        "/fsx2/optimizer root 1777 0",
        "/fsx3/logs root 1777 0",
        "/fsx4/tmp root 1777 30",
    ]


def test_what_a_mount_lists_itself_stays() -> None:
    found = storage_tree([mount("/fsx1", "data", "/fsx1/datasets/")], POLICY)
    assert found == [mount("/fsx1", "data", "/fsx1/datasets/")]


@pytest.mark.parametrize("entry", POLICY, ids=lambda entry: entry["name"])
def test_the_policy_has_purposes_that_mounts_may_have(entry: dict[str, t.Any]) -> None:
    assert set(entry["purposes"]) <= {*mount_points.PURPOSES} and entry["purposes"][-1] == "shared"
