# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""slurmd on each compute node: it runs, has its configuration from the controller, and takes jobs."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ansible://slurm_compute"]


def test_slurmd_runs_now_and_after_a_boot(host: Host) -> None:
    service = host.service("slurmd")
    assert service.is_running and service.is_enabled


def test_configuration_comes_from_the_controller(host: Host) -> None:
    assert not host.file("/etc/slurm/slurm.conf").exists
    assert host.file("/run/slurm/conf/slurm.conf").exists


def test_gpus_are_known_and_given_to_jobs(host: Host) -> None:
    name = host.check_output("hostname")
    assert "Gres=gpu:8" in host.check_output(f"scontrol show node {name}")
    job = f"srun --nodelist={name} --gpus=2 printenv CUDA_VISIBLE_DEVICES"
    assert len(host.check_output(f"su - alice -c '{job}'").split(",")) == 2
