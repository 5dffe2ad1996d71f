# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mounts are found by their purpose, in the order of the purposes."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.filter.mount_paths import mount_paths

MOUNTS = [
    {"path": "/shared", "purpose": "shared"},
    {"path": "/data"},
    {"path": "/images", "purpose": "containers"},
    {"path": "/shared2", "purpose": "shared"},
]


def test_the_first_purpose_comes_first() -> None:
    assert mount_paths(MOUNTS, "containers", "shared") == ["/images", "/shared", "/shared2"]
    assert mount_paths(MOUNTS, "home") == [] == mount_paths(None, "home")
