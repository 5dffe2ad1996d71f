# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A login node as a person who trains meets it: a check of batch scripts, and ranks over nodes with GPUs."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ansible://slurm_login"]

# Runs on each rank: prints the rank and its GPUs.
RANK = "echo $SLURM_PROCID of $SLURM_NTASKS: $CUDA_VISIBLE_DEVICES"


def as_user(host: Host, command: str) -> str:
    return host.check_output("su - alice -c %s", command)


def test_ranks_start_on_two_nodes_with_their_gpus(host: Host) -> None:
    shape = "--nodes=2 --ntasks-per-node=2 --gpus-per-node=2"
    ranks = as_user(host, f"srun {shape} sh -c '{RANK}'").splitlines()
    assert sorted(line.split(":")[0] for line in ranks) == [f"{n} of 4" for n in range(4)]
    assert all("," in line for line in ranks)


def test_shared_storage_is_writable_by_users(host: Host) -> None:
    as_user(host, "touch /shared/data/molecule && rm /shared/data/molecule")


def test_batch_scripts_can_be_checked(host: Host) -> None:
    script = "#!/bin/bash\\n# a comment first\\nhostname\\n#SBATCH --nodes=2\\n"
    done = host.run(f"su - alice -c \"printf '{script}' | job-lint -\"")
    assert done.rc == 1 and "[directive-ignored]" in done.stdout
