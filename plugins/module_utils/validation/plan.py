# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which nodes a validation tests, and which checks apply to them. Pure.

NOT_APPLICABLE: nothing declares it. INCOMPLETE: declared, and it cannot be tested.
"""

from __future__ import annotations

import dataclasses
import random
import re
import typing as t

from ..hardware.machine_types import MachineType, find
from ..node.file_systems import TABLE
from ..node.names import natural_key
from ..slurm import values
from ..slurm.records import Node, Partition, Reservation
from .catalogue import NEEDS, NODE_NEEDS, Check

#: States of a node in which it takes no job, and flags of any state that mean the same.
_DOWN = frozenset(("DOWN", "ERROR", "FUTURE", "UNKNOWN"))
_CLOSED = frozenset(
    ("DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "INVALID_REG", "NOT_RESPONDING")
    + ("REBOOT_ISSUED", "BLOCKED")
)
#: Not the remedy of the check: what helps against a miss does not bring a program.
_BRING = "install it, name its directory in validate_path, or leave the check out (null in validate_checks)"
_OFF = frozenset(("POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN"))


class PlanError(ValueError):
    """A request that cannot be planned: `where: what -> remedy`."""


@dataclasses.dataclass(frozen=True)
class Host:
    """A node under test.

    declared: numbers of gpus, efa, infiniband and nvlink that it should have, its machine_type, the path of its
    scratch, and versions: of its software by component, each with who says so. address: of Slurm's traffic. switch:
    path of the switches above it, the top first, () where nothing is known. programs: path of each program that the
    probe found there, None before it ran. login_mpirun: path of mpirun in a login shell.
    """

    name: str
    address: str = ""
    declared: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    switch: tuple[str, ...] = ()
    programs: t.Mapping[str, str] | None = None
    login_mpirun: str = ""

    def number(self, what: str) -> int:
        """Return how many of something it declares."""
        value = self.declared.get(what)
        return value if isinstance(value, int) else 0


@dataclasses.dataclass(frozen=True)
class Mount:
    """A shared mount.

    places: directories on it in which a user may be able to write. provisioned: MiB/s by `write` and `read`.
    """

    path: str
    fstype: str = "nfs"
    places: tuple[str, ...] = ()
    provisioned: t.Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def network(self) -> bool:
        """Whether its file system is reached over the network."""
        return self.fstype not in TABLE or TABLE[self.fstype].network

    @property
    def label(self) -> str:
        """Return its path as a part of a check's name."""
        return re.sub(r"[^a-zA-Z0-9]+", "_", self.path).strip("_") or "root"


@dataclasses.dataclass(frozen=True)
class Site:
    """The cluster besides its nodes, by the inventory and Slurm.

    pyxis: hosts that should have it. image, ngc_image: of steps in a container. dcgm_level: of its diagnosis, 0 for
    none. pmix: whether Slurm has it; None where that is not known yet. mpi: whether the
    inventory declares MPI.
    """

    mounts: tuple[Mount, ...] = ()
    pyxis: frozenset[str] = frozenset()
    image: str = ""
    buckets: tuple[str, ...] = ()
    mpi: bool = False
    pmix: bool | None = None
    ngc_image: str = ""
    dcgm_level: int = 0

    def image_of(self, check: Check) -> str:
        """Return the image of a check in a container."""
        return self.ngc_image if check.image == "ngc" else self.image


@dataclasses.dataclass(frozen=True)
class Reach:
    """To whom a check applies.

    hosts: the nodes that it runs on. missing: why it cannot run on a node that should, by node. reason: why it applies
    to none, for NOT_APPLICABLE.
    """

    hosts: tuple[Host, ...] = ()
    missing: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    reason: str = ""

    @property
    def applies(self) -> bool:
        return not self.reason


def declared(
    node: Node,
    variables: t.Mapping[str, t.Any],
    rows: t.Mapping[str, MachineType] | None = None,
) -> dict[str, t.Any]:
    """Return what a node should have: by its machine type (slurm_node.machine_type, EC2's), and by Slurm's Gres.

    The inventory may lack a node of somebody else's Slurm, such as one that is powered down. AWS ParallelCluster gives
    a node its instance type as a feature, and the feature efa where it has such adapters.
    """
    own = variables.get("slurm_node")
    name = (own.get("machine_type") if isinstance(own, t.Mapping) else None) or variables.get(
        "ec2_instance_type"
    )
    attached = variables.get("ec2_efa_interfaces")
    if not name:
        name = next((one for one in node.features if "." in one and find(one, rows)), None)
        attached = 0 if name and "efa" not in node.features else attached
    kind = find(str(name), rows) if name else None
    found: dict[str, t.Any] = {"machine_type": str(name or "")}
    if kind:
        found.update(
            gpus=kind.gpus.count if kind.gpus else 0,
            gpu_model=kind.gpus.model if kind.gpus else "",
            nvlink=kind.nvlink_links or 0,
            efa=attached if isinstance(attached, int) else kind.efa_interfaces,
            infiniband=kind.infiniband_ports,
        )
    counted = sum(int(count) for count in re.findall(r"\bgpu(?::[^:,()]+)?:(\d+)", node.gres))
    found["gpus"] = max(found.get("gpus", 0), counted)
    return found


def partition_of(partitions: t.Sequence[Partition], nodes: t.Sequence[Node], asked: str) -> str:
    """Return the partition for the jobs: the one asked for, else the default one, else that of most nodes.

    Raises PlanError.
    """
    names = {one.name for one in partitions}
    if asked:
        if asked not in names:
            raise PlanError(
                f"validate_partition: there is no {asked} -> one of {', '.join(sorted(names))}"
            )
        return asked
    first = [one.name for one in partitions if one.default]
    if first:
        return first[0]
    count = {name: sum(name in node.partitions for node in nodes) for name in sorted(names)}
    if not count:
        raise PlanError("validate: Slurm has no partition -> see sinfo")
    return max(count, key=lambda name: count[name])


def reserved_nodes(reservations: t.Sequence[Reservation], asked: str) -> frozenset[str] | None:
    """Return the nodes of the reservations of the jobs; None where they may run anywhere. Raises PlanError.

    asked: names with commas in between, of which Slurm takes the first that fits.
    """
    names = [name.strip() for name in asked.split(",") if name.strip()]
    known = {one.name: one for one in reservations}
    unknown = [name for name in names if name not in known]
    if unknown:
        have = f"one of {', '.join(sorted(known))}" if known else "none is there; leave it out"
        raise PlanError(f"validate_reservation: there is no {', '.join(unknown)} -> {have}")
    nodes = [known[name].nodes for name in names]
    if not nodes or not all(nodes):
        return None
    return frozenset(name for one in nodes for name in values.expand(one))


def chosen(
    nodes: t.Sequence[Node],
    asked: str,
    partition: str,
    sample: int | None,
    reserved: frozenset[str] | None = None,
) -> list[Node]:
    """Return the nodes that are asked for, in the natural order of their names.

    asked: `all`, a number of nodes, or a host list. sample: seed by which a number of nodes is drawn from all; None
    takes the first ones. reserved: to which all are limited. Nodes that cannot take a job count only when they are
    named or all are. Raises PlanError.
    """
    inside = sorted(
        (node for node in nodes if partition in node.partitions),
        key=lambda node: natural_key(node.name),
    )
    outside: list[str] = []
    if reserved is not None:
        outside = [node.name for node in inside if node.name not in reserved]
        inside = [node for node in inside if node.name in reserved]
        if not inside:
            raise PlanError(
                f"validate_reservation: none of its nodes ({values.compress(sorted(reserved))}) is in partition"
                f" {partition} -> give -e validate_partition"
            )
    if asked in ("", "all"):
        found = inside
    elif re.fullmatch(r"[0-9]+", asked):
        number = int(asked)
        able = [node for node in inside if not unusable(node, wake=True)]
        if not 0 < number <= len(able):
            raise PlanError(
                f"validate_nodes: is {asked}, and {len(able)} of {len(inside)} nodes of partition {partition} can take"
                " a job -> give less, a host list, or all"
            )
        names = {node.name for node in able}
        if sample is None:
            names = {node.name for node in able[:number]}
        else:
            names = set(random.Random(sample).sample(sorted(names, key=natural_key), number))
        found = [node for node in inside if node.name in names]
    else:
        try:
            wanted = values.expand(asked)
            values.compress(wanted)
        except ValueError as error:
            raise PlanError(f"validate_nodes: {error} -> all, a number, or a host list") from None
        known = {node.name: node for node in inside}
        unknown = [name for name in wanted if name not in known]
        if set(unknown) & set(outside):
            left = values.compress([name for name in unknown if name in outside])
            raise PlanError(
                f"validate_nodes: {left}: not in the reservation, which has {values.compress(sorted(known))}"
                " -> name nodes of it, or all"
            )
        if unknown:
            raise PlanError(
                f"validate_nodes: {values.compress(unknown)}: not in partition {partition} -> see sinfo -N, or give"
                " -e validate_partition"
            )
        found = [known[name] for name in dict.fromkeys(wanted)]
    if not found:
        raise PlanError(
            f"validate: partition {partition} has no node -> give -e validate_partition"
        )
    return found


def unusable(node: Node, wake: bool) -> str:
    """Return why a node takes no job, with the remedy; "" where it does.

    wake: whether a node that is powered down is to be started, which Slurm does for a job.
    """
    reason = f": {node.reason}" if node.reason else ""
    if _OFF & set(node.flags):
        if wake and "DRAIN" not in node.flags:
            return ""
        return f"is powered down ({node.shown}) -> -e validate_wake=true starts it"
    if node.state in _DOWN or _CLOSED & set(node.flags):
        return f"takes no job: {node.shown}{reason} -> bring it back (playbook resume), or leave it out"
    return ""


def lost(node: Node | None) -> str:
    """Return why a node takes no job any more that took one when the run began; "" where it still may.

    None: Slurm does not have it any more. One that boots, sleeps or is late with an answer comes back by itself.
    """
    if node is None:
        return "is not in Slurm any more"
    reason = f": {node.reason}" if node.reason else ""
    if node.state in _DOWN or node.drained or {"FAIL", "FAILING"} & set(node.flags):
        return f"was taken out of service during the run ({node.shown}{reason})"
    return ""


def reach(check: Check, hosts: t.Sequence[Host], site: Site) -> Reach:
    """Return to whom a check applies, of these nodes."""
    able = list(hosts)
    for need in check.needs:
        if need in NODE_NEEDS:
            able = [host for host in able if _has(need, host)]
            if not able:
                return Reach(reason=NEEDS[need])
        elif not _offers(need, hosts, site):
            return Reach(reason=NEEDS[need])
    if check.launch == "container" or "pyxis" in check.needs:
        able = [host for host in able if host.name in site.pyxis]
        if not able:
            return Reach(reason=NEEDS["pyxis"])
        if not site.image_of(check):
            name = "validate_ngc_image" if check.image == "ngc" else "validate_image"
            why = f"no image is named -> -e {name}=NAME, an image that the nodes have or can import"
            return Reach((), {host.name: why for host in able})
    missing: dict[str, str] = {}
    for host in able:
        lacking = [name for name in check.programs if not (host.programs or {}).get(name)]
        if host.programs is None and check.programs:
            missing[host.name] = "the probe of its programs did not run there -> see stage static"
        elif lacking:
            missing[host.name] = f"{', '.join(lacking)} is not installed there -> {_BRING}"
    left = tuple(host for host in able if host.name not in missing)
    if check.optional and missing and not left:
        there = [host.programs or {} for host in able]
        nowhere = [name for name in check.programs if not any(one.get(name) for one in there)]
        return Reach(reason=f"no node has {', '.join(nowhere or check.programs)}")
    return Reach(left, {} if check.optional else missing)


def _has(need: str, host: Host) -> bool:
    if need == "several_gpus":
        return host.number("gpus") > 1
    if need == "conda":
        return "conda" in host.login_mpirun
    if need == "scratch":
        return bool(host.declared.get("scratch"))
    return host.number(need) > 0


def _offers(need: str, hosts: t.Sequence[Host], site: Site) -> bool:
    if need == "mpi":
        return site.mpi or any((host.programs or {}).get("mpirun") for host in hosts)
    if need == "pmix":
        return bool(site.pmix)
    if need == "mount":
        return bool(site.mounts)
    if need == "network_storage":
        return any(mount.network for mount in site.mounts)
    if need == "bucket":
        return bool(site.buckets)
    if need == "dcgm":
        return site.dcgm_level > 0
    if need == "ngc_image":
        return bool(site.ngc_image)
    return bool(site.pyxis)


def sizes(check: Check, count: int) -> list[int]:
    """Return the sizes of the groups that run a check, of so many nodes, each once.

    A number of nodes that are not there is left out; a check for several nodes is not run by one.
    """
    found = [count if one == "all" else int(one) for one in check.nodes if one != "each"]
    return sorted({one for one in found if one <= count})
