# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compares machines with the hardware that the inventory declares, and keeps out those that are less. Pure.

Fewer GPUs, EFA interfaces, cores or MiB than declared are a FAIL: the node is kept out of the run, defined as declared
and drained. All else is a WARN, and INCOMPLETE is declared hardware that nobody could look at.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..checks.result import Result, Verdict
from ..hardware.machine_types import MachineTypeError, table
from ..slurm.hostlist import fold
from . import stack
from .declared import (
    Declared,
    declarations,
    declared_gpus,
    least_cores,
    least_memory,
    rows_of,
)
from .inputs import SERVICE_GROUPS, Inputs, is_true, members, name_of, nearest

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..hardware.machine_types import MachineType

#: The owner and the check of our drains: tw:validate:hardware: FAULT -> REMEDY.
OWNER, CHECK = "validate", "hardware"
#: GPUs and disks of another size than declared: part of the declared size below which they are.
_OTHER_SIZE = 0.9
#: EC2's own disks are NVMe too.
_NETWORK_DISK = "Elastic Block Store"
_REPLACE = "power the machine off and on (EC2: stop and start), then replace it"
_INSTALL_DRIVER = "install the NVIDIA driver there, and run site.yml again, which resumes the node"
_LOOK = "see nvidia-smi and dmesg there, power the machine off and on, then replace it"


@dataclass(frozen=True)
class Kept:
    """A host that is kept out of the run, and why. reason: in the form of a drain. message: for a person."""

    host: str
    reason: str
    message: str


@dataclass
class Findings:
    """The outcome of the comparison. less: by host the checks in which it is less than declared."""

    declared: dict[str, Declared] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    less: dict[str, set[str]] = field(default_factory=dict)
    kept: dict[str, Kept] = field(default_factory=dict)
    #: hosts that have all that is declared for them
    whole: set[str] = field(default_factory=set)
    #: hosts whose driver is still to come, so that they show no GPU yet, with the reason of their drain
    later: dict[str, str] = field(default_factory=dict)


def findings(inputs: Inputs) -> Findings:
    """Compare all hosts that answered. Raises MachineTypeError for a row of the site that is wrong."""
    settings = inputs["settings"]
    tolerance = float(settings.get("slurm_hardware_tolerance") or 0)
    later = is_true(settings["slurm_allow_missing_gpus"])
    made = Findings(declarations(inputs))
    known = [*rows_of(inputs), *table()]
    in_run = set(inputs["hosts_in_run"])
    of_stack: dict[str, list[Result]] = {}
    for result in stack.results(inputs, made.declared):
        of_stack.setdefault(result.host, []).append(result)
    for host in inputs["groups"].get("slurm_compute", []):
        if host not in in_run:
            continue
        declared, facts = made.declared.get(host), inputs["facts"].get(host)
        found = [
            *_results(host, declared, facts, tolerance, later, known),
            *of_stack.get(host, ()),
        ]
        by_hand = declared_gpus(inputs, host)
        if later and facts and (declared is None or declared.kind is None) and by_hand:
            found += _without_driver(host, facts, by_hand)
        made.results += found
        absent = [one for one in found if one.check == "gpus" and one.value == 0] if later else []
        if absent:
            said = f"{absent[0].what} -> {absent[0].remedy}"
            made.later[host] = f"tw:{OWNER}:{CHECK}: {said}"
        failed = [result for result in found if result.verdict is Verdict.FAIL]
        if failed:
            made.less[host] = {result.check for result in failed}
            what = "; ".join(result.what for result in failed)
            # Each fault needs its own: the first remedy alone would leave the host out again.
            remedy = "; ".join(dict.fromkeys(one.remedy for one in failed if one.remedy))
            said = f"{what} -> {remedy}"
            source = f", by {failed[0].provenance}" if failed[0].provenance else ""
            message = f"{what}{source} -> {remedy}"
            made.kept[host] = Kept(host, f"tw:{OWNER}:{CHECK}: {said}", message)
        elif facts and not absent:
            of_type = declared is not None and declared.kind is not None
            if of_type or 0 < by_hand <= len(facts.get("gpus") or []):
                made.whole.add(host)
    return made


def differences(inputs: Inputs) -> list[Result]:
    """Return the results of the compute nodes that answered, where this collection does not define the nodes.

    Raises MachineTypeError for a row of the site that is wrong.
    """
    tolerance = float(inputs["settings"].get("slurm_hardware_tolerance") or 0)
    later = is_true(inputs["settings"].get("slurm_allow_missing_gpus"))
    known = [*rows_of(inputs), *table()]
    return [
        result
        for host, declared in declarations(inputs).items()
        if host in inputs["facts"]
        for result in _results(host, declared, inputs["facts"][host], tolerance, later, known)
    ]


def short_hosts(inputs: Inputs) -> Mapping[str, set[str]]:
    """Return by host the checks in which it is less than declared; none while a row cannot be read."""
    try:
        return findings(inputs).less
    except MachineTypeError:
        return {}


def kept_out(inputs: Inputs, found: Findings) -> list[dict[str, t.Any]]:
    """Return the hosts that are kept out, as the model has them. service: it runs a service besides slurmd."""
    services = set(
        members(inputs, *(group for group in SERVICE_GROUPS if group != "slurm_compute"))
    )
    return [
        {
            "host": kept.host,
            "name": name_of(inputs, kept.host),
            "message": kept.message,
            "service": kept.host in services,
        }
        for kept in found.kept.values()
    ]


def drains(inputs: Inputs, found: Findings, defined: t.Collection[str]) -> list[dict[str, t.Any]]:
    """Return the nodes to drain for each reason. defined: names of nodes that Slurm knows after the run.

    One whose driver is still to come stays in the run, and jobs would ask for GPUs that it does not have.
    """
    names: dict[str, list[str]] = {}
    reasons = {**found.later, **{kept.host: kept.reason for kept in found.kept.values()}}
    for host, reason in reasons.items():
        name = name_of(inputs, host)
        if name in defined:
            names.setdefault(reason, []).append(name)
    return [{"nodes": nodes, "reason": reason} for reason, nodes in names.items()]


def machine_messages(found: Findings) -> list[str]:
    """Return a line for each fault that machines share, the worst first, for the reader of a run."""
    hosts: dict[tuple[int, str], list[str]] = {}
    order = (Verdict.FAIL, Verdict.INCOMPLETE, Verdict.WARN)
    for result in found.results:
        if result.verdict in order:
            source = f", by {result.provenance}" if result.provenance else ""
            said = f"{result.verdict}: {result.what}{source} -> {result.remedy}"
            hosts.setdefault((order.index(result.verdict), said), []).append(result.host)
    return [f"{fold(named)}: {said}" for (_rank, said), named in sorted(hosts.items())]


def untested(found: Findings) -> list[str]:
    """Return a line for declared hardware that could not be looked at, on hosts that answered.

    Ansible itself reports the others as unreachable, and ends with failure.
    """
    results = [one for one in found.results if one.check != CHECK]
    only = [one for one in results if one.verdict is Verdict.INCOMPLETE]
    return machine_messages(Findings(results=only))


def _without_driver(host: str, facts: Mapping[str, t.Any], wanted: int) -> list[Result]:
    """Return the result of a machine whose GPUs slurm_node.gres declares and that shows none; [] for any other.

    In containers a count without devices is for trying things out.
    """
    if facts.get("gpus") or facts.get("virtualization") == "container":
        return []
    return [
        Result(
            host,
            "gpus",
            Verdict.WARN,
            value=0,
            threshold=wanted,
            provenance="slurm_node.gres",
            remedy=_INSTALL_DRIVER,
            unit="GPUs",
        )
    ]


# -- one machine -----------------------------------------------------------------------------------
def _results(
    host: str,
    declared: Declared | None,
    facts: Mapping[str, t.Any] | None,
    tolerance: float,
    later: bool,
    known: Sequence[str],
) -> list[Result]:
    if declared is None:
        detail = "no machine type is declared"
        return [Result(host, "machine_type", Verdict.NOT_APPLICABLE, detail=detail)]
    if declared.kind is None:
        return [_unknown(host, declared, known)]
    if not facts:
        detail, remedy = "the host did not answer", "start it, and run this playbook again"
        return [Result(host, CHECK, Verdict.INCOMPLETE, detail=detail, remedy=remedy)]
    return [*_compared(_Machine(host, declared, declared.kind, facts, tolerance, later))]


def _unknown(host: str, declared: Declared, known: Sequence[str]) -> Result:
    """An unknown type that EC2 names is not a mistake of the inventory: nobody declared it."""
    hint = nearest(declared.name, known)
    detail = f"machine type {declared.name} is not in the table{hint}"
    correct = "correct slurm_node.machine_type, or " if declared.explicit else ""
    remedy = f"{correct}describe it in slurm_machine_types (docs/machine_types.md)"
    verdict = Verdict.FAIL if declared.explicit else Verdict.WARN
    return Result(host, "machine_type", verdict, None, None, "", remedy, "", detail)


@dataclass(frozen=True)
class _Machine:
    """A host with what is declared for it and what it reports."""

    host: str
    declared: Declared
    kind: MachineType
    facts: Mapping[str, t.Any]
    tolerance: float
    later: bool

    def result(self, check: str, verdict: Verdict, **more: t.Any) -> Result:
        """Return a result of this host. A field that no source confirms does not keep a machine out."""
        doubts = {doubt.split(".")[0] for doubt in self.kind.unverified}
        if verdict is Verdict.FAIL and _FIELDS[check] in doubts:
            verdict = Verdict.WARN
        if verdict is Verdict.PASS:
            more.pop("remedy", None)
        return Result(self.host, check, verdict, provenance=self.declared.source, **more)


#: The field of a machine type behind a check that can keep a machine out.
_FIELDS = {
    "architecture": "architecture",
    "gpus": "gpus",
    "efa": "efa_interfaces",
    "cpus": "cores",
    "memory": "memory_mib",
}


def _compared(machine: _Machine) -> Iterator[Result]:
    parts = (_architecture, _gpus, _gpu_model, _gpu_memory, _efa, _cpus, _memory, _nvlink, _nvme)
    for check in (*parts, _infiniband, _pcie):
        yield from check(machine)


def _architecture(machine: _Machine) -> Iterator[Result]:
    found, wanted = str(machine.facts.get("arch") or ""), machine.kind.architecture
    if found and found != wanted:
        remedy = "correct slurm_node.machine_type, or the machine's address"
        yield machine.result(
            "architecture", Verdict.FAIL, value=found, threshold=wanted, remedy=remedy
        )


def _gpus(machine: _Machine) -> Iterator[Result]:
    wanted = machine.kind.gpus
    if wanted is None:
        return
    found = len(machine.facts.get("gpus") or [])
    bus = int((machine.facts.get("on_bus") or {}).get("gpus") or 0)
    verdict, remedy = Verdict.PASS, ""
    detail = f"{bus} on the PCI bus" if bus and found != wanted.count else ""
    if found > wanted.count:
        verdict = Verdict.WARN
        remedy = "correct slurm_node.machine_type, or describe the machine in slurm_machine_types"
    elif found < wanted.count:
        verdict = Verdict.WARN if machine.later and not found else Verdict.FAIL
        remedy = _LOOK if found or not bus else "install the NVIDIA driver there"
        if bus and bus < wanted.count:
            remedy = _REPLACE
        elif not found and machine.later:
            remedy = _INSTALL_DRIVER
        if not found and not machine.later:
            remedy += "; while the driver is still to come: slurm_allow_missing_gpus: true"
    yield machine.result(
        "gpus",
        verdict,
        value=found,
        threshold=wanted.count,
        unit="GPUs",
        detail=detail,
        remedy=remedy,
    )


def _gpu_model(machine: _Machine) -> Iterator[Result]:
    wanted, gpus = machine.kind.gpus, machine.facts.get("gpus") or []
    if wanted is None or not gpus:
        return
    models = sorted({str(gpu.get("model") or "") for gpu in gpus})
    words = set(re.findall(r"\w+", wanted.model.lower()))
    other = [model for model in models if not words <= set(re.findall(r"[^\W_]+", model.lower()))]
    verdict, remedy, detail = Verdict.PASS, "", ""
    value: str | None = ", ".join(models)
    if "" in models:
        verdict, value, detail = Verdict.INCOMPLETE, None, "nvidia-smi did not answer"
        remedy = "install nvidia-smi of the driver's release there"
    elif other:
        verdict, value = Verdict.WARN, ", ".join(other)
        remedy = "correct slurm_node.machine_type, or gpus.model in slurm_machine_types"
    yield machine.result(
        "gpu_model",
        verdict,
        value=value,
        threshold=wanted.model,
        unit="GPUs",
        detail=detail,
        remedy=remedy,
    )


def _gpu_memory(machine: _Machine) -> Iterator[Result]:
    wanted = machine.kind.gpus
    sizes = [int(gpu.get("memory_mb") or 0) for gpu in machine.facts.get("gpus") or []]
    if wanted is None or not sizes or not min(sizes):
        return
    verdict = Verdict.PASS if min(sizes) >= wanted.memory_mib * _OTHER_SIZE else Verdict.WARN
    remedy = "correct slurm_node.machine_type, or gpus.memory_mib in slurm_machine_types"
    yield machine.result(
        "gpu_memory",
        verdict,
        value=min(sizes),
        threshold=wanted.memory_mib,
        unit="MiB of a GPU",
        remedy=remedy,
    )


def _efa(machine: _Machine) -> Iterator[Result]:
    declared, most = machine.declared, machine.kind.efa_interfaces
    found = len(machine.facts.get("efa") or [])
    bus = int((machine.facts.get("on_bus") or {}).get("efa") or 0)
    if not declared.efa and not found:
        return
    verdict, remedy, detail = Verdict.PASS, "", ""
    if found < declared.efa:
        verdict = Verdict.WARN if machine.later and not found else Verdict.FAIL
        detail = f"{bus} on the PCI bus" if bus else ""
        if bus >= declared.efa:
            remedy = "load the driver efa there, and see dmesg"
        elif declared.attached is None:
            remedy = "attach the missing ones, or set efa_interfaces in slurm_machine_types"
        else:
            remedy = _REPLACE
    elif declared.attached is not None and declared.attached < most:
        verdict, detail = (
            Verdict.WARN,
            f"EC2 lists {declared.attached}, and the type can have {most}",
        )
        remedy = (
            "attach the others at the next launch, or set efa_interfaces in slurm_machine_types"
        )
    yield machine.result(
        "efa",
        verdict,
        value=found,
        threshold=declared.efa,
        unit="EFA interfaces",
        detail=detail,
        remedy=remedy,
    )


def _cpus(machine: _Machine) -> Iterator[Result]:
    facts, wanted = machine.facts, machine.kind.cores
    # Cores, since a machine without hyper-threading shows half of the CPUs and is whole.
    found = int(facts.get("sockets") or 1) * int(facts.get("cores_per_socket") or 1)
    enough = found >= least_cores(wanted, machine.tolerance)
    remedy = "give the machine its CPUs (CpuOptions, firmware), or set cores in slurm_machine_types"
    yield machine.result(
        "cpus",
        Verdict.PASS if enough else Verdict.FAIL,
        value=found,
        threshold=wanted,
        unit="cores",
        remedy=remedy,
    )


def _memory(machine: _Machine) -> Iterator[Result]:
    found, wanted = int(machine.facts.get("memory_mb") or 0), machine.kind.memory_mib
    enough = found >= least_memory(wanted, machine.tolerance)
    remedy = "replace the memory or the machine, or set memory_mib in slurm_machine_types"
    yield machine.result(
        "memory",
        Verdict.PASS if enough else Verdict.FAIL,
        value=found,
        threshold=wanted,
        unit="MiB",
        remedy=remedy,
    )


def _nvlink(machine: _Machine) -> Iterator[Result]:
    wanted, gpus = machine.kind.nvlink_links, machine.facts.get("gpus") or []
    if not wanted or not gpus:
        return
    links = list(machine.facts.get("nvlink") or [])
    found = min(links, default=None)
    verdict = Verdict.INCOMPLETE if found is None else Verdict.PASS
    remedy = "see nvidia-smi nvlink --status there, and whether nvidia-fabricmanager runs"
    if found is not None and found < wanted:
        verdict = Verdict.WARN
    yield machine.result(
        "nvlink", verdict, value=found, threshold=wanted, unit="NVLinks of a GPU", remedy=remedy
    )


def _nvme(machine: _Machine) -> Iterator[Result]:
    wanted = machine.kind.nvme
    if wanted is None:
        return
    found = sum(
        int(disk.get("size_gb") or 0) >= wanted.size_gb * _OTHER_SIZE
        and _NETWORK_DISK not in str(disk.get("model"))
        for disk in machine.facts.get("nvme") or []
    )
    yield machine.result(
        "nvme",
        Verdict.PASS if found >= wanted.count else Verdict.WARN,
        value=found,
        threshold=wanted.count,
        unit=f"NVMe disks of {wanted.size_gb} GB",
        remedy="see lsblk and dmesg there, or set nvme in slurm_machine_types",
    )


def _infiniband(machine: _Machine) -> Iterator[Result]:
    wanted = machine.kind.infiniband_ports
    if not wanted:
        return
    found = sum(bool(port.get("active")) for port in machine.facts.get("infiniband") or [])
    yield machine.result(
        "infiniband",
        Verdict.PASS if found >= wanted else Verdict.WARN,
        value=found,
        threshold=wanted,
        unit="active InfiniBand ports",
        remedy="see ibstat there, or set infiniband_ports in slurm_machine_types",
    )


def _pcie(machine: _Machine) -> Iterator[Result]:
    """Compare the lanes of the GPU with the fewest, where the system shows them."""
    wanted = machine.kind.pcie_width
    lanes = (machine.facts.get("on_bus") or {}).get("gpu_lanes") or []
    if not wanted or not lanes:
        return
    yield machine.result(
        "pcie",
        Verdict.PASS if min(lanes) >= wanted else Verdict.WARN,
        value=min(lanes),
        threshold=wanted,
        unit="PCIe lanes of a GPU",
        remedy=f"see nvidia-smi -q and dmesg there, {_REPLACE}",
    )
