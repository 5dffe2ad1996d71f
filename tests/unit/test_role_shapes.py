# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Roles have one shape: main only imports, files.yml has what is written, private variables stay simple."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import jinja2
import pytest
import yaml

from tests.unit.test_roles import DAEMONS, ROLES, ROOT, load, specs, strings, tasks

PHASES = ("install", "configure", "service")
# Roles whose phase has a name of its own: they change nothing on the hosts.
OWN_PHASES = {
    "cluster": ("facts", "model"),
    "support_bundle": ("collect",),
    "validate": ("run", "report"),
}
# Every other role reads slurm_model, so --tags slurmd has to make it.
ALWAYS = ("cluster",)
# What a role that can be customised does not have, and why.
NOT_THERE = {
    "slurmctld_conf": "slurm.conf, which is slurm_conf",
    "slurmd_conf": "slurm.conf, which is slurm_conf",
    "slurm_auth_conf": "munge has a key and no configuration",
    "slurm_auth_template": "the same",
    "aws_ofi_nccl_conf": "variables of jobs",
    "aws_ofi_nccl_template": "its file has the place of the plugin alone",
    "cuda_toolkit_conf": "packages alone, which read no configuration",
    "cuda_toolkit_unit": "the same",
    "cuda_toolkit_template": "the same",
    "efa_unit": "kernel modules, which udev loads",
    "efa_template": "efa_conf is the whole of its file",
    "gdrcopy_unit": "systemd loads its kernel module",
    "gdrcopy_template": "gdrcopy_conf is the whole of its file",
    "gpu_stack_conf": "that of its parts",
    "nccl_unit": "a library",
    "nvidia_dcgm_conf": "nv-hostengine has options, which are in its unit",
    "nvidia_dcgm_template": "the same",
    "openmpi_unit": "a library",
    "rdma_core_unit": "systemd loads its kernel modules",
    "rdma_core_template": "rdma_core_conf is the whole of its file",
}

#: The roles of a node's GPU and network software.
STACK = {
    "gpu_stack",
    "nvidia_driver",
    "cuda_toolkit",
    "nvidia_dcgm",
    "nvidia_container",
    "gdrcopy",
    "nccl",
    "nccl_tests",
    "efa",
    "aws_ofi_nccl",
    "openmpi",
    "rdma_core",
}


@pytest.mark.parametrize("role", ROLES)
def test_main_only_imports_and_tags(role: str) -> None:
    for task in load(ROOT / "roles" / role / "tasks" / "main.yml"):
        assert set(task) <= {"name", "ansible.builtin.import_tasks", "tags", "when"}, task["name"]
        phase = task["ansible.builtin.import_tasks"].removesuffix(".yml")
        assert task["tags"][0] == role
        assert ("always" in task["tags"]) is (role in ALWAYS)
        if role in OWN_PHASES:
            assert phase in OWN_PHASES[role]
        else:
            assert set(task["tags"]) & set(PHASES), f"{task['name']}: one of {PHASES}"
            assert phase not in PHASES or phase in task["tags"]


@pytest.mark.parametrize("role", ROLES)
def test_tags_reach_what_is_included_when_the_role_runs(role: str) -> None:
    """An include of a phase hands its tags on by `apply`, or its tasks have tags of their own."""
    directory = ROOT / "roles" / role / "tasks"
    for phase in PHASES:
        path = directory / f"{phase}.yml"
        for task in tasks(path) if path.is_file() else ():
            for name in ("ansible.builtin.include_tasks", "ansible.builtin.include_role"):
                given = task.get(name)
                if isinstance(given, dict) and "apply" in given:
                    assert role in given["apply"]["tags"], f"{path}: {task['name']}"
                elif isinstance(given, str) and "{{" not in given and "tags" in task:
                    assert all({role, phase} <= set(one["tags"]) for one in load(directory / given))


@pytest.mark.parametrize("role", ROLES)
def test_a_file_of_tasks_is_chosen_by_name(role: str) -> None:
    """Never made of what a host says of itself, which could be the path of any file on the control node."""
    directory = ROOT / "roles" / role
    choices = {
        name: str(value)
        for path in (directory / "vars").glob("**/*.yml")
        for name, value in (load(path) or {}).items()
    }
    for path in (directory / "tasks").glob("*.yml"):
        for text in re.findall(
            r"include_(?:tasks|vars|role): *(.*)|file: *(.*)", path.read_text("utf-8")
        ):
            given = "".join(text).strip("\"' ")
            inner = re.fullmatch(r"\{\{ (\w+) \}\}", given)
            chosen = choices.get(inner[1], given) if inner else given
            assert "~" not in chosen and not re.search(r"\w\{\{|\}\}\w|\}\}\.", chosen), (
                f"{path}: {chosen}"
            )


def filters(expression: t.Any) -> int:
    """How many filters are chained or nested in an expression of Jinja."""
    return len(list(expression.find_all(jinja2.nodes.Filter))) + isinstance(
        expression, jinja2.nodes.Filter
    )


@pytest.mark.parametrize("role", ROLES)
def test_no_private_variable_has_more_than_two_filters(role: str) -> None:
    """Anything longer is a tested filter, or a template."""
    environment = jinja2.Environment()
    for path in (ROOT / "roles" / role / "vars").glob("**/*.yml"):
        for name, value in (load(path) or {}).items():
            for text in strings(value):
                for output in environment.parse(text).find_all(jinja2.nodes.Output):
                    assert max(map(filters, output.nodes), default=0) <= 2, f"{path}: {name}"


@pytest.mark.parametrize("role", ROLES)
def test_what_a_role_writes_and_runs_is_in_vars_files(role: str) -> None:
    names: dict[str, set[str]] = {"directories": set(), "files": set(), "units": set()}
    found = ROOT / "roles" / role / "vars" / "main" / "files.yml"
    given = set(load(found)) if found.is_file() else set()
    for phase in PHASES:
        path = ROOT / "roles" / role / "tasks" / f"{phase}.yml"
        for task in tasks(path) if path.is_file() else ():
            for module in ("config_files", "services", "slurmctld_config"):
                for option, value in (task.get(f"trainwright.slurm.{module}") or {}).items():
                    if option in names:
                        names[option].add(value)
    other = {f"{{{{ __{role}_other_files }}}}"}
    for option, values in names.items():
        assert values - other <= {f"{{{{ __{role}_{option} }}}}"}, f"{role}: {option}"
        assert not values or f"__{role}_{option}" in given, f"{role}: {option}"


@pytest.mark.parametrize("point", ["conf", "unit", "files", "template"])
@pytest.mark.parametrize("role", [*DAEMONS, *sorted(STACK - {"nccl_tests"})])
def test_every_role_can_be_customised_in_the_same_ways(role: str, point: str) -> None:
    name = f"{role}_{point}"
    option = specs(role)["main"]["options"].get(name)
    if name in NOT_THERE:
        assert option is None
        return
    shape = {
        "conf": ("dict", {}),
        "unit": ("dict", {}),
        "files": ("list", []),
        "template": ("str", ""),
    }
    assert (option["type"], option["default"]) == shape[point]
    files = list((ROOT / "roles" / role).glob("vars/main/*.yml"))
    files += (ROOT / "roles" / role / "templates").glob("*.j2")
    # slurmdbd's is merged where the cluster model is built.
    if name != "slurmdbd_conf":
        assert any(re.search(rf"\b{name}\b", path.read_text()) for path in files), (
            f"{name} does nothing"
        )


def whole_roles(playbook: Path) -> set[str]:
    """The roles whose main a playbook runs, those of the playbooks that it imports included."""
    found: set[str] = set()
    for entry in tasks(playbook):
        if imported := entry.get("ansible.builtin.import_playbook"):
            found |= whole_roles(playbook.parent / imported)
        found |= {role["role"] for role in entry.get("roles", ())}
        given = entry.get("ansible.builtin.import_role") or {}
        found |= {given["name"]} if given and "tasks_from" not in given else set()
    return {name.removeprefix("trainwright.slurm.") for name in found}


def by_site() -> set[str]:
    """Roles of site.yml; test_converge.py compares its --check of fresh hosts with the real run."""
    text = (ROOT / "tests" / "integration" / "conftest.py").read_text("utf-8")
    assert 'first_check = made.play("site.yml", "--check")' in text
    # It builds from source in `make soak` only.
    return whole_roles(ROOT / "playbooks" / "site.yml") - {"slurm_build"}


def by_molecule() -> set[str]:
    """Roles that a scenario runs alone; test_molecule.py reads the two steps `check` of `molecule test`."""
    sequence = load(ROOT / ".config" / "molecule" / "config.yml")["scenario"]["test_sequence"]
    converge = sequence.index("converge")
    assert "check" in sequence[:converge] and "check" in sequence[converge:]
    scenarios = [path.parents[1] for path in ROOT.glob("molecule/*/vars/cluster.yml")]
    alone = [path for path in scenarios if load(path / "vars/cluster.yml")["cluster"].get("bare")]
    assert not any("test_sequence" in load(path / "molecule.yml")["scenario"] for path in alone)
    return set().union(*(whole_roles(path / "converge.yml") for path in alone))


def test_every_role_runs_in_check_mode_with_its_documented_input() -> None:
    services = (ROOT / "tests" / "integration" / "test_services.py").read_text("utf-8")
    assert '"support_bundle.yml", "--check"' in services
    validation = (ROOT / "tests" / "integration" / "test_validate.py").read_text("utf-8")
    assert '"validate.yml", "--check"' in validation
    # Of slurm_build: the test below.
    elsewhere = {"support_bundle", "slurm_build", "validate"}
    alone, site = by_molecule(), by_site()
    assert alone >= {"enroot", "mariadb", "node_base", "node_tools"}
    assert alone >= STACK, "site.yml runs them on hardware that tests lack"
    assert set(ROLES) == alone | site | elsewhere


def test_role_slurm_build_plans_a_build_in_check_mode(tmp_path: Path) -> None:
    model = {"installed_version": ""}
    given = {
        "slurm_model": model,
        "slurm_version": "24.11.5",
        "artifact_cache": str(tmp_path / "c"),
    }
    include = {"name": "trainwright.slurm.slurm_build"}
    play = {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.include_role": include, "vars": given}],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [
            *(Path(sys.executable).parent / "ansible-playbook", "--check", "play.yml"),
            *(
                "-i",
                "localhost,",
                "-c",
                "local",
                "-e",
                f"ansible_python_interpreter={sys.executable}",
            ),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "tests/unit/ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "would build slurm-24.11.5-" in done.stdout
    assert not (tmp_path / "c").exists() and list(tmp_path.iterdir()) == [tmp_path / "play.yml"]
