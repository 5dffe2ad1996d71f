# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the cluster model is built from, and how it is read. Pure: no I/O, no Ansible."""

from __future__ import annotations

import ipaddress
import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Settings = dict[str, t.Any]

SERVICE_GROUPS = (
    "slurm_controller",
    "slurm_database",
    "slurm_login",
    "slurm_rest",
    "slurm_compute",
)
# All that is read of another host's variables: each look-up costs, a thousand hosts times.
HOST_VARIABLES = ("slurm_node", "slurm_network_path", "slurm_block", "ansible_host")


class Inputs(t.TypedDict):
    """What the action plugin collects; everything build_model and preflight may look at."""

    settings: Settings  # the cluster-wide variables by their own names
    groups: dict[str, list[str]]  # the whole inventory
    hosts_in_run: list[str]  # hosts of this play, reachable or not
    facts: dict[str, dict[str, t.Any]]  # trainwright_node of each host that answered
    host_vars: dict[str, dict[str, t.Any]]  # HOST_VARIABLES of each host of slurm_cluster
    record: dict[str, t.Any]  # the controller's record; {} on a new cluster
    remove: list[str]  # names of nodes to take out
    supported_os: dict[str, dict[str, dict[str, t.Any]]]  # roles/cluster/vars/os.yml
    limit: str  # ansible_limit, "" without one
    variables: list[str]  # names of variables that look like this collection's
    limit_command: str  # the playbook to name in the command that a person should type
    arguments: dict[str, tuple[str, dict[str, t.Any], t.Any]]  # name -> (role, its option, value)


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


def os_row(supported: Mapping[str, t.Any], system: Mapping[str, t.Any]) -> dict[str, t.Any] | None:
    """Return the row of an operating system in the table of supported ones, None without one."""
    rows = supported.get(str(system.get("id"))) or {}
    version = str(system.get("version") or "")
    row = rows.get(version) or rows.get(version.split(".", 1)[0])
    return t.cast("dict[str, t.Any] | None", row)


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
