"""Adding, removing and losing nodes on a live cluster."""

from __future__ import annotations

import re
import time

import pytest

from .conftest import Converged
from .site import SOAK, poll, tail


def controllers(site: Converged) -> list[str]:
    return [host for host in site.cluster.hosts if host.startswith("ctl")]


#: Of the machine that is killed: dpkg has unpacked a package before what it needs, and one not whole.
HALF_DONE = """cd /tmp && apt-get -q update && apt-get -q download slurmd libmunge2
dpkg --unpack slurmd_*.deb libmunge2_*.deb
rm slurmd_*.deb libmunge2_*.deb; touch /var/lib/dpkg/updates/0001
sed -i '/^Package: libmunge2/,/^Version/s/^Status: .*/Status: install reinstreq half-installed/' /var/lib/dpkg/status
! dpkg --configure -a"""


def said_of(host: str, output: str) -> list[str]:
    """The lines of the summary that are about a host."""
    return [line for line in output.splitlines() if line.startswith(f"{host}: ")]


@pytest.mark.systems("debian12")
def test_limit_without_the_controller_is_refused_with_the_command_to_type(site: Converged) -> None:
    run = site.play("site.yml", "--limit", "c1", rc=None)
    assert run.rc != 0
    assert re.search(r"site.yml --limit 'c1,slurm_controller'", run.output.replace('"', "'")), tail(
        run.output, 20
    )
    assert run.changed == set()


@pytest.mark.systems("debian13")
def test_a_node_is_added_by_limit_and_removed_by_name(quiet_site: Converged) -> None:
    """On the way: a run in which nodes die, one that the node is missing from, one that finds nothing to do."""
    site = quiet_site
    away = [host for host in site.cluster.hosts if host == "c3"]
    job = site.sbatch("srun sleep 600", "-N2 -w c1,c2")
    site.wait_job(job, ["RUNNING"])
    start = site.job(job)["StartTime"]
    old_hosts = list(site.cluster.hosts)
    before = site.invocations()
    new = site.cluster.add_compute(1)[0]
    try:
        # A node is without power all the time, and the newcomer loses it in the middle of the installation. The
        # summary names each in one line, the others are done, and Slurm still knows the one that is away.
        others = ["c1", *controllers(site)]
        for host in away:
            site.cluster.kill(host)
        process = site.start_playbook(
            "site.yml", "--limit", ",".join([new, *away, *others]), node_base_log_days=31
        )
        poll("the installation", lambda: site.run(new, "pgrep -x dpkg", check=False), 90, 0.2)
        site.cluster.kill(new)
        output, _ = process.communicate()
        assert process.returncode != 0
        for host in (new, *away):
            (line,) = said_of(host, output)
            assert line.startswith(f"{host}: UNREACHABLE") and "->" in line, line
        for host in others:
            assert "rotate 31" in site.run(host, "cat /etc/logrotate.d/trainwright-slurm")
            assert not said_of(host, output)
        assert set(away) <= set(site.run("ctl1", "sinfo -hN -o %N").split())
        # The next run brings them home.
        for host in (new, *away):
            site.cluster.start(host)
        # The kill may hit dpkg earlier or later.
        site.run(new, HALF_DONE)
        limit = [new, *away, *controllers(site)]
        run = site.play("site.yml", "--limit", ",".join(limit), node_health_mode="enforce")
        assert run.hosts <= set(limit)
        # It gets jobs once its first checks have passed. The one that came home is not new.
        holds = "Hold the new nodes"
        assert holds in {task.split(" | ")[-1] for _, task in run.changed}
        held = "scontrol show reservation"
        poll(f"{new} to be released", lambda: "No reserv" in site.run("ctl1", held), 90)
        journal = site.run("ctl1", "journalctl -u trainwright-health-agent -o cat")
        assert f"release {new}: the first checks passed" in journal
        for host in away:
            site.wait_node(host, "idle")
        site.wait_node(new, "idle", timeout=30)
        after = {
            key: value
            for key, value in site.invocations().items()
            if key.split(":")[0] in set(old_hosts) - set(away)
        }
        changed = {key for key in after if before[key] != after[key]}
        # Before 23.11 slurmctld learns of new nodes only by a restart.
        assert changed <= ({"ctl1:slurmctld"} if site.os == "debian12" else set())
        info = site.job(job)
        assert (info["JobState"], info["StartTime"]) == ("RUNNING", start)
        # The other nodes know the newcomer: a job spans it and a node that no run visited since.
        both = site.sbatch("srun hostname", f"-N2 -w c2,{new}")
        site.wait_job(both, timeout=40)
        refused = site.play("remove_nodes.yml", nodes=new, rc=None)
        assert refused.rc != 0 and "confirm=yes" in refused.output
        refused = site.play("remove_nodes.yml", nodes=f"{new},c77", confirm="yes", rc=None)
        assert refused.rc == 2 and "does not know the node c77" in refused.output
        refused = site.play("remove_nodes.yml", nodes="ALL", confirm="yes", rc=None)
        assert refused.rc == 2 and "names every node of the cluster" in refused.output
        assert site.node_state(new) == "idle"
        # Where the inventory lacks it, a whole run says so and finds nothing to do but its host key in the others'
        # lists, the days above, and the nodes that the health agent judges.
        site.cluster.forget(new)
        listed = site.play("site.yml")
        assert {task.split(" | ")[-1] for _, task in listed.changed} <= {
            "Write the base configuration",
            "Write the agent, its library and its configuration",
            "Run the agent",
        }
        assert f"{new}: known to Slurm and not in the inventory" in listed.output.replace("\n", " ")
        assert site.node_state(new) == "idle"
        busy = site.sbatch("sleep 8", f"-N1 -w {new}")
        site.wait_job(busy, ["RUNNING"])
        site.play("remove_nodes.yml", nodes=new, confirm="yes")
        if site.os == "debian13":
            # As after a run that was killed before it had handed out the keys.
            site.run("c1", "sed -i /@revoked/d /etc/ssh/ssh_known_hosts")
            site.play("remove_nodes.yml", nodes=new, confirm="yes")
        # It still runs, and no host believes it any more.
        refused = site.as_user("alice", f"ssh -o BatchMode=yes {new} true; echo rc=$?", "c1")
        assert "REVOKED HOST KEY" in refused and "rc=255" in refused, refused
        assert site.job(busy).get("JobState") == "COMPLETED"
        assert new not in site.run("ctl1", "sinfo -hN -o %N").split()
        assert site.job(job)["JobState"] == "RUNNING"
        info = site.job(job)
        assert (info["JobState"], info["StartTime"]) == ("RUNNING", start)
        if SOAK:
            # A whole run has at most to take the name out of the others' lists, and leaves the running job alone.
            before = site.invocations()
            again = site.play("site.yml")
            assert {task.split(" | ")[-1] for _, task in again.changed} <= {
                "Write the base configuration"
            }
            assert site.invocations() == before
            assert site.job(job)["StartTime"] == start
    finally:
        for host in away:
            site.cluster.start(host)
        if new in site.run("ctl1", "sinfo -hN -o %N").split():
            # Left there, it would fail the tests that follow.
            site.play("remove_nodes.yml", nodes=new, confirm="yes", rc=None)
        site.cluster.remove(new)


@pytest.mark.systems("debian12")
def test_a_node_killed_in_a_job_fails_the_job_and_comes_back(quiet_site: Converged) -> None:
    site = quiet_site
    job = site.sbatch("srun sleep 600", "-N1 -w c2 --requeue")
    site.wait_job(job, ["RUNNING"])
    site.cluster.kill("c2")
    site.run(
        "ctl1",
        "scontrol update nodename=c2 state=down reason='tw:validate:test: killed -> start it'",
    )
    site.wait_job(job, ["PENDING"], 30)
    site.cluster.start("c2")
    poll(
        "slurmd of c2",
        lambda: site.run("c2", "systemctl is-active slurmd", check=False) == "active",
        60,
    )
    # ReturnToService=2 may have been faster.
    site.run("ctl1", "scontrol update nodename=c2 state=resume", check=False)
    site.wait_node("c2", "idle", "mixed", "allocated")


# A process of the unit whose program is called slurmd takes the port as soon as slurmd ends, and does not end itself.
HANGING = """
import os, signal, socket, time
with open("/sys/fs/cgroup" + os.environ["UNIT"] + "/cgroup.procs", "w") as handle:
    handle.write(str(os.getpid()))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
one = socket.socket()
one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
while True:
    try:
        one.bind(("", 6818))
        one.listen()
        break
    except OSError:
        time.sleep(0.01)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.soak("a race for slurmd's port")
def test_an_old_slurmd_that_hangs_does_not_keep_the_next_from_its_port(
    quiet_site: Converged,
) -> None:
    site = quiet_site
    job = site.sbatch("srun sleep 600", "-w c1")
    site.wait_job(job, ["RUNNING"])
    steps = poll("the step", lambda: site.run("c1", "pgrep -x slurmstepd", check=False))
    site.run(
        "c1",
        f"cp $(readlink -f /usr/bin/python3) /root/slurmd; cat >/root/a.py <<'EOF'\n{HANGING}EOF",
    )
    unit = site.run("c1", "systemctl show -P ControlGroup slurmd")
    try:
        command = f"UNIT={unit} PYTHONHOME=/usr setsid /root/slurmd /root/a.py >/root/a.out 2>&1 </dev/null &"
        site.run("c1", command)
        old = poll("the process", lambda: site.run("c1", "pgrep -f ^/root/slurmd", check=False))
        site.run("c1", "systemctl kill --kill-whom=main -s KILL slurmd")
        held = "ss -Hltnp 'sport = :6818' | grep -o 'pid=[0-9]*'"
        poll("the port", lambda: site.run("c1", held, check=False) == f"pid={old}")
        begin = time.monotonic()
        site.run("c1", "systemctl restart slurmd")
        assert time.monotonic() - begin < 15
        pid = site.pid("c1", "slurmd")
        poll("slurmd", lambda: f"pid={pid}" in site.run("c1", held, check=False))
        assert site.run("c1", f"test -e /proc/{old} || echo gone") == "gone"
        assert set(steps.split()) <= set(site.run("c1", "pgrep -x slurmstepd").split())
        site.wait_node("c1", "mixed", "allocated")
    finally:
        site.run("c1", "pkill -KILL -f ^/root/slurmd; rm -f /root/slurmd /root/a.py", check=False)
        site.run("ctl1", f"scancel {job}")
    site.wait_node("c1", "idle")
