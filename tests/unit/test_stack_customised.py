# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a site adds to the GPU software of a host: role gpu_stack's one write of all files, planned in check mode."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.unit.cluster import ROOT

PARTS = ["nvidia_driver", "cuda_toolkit", "nvidia_dcgm", "nvidia_container", "gdrcopy", "nccl"]
HOST = {
    "roles": PARTS,
    "fabric_manager": False,
    "imex": False,
    "subnet_manager": False,
    "repository": True,
    "driver": {"runfile": False, "of_distribution": False, "packages": ["nvidia-open"]},
}
VERSIONS = {
    "driver": "595.91.07",
    "cuda": "13.2.1",
    "dcgm": "4.7.0",
    "container_toolkit": "1.20.1",
    "gdrcopy": "2.5.2",
    "nccl": "2.27.3",
}
NODE = {
    "arch": "x86_64",
    "kernel": "6.12.1",
    "virtualization": "container",
    "os": {"id": "debian", "like": "debian", "version": "13"},
    "kernel_build": {"headers": True},
    "services": {},
    "efa": [],
    "on_bus": {"efa": 0},
}
#: Each point of each role.
SITE: dict[str, t.Any] = {
    "gpu_stack_unit": {"Service": {"TimeoutStartSec": "2h"}},
    "gpu_stack_template": "site-gpu-stack.j2",
    "nvidia_driver_conf": {"nouveau": {"modeset": None}, "nvidia": {"NVreg_EnableStreamMemOPs": 1}},
    "nvidia_driver_unit": {"Service": {"Nice": 1}},
    "nvidia_driver_template": "site-nvidia.j2",
    "nvidia_dcgm_unit": {"Service": {"Nice": 2}},
    "nvidia_container_conf": {"NVIDIA_CTK_CDI_GENERATE_MODE": "nvml"},
    "nvidia_container_unit": {"Service": {"PrivateTmp": None}},
    "nvidia_container_template": "site-cdi.j2",
    "gdrcopy_conf": {"dbg_enabled": True},
    "nccl_conf": {"NCCL_DEBUG": "WARN"},
    "nccl_template": "site-nccl.j2",
    **{
        f"{role}_files": [{"path": f"/etc/site/{role}", "content": f"{role}\n"}]
        for role in ("gpu_stack", *PARTS)
    },
}
#: Each adds a line to the role's own.
TEMPLATES = {
    "site-gpu-stack.j2": "gpu-stack.j2",
    "site-nvidia.j2": "nvidia.conf.j2",
    "site-cdi.j2": "cdi.j2",
    "site-nccl.j2": "nccl.conf.j2",
}
UNITS = Path("/etc/systemd/system")


@dataclass
class Plan:
    """A run in check mode: its exit code and output, the text of each file it would write, and the units."""

    rc: int
    output: str
    files: dict[str, str]
    units: dict[str, dict[str, t.Any]]


def run(path: Path, **variables: t.Any) -> Plan:
    """Plan all files of a host; paths of templates are below the inventory's directory."""
    role = {"name": "trainwright.slurm.gpu_stack", "rolespec_validate": False}
    # Outside of a role its path is not known.
    shown = {"msg": "{{ __gpu_stack_units }}"}
    tasks = [
        {"ansible.builtin.import_role": role},
        {
            "name": "Show the units",
            "ansible.builtin.debug": shown,
            "vars": {"role_path": str(ROOT / "roles" / "gpu_stack")},
            "tags": ["configure"],
        },
        {
            "name": "Show the boot",
            "ansible.builtin.debug": {"msg": "waits: {{ __gpu_stack_boot.waits }}"},
            "tags": ["configure"],
        },
    ]
    play = [{"hosts": "all", "gather_facts": False, "tasks": tasks}]
    (path / "play.yml").write_text(yaml.safe_dump(play))
    (path / "hosts").write_text(
        f"c1 ansible_connection=local ansible_python_interpreter={sys.executable}\n"
    )
    for name, ours in TEMPLATES.items():
        (path / name).write_text(
            f"# Of {{{{ inventory_hostname }}}}'s site.\n{{% include '{ours}' %}}\n"
        )
    model = {"stack": {"versions": VERSIONS, "hosts": {"c1": HOST}}}
    given = {"slurm_facts": {"node": NODE}, "slurm_model": model, **variables}
    done = subprocess.run(
        [
            Path(sys.executable).parent / "ansible-playbook",
            *("--check", "--diff", "--tags", "configure", "-i", "hosts", "play.yml"),
            *("-e", json.dumps(given)),
        ],
        cwd=path,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "tests/unit/ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.json",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    results = [task["hosts"]["c1"] for task in json.loads(done.stdout)["plays"][0]["tasks"]]
    diffs = results[0].get("diff") or []
    headers = [re.match(r"\S+", one["after_header"]) for one in diffs]
    files = {found[0]: one["after"] for found, one in zip(headers, diffs, strict=True) if found}
    units = results[1]["msg"] if done.returncode == 0 else []
    return Plan(done.returncode, done.stdout + done.stderr, files, {u["name"]: u for u in units})


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return run(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return run(tmp_path_factory.mktemp("changed"), **SITE)


def test_without_the_sites_variables_only_our_own_is_written(plain: Plan) -> None:
    assert plain.rc == 0, plain.output
    modprobe = "/etc/modprobe.d/trainwright-nvidia.conf"
    assert plain.files[modprobe].splitlines()[1:] == [
        "blacklist nouveau",
        "options nouveau modeset=0",
    ]
    for absent in (
        "/etc/modprobe.d/trainwright-gdrcopy.conf",
        "/etc/nccl.conf",
        "/etc/trainwright/cdi.env",
        f"{UNITS}/nvidia-persistenced.service.d/trainwright.conf",
        f"{UNITS}/nvidia-dcgm.service.d/trainwright.conf",
    ):
        assert absent not in plain.files
    unit = plain.files[f"{UNITS}/trainwright-cdi.service"]
    assert "PrivateTmp=yes" in unit and "WantedBy=multi-user.target" in unit


def test_more_files_of_each_role_are_written_in_the_same_call(changed: Plan) -> None:
    assert changed.rc == 0, changed.output
    for role in ("gpu_stack", *PARTS):
        assert changed.files[f"/etc/site/{role}"] == f"{role}\n"


@pytest.mark.parametrize(
    ("unit", "line"),
    [
        ("trainwright-gpu-stack.service", "TimeoutStartSec=2h"),
        ("nvidia-persistenced.service.d/trainwright.conf", "Nice=1"),
        ("nvidia-dcgm.service.d/trainwright.conf", "Nice=2"),
    ],
)
def test_lines_of_the_site_are_in_the_unit(changed: Plan, unit: str, line: str) -> None:
    assert line in changed.files[str(UNITS / unit)].splitlines()


def test_a_null_removes_one_of_our_lines(changed: Plan) -> None:
    unit = changed.files[f"{UNITS}/trainwright-cdi.service"].splitlines()
    assert "Type=oneshot" in unit and not any(line.startswith("PrivateTmp") for line in unit)
    modprobe = changed.files["/etc/modprobe.d/trainwright-nvidia.conf"]
    assert "blacklist nouveau" in modprobe and "modeset" not in modprobe


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("/usr/lib/trainwright/gpu-stack", "set -eu"),
        ("/etc/modprobe.d/trainwright-nvidia.conf", "options nvidia NVreg_EnableStreamMemOPs=1"),
        ("/usr/lib/trainwright/cdi", "spec=/etc/cdi/nvidia.yaml"),
        ("/etc/nccl.conf", "NCCL_DEBUG=WARN"),
    ],
)
def test_a_template_of_the_site_can_include_ours(changed: Plan, path: str, ours: str) -> None:
    """Role gpu_stack renders it, and the templates belong to its parts."""
    lines = changed.files[path].splitlines()
    assert "# Of c1's site." in lines and ours in lines


def test_settings_are_written(changed: Plan) -> None:
    option = "options gdrdrv dbg_enabled=1"
    assert option in changed.files["/etc/modprobe.d/trainwright-gdrcopy.conf"].splitlines()
    mode = "NVIDIA_CTK_CDI_GENERATE_MODE=nvml"
    assert mode in changed.files["/etc/trainwright/cdi.env"].splitlines()
    # Both units that write the specification read it.
    for unit in ("trainwright-cdi.service", "nvidia-cdi-refresh.service.d/trainwright.conf"):
        assert "EnvironmentFile=-/etc/trainwright/cdi.env" in changed.files[str(UNITS / unit)]


def test_what_a_unit_reads_restarts_it(plain: Plan, changed: Plan) -> None:
    assert list(plain.units) == list(changed.units)
    restarted = {
        name
        for name, unit in plain.units.items()
        if unit.get("stamp") != changed.units[name].get("stamp")
    }
    assert restarted == {"nvidia-persistenced", "nvidia-dcgm", "trainwright-cdi"}
    # It installs at boot, and slurmd requires it.
    assert "state" not in changed.units["trainwright-gpu-stack"]


def test_a_play_of_no_role_can_ask_whether_the_host_waits(plain: Plan) -> None:
    """As image.yml does."""
    assert "waits: False" in plain.output


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"nvidia_driver_files": [{"path": "/etc/modprobe.d/trainwright-nvidia.conf"}]},
            "is there twice, the role itself writes it -> take another path",
        ),
        (
            {"cuda_toolkit_files": [{"path": "/usr/lib/trainwright/cdi"}]},
            "a file of cuda_toolkit and of nvidia_container -> take another path in cuda_toolkit_files or",
        ),
        (
            {"gdrcopy_conf": {"dbg_enabled": "1 use_persistent_mapping=1"}},
            "'1 use_persistent_mapping=1' would not be one value -> write one word",
        ),
        ({"nccl_template": "missing.j2"}, "missing.j2: there is no such file on the control node"),
        ({"nvidia_dcgm_unit": {"Service": {"nice": 1}}}, "'nice' is not a setting of systemd ->"),
    ],
)
def test_a_wrong_value_changes_nothing(tmp_path: Path, variables: t.Any, said: str) -> None:
    done = run(tmp_path, **variables)
    assert done.rc == 2 and said in done.output, done.output
    assert done.files == {}
