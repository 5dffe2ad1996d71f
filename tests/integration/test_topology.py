# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The network's topology: Slurm knows it, jobs show it, and a change of it restarts nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import (
    topology,
    topology_files,
    topology_parts,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.hostlist import fold

from tests.unit.network import instances

from .conftest import Converged
from .modules import run_tasks
from .site import SOAK, poll, tail

LEAVES = {"c1": "leaf1", "c2": "leaf2"}
#: What a topology concerns; one test has the whole of site.yml.
PART = () if SOAK else ("--tags", "slurmctld,slurmd")
BIG = "/tmp/trainwright-big"
COUNT = 10_000


def put(site: Converged, host: str, **variables: object) -> None:
    """Set variables of a host in the inventory, or take them out when there are none."""
    path = Path(site.inventory) / "host_vars" / f"{host}.yml"
    path.parent.mkdir(exist_ok=True)
    if variables:
        path.write_text(yaml.safe_dump(variables))
    else:
        path.unlink(missing_ok=True)


def computes(site: Converged) -> list[str]:
    """Return the compute nodes; from the third on, their place is unknown."""
    return [host for host in site.cluster.hosts if host.startswith("c") and host[1:].isdigit()]


def shown(site: Converged) -> dict[str, str]:
    """Return name -> what is on it, of each switch or block that slurmctld knows."""
    found = {}
    for line in site.run("ctl1", "scontrol show topology").splitlines():
        pairs = dict(word.split("=", 1) for word in line.split() if "=" in word)
        found[pairs.get("SwitchName") or pairs["BlockName"]] = pairs.get("Nodes", "")
    return found


def address(site: Converged, node: str) -> str:
    """Return the place that a job on this node prints."""
    out = "/shared/data/topology-$SLURM_JOB_ID"
    job = site.sbatch(f"srun -N1 -w {node} printenv SLURM_TOPOLOGY_ADDR > {out}", f"-N1 -w {node}")
    site.wait_job(job)
    return site.run("login1", f"cat /shared/data/topology-{job}; rm /shared/data/topology-{job}")


def restarted(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Return the daemons that were restarted in between."""
    return {name for name in before if before[name] != after[name]}


def forget(site: Converged) -> None:
    """Take all places out of the inventory, and have a cluster without a topology."""
    for host in LEAVES:
        put(site, host)
    (Path(site.inventory) / "host_vars").rmdir()
    site.play("site.yml", *PART)
    assert "No such file" in site.run("ctl1", "ls /etc/slurm/topology.*", check=False)


@pytest.fixture
def placed(quiet_site: Converged) -> Iterator[Converged]:
    """The site, with c1 and c2 on two leaf switches and in one block; without a topology afterwards."""
    site = quiet_site
    for host, leaf in LEAVES.items():
        put(site, host, slurm_network_path=["spine", leaf], slurm_block="nvl1")
    try:
        yield site
    finally:
        if (Path(site.inventory) / "host_vars").is_dir():
            site.end_all_jobs()
            forget(site)


@pytest.mark.systems("debian12")
def test_a_tree_is_known_shown_by_jobs_and_changed_without_a_restart(placed: Converged) -> None:
    site, spec = placed, {"plugin": "tree"}
    rest = computes(site)[2:]
    running = site.sbatch("sleep 600", "-N1 -w c2")
    site.wait_job(running, ["RUNNING"])
    before = site.invocations()
    check = site.play(
        "site.yml", "--check", "--diff", "--tags", "slurmctld,slurmd", slurm_topology=spec
    )
    assert "+SwitchName=leaf1 Nodes=c1" in check.output, tail(check.output, 60)
    assert "No such file" in site.run("ctl1", "ls /etc/slurm/topology.conf", check=False)
    run = site.play("site.yml", slurm_topology=spec)
    # Before 23.11 a daemon loads the plugin once in its life.
    slurm = {name for name in before if name.split(":")[1] in ("slurmctld", "slurmd")}
    done = restarted(before, site.invocations())
    assert done <= slurm if site.os == "debian12" else done == set(), done
    assert {(h, t) for h, t in run.changed if "slurmctld" in t} <= {
        (h, t) for h, t in check.changed if "slurmctld" in t
    }
    known = {"leaf1": "c1", "leaf2": "c2"}
    if rest:
        known["unplaced"] = fold(rest)
    assert {name: nodes for name, nodes in shown(site).items() if name in known} == known
    assert shown(site)["root" if rest else "spine"] == fold(computes(site))
    assert address(site, "c1").endswith("spine.leaf1.c1")
    assert site.job(running)["JobState"] == "RUNNING"
    for host in rest:  # nobody knows where they are, and they get jobs all the same
        # Slurm leaves a level empty where the way down is shorter than the longest.
        assert address(site, host) == f"root..unplaced.{host}"
    both = site.sbatch(
        "srun hostname", f"-N{len(computes(site))} --oversubscribe -n{len(computes(site))}"
    )
    site.wait_job(both)
    before = site.invocations()
    put(site, "c2", slurm_network_path=["spine", "leaf9"])
    moved = site.play("site.yml", "--limit", "c2,slurm_controller", slurm_topology=spec)
    # Only the controllers' file: the run before left nothing else to do.
    assert moved.changed and all("slurmctld" in task for _host, task in moved.changed)
    assert restarted(before, site.invocations()) == set()
    assert shown(site)["leaf9"] == "c2" and shown(site)["leaf1"] == "c1"
    assert site.job(running)["JobState"] == "RUNNING"
    # The nodes were handed the new file, those that the run did not visit too.
    poll("slurmd to know it", lambda: address(site, "c2").endswith("spine.leaf9.c2"))
    assert address(site, "c1").endswith("spine.leaf1.c1")
    refused = site.play(
        "site.yml", rc=None, slurm_topology={"plugin": "tree", "switches": [{"name": "a"}]}
    )
    assert refused.rc != 0 and refused.changed == set()
    assert "slurm_topology.switches[a]" in refused.output and "give it nodes" in refused.output


@pytest.mark.systems("debian13", only="Slurm 23.11 for blocks")
def test_blocks_are_known_and_changed_without_a_restart(placed: Converged) -> None:
    site, rest = placed, computes(placed)[2:]
    running = site.sbatch("sleep 600", "-N1 -w c2")
    site.wait_job(running, ["RUNNING"])
    before = site.invocations()
    run = site.play("site.yml", *PART, slurm_topology={"plugin": "block", "block_sizes": [2]})
    assert restarted(before, site.invocations()) == set()
    assert shown(site) == {"nvl1": "c[1-2]"}
    if rest:
        assert f"{fold(rest)}: not in the block topology" in run.output.replace("\n", " ")
    assert address(site, "c1") == "nvl1.c1"
    assert site.job(running)["JobState"] == "RUNNING"
    # From blocks to a tree, and to none, is a reconfigure as well.
    if SOAK:
        site.play("site.yml", slurm_topology={"plugin": "tree"})
        assert "leaf1" in shown(site)
        assert address(site, "c1").endswith("spine.leaf1.c1")
    forget(site)
    assert restarted(before, site.invocations()) == set()
    assert site.job(running)["JobState"] == "RUNNING"
    assert "No such file" in site.run("c1", "ls /run/slurm/conf/topology.conf", check=False)


@pytest.mark.systems("debian13", only="the 24.11 that it is written for")
def test_a_slurmctld_takes_the_topology_of_ten_thousand_instances(site: Converged) -> None:
    paths = instances(COUNT)
    places = {
        name: topology_parts.Place(topology_parts.path_of(path)) for name, path in paths.items()
    }
    started = time.process_time()
    made = topology.design({"plugin": "tree"}, places, (24, 11))
    assert made
    text = "\n".join(topology_files.lines(made, (24, 11)))
    assert time.process_time() - started < 2
    auth = site.run("ctl1", "scontrol show config | awk '$1 == \"AuthType\" {print $3}'")
    conf = f"""ClusterName=big
SlurmctldHost={site.run("ctl1", "hostname")}(127.0.0.1)
SlurmctldPort=7817
AuthType={auth}
CredType={auth.replace("auth", "cred")}
SlurmUser=slurm
StateSaveLocation={BIG}/state
SlurmctldPidFile={BIG}/pid
SlurmctldLogFile={BIG}/log
SlurmdTimeout=0
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
TopologyPlugin=topology/tree
NodeName={fold(paths)} NodeAddr=127.0.0.1 CPUs=8 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES
"""
    with_conf = f"SLURM_CONF={BIG}/slurm.conf"
    site.run("ctl1", f"rm -rf {BIG}; mkdir -p {BIG}/state")
    try:
        copies = [
            {
                "name": name,
                "ansible.builtin.copy": {
                    "dest": f"{BIG}/{name}",
                    "content": content,
                    "mode": "0644",
                },
            }
            for name, content in (("slurm.conf", conf), ("topology.conf", text + "\n"))
        ]
        run_tasks(site, copies, stop=True)
        # With auth/slurm the key is looked for beside slurm.conf.
        site.run("ctl1", f"[ ! -e /etc/slurm/slurm.key ] || cp -a /etc/slurm/slurm.key {BIG}/")
        site.run("ctl1", f"chown -R slurm {BIG}; slurmctld -i -f {BIG}/slurm.conf")
        poll(
            "slurmctld of 10,000 nodes",
            lambda: "is UP" in site.run("ctl1", f"{with_conf} scontrol ping", check=False),
            60,
        )
        found = site.run("ctl1", f"{with_conf} scontrol show topology").splitlines()
        assert len(found) == len(made.switches)
        leaves = [line for line in found if "Level=0" in line]
        assert len(leaves) == sum(bool(switch.nodes) for switch in made.switches)
        assert {line.split("Level=")[1][0] for line in found} == {"0", "1", "2", "3", "4"}
        # Each node is where its instance is, one of each kind looked at.
        for wanted in (3, 4, 0):
            name = next(name for name, place in places.items() if len(place.path) == wanted)
            line = site.run("ctl1", f"{with_conf} scontrol show topology {name} | grep Level=0")
            leaf = places[name].path[-1] if wanted else "unplaced"
            assert line.startswith(f"SwitchName={leaf} "), line
        site.run("ctl1", f"{with_conf} scontrol reconfigure")
        assert "fatal" not in site.run("ctl1", f"cat {BIG}/log")
    finally:
        site.run("ctl1", f"[ ! -e {BIG}/pid ] || kill $(cat {BIG}/pid); rm -rf {BIG}", check=False)
