# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The whole small cluster on Debian 12: Slurm 22.05 with munge, every node, and a job of a user."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ansible://login1"]


def test_controller_answers(host: Host) -> None:
    assert "ctl1 is UP" in host.check_output("scontrol ping")
    assert host.check_output("scontrol --version").startswith("slurm-wlm 22.05")


def test_hosts_trust_each_other_by_munge(host: Host) -> None:
    assert host.service("munge").is_running
    assert "auth/munge" in host.check_output("scontrol show config")


def test_every_node_is_ready(host: Host) -> None:
    states = host.check_output("sinfo --noheader --Node --format='%N %T'").splitlines()
    # The backfill scheduler's plan for a job outlives one that was cancelled by some seconds.
    idle = {state.replace(" planned", " idle") for state in states}
    assert idle == {"c1 idle", "c2 idle"}


def test_a_job_of_a_user_is_run_and_accounted(host: Host) -> None:
    name = "molecule-debian12"
    job = f"srun --nodes=2 --job-name={name} hostname"
    assert sorted(host.check_output(f"su - alice -c '{job}'").split()) == ["c1", "c2"]
    listed = (
        f"sacct --user=alice --name={name} --allocations --noheader --parsable2 --format=account"
    )
    # Slurm sends what it records when it has time.
    host.run_expect(
        [0], f"timeout 60 sh -c 'until {listed} | grep -qx research; do sleep 0.2; done'"
    )
