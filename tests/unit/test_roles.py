# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every role keeps to: specs agree with defaults, and the house's rules for tasks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.parents[1].name for path in ROOT.glob("roles/*/tasks/main.yml"))
# Roles whose public variables had their names before the role had its own.
PREFIXES = {
    "gpu_stack": ("gpu_stack",),
    "cluster": ("slurm_", "cluster_", "node_scratch_"),
    "slurm_packages": ("slurm_",),
}
TASK_FILES = sorted([*ROOT.glob("roles/*/tasks/**/*.yml"), *ROOT.glob("playbooks/**/*.yml")])


# The roles of daemons: one shape for what they write, and the same ways to customise them.
DAEMONS = (
    "slurm_auth",
    "slurm_login",
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurmrestd",
    "node_health",
)
# Roles that read slurm_model, each with the same words where it is missing.
NEED_MODEL = (*DAEMONS, "slurm_accounts", "slurm_packages")


def load(path: Path) -> t.Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def specs(role: str) -> dict[str, t.Any]:
    return load(ROOT / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"]


@pytest.mark.parametrize("role", ROLES)
def test_argument_specs_and_defaults_agree(role: str) -> None:
    defaults = load(ROOT / "roles" / role / "defaults" / "main.yml") or {}
    documented: dict[str, t.Any] = {}
    for entry, spec in specs(role).items():
        for name, option in (spec.get("options") or {}).items():
            assert option == documented.setdefault(name, option), f"{name} differs in {entry}"
    assert set(documented) == set(defaults)
    wrong = {
        name: (option.get("default"), defaults[name])
        for name, option in documented.items()
        if option.get("default") != defaults[name]
    }
    assert not wrong, f"(in meta/argument_specs.yml, in defaults/main.yml): {wrong}"


@pytest.mark.parametrize("role", ROLES)
def test_defaults_are_literals_and_carry_the_roles_prefix(role: str) -> None:
    text = (ROOT / "roles" / role / "defaults" / "main.yml").read_text(encoding="utf-8")
    assert "{{" not in text, "what is derived belongs in vars/"
    prefixes = PREFIXES.get(role, (f"{role}_",))
    assert all(name.startswith(prefixes) for name in yaml.safe_load(text) or {})


def test_each_public_variable_is_in_one_role() -> None:
    owners: dict[str, str] = {}
    for role in ROLES:
        for name in load(ROOT / "roles" / role / "defaults" / "main.yml") or {}:
            assert owners.setdefault(name, role) == role, name


@pytest.mark.parametrize("role", ROLES)
def test_private_variables_are_marked(role: str) -> None:
    for path in (ROOT / "roles" / role / "vars").glob("**/*.yml"):
        names = load(path) or {}
        if path.name == "model.yml":
            # The one name that all roles share; the text is what a role says where it is missing.
            assert set(names) == {"slurm_model"}
            continue
        assert all(name.startswith(f"__{role}_") for name in names), path


@pytest.mark.parametrize("role", ROLES)
def test_every_entry_point_is_a_task_file_and_described(role: str) -> None:
    for entry, spec in specs(role).items():
        assert (ROOT / "roles" / role / "tasks" / f"{entry}.yml").is_file()
        assert spec["short_description"] and spec["description"] and spec["version_added"]


def tasks(path: Path) -> t.Iterator[dict[str, t.Any]]:
    """All tasks of a file, those in blocks and plays included."""

    def walk(entries: list[dict[str, t.Any]] | None) -> t.Iterator[dict[str, t.Any]]:
        for entry in entries or []:
            yield entry
            for key in (
                "block",
                "rescue",
                "always",
                "tasks",
                "pre_tasks",
                "post_tasks",
                "handlers",
            ):
                yield from walk(entry.get(key))

    yield from walk(load(path))


@pytest.mark.parametrize("path", TASK_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_tasks_keep_to_the_rules(path: Path) -> None:
    for task in tasks(path):
        name = task.get("name", "")
        assert not {"shell", "ansible.builtin.shell", "raw", "ansible.builtin.raw"} & set(task), (
            name
        )
        assert "ignore_errors" not in task, name
        assert "{{" not in name, f"{name}: a name that can be searched for"
        if "ansible.builtin.command" in task:
            assert "changed_when" in task, f"{name}: a command says when it changed something"
        plain = {key for key in task if key in ("command", "copy", "template", "apt", "service")}
        assert not plain, f"{name}: FQCN instead of {plain}"


def test_modules_read_slurm_conf_where_this_cluster_has_it() -> None:
    """By its default, cluster_secrets would make keys beside those of a cluster in /opt/slurm/etc."""
    found = {}
    for path in TASK_FILES:
        for task in tasks(path):
            for module in ("cluster_secrets", "image_clean", "slurm_proof"):
                given = task.get(f"trainwright.slurm.{module}") or {}
                # The certificate authority is in a directory of its own.
                if given and given.get("want") != ["ssh_ca"]:
                    found[f"{path.name}: {module}"] = given.get("config_dir")
    assert len(found) == 6
    assert set(found.values()) == {"{{ slurm_model.config_dir }}"}, found


def test_mariadb_is_told_who_logs_in() -> None:
    """Otherwise it is $USER, which su leaves as it was before root."""
    asked = [
        task[module]
        for task in tasks(ROOT / "roles/mariadb/tasks/service.yml")
        for module in task
        if module.startswith("community.mysql.")
    ]
    assert [options["login_user"] for options in asked] == ["root", "root"]


def strings(value: t.Any) -> t.Iterator[str]:
    """All texts in a variable."""
    if isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


# The first task of slurm_auth runs once for all hosts, and its failure would stop the others here.
@pytest.mark.parametrize("roles", [NEED_MODEL[:1], NEED_MODEL[1:]], ids=["slurm_auth", "others"])
def test_a_role_without_the_model_says_what_it_needs(
    roles: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "hosts").write_text("".join(f"{role} ansible_connection=local\n" for role in roles))
    include = {
        "ansible.builtin.include_role": {"name": "trainwright.slurm.{{ inventory_hostname }}"}
    }
    play = [{"hosts": "all", "gather_facts": False, "tasks": [include]}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(play))
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "--check", "-i", "hosts", "play.yml"],
        cwd=tmp_path,
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
    assert done.returncode == 2, done.stdout + done.stderr
    said = {
        role: result["hosts"][role]["msg"]
        for result in json.loads(done.stdout)["plays"][0]["tasks"]
        for role in result["hosts"]
        if result["hosts"][role].get("failed")
    }
    for role in roles:
        wanted = f"role {role} needs the cluster model -> run role trainwright.slurm.cluster"
        assert wanted in said.get(role, ""), (role, said.get(role))
        main = specs(role)["main"]["description"]
        assert any(line.startswith("Requires: role cluster") for line in main)


@pytest.mark.parametrize("path", TASK_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_remedies_name_playbooks_as_everybody_can_run_them(path: Path) -> None:
    """Who installed the collection has no directory playbooks/; trainwright.slurm.NAME works in a clone as well."""
    for task in tasks(path):
        for text in strings(task):
            assert not re.search(r"ansible-playbook .*playbooks/", text), task.get("name")


def test_no_file_names_the_place_of_this_checkout() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    # The directory around it too, unless that is short enough to be a path on a node, such as /srv.
    place = re.escape(str(ROOT.parent if len(ROOT.parts) > 3 else ROOT))
    pattern = re.compile(rf"(?<![\w.]){place}(?=[/\s'\"]|$)", re.MULTILINE)
    found = []
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.is_file() and not path.is_symlink():
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [f"{name}: {match.group()}" for match in pattern.finditer(text)]
    assert not found
