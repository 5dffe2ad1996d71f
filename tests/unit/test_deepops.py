# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A DeepOps inventory is used as it is: its groups are mapped, its variables break nothing.

Groups and variables are those of https://github.com/NVIDIA/deepops: config.example/inventory,
config.example/group_vars and roles/cluster/defaults.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import DEFAULTS, inputs

ROOT = Path(__file__).resolve().parents[2]
ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
PLAYBOOKS = ("preflight.yml", "first_job.yml", "remove_nodes.yml", "support_bundle.yml")

# The groups of config.example/inventory, with the master as login and a file server of its own.
EXAMPLE = """\
[all]
mgmt02
mgmt01
nfs01
gpu01
gpu02
[kube_control_plane]
mgmt01
[etcd]
mgmt01
[kube_node]
gpu01
[k8s_cluster:children]
kube_control_plane
kube_node
[slurm-master]
mgmt02
mgmt01
[slurm-nfs]
nfs01
[slurm-node]
gpu01
gpu02
[slurm-cache:children]
slurm-master
[slurm-nfs-client:children]
slurm-node
[slurm-metric:children]
slurm-master
[slurm-login:children]
slurm-master
[slurm-cluster:children]
slurm-master
slurm-node
slurm-cache
slurm-nfs
slurm-metric
slurm-login
"""

# What group_vars/all.yml and group_vars/slurm-cluster.yml of DeepOps set, with its values, as far as a
# name begins like one of ours.
VARIABLES: dict[str, Any] = {
    "slurm_version": "26.05.1",
    "slurm_cluster_name": "deepops",
    "slurm_user_uid": 22078,
    "slurm_user_home": "/local/slurm",
    "slurm_username": "slurm",
    "slurm_password": "unused",
    "slurm_db_password": "unused",
    "slurm_install_prefix": "/usr/local",
    "slurm_config_dir": "/etc/slurm",
    "slurm_conf_template": "etc/slurm/slurm.conf",
    "slurm_conf_symlink": False,
    "slurm_enable_ha": False,
    "slurm_ha_state_save_location": "/sw/slurm",
    "slurm_manage_gpus": True,
    "slurm_autodetect_nvml": True,
    "slurm_max_job_timelimit": "INFINITE",
    "slurm_restrict_node_access": True,
    "slurm_allow_ssh_user": ["ubuntu"],
    "slurm_login_on_compute": False,
    "slurm_configure_etc_hosts": True,
    "slurm_cluster_install_cuda": True,
    "slurm_cluster_install_nvidia_driver": True,
    "slurm_cluster_install_openmpi": False,
    "slurm_enable_nfs_server": True,
    "slurm_enable_nfs_client_nodes": True,
    "slurm_install_enroot": True,
    "slurm_install_pyxis": True,
    "slurm_install_lmod": True,
    "slurm_install_nhc": True,
    "slurm_health_check_program": "/usr/sbin/nhc",
    "slurm_enable_monitoring": True,
    "slurm_monitoring_group": "slurm-master",
    "proxy_env": {"http_proxy": "http://10.0.2.5:3128"},
    "users": [{"username": "nvidia", "name": "nvidia", "uid": 10007, "groups": ["sudo"]}],
    "nfs_exports": [{"path": "/home", "options": "*(rw,sync,no_root_squash)"}],
    "nfs_mounts": [
        {"mountpoint": "/home", "server": "{{ groups['slurm-master'][0] }}", "path": "/home"}
    ],
    "chrony_config_server": ["0.pool.ntp.org"],
}


def first_play(playbook: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / "playbooks" / playbook).read_text(encoding="utf-8"))[0]


def play(
    directory: Path, inventory: str, *arguments: str, more: list[dict[str, Any]] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the play that maps groups, then one that writes the groups to groups.json."""
    (directory / "inventory").write_text(inventory, encoding="utf-8")
    (directory / "tasks").symlink_to(ROOT / "playbooks" / "tasks")
    (directory / "group_vars").mkdir()
    (directory / "group_vars" / "slurm-cluster.yml").write_text(yaml.safe_dump(VARIABLES))
    task = {
        "ansible.builtin.copy": {
            "content": "{{ {'groups': groups, 'hosts': ansible_play_hosts_all} | to_json }}",
            "dest": str(directory / "groups.json"),
            "mode": "0644",
        },
        "run_once": True,
        "check_mode": False,
    }
    look = {"hosts": "slurm_cluster", "gather_facts": False, "tasks": [task, *(more or [])]}
    plays = [first_play("preflight.yml"), look]
    (directory / "play.yml").write_text(yaml.safe_dump(plays, sort_keys=False), encoding="utf-8")
    return subprocess.run(
        [str(ANSIBLE), "-i", "inventory", "-c", "local", "play.yml", *arguments],
        cwd=directory,
        env={
            **{key: value for key, value in os.environ.items() if key != "ANSIBLE_CONFIG"},
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def mapped(directory: Path, done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((directory / "groups.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("arguments", [(), ("--limit", "gpu01,mgmt01", "--check")])
def test_groups_are_mapped_whole_and_in_order(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    found = mapped(tmp_path, play(tmp_path, EXAMPLE, *arguments))
    ours = {key: value for key, value in found["groups"].items() if key.startswith("slurm_")}
    assert ours == {
        "slurm_cluster": ["mgmt02", "mgmt01", "gpu01", "gpu02"],
        "slurm_controller": ["mgmt02", "mgmt01"],
        "slurm_database": ["mgmt02"],
        "slurm_login": ["mgmt02", "mgmt01"],
        "slurm_compute": ["gpu01", "gpu02"],
    }
    in_run = {"mgmt01", "gpu01"} if arguments else {"mgmt02", "mgmt01", "gpu01", "gpu02"}
    assert set(found["hosts"]) == in_run


def test_the_inventory_of_this_repository_is_a_deepops_one(tmp_path: Path) -> None:
    text = (ROOT / "inventories" / "deepops" / "inventory").read_text(encoding="utf-8")
    found = mapped(tmp_path, play(tmp_path, text))["groups"]
    assert found["slurm_controller"] == found["slurm_database"] == ["mgmt01"]
    assert (found["slurm_login"], found["slurm_compute"]) == (["login01"], ["gpu01", "gpu02"])


def test_an_inventory_of_ours_is_left_alone(tmp_path: Path) -> None:
    text = "[slurm_controller]\nctl1\n[slurm_cluster:children]\nslurm_controller\n"
    found = mapped(tmp_path, play(tmp_path, text))["groups"]
    assert "slurm_compute" not in found and found["slurm_controller"] == ["ctl1"]


def test_an_inventory_without_known_groups_is_refused_with_the_remedy(tmp_path: Path) -> None:
    done = play(tmp_path, "[servers]\nctl1\n")
    assert done.returncode != 0
    assert "group slurm_cluster" in done.stdout + done.stderr
    assert "inventories/bare_metal/hosts.yml" in done.stdout + done.stderr


def test_variables_of_deepops_pass_the_argument_specs(tmp_path: Path) -> None:
    """validate_argument_spec is what Ansible puts before each role."""
    specs = [
        {"role": path.parents[1].name, "options": spec["options"]}
        for path in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml"))
        for spec in yaml.safe_load(path.read_text())["argument_specs"].values()
        if spec.get("options")
    ]
    (tmp_path / "specs.json").write_text(json.dumps(specs), encoding="utf-8")
    check = {
        "ansible.builtin.validate_argument_spec": {"argument_spec": "{{ item.options }}"},
        "loop": "{{ lookup('file', 'specs.json') | from_json }}",
        "loop_control": {"label": "{{ item.role }}"},
    }
    done = play(tmp_path, EXAMPLE, "--limit", "mgmt02", more=[check])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("(item=") >= len(specs)


@pytest.mark.parametrize("version", ["20.11.3", "26.05.1"])
def test_preflight_takes_the_variables_and_groups_of_deepops(version: str) -> None:
    """What DeepOps would build is not what the distribution has; it is said, and refuses nothing."""
    shared = {name: VARIABLES[name] for name in VARIABLES if name in DEFAULTS}
    given = inputs(2, **{**shared, "slurm_version": version})
    given["variables"] = sorted(name for name in VARIABLES if name.startswith("slurm_"))
    compute = given["groups"]["slurm_compute"]
    given["groups"] |= {"slurm-node": compute, "slurm-nfs": ["nfs01"], "slurm-metric": ["ctl"]}
    assert problems(given) == []
    model = build_model(given)
    assert model["version_string"] == "24.11"
    assert any(f"slurm_version {version}" in message for message in model["messages"])


def test_names_that_both_use_are_in_the_guide() -> None:
    ours = {
        name
        for path in (ROOT / "roles").glob("*/meta/argument_specs.yml")
        for spec in yaml.safe_load(path.read_text())["argument_specs"].values()
        for name in spec.get("options") or {}
    } | {"proxy_env"}
    guide = (ROOT / "docs" / "deepops.md").read_text(encoding="utf-8")
    table = guide.split("## Names that both use")[1].split("\n## ")[0]
    rows = {line.split("`")[1] for line in table.splitlines() if line.startswith("| `")}
    assert rows == ours & set(VARIABLES)


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_every_playbook_maps_the_groups_in_the_same_way(playbook: str) -> None:
    assert first_play(playbook) == first_play("preflight.yml")
