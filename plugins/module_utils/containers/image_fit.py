# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether the software inside an image fits the nodes that would run it. Runs on nodes: Python 3.9."""

from __future__ import annotations

import dataclasses
import json
import os
import typing as t

from ..hardware import stack as stacks
from ..node.terminal import printable
from ..slurm import values
from . import image_stack, lookup
from .image_stack import ImageStack

#: Written on login nodes by the role slurm_login.
PUBLISHED = "/etc/trainwright/jobs.json"


@dataclasses.dataclass(frozen=True)
class Nodes:
    """Nodes of one stack. efa: whether they have EFA devices, as their driver for it says."""

    names: frozenset[str]
    stack: dict[str, str]

    @property
    def efa(self) -> bool:
        """Whether NCCL on these nodes is to use EFA."""
        return bool(self.stack.get("efa_driver") or self.stack.get("efa"))


class Fault(t.NamedTuple):
    """A part of an image that does not fit. nodes: a host list. sure: a job of it cannot work on them."""

    component: str
    found: str
    wanted: str
    why: str
    remedy: str
    nodes: str
    sure: bool

    @property
    def what(self) -> str:
        """Return the fault as a line without its remedy."""
        named = stacks.COMPONENTS.get(self.component, self.component)
        found = f"{named} {self.found}" if self.found else f"{named} is missing"
        return f"{found}, wanted {self.wanted} on {self.nodes} ({self.why})"


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Stacks of the cluster's nodes, and the nodes of its partitions; empty where nothing is published."""

    nodes: tuple[Nodes, ...] = ()
    partitions: dict[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    default: str = ""

    def faults(self, image: ImageStack, partition: str = "", nodes: str = "") -> list[Fault]:
        """Return what does not fit the nodes on which a job would run, none where they are not known.

        partition: names as sbatch takes them; "" for the default one. nodes: a host list, if the job names its nodes.
        """
        wanted = self._candidates(partition, nodes)
        found: dict[stacks.Misfit, set[str]] = {}
        for group in self.nodes:
            names = group.names if wanted is None else group.names & wanted
            for misfit in (
                stacks.host_and_image(group.stack, _plain(image), group.efa) if names else ()
            ):
                found.setdefault(misfit, set()).update(names)
        known = frozenset().union(*(group.names for group in self.nodes)) if self.nodes else set()
        candidates = known if wanted is None else known & wanted
        return [
            Fault(
                one.component,
                one.found,
                one.wanted,
                one.why,
                one.remedy,
                values.compress(names),
                # Slurm may choose the others.
                one.sure and (bool(nodes) or names == candidates),
            )
            for one, names in found.items()
        ]

    def _candidates(self, partition: str, nodes: str) -> frozenset[str] | None:
        try:
            if nodes:
                return frozenset(values.expand(nodes))
        except ValueError:
            return frozenset()
        names = [name for name in (partition or self.default).split(",") if name]
        if not names or not self.partitions:
            return None
        return frozenset().union(*(self.partitions.get(name, frozenset()) for name in names))


def _plain(image: ImageStack) -> dict[str, str]:
    """Return the versions of an image; a plugin without a version is one too."""
    return {**({"ofi_nccl": "unknown"} if image["net"] else {}), **image["stack"]}


def published(config: str = PUBLISHED) -> dict[str, t.Any]:
    """Return what a host's file says about its cluster, nothing without one. Raises ValueError."""
    try:
        with open(config, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{config}: {error} -> ask an administrator: role slurm_login writes it"
        ) from None
    if not isinstance(found, dict):
        raise ValueError(
            f"{config}: is not a mapping -> ask an administrator: role slurm_login writes it"
        )
    return found


def cluster(config: str = PUBLISHED) -> Cluster:
    """Return what a host's file says about the nodes of its cluster, nothing without one. Raises ValueError."""
    return of(published(config))


def of(found: t.Mapping[str, t.Any]) -> Cluster:
    """Return the cluster that the content of jobs.json describes. Raises ValueError."""
    try:
        nodes = tuple(
            Nodes(frozenset(values.expand(one["nodes"])), dict(one["stack"]))
            for one in found.get("stack") or ()
        )
        partitions = {
            str(name): frozenset(values.expand(members))
            for name, members in (found.get("partition_nodes") or {}).items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{PUBLISHED}: stack or partition_nodes: {error} -> ask an administrator: role slurm_login writes it"
        ) from None
    return Cluster(nodes, partitions, str(found.get("default_partition") or ""))


def file_of(image: str, workdir: str = "") -> str:
    """Return the file that a value of --container-image means here; "" where it is none, or none that is known.

    workdir: where sbatch or srun runs; "" where that is not known.
    Raises ImageError: unknown or damaged, for a name; missing, without a store on this host.
    """
    if image.startswith("/"):
        return image
    if image.startswith("."):
        return os.path.normpath(os.path.join(workdir, image)) if workdir else ""
    if image.endswith(".sqsh") and "/" not in image:
        return lookup.lookup(lookup.configuration(), image[: -len(".sqsh")])
    return ""


def misfits(image: str, partition: str = "", nodes: str = "") -> list[str]:
    """Return why an image cannot work on the nodes of a job, a line each. Raises ImageError, ValueError.

    partition, nodes: as of Cluster.faults(). Misfits that are not certain do not count.
    """
    path = file_of(image, ".")
    if not path:
        return []
    return [
        line(image, one)
        for one in cluster().faults(image_stack.read(path), partition, nodes)
        if one.sure
    ]


def line(image: str, fault: Fault) -> str:
    """Return a fault as a line: which image, found, wanted, why, remedy."""
    return printable(f"{image}: {fault.what} -> {fault.remedy}")
