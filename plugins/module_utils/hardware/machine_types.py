# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hardware of a machine type: from our table, from a site's own entries, or from EC2."""

from __future__ import annotations

import dataclasses
import re
import typing as t
from functools import cache

from .machine_types_data import (
    GPU_TYPES,
    NEURON_TYPES,
    SOURCES,
)

Json = dict[str, t.Any]

_DEVICES = re.compile(r"(\d+)x(\S+):(\d+)")
#: The name of an EC2 type: family and size.
_FAMILY = re.compile(r"([a-z0-9-]+)\.[a-z0-9-]+")


class MachineTypeError(ValueError):
    """A site's line of a machine type that is wrong: `where: why -> remedy`, one line for each fault."""


@dataclasses.dataclass(frozen=True)
class Devices:
    """GPUs or Trainium devices of a machine, all alike; memory_mib is that of one of them in MiB."""

    model: str
    count: int
    memory_mib: int


@dataclasses.dataclass(frozen=True)
class Nvme:
    """NVMe disks of the machine itself; size_gb is that of one in GB (10^9 bytes)."""

    count: int
    size_gb: int


@dataclasses.dataclass(frozen=True)
class MachineType:
    """The hardware of a machine type. None: missing or unknown.

    architecture: as `uname -m` has it. memory_mib: as it is sold, in MiB. nvlink_links and
    pcie_width: of each GPU. efa_interfaces: at most. infiniband_ports: of its compute fabric.
    network_layers: length of what EC2 answers
    for its place in the network. unverified: fields that no source confirms, such as
    `pcie_width` or `gpus.memory_mib`; a check may warn because of one, and not fail.
    """

    name: str
    architecture: str
    vcpus: int
    cores: int
    threads_per_core: int
    memory_mib: int
    gpus: Devices | None = None
    neuron: Devices | None = None
    nvlink_links: int | None = None
    pcie_width: int | None = None
    efa_interfaces: int = 0
    infiniband_ports: int = 0
    nvme: Nvme | None = None
    network_layers: int | None = None
    source: str = ""
    unverified: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """EC2's family, as p5 in p5.48xlarge; the name itself where it is not an EC2 type."""
        match = _FAMILY.fullmatch(self.name)
        return match[1] if match else self.name

    def to_json(self) -> Json:
        """Return it as plain data for results and for programs on nodes."""
        return {**dataclasses.asdict(self), "unverified": list(self.unverified)}


# -- our table -------------------------------------------------------------------------------------
def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


def _line(text: str, kind: str) -> MachineType:
    name, arch, cpus, cores, threads, memory, devices, *rest = text.split()
    links, width, efa, fabric, disks, layers, source, unverified = rest
    found = _DEVICES.fullmatch(devices)
    if not found:
        raise MachineTypeError(f"machine_types_data.py: {text}")
    nvme = None if disks == "-" else Nvme(*map(int, disks.split("x")))
    device = Devices(found[2].replace("_", " "), int(found[1]), int(found[3]))
    return MachineType(
        name=name,
        architecture=arch,
        vcpus=int(cpus),
        cores=int(cores),
        threads_per_core=int(threads),
        memory_mib=int(memory),
        gpus=device if kind == "gpus" else None,
        neuron=device if kind == "neuron" else None,
        nvlink_links=_number(links),
        pcie_width=_number(width),
        efa_interfaces=int(efa),
        infiniband_ports=int(fabric),
        nvme=nvme,
        network_layers=_number(layers),
        source=SOURCES[source],
        unverified=() if unverified == "-" else tuple(unverified.split(",")),
    )


@cache
def table() -> dict[str, MachineType]:
    """Return our table by name, in its order."""
    lines = [(line, "gpus") for line in GPU_TYPES.strip().splitlines()]
    lines += [(line, "neuron") for line in NEURON_TYPES.strip().splitlines()]
    return {made.name: made for made in (_line(line, kind) for line, kind in lines)}


def find(name: str, site: t.Mapping[str, MachineType] | None = None) -> MachineType | None:
    """Return a type by its name: the site's own line (:func:`site_types`), else ours; None without."""
    return (site or {}).get(name) or table().get(name)


# -- EC2's API -------------------------------------------------------------------------------------
def from_api(item: t.Mapping[str, t.Any]) -> MachineType:
    """Return the type in an item of EC2's DescribeInstanceTypes.

    NVLink links, PCIe width and layers, which EC2 does not return, come from our table and are None for
    a type that it lacks. A fraction of a GPU counts as one with its share of the memory.

    item: as boto3 returns it; InstanceType, VCpuInfo and MemoryInfo are needed (KeyError).
    """
    name = item["InstanceType"]
    known = table().get(name)
    cpus = item["VCpuInfo"]
    threads = cpus.get("DefaultThreadsPerCore") or 1
    archs = item.get("ProcessorInfo", {}).get("SupportedArchitectures") or ["x86_64"]
    disks = item.get("InstanceStorageInfo", {}).get("Disks") or []
    gpus = _devices(item.get("GpuInfo", {}).get("Gpus"))
    # The only fields of ours that are kept, and so the only doubts.
    ours = ("nvlink_links", "pcie_width", "network_layers") if known else ()
    return MachineType(
        name=name,
        # Some have i386 beside x86_64, and a Mac's name ends with _mac.
        architecture="aarch64" if archs[0].startswith("arm64") else "x86_64",
        vcpus=cpus["DefaultVCpus"],
        cores=cpus.get("DefaultCores") or cpus["DefaultVCpus"] // threads,
        threads_per_core=threads,
        memory_mib=item["MemoryInfo"]["SizeInMiB"],
        gpus=gpus,
        neuron=_devices(item.get("NeuronInfo", {}).get("NeuronDevices")),
        efa_interfaces=item.get("NetworkInfo", {})
        .get("EfaInfo", {})
        .get("MaximumEfaInterfaces", 0),
        nvme=Nvme(sum(disk["Count"] for disk in disks), disks[0]["SizeInGB"]) if disks else None,
        source="EC2 DescribeInstanceTypes",
        unverified=tuple(field for field in (known.unverified if known else ()) if field in ours),
        **{field: getattr(known, field) for field in ours},
    )


def _devices(listed: t.Sequence[t.Mapping[str, t.Any]] | None) -> Devices | None:
    if not listed:
        return None
    first = listed[0]
    count = sum(one.get("Count") or one.get("LogicalGpuCount") or 0 for one in listed)
    return Devices(first["Name"], count, first.get("MemoryInfo", {}).get("SizeInMiB", 0))


# -- a site's own lines ----------------------------------------------------------------------------
_NUMBERS = {
    "vcpus": 1, "cores": 1, "threads_per_core": 1, "memory_mib": 1, "nvlink_links": 0, "pcie_width": 1,
    "efa_interfaces": 0, "infiniband_ports": 0, "network_layers": 1,
}  # fmt: skip
_PARTS: dict[str, tuple[type, dict[str, t.Any]]] = {
    "gpus": (Devices, {"model": str, "count": 1, "memory_mib": 1}),
    "neuron": (Devices, {"model": str, "count": 1, "memory_mib": 1}),
    "nvme": (Nvme, {"count": 1, "size_gb": 1}),
}
_TEXTS = {"architecture": ("x86_64", "aarch64"), "source": None}
_NEEDED = ("vcpus", "cores", "memory_mib")


def site_types(given: object, where: str = "machine_types") -> dict[str, MachineType]:
    """Return a site's own entries, checked; an entry for a name in our table changes only the given fields.

    given: a mapping of names to mappings with the fields of MachineType, e.g.
        ``{"node-h100": {"vcpus": 224, "cores": 112, "memory_mib": 2097152,
        "gpus": {"model": "H100", "count": 8, "memory_mib": 81920}}}``.
    where: name of the variable, for messages.

    Raises MachineTypeError with all that is wrong.
    """
    if given is None:
        return {}
    if not isinstance(given, t.Mapping):
        raise MachineTypeError(
            f"{where}: is a {type(given).__name__} -> write a mapping of names to types (docs/aws.md)"
        )
    faults: list[str] = []
    made = {}
    for name, fields in given.items():
        at = f"{where}[{name!r}]"
        if not isinstance(fields, t.Mapping):
            faults.append(f"{at}: is not a mapping -> write the fields of the type (docs/aws.md)")
            continue
        base = table().get(str(name))
        checked = _fields(at, fields, base, faults)
        if base is not None:
            doubts = [d for d in base.unverified if d.split(".")[0] not in checked]
            checked = {**_shallow(base), **checked, "unverified": tuple(doubts)}
        else:
            for field in _NEEDED:
                if field not in fields:
                    faults.append(f"{at}.{field}: is missing -> a type of your own needs it")
            checked.setdefault("architecture", "x86_64")
        cpus, cores = checked.get("vcpus"), checked.get("cores")
        threads = checked.setdefault("threads_per_core", (cpus or 1) // (cores or 1) or 1)
        if cpus and cores and cpus != cores * threads:
            faults.append(
                f"{at}: {cpus} vcpus are not {cores} cores of {threads} threads -> vcpus counts logical CPUs"
            )
        if not faults:
            checked["source"] = fields.get("source", where)
            made[str(name)] = MachineType(**{**checked, "name": str(name)})
    if faults:
        raise MachineTypeError("\n".join(faults))
    return made


def row_of(kind: MachineType) -> Json:
    """Return a type as a row that site_types reads; without fields that are not known."""
    row = {name: value for name, value in kind.to_json().items() if value is not None}
    for part in ("gpus", "neuron"):
        if part in row:
            row[part]["memory_mib"] = max(1, row[part]["memory_mib"])
    return {name: value for name, value in row.items() if name not in ("name", "unverified")}


def _shallow(base: MachineType) -> Json:
    return {field.name: getattr(base, field.name) for field in dataclasses.fields(base)}


def _fields(
    at: str, fields: t.Mapping[str, t.Any], base: MachineType | None, faults: list[str]
) -> Json:
    """Check the fields of one line; what is wrong goes to faults."""
    checked: Json = {}
    for field, value in fields.items():
        here = f"{at}.{field}"
        if field in _NUMBERS:
            checked[field] = _whole(here, value, _NUMBERS[field], faults)
        elif field in _PARTS:
            checked[field] = _part(here, field, value, faults)
        elif field in _TEXTS:
            allowed = _TEXTS[field]
            if not isinstance(value, str) or allowed and value not in allowed:
                faults.append(f"{here}: is {value!r} -> {' or '.join(allowed or ['a text'])}")
            checked[field] = value
        else:
            known = ", ".join([*_NUMBERS, *_PARTS, *_TEXTS])
            faults.append(f"{here}: no field has that name -> one of {known}")
    return checked


def _whole(here: str, value: object, least: int, faults: list[str]) -> t.Any:
    # True is an int in Python, and not a number that anybody meant.
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        faults.append(f"{here}: is {value!r} -> a whole number of at least {least}")
        return None
    return value


def _part(here: str, field: str, value: object, faults: list[str]) -> t.Any:
    made, wanted = _PARTS[field]
    if value is None:
        return None
    if not isinstance(value, t.Mapping) or set(value) != set(wanted):
        faults.append(f"{here}: is {value!r} -> a mapping with {', '.join(wanted)}, or null")
        return None
    checked = {}
    for name, least in wanted.items():
        if least is str:
            if not isinstance(value[name], str) or not value[name]:
                faults.append(f"{here}.{name}: is {value[name]!r} -> a text such as H100")
            checked[name] = value[name]
        else:
            checked[name] = _whole(f"{here}.{name}", value[name], least, faults)
    return made(**checked)
