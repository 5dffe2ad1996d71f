"""The effect of site.yml on a fresh, a finished and a half-done cluster."""

from __future__ import annotations

import json

import pytest

from .conftest import Converged
from .site import SOAK, Run

# Tasks whose verdict on a *fresh* host differs between --check and the real run, and why; also in
# docs/check_mode.md. A finished and a half-done cluster know no exception.
FRESH_EXCEPTIONS: set[str] = set()


def compute_nodes(site: Converged) -> list[str]:
    return [
        host for host in site.cluster.hosts if host.startswith("c") and not host.startswith("ctl")
    ]


def assert_check_tells_the_truth(
    site: Converged, *arguments: str, part: tuple[str, ...] = (), **extra: object
) -> Run:
    """Run with --check and for real, the latter with the arguments, and return the real run.

    part: limits the first run to the part that changes; the real one is whole.
    """
    checked = site.play("site.yml", "--check", "--diff", *part, **extra)
    real = site.play("site.yml", *arguments, **extra)
    assert checked.changed == real.changed, (
        f"only check: {checked.changed - real.changed}\nonly real: {real.changed - checked.changed}"
    )
    return real


@pytest.mark.systems("debian12")
def test_check_of_a_fresh_cluster_exits_zero_and_names_what_changes(site: Converged) -> None:
    if site.first_check is None:
        pytest.skip("the cluster was kept from an earlier run")
    assert site.first_check.rc == 0
    assert site.first is not None
    # The run that installs packages decides again what depends on them.
    assert site.first.output.count("build the cluster model]") == 2
    difference = site.first_check.changed ^ site.first.changed
    unexplained = {
        (host, task)
        for host, task in difference
        if not any(name in task for name in FRESH_EXCEPTIONS)
    }
    assert not unexplained


@pytest.mark.systems("debian12")
def test_second_run_changes_nothing_and_leaves_a_running_job_alone(quiet_site: Converged) -> None:
    site = quiet_site
    job = site.sbatch("srun sleep 300", "-N2 -J survivor")
    site.wait_job(job, ["RUNNING"])
    before, start = site.invocations(), site.job(job)["StartTime"]
    # On every host, so each task finds its work done; other runs leave out hosts with nothing to do.
    again = site.idempotence()
    assert again.changed == set()
    if SOAK:  # the half-done cluster below has what is finished, too
        assert site.play("site.yml", "--check", "--diff", site_full=True).changed == set()
    assert site.invocations() == before
    info = site.job(job)
    assert (info["JobState"], info["StartTime"]) == ("RUNNING", start)
    assert info.get("Restarts") == "0"
    for node in compute_nodes(site):
        assert again.executions(node) <= 40, again.report["hosts"][node]


@pytest.mark.systems("debian12")
def test_configuration_changes_restart_only_what_slurm_must_restart(quiet_site: Converged) -> None:
    site = quiet_site
    job = site.sbatch("srun sleep 600", "-N2")
    site.wait_job(job, ["RUNNING"])
    start, before = site.job(job)["StartTime"], site.invocations()
    controllers = {host for host in site.cluster.hosts if host.startswith("ctl")}
    part = ("--limit", "slurm_controller", "--tags", "slurmctld")
    # Closed by an administrator, who has a reason: slurmctld would open it with each change, and start what waits.
    site.run("ctl1", "scontrol update partitionname=stable state=down")
    waits = site.sbatch("true", "--partition=stable")

    def is_closed() -> bool:
        shown = site.run("ctl1", "scontrol show partition stable")
        return "State=DOWN" in shown and site.job(waits)["JobState"] == "PENDING"

    # Slurm reads this again on reconfigure.
    run = assert_check_tells_the_truth(site, part=part, slurm_conf={"MinJobAge": 600})
    assert {host for host, _ in run.changed} == controllers
    assert site.invocations() == before
    assert "MinJobAge               = 600 sec" in site.run("ctl1", "scontrol show config")
    assert is_closed()

    # Before 23.11 this one needs slurmctld restarted; nothing else is, then or later.
    site.play("site.yml", *part, slurm_conf={"SchedulerType": "sched/builtin"})
    after = site.invocations()
    restarted = {key for key in before if before[key] != after[key]}
    assert restarted == ({"ctl1:slurmctld"} if site.os == "debian12" else set())
    assert "SchedulerType           = sched/builtin" in site.run("ctl1", "scontrol show config")
    # A running slurmd keeps the definition of its node before 23.11.
    before = after
    site.play("site.yml", "--tags", "slurmctld,slurmd", slurm_memory_percent=90)
    after = site.invocations()
    restarted = {key for key in before if before[key] != after[key]}
    slurmds = {f"{host}:slurmd" for host in compute_nodes(site)}
    assert restarted == ({"ctl1:slurmctld", *slurmds} if site.os == "debian12" else set())
    # The controllers have the only copy.
    site.play("site.yml", "--tags", "slurmctld,slurmd")
    assert is_closed()
    assert "No reservations in the system" in site.run("ctl1", "scontrol show reservation")
    site.run("ctl1", "scontrol update partitionname=stable state=up")
    site.wait_job(waits, ["COMPLETED"])
    info = site.job(job)
    assert (info["JobState"], info["StartTime"]) == ("RUNNING", start)


def damage(site: Converged) -> list[str]:
    """Take away files, services, packages and keys, as an interrupted installation would; the hosts that lack some."""
    half, bare = compute_nodes(site)[:2]
    remove = "DEBIAN_FRONTEND=noninteractive apt-get remove -y -q"
    site.run(
        half, "rm /etc/sysctl.d/90-slurm.conf /etc/default/slurmd; systemctl disable --now slurmd"
    )
    site.run(half, "sed -i '/pam_slurm_adopt/d' /etc/pam.d/sshd")
    site.run(bare, f"{remove} slurmd libpam-slurm-adopt")
    site.run(
        bare, "head -c 1024 /dev/urandom >/etc/munge/munge.key; rm -f /etc/ssh/ssh_known_hosts"
    )
    site.run("ctl1", "echo '# a stray line' >>/etc/slurm/cgroup.conf; systemctl stop slurmctld")
    site.run("ctl1", f"{remove} slurmrestd; rm /etc/slurm/jwt_hs256.key")
    site.run(
        "login1", "chmod 600 /etc/ssh/sshd_config.d/50-login-limits.conf; systemctl stop munge"
    )
    return [half, bare, "ctl1", "login1"]


@pytest.mark.systems("debian12")
def test_check_equals_the_real_run_on_a_half_done_cluster_and_no_secret_is_shown(
    quiet_site: Converged,
) -> None:
    """The real run generates the keys again and reports all its changes."""
    site = quiet_site
    damaged = damage(site)
    real = assert_check_tells_the_truth(site, "-vvv", "--diff")
    assert {host for host, _task in real.changed} >= set(damaged)
    password = site.run("ctl1", "grep -oP 'StoragePass=\\K.*' /etc/slurm/slurmdbd.conf")
    munge = site.run("ctl1", "base64 -w0 /etc/munge/munge.key")[:60]
    jwt = site.run("ctl1", "base64 -w0 /etc/slurm/jwt_hs256.key")[:40]
    for secret in (password, munge, jwt):
        assert secret and secret not in real.output
    for node in damaged[:2]:
        site.wait_node(node, "idle")


def test_the_report_of_a_run_is_json_with_every_host(site: Converged) -> None:
    assert site.first is not None
    assert set(site.cluster.hosts) <= set(json.loads(json.dumps(site.first.report))["hosts"])
