# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every public variable of a role has an effect on what is planned.

Either an argument of a task depends on it (through private variables and templates, followed here), or the
cluster model or preflight's answer changes with it, which is tried with the inputs of a small cluster.
"""

from __future__ import annotations

import json
import typing as t
from functools import cache

import jinja2
import jinja2.nodes
import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import ROOT, gpus, inputs

pytestmark = pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
ENVIRONMENT = jinja2.Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])
# Keys of a task that hold an expression without braces.
EXPRESSIONS = {"when", "until", "changed_when", "failed_when", "that", "loop_control", "var"}
# Their arguments are the inputs of the model and of preflight, whatever becomes of them there.
MODEL_TASKS = {"roles/cluster/tasks/facts.yml", "roles/cluster/tasks/model.yml"}


def load(path: t.Any) -> t.Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@cache
def public() -> dict[str, str]:
    """Public variable -> its role."""
    return {
        name: path.parts[-3]
        for path in sorted(ROOT.glob("roles/*/defaults/main.yml"))
        for name in load(path) or {}
    }


# --- what the arguments of tasks depend on -------------------------------------------------------


def names_in(text: str, expression: bool = False) -> set[str]:
    """Variables that a text refers to, and templates that it names."""
    if text.endswith(".j2"):
        return {text.rsplit("/", 1)[-1]}
    if "{{" not in text and "{%" not in text:
        if not expression:
            return set()
        text = "{{ " + text + " }}"
    tree = ENVIRONMENT.parse(text)
    found = {node.name for node in tree.find_all(jinja2.nodes.Name)}
    for node in tree.find_all(jinja2.nodes.Const):
        if isinstance(node.value, str) and node.value.endswith(".j2"):
            found.add(node.value.rsplit("/", 1)[-1])
    return found


def names_of(value: t.Any, expression: bool = False) -> set[str]:
    """The same for a structure of YAML."""
    if isinstance(value, str):
        return names_in(value, expression)
    if isinstance(value, dict):
        return {
            name
            for key, item in value.items()
            for name in names_in(str(key)) | names_of(item, expression or key in EXPRESSIONS)
        }
    if isinstance(value, list):
        return {name for item in value for name in names_of(item, expression)}
    return set()


@cache
def definitions() -> dict[str, frozenset[str]]:
    """Private variable, template or public variable -> what it refers to."""
    found: dict[str, set[str]] = {}
    for pattern in ("roles/*/vars/**/*.yml", "roles/*/defaults/main.yml"):
        for path in ROOT.glob(pattern):
            for name, value in (load(path) or {}).items():
                found.setdefault(name, set()).update(names_of(value))
    for path in ROOT.glob("roles/*/templates/*.j2"):
        found.setdefault(path.name, set()).update(names_in(path.read_text(encoding="utf-8")))
    return {name: frozenset(names) for name, names in found.items()}


@cache
def planned() -> frozenset[str]:
    """All names that the arguments of some task depend on."""
    waiting: list[str] = []
    for pattern in ("roles/*/tasks/**/*.yml", "playbooks/**/*.yml"):
        for path in ROOT.glob(pattern):
            if str(path.relative_to(ROOT)) not in MODEL_TASKS:
                waiting += names_of(load(path))
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += definitions().get(name, ())
    return frozenset(found)


# --- what the model and preflight depend on ------------------------------------------------------

Change = t.Callable[[t.Any], None]


def setting(name: str, value: t.Any) -> Change:
    """Set one of the cluster's variables."""

    def change(given: t.Any) -> None:
        given["settings"][name] = value

    return change


def host_variable(name: str, value: t.Any) -> Change:
    """Set a variable of the compute node c1."""

    def change(given: t.Any) -> None:
        given["host_vars"]["c1"] = {name: value}

    return change


def of_a_type(given: t.Any) -> None:
    """Let c1 be of a type with a little more memory than the machine shows."""
    row = {"vcpus": 4, "cores": 2, "memory_mib": 10240}
    setting("slurm_machine_types", {"mine": row})(given)
    host_variable("slurm_node", {"machine_type": "mine"})(given)


def without_nvidia_smi(given: t.Any) -> None:
    """Let c1 be of a type with a GPU, of which the machine does not show the model."""
    gpus = {"count": 1, "model": "H100", "memory_mib": 81920}
    row = {"vcpus": 4, "cores": 2, "memory_mib": 8192, "gpus": gpus}
    setting("slurm_machine_types", {"mine": row})(given)
    host_variable("slurm_node", {"machine_type": "mine"})(given)
    found = {"device": "/dev/nvidia0", "index": 0, "model": "", "memory_mb": 0}
    given["facts"]["c1"]["gpus"] = [found]


def nothing(_given: t.Any) -> None:
    """Leave the inputs alone."""


def removing_c2(given: t.Any) -> None:
    remove_c2(given)
    given["remove"].append("c2")


def remove_c2(given: t.Any) -> None:
    given["record"] = build_model(inputs(2))["record"]
    given["groups"]["slurm_compute"] = ["c1"]
    given["hosts_in_run"] = ["ctl", "login1", "c1"]
    del given["facts"]["c2"]


def tree(given: t.Any) -> None:
    given["settings"]["slurm_topology"] = {"plugin": "tree"}
    given["host_vars"]["c2"] = {"slurm_network_path": ["spine", "leaf2"]}


def block(given: t.Any) -> None:
    given["settings"]["slurm_topology"] = {"plugin": "block", "block_sizes": [1]}
    given["host_vars"]["c2"] = {"slurm_block": "b2"}


def with_gpus(given: t.Any) -> None:
    for host in ("c1", "c2"):
        given["facts"][host]["gpus"] = gpus(2)


def fact(name: str, value: t.Any) -> Change:
    """Let the node c1 report something."""

    def change(given: t.Any) -> None:
        given["facts"]["c1"][name] = value

    return change


OUR_RELEASE = {"ours": {"driver": "580.65.06", "source": "our image"}}


def gpu_repository(given: t.Any) -> None:
    """Let c1 have GPUs whose software can be installed."""
    given["facts"]["c1"]["gpus"] = gpus(2)
    given["settings"]["gpu_stack_repository"] = {"url": "file:///srv/packages", "trusted": True}


def older_driver(given: t.Any) -> None:
    """Let this collection install the driver that Debian 13 has."""
    gpu_repository(given)
    host_variable("gpu_stack", "managed")(given)
    given["settings"]["gpu_stack_versions"] = {"driver": "550.163.01", "cuda": "12.4"}


def managed_gpus(given: t.Any) -> None:
    """Let this collection install the GPU software of c1."""
    gpu_repository(given)
    host_variable("gpu_stack", "managed")(given)


def with_oci(given: t.Any) -> None:
    given["groups"]["slurm_oci"] = ["c1"]


def with_server(given: t.Any) -> None:
    """Let c1 be an NFS server with one export."""
    given["groups"]["slurm_nfs_server"] = ["c1"]
    given["host_vars"]["c1"] = {"nfs_server_exports": [{"path": "/srv/data"}]}


def with_hooks(given: t.Any) -> None:
    given["groups"]["slurm_job_hooks"] = ["c1"]


def moved(given: t.Any) -> None:
    """A running cluster whose state the inventory moves."""
    conf = {"StateSaveLocation": "/old"}
    given["facts"]["ctl"].update(services={"slurmctld": "active"}, slurmd_running_conf=conf)


def service_moved(given: t.Any) -> None:
    """A running cluster whose database the inventory moves."""
    conf = {"controllers": ["ctl"], "database": "10.0.0.2"}
    given["facts"]["ctl"].update(services={"slurmctld": "active"}, service_hosts=conf)
    given["groups"]["slurm_database"] = ["login1"]


# Variable -> (what else the inputs need, the variable's value); the model differs, and nothing is refused.
IN_MODEL: dict[str, tuple[Change, Change]] = {
    **{
        name: (nothing, setting(name, value))
        for name, value in {
            "slurm_cluster_name": "atlas",
            "slurm_domains": ["example.org"],
            "slurm_version": "25.05",
            "slurm_auth_type": "slurm",
            "slurm_auth_secrets_directory": "/root/secrets",
            "slurm_auth_certificate_days": 30,
            "slurm_conf": {"KillWait": 61},
            "slurm_cgroup_conf": {"ConstrainSwapSpace": "yes"},
            "slurm_plugstack": ["optional /usr/lib/x.so"],
            "slurm_partitions": [{"name": "p", "groups": ["slurm_compute"]}],
            "slurm_node_sets": [{"name": "s", "nodes": "c1"}],
            "slurm_memory_percent": 50,
            "slurm_ports": {"slurmctld": 7001, "slurmd": 7002, "slurmdbd": 7003},
            "slurm_srun_port_range": "50000-55000",
            "slurm_rest_port": 6820,
            "slurm_token_max_lifespan": 3600,
            "slurm_user_tokens": False,
            "slurm_job_tmp": "/var/spool/slurm-job-tmp",
            "slurm_state_save_location": "/srv/slurmctld",
            "slurm_spool_dir": "/srv/slurmd",
            "slurm_user_uid": 64031,
            "slurm_user_gid": 64031,
            "cluster_mounts": [{"path": "/shared", "source": "nas:/shared"}],
            "cluster_users": [{"name": "ada", "uid": 2001}],
            "cluster_groups": [{"name": "lab", "gid": 3001}],
        }.items()
    },
    "slurm_install_method": (
        setting("slurm_version", "24.11.5"),
        setting("slurm_install_method", "source"),
    ),
    "slurm_gres_autodetect": (with_gpus, setting("slurm_gres_autodetect", "nvidia")),
    "slurm_node": (nothing, host_variable("slurm_node", {"features": ["fast"]})),
    "slurm_machine_types": (
        host_variable("slurm_node", {"machine_type": "mine"}),
        setting("slurm_machine_types", {"mine": {"vcpus": 4, "cores": 2, "memory_mib": 8192}}),
    ),
    "slurm_hardware_tolerance": (of_a_type, setting("slurm_hardware_tolerance", 20)),
    "slurm_allow_incomplete": (without_nvidia_smi, setting("slurm_allow_incomplete", True)),
    "slurm_network_path": (tree, host_variable("slurm_network_path", ["spine", "leaf1"])),
    "slurm_block": (block, host_variable("slurm_block", "b1")),
    "slurm_topology": (
        host_variable("slurm_network_path", ["spine", "leaf1"]),
        setting("slurm_topology", {"plugin": "tree"}),
    ),
    "nfs_server_exports": (
        with_server,
        host_variable("nfs_server_exports", [{"path": "/srv/data", "read_only": True}]),
    ),
    "gpu_stack": (gpu_repository, host_variable("gpu_stack", "managed")),
    "gpu_stack_nccl_tests": (managed_gpus, setting("gpu_stack_nccl_tests", True)),
    "gpu_stack_release": (nothing, setting("gpu_stack_release", "dlami-2025-12")),
    "gpu_stack_releases": (
        setting("gpu_stack_releases", OUR_RELEASE),
        setting("gpu_stack_release", "ours"),
    ),
    "nvidia_driver_source": (older_driver, setting("nvidia_driver_source", "distribution")),
    "gpu_stack_versions": (nothing, setting("gpu_stack_versions", {"nccl": "2.27.3"})),
    "oci_conf": (with_oci, setting("oci_conf", {"MountSpoolDir": "/mnt"})),
    **{
        f"job_hooks_{name}": (with_hooks, setting(f"job_hooks_{name}", value))
        for name, value in {
            "mode": "observe",
            "parts": [{"name": "mine", "kind": "prolog", "text": "true"}],
            "policies": {"gpu": "drain"},
            "end_processes": False,
            "enroot": False,
            "gpu": False,
            "mig": "disabled",
            "mps": True,
            "cpu_governor": "performance",
            "dcgm_directory": "/run/trainwright/dcgm-jobs",
            "drop_page_cache": True,
        }.items()
    },
    "slurm_revoke_removed": (removing_c2, setting("slurm_revoke_removed", False)),
    "slurm_remove_nodes": (remove_c2, lambda given: given["remove"].append("c2")),
}
# Variable -> the same; only preflight's answer differs.
IN_PREFLIGHT: dict[str, tuple[Change, Change]] = {
    "slurm_max_clock_skew": (fact("clock_offset_s", 30), setting("slurm_max_clock_skew", 10)),
    "slurm_min_memory_mb": (nothing, setting("slurm_min_memory_mb", 9000)),
    "slurm_allow_state_move": (moved, setting("slurm_allow_state_move", True)),
    "slurm_allow_missing_gpus": (
        host_variable("slurm_node", {"gres": [{"name": "gpu", "count": 8}]}),
        setting("slurm_allow_missing_gpus", True),
    ),
    "slurm_allow_service_move": (service_moved, setting("slurm_allow_service_move", True)),
    "slurm_min_disk_mb": (nothing, setting("slurm_min_disk_mb", 99000)),
}


def outcome(*changes: Change) -> tuple[str, list[str]]:
    """The model as text, and what preflight refuses."""
    given = inputs(2)
    for change in changes:
        change(given)
    found = [str(problem) for problem in problems(given)]
    return json.dumps(build_model(given), sort_keys=True, default=str), found


@pytest.mark.parametrize("name", sorted(public()))
def test_every_public_variable_has_an_effect(name: str) -> None:
    if name in IN_MODEL:
        prepare, change = IN_MODEL[name]
        before, after = outcome(prepare), outcome(prepare, change)
        assert not after[1], "the value of this test is refused"
        assert before[0] != after[0]
    elif name in IN_PREFLIGHT:
        prepare, change = IN_PREFLIGHT[name]
        assert outcome(prepare)[1] != outcome(prepare, change)[1]
    else:
        assert name in planned(), (
            f"no argument of a task depends on {name} of the role {public()[name]}, and neither IN_MODEL"
            " nor IN_PREFLIGHT says what it changes -> let it have an effect, or remove it"
        )


def test_the_tables_name_public_variables() -> None:
    assert set(IN_MODEL) | set(IN_PREFLIGHT) <= set(public())


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("slurmdbd_conf", True),  # through a template of a private variable
        ("enroot_conf", True),
        ("slurmctld_nodes_timeout", True),
        ("__slurmdbd_password", True),
        ("slurmdbd_confg", False),
        ("slurm_max_clock_skew", False),  # the model's own arguments prove nothing
    ],
)
def test_dependencies_are_followed(name: str, found: bool) -> None:
    assert (name in planned()) is found
