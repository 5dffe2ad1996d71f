# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A stand-in for a cluster that AWS ParallelCluster has made; tests/fixtures/parallelcluster says what it is."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.fixtures.aws.instances import instance, pages_of, replay
from tests.fixtures.aws.server import Aws

from .site import ROOT, SOAK, Nodes, Site, poll

FIXTURE = ROOT / "tests" / "fixtures" / "parallelcluster"
STATIC, DYNAMIC = "gpu-st-cr-1", "gpu-dy-cr-1"
#: A node of another queue, which the inventory does not have: it starts after the last run from the control node.
LATER = "burst-dy-cr-1"
CLUSTER = "training"
PCS = "pcs_0123456789"


class ParallelCluster(Site):
    """The stand-in, with the inventory that the plugin makes of EC2's answers."""

    def __init__(self, name: str) -> None:
        super().__init__(Nodes(name))
        self.aws = Aws()
        self.container = dict(
            zip(("head", STATIC, DYNAMIC, LATER), ("bare1", "bare2", "bare3", "bare4"))
        )

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
        local.create(os="debian13", bare=4)
        shared = local.directory / "shared"
        names = {self.head: "head", STATIC: STATIC, DYNAMIC: DYNAMIC, LATER: LATER}
        lines = [f"{self.addresses[host]} {name}" for name, host in names.items()]
        (shared / "hosts").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (shared / "started").mkdir(mode=0o777, exist_ok=True)
        (shared / "started").chmod(0o777)
        for name in ("relocate", "compile", "host", "accounting"):
            shutil.copy2(FIXTURE / name, shared / name)
        shutil.copytree(FIXTURE / "etc", shared / "etc", dirs_exist_ok=True)
        conf = shared / "etc" / "slurm_parallelcluster.conf"
        text = conf.read_text(encoding="utf-8")
        text = text.replace("HEAD", self.head).replace("ADDRESS", self.addresses["head"])
        conf.write_text(text, encoding="utf-8")
        cache = ROOT / ".cache" / "parallelcluster"
        maker = "compile" if SOAK else "relocate"
        made_by = hashlib.sha256((FIXTURE / maker).read_bytes()).hexdigest()[:8]
        kept = cache / f"slurm-{local.spec.os}-{made_by}.tar"
        if kept.is_file():
            self.on("head", "mkdir -p /srv/cluster/opt")
            shutil.copy2(kept, shared / "slurm.tar")
            self.on("head", "tar -C /srv/cluster/opt -xf /srv/cluster/slurm.tar")
        else:
            self.on("head", "apt-get update -q >/dev/null; mkdir -p /srv/cluster/opt/slurm")
            # Longer than run waits.
            local.ssh("bare1", f"/srv/cluster/{maker} /srv/cluster/opt/slurm", timeout=3600)
            self.on("head", "tar -C /srv/cluster/opt -cf /srv/cluster/slurm.tar slurm")
            cache.mkdir(parents=True, exist_ok=True)
            shutil.copy2(shared / "slurm.tar", kept)
        self.on(
            "head",
            "cp -r /srv/cluster/etc /srv/cluster/opt/slurm/ && chown -R root: /srv/cluster/opt",
        )
        head = self.addresses["head"]
        self.on("head", f"/srv/cluster/host HeadNode {self.head} {head}")
        nodes = (STATIC, DYNAMIC, LATER)
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(
                pool.map(
                    lambda node: self.on(node, f"/srv/cluster/host Compute {node} {head}"), nodes
                )
            )
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

    def _instance(
        self, number: int, host: str, tags: dict[str, str], kind: str
    ) -> dict[str, object]:
        """An instance of EC2 with the tags of its manager and the address of a container."""
        made = instance(number, tags, InstanceType=kind)
        made.update(PrivateIpAddress=self.addresses[host], PrivateDnsName=self.name(host))
        return made

    @contextmanager
    def answered(self) -> Iterator[None]:
        """EC2 answers while this lasts, to every program that this process starts."""

        def tagged(kind: str, **more: str) -> dict[str, str]:
            return {
                "Name": kind,
                "parallelcluster:cluster-name": CLUSTER,
                "parallelcluster:node-type": kind,
                "parallelcluster:attributes": "ubuntu2404, slurm, 3.15.0, x86_64",
                **more,
            }

        queue = {
            "parallelcluster:queue-name": "gpu",
            "parallelcluster:compute-resource-name": "cr",
        }
        instances = [
            self._instance(1, "head", tagged("HeadNode"), "m7i.xlarge"),
            self._instance(2, STATIC, tagged("Compute", **queue), "p5.48xlarge"),
            self._instance(3, DYNAMIC, tagged("Compute", **queue), "p5.48xlarge"),
        ]
        with _served(self.aws, instances):
            yield

    @contextmanager
    def as_pcs(self, inventory: Path) -> Iterator[None]:
        """The head node and the static node are instances of PCS while this lasts: by their tags, files and paths.

        The head node is a login node of it. inventory: an empty directory.
        """
        connection = (self.inventory / "group_vars" / "all.yml").read_text(encoding="utf-8")
        (inventory / "group_vars").mkdir()
        (inventory / "group_vars" / "all.yml").write_text(connection, encoding="utf-8")
        options = yaml.safe_load((self.inventory / "aws.yml").read_text(encoding="utf-8"))
        del options["parallelcluster"]
        options["pcs"] = PCS
        (inventory / "aws.yml").write_text(yaml.safe_dump(options), encoding="utf-8")
        aws, at = Aws(), "2026-11-01T00:00:00Z"
        common = {"arn": "arn:aws:pcs:x", "createdAt": at, "modifiedAt": at, "status": "ACTIVE"}
        cluster = {**common, "name": CLUSTER, "id": PCS, "size": "SMALL", "networking": {}}
        version = {"type": "SLURM", "version": "24.11"}
        aws.on("pcs", "GetCluster", {"cluster": {**cluster, "scheduler": version}})
        queue = {**common, "name": "gpu", "id": "q1", "clusterId": PCS}
        aws.on("pcs", "ListQueues", {"queues": [queue]})
        served = [{"computeNodeGroupId": "pcs_gpu"}]
        aws.on("pcs", "GetQueue", {"queue": {**queue, "computeNodeGroupConfigurations": served}})
        tags = {"aws:pcs:cluster-id": PCS, "aws:pcs:compute-node-group-id": "pcs_login"}
        instances = [
            self._instance(1, "head", tags, "m7i.xlarge"),
            self._instance(
                2, STATIC, {**tags, "aws:pcs:compute-node-group-id": "pcs_gpu"}, "p5.48xlarge"
            ),
        ]
        prefix, kept = "/opt/aws/pcs/scheduler/slurm-24.11", "/etc/parallelcluster"
        changes = (
            f"mkdir -p {prefix} /etc/aws/pcs/scheduler/slurm-24.11 /run/slurm; mount --bind /opt/slurm {prefix};"
            f" ln -sfn /opt/slurm/etc /run/slurm/conf; mv {kept} {kept}.kept"
        )
        undo = f"umount {prefix}; rm -r /opt/aws /etc/aws /run/slurm; mv {kept}.kept {kept}"
        try:
            for host in ("head", STATIC):
                self.on(host, changes)
            with _served(aws, instances):
                yield
        finally:
            for host in ("head", STATIC):
                self.on(host, undo)


@contextmanager
def _served(aws: Aws, instances: list[dict[str, object]]) -> Iterator[None]:
    """Let AWS answer with these instances, to every program that this process starts."""
    before = dict(os.environ)
    with aws:
        replay(aws, pages_of(instances))
        os.environ.update(aws.environment)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
