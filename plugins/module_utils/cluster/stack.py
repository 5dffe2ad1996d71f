# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GPU and EFA software of the nodes: who has it, what this collection installs, and what does not fit. Pure.

A host's own word, `gpu_stack`, decides: present is found, compared and left alone, managed is installed, none is not
looked at.
"""

from __future__ import annotations

import typing as t

from ..checks.result import Result, Verdict
from ..hardware import stack
from ..hardware.machine_types import MachineType, MachineTypeError
from ..hardware.stack_data import COMPONENTS, DEFAULT_RELEASE
from ..slurm.hostlist import fold
from .declared import Declared, declarations
from .inputs import Inputs, members, seen
from .stack_plan import waits

Json = dict[str, t.Any]
GROUP, WORD = "slurm_gpu", "gpu_stack"
PRESENT, MANAGED, NONE = "present", "managed", "none"
SOURCE, DISTRIBUTION, RUNFILE = "nvidia_driver_source", "distribution", "runfile"
CHECK = "stack"
REPOSITORY = "gpu_stack_repository"
#: Settings by which a stack that is present is compared; the others are for hosts that are managed.
COMPARED = ("gpu_stack_release", "gpu_stack_releases", "gpu_stack_versions")
#: GPUs that reach each other through NVSwitches only with Fabric Manager, by model and at least so many of them.
#: NVIDIA Fabric Manager User Guide, Supported Platforms.
_SWITCHED = {"A100": 8, "H100": 8, "H200": 8, "B200": 8, "B300": 8}
#: Those that need the subnet manager of NVLink as well: the same guide, Blackwell.
_SUBNET = ("B200", "B300")
#: Racks in which GPUs of several machines share memory: NVIDIA IMEX Service guide.
_IMEX = ("GB200",)

#: Parts of a host with NVIDIA's installer that no package of NVIDIA's repository brings.
NOT_OF_REPOSITORY = frozenset(("nvidia_driver", "rdma_core", "efa", "aws_ofi_nccl"))


def word(inputs: Inputs, host: str) -> str:
    """Return present, managed or none for a host."""
    return str((inputs["host_vars"].get(host) or {}).get(WORD) or PRESENT)


def setting(inputs: Inputs, host: str, name: str) -> t.Any:
    """Return one of STACK_OF_HOST as a host has it: its own, else that of the cluster."""
    return inputs["differing"].get(host, {}).get(name, inputs["settings"].get(name))


def repository(inputs: Inputs, host: str) -> Json:
    """Return the repository that a host names, else that of the cluster; {} for NVIDIA's own."""
    own = inputs["differing"].get(host, {})
    found = own.get(REPOSITORY, inputs["settings"].get("gpu_stack_repository"))
    # Another type has a check of its own.
    return dict(found) if isinstance(found, dict) else {}


def _kinds(inputs: Inputs) -> t.Mapping[str, Declared]:
    try:
        return declarations(inputs)
    except MachineTypeError:  # preflight has a check of its own for such a row
        return {}


def has(facts: t.Mapping[str, t.Any], what: str) -> bool:
    """Tell whether a machine has GPUs or EFA, by its driver or on its PCI bus."""
    return bool(facts.get(what) or (facts.get("on_bus") or {}).get(what))


def gpu_hosts(inputs: Inputs) -> dict[str, dict[str, t.Any]]:
    """Return by host the facts of those with GPUs or EFA that answered: the group slurm_gpu, else by what they have."""
    kinds = _kinds(inputs)
    chosen = set(members(inputs, GROUP))
    found = {}
    for host, facts in seen(inputs, GROUP, "slurm_compute"):
        declared = kinds.get(host)
        kind = declared.kind if declared else None
        named = bool(kind and (kind.gpus or kind.efa_interfaces or kind.infiniband_ports))
        if host in chosen or (not chosen and (named or has(facts, "gpus") or has(facts, "efa"))):
            found[host] = facts
    return found


def versions(settings: t.Mapping[str, t.Any]) -> tuple[str, dict[str, str]]:
    """Return the release to install and its versions, with those of the site over them. Raises StackError."""
    name = str(settings.get("gpu_stack_release") or "") or DEFAULT_RELEASE
    known = stack.releases(settings.get("gpu_stack_releases") or {})
    if name not in known:
        raise stack.StackError(f"gpu_stack_release: {name} is none of {', '.join(known)}")
    found = dict(known[name].versions)
    for component, version in (settings.get("gpu_stack_versions") or {}).items():
        if component not in COMPONENTS:
            raise stack.StackError(
                f"gpu_stack_versions.{component}: is not one of {', '.join(COMPONENTS)}"
            )
        if not isinstance(version, str) or not stack.VERSION.fullmatch(version):
            raise stack.StackError(
                f"gpu_stack_versions.{component}: {version!r} is not the text of a version, in quotes"
            )
        found[component] = version
    # One version, whoever sets it.
    given = settings.get("gpu_stack_versions") or {}
    manager = given.get("fabric_manager")
    if manager and not stack.same(manager, found.get("driver", "")):
        raise stack.StackError(
            f"gpu_stack_versions.fabric_manager: {manager} is not the version of the driver, {found.get('driver')},"
            " which it has to be"
        )
    if "driver" in given:
        found["fabric_manager"] = found["driver"]
    return name, found


def system(facts: t.Mapping[str, t.Any]) -> str:
    """Return a host's system as the tables name it: debian 13."""
    found = facts.get("os") or {}
    return f"{found.get('id')} {found.get('version')}"


def _driver(facts: t.Mapping[str, t.Any], source: str, version: str) -> Json:
    """Return the packages of the driver, those that its version holds, and whose they are."""
    found: Json = {"of_distribution": False, "runfile": False, "packages": ["nvidia-open"], "held": [],
                   "fabric_manager": "nvidia-fabricmanager"}  # fmt: skip
    if source == RUNFILE:
        container = facts.get("virtualization") == "container"
        options = stack.installer_options(version, container)
        return {**found, "runfile": True, "packages": [], "options": options}
    archive = stack.of_distribution(system(facts), version) if source == DISTRIBUTION else None
    if archive is None:
        return found
    return {"of_distribution": True, "runfile": False, "packages": list(archive.packages), "held": list(archive.held),
            "fabric_manager": archive.fabric_manager}  # fmt: skip


def _switched(kind: MachineType | None) -> bool:
    """Return whether a machine's GPUs reach each other through NVSwitches.

    PCIe cards of the same models do not, as a row with 0 NVLink links says, and Fabric Manager fails to start there.
    """
    if not kind or not kind.gpus or kind.nvlink_links == 0:
        return False
    return kind.gpus.count >= _SWITCHED.get(kind.gpus.model, 2**16)


def parts(
    facts: t.Mapping[str, t.Any],
    declared: Declared | None,
    wanted: t.Mapping[str, str],
    source: str = "",
) -> Json:
    """Return what a managed host gets, by what is declared for it, else by what it has.

    roles: in the order in which they are set up. repository: whether NVIDIA's is needed.
    driver: its packages, by `nvidia_driver_source`. The others: services of the driver that its hardware needs.
    """
    kind = declared.kind if declared else None
    gpus = kind.gpus if kind else None
    model, count = (gpus.model, gpus.count) if gpus else ("", 0)
    has_gpus = bool(gpus) or has(facts, "gpus")
    has_efa = bool(declared and declared.efa) or has(facts, "efa")
    has_ib = bool(kind and kind.infiniband_ports) or bool(facts.get("infiniband")) and not has_efa
    roles = [
        role
        for role, component, on in (
            ("nvidia_driver", "driver", has_gpus),
            ("cuda_toolkit", "cuda", has_gpus),
            ("nvidia_dcgm", "dcgm", has_gpus),
            ("nvidia_container", "container_toolkit", has_gpus),
            ("gdrcopy", "gdrcopy", has_gpus),
            ("rdma_core", "", has_ib),
            ("efa", "efa", has_efa),
            ("nccl", "nccl", has_gpus),
            ("aws_ofi_nccl", "efa", has_efa and has_gpus),
        )
        if on and (not component or component in wanted)
    ]
    daemons = {
        "fabric_manager": _switched(kind),
        "subnet_manager": model in _SUBNET and _switched(kind),
        "imex": model in _IMEX,
    }
    return {
        "roles": roles,
        "repository": source != RUNFILE
        or any(daemons.values())
        or not NOT_OF_REPOSITORY.issuperset(roles),
        "driver": _driver(facts, source, wanted.get("driver", "")),
        **daemons,
        "gpus": count,
        "efa": declared.efa if declared else 0,
    }


def model_of(inputs: Inputs, nodes: t.Iterable[Json]) -> Json:
    """Return the part of the cluster model; see the RETURN of the module cluster_model. Raises StackError.

    nodes: their rows, which get the versions that this run saw. Those of other nodes are on record.
    """
    release, wanted = versions(inputs["settings"])
    kinds = _kinds(inputs)
    hosts = gpu_hosts(inputs)
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node in nodes:
        host = node["host"]
        if host in inputs["facts"]:
            looked_at = host in hosts and word(inputs, host) != NONE
            node["stack"] = dict(hosts[host].get("stack") or {}) if looked_at else {}
        if node.setdefault("stack", {}):
            key = tuple(sorted(node["stack"].items()))
            alike.setdefault(key, []).append(node["name"])
    managed = {
        host: parts(facts, kinds.get(host), wanted, inputs["settings"].get(SOURCE) or "")
        for host, facts in hosts.items()
        if word(inputs, host) == MANAGED
    }
    return {
        "release": release,
        "versions": wanted,
        "hosts": managed,
        "nccl_tests": _nccl_tests(inputs, managed, wanted),
        "sources": _sources(inputs, managed),
        "nodes": [{"nodes": fold(names), "stack": dict(key)} for key, names in alike.items()],
    }


def managed_hosts(inputs: Inputs) -> dict[str, t.Any]:
    """Return what each managed host gets; {} where the versions cannot be read, which has a check of its own."""
    try:
        found: dict[str, t.Any] = model_of(inputs, [])["hosts"]
    except stack.StackError:
        return {}
    return found


def _sources(inputs: Inputs, managed: t.Mapping[str, Json]) -> dict[str, list[str]]:
    """Return by role the hosts on which preflight looks up its source: one for each set of values of their own."""
    found: dict[str, dict[str, str]] = {"efa": {}, "aws_ofi_nccl": {}}
    for host, part in managed.items():
        for role, hosts in found.items():
            if role not in part["roles"]:
                continue
            if role == "aws_ofi_nccl" and setting(inputs, host, "aws_ofi_nccl_source") != "build":
                continue
            own = inputs["differing"].get(host, {})
            key = {name: own[name] for name in sorted(own) if name.startswith(f"{role}_")}
            hosts.setdefault(repr(key), host)
    return {role: list(hosts.values()) for role, hosts in found.items()}


def _nccl_tests(inputs: Inputs, managed: t.Mapping[str, Json], wanted: t.Mapping[str, str]) -> Json:
    """Return the hosts that get nccl-tests, and those of them that would build, one for each system.

    A host whose packages wait for its boot has neither their compiler nor their libraries.
    """
    facts = inputs["facts"]
    hosts = [
        host
        for host, part in managed.items()
        if inputs["settings"].get("gpu_stack_nccl_tests")
        and "nvidia_driver" in part["roles"]
        and not waits(part, facts[host], wanted)
    ]
    first: dict[tuple[str, str], str] = {}
    for host in hosts:
        first.setdefault((system(facts[host]), str(facts[host].get("arch") or "")), host)
    return {"hosts": hosts, "builders": list(first.values())}


# -- what does not fit -------------------------------------------------------------------------------
def results(inputs: Inputs, kinds: t.Mapping[str, Declared]) -> list[Result]:
    """Return what does not fit: FAIL keeps a host out of the run, WARN names the odd one.

    A managed host is only compared with its peers: this run, or the reboot that it asks for, brings it to its versions.
    """
    hosts = {host: facts for host, facts in gpu_hosts(inputs).items() if word(inputs, host) != NONE}
    found = []
    for host, facts in hosts.items():
        if word(inputs, host) == PRESENT:
            found += _of_present(inputs, host, facts, kinds.get(host))
        elif not (kinds.get(host) and kinds[host].kind):
            found += _of_unknown_type(host, facts)
    found += _left_aside(inputs, hosts)
    peers: dict[tuple[str, str, str], dict[str, dict[str, str]]] = {}
    for host, facts in hosts.items():
        declared = kinds.get(host)
        models = {str(gpu.get("model") or "") for gpu in facts.get("gpus") or []}
        kind = declared.name if declared else ",".join(sorted(models))
        key = (kind, str(facts.get("arch") or ""), word(inputs, host))
        peers.setdefault(key, {})[host] = {
            **(facts.get("stack") or {}),
            "kernel": str(facts.get("kernel") or ""),
        }
    for stacks in peers.values():
        for host, misfits in stack.odd_ones(stacks).items():
            found += [_result(host, Verdict.WARN, misfit) for misfit in misfits]
    return found


def _of_unknown_type(host: str, facts: t.Mapping[str, t.Any]) -> list[Result]:
    """Name a managed host whose fabric nobody knows: before its driver is there, GPUs of any model look alike."""
    count = int((facts.get("on_bus") or {}).get("gpus") or len(facts.get("gpus") or []))
    if count < min(_SWITCHED.values()):
        return []
    return [
        Result(
            host,
            CHECK,
            Verdict.WARN,
            value=count,
            threshold="a machine type",
            unit="GPUs",
            detail="the machine type alone says whether they need Fabric Manager, nvlsm or IMEX, and none is installed",
            remedy="write its machine_type into slurm_node (docs/machine_types.md)",
        )
    ]


def _left_aside(inputs: Inputs, hosts: t.Container[str]) -> list[Result]:
    """Name the hosts that are to be managed, have GPUs or EFA, and are not in the group that decides where."""
    if not members(inputs, GROUP):
        return []
    return [
        Result(
            host,
            CHECK,
            Verdict.WARN,
            value=f"not in {GROUP}",
            detail=f"{WORD} is {MANAGED} there, and that group has other hosts, so nothing is installed",
            remedy=f"put it into {GROUP}, or write {WORD}: {PRESENT}",
        )
        for host, facts in seen(inputs, "slurm_compute")
        if host not in hosts
        and word(inputs, host) == MANAGED
        and (has(facts, "gpus") or has(facts, "efa"))
    ]


def _lacks_manager(facts: t.Mapping[str, t.Any], declared: Declared | None) -> list[stack.Misfit]:
    """Return that Fabric Manager is missing where its hardware needs it: no program of CUDA starts there."""
    have = facts.get("stack") or {}
    gpus = declared.kind.gpus if declared and declared.kind else None
    if not (declared and gpus and have.get("driver") and _switched(declared.kind)):
        return []
    if have.get("fabric_manager"):
        return []
    return [
        stack.Misfit(
            "fabric_manager",
            "",
            have["driver"],
            f"{gpus.count} {gpus.model} reach each other through NVSwitches, and CUDA does not start there without it",
            f"install nvidia-fabricmanager {have['driver']}, and hold both; where the hypervisor runs it, write"
            f" {WORD}: {NONE}; for PCIe cards without NVSwitch, nvlink_links: 0 in slurm_machine_types",
        )
    ]


def _of_present(
    inputs: Inputs, host: str, facts: t.Mapping[str, t.Any], declared: Declared | None
) -> list[Result]:
    have = dict(facts.get("stack") or {})
    gpus = declared.kind.gpus if declared and declared.kind else None
    found = [
        _result(host, Verdict.FAIL if misfit.sure else Verdict.WARN, misfit)
        for misfit in [
            *stack.node(have, gpus.model if gpus else ""),
            *_lacks_manager(facts, declared),
        ]
    ]
    named = str(inputs["settings"].get("gpu_stack_release") or "")
    own = inputs["settings"].get("gpu_stack_versions") or {}
    if not (named or own):
        return found
    try:
        release, wanted = versions(inputs["settings"])
    except stack.StackError:  # preflight has a check of its own for it
        return found
    source = stack.releases(inputs["settings"].get("gpu_stack_releases") or {})[release].source
    if not named:  # versions of the inventory alone
        release, source = "gpu_stack_versions", "the inventory"
        wanted = {name: version for name, version in wanted.items() if name in own}
    for misfit in stack.against(have, stack.Release(release, wanted, source)):
        # A newer one may be right; an older one lacks what the release was named for.
        old = misfit.component != "kernel" and stack.older(misfit.found, misfit.wanted)
        found.append(_result(host, Verdict.FAIL if old else Verdict.WARN, misfit))
    return found


def _result(host: str, verdict: Verdict, misfit: stack.Misfit) -> Result:
    return Result(
        host,
        CHECK,
        verdict,
        value=misfit.found or "none",
        threshold=misfit.wanted,
        unit=f"of {COMPONENTS[misfit.component]}",
        remedy=misfit.remedy,
        detail=misfit.why,
    )
