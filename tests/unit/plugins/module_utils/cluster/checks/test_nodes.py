# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Values of slurm_node that are refused."""

from __future__ import annotations

from tests.unit.cluster import gpus

from .cases import GPU, Case, assert_refused, each, node

CASES: list[Case] = [
    ("product of cpus", node(cpus=8, sockets=1, cores_per_socket=2, threads_per_core=2), "c1",
     "slurm_node.cpus", "but sockets x cores x threads are 4", "cpus: 4"),
    ("no cpus", node(cpus=0), "c1", "slurm_node.cpus", "is 0", "1 or more"),
    ("memory beyond", node(memory_mb=9000), "c1", "slurm_node.memory_mb", "the machine has 8000", "less"),
    ("feature", node(features=["two words"]), "c1", "slurm_node.features", "'two words'", "one word"),
    ("count and files", node(facts={"gpus": gpus(4)}, gres=[{**GPU, "count": 8}]), "c1",
     "slurm_node.gres[0].count", "is 8, and file names 4", "agree"),
    ("files missing", node(facts={"gpus": gpus(2)}, gres=[GPU]), "c1", "slurm_node.gres[0].file",
     "/dev/nvidia[2-3] does not exist", "install the driver"),
    ("more GPUs than there are", node(facts={"gpus": gpus(2)}, gres=[{"name": "gpu", "count": 4}]), "c1",
     "slurm_node.gres", "declares 4 GPUs, and the machine has 2", "GPUs that are found"),
    ("bad file list", node(gres=[{"name": "gpu", "file": "/dev/x[0-"}]), "c1", "slurm_node.gres[0].file",
     "cannot be read", "/dev/nvidia[0-7]"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)
