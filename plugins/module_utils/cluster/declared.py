# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hardware that the inventory declares for a host by its machine type, and a node's definition by it. Pure.

A machine type is `slurm_node.machine_type`, or EC2's type of the instance. Its hardware is in the site's rows
(`slurm_machine_types`), in those of the AWS inventory (`ec2_machine_types`), or in the collection's table.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..hardware.machine_types import MachineType, find, site_types
from ..slurm.hostlist import HostlistError, expand
from .inputs import Inputs, given_addresses

if t.TYPE_CHECKING:
    from collections.abc import Mapping

ROWS = "slurm_machine_types"
#: Rows that the AWS inventory read from EC2 or was given, for types that the collection's table lacks.
EC2_ROWS = "ec2_machine_types"
#: MiB that the kernel and the firmware of a small machine keep, besides the tolerance.
KEPT_MIB = 1024
#: Controllers that cgroup/v2 needs; devices are limited by eBPF there, without a controller.
CGROUP_CONTROLLERS = ("cpu", "cpuset", "memory")
#: A place for devices as a host list; Slurm takes it as it is.
_GPU_FILES = "/dev/nvidia"


@dataclass(frozen=True)
class Declared:
    """The declaration for one host.

    name: of the machine type. explicit: by slurm_node, not by EC2. kind: None for a type that no row has.
    efa: interfaces that it should have. attached: as EC2 lists them; None where EC2 was not asked.
    """

    name: str
    explicit: bool
    kind: MachineType | None
    efa: int = 0
    attached: int | None = None

    @property
    def source(self) -> str:
        """Return the provenance of what is expected."""
        return f"machine type {self.name}"

    def to_json(self) -> dict[str, t.Any]:
        """Return it as the model's nodes have it."""
        kind = self.kind
        if kind is None:
            return {"machine_type": self.name}
        gpus, nvme = kind.gpus, kind.nvme
        return {
            "machine_type": self.name,
            "architecture": kind.architecture,
            "cpus": kind.vcpus,
            "cores": kind.cores,
            "memory_mb": kind.memory_mib,
            "gpus": gpus.count if gpus else 0,
            "gpu_model": gpus.model if gpus else "",
            "gpu_memory_mb": gpus.memory_mib if gpus else 0,
            "nvlink": kind.nvlink_links or 0,
            "pcie_width": kind.pcie_width or 0,
            "efa": self.efa,
            "nvme": nvme.count if nvme else 0,
            "nvme_size_gb": nvme.size_gb if nvme else 0,
            "infiniband": kind.infiniband_ports,
            "source": kind.source,
            "unverified": list(kind.unverified),
        }


def rows_of(inputs: Inputs) -> dict[str, MachineType]:
    """Return the rows besides the collection's table. Raises MachineTypeError for a row that is wrong."""
    settings = inputs["settings"]
    rows = site_types(settings.get(EC2_ROWS) or {}, EC2_ROWS)
    return {**rows, **site_types(settings.get(ROWS) or {}, ROWS)}


def declarations(inputs: Inputs) -> dict[str, Declared]:
    """Return what is declared, by host, for the compute hosts whose variables this run reads.

    Raises MachineTypeError for a row that is wrong.
    """
    rows = rows_of(inputs)
    kinds: dict[str, MachineType | None] = {}
    found = {}
    for host in inputs["groups"].get("slurm_compute", []):
        variables = inputs["host_vars"].get(host) or {}
        explicit = (variables.get("slurm_node") or {}).get("machine_type")
        name = str(explicit or variables.get("ec2_instance_type") or "")
        if not name:
            continue
        if name not in kinds:
            kinds[name] = find(name, rows)
        kind = kinds[name]
        attached = variables.get("ec2_efa_interfaces")
        if not isinstance(attached, int) or isinstance(attached, bool):
            attached = None
        most = kind.efa_interfaces if kind else 0
        efa = most if attached is None else attached
        found[host] = Declared(name, bool(explicit), kind, efa, attached)
    return found


def least_memory(memory_mib: int, tolerance: float) -> int:
    """Return the MiB that the kernel shows at least on a machine that is sold with so many."""
    return max(1, int(memory_mib * (1 - tolerance / 100)) - KEPT_MIB)


def least_cores(cores: int, tolerance: float) -> int:
    """Return the cores that a machine with so many shows at least."""
    return max(1, int(cores * (1 - tolerance / 100)))


def _is_nvidia(item: Mapping[str, t.Any]) -> bool:
    file = str(item.get("file") or "")
    return item.get("name", "gpu") == "gpu" and (not file or file.startswith(_GPU_FILES))


def _count(item: Mapping[str, t.Any]) -> int:
    """Return how many of a generic resource slurm_node.gres has; preflight reports files that cannot be read."""
    try:
        files = expand(str(item["file"])) if item.get("file") else []
    except HostlistError:
        files = []
    return int(item.get("count") or len(files) or 1)


def declared_gpus(inputs: Inputs, host: str) -> int:
    """Return the number of NVIDIA's GPUs that slurm_node.gres of a host declares."""
    node = (inputs["host_vars"].get(host) or {}).get("slurm_node") or {}
    return sum(_count(item) for item in node.get("gres") or [] if _is_nvidia(item))


def without_files(resources: t.Iterable[Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return generic resources without the device files of NVIDIA's driver: slurmd does not start without them."""
    return [
        {**item, "count": _count(item), "file": ""} if _is_nvidia(item) else dict(item)
        for item in resources
    ]


def had_gpus(recorded: Mapping[str, t.Any]) -> bool:
    """Whether Slurm has known a node with NVIDIA's GPUs. recorded: the node on record, {} for a new one."""
    known = any(_is_nvidia(item) for item in recorded.get("gres") or [])
    return known and not recorded.get("gpus_to_come")


def defined_gres(node: Mapping[str, t.Any]) -> list[Mapping[str, t.Any]]:
    """Return the generic resources with which Slurm knows a node: without the GPUs that are still to come.

    slurmd would report fewer, and slurmctld writes its own reason over any that drains such a node (from 24.11;
    validate_node_specs in node_mgr.c), so that nobody could tell later who drained it.
    """
    given = node["gres"]
    return [item for item in given if not (node.get("gpus_to_come") and _is_nvidia(item))]


def gpu_resources(
    declared: Declared, recorded: Mapping[str, t.Any], slurm_type: str, files: bool
) -> list[dict[str, t.Any]]:
    """Return the GPUs of a node as they are declared: those on record if their number is right.

    slurm_type: Slurm's name of the model. files: whether the device files are known to be there one day.
    """
    gpus = declared.kind.gpus if declared.kind else None
    if gpus is None:
        return []
    known = [item for item in recorded.get("gres") or [] if item["name"] == "gpu"]
    if known and sum(item["count"] for item in known) == gpus.count:
        return known if files else without_files(known)
    last = gpus.count - 1
    file = f"{_GPU_FILES}[0-{last}]" if last else f"{_GPU_FILES}0"
    return [
        {
            "name": "gpu",
            "type": slurm_type,
            "count": gpus.count,
            "file": file if files else "",
        }
    ]


def as_declared(
    declared: Declared,
    facts: Mapping[str, t.Any],
    recorded: Mapping[str, t.Any],
    less: t.Collection[str],
    tolerance: float,
) -> dict[str, t.Any]:
    """Return facts from which a node is defined as declared.

    less: the checks in which the machine is less than declared (cpus, memory); all of them for a machine that
    nobody has seen, whose facts are empty. A definition on record that is larger stays.
    """
    kind = declared.kind
    made = dict(facts)
    if kind is None:
        return made
    if "cpus" in less:
        shape = ("cpus", "sockets", "cores_per_socket", "threads_per_core")
        cores = int(recorded.get("sockets") or 0) * int(recorded.get("cores_per_socket") or 0)
        if cores >= kind.cores:
            made.update({key: recorded[key] for key in shape})
        else:
            # Slurm compares the products of both.
            made.update(dict(zip(shape, (kind.vcpus, 1, kind.cores, kind.threads_per_core))))
    if "memory" in less:
        made["memory_mb"] = least_memory(kind.memory_mib, tolerance)
    if not facts:
        # As every node of a cluster that confines jobs: the run that sees it reads what it has.
        made["cgroup"] = {"mode": "v2", "controllers": list(CGROUP_CONTROLLERS)}
    return made


def before_it_exists(inputs: Inputs, host: str, declared: Declared | None) -> bool:
    """Whether a host that nobody has seen is defined by its machine type: a person named the type and an address.

    Slurm needs no address of a node that it starts itself (State=CLOUD) or that registers one day (FUTURE).
    """
    if declared is None or declared.kind is None or not declared.explicit:
        return False
    node = (inputs["host_vars"].get(host) or {}).get("slurm_node") or {}
    options = {str(key).lower(): str(value) for key, value in (node.get("options") or {}).items()}
    later = re.fullmatch(r"cloud|future", options.get("state", ""), re.IGNORECASE)
    return bool(later or given_addresses(inputs, host))
