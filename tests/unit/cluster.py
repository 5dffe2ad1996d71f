# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Inputs of a small cluster, for the tests of the model and of preflight."""

from __future__ import annotations

import copy
import pathlib
import typing as t

import yaml

ROOT = pathlib.Path(__file__).parents[2]
ROLE_VARS = ROOT / "roles/cluster/vars/main"
SUPPORTED_OS = yaml.safe_load((ROLE_VARS / "os.yml").read_text())["__cluster_supported_os"]
CHECKED_ROLES = yaml.safe_load((ROLE_VARS / "checked_roles.yml").read_text())[
    "__cluster_checked_roles"
]


def specs(role: str) -> dict[str, t.Any]:
    """Return the options of a role's entry point main."""
    path = ROOT / "roles" / role / "meta/argument_specs.yml"
    main = yaml.safe_load(path.read_text())["argument_specs"].get("main", {})
    return main.get("options") or {}


ARGUMENTS = {name: option for role in CHECKED_ROLES for name, option in specs(role).items()}
DEFAULTS = {name: option["default"] for name, option in ARGUMENTS.items()}
SERVICES = ("slurmctld", "slurmdbd", "slurmd", "slurmrestd", "sackd", "munge", "mariadb")


def node_facts(host: str, address: str, **changes: t.Any) -> dict[str, t.Any]:
    """Return the node_facts of a healthy Debian 13 machine with 4 CPUs and without GPUs."""
    facts: dict[str, t.Any] = {
        "hostname": host,
        "addresses": [address],
        "os": {
            "id": "debian",
            "like": "debian",
            "version": "13",
            "codename": "trixie",
            "pretty": "Debian 13",
        },
        "kernel": "6.12",
        "arch": "x86_64",
        "virtualization": "none",
        "cpus": 4,
        "boards": 1,
        "sockets": 1,
        "cores_per_socket": 2,
        "threads_per_core": 2,
        "memory_mb": 8000,
        "tmp_disk_mb": 9000,
        "gpus": [],
        "cgroup": {"mode": "v2", "controllers": ["cpu", "cpuset", "io", "memory", "pids"]},
        "slurm": {
            "version": "",
            "candidate": "24.11.5-4",
            "prefix": "/usr",
            "sbin": "/usr/sbin",
            "config_dir": "/etc/slurm",
            "plugin_dir": "",
        },
        "users": {"slurm": None, "munge": None},
        "groups": {"slurm": None, "munge": None},
        "uids": {},
        "ports": {},
        "reach": {},
        "disks": {"/var/spool/slurmctld": {"free_mb": 9000, "fstype": "ext4"}},
        "ssh_host_key": f"ssh-ed25519 {host}",
        "services": dict.fromkeys(SERVICES, "absent"),
        "slurmd_running_conf": {},
        "service_hosts": {},
        "clock_offset_s": 0.1,
        "clock_error_s": 0.1,
    }
    facts.update(changes)
    return facts


def gpus(count: int, model: str = "NVIDIA H100 80GB HBM3") -> list[dict[str, t.Any]]:
    """Return GPUs as node_facts does."""
    return [
        {"device": f"/dev/nvidia{i}", "index": i, "model": model, "memory_mb": 81559}
        for i in range(count)
    ]


def inputs(compute: int = 2, *, node: dict[str, t.Any] | None = None, **settings: t.Any) -> t.Any:
    """Return the inputs of a cluster of ctl, login1 and c1..cN."""
    nodes = [f"c{i}" for i in range(1, compute + 1)]
    hosts = ["ctl", "login1", *nodes]
    facts = {
        host: node_facts(host, f"10.0.{i // 250}.{i % 250 + 2}") for i, host in enumerate(hosts)
    }
    for host in nodes:
        facts[host].update(copy.deepcopy(node or {}))
    return {
        "settings": {**copy.deepcopy(DEFAULTS), **settings},
        "groups": {
            "all": hosts,
            "slurm_cluster": hosts,
            "slurm_controller": ["ctl"],
            "slurm_database": ["ctl"],
            "slurm_login": ["login1"],
            "slurm_rest": [],
            "slurm_compute": nodes,
        },
        "hosts_in_run": hosts,
        "facts": facts,
        "host_vars": {host: {} for host in hosts},
        "differing": {},
        "record": {},
        "record_digest": "",
        "remove": [],
        "supported_os": SUPPORTED_OS,
        "limit": "",
        "variables": [],
        "command": "ansible-playbook trainwright.slurm.site",
        "arguments": dict(ARGUMENTS),
    }
