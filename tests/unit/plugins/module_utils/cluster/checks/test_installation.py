# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Installation methods, operating systems and versions that are refused."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks import installation

from .cases import DEBIAN_12, OLD, Case, assert_refused, each, every, fact, setting

CASES: list[Case] = [
    ("no repository", setting("slurm_install_method", "repository"), "cluster", "slurm_repository.url",
     "is empty", "name the repository"),
    ("no version", setting("slurm_install_method", "source"), "cluster", "slurm_version", "is empty",
     "24.11.5"),
    ("no such version", setting("slurm_version", "latest"), "cluster", "slurm_version", "'latest'", "24.11"),
    ("key without checksum", setting("slurm_repository", {"url": "https://x", "key_url": "https://y"}),
     "cluster", "slurm_repository.key_checksum", "is empty", "sha256"),
    ("auth/slurm too early", [every(slurm=OLD, os=DEBIAN_12), ("slurm_auth_type", "slurm")], "cluster",
     "slurm_auth_type", "needs Slurm 23.11", "munge"),
    ("AutoDetect too early", [every(slurm=OLD, os=DEBIAN_12), ("slurm_gres_autodetect", "nvidia")], "cluster",
     "slurm_gres_autodetect", "needs Slurm 24.11", "device files"),
    ("Amazon Linux 2", fact("c1", os={"id": "amzn", "like": "rhel", "version": "2"}), "c1",
     "operating system", "Amazon Linux 2 is not supported", "debian 13"),
    ("CentOS 7", fact("c1", os={"id": "centos", "like": "rhel", "version": "7"}), "c1", "operating system",
     "CentOS 7 is not supported", "reinstall"),
    ("Debian 11", fact("c1", os={"id": "debian", "like": "debian", "version": "11"}), "c1",
     "operating system", "Debian 11 is not supported", "reinstall"),
    ("Rocky 8", fact("c1", os={"id": "rocky", "like": "rhel", "version": "8.10"}), "c1", "operating system",
     "Rocky Linux 8 is not supported", "reinstall"),
    ("no Slurm in it", fact("c1", os={"id": "amzn", "like": "rhel", "version": "2023"}, slurm={}), "c1",
     "slurm_install_method", "does not distribute Slurm", "repository or source"),
    ("nodes too old", fact("c1", os=DEBIAN_12, slurm=OLD), "c1", "Slurm version", "4 releases behind",
     "23.02 or newer"),
    ("nodes too new", fact("c1", slurm={"version": "25.05.1"}), "c1", "Slurm version", "is newer than slurmctld",
     "controllers to 25.05"),
    ("slurm.conf on a compute node", fact("c1", slurm={"own_conf": "/etc/slurm/slurm.conf"}), "c1",
     "/etc/slurm/slurm.conf", "would read this file", "mv /etc/slurm/slurm.conf /etc/slurm/slurm.conf.old"),
    ("slurm.conf on a login host", fact("login1", slurm={"own_conf": "/etc/slurm/slurm.conf"}), "login1",
     "/etc/slurm/slurm.conf", "would read this file", "mv /etc/slurm/slurm.conf"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)


def test_a_slurm_conf_that_hosts_share_with_the_controllers_stays() -> None:
    """Moved away there, slurmctld would not have it either."""
    shared = {"own_conf": "/opt/slurm/etc/slurm.conf", "conf_written": "a" * 64}
    mounts = [{"path": "/opt/slurm", "source": "nfs1:/slurm", "fstype": "nfs4"}]
    given = fact("c1", slurm=dict(shared), mounts=mounts)
    given["facts"]["ctl"]["slurm"] = {"conf_written": "a" * 64}
    assert not list(installation.own_configuration(given))
    given["facts"]["c1"]["slurm"]["conf_written"] = "b" * 64  # of another cluster
    assert [problem.host for problem in installation.own_configuration(given)] == ["c1"]
    # A link that leads nowhere, and a controller without one.
    given["facts"]["c1"]["slurm"]["conf_written"] = given["facts"]["ctl"]["slurm"][
        "conf_written"
    ] = ""
    assert [problem.host for problem in installation.own_configuration(given)] == ["c1"]
    given = fact("c1", slurm=shared)  # a copy, which stays as it is
    given["facts"]["ctl"]["slurm"] = {"conf_written": "a" * 64}
    assert [problem.host for problem in installation.own_configuration(given)] == ["c1"]
