# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mounts and directories that are refused."""

from __future__ import annotations

from .cases import MOUNT, Case, assert_refused, changed, each, live, setting, two_controllers

CASES: list[Case] = [
    ("relative mount", setting("cluster_mounts", [{**MOUNT, "path": "shared"}]), "cluster",
     "cluster_mounts[shared].path", "not an absolute path", "begin it with /"),
    ("mount over the system", setting("cluster_mounts", [{**MOUNT, "path": "/usr/"}]), "cluster",
     "cluster_mounts[/usr/].path", "has the programs of the system", "directory of your own"),
    ("mount by a detour", setting("cluster_mounts", [{**MOUNT, "path": "/shared/../etc"}]), "cluster",
     "cluster_mounts[/shared/../etc].path", "contains . or ..", "the path itself"),
    ("directory by a detour", setting("cluster_mounts", [{**MOUNT, "directories": [{"path": "/shared/../etc"}]}]),
     "cluster", "cluster_mounts[/shared].directories", "'/shared/../etc' contains", "the path itself"),
    ("mount twice", setting("cluster_mounts", [MOUNT, {**MOUNT, "path": "/shared/"}]), "cluster",
     "cluster_mounts[/shared/]", "is listed twice", "keep one mount"),
    ("purpose", setting("cluster_mounts", [{**MOUNT, "purpose": "homes"}]), "cluster",
     "cluster_mounts[/shared].purpose", "did you mean home?", "write one of"),
    ("directory elsewhere", setting("cluster_mounts", [{**MOUNT, "directories": [{"path": "/x"}]}]), "cluster",
     "cluster_mounts[/shared].directories", "/x is not under /shared", "on this mount"),
    ("state not shared", two_controllers(), "cluster", "slurm_state_save_location", "backup would lose",
     "cluster_mounts"),
    ("state on a local mount", two_controllers(slurm_state_save_location="/shared/state",
                                               cluster_mounts=[{**MOUNT, "fstype": "xfs"}]),
     "cluster", "slurm_state_save_location", "not on storage that both", "cluster_mounts"),
    ("spool shared", [setting("cluster_mounts", [MOUNT]), ("slurm_spool_dir", "/shared/spool")], "cluster",
     "slurm_spool_dir", "nodes would overwrite", "own disk"),
    ("state moved", live(StateSaveLocation="/old"), "ctl", "slurm_state_save_location",
     "StateSaveLocation=/old", "slurm_allow_state_move: true"),
    ("spool moved", live(SlurmdSpoolDir="/old"), "ctl", "slurm_spool_dir", "would lose its jobs", "write /old"),
    ("authentication changed", live(AuthType="auth/slurm"), "ctl", "slurm_auth_type", "auth/slurm",
     "write slurm again"),
    ("cluster renamed", changed("record", {"cluster": "old", "nodes": {}}), "inventory", "slurm_cluster_name",
     "ClusterName=old", "write old again"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)
