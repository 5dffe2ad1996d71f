# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Types, keys and choices that are refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks import shape

from tests.unit.cluster import ARGUMENTS

from .cases import MOUNT, Case, assert_refused, changed, each, node, partitions, setting

CASES: list[Case] = [
    ("list instead of mapping", setting("slurm_conf", ["KillWait=60"]), "cluster", "slurm_conf",
     "KillWait", "write a mapping"),
    ("text instead of number", setting("slurm_rest_port", "http"), "cluster", "slurm_rest_port",
     "'http'", "a whole number"),
    ("unknown choice", setting("slurm_install_method", "distro"), "cluster", "slurm_install_method",
     "'distro'", "write one of distribution, repository, source"),
    ("unknown key of a partition", partitions({"name": "a", "group": ["slurm_compute"], "default": True}),
     "cluster", "slurm_partitions[a]", "unknown key group; did you mean groups?", "use name"),
    ("partition without name", partitions({"groups": ["slurm_compute"], "default": True}), "cluster",
     "slurm_partitions[0]", "lacks name", "add name"),
    ("unknown key of a node", node(memory=4000), "c1", "slurm_node", "did you mean memory_mb?", "use name"),
    ("type of a node's key", node(cpus="many"), "c1", "slurm_node.cpus", "'many'", "a whole number"),
    ("unknown key of gres", node(gres=[{"nmae": "gpu"}]), "c1", "slurm_node.gres[0]",
     "did you mean name?", "use name"),
    ("unknown key of a mount", setting("cluster_mounts", [{**MOUNT, "src": "x"}]), "cluster",
     "cluster_mounts[/shared]", "unknown key src", "use path"),
    ("mount without source", setting("cluster_mounts", [{"path": "/x"}]), "cluster", "cluster_mounts[/x]",
     "lacks source", "add source"),
    ("port missing", setting("slurm_ports", {"slurmctld": 6817, "slurmd": 6818}), "cluster", "slurm_ports",
     "lacks slurmdbd", "add slurmdbd"),
    ("misspelt variable", changed("variables", ["slurm_partition"]), "cluster", "slurm_partition",
     "is not a variable", "write slurm_partitions"),
    ("type of another role's variable",
     setting("node_base_log_days", "many"), "cluster", "node_base_log_days", "is 'many'",
     "write a whole number"),
    ("choice of another role's variable",
     setting("enroot_storage", "tmp"), "cluster", "enroot_storage", "is 'tmp'; did you mean tmpfs?",
     "write one of auto, scratch, tmpfs, root"),
    ("element of another role's variable",
     setting("enroot_hooks", ["50-slurm-pmi.sh", {"name": "x"}]), "cluster", "enroot_hooks[1]",
     "is {'name': 'x'}", "write text"),
    ("key of another role's variable", setting("enroot_credentials", [{"user": "ada", "login": "x", "regsitry": "y"}]),
     "cluster", "enroot_credentials[ada]", "unknown key regsitry; did you mean registry?", "use user"),
    ("choice in a list", setting("node_tools_programs", ["job-lint", "job-lnt"]), "cluster",
     "node_tools_programs[1]", "'job-lnt'; did you mean job-lint?", "write one of job-lint"),
    ("secret of the wrong type", setting("mariadb_external", {"host": "db", "password": 123}), "cluster",
     "mariadb_external.password", "has the wrong type", "write text"),
    ("true for a number", setting("slurm_rest_port", True), "cluster", "slurm_rest_port", "is True",
     "a whole number"),
    ("text for a list", setting("slurm_remove_nodes", "c3"), "cluster", "slurm_remove_nodes", "is 'c3'",
     "write a list"),
    ("null of another role", setting("node_base_log_days", None), "cluster", "node_base_log_days", "is None",
     "a whole number"),
    ("null", setting("slurm_ports", None), "cluster", "slurm_ports", "is None", "write a mapping"),
    ("mapping for a name", setting("slurm_topology", {"switches": [{"name": {"a": 1}}]}), "cluster",
     "slurm_topology.switches[{'a': 1}].name", "is {'a': 1}", "write text or a number"),
    ("list for a name", setting("slurm_topology", {"switches": [{"name": ["a"]}]}), "cluster",
     "slurm_topology.switches[['a']].name", "is ['a']", "write text or a number"),
    ("choice of a repository's key", setting("slurm_repository", {"package_names": "debian"}), "cluster",
     "slurm_repository.package_names", "is 'debian'", "write one of distribution, schedmd"),
    ("no boolean", setting("slurm_allow_state_move", "maybe"), "cluster", "slurm_allow_state_move", "'maybe'",
     "true or false"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)


# --- the argument specs of all roles ------------------------------------------------------------

VALUES: list[t.Any] = [
    *("x", "", "5", "12.0", "6.8e3", float("inf"), "yes", "/x", 5, 1.5, 2.0, True, False, None),
    *(
        [],
        ["x"],
        [5],
        ["5"],
        [True],
        [{}],
        [["x"]],
        [None],
        {},
        {"a": 1},
        {"a": "x"},
        {"a": None},
        [{"a": 1}],
    ),
]
OPTIONS: list[dict[str, t.Any]] = [
    *({"type": kind} for kind in shape.NAMES_OF_TYPES),
    *({"type": "list", "elements": kind} for kind in shape.NAMES_OF_TYPES),
    {"type": "str", "choices": ["x", ""]},
    {"type": "list", "elements": "str", "choices": ["x", "y"], "default": ["x"]},
    {"type": "dict", "options": {"a": {"type": "int", "required": True}}},
    {"type": "dict", "options": {"a": {"type": "raw", "default": "x"}}},
    {"type": "list", "elements": "dict", "options": {"a": {"type": "str"}}},
]


def by_ansible(option: dict[str, t.Any], value: t.Any) -> list[str]:
    """Return what Ansible's own validation of role arguments reports."""
    return ArgumentSpecValidator({"x": option}).validate({"x": value}).error_messages


@pytest.mark.parametrize("option", OPTIONS, ids=str)
def test_nothing_passes_that_ansible_would_refuse(option: dict[str, t.Any]) -> None:
    passed = [value for value in VALUES if not list(shape.faults("h", "x", value, option))]
    assert passed and not [value for value in passed if by_ansible(option, value)]


def nested(label: str, option: dict[str, t.Any]) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """Yield an option and all options in it, by label."""
    yield label, option
    for key, item in (option.get("options") or {}).items():
        yield from nested(f"{label}.{key}", item)


def sample(option: dict[str, t.Any]) -> t.Any:
    """Return a value with every key that the option has."""
    kind = option.get("type", "str")
    if option.get("choices") and kind != "list":
        return option["choices"][-1]
    if kind == "dict":
        return {key: sample(item) for key, item in (option.get("options") or {}).items()}
    if kind == "list":
        return [sample({**option, "type": option.get("elements", "str"), "elements": None})]
    return {"int": 1, "float": 1.5, "bool": True, "path": "/x"}.get(kind, "x")


@pytest.mark.parametrize("name", ARGUMENTS)
def test_specs_and_checks_agree(name: str) -> None:
    """Every key of a spec is known to the checks, and no other key is."""
    option = ARGUMENTS[name]
    value = sample(option)
    assert list(shape.faults("h", name, value, option)) == []
    assert by_ansible(option, value) == []
    for label, part in nested(name, option):
        assert part.get("type", "str") in shape.NAMES_OF_TYPES, label
        if part.get("type") == "list" and part.get("options"):
            assert part["elements"] == "dict", label
        if part.get("options"):
            one = {**sample({**part, "type": "dict"}), "unheard_of": 1}
            found = [str(item) for item in shape.faults("h", label, one, {**part, "type": "dict"})]
            assert len(found) == 1 and "unknown key unheard_of" in found[0]
