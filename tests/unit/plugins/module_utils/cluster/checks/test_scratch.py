# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Local scratch that preflight refuses, and what it says of the rest."""

from __future__ import annotations

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import inputs

from .cases import MOUNT, Case, assert_refused, each

DISK = {"device": "/dev/sda", "model": "", "size_gb": 100, "state": "blank", "why": "", "busy": False, "array": "",
        "members": 0, "top": "", "made": False, "wipe": False, "unfinished": False}  # fmt: skip
FOUND = {"path": "/scratch", "named": True, "disks": [DISK], "missing": [], "others": [], "source": "",
         "elsewhere": "", "had": 0, "below": False}  # fmt: skip


def found(**changes: t.Any) -> t.Any:
    """Return the inputs with a scratch of c1."""
    given = inputs()
    given["facts"]["c1"]["scratch"] = {**FOUND, **changes}
    return given


def on_a_mount() -> t.Any:
    given = found(path="/shared/scratch")
    given["settings"]["cluster_mounts"] = [MOUNT]
    return given


def of_a_type(name: str) -> t.Any:
    given = found(named=False, disks=[])
    given["host_vars"]["c1"] = {
        **given["host_vars"].get("c1", {}),
        "slurm_node": {"machine_type": name},
    }
    return given


CASES: list[Case] = [
    ("scratch over the system", found(path="/usr"), "c1", "node_scratch_path", "has the programs of the system",
     "a directory of your own"),
    ("scratch on shared storage", on_a_mount(), "c1", "node_scratch_path", "is on /shared of cluster_mounts",
     "/scratch"),
    ("disk that is not there", found(missing=["sdz is not there"]), "c1", "node_scratch_devices", "sdz is not there",
     "see lsblk"),
    ("disk with data", found(disks=[{**DISK, "state": "data", "why": "has ext4"}]), "c1", "node_scratch_devices",
     "/dev/sda has ext4", "node_scratch_wipe"),
    ("disk to wipe that is another", found(others=["sdb"]), "c1", "node_scratch_wipe",
     "sdb is not a disk of the scratch",
     "name it in node_scratch_devices"),
    ("scratch that would hide files", found(below=True), "c1", "node_scratch_path", "has files on the disk below",
     "drain the host, move them away"),
    ("scratch of lost disks", found(named=False, disks=[], had=2), "c1", "node_scratch_path", "none of them is there",
     "replace the machine"),
    ("scratch of a machine with NVMe", of_a_type("dgx-h100"), "c1", "node_scratch_devices",
     "machine type dgx-h100 has 8 NVMe disks", "name the disks"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    assert_refused(case)


def test_the_model_has_each_scratch_and_says_where_it_is_a_directory() -> None:
    model = build_model(found())
    assert model["scratches"] == [{"host": "c1", "path": "/scratch", "kind": "local"}]
    assert not [line for line in model["messages"] if "scratch" in line]
    model = build_model(found(named=False, disks=[]))
    assert model["scratches"] == [{"host": "c1", "path": "/scratch", "kind": "directory"}]
    assert any(
        "c1: node_scratch_path /scratch is a directory" in line for line in model["messages"]
    )
    assert build_model(inputs())["scratches"] == []
