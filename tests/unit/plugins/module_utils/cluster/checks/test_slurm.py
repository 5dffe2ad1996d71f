# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Options of Slurm, ports, numbers and paths that are refused."""

from __future__ import annotations

from .cases import Case, assert_refused, each, node, setting

CASES: list[Case] = [
    # options of Slurm
    ("unknown option", setting("slurm_conf", {"KilWait": 60}), "cluster", "slurm_conf.KilWait",
     "did you mean KillWait", "correct or remove"),
    ("option of ours", setting("slurm_conf", {"clustername": "x"}), "cluster", "slurm_conf.clustername",
     "set by this collection", "use slurm_cluster_name"),
    ("unknown cgroup option", setting("slurm_cgroup_conf", {"ConstrainRAM": "yes"}), "cluster",
     "slurm_cgroup_conf.ConstrainRAM", "is not an option", "correct or remove"),
    ("two lines in a value", setting("slurm_conf", {"KillWait": "60\nPrologFlags=x"}), "cluster",
     "slurm_conf.KillWait", "does not fit on one line", "without line breaks"),
    ("node option of ours", node(options={"RealMemory": 1}), "c1", "slurm_node.options",
     "has its own key", "use memory_mb"),
    ("unknown node option", node(options={"Colour": 1}), "c1", "slurm_node.options", "Colour is not an option",
     "correct or remove"),
    # ports, numbers, paths
    ("no port", setting("slurm_rest_port", 70000), "cluster", "slurm_rest_port", "70000 is not a valid port", "65535"),
    ("port twice", setting("slurm_rest_port", 6817), "cluster", "slurm_rest_port",
     "6817 is also slurm_ports.slurmctld", "its own port"),
    ("not a range of ports", setting("slurm_srun_port_range", "60001"), "cluster", "slurm_srun_port_range",
     "not a range of ports", "60001-63000"),
    ("range backwards", setting("slurm_srun_port_range", "63000-60001"), "cluster", "slurm_srun_port_range",
     "not a range of ports", "60001-63000"),
    ("small range", setting("slurm_srun_port_range", "60001-60010"), "cluster", "slurm_srun_port_range",
     "has 10 ports", "1000 ports"),
    ("range over a port", setting("slurm_srun_port_range", "6001-7000"), "cluster", "slurm_srun_port_range",
     "contains 6817, which is slurm_ports.slurmctld", "move one"),
    ("percent", setting("slurm_memory_percent", 0), "cluster", "slurm_memory_percent", "is 0", "1 to 100"),
    ("relative path", setting("slurm_spool_dir", "spool"), "cluster", "slurm_spool_dir", "not an absolute path",
     "begins with /"),
    ("no lifespan", setting("slurm_token_max_lifespan", -1), "cluster", "slurm_token_max_lifespan", "is -1",
     "0 to 2147483647"),
    ("job tmp in /tmp", setting("slurm_job_tmp", "/tmp/jobs"), "cluster", "slurm_job_tmp", "is in /tmp", "own disks"),
    ("relative job tmp", setting("slurm_job_tmp", "jobs"), "cluster", "slurm_job_tmp", "not an absolute path",
     "own disks"),
    ("state in /tmp", setting("slurm_state_save_location", "/var/tmp/state"), "cluster", "slurm_state_save_location",
     "deleted when the daemon stops", "below /var/spool"),
    ("archive in /tmp", setting("slurmdbd_conf", {"ArchiveJobs": True}), "cluster", "slurmdbd_conf.ArchiveDir",
     "is /tmp: ", "below /var/spool"),
    ("state is spool", setting("slurm_spool_dir", "/var/spool/slurmctld/"), "cluster", "slurm_spool_dir",
     "overwrite each other", "its own directory"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)
