# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The control node's part of site.yml on a finished cluster of many nodes that are not there.

The real plays, roles and plugins with a connection that answers for each module as a host does on which nothing is to
be done, with recorded facts. The clients of SSH and the nodes themselves take no time here.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
FACTS = json.loads((ROOT / "tests/fixtures/fleet/facts.json").read_text(encoding="utf-8"))
SIZES = (100, 1000)
#: Seconds and MiB that the runs of the largest fleet may take, and how much steeper than linear the time may grow.
LIMIT_NOTHING, LIMIT_ONE, LIMIT_MEMORY, LIMIT_GROWTH = 90.0, 100.0, 2048.0, 1.0


@dataclass(frozen=True)
class Timing:
    """Runs on a finished cluster of so many nodes: with nothing to do, and with one changed node.

    ping: seconds of a playbook that has one task for each node, ansible.builtin.ping, which is the yardstick. nothing,
    one: seconds. cpu: seconds of the processors, of both. memory: MiB of the largest process. walked: nodes that took
    part in either.
    """

    hosts: int
    ping: float
    nothing: float
    one: float
    cpu: tuple[float, float]
    memory: float
    walked: tuple[int, int]


class Fleet:
    """An inventory of simulated hosts, with the answers of each kind."""

    def __init__(self, directory: Path, nodes: int) -> None:
        self.directory = directory
        self.nodes = [f"c{number}" for number in range(1, nodes + 1)]
        self.wanted = directory / "wanted"
        self.wanted.mkdir()
        self.inventory = directory / "inventory"
        (self.inventory / "host_vars").mkdir(parents=True)
        addresses = {
            host: f"10.{20 + index // 62500}.{index // 250 % 250}.{index % 250 + 1}"
            for index, host in enumerate(["ctl1", *self.nodes])
        }
        common = {
            "ansible_connection": "answers",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_user": "root",
            "fleet_answers": str(directory / "compute.json"),
            "fleet_wanted": str(self.wanted),
            "slurm_cluster_name": "local",
            "cluster_users": [{"name": "alice", "uid": 2001}, {"name": "bob", "uid": 2002}],
        }
        hosts: dict[str, Any] = {host: {"ansible_host": addresses[host]} for host in addresses}
        # Where the recorded daemons say that it is.
        hosts["ctl1"]["ansible_host"] = "10.89.91.11"
        hosts["ctl1"]["fleet_answers"] = str(directory / "controller.json")
        group = {"hosts": {"ctl1": None}}
        tree = {
            "slurm_controller": group,
            "slurm_database": group,
            "slurm_compute": {"hosts": dict.fromkeys(self.nodes)},
        }
        text = {
            "all": {
                "vars": common,
                "hosts": hosts,
                "children": {"slurm_cluster": {"children": tree}},
            }
        }
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump(text), encoding="utf-8")
        self.record: dict[str, Any] = {}
        self.write()

    def write(self) -> None:
        """Write the answers of each kind of host."""
        record = base64.b64encode(json.dumps(self.record).encode()).decode()
        secret = base64.b64encode(b"s" * 32).decode()
        look = {
            **{"state": "as left", "differences": [], "left_out": 0, "unknown": [], "items": 200},
            **{"secrets": "5ec2e7", "digest": "", "others": 0, "run": ""},
        }
        both = {"system_users": {"homes": []}}
        controller = {
            **both,
            "slurp": {"content": record, "encoding": "base64"}
            if self.record
            else {"failed": True, "msg": "file not found"},
            "node_facts": {"ansible_facts": {"trainwright_node": FACTS["ctl1"]}, "look": look},
            "cluster_secrets": {
                "secrets": dict.fromkeys(("munge_key", "jwt_key", "database_password"), secret),
                "ssh_ca_public": "ssh-ed25519 AAAA ca",
                "host_certificates": {},
                "made": [],
                "digest": "5ec2e7",
            },
            "slurm_nodes_ready": {
                "message": "",
                "not_ready": {},
                "drained": {},
                "overwritten": [],
                "waited": 0,
            },
            "slurm_proof": {
                "proved": [],
                "left_out": {},
                "failed_nodes": {},
                "clients": {},
                "drained": [],
                "log": "",
                "attention": [],
            },
        }
        compute = {
            **both,
            "node_facts": {"ansible_facts": {"trainwright_node": FACTS["c1"]}, "look": look},
            "services": {"loaded": ""},
        }
        for name, answers in (("controller", controller), ("compute", compute)):
            (self.directory / f"{name}.json").write_text(json.dumps(answers), encoding="utf-8")

    def learn(self) -> None:
        """Have each host as if it was set up for what is wanted there now, and the record of that."""
        record = self.directory / "record.json"
        self._run(
            "playbooks/site.yml",
            ANSIBLE_CALLBACK_PLUGINS=str(Path(__file__).with_name("callback_plugins")),
            ANSIBLE_CALLBACKS_ENABLED="first_digests",
            FLEET_WANTED=str(self.wanted),
            FLEET_RECORD=str(record),
        )
        self.record = json.loads(record.read_text(encoding="utf-8"))
        self.write()
        if len(list(self.wanted.iterdir())) < len(self.nodes):
            raise RuntimeError("site.yml would not leave out the hosts of the fleet")

    def change_one(self) -> None:
        """Want something else on the last node."""
        variables = {"slurm_node": {"weight": 7}}
        path = self.inventory / f"host_vars/{self.nodes[-1]}.yml"
        path.write_text(yaml.safe_dump(variables), encoding="utf-8")

    def ping(self) -> float:
        """Run one task on each node; return its seconds."""
        playbook = self.directory / "ping.yml"
        task = {"name": "Ping", "ansible.builtin.ping": {}}
        play = {"name": "Ping", "hosts": "slurm_compute", "gather_facts": False, "tasks": [task]}
        playbook.write_text(yaml.safe_dump([play]), encoding="utf-8")
        return self.play(str(playbook))[0]

    def play(self, playbook: str = "playbooks/site.yml") -> tuple[float, float, dict[str, Any]]:
        """Run a playbook; return its seconds, those of the processors, and its summary."""
        summary = self.directory / "run.json"
        began, busy = time.monotonic(), _cpu()
        self._run(playbook, TRAINWRIGHT_RUN_JSON=str(summary))
        seconds, busy = time.monotonic() - began, _cpu() - busy
        return seconds, busy, json.loads(summary.read_text(encoding="utf-8"))

    def _run(self, playbook: str, **further: str) -> None:
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_CONNECTION_PLUGINS": str(Path(__file__).with_name("connection_plugins")),
            "ANSIBLE_NOCOLOR": "1",
            **further,
        }
        command = [str(Path(sys.executable).with_name("ansible-playbook"))]
        done = subprocess.run(
            [*command, "-i", str(self.inventory), playbook],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        output = done.stdout + done.stderr
        if done.returncode:
            raise RuntimeError(f"{playbook} ended with {done.returncode}:\n{output[-4000:]}")


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def walked(summary: dict[str, Any]) -> int:
    """Return the number of nodes on which a run did more than look."""
    hosts = summary["hosts"]
    return sum(1 for host, one in hosts.items() if host != "ctl1" and one["executions"] > 1)


def measure(nodes: int) -> Timing:
    """Time the runs on a fleet of so many nodes."""
    with tempfile.TemporaryDirectory() as place:
        fleet = Fleet(Path(place), nodes)
        fleet.learn()
        nothing, busy, summary = fleet.play()
        first = walked(summary)
        fleet.change_one()
        one, also, summary = fleet.play()
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        return Timing(
            nodes, fleet.ping(), nothing, one, (busy, also), memory, (first, walked(summary))
        )


def misses(timings: list[Timing]) -> list[str]:
    """Return a line for each limit that is missed."""
    found = [
        f"fleet of {one.hosts}: {one.walked[0]} nodes and {one.walked[1]} took part, not none and 1"
        for one in timings
        if one.walked != (0, 1)
    ]
    least, most = timings[0], timings[-1]
    limits = {
        "seconds with nothing to do": (most.nothing, LIMIT_NOTHING),
        "seconds with one changed node": (most.one, LIMIT_ONE),
        "MiB": (most.memory, LIMIT_MEMORY),
    }
    if most is not least:
        growth = most.nothing / least.nothing / (most.hosts / least.hosts)
        limits["times the growth of the fleet"] = (growth, LIMIT_GROWTH)
    found += [
        f"fleet of {most.hosts}: {value:.1f} {what}, at most {limit:g} is wanted"
        for what, (value, limit) in limits.items()
        if value > limit
    ]
    return found


def render(timings: list[Timing]) -> str:
    """Return the table that `make bench` prints."""
    lines = ["simulated nodes      ping   nothing to do   one changed   CPU seconds of both   MiB"]
    lines += [
        f"{one.hosts:15d}   {one.ping:5.1f} s   {one.nothing:11.1f} s   {one.one:9.1f} s"
        f"   {one.cpu[0]:8.1f} {one.cpu[1]:8.1f}   {one.memory:5.0f}"
        for one in timings
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(render([measure(size) for size in map(int, sys.argv[1:] or SIZES)]))
