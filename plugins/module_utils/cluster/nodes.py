# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compute nodes: their definitions from facts, variables and the record, and their lines in
slurm.conf and gres.conf. Pure."""

from __future__ import annotations

import re
import typing as t

from ..node.names import natural_key
from ..slurm.conf.pairs import text_of, written
from ..slurm.hostlist import expand, fold, fold_in_order
from . import topology_parts
from .declared import (
    as_declared,
    before_it_exists,
    defined_gres,
    gpu_resources,
    had_gpus,
    without_files,
)
from .inputs import Inputs, name_of, node_address, short_name

if t.TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from .machines import Findings

#: A node of which nobody has seen the machine is less than declared in all that defines it.
_UNSEEN = ("cpus", "memory", "gpus")


def gpu_type(model: str) -> str:
    """Return Slurm's type for a GPU model: "NVIDIA H100 80GB HBM3" -> "h100", "" -> "".

    The short form is a part of the name that AutoDetect finds, so both may be used together.
    """
    if not model:
        return ""
    words = re.sub(r"^(nvidia|tesla|amd|instinct|geforce|\s)+", "", model.strip(), flags=re.I)
    match = re.match(r"([A-Za-z]{1,2}\d{1,4}[A-Za-z]{0,2})\b", words)
    return (
        match.group(1) if match else re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    ).lower()


def _topology(declared: Mapping[str, t.Any], facts: Mapping[str, t.Any]) -> dict[str, int]:
    """Return cpus, boards, sockets, cores and threads, with a product that fits."""
    found = {
        "sockets": int(facts.get("sockets") or 1),
        "cores_per_socket": int(facts.get("cores_per_socket") or 1),
        "threads_per_core": int(facts.get("threads_per_core") or 1),
    }
    found_cpus = int(facts.get("cpus") or 1)
    parts = {key: int(declared.get(key) or found[key]) for key in found}
    product = parts["sockets"] * parts["cores_per_socket"] * parts["threads_per_core"]
    given = [key for key in found if declared.get(key)]
    cpus = int(declared.get("cpus") or (product if given else found_cpus))
    if product != cpus:
        # The declared CPUs, or those that a container may use, differ from the machine's.
        threads = parts["threads_per_core"]
        if cpus % threads:
            threads = 1
        cores = cpus // threads
        sockets = parts["sockets"] if cores % parts["sockets"] == 0 else 1
        parts = {
            "sockets": sockets,
            "cores_per_socket": cores // sockets,
            "threads_per_core": threads,
        }
    return {"cpus": cpus, "boards": int(facts.get("boards") or 1), **parts}


def _gres(
    declared: Sequence[Mapping[str, t.Any]] | None, facts: Mapping[str, t.Any]
) -> list[dict[str, t.Any]]:
    """Return the generic resources of a node: those declared, else the GPUs found."""
    if declared is not None:
        result = []
        for item in declared:
            files = str(item.get("file") or "")
            count = int(item.get("count") or (len(expand(files)) if files else 1))
            result.append(
                {
                    "name": str(item.get("name", "gpu")),
                    "type": str(item.get("type") or ""),
                    "count": count,
                    "file": files,
                }
            )
        return result
    by_type: dict[str, list[str]] = {}
    for gpu in sorted(facts.get("gpus") or [], key=lambda gpu: natural_key(str(gpu["device"]))):
        by_type.setdefault(gpu_type(str(gpu.get("model") or "")), []).append(str(gpu["device"]))
    return [
        {"name": "gpu", "type": kind, "count": len(devices), "file": fold_in_order(devices)}
        for kind, devices in by_type.items()
    ]


def real_memory(memory_mb: int, percent: int) -> int:
    """Return RealMemory in MB, rounded down to three digits or so.

    Machines of one type differ by some MB, and by some more after a new kernel: rounded, they still
    share a node line, and an update of the kernel changes no configuration.
    """
    memory = memory_mb * percent // 100
    step = 1
    while memory >= step * 10000:
        step *= 10
    return memory // step * step


def _define_node(inputs: Inputs, host: str, client: bool, found: Findings) -> dict[str, t.Any]:
    """Return the definition of one host: as it was seen in this run, and as declared in what it has less of."""
    settings, facts = inputs["settings"], inputs["facts"].get(host) or {}
    host_vars = inputs["host_vars"].get(host, {})
    declared = host_vars.get("slurm_node") or {}
    name = name_of(inputs, host)
    resources = declared.get("gres")
    recorded = (inputs["record"].get("nodes") or {}).get(name) or {}
    by_type, less = found.declared.get(host), _less(host, facts, found)
    if by_type is not None and less and not client:
        if "gpus" in less and resources is None and by_type.kind and by_type.kind.gpus:
            model = gpu_type(by_type.kind.gpus.model)
            resources = gpu_resources(by_type, recorded, model, host not in found.later)
        facts = as_declared(
            by_type, facts, recorded, less, float(settings["slurm_hardware_tolerance"])
        )
    if host in found.later and resources is not None and not client:
        resources = without_files(resources)
    memory = declared.get("memory_mb")
    if memory is None:
        memory = real_memory(
            int(facts.get("memory_mb") or 1), int(settings["slurm_memory_percent"])
        )
        if "memory" in less:
            memory = max(memory, int(recorded.get("memory_mb") or 0))
    cgroup = facts.get("cgroup") or {}
    return {
        "name": name,
        "host": host,
        "address": node_address(inputs, host),
        # slurmd finds its node by it. Nothing else believes it, and preflight refuses another host's.
        "hostname": short_name(str(facts.get("hostname") or name)),
        **_topology(declared, facts),
        "real_cpus": int(facts.get("cpus") or 1),
        "memory_mb": max(1, int(memory)),
        "gres": [] if client else _gres(resources, facts),
        # Until its driver comes. One that had them keeps its definition: it is never defined smaller.
        "gpus_to_come": host in found.later and not client and not had_gpus(recorded),
        "features": [str(feature) for feature in declared.get("features") or []],
        "weight": declared.get("weight"),
        "options": {
            str(key): text_of(value)
            for key, value in (declared.get("options") or {}).items()
            if value is not None
        },
        "client": client,
        "network_path": list(topology_parts.path_of(host_vars.get("slurm_network_path"))),
        "block": str(host_vars.get("slurm_block") or ""),
        "cgroup": {
            "mode": str(cgroup.get("mode") or ""),
            "controllers": sorted(cgroup.get("controllers") or []),
        },
        "ssh_host_keys": [key] if (key := str(facts.get("ssh_host_key") or "")) else [],
        "groups": [],  # filled by merge_nodes, for all hosts at once
    }


def _less(host: str, facts: Mapping[str, t.Any], found: Findings) -> Collection[str]:
    """Return the checks in which the machine of a host is less than declared."""
    if not facts:
        return _UNSEEN
    return {*found.less.get(host, ()), *(("gpus",) if host in found.later else ())}


def merge_nodes(
    inputs: Inputs, clients: Sequence[str], messages: list[str], found: Findings
) -> list[dict[str, t.Any]]:
    """Merge the record with the nodes that this run saw, and return them in natural order of their names."""
    recorded = inputs["record"].get("nodes") or {}
    nodes: dict[str, dict[str, t.Any]] = {
        name: dict(node) for name, node in recorded.items() if name not in inputs["remove"]
    }
    compute = inputs["groups"].get("slurm_compute", [])
    client_set = set(clients)
    # After an upgrade that brings sackd, a login host no longer runs slurmd and is not a node.
    for name in [
        name
        for name, node in nodes.items()
        if node.get("client") and node.get("host") not in client_set
    ]:
        if nodes[name].get("host") not in compute:
            del nodes[name]
    by_host = {node.get("host"): name for name, node in nodes.items()}
    in_run = set(inputs["hosts_in_run"])
    for host in [*compute, *clients]:
        early = host in in_run and host not in by_host
        early = early and before_it_exists(inputs, host, found.declared.get(host))
        if host not in inputs["facts"] and early:
            by_type = found.declared[host].name
            messages.append(f"{host} did not answer: it is defined by its machine type {by_type}")
        elif host not in inputs["facts"]:
            if host in in_run:
                messages.append(
                    f"{host} did not answer: "
                    + (
                        "its recorded definition is kept"
                        if host in by_host
                        else "it is left out until a run reaches it"
                    )
                )
            continue
        if host not in client_set and "machine_type" in found.less.get(host, ()):
            # Nobody knows what it should be: nothing is defined by what it happens to show.
            continue
        node = _define_node(inputs, host, host in client_set, found)
        if node["name"] in inputs["remove"]:
            continue
        old = by_host.get(host)
        if old is not None and old != node["name"]:
            nodes.pop(old, None)
            messages.append(f"{host}: the node {old} is now called {node['name']}")
        # All that it ever had: its removal revokes them.
        earlier = (recorded.get(old or node["name"]) or {}).get("ssh_host_keys") or []
        node["ssh_host_keys"] = list(dict.fromkeys([*earlier, *node["ssh_host_keys"]]))
        nodes[node["name"]] = node
    listed = {*compute, *clients}
    member_of: dict[str, list[str]] = {}
    for group, members in inputs["groups"].items():
        if group not in ("all", "ungrouped"):
            for member in members:
                member_of.setdefault(member, []).append(group)
    for node in nodes.values():
        node["listed"] = node.get("host") in listed
        if node.get("host") in inputs["host_vars"] or "declared" not in node:
            kind = found.declared.get(str(node.get("host")))
            node["declared"] = kind.to_json() if kind and not node["client"] else {}
        if node["listed"]:  # the inventory may have moved a host that this run did not visit
            node["groups"] = sorted(member_of.get(node["host"], node.get("groups") or []))
    return [nodes[name] for name in sorted(nodes, key=natural_key)]


def places(nodes: Sequence[Mapping[str, t.Any]]) -> dict[str, topology_parts.Place]:
    """Return where each compute node is, by its name."""
    return {
        node["name"]: topology_parts.Place(
            topology_parts.path_of(node.get("network_path")), str(node.get("block") or "")
        )
        for node in nodes
        if not node["client"]
    }


def gres_text(node: Mapping[str, t.Any]) -> str:
    """Return Gres of a node line: ``gpu:h100:8``."""
    return ",".join(
        ":".join(part for part in (item["name"], item["type"], str(item["count"])) if part)
        for item in defined_gres(node)
    )


def folded(
    items: Iterable[t.Any], key: Callable[[t.Any], t.Any]
) -> list[tuple[t.Any, list[t.Any]]]:
    """Group the items by key, groups in the order of their first member."""
    grouped: dict[t.Any, list[t.Any]] = {}
    for item in items:
        grouped.setdefault(key(item), []).append(item)
    return list(grouped.items())


def node_lines(nodes: Sequence[Mapping[str, t.Any]]) -> list[str]:
    """Return the NodeName lines; nodes that look the same share one."""

    def definition(node: Mapping[str, t.Any]) -> str:
        words = [
            f"CPUs={node['cpus']}",
            f"Boards={node['boards']}",
            f"SocketsPerBoard={node['sockets']}",
            f"CoresPerSocket={node['cores_per_socket']}",
            f"ThreadsPerCore={node['threads_per_core']}",
            f"RealMemory={node['memory_mb']}",
        ]
        if defined_gres(node):
            words.append(f"Gres={gres_text(node)}")
        if node["features"]:
            words.append(f"Features={','.join(node['features'])}")
        if node["weight"] is not None:
            words.append(f"Weight={node['weight']}")
        words.extend(f"{key}={written(value)}" for key, value in node["options"].items())
        return " ".join(words)

    def key(node: Mapping[str, t.Any]) -> tuple[str, bool, bool]:
        renamed = node["hostname"] != node["name"]
        # Without NodeAddr, Slurm would resolve the name that the node gives itself.
        return definition(node), renamed or node["address"] != node["name"], renamed

    lines = []
    for (text, addressed, renamed), members in folded(nodes, key):
        names = fold(node["name"] for node in members)
        by_name = {node["name"]: node for node in members}
        ordered = [by_name[name] for name in expand_in_slurm_order(names)]
        words = [f"NodeName={names}"]
        # Slurm takes the n-th address for the n-th name, so these keep the names' order.
        if addressed:
            words.append("NodeAddr=" + fold_in_order([node["address"] for node in ordered]))
        if renamed:
            words.append("NodeHostname=" + fold_in_order([node["hostname"] for node in ordered]))
        lines.append(" ".join([*words, text]))
    return lines


def expand_in_slurm_order(hostlist: str) -> list[str]:
    """Expand a folded list in the order it is written, as slurmctld does."""
    parts = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", hostlist)
    return [name for part in parts for name in expand(part)]


def gres_lines(nodes: Sequence[Mapping[str, t.Any]], autodetect: str) -> list[str]:
    """Return the lines of gres.conf."""
    lines = [f"AutoDetect={autodetect}"] if autodetect else []
    entries = [
        (node["name"], item["name"], item["type"], item["count"], item["file"])
        for node in nodes
        for item in defined_gres(node)
    ]
    for (name, kind, count, files), members in folded(entries, lambda entry: entry[1:]):
        if autodetect and name == "gpu":
            continue
        words = [f"NodeName={fold(member[0] for member in members)}", f"Name={name}"]
        if kind:
            words.append(f"Type={kind}")
        words.append(f"File={files}" if files else f"Count={count}")
        lines.append(" ".join(words))
    return lines
