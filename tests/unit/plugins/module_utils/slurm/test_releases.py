# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the table of Slurm's releases, and of the release of a version."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.releases import (
    KNOWN,
    ORDER,
    major_minor,
)

from tests.unit.cluster import ROOT


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("24.11.5-4", (24, 11)),
        ("22.05.8-4+deb12u3", (22, 5)),
        ("0:23.11", (23, 11)),
        ("", (0, 0)),
        ("x", (0, 0)),
    ],
)
def test_the_release_of_a_version(text: str, version: tuple[int, int]) -> None:
    """Package versions and Slurm's own are read."""
    assert major_minor(text) == version


def test_the_releases_are_in_order_and_each_once() -> None:
    assert sorted(set(ORDER), key=major_minor) == list(ORDER)
    assert (KNOWN[0], KNOWN[-1]) == ("22.05", "26.05")


def test_the_guard_of_pyxis_is_built_for_each_known_release() -> None:
    """A role reads no plugin, so its list is its own."""
    text = (ROOT / "roles/pyxis/vars/main/package.yml").read_text(encoding="utf-8")
    listed = str(yaml.safe_load(text)["__pyxis_guard_releases"]).partition("]")[0]
    assert tuple(re.findall(r"'([\d.]+)'", listed)) == KNOWN
