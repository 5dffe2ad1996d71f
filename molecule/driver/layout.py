# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The parts of a local cluster: hosts, addresses, inventory. Pure; nothing here does I/O."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

MAX_COMPUTE = 100
MAX_GPUS = 16
SHARED_PATH = "/srv/cluster"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,19}")
_SUBNETS = [f"10.89.{third}.0/24" for third in range(10, 255)]

# Last octet of each role's first address; compute nodes have room for MAX_COMPUTE.
_FIRST_OCTET = {"controller": 11, "database": 16, "login": 21, "bare": 31, "compute": 101}
MAX_BARE = 8


@dataclass(frozen=True)
class System:
    """An operating system of the hosts: the distribution, its release's name, what is used of its archive.

    packages: what the image needs that is no part of every system of this family.
    """

    family: str
    suite: str
    components: str = "main"
    packages: tuple[str, ...] = ()


SYSTEMS = {
    "debian12": System("debian", "bookworm"),
    "debian13": System("debian", "trixie"),
    "ubuntu2404": System("ubuntu", "noble", "main universe", ("apt",)),
}


class LocalError(Exception):
    """Something a person can put right; the message is one line and names the remedy."""


@dataclass(frozen=True)
class Spec:
    """The requested cluster. os is a key of SYSTEMS; gpus counts fake GPUs of each compute node.

    pyxis: whether compute and login nodes get Enroot and Pyxis. bare: hosts that belong to no
    cluster, for roles that work alone; if there are any, there is not a cluster as well.
    database: whether accounting has a host of its own, or is on the first controller.
    """

    name: str = "local"
    os: str = "debian13"
    compute: int = 2
    gpus: int = 0
    controllers: int = 1
    pyxis: bool = False
    bare: int = 0
    database: bool = False

    def check(self) -> None:
        """Raise LocalError for the first value that cannot be built."""
        if not _NAME.fullmatch(self.name):
            raise LocalError(
                f"NAME={self.name}: not a cluster name; use 1 to 20 lower-case letters, "
                "digits and underscores, a letter first, for example NAME=dev"
            )
        if self.os not in SYSTEMS:
            raise LocalError(
                f"OS={self.os}: no image recipe of that name; use OS={' or OS='.join(SYSTEMS)}"
            )
        for label, value, low, high in (
            ("COMPUTE", self.compute, 1, MAX_COMPUTE),
            ("GPUS", self.gpus, 0, MAX_GPUS),
            ("CONTROLLERS", self.controllers, 1, 2),
            ("BARE", self.bare, 0, MAX_BARE),
        ):
            if not low <= value <= high:
                raise LocalError(f"{label}={value}: out of range; use {low} to {high}")

    def as_dict(self) -> dict[str, str | int]:
        return asdict(self)


@dataclass(frozen=True)
class Host:
    """One container. name is its host name and inventory name; address is fixed for its life."""

    name: str
    role: str
    address: str
    mac: str
    gpus: int = 0


def hosts_of(spec: Spec, subnet: str) -> list[Host]:
    """The hosts of a cluster in `subnet` (a /24), controllers first.

    MAC addresses are fixed too: a restarted node must not be unreachable until the others'
    ARP entries have expired.
    """
    base = ipaddress.IPv4Network(subnet).network_address

    def host(prefix: str, role: str, number: int, gpus: int = 0) -> Host:
        address = base + _FIRST_OCTET[role] + number - 1
        mac = "02:" + ":".join(f"{octet:02x}" for octet in (0x74, *address.packed))
        return Host(f"{prefix}{number}", role, str(address), mac, gpus)

    if spec.bare:
        return [host("bare", "bare", n + 1) for n in range(spec.bare)]
    return [
        *(host("ctl", "controller", n + 1) for n in range(spec.controllers)),
        *([host("db", "database", 1)] if spec.database else []),
        host("login", "login", 1),
        *(host("c", "compute", n + 1, spec.gpus) for n in range(spec.compute)),
    ]


def unique_name(name: str, root: Path) -> str:
    """A cluster's name on this machine, where another clone may have a cluster of the same name."""
    return f"{name}-{hashlib.sha256(str(root).encode()).hexdigest()[:6]}"


def free_subnet(unique: str, taken: Iterable[str]) -> str:
    """A 10.89.x.0/24 that overlaps none of the networks (or addresses) in `taken`.

    The search starts at a place that the unique name decides: a cluster gets the same subnet
    each time, and two clusters rarely want the same.
    """
    used = [ipaddress.IPv4Network(net, strict=False) for net in taken]
    start = int(hashlib.sha256(unique.encode()).hexdigest(), 16) % len(_SUBNETS)
    for subnet in _SUBNETS[start:] + _SUBNETS[:start]:
        if not any(ipaddress.IPv4Network(subnet).overlaps(net) for net in used):
            return subnet
    raise LocalError(
        "no free network between 10.89.10.0/24 and 10.89.254.0/24; "
        "remove unused ones: podman network prune"
    )


def seed_text(host: Host, authorized_key: str, host_key: str, host_public_key: str) -> str:
    """The tmpfiles.d file that gives a bare container its identity at every start.

    systemd runs it before sshd, so the first login already finds the key: Debian 13's sshd
    penalises failed ones. Device nodes are lost when a container stops and are made again here.
    """

    def file(path: str, mode: str, content: str) -> str:
        encoded = base64.b64encode(content.encode()).decode()
        return f"f~ {path} {mode} root root - {encoded}"

    lines = [
        "# Written by the local cluster tool; see molecule/driver/layout.py.",
        "z! /dev/fuse 0666 root root",
        *(f"c! /dev/nvidia{n} 0666 root root - 195:{n}" for n in range(host.gpus)),
        file("/etc/hosts", "0644", f"127.0.0.1 localhost\n{host.address} {host.name}\n"),
        "d /root/.ssh 0700 root root",
        file("/root/.ssh/authorized_keys", "0600", authorized_key),
        file("/etc/ssh/ssh_host_ed25519_key", "0600", host_key),
        file("/etc/ssh/ssh_host_ed25519_key.pub", "0644", host_public_key),
    ]
    return "\n".join(lines) + "\n"


def inventory_text(
    spec: Spec, hosts: list[Host], key: str, known_hosts: str, control_dir: str, public_key: str
) -> str:
    """hosts.yml. Scalars are written as JSON strings, which YAML reads as they are."""

    def names(*roles: str) -> list[str]:
        return [host.name for host in hosts if host.role in roles]

    controllers = names("controller")
    groups = {
        "slurm_controller": controllers,
        "slurm_database": names("database") or controllers[:1],
        "slurm_login": names("login"),
        "slurm_compute": names("compute"),
        "slurm_rest": controllers[:1],
    }
    if spec.pyxis:
        groups["slurm_pyxis"] = names("login", "compute")
        groups["slurm_node_health"] = names("compute")
    variables = {
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_private_key_file": key,
        "ansible_ssh_args": " ".join(ssh_options(known_hosts)),
        "ansible_control_path_dir": control_dir,
        # Python's % formatting turns %%h into ssh's %h.
        "ansible_control_path": "%(directory)s/%%h-%%r",
        "local_cluster_name": spec.name,
        "local_cluster_ssh_public_key": public_key.strip(),
    }
    lines = ["# Written by the local cluster tool; changes are lost.", "all:", "  vars:"]
    lines += [f"    {name}: {json.dumps(value)}" for name, value in variables.items()]
    lines += ["  hosts:"]
    lines += [f"    {host.name}: {{ansible_host: {host.address}}}" for host in hosts]
    if spec.bare:
        return "\n".join(lines) + "\n"
    lines += ["  children:", "    slurm_cluster:", "      children:"]
    for group, members in groups.items():
        lines += [f"        {group}:", "          hosts:"]
        lines += [f"            {name}:" for name in members]
    return "\n".join(lines) + "\n"


def ssh_options(known_hosts: str) -> list[str]:
    """Options that Ansible and our own ssh share, so that both use one connection per host."""
    options = {
        "ControlMaster": "auto",
        "ControlPersist": "120s",
        "PreferredAuthentications": "publickey",
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": known_hosts,
        "StrictHostKeyChecking": "yes",
        "ConnectTimeout": "5",
        "ServerAliveInterval": "10",
        "LogLevel": "ERROR",
    }
    return [part for name, value in options.items() for part in ("-o", f"{name}={value}")]


def ssh_config_text(hosts: list[Host], key: str, known_hosts: str, control_dir: str) -> str:
    """For `ssh -F`: the hosts by their names, as root."""
    words = ssh_options(known_hosts)[1::2]
    lines = ["# Written by the local cluster tool; changes are lost."]
    for host in hosts:
        lines += [f"Host {host.name} {host.address}", f"  HostName {host.address}"]
    lines += [
        "Host *",
        "  User root",
        f"  IdentityFile {key}",
        f"  ControlPath {control_dir}/%h-%r",
    ]
    lines += [f"  {word.replace('=', ' ', 1)}" for word in words]
    return "\n".join(lines) + "\n"


def table(rows: list[list[str]]) -> str:
    """Rows of cells, the first row the headings, as aligned text."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
