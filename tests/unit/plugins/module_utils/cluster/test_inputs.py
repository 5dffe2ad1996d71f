# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of how the inputs are read: versions."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.inputs import parse_version
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import inputs


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
def test_parse_version(text: str, version: tuple[int, int]) -> None:
    """Package versions and Slurm's own are read."""
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("installed", "candidate", "wanted", "method", "expected"),
    [
        ("24.11.5", "25.05.1", "", "distribution", "24.11"),
        ("", "24.11.5-4", "", "distribution", "24.11"),
        ("", "", "", "distribution", "24.11"),  # the table, before package lists were fetched
        ("", "24.11.5", "25.05.3", "repository", "25.05"),
        ("24.11.5", "", "25.05.3", "repository", "24.11"),
        ("", "24.11.5", "20.11.3", "distribution", "24.11"),  # DeepOps sets what it builds
    ],
)
def test_version(installed: str, candidate: str, wanted: str, method: str, expected: str) -> None:
    """What is installed counts, then what was asked for, then what would be installed."""
    given = inputs(1, slurm_version=wanted, slurm_install_method=method)
    for facts in given["facts"].values():
        facts["slurm"].update(version=installed, candidate=candidate)
    assert build_model(given)["version_string"] == expected
