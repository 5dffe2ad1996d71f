# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What an ordinary user tries at the doors of the cluster: other hosts, the queue, tokens, root's jobs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator

import pytest

from .conftest import Converged
from .modules import run_tasks

SSH = "ssh -o BatchMode=yes -o ConnectTimeout=10"


def exit_code(site: Converged, host: str, command: str, user: str = "") -> int:
    """The exit code of a command, as root or in a login shell of a user."""
    told = f"{command}; echo code=$?"
    output = site.as_user(user, told, host=host) if user else site.run(host, told)
    return int(re.findall(r"code=(\d+)", output)[-1])


def controllers(site: Converged) -> list[str]:
    return [host for host in site.cluster.hosts if host.startswith("ctl")]


@pytest.mark.systems("debian13")
def test_users_stay_out_of_the_controllers_and_root_does_not(site: Converged) -> None:
    # Neither a command, nor a forwarded port, nor a file.
    ways = (
        f"{SSH} {{}} touch /tmp/was-here",
        f"{SSH} -N -o ExitOnForwardFailure=yes -L 6033:127.0.0.1:3306 {{}}",
        "echo 'put .profile /tmp/was-here' | sftp -b - {}",
    )
    for host in controllers(site):
        for way in ways:
            command = f"timeout 20 {way.format(host)}"
            assert exit_code(site, "login1", command, "alice") == 255, command
        assert site.run(host, "ls /tmp/was-here; pgrep -u alice", check=False).endswith(
            "No such file or directory"
        )
        # site.run logs in by SSH as root.
        assert site.run(host, "id -un") == "root"
        assert site.run(host, "grep ^+ /etc/security/access-slurm.conf") == "+:root,(sudo):ALL"
    # The same key opens the hosts that are for users.
    assert exit_code(site, "login1", f"{SSH} login1 true", "alice") == 0


@pytest.mark.systems("debian13")
def test_a_user_with_sudo_is_an_administrator(site: Converged) -> None:
    host = controllers(site)[-1]
    site.run(host, "usermod -aG sudo bob")
    try:
        assert exit_code(site, "login1", f"{SSH} {host} true", "bob") == 0
    finally:
        site.run(host, "gpasswd -d bob sudo")
    assert exit_code(site, "login1", f"{SSH} {host} true", "bob") == 255


@pytest.mark.systems("debian13")
def test_users_log_in_from_listed_addresses_only_and_administrators_from_everywhere(
    site: Converged,
) -> None:
    part = ("site.yml", "--limit", "login1,slurm_controller", "--tags", "login_access")
    try:
        site.play(*part, login_access_from=["192.0.2.0/24", f"{site.cluster.addresses['c1']}/32"])
        assert exit_code(site, "c1", f"{SSH} login1 true", "alice") == 0
        assert exit_code(site, "login1", f"{SSH} login1 true", "alice") == 255
        # site.run logs in by SSH as root, from an address that is not listed.
        assert site.run("login1", "id -un") == "root"
    finally:
        site.play(*part)
    assert exit_code(site, "login1", f"{SSH} login1 true", "alice") == 0


@pytest.mark.systems("debian13")
def test_a_run_that_would_lock_its_own_user_out_is_refused(site: Converged) -> None:
    """The run logs in as a user for whom sudoers lists commands, not all."""
    listed, rules = "/etc/security/access-slurm.conf", "/etc/sudoers.d/deploy"
    site.run(
        "ctl1",
        "useradd -m deploy && cp -r /root/.ssh /home/deploy/ && chown -R deploy: /home/deploy/.ssh",
    )
    site.run("ctl1", f"echo 'deploy ALL=(root) NOPASSWD: /bin/sh, /usr/bin/sh' >{rules}")
    site.run("ctl1", f"sed -i.kept 's/^+:root/+:root,deploy/' {listed}")
    try:
        run = site.play(
            "site.yml", "--limit", "ctl1", "--tags", "login_access", rc=2, ansible_user="deploy"
        )
        assert "ctl1: login_access_allow_users: this run logs in as deploy" in " ".join(
            run.output.split()
        )
        assert "deploy" in site.run("ctl1", f"cat {listed}") and not run.changed
    finally:
        site.run("ctl1", f"mv {listed}.kept {listed}; rm {rules}; userdel -rf deploy", check=False)


@pytest.mark.systems("debian13")
def test_root_submits_no_jobs(site: Converged) -> None:
    before = site.run("ctl1", "squeue -h -a -o %i | sort")
    for command in ("sbatch --wrap id", "srun -n1 id", "salloc -n1 true"):
        assert exit_code(site, "ctl1", f"cd /tmp && timeout 20 {command}") == 1, command
    assert site.run("ctl1", "squeue -h -a -o %i | sort") == before


@pytest.fixture
def small_limit(quiet_site: Converged) -> Iterator[Converged]:
    """The site with room for 50 jobs of each user."""
    modify = "sacctmgr -i modify qos normal set MaxSubmitJobsPerUser"
    shown = quiet_site.run("ctl1", "sacctmgr -nP show qos normal format=MaxSubmitJobsPU")
    assert shown == "10000"
    quiet_site.run("ctl1", f"{modify}=50")
    yield quiet_site
    quiet_site.run("ctl1", f"{modify}={shown}")


@pytest.mark.systems("debian13")
def test_one_user_cannot_fill_the_queue(small_limit: Converged) -> None:
    site = small_limit
    submit = "sbatch --hold --output=/dev/null --array=1-{} --wrap true"
    codes = [exit_code(site, "login1", submit.format(20), "alice") for _ in range(5)]
    assert codes == [0, 0, 1, 1, 1]
    count = "squeue -h -r -u {} | wc -l"
    assert site.run("ctl1", count.format("alice")) == "40"
    # There is room for others.
    assert exit_code(site, "login1", submit.format(20), "bob") == 0
    assert site.run("ctl1", count.format("bob")) == "20"


@pytest.mark.systems("debian13")
def test_tokens_of_users_end(site: Converged) -> None:
    week = 604800
    for lifespan in (week + 1, 999999999):
        assert exit_code(site, "login1", f"scontrol token lifespan={lifespan}", "alice") == 1
    token = site.as_user("alice", f"scontrol token lifespan={week}").split("=", 1)[1]
    body = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert (claims["sun"], claims["exp"] - claims["iat"]) == ("alice", week)


@pytest.fixture
def private(quiet_site: Converged) -> Iterator[Converged]:
    """The site with PrivateData, in slurmctld alone."""
    path = "/etc/slurm/slurm.conf"
    line = "PrivateData=jobs,usage,users,accounts,events,reservations"
    hosts = controllers(quiet_site)
    try:
        for host in hosts:
            quiet_site.run(host, f"cp -p {path} {path}.kept && echo {line} >>{path}")
        quiet_site.reconfigure()
        yield quiet_site
    finally:
        for host in hosts:
            quiet_site.run(host, f"mv {path}.kept {path}")
        quiet_site.reconfigure()


@pytest.mark.systems("debian13")
def test_private_data_hides_jobs_from_users_and_not_from_modules(private: Converged) -> None:
    jobs = {user: private.sbatch("true", "--hold", user) for user in ("alice", "bob")}
    assert private.as_user("alice", "squeue -h -o %i").split() == [jobs["alice"]]
    assert jobs["bob"] not in private.as_user("alice", f"scontrol show job {jobs['bob']}", check=False)  # fmt: skip
    task = {"trainwright.slurm.slurm_info": {"gather": ["jobs", "nodes", "partitions"]}}
    for user, hidden_jobs in (("root", set()), ("alice", {jobs["bob"]})):
        become = {"become": True, "become_user": user}
        found = run_tasks(private, [{"name": "read", **task, **become}], host="login1")["read"]
        seen = {str(job["id"]) for job in found["jobs"]}
        assert set(jobs.values()) - seen == hidden_jobs
        assert found["nodes"] and found["partitions"]


@pytest.fixture
def hidden(site: Converged) -> Iterator[Converged]:
    """The site with hidepid on c1 and the controllers, which each run needs."""
    arguments = ("site.yml", "--limit", "c1,slurm_controller", "--tags", "node_base")
    checked = site.play(*arguments, "--check", node_base_hidepid=True)
    changed = site.play(*arguments, node_base_hidepid=True).changed
    assert changed and changed == checked.changed
    yield site
    site.play(*arguments)
    for host in ("c1", *controllers(site)):
        # What the next boot does.
        site.run(
            host,
            "systemctl stop trainwright-hidepid; systemctl daemon-reload; mount -o remount,hidepid=0,gid=0 /proc",
        )
        assert not site.run(host, "find /etc/systemd -name '*hidepid*'")


@pytest.mark.soak("three runs of site.yml")
@pytest.mark.systems("debian13")
def test_hidepid_hides_processes_and_jobs_still_run(hidden: Converged) -> None:
    site = hidden
    secret = "bash -c 'sleep 60; : --token=ARGSECRET'"
    job = site.sbatch(secret, "-w c1", "bob")
    site.wait_job(job, ("RUNNING",))
    see = 'srun -Q -w c1 sh -c \'cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" " "\''
    seen = site.as_user("alice", see)
    assert "cat /proc" in seen and "ARGSECRET" not in seen
    assert "slurmd" not in seen
    assert "ARGSECRET" in site.run("c1", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert site.run("c1", "systemctl is-enabled trainwright-hidepid") == "enabled"
    site.run("ctl1", f"scancel {job}")
