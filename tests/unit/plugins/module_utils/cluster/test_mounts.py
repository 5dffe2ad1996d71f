# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of mounts."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.mounts import (
    normalise_mounts,
)


def test_mounts() -> None:
    """Mounts are complete, and parents come first."""
    mounts = normalise_mounts(
        [
            {
                "path": "/home/data/",
                "source": "nas:/d",
                "directories": [{"path": "/home/data/x", "mode": "1777"}],
            },
            {
                "path": "/home",
                "source": "nas:/h",
                "fstype": "nfs4",
                "options": ["rw", "hard"],
                "purpose": "home",
            },
        ]
    )
    assert [mount["path"] for mount in mounts] == ["/home", "/home/data"]
    assert mounts[0]["options"] == "rw,hard"
    assert mounts[1]["directories"] == [
        {"path": "/home/data/x", "owner": "root", "group": "root", "mode": "1777"}
    ]
