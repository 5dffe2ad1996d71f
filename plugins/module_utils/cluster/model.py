# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The cluster model: from facts, variables and the controller's record to one structure.

Pure: no I/O, no Ansible. The schema is documented in plugins/modules/cluster_model.py. The same
inputs give the same model, byte for byte, so that digests of it can decide about restarts.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import typing as t

from ..containers import oci, pyxis
from ..slurm.conf.syntax import restart_parameters
from ..slurm.hostlist import expand, fold, fold_in_order, natural_key
from . import topology

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Settings = dict[str, t.Any]
Pairs = list[list[str]]

RECORD_FORMAT = 1
SERVICE_GROUPS = (
    "slurm_controller",
    "slurm_database",
    "slurm_login",
    "slurm_rest",
    "slurm_compute",
)
# All that is read of another host's variables: each look-up costs, a thousand hosts times.
HOST_VARIABLES = ("slurm_node", "slurm_network_path", "slurm_block", "ansible_host")
# Controllers a node needs for cgroup/v2; devices are limited by eBPF and have no controller there.
CGROUP_CONTROLLERS = ("cpu", "cpuset", "memory")


class Inputs(t.TypedDict):
    """What the action plugin collects; everything build_model and preflight may look at."""

    settings: Settings  # the cluster-wide variables by their own names
    groups: dict[str, list[str]]  # the whole inventory
    hosts_in_run: list[str]  # hosts of this play, reachable or not
    facts: dict[str, dict[str, t.Any]]  # trainwright_node of each host that answered
    host_vars: dict[str, dict[str, t.Any]]  # HOST_VARIABLES of each host of slurm_cluster
    record: dict[str, t.Any]  # the controller's record; {} on a new cluster
    remove: list[str]  # names of nodes to take out
    supported_os: dict[str, dict[str, dict[str, t.Any]]]  # roles/slurm/vars/os.yml
    limit: str  # ansible_limit, "" without one
    variables: list[str]  # names of variables that look like this collection's
    limit_command: str  # the playbook to name in the command that a person should type
    arguments: dict[str, tuple[str, dict[str, t.Any], t.Any]]  # name -> (role, its option, value)


class Model(t.TypedDict):
    """The cluster model; see RETURN of the module cluster_model for what each key holds."""

    cluster: str
    version: list[int]
    version_string: str
    installed_version: str
    install_method: str
    controllers: list[dict[str, str]]
    database: dict[str, t.Any] | None
    login: list[dict[str, t.Any]]
    rest: list[dict[str, str]]
    compute_hosts: list[str]
    client_hosts: list[str]
    hosts: list[dict[str, t.Any]]
    host_keys: list[dict[str, t.Any]]
    sshd_digests: dict[str, str]
    prefix: str
    config_dir: str
    sbin: str
    plugin_dir: str
    state_dir: str
    spool_dir: str
    ports: dict[str, int]
    rest_port: int
    auth_type: str
    slurm_user: dict[str, int]
    sackd: bool
    reconfigure_adds_nodes: bool
    cgroup: dict[str, t.Any]
    nodes: list[dict[str, t.Any]]
    unlisted: list[str]
    new_nodes: list[str]
    removed_nodes: list[str]
    partitions: list[dict[str, t.Any]]
    slurm_conf: Pairs
    node_lines: list[str]
    node_set_lines: list[str]
    partition_lines: list[str]
    gres_lines: list[str]
    topology: dict[str, t.Any]
    cgroup_conf: Pairs
    slurmdbd_conf: Pairs
    plugstack: list[str]
    oci_conf: Pairs
    slurmd_digest: str
    slurmd_digests: dict[str, str]
    record: dict[str, t.Any]
    mounts: list[dict[str, t.Any]]
    users: list[dict[str, t.Any]]
    groups: list[dict[str, t.Any]]
    messages: list[str]


# --- small helpers ------------------------------------------------------------------------------


def digest(value: t.Any) -> str:
    """Return the sha256 of any plain structure, the same for the same content."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def is_address(text: str) -> bool:
    """Tell whether the text is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def short_name(name: str) -> str:
    """Return the host part of a name; an address stays whole."""
    return name if is_address(name) else name.split(".", 1)[0]


def parse_version(text: str) -> tuple[int, int]:
    """Return (24, 11) for "24.11.5-4" and (0, 0) for what holds no Slurm version."""
    match = re.match(r"(?:\d+:)?(\d+)\.(\d+)", text or "")
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


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


def node_name(host: str, host_vars: Mapping[str, t.Any], facts: Mapping[str, t.Any]) -> str:
    """Return the Slurm name of an inventory host."""
    declared = (host_vars.get("slurm_node") or {}).get("name")
    if declared:
        return str(declared)
    if is_address(host) and facts.get("hostname"):
        return short_name(facts["hostname"])
    return short_name(host)


def node_address(
    host: str, name: str, host_vars: Mapping[str, t.Any], facts: Mapping[str, t.Any]
) -> str:
    """Return the address Slurm reaches a host at; its name when nothing better is known."""
    declared = (host_vars.get("slurm_node") or {}).get("address")
    if declared:
        return str(declared)
    reached = str(host_vars.get("ansible_host") or "")
    if is_address(reached) and not ipaddress.ip_address(reached).is_loopback:
        return reached
    addresses = facts.get("addresses") or []
    if addresses:
        return str(addresses[0])
    return host if is_address(host) else name


def _text(value: t.Any) -> str:
    """Return a value as slurm.conf writes it."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(item) for item in value)
    return str(value)


def override(pairs: Pairs, overrides: Mapping[str, t.Any]) -> Pairs:
    """Return the pairs with a person's values; names compare as Slurm does, null takes one out."""
    wanted = {key.lower(): (key, value) for key, value in overrides.items()}
    result = []
    for key, value in pairs:
        if key.lower() not in wanted:
            result.append([key, value])
            continue
        name, new = wanted.pop(key.lower())
        if new is not None:
            result.append([name, _text(new)])
    result.extend([key, _text(value)] for key, value in wanted.values() if value is not None)
    return result


# --- nodes --------------------------------------------------------------------------------------


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
        # What is declared, or what a container may use, is not what the machine reports.
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
    """Return the generic resources of a node: what is declared, else the GPUs found."""
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


def _define_node(inputs: Inputs, host: str, client: bool) -> dict[str, t.Any]:
    """Return the definition of one host that was seen in this run."""
    settings, facts = inputs["settings"], inputs["facts"][host]
    host_vars = inputs["host_vars"].get(host, {})
    declared = host_vars.get("slurm_node") or {}
    name = node_name(host, host_vars, facts)
    memory = declared.get("memory_mb")
    if memory is None:
        memory = real_memory(
            int(facts.get("memory_mb") or 1), int(settings["slurm_memory_percent"])
        )
    cgroup = facts.get("cgroup") or {}
    return {
        "name": name,
        "host": host,
        "address": node_address(host, name, host_vars, facts),
        "hostname": short_name(str(facts.get("hostname") or name)),
        **_topology(declared, facts),
        "real_cpus": int(facts.get("cpus") or 1),
        "memory_mb": max(1, int(memory)),
        "gres": [] if client else _gres(declared.get("gres"), facts),
        "features": [str(feature) for feature in declared.get("features") or []],
        "weight": declared.get("weight"),
        "options": {
            str(key): _text(value) for key, value in (declared.get("options") or {}).items()
        },
        "client": client,
        "network_path": list(topology.path_of(host_vars.get("slurm_network_path"))),
        "block": str(host_vars.get("slurm_block") or ""),
        "cgroup": {
            "mode": str(cgroup.get("mode") or ""),
            "controllers": sorted(cgroup.get("controllers") or []),
        },
        "groups": [],  # filled by merge_nodes, for all hosts at once
    }


def merge_nodes(
    inputs: Inputs, clients: Sequence[str], messages: list[str]
) -> tuple[list[dict[str, t.Any]], list[str]]:
    """Merge the record with what this run saw. Returns (nodes in order, names that are new)."""
    nodes: dict[str, dict[str, t.Any]] = {
        name: dict(node)
        for name, node in (inputs["record"].get("nodes") or {}).items()
        if name not in inputs["remove"]
    }
    known = set(nodes)
    compute = inputs["groups"].get("slurm_compute", [])
    client_set = set(clients)
    # A login host that needs no slurmd any more (sackd came with an upgrade) is no node any more.
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
        if host not in inputs["facts"]:
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
        node = _define_node(inputs, host, host in client_set)
        if node["name"] in inputs["remove"]:
            continue
        old = by_host.get(host)
        if old is not None and old != node["name"]:
            nodes.pop(old, None)
            messages.append(f"{host}: the node {old} is now called {node['name']}")
        nodes[node["name"]] = node
    listed = {*compute, *clients}
    member_of: dict[str, list[str]] = {}
    for group, members in inputs["groups"].items():
        if group not in ("all", "ungrouped"):
            for member in members:
                member_of.setdefault(member, []).append(group)
    for node in nodes.values():
        node["listed"] = node.get("host") in listed
        if node["listed"]:  # the inventory may have moved a host that this run did not visit
            node["groups"] = sorted(member_of.get(node["host"], node.get("groups") or []))
    ordered = [nodes[name] for name in sorted(nodes, key=natural_key)]
    return ordered, [node["name"] for node in ordered if node["name"] not in known]


def places(nodes: Sequence[Mapping[str, t.Any]]) -> dict[str, topology.Place]:
    """Return where each compute node is, by its name."""
    return {
        node["name"]: topology.Place(
            topology.path_of(node.get("network_path")), str(node.get("block") or "")
        )
        for node in nodes
        if not node["client"]
    }


def gres_text(node: Mapping[str, t.Any]) -> str:
    """Return Gres of a node line: ``gpu:h100:8``."""
    return ",".join(
        ":".join(part for part in (item["name"], item["type"], str(item["count"])) if part)
        for item in node["gres"]
    )


def _folded(
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
        if node["gres"]:
            words.append(f"Gres={gres_text(node)}")
        if node["features"]:
            words.append(f"Features={','.join(node['features'])}")
        if node["weight"] is not None:
            words.append(f"Weight={node['weight']}")
        words.extend(f"{key}={value}" for key, value in node["options"].items())
        return " ".join(words)

    def key(node: Mapping[str, t.Any]) -> tuple[str, bool, bool]:
        return definition(node), node["address"] != node["name"], node["hostname"] != node["name"]

    lines = []
    for (text, addressed, renamed), members in _folded(nodes, key):
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
        for item in node["gres"]
    ]
    for (name, kind, count, files), members in _folded(entries, lambda entry: entry[1:]):
        if autodetect and name == "gpu":
            continue
        words = [f"NodeName={fold(member[0] for member in members)}", f"Name={name}"]
        if kind:
            words.append(f"Type={kind}")
        words.append(f"File={files}" if files else f"Count={count}")
        lines.append(" ".join(words))
    return lines


# --- partitions ---------------------------------------------------------------------------------


def nodes_of(spec: Mapping[str, t.Any], nodes: Sequence[Mapping[str, t.Any]]) -> list[str]:
    """Return the names of the known compute nodes that ``groups`` and ``nodes`` of spec mean."""
    groups = set(spec.get("groups") or [])
    named = set(expand(spec["nodes"])) if spec.get("nodes") else set()
    return [
        node["name"]
        for node in nodes
        if not node["client"]
        and (node["name"] in named or groups.intersection(node.get("groups") or []))
    ]


def partition_specs(settings: Settings) -> list[dict[str, t.Any]]:
    """Return the partitions that are asked for; one of all compute nodes when none are."""
    given = settings.get("slurm_partitions") or []
    if not given:
        return [{"name": "batch", "groups": ["slurm_compute"], "default": True, "options": {}}]
    specs = [dict(item) for item in given]
    if len(specs) == 1:
        specs[0].setdefault("default", True)
    return specs


def _partitions(settings: Settings, nodes: Sequence[Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    partitions = []
    for spec in partition_specs(settings):
        members = nodes_of(spec, nodes)
        partitions.append(
            {
                "name": str(spec["name"]),
                "nodes": ",".join(
                    part for part in (fold(members), ",".join(spec.get("node_sets") or [])) if part
                ),
                "default": bool(spec.get("default", False)),
                "options": {
                    str(key): _text(value) for key, value in (spec.get("options") or {}).items()
                },
            }
        )
    return partitions


def _partition_lines(partitions: Sequence[Mapping[str, t.Any]]) -> list[str]:
    lines = []
    for partition in partitions:
        if not partition["nodes"]:
            continue
        given = {key.lower() for key in partition["options"]}
        words = [f"PartitionName={partition['name']}", f"Nodes={partition['nodes']}"]
        words.append(f"Default={'YES' if partition['default'] else 'NO'}")
        if "maxtime" not in given:
            words.append("MaxTime=INFINITE")
        if "state" not in given:
            words.append("State=UP")
        words.extend(f"{key}={value}" for key, value in partition["options"].items())
        lines.append(" ".join(words))
    return lines


def _node_set_lines(settings: Settings, nodes: Sequence[Mapping[str, t.Any]]) -> list[str]:
    lines = []
    for spec in settings.get("slurm_node_sets") or []:
        words = [f"NodeSet={spec['name']}"]
        if spec.get("feature"):
            words.append(f"Feature={spec['feature']}")
        members = fold(nodes_of(spec, nodes))
        if members:
            words.append(f"Nodes={members}")
        if len(words) > 1:
            lines.append(" ".join(words))
    return lines


# --- choices that follow from the nodes ---------------------------------------------------------


def choose_cgroup(
    nodes: Sequence[Mapping[str, t.Any]], version: tuple[int, int]
) -> dict[str, t.Any]:
    """Choose how slurmd confines jobs, by what every node that runs slurmd can do.

    Hybrid cgroups stop slurmd ("Hybrid mode is not supported"). ``CgroupPlugin=disabled`` came with
    24.05 (cgroup.conf(5)); before, cgroup/v1 with no plugin that uses it lets slurmd start.
    """
    unable = []
    for node in nodes:
        cgroup = node.get("cgroup") or {}
        missing = [
            name for name in CGROUP_CONTROLLERS if name not in (cgroup.get("controllers") or [])
        ]
        if cgroup.get("mode") != "v2":
            unable.append(
                (node["name"], f"has {cgroup.get('mode') or 'unknown'} cgroups, not pure v2")
            )
        elif missing:
            unable.append((node["name"], f"lacks the cgroup controllers {', '.join(missing)}"))
    if not unable and version >= (22, 5):
        plugin, why = "cgroup/v2", "every node has pure cgroup v2"
    else:
        plugin = "disabled" if version >= (24, 5) else "cgroup/v1"
        why = (
            "; ".join(
                f"{fold(member[0] for member in members)} {reason}"
                for reason, members in _folded(unable, lambda item: item[1])
            )
            or f"Slurm {version[0]}.{version[1]:02d} has no cgroup/v2"
        )
    constrain = plugin == "cgroup/v2"
    overridden = [
        node["name"] for node in nodes if node["cpus"] > node.get("real_cpus", node["cpus"])
    ]
    old = not constrain and version < (24, 5)
    if overridden or old:
        task = "task/none"
    else:
        task = "task/affinity,task/cgroup" if constrain else "task/affinity"
    return {
        "plugin": plugin,
        "constrain": constrain and not overridden,
        "why": why,
        "proctrack": "proctrack/cgroup" if constrain else "proctrack/linuxproc",
        "task": task,
        "jobacct": "jobacct_gather/cgroup"
        if constrain
        else "jobacct_gather/none"
        if old
        else "jobacct_gather/linux",
        "overridden": overridden,
    }


def choose_topology(
    settings: Settings, nodes: Sequence[Mapping[str, t.Any]], version: tuple[int, int]
) -> tuple[dict[str, t.Any], list[str]]:
    """Return (topology of the model, what to say of it). Raises topology.TopologyError."""
    made = topology.design(settings.get("slurm_topology") or {}, places(nodes), version)
    given = {str(key).lower() for key in settings.get("slurm_conf") or {}}
    chosen: dict[str, t.Any] = {
        "plugin": made.plugin if made else "none",
        "file": topology.file_name(version) if made else "",
        "lines": topology.lines(made, version) if made else [],
        # Who sets the plugin by hand has files of his own.
        "managed": "topologyplugin" not in given,
        "unplaced": list(made.unplaced) if made else [],
        "left_out": list(made.left_out) if made else [],
    }
    return chosen, topology.notes(made, version) if made else []


def default_memory(nodes: Sequence[Mapping[str, t.Any]]) -> tuple[int, int]:
    """Return (DefMemPerCPU, DefMemPerGPU) in MB with which a full node never lacks memory.

    A job without --mem would else get the whole node and nobody could share it. Both may be set:
    a job that asks for GPUs gets DefMemPerGPU, the others DefMemPerCPU (cons_tres, job_test.c:
    "memory set via GRES limit").
    """
    workers = [node for node in nodes if not node["client"]]
    per_cpu = min((node["memory_mb"] // max(1, node["cpus"]) for node in workers), default=0)
    per_gpu = min(
        (
            node["memory_mb"] // gpus
            for node in workers
            if (gpus := sum(item["count"] for item in node["gres"] if item["name"] == "gpu"))
        ),
        default=0,
    )
    return per_cpu, per_gpu


def choose_version(inputs: Inputs, controllers: Sequence[str]) -> tuple[str, str]:
    """Return (the version this cluster runs after the run, the installed one or "")."""
    settings, facts = inputs["settings"], inputs["facts"]
    seen = [facts[host] for host in controllers if host in facts]
    others = [facts[host] for host in sorted(facts)]
    installed = next(
        (node["slurm"]["version"] for node in seen if (node.get("slurm") or {}).get("version")), ""
    )
    if installed:
        return installed, installed
    # A controller that this run does not see is described by what it recorded.
    if not seen and inputs["record"].get("slurm_version"):
        return str(inputs["record"]["slurm_version"]), ""
    distribution = settings["slurm_install_method"] == "distribution"
    if settings.get("slurm_version") and not distribution:
        return str(settings["slurm_version"]), ""
    if distribution:
        for node in seen + others:
            candidate = str((node.get("slurm") or {}).get("candidate") or "")
            if parse_version(candidate) != (0, 0):
                return candidate, ""
            row = os_row(inputs["supported_os"], node.get("os") or {})
            if row and row.get("slurm"):
                return str(row["slurm"]), ""
    return str(inputs["record"].get("slurm_version") or ""), ""


def os_row(supported: Mapping[str, t.Any], system: Mapping[str, t.Any]) -> dict[str, t.Any] | None:
    """Return the row of an operating system in the table of supported ones, None without one."""
    rows = supported.get(str(system.get("id"))) or {}
    version = str(system.get("version") or "")
    row = rows.get(version) or rows.get(version.split(".", 1)[0])
    return t.cast("dict[str, t.Any] | None", row)


def _slurm_conf(model: Model, inputs: Inputs, pmix: bool) -> Pairs:
    """Return the settings of slurm.conf in the order they are written."""
    settings, cgroup = inputs["settings"], model["cgroup"]
    gres = sorted({item["name"] for node in model["nodes"] for item in node["gres"]})
    types = sorted(
        {item["type"] for node in model["nodes"] for item in node["gres"] if item["name"] == "gpu"}
        - {""}
    )
    per_cpu, per_gpu = default_memory(model["nodes"])
    ports = model["ports"]
    pairs: Pairs = [["ClusterName", model["cluster"]]]
    pairs += [
        ["SlurmctldHost", f"{host['name']}({host['address']})"] for host in model["controllers"]
    ]
    pairs += [
        ["SlurmUser", "slurm"],
        ["AuthType", f"auth/{model['auth_type']}"],
        ["CredType", f"cred/{model['auth_type']}"],
        ["AuthAltTypes", "auth/jwt"],
        ["AuthAltParameters", f"jwt_key={model['config_dir']}/jwt_hs256.key"],
        ["SlurmctldPort", str(ports["slurmctld"])],
        ["SlurmdPort", str(ports["slurmd"])],
        ["SrunPortRange", str(settings["slurm_srun_port_range"])],
        ["SlurmctldParameters", "enable_configless"],
    ]
    if cgroup["overridden"]:
        # More CPUs are declared than are there: only ever for trying things out.
        pairs.append(["SlurmdParameters", "config_overrides"])
    pairs += [
        ["StateSaveLocation", model["state_dir"]],
        ["SlurmdSpoolDir", model["spool_dir"]],
        ["SlurmctldPidFile", "/run/slurmctld.pid"],
        ["SlurmdPidFile", "/run/slurmd.pid"],
        ["SlurmctldLogFile", "/var/log/slurm/slurmctld.log"],
        ["SlurmdLogFile", "/var/log/slurm/slurmd.log"],
        ["SlurmctldDebug", "info"],
        ["SlurmdDebug", "info"],
        # A rebooted or restarted node takes jobs again by itself if it registers what is declared;
        # what was drained stays drained.
        ["ReturnToService", "2"],
        ["RebootProgram", "/sbin/reboot"],
        ["ProctrackType", cgroup["proctrack"]],
        ["TaskPlugin", cgroup["task"]],
        # Contain makes the job's step that pam_slurm_adopt puts SSH sessions into.
        ["PrologFlags", "Alloc,Contain"],
        ["LaunchParameters", "use_interactive_step"],
        ["MpiDefault", "pmix" if pmix else "none"],
        ["SlurmctldTimeout", "120"],
        ["SlurmdTimeout", "300"],
        ["MessageTimeout", "30"],
        ["TCPTimeout", "10"],
        # At least five times MessageTimeout, or nodes drain over steps that only end slowly.
        ["UnkillableStepTimeout", "180"],
        ["BatchStartTimeout", "180"],
        ["KillWait", "30"],
        ["InactiveLimit", "0"],
        ["MinJobAge", "300"],
        ["MaxJobCount", "50000"],
        ["MaxArraySize", "10001"],
        ["JobRequeue", "1"],
        ["SchedulerType", "sched/backfill"],
        [
            "SchedulerParameters",
            "bf_continue,bf_interval=30,bf_max_job_test=1000,bf_resolution=180,bf_window=4320",
        ],
        ["SelectType", "select/cons_tres"],
        ["SelectTypeParameters", "CR_Core_Memory"],
    ]
    if model["topology"]["file"] == "topology.conf":
        # topology.yaml says itself which plugin reads it.
        pairs.append(["TopologyPlugin", f"topology/{model['topology']['plugin']}"])
    pairs += [
        ["PriorityType", "priority/multifactor"],
        ["PriorityDecayHalfLife", "7-0"],
        ["PriorityMaxAge", "7-0"],
        ["PriorityWeightFairshare", "10000"],
        ["PriorityWeightQOS", "10000"],
        ["PriorityWeightPartition", "1000"],
        ["PriorityWeightAge", "1000"],
        ["PriorityWeightJobSize", "1000"],
        ["PreemptType", "preempt/partition_prio"],
        ["PreemptMode", "REQUEUE"],
    ]
    if per_cpu:
        pairs.append(["DefMemPerCPU", str(per_cpu)])
    if per_gpu:
        pairs.append(["DefMemPerGPU", str(per_gpu)])
    if gres:
        pairs.append(["GresTypes", ",".join(gres)])
    pairs += [["JobAcctGatherType", cgroup["jobacct"]]]
    if cgroup["jobacct"] != "jobacct_gather/none":
        pairs += [["JobAcctGatherFrequency", "30"]]
    if model["database"]:
        pairs += [
            ["AccountingStorageType", "accounting_storage/slurmdbd"],
            ["AccountingStorageHost", model["database"]["address"]],
            ["AccountingStoragePort", str(ports["slurmdbd"])],
            ["AccountingStorageEnforce", "associations,limits,qos"],
        ]
        if "gpu" in gres:
            pairs.append(
                [
                    "AccountingStorageTRES",
                    ",".join(["gres/gpu", *(f"gres/gpu:{kind}" for kind in types)]),
                ]
            )
    return override(pairs, settings.get("slurm_conf") or {})


def _slurmdbd_conf(model: Model, inputs: Inputs) -> Pairs:
    database = model["database"]
    if not database:
        return []
    settings = inputs["settings"]
    storage = settings.get("mariadb_external") or {}
    user = storage.get("user") or settings.get("mariadb_user") or "slurm"
    name = storage.get("database") or settings.get("mariadb_database") or "slurm_acct_db"
    return [
        ["AuthType", f"auth/{model['auth_type']}"],
        ["AuthAltTypes", "auth/jwt"],
        ["AuthAltParameters", f"jwt_key={model['config_dir']}/jwt_hs256.key"],
        ["DbdHost", database["name"]],
        ["DbdAddr", database["address"]],
        ["DbdPort", str(model["ports"]["slurmdbd"])],
        ["SlurmUser", "slurm"],
        ["StorageType", "accounting_storage/mysql"],
        ["StorageHost", str(storage.get("host") or "localhost")],
        ["StoragePort", str(storage.get("port") or 3306)],
        ["StorageUser", str(user)],
        ["StorageLoc", str(name)],
        ["LogFile", "/var/log/slurm/slurmdbd.log"],
        ["PidFile", "/run/slurmdbd.pid"],
        ["DebugLevel", "info"],
        # Jobs are kept for two years; events and steps, which are many, for one.
        ["PurgeEventAfter", "12months"],
        ["PurgeJobAfter", "24months"],
        ["PurgeResvAfter", "24months"],
        ["PurgeStepAfter", "12months"],
        ["PurgeSuspendAfter", "12months"],
    ]


def _cgroup_conf(model: Model, settings: Settings) -> Pairs:
    cgroup = model["cgroup"]
    pairs: Pairs = [["CgroupPlugin", cgroup["plugin"]]]
    if cgroup["constrain"]:
        pairs += [
            ["ConstrainCores", "yes"],
            ["ConstrainRAMSpace", "yes"],
            ["ConstrainDevices", "yes"],
        ]
    return override(pairs, settings.get("slurm_cgroup_conf") or {})


# --- storage and users --------------------------------------------------------------------------


def normalise_mounts(mounts: Sequence[Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return cluster_mounts with every key present; parents come before what is mounted in them."""
    result = []
    for mount in mounts:
        options = mount.get("options") or "defaults"
        result.append(
            {
                "path": str(mount["path"]).rstrip("/") or "/",
                "source": str(mount.get("source") or ""),
                "fstype": str(mount.get("fstype") or "nfs"),
                "options": _text(options),
                "purpose": mount.get("purpose") or "",
                "directories": [
                    {
                        "path": str(item["path"]),
                        "owner": item.get("owner", "root"),
                        "group": item.get("group", "root"),
                        "mode": str(item.get("mode", "0755")),
                    }
                    for item in mount.get("directories") or []
                ],
            }
        )
    return sorted(result, key=lambda mount: mount["path"])


def normalise_users(
    users: Sequence[Mapping[str, t.Any]], groups: Sequence[Mapping[str, t.Any]]
) -> tuple[list[dict[str, t.Any]], list[dict[str, t.Any]]]:
    """Return (users, groups), complete. A user without a gid gets a group of its own."""
    all_groups = {str(group["name"]): int(group["gid"]) for group in groups}
    result = []
    for user in users:
        name, uid = str(user["name"]), int(user["uid"])
        gid = int(user.get("gid") or uid)
        if gid not in all_groups.values():
            all_groups[name] = gid
        result.append(
            {
                "name": name,
                "uid": uid,
                "gid": gid,
                "groups": [str(group) for group in user.get("groups") or []],
                "shell": str(user.get("shell") or "/bin/bash"),
                "home": str(user.get("home") or f"/home/{name}"),
                "ssh_authorized_keys": [str(key) for key in user.get("ssh_authorized_keys") or []],
                "state": str(user.get("state") or "present"),
            }
        )
    return result, [{"name": name, "gid": gid} for name, gid in sorted(all_groups.items())]


# --- the whole ----------------------------------------------------------------------------------


def _host_entry(inputs: Inputs, host: str) -> dict[str, str]:
    """Return {host, name, address}; of a host that was not seen, from the record if it is there."""
    recorded = (inputs["record"].get("hosts") or {}).get(host)
    if recorded and host not in inputs["facts"]:
        return {"host": host, "name": recorded["name"], "address": recorded["address"]}
    facts, host_vars = inputs["facts"].get(host, {}), inputs["host_vars"].get(host, {})
    name = node_name(host, host_vars, facts)
    return {"host": host, "name": name, "address": node_address(host, name, host_vars, facts)}


def _service_hosts(inputs: Inputs, group: str) -> list[dict[str, str]]:
    """Return the hosts of a service. Daemons compare their own host name, so that is their name."""
    entries = []
    for host in inputs["groups"].get(group, []):
        entry = _host_entry(inputs, host)
        hostname = inputs["facts"].get(host, {}).get("hostname")
        if hostname:
            entry["name"] = short_name(str(hostname))
        entries.append(entry)
    return entries


def build_model(inputs: Inputs) -> Model:
    """Build the cluster model. Inputs are taken to be valid in type; preflight judges the rest.

    Raises HostlistError when ClusterShell is missing or a host list cannot be read.
    """
    settings, groups, facts = inputs["settings"], inputs["groups"], inputs["facts"]
    messages: list[str] = []
    controllers = _service_hosts(inputs, "slurm_controller")
    controller_hosts = [entry["host"] for entry in controllers]
    version_string, installed = choose_version(inputs, controller_hosts)
    version = parse_version(version_string)
    sackd = version >= (23, 11)
    compute = groups.get("slurm_compute", [])
    # A controller has slurm.conf itself and a compute node has slurmd: neither needs a client.
    client_hosts = (
        []
        if sackd
        else [
            host
            for host in groups.get("slurm_login", [])
            if host not in compute and host not in controller_hosts
        ]
    )
    nodes, new_nodes = merge_nodes(inputs, client_hosts, messages)
    lead = next(
        (facts[host] for host in controller_hosts if host in facts), next(iter(facts.values()), {})
    )
    slurm = lead.get("slurm") or {}
    database = next(iter(_service_hosts(inputs, "slurm_database")), None)
    users, user_groups = normalise_users(
        settings.get("cluster_users") or [], settings.get("cluster_groups") or []
    )
    cgroup = choose_cgroup(nodes, version)
    if nodes and cgroup["plugin"] != "cgroup/v2":
        messages.append(
            f"jobs are not confined by cgroups (CgroupPlugin={cgroup['plugin']}): {cgroup['why']}"
        )
    if cgroup["overridden"]:
        messages.append(
            f"{fold(cgroup['overridden'])}: more CPUs are declared than the machine has, so jobs are"
            " not bound to cores anywhere (TaskPlugin=task/none, config_overrides); for tests only"
        )
    wanted = str(settings.get("slurm_version") or "")
    if installed and wanted and parse_version(wanted) != parse_version(installed):
        messages.append(
            f"Slurm {installed} is installed and stays; slurm_version {wanted} takes an upgrade"
        )
    elif wanted and version != (0, 0) and parse_version(wanted) != version:
        messages.append(
            f"slurm_version {wanted} is not what the distribution has; Slurm {version_string} is"
            " installed (slurm_install_method repository or source gives another)"
        )
    network, said = choose_topology(settings, nodes, version)
    messages += said
    unlisted = [node["name"] for node in nodes if not node["listed"]]
    if unlisted:
        messages.append(
            f"{fold(unlisted)}: in the record but not in the inventory; kept until removed by name"
        )

    rows = [
        os_row(inputs["supported_os"], facts[host].get("os") or {}) or {} for host in sorted(facts)
    ]
    pmix = (
        # What a person's own repository was built with is unknown.
        bool(rows)
        and settings["slurm_install_method"] in ("distribution", "source")
        and all(row.get("pmix") for row in rows)
    )
    without = sorted(
        host
        for host, row in facts.items()
        if (row.get("slurm") or {}).get("mpi")
        and not any(name.startswith("pmix") for name in row["slurm"]["mpi"])
    )
    if pmix and without:
        # Debian's packages of 26.05, for instance; `srun --mpi=pmix` would fail there.
        pmix = False
        messages.append(f"MpiDefault is none: {fold(without)} has a Slurm without mpi/pmix")
    if not facts or not any(host in facts for host in [*compute, *controller_hosts]):
        pmix = bool((inputs["record"].get("choices") or {}).get("pmix"))

    model: Model = {
        "cluster": str(settings["slurm_cluster_name"]),
        "version": list(version),
        "version_string": f"{version[0]}.{version[1]:02d}",
        "installed_version": installed,
        "install_method": str(settings["slurm_install_method"]),
        "controllers": controllers,
        "database": {**database, "external": bool(settings.get("mariadb_external"))}
        if database
        else None,
        "login": [
            {**entry, "client": entry["host"] in client_hosts}
            for entry in _service_hosts(inputs, "slurm_login")
        ],
        "rest": _service_hosts(inputs, "slurm_rest"),
        "compute_hosts": [host for host in compute if host in facts],
        "client_hosts": [host for host in client_hosts if host in facts],
        "hosts": [],
        "host_keys": [],
        "sshd_digests": {},
        "prefix": str(slurm.get("prefix") or "/usr"),
        "config_dir": str(slurm.get("config_dir") or "/etc/slurm"),
        "sbin": str(slurm.get("sbin") or "/usr/sbin"),
        "plugin_dir": str(slurm.get("plugin_dir") or ""),
        "state_dir": str(settings["slurm_state_save_location"]),
        "spool_dir": str(settings["slurm_spool_dir"]),
        "ports": {key: int(value) for key, value in settings["slurm_ports"].items()},
        "rest_port": int(settings.get("slurm_rest_port") or 0),
        "auth_type": str(settings["slurm_auth_type"]),
        "slurm_user": {
            "uid": int(settings["slurm_user_uid"]),
            "gid": int(settings["slurm_user_gid"]),
        },
        "sackd": sackd,
        "reconfigure_adds_nodes": version >= (23, 11),
        "cgroup": cgroup,
        "nodes": nodes,
        "unlisted": unlisted,
        "new_nodes": new_nodes,
        "removed_nodes": [
            name for name in inputs["remove"] if name in (inputs["record"].get("nodes") or {})
        ],
        "partitions": _partitions(settings, nodes),
        "slurm_conf": [],
        "node_lines": node_lines(nodes),
        "node_set_lines": _node_set_lines(settings, nodes),
        "partition_lines": [],
        "gres_lines": gres_lines(nodes, str(settings.get("slurm_gres_autodetect") or "")),
        "topology": network,
        "cgroup_conf": [],
        "slurmdbd_conf": [],
        "plugstack": _plugstack(settings, inputs),
        "oci_conf": oci.pairs(version, settings.get("oci_conf") or {})
        if inputs["groups"].get("slurm_oci")
        else [],
        "slurmd_digest": "",
        "slurmd_digests": {},
        "record": {},
        "mounts": normalise_mounts(settings.get("cluster_mounts") or []),
        "users": users,
        "groups": user_groups,
        "messages": messages,
    }
    model["partition_lines"] = _partition_lines(model["partitions"])
    model["slurm_conf"] = _slurm_conf(model, inputs, pmix)
    model["cgroup_conf"] = _cgroup_conf(model, settings)
    model["slurmdbd_conf"] = _slurmdbd_conf(model, inputs)
    _add_hosts(model, inputs)
    _add_digests(model)
    model["record"] = _record(model, inputs, pmix)
    return model


def _plugstack(settings: Settings, inputs: Inputs) -> list[str]:
    """Lines of plugstack.conf. They stand in it themselves: configless hands out no file that it includes by path."""
    lines = [str(line) for line in settings.get("slurm_plugstack") or []]
    if inputs["groups"].get("slurm_pyxis"):
        version = str(settings.get("pyxis_version") or pyxis.VERSION)
        lines.append(pyxis.plugstack_line(version, settings.get("pyxis_options") or {}))
    return lines


def _add_hosts(model: Model, inputs: Inputs) -> None:
    """Add what /etc/hosts and the host certificates need, of every host that is known."""
    entries: dict[str, dict[str, str]] = {}
    for host in sorted(
        {host for group in SERVICE_GROUPS for host in inputs["groups"].get(group, [])},
        key=natural_key,
    ):
        entries[host] = _host_entry(inputs, host)
    for node in model["nodes"]:  # nodes of the record that the inventory does not list
        entries.setdefault(
            node["host"] or node["name"],
            {
                "host": node["host"] or node["name"],
                "name": node["name"],
                "address": node["address"],
            },
        )
    for host, entry in entries.items():
        facts = inputs["facts"].get(host, {})
        candidates = [
            entry["name"],
            str(facts.get("hostname") or ""),
            str(facts.get("fqdn") or ""),
            host,
        ]
        names = [name for name in dict.fromkeys(candidates) if name and not is_address(name)]
        if is_address(entry["address"]):
            model["hosts"].append({"host": host, "address": entry["address"], "names": names})
        key = str(facts.get("ssh_host_key") or "")
        if key:
            addresses = [entry["address"]] if is_address(entry["address"]) else []
            principals = list(
                dict.fromkeys([*names, *addresses, *map(str, facts.get("addresses") or [])])
            )
            model["host_keys"].append({"name": host, "key": key, "principals": principals})
            model["sshd_digests"][host] = digest([key, principals])


def _add_digests(model: Model) -> None:
    """Add the digests that decide whether slurmd is restarted: of all nodes, and of each one."""
    wanted = {name.lower() for name in restart_parameters("slurmd", model["version_string"])}
    scalars = sorted(
        [key.lower(), value] for key, value in model["slurm_conf"] if key.lower() in wanted
    )
    model["slurmd_digest"] = digest([scalars, model["cgroup_conf"]])
    autodetect = [line for line in model["gres_lines"] if line.startswith("AutoDetect=")]
    for node in model["nodes"]:
        own = [node["name"], node["gres"], autodetect]
        if not model["reconfigure_adds_nodes"]:
            # Before 23.11 a running slurmd keeps the node definition that it started with.
            own += [
                node[key]
                for key in ("cpus", "sockets", "cores_per_socket", "threads_per_core", "memory_mb")
            ]
        model["slurmd_digests"][node["host"]] = digest([model["slurmd_digest"], own])


def _record(model: Model, inputs: Inputs, pmix: bool) -> dict[str, t.Any]:
    """Return the record for the controllers: what a run that sees only some hosts has to know."""
    hosts = {
        host: entry
        for host, entry in (inputs["record"].get("hosts") or {}).items()
        if any(host in inputs["groups"].get(group, []) for group in SERVICE_GROUPS)
    }
    for entry in [*model["controllers"], *model["login"], *model["rest"]] + (
        [model["database"]] if model["database"] else []
    ):
        if entry["host"] in inputs["facts"]:
            hosts[entry["host"]] = {"name": entry["name"], "address": entry["address"]}
    return {
        "format": RECORD_FORMAT,
        "cluster": model["cluster"],
        "slurm_version": model["version_string"],
        "choices": {"pmix": pmix},
        "hosts": hosts,
        "nodes": {
            node["name"]: {key: value for key, value in node.items() if key != "listed"}
            for node in model["nodes"]
        },
    }
