# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A stand-in for a cluster that AWS ParallelCluster has made; tests/fixtures/parallelcluster says what it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from tests.fixtures.aws.instances import instance, pages_of, replay
from tests.fixtures.aws.server import Aws

from .site import ROOT, Nodes, Site, poll

FIXTURE = ROOT / "tests" / "fixtures" / "parallelcluster"
STATIC, DYNAMIC = "gpu-st-cr-1", "gpu-dy-cr-1"
CLUSTER = "training"


class ParallelCluster(Site):
    """The stand-in, with the inventory that the plugin makes of EC2's answers."""

    def __init__(self, name: str) -> None:
        super().__init__(Nodes(name))
        self.aws = Aws()
        self.container = dict(zip(("head", STATIC, DYNAMIC), ("bare1", "bare2", "bare3")))

    @property
    def addresses(self) -> dict[str, str]:
        """Address of each host by its name in Slurm; "head" for the head node."""
        return {
            name: self.cluster.addresses[container] for name, container in self.container.items()
        }

    @property
    def head(self) -> str:
        """Host name of the head node."""
        return "ip-" + self.addresses["head"].replace(".", "-")

    def name(self, host: str) -> str:
        """Name of a host in the inventory: its private DNS name, since ParallelCluster gives many the same Name."""
        return f"ip-{self.addresses[host].replace('.', '-')}.eu-west-1.compute.internal"

    def on(self, host: str, command: str, check: bool = True) -> str:
        """Run a shell command as root; "head" or a node."""
        return self.run(self.container[host], command, check=check)

    def as_ubuntu(self, command: str, check: bool = True) -> str:
        """Run a command as the cluster's user on the head node, in a login shell."""
        return self.as_user("ubuntu", command, host=self.container["head"], check=check)

    def start(self) -> None:
        """Make the containers and the cluster in them."""
        local = self.cluster.local
        local.create(os="debian13", bare=3)
        shared = local.directory / "shared"
        names = {self.head: "head", STATIC: STATIC, DYNAMIC: DYNAMIC}
        lines = [f"{self.addresses[host]} {name}" for name, host in names.items()]
        (shared / "hosts").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (shared / "started").mkdir(mode=0o777, exist_ok=True)
        (shared / "started").chmod(0o777)
        for name in ("relocate", "host"):
            shutil.copy2(FIXTURE / name, shared / name)
        shutil.copytree(FIXTURE / "etc", shared / "etc", dirs_exist_ok=True)
        conf = shared / "etc" / "slurm_parallelcluster.conf"
        text = conf.read_text(encoding="utf-8")
        text = text.replace("HEAD", self.head).replace("ADDRESS", self.addresses["head"])
        conf.write_text(text, encoding="utf-8")
        cache = ROOT / ".cache" / "parallelcluster"
        kept = cache / f"slurm-{local.spec.os}.tar"
        if kept.is_file():
            self.on("head", "mkdir -p /srv/cluster/opt")
            shutil.copy2(kept, shared / "slurm.tar")
            self.on("head", "tar -C /srv/cluster/opt -xf /srv/cluster/slurm.tar")
        else:
            self.on("head", "apt-get update -q >/dev/null; mkdir -p /srv/cluster/opt/slurm")
            self.on("head", "/srv/cluster/relocate /srv/cluster/opt/slurm")
            self.on("head", "tar -C /srv/cluster/opt -cf /srv/cluster/slurm.tar slurm")
            cache.mkdir(parents=True, exist_ok=True)
            shutil.copy2(shared / "slurm.tar", kept)
        self.on(
            "head",
            "cp -r /srv/cluster/etc /srv/cluster/opt/slurm/ && chown -R root: /srv/cluster/opt",
        )
        head = self.addresses["head"]
        self.on("head", f"/srv/cluster/host HeadNode {self.head} {head}")
        for node in (STATIC, DYNAMIC):
            self.on(node, f"/srv/cluster/host Compute {node} {head}")
        poll("slurmctld to answer", lambda: "UP" in self.on("head", "scontrol ping", check=False))
        # clustermgtd starts the static nodes.
        self.on("head", f"scontrol update nodename={STATIC} state=power_up")
        self.wait_for_node(STATIC)
        self.write_inventory()

    def wait_for_node(self, node: str) -> None:
        """Wait until a node takes jobs."""
        poll(
            f"{node} to be idle",
            lambda: self.on("head", f"sinfo -hN -n {node} -o %T") == "idle",
            120,
        )

    def write_inventory(self) -> None:
        """Write an inventory as a person does: the plugin's file, and how to connect."""
        inventory = self.cluster.inventory
        connection = yaml.safe_load((inventory / "hosts.yml").read_text(encoding="utf-8"))
        variables = {
            name: value
            for name, value in connection["all"]["vars"].items()
            if name.startswith("ansible_")
        }
        (inventory / "hosts.yml").unlink()
        (inventory / "group_vars").mkdir(exist_ok=True)
        (inventory / "group_vars" / "all.yml").write_text(yaml.safe_dump(variables))
        options = {
            "plugin": "trainwright.slurm.aws",
            "regions": ["eu-west-1"],
            "parallelcluster": CLUSTER,
            "hostnames": ["private-dns-name"],
            "topology": False,
            "instance_type_source": "table",
        }
        (inventory / "aws.yml").write_text(yaml.safe_dump(options), encoding="utf-8")

    def _instance(self, number: int, host: str, kind: str, **more: str) -> dict[str, object]:
        """An instance of EC2 with ParallelCluster's tags and the address of a container."""
        tags = {
            "Name": kind,
            "parallelcluster:cluster-name": CLUSTER,
            "parallelcluster:node-type": kind,
            "parallelcluster:attributes": "ubuntu2404, slurm, 3.15.0, x86_64",
            **more,
        }
        made = instance(number, tags, InstanceType="p5.48xlarge" if more else "m7i.xlarge")
        address = self.addresses[host]
        made.update(PrivateIpAddress=address, PrivateDnsName=self.name(host))
        return made

    @contextmanager
    def answered(self) -> Iterator[None]:
        """EC2 answers while this lasts, to every program that this process starts."""
        queue = {
            "parallelcluster:queue-name": "gpu",
            "parallelcluster:compute-resource-name": "cr",
        }
        instances = [
            self._instance(1, "head", "HeadNode"),
            self._instance(2, STATIC, "Compute", **queue),
            self._instance(3, DYNAMIC, "Compute", **queue),
        ]
        before = dict(os.environ)
        with self.aws:
            replay(self.aws, pages_of(instances))
            os.environ.update(self.aws.environment)
            try:
                yield
            finally:
                os.environ.clear()
                os.environ.update(before)
