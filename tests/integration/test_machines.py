# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Machines that are less than declared: kept out and drained as declared, while the others continue.

The containers have eight device files of GPUs; EFA interfaces are directories over the container's /sys/class.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Converged
from .site import Run, Site

pytestmark = pytest.mark.systems("debian13", only="the three compute nodes")

P5 = "p5.48xlarge"
# Containers are smaller than a p5 in all but GPUs and EFA.
SMALL = {
    "vcpus": 1, "cores": 1, "threads_per_core": 1, "memory_mib": 1024, "nvme": None, "nvlink_links": 0
}  # fmt: skip
EFA = """
set -e
umount /sys/class 2>/dev/null || true
rm -rf /run/efa; mkdir -p /run/efa/driver/efa
for i in $(seq 1 {count}); do
  mkdir -p /run/efa/class/infiniband/rdmap${{i}}s0/device
  ln -s /run/efa/driver/efa /run/efa/class/infiniband/rdmap${{i}}s0/device/driver
done
mount -t overlay overlay -o lowerdir=/run/efa/class:/sys/class /sys/class
"""
NODES = ("c1", "c2", "c3")


def efa(site: Site, host: str, count: int) -> None:
    site.run(host, EFA.format(count=count))


@pytest.fixture
def machines(quiet_site: Converged, tmp_path: Path) -> Iterator[Path]:
    """An inventory of p5.48xlarge; afterwards the nodes, their devices and the record are as before."""
    site = quiet_site
    for host in NODES:
        efa(site, host, 32)
    yield tmp_path / "types.yml"
    for host in NODES:
        site.run(host, "umount /sys/class; systemd-tmpfiles --create --boot --prefix=/dev")
    ours = "scontrol show node -o | grep -cE 'Reason=(tw:validate|gres/gpu)' || true"
    if site.run("ctl1", ours) != "0":
        site.run("ctl1", f"scontrol update nodename={','.join(NODES)} state=resume", check=False)
    assert site.play("site.yml", "--tags", "slurmctld").rc == 0


def run(
    site: Converged,
    types: Path,
    report: Path | None = None,
    later: bool = False,
    check: bool = True,
    **of: str,
) -> Run:
    """Run the controllers' part of site.yml; hosts that are not named are p5.48xlarge.

    later: their drivers may be. check: whether the exit code is asserted.
    """
    hosts = {host: {"slurm_node": {"cpus": 8, "machine_type": of.get(host, P5)}} for host in NODES}
    types.write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    extra: dict[str, Any] = {"slurm_machine_types": {P5: SMALL}}
    if report:
        extra["slurm_preflight_report"] = os.path.relpath(report, os.environ["PWD"])
    if later:
        extra |= {"slurm_allow_missing_gpus": True, "slurm_allow_incomplete": True}
    rc = (0 if later else 2) if check else None
    return site.play("site.yml", "--tags", "slurmctld", "-i", str(types), rc=rc, **extra)


def definitions(site: Converged) -> dict[str, tuple[str, str]]:
    """The CPUs and generic resources of each node, as slurmctld has them."""
    shown = site.run("ctl1", f"sinfo -h -N -n {','.join(NODES)} -o '%N %c %G'")
    return {line.split()[0]: (line.split()[1], line.split()[2]) for line in shown.splitlines()}


def reason(site: Converged, node: str) -> str:
    shown = site.run("ctl1", f"scontrol show node {node}")
    found = re.search(r"Reason=(.*?)( \[|$)", shown, re.M)
    return found[1] if found else ""


def line_of(done: Run, host: str) -> str:
    """The line about a host at the end of a run."""
    (line,) = (line for line in done.output.splitlines() if line.startswith(f"{host}: FAILED in "))
    return line


def test_machines_that_are_less_are_kept_out_and_the_others_continue(
    quiet_site: Converged, machines: Path, tmp_path: Path
) -> None:
    site = quiet_site
    before = definitions(site)
    lines = site.run("ctl1", "grep -h ^NodeName /etc/slurm/slurm.conf /etc/slurm/gres.conf")
    assert before["c1"][1].endswith("gpu:8")

    # Seven of eight GPUs, 31 of 32 EFA interfaces, and one that is whole.
    site.run("c1", "rm /dev/nvidia7")
    efa(site, "c2", 31)
    done = run(site, machines, tmp_path / "report")
    assert f"7 of 8 GPUs, by machine type {P5} -> see nvidia-smi" in line_of(done, "c1")
    assert f"31 of 32 EFA interfaces, by machine type {P5} -> attach" in line_of(done, "c2")
    assert "Drained nodes, tw:validate:hardware: 7 of 8 GPUs" in done.output.split("PLAY RECAP")[1]
    assert definitions(site) == before, "never redefined smaller"
    assert lines == site.run("ctl1", "grep -h ^NodeName /etc/slurm/slurm.conf /etc/slurm/gres.conf")
    assert reason(site, "c1").startswith("tw:validate:hardware: 7 of 8 GPUs -> see nvidia-smi")
    assert reason(site, "c2").startswith("tw:validate:hardware: 31 of 32 EFA interfaces -> attach")
    assert site.node_state("c1") == site.node_state("c2") == "drained"
    assert reason(site, "c3") == ""
    site.wait_job(site.sbatch("hostname", "-w c3 --gpus=8"))
    results = json.loads((tmp_path / "report" / "preflight.json").read_text())["results"]
    found = {(one["host"], one["check"]): one for one in results}
    assert (found["c1", "gpus"]["verdict"], found["c1", "gpus"]["value"]) == ("FAIL", 7)
    assert found["c2", "efa"]["value"] == 31 and found["c3", "efa"]["verdict"] == "PASS"
    assert len(list((tmp_path / "report").iterdir())) == 6

    # None of the GPUs, a machine that was repaired, and a type that nobody knows.
    site.run("c1", "rm /dev/nvidia[0-9]*")
    efa(site, "c2", 32)
    done = run(site, machines, c3="p5.48xlrge")
    assert f"0 of 8 GPUs, by machine type {P5} -> " in line_of(done, "c1")
    assert "slurm_allow_missing_gpus: true" in line_of(done, "c1")
    said = "machine type p5.48xlrge is not in the table; did you mean p5.48xlarge? -> correct"
    assert said in line_of(done, "c3")
    assert definitions(site) == before
    assert reason(site, "c3").startswith(f"tw:validate:hardware: {said}")
    assert reason(site, "c2") == "" and site.node_state("c2") == "idle", "resumed by its own check"
    assert site.node_state("c1") == site.node_state("c3") == "drained"
    site.wait_job(site.sbatch("hostname", "-w c2 --gpus=8"))


# What a first run would have written: Slurm has not known this node with GPUs.
UNKNOWN = """python3 - <<'END'
import json
path = "/var/lib/trainwright/record.json"
record = json.load(open(path))
record["nodes"]["c1"]["gpus_to_come"] = True
json.dump(record, open(path, "w"))
END"""


@pytest.mark.soak("a driver that comes has not met a cluster yet")
def test_a_driver_that_is_still_to_come_keeps_its_node_out_until_it_comes(
    quiet_site: Converged, machines: Path
) -> None:
    site = quiet_site
    before = definitions(site)
    site.run("c1", "rm /dev/nvidia[0-9]*")
    site.run("ctl1", UNKNOWN)

    # Slurm knows it without GPUs, accepts it, and so does not write over the reason of its drain.
    done = run(site, machines, later=True)
    assert f"c1: WARN: 0 of 8 GPUs, by machine type {P5} -> " in done.output
    assert definitions(site) == before | {"c1": (before["c1"][0], "(null)")}
    site.run("c1", "systemctl restart slurmd")
    site.run("ctl1", "sleep 5; scontrol reconfigure; sleep 5")
    assert reason(site, "c1").startswith("tw:validate:hardware: 0 of 8 GPUs -> ")
    assert site.node_state("c1") == "drained" and site.node_state("c3") == "idle"

    # The run that sees the GPUs gives them to Slurm and resumes the node, whoever registers first.
    site.run("c1", "systemd-tmpfiles --create --boot --prefix=/dev")
    run(site, machines, later=True)
    assert definitions(site) == before
    assert reason(site, "c1") == "" and site.node_state("c1") == "idle"
    site.wait_job(site.sbatch("hostname", "-w c1 --gpus=8"))

    # One that had them is never defined smaller, and stays drained until a person resumes it.
    site.run("c1", "rm /dev/nvidia[0-9]*")
    run(site, machines, later=True, check=False)
    assert definitions(site) == before and site.node_state("c1").startswith(("drain", "inval"))
    assert re.match(r"tw:validate:hardware: 0 of 8 GPUs|gres/gpu count ", reason(site, "c1"))

    # Repaired: the run gives Slurm the device files again, and the person resumes it where Slurm had drained it.
    site.run("c1", "systemd-tmpfiles --create --boot --prefix=/dev")
    run(site, machines, later=True, check=False)
    site.run("ctl1", "scontrol update nodename=c1 state=resume", check=False)
    site.wait_node("c1", "idle")
