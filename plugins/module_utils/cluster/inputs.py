# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The input of the cluster model, how it is read, and the form of a problem. Pure.

The model and the checks of preflight both read the inputs with the functions of this file.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import typing as t

from ansible.module_utils.parsing.convert_bool import boolean

from ..node.names import natural_key
from ..node.network import LOCAL_NAMES
from ..node.terminal import escaped_line
from ..slurm.hostlist import fold
from ..slurm.releases import major_minor

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Check = Callable[["Inputs"], Iterator["Problem"]]

Settings = dict[str, t.Any]

SERVICE_GROUPS = (
    "slurm_controller",
    "slurm_database",
    "slurm_login",
    "slurm_rest",
    "slurm_compute",
)
# All that is read of another host's variables: each look-up costs, a thousand hosts times.
HOST_VARIABLES = ("slurm_node", "slurm_network_path", "slurm_block", "gpu_stack")
# The same, read of the hosts of slurm_nfs_server only.
SERVER_VARIABLES = ("nfs_server_exports",)
# The same, read of the hosts of slurm_login only: their sshd, how Ansible comes to it, and the cluster that they use.
# One that needs a fact of its host is left to its role.
LOGIN_VARIABLES = (
    "slurm_login_conf",
    "ansible_connection",
    "ansible_port",
    "slurm_login_controllers",
)
# Settings of the GPU and EFA software that are one for the cluster. A run reads those of the first controller, and
# roles the host's own, so preflight compares them.
STACK_VARIABLES = (
    "efa_version",
    "gpu_stack_nccl_tests",
    "gpu_stack_release",
    "gpu_stack_releases",
    "gpu_stack_versions",
    "nvidia_driver_runfile_options",
    "nvidia_driver_runfile_sha256",
    "nvidia_driver_runfile_url",
    "nvidia_driver_source",
)
# Those that the roles read of each host: a host may have another value, which is checked as that of all.
STACK_OF_HOST = (
    "aws_ofi_nccl_configure",
    "aws_ofi_nccl_cuda",
    "aws_ofi_nccl_libfabric",
    "aws_ofi_nccl_sha256",
    "aws_ofi_nccl_source",
    "aws_ofi_nccl_version",
    "efa_conf",
    "efa_downgrade",
    "efa_installer_options",
    "efa_kernel_module",
    "efa_key_fingerprint",
    "efa_key_url",
    "efa_remove_distribution_mpi",
    "efa_sha256",
    "efa_signature",
    "efa_timeout",
    "gpu_stack_repository",
    "nvidia_driver_conf",
    "nvidia_driver_packages",
    "nvidia_driver_runfile_timeout",
)
# Those that no role declares: Ansible's own, and what the AWS inventory knows of the machine.
INVENTORY_VARIABLES = ("ansible_host", "ec2_instance_type", "ec2_efa_interfaces")
# The types that the AWS inventory read from EC2, of the whole inventory.
INVENTORY_SETTINGS = ("ec2_machine_types",)
# Variables of other roles that the cluster model reads, besides all of its own role's.
FROM_OTHER_ROLES = (
    "cluster_users_munge_gid",
    "cluster_users_slurmrestd_gid",
    "cluster_users_source",
    "enroot_cache_days",
    "gpu_stack_nccl_tests",
    "gpu_stack_release",
    "gpu_stack_releases",
    "gpu_stack_repository",
    "gpu_stack_versions",
    "job_hooks_cpu_governor",
    "job_hooks_dcgm_directory",
    "job_hooks_drop_page_cache",
    "job_hooks_end_processes",
    "job_hooks_enroot",
    "job_hooks_gpu",
    "job_hooks_mig",
    "job_hooks_mode",
    "job_hooks_mps",
    "job_hooks_parts",
    "job_hooks_policies",
    "login_access_allow_groups",
    "login_access_allow_users",
    "login_access_from",
    "login_access_open",
    "lustre_client_repository",
    "lustre_client_repository_parts",
    "mariadb_database",
    "mariadb_external",
    "mariadb_user",
    "nfs_server_threads",
    "nfs_server_versions",
    "node_base_sysctl",
    "node_health_agent_interval",
    "node_health_cap_percent",
    "node_health_checks",
    "node_health_conf",
    "node_health_heartbeat",
    "node_health_interval",
    "node_health_nhc_conf",
    "node_health_replace_command",
    "node_health_versions",
    "node_tuning_cpu_governor",
    "node_tuning_hugepages",
    "node_tuning_kernel_arguments",
    "node_tuning_profile",
    "node_tuning_sysctl",
    "node_tuning_transparent_hugepages",
    "nvidia_driver_runfile_options",
    "nvidia_driver_runfile_sha256",
    "nvidia_driver_runfile_url",
    "nvidia_driver_source",
    "oci_conf",
    "pam_slurm_adopt_allow_groups",
    "pam_slurm_adopt_allow_users",
    "pyxis_options",
    "pyxis_version",
    "shared_storage_tree",
    "shared_storage_tree_group",
    "slurm_auth_certificate_days",
    "slurm_auth_secrets_directory",
    "slurm_extra_packages",
    "slurm_repository",
    "slurmdbd_conf",
)
# The host of a problem that does not belong to one host.
INVENTORY = "inventory"
CLUSTER = "cluster"


class Inputs(t.TypedDict):
    """Everything that build_model and the checks may look at; the action plugin collects it."""

    settings: Settings  # the cluster-wide variables by their own names
    groups: dict[str, list[str]]  # the whole inventory
    hosts_in_run: list[str]  # hosts of this play, reachable or not
    facts: dict[str, dict[str, t.Any]]  # node_facts of each host that answered
    host_vars: dict[str, dict[str, t.Any]]  # HOST_, SERVER_, LOGIN_, INVENTORY_VARIABLES of hosts
    differing: dict[
        str, dict[str, t.Any]
    ]  # STACK_VARIABLES and STACK_OF_HOST of hosts, unlike the first controller's
    record: dict[str, t.Any]  # the controller's record; {} on a new cluster
    record_digest: str  # SHA-256 of its text; "" on a new cluster
    remove: list[str]  # names of nodes to remove
    supported_os: dict[str, dict[str, dict[str, t.Any]]]  # id -> version -> Slurm
    limit: str  # ansible_limit, "" without one
    variables: list[str]  # names of variables that look like this collection's
    command: str  # the ansible-playbook command of this run, without --limit
    arguments: dict[str, dict[str, t.Any]]  # the settings and HOST_VARIABLES as specs declare them


class Problem(t.NamedTuple):
    """One reason to refuse: where, which variable, what is wrong, what to write instead."""

    host: str
    variable: str
    what: str
    remedy: str

    def __str__(self) -> str:
        # A name with a line break is not a problem of its own.
        return escaped_line(f"{self.host}: {self.variable}: {self.what} -> {self.remedy}")


def is_address(text: str) -> bool:
    """Tell whether the text is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_host_name(text: str) -> bool:
    """Tell whether the text can name one host to others: in DNS, /etc/hosts and a certificate.

    Resolvers read a last label that is a number, also 0x7f, as a part of an address.
    """
    labels = text.lower().split(".")
    return (
        len(text) <= 253
        and all(re.fullmatch(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", item) for item in labels)
        and not re.fullmatch(r"\d+|0x[0-9a-f]*", labels[-1])
        and labels[0] not in LOCAL_NAMES
        and labels[-1] not in LOCAL_NAMES
    )


def short_name(name: str) -> str:
    """Return the host part of a name; an address stays whole."""
    return name if is_address(name) else name.split(".", 1)[0]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ', did you mean X?' for the known name that is most like it, or ''."""
    close = difflib.get_close_matches(str(name).lower(), list(known), 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""


def is_true(value: t.Any) -> bool:
    """Return a boolean that may have come from the command line, where everything is text."""
    return bool(boolean(value, strict=False))


def fold_hosts(hosts: list[str]) -> str:
    """Return the hosts in short; names that no host list can hold as they are."""
    if all(re.fullmatch(r"[\w.-]+", host) for host in hosts):
        return fold(hosts)
    return ", ".join(dict.fromkeys(hosts))


def label_of(variable: str, index: int, item: t.Any, key: str = "name") -> str:
    """Return how an item of a list is called in a message: by its name, else by its place."""
    named = item.get(key) if isinstance(item, dict) else None
    return f"{variable}[{named or index}]"


def is_under(path: str, parent: str) -> bool:
    """Tell whether the path is the parent, or below it."""
    return path == parent or path.startswith(parent.rstrip("/") + "/")


def os_row(supported: Mapping[str, t.Any], system: Mapping[str, t.Any]) -> dict[str, t.Any] | None:
    """Return the row of an operating system in the table of supported ones, None without one."""
    rows = supported.get(str(system.get("id"))) or {}
    version = str(system.get("version") or "")
    row = rows.get(version) or rows.get(version.split(".", 1)[0])
    return t.cast("dict[str, t.Any] | None", row)


def name_of(inputs: Inputs, host: str) -> str:
    """Return the Slurm name of a host, by the inventory alone: a host can call itself anything.

    A host that the inventory lists by its address keeps the name that is on record.
    """
    declared = ((inputs["host_vars"].get(host) or {}).get("slurm_node") or {}).get("name")
    if declared:
        return str(declared)
    if not is_address(host):
        return short_name(host)
    record = inputs["record"]
    named = [name for name, node in (record.get("nodes") or {}).items() if node.get("host") == host]
    return str([*named, ((record.get("hosts") or {}).get(host) or {}).get("name") or host][0])


def given_addresses(inputs: Inputs, host: str) -> list[str]:
    """Return the addresses that the inventory gives for a host, first the one for Slurm."""
    host_vars = inputs["host_vars"].get(host) or {}
    declared = (host_vars.get("slurm_node") or {}).get("address")
    texts = [str(text) for text in (declared, host_vars.get("ansible_host"), host) if text]
    return [
        text
        for text in dict.fromkeys(texts)
        if is_address(text) and not ipaddress.ip_address(text).is_loopback
    ]


def node_address(inputs: Inputs, host: str) -> str:
    """Return the address Slurm reaches a host at; its name when nothing better is known.

    Without an address in the inventory it is the first that the host reports. That decides only where
    the host's own name leads: no certificate has it, and preflight refuses the address of another host.
    """
    host_vars = inputs["host_vars"].get(host) or {}
    declared = (host_vars.get("slurm_node") or {}).get("address")
    reported = (inputs["facts"].get(host) or {}).get("addresses") or []
    known = [*([declared] if declared else []), *given_addresses(inputs, host), *reported]
    return str([*known, name_of(inputs, host)][0])


def members(inputs: Inputs, *groups: str) -> list[str]:
    """Return the hosts of the groups, each once."""
    return list(dict.fromkeys(host for group in groups for host in inputs["groups"].get(group, [])))


def seen(inputs: Inputs, *groups: str) -> Iterator[tuple[str, dict[str, t.Any]]]:
    """Yield (host, facts) of the hosts of the groups that answered; of all without a group."""
    for host in members(inputs, *groups) if groups else sorted(inputs["facts"], key=natural_key):
        if host in inputs["facts"]:
            yield host, inputs["facts"][host]


def declared_nodes(inputs: Inputs) -> Iterator[tuple[str, dict[str, t.Any]]]:
    """Yield (host, slurm_node) of the hosts of this run that have the variable."""
    for host in inputs["hosts_in_run"]:
        declared = (inputs["host_vars"].get(host) or {}).get("slurm_node")
        if declared:
            yield host, declared


def compute_names(inputs: Inputs) -> set[str]:
    """Return the names of all compute nodes: of the inventory, and of the record."""
    recorded = inputs["record"].get("nodes") or {}
    names = {name for name, node in recorded.items() if not node.get("client")}
    by_host = {node.get("host"): name for name, node in recorded.items()}
    for host in members(inputs, "slurm_compute"):
        visited = host in inputs["host_vars"] or host not in by_host
        names.add(name_of(inputs, host) if visited else by_host[host])
    return names - set(inputs["remove"])


def partition_specs(settings: Settings) -> list[dict[str, t.Any]]:
    """Return the partitions that are asked for; one of all compute nodes when none are."""
    given = settings.get("slurm_partitions") or []
    if not given:
        return [{"name": "batch", "groups": ["slurm_compute"], "default": True, "options": {}}]
    specs = [dict(item) for item in given]
    if len(specs) == 1:
        specs[0].setdefault("default", True)
    return specs


def choose_version(inputs: Inputs, controllers: Sequence[str]) -> tuple[str, str]:
    """Return (the version this cluster runs after the run, the installed one or "")."""
    settings, facts = inputs["settings"], inputs["facts"]
    primary = [facts[host] for host in controllers if host in facts]
    others = [facts[host] for host in sorted(facts)]
    installed = next(
        (node["slurm"]["version"] for node in primary if (node.get("slurm") or {}).get("version")),
        "",
    )
    if installed:
        return installed, installed
    # A controller that this run does not see is described by what it recorded.
    if not primary and inputs["record"].get("slurm_version"):
        return str(inputs["record"]["slurm_version"]), ""
    distribution = settings["slurm_install_method"] == "distribution"
    if settings.get("slurm_version") and not distribution:
        return str(settings["slurm_version"]), ""
    if distribution:
        for node in primary + others:
            candidate = str((node.get("slurm") or {}).get("candidate") or "")
            if major_minor(candidate) != (0, 0):
                return candidate, ""
            row = os_row(inputs["supported_os"], node.get("os") or {})
            if row and row.get("slurm"):
                return str(row["slurm"]), ""
    return str(inputs["record"].get("slurm_version") or ""), ""


def cluster_version(inputs: Inputs) -> str:
    """Return the Slurm version that the controllers have after this run, "" when it is unknown."""
    return choose_version(inputs, inputs["groups"].get("slurm_controller", []))[0]
