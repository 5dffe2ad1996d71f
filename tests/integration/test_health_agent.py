# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The health agent on eight nodes that fail at once, killed in the middle of its work, and over a failover.

The eight are slurmd processes in the container of one node, so that their records in Slurm are real ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.health.publication import (
    Failure,
    Publication,
    dump,
)

from .conftest import Converged
from .site import Site, poll, sample

pytestmark = pytest.mark.systems("debian13", only="a second controller")

COUNT = 8
NAMES = [f"x{number}" for number in range(1, COUNT + 1)]
AGENT = "/etc/trainwright/health-agent.json"
CONTROLLERS = ("ctl1", "ctl2")
CONF = "/etc/slurm/slurm.conf"
TOLD = "/shared/slurmctld/told"
PLACE = "/run/trainwright-eight"
LINES = f"""NodeName=x[1-{COUNT}] NodeHostname=c3 NodeAddr=c3 Port=[7001-{7000 + COUNT}] CPUs=1 RealMemory=100
PartitionName=eight Nodes=x[1-{COUNT}] Hidden=YES
"""
START = f"""set -e
rm -rf {PLACE} && mkdir {PLACE} && cp -p /var/spool/slurmd/conf-cache/* /etc/slurm/slurm.key {PLACE}
cd {PLACE}
sed -i '/^HealthCheck/d; s|^SlurmdSpoolDir=.*|SlurmdSpoolDir={PLACE}/%n|' slurm.conf
sed -i 's|^SlurmdPidFile=.*|SlurmdPidFile={PLACE}/%n.pid|; s|^SlurmdLogFile=.*|SlurmdLogFile={PLACE}/%n.log|' slurm.conf
for n in {" ".join(NAMES)}; do
    mkdir $n
    RUNTIME_DIRECTORY={PLACE}/$n setsid slurmd -N $n -f {PLACE}/slurm.conf </dev/null >/dev/null 2>&1
done
"""
#: Ends the agent before, or right after, the call of Slurm that drains a node.
BEFORE, AFTER = "kill -9 $PPID; exit 1", '/usr/bin/scontrol "$@"; kill -9 $PPID; exit 0'
ANSWERS = "timeout 2 sinfo -h >/dev/null && echo answers"
MOUNT = Failure("mounts", "not mounted: /fsx", "mount it")
WORN = Failure("nvme_health", "critical warning of nvme1", "replace the disk", "replace")


def publish(site: Site, names: list[str], *failures: Failure) -> None:
    """Let nodes publish, all in one moment."""
    now = time.time_ns()
    lines = []
    for name in names:
        word = dump(
            Publication(name, "boot1", now // 1000000 % 10**9, now // 10**9, failures, passed=9)
        )
        lines.append(f"scontrol update nodename={name} extra='{word}'")
    site.run("ctl2", "\n".join(lines))


def look(site: Site, host: str = "ctl1", killed: bool = False) -> None:
    """Let the agent of a controller look once."""
    done = site.run(host, "systemctl start trainwright-health-agent; echo rc=$?", check=False)
    assert ("rc=0" not in done) == killed, done


def drained(site: Site, host: str = "ctl1") -> list[str]:
    return site.run(host, "sinfo -hN -p eight -t drain -o %N").split()


def writes(site: Site, host: str, path: str, text: str) -> None:
    site.cluster.local.ssh(host, f"cat >{path} && chmod 755 {path}", input=text)


def configure(site: Site, **more: object) -> None:
    """Configure the agent of each controller."""
    for host in CONTROLLERS:
        config = json.loads(site.run(host, f"cat {AGENT}"))
        config["nodes"] = [*dict.fromkeys([*config["nodes"], *NAMES])]
        site.cluster.local.ssh(
            host, f"cat >{AGENT}", input=json.dumps({**config, "mode": "enforce", **more})
        )


def gives_back(site: Site) -> None:
    """Let the primary lead; to ask a backup for it takes half a minute."""
    if site.run("ctl1", "systemctl is-active slurmctld", check=False) != "active":
        site.run("ctl2", "systemctl stop slurmctld")
        site.run("ctl1", "systemctl start slurmctld")
        site.run("ctl2", "systemctl start slurmctld")
    poll("the primary", lambda: "answers" in site.run("ctl1", ANSWERS, check=False), 60)


@pytest.fixture
def eight(quiet_site: Converged) -> Iterator[Converged]:
    """The site with eight more nodes, and agents that look only when they are asked to."""
    site = quiet_site
    for host in CONTROLLERS:
        site.run(
            host,
            f"systemctl stop trainwright-health-agent.timer; cp -p {CONF} {CONF}.eight; cp -p {AGENT} {AGENT}.eight",
        )
        site.cluster.local.ssh(host, f"cat >>{CONF}", input=LINES)
    try:
        site.reconfigure()
        site.run("c3", START)
        up = "sinfo -hN -p eight -t idle -o %N"
        poll("the eight nodes", lambda: len(site.run("ctl1", up).split()) == COUNT, 60)
        configure(site)
        yield site
    finally:
        # One of the eight has put its own socket of auth/slurm in the place of the node's.
        ends = f"pkill -KILL -f 'slurmd -N x[0-9] -f {PLACE}'; rm -rf {PLACE}; systemctl restart slurmd"
        site.run("c3", ends, check=False)
        for host in CONTROLLERS:
            site.run(
                host,
                f"rm -f {TOLD} /usr/local/bin/scontrol /usr/local/bin/tell /var/lib/trainwright-health/events.jsonl;"
                f" mv {CONF}.eight {CONF}; mv {AGENT}.eight {AGENT}",
            )
        gives_back(site)
        site.reconfigure()
        for host in CONTROLLERS:
            site.run(host, "systemctl start trainwright-health-agent.timer")
        site.wait_node("c3", "idle")
        site.wait_job(site.sbatch("true", "--nodelist=c3 --time=1"))


def test_of_eight_nodes_that_fail_in_one_cycle_one_is_drained(eight: Converged) -> None:
    site = eight
    publish(site, NAMES, MOUNT)
    for _turn in range(sample(2, 10)):
        look(site)
        assert drained(site) == ["x1"]
    shown = site.run("ctl1", "cat /var/lib/trainwright-health/metrics.prom")
    assert 'state="deferred"} 7' in shown and 'state="drained"} 1' in shown
    report = json.loads(site.run("ctl1", "cat /var/lib/trainwright-health/report.json"))
    assert sum("not drained, the cap is reached" in line for line in report["lines"]) == COUNT - 1
    for _turn in range(3):
        publish(site, NAMES)
        look(site)
    assert drained(site) == []


def test_killed_in_mid_action_and_over_a_failover_it_acts_once(eight: Converged) -> None:
    """A disk is worn: the node is drained, and one event asks for another machine."""
    site = eight
    command = "/usr/local/bin/tell"
    configure(site, replace_command=[command])
    wrapper = '#!/bin/sh\ncase "$*" in *State=DRAIN*) {};; esac\nexec /usr/bin/scontrol "$@"\n'
    writes(site, "ctl1", "/usr/local/bin/scontrol", wrapper.format(BEFORE))
    writes(site, "ctl2", "/usr/local/bin/scontrol", wrapper.format(AFTER))
    tell = f"#!/bin/sh\ncat >>{TOLD}\n"
    writes(site, "ctl1", command, tell)
    writes(site, "ctl2", command, tell + "kill -9 $PPID\n")
    publish(site, ["x2"], WORN)
    look(site, killed=True)
    assert drained(site) == []
    # The other controller finds it noted and not done, and is killed when it has done it.
    site.run("ctl1", "systemctl stop slurmctld")
    site.run("ctl2", "scontrol takeover", check=False)
    poll("the backup", lambda: "answers" in site.run("ctl2", ANSWERS, check=False), 60)
    look(site, "ctl2", killed=True)
    assert drained(site, "ctl2") == ["x2"]
    # It hands the event out, and is killed before it has noted that.
    look(site, "ctl2", killed=True)
    # Two that are killed no more, the second on the primary that is back.
    site.run("ctl2", "rm /usr/local/bin/scontrol")
    writes(site, "ctl2", command, tell)
    look(site, "ctl2")
    site.run("ctl1", "rm /usr/local/bin/scontrol")
    gives_back(site)
    for _turn in range(2):
        look(site)
    assert drained(site) == ["x2"]
    logs = "cat /var/log/slurm/slurmctld.log"
    shown = "".join(site.run(host, logs) for host in CONTROLLERS)
    began = shown.count("update_node: node x2 state set to DRAIN")
    events = site.run("ctl1", f"cat {TOLD}").splitlines()
    assert (began, len(events)) == (1, 1), shown[-3000:]
    event = json.loads(events[0])
    assert (event["node"], event["check"]) == ("x2", "nvme_health")
    noted = "cat /var/lib/trainwright-health/events.jsonl 2>/dev/null | wc -l"
    assert [site.run(host, noted) for host in CONTROLLERS] == ["0", "1"]
