# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""All checks together: a good cluster passes, and the problems of a bad one come at once."""

from __future__ import annotations

import copy
import inspect
import time
import types
import typing as t

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks import (
    registry,
    shape,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.inputs import Problem
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import gpus, inputs

from . import (
    test_accounting,
    test_database,
    test_hosts,
    test_installation,
    test_inventory,
    test_moves,
    test_nodes,
    test_partitions,
    test_shape,
    test_slurm,
    test_storage,
    test_users,
)
from .cases import (
    DEBIAN_12,
    GPU,
    MOUNT,
    OLD,
    every,
    fact,
    live,
    node,
    partitions,
    recorded,
    resolve,
    setting,
    two_controllers,
    unanswered,
)

TABLES = (
    *(test_accounting, test_database, test_hosts, test_installation, test_inventory, test_nodes),
    *(test_moves, test_partitions, test_shape, test_slurm, test_storage, test_users),
)


@pytest.mark.parametrize("compute", [1, 2, 40])
def test_a_good_cluster_has_none(compute: int) -> None:
    """Valid input is accepted."""
    assert problems(inputs(compute)) == []


@pytest.mark.parametrize(
    "given",
    [
        two_controllers(slurm_state_save_location="/shared/state", cluster_mounts=[MOUNT]),
        node(cpus=64),  # for tests: config_overrides
        node(cpus="16", memory_mb="4000"),
        node(facts={"gpus": gpus(4)}, gres=[GPU]),
        # for tests: resources that are counted only
        node(facts={"gpus": [], "virtualization": "container"}, gres=[{"name": "gpu", "type": "h100", "count": 8}]),
        setting("slurm_conf", {"KillWait": None, "SchedulerParameters": "bf_continue"}),
        setting("slurm_version", "24.11.5"),
        setting("cluster_mounts", [MOUNT]),
        setting("cluster_users", [{"name": "ada", "uid": 2001, "groups": ["x"], "ssh_authorized_keys": []}]),
        partitions({"name": "a", "nodes": "c[1-2]"}),
        partitions({"name": "stable", "groups": ["slurm_compute"], "default": True,
                    "options": {"PriorityTier": 10}},
                   {"name": "opportunistic", "groups": ["slurm_compute"],
                    "options": {"PriorityTier": 1, "PreemptMode": "REQUEUE"}}),
        fact("ctl", ports={"6817": "slurmctld", "6819": "slurmdbd"}),
        fact("c1", reach={"10.0.0.2:6817": "refused", "10.0.0.2:6819": "open"}),
        fact("c1", clock_offset_s=100.0, clock_error_s=50.0),
        live(StateSaveLocation="/var/spool/slurmctld", SlurmdSpoolDir="/var/spool/slurmd",
             AuthType="auth/munge", ClusterName="cluster"),
        [live(StateSaveLocation="/old"), ("slurm_allow_state_move", True)],
        [live(StateSaveLocation="/old"), ("slurm_allow_state_move", "true")],  # as -e gives it
        setting("slurm_accounts", [{"name": "lab", "fairshare": 10, "users": ["ada"]}]),
        setting("node_base_log_days", "30"),
        setting("slurm_max_clock_skew", 59.5),
        setting("slurm_topology", {"switches": [{"name": 1, "nodes": ["c1", "c2"]}]}),
        setting("slurm_accounts", [{"name": "lab", "fairshare": "parent", "users": [{"name": "ada"}]}]),
        setting("cluster_users", [{"name": "ada", "uid": "2001", "shell": None}]),
        setting("cluster_mounts", [{**MOUNT, "purpose": "", "options": ["ro"],
                                    "directories": [{"path": "/shared/a", "mode": "0755", "owner": 0}]}]),
        unanswered("c2"),
        recorded(),
        [every(slurm=OLD, os=DEBIAN_12)],
        [fact("c1", users={"ada": {"uid": 5000, "gid": 1}}),
         ("cluster_users", [{"name": "ada", "uid": 2001}]), ("cluster_users_source", "directory")],
    ],
)  # fmt: skip
def test_what_is_allowed(given: t.Any) -> None:
    """No false alarms."""
    given = resolve(copy.deepcopy(given))
    assert [str(problem) for problem in problems(given)] == []
    for name, option in given["arguments"].items():
        # Ansible validates the arguments of the roles that come later, and must agree.
        validator = ArgumentSpecValidator({name: option})
        assert not validator.validate({name: given["settings"][name]}).error_messages
    build_model(given)


def test_all_problems_at_once() -> None:
    """A person corrects everything in one go, wrong types or not."""
    given = setting("slurm_conf", ["x"])
    given["settings"]["slurm_partitions"] = "batch"
    given["facts"]["c1"]["os"] = {"id": "amzn", "version": "2"}
    given["facts"]["c2"]["clock_offset_s"] = 500
    given["groups"]["slurm_database"] = ["ctl", "c1"]
    variables = {problem.variable for problem in problems(given)}
    assert variables >= {
        "slurm_conf",
        "slurm_partitions",
        "operating system",
        "clock",
        "group slurm_database",
    }


def test_the_same_problem_of_many_hosts_is_one_line() -> None:
    """A hundred hosts behind a firewall are one problem."""
    given = inputs(100)
    for host in given["groups"]["slurm_compute"]:
        given["facts"][host]["reach"] = {"10.0.0.2:6817": "filtered: timed out"}
    assert [problem.host for problem in problems(given)] == ["c[1-100]"]


def test_form_of_a_line() -> None:
    """The form that people and the run summary read."""
    assert str(Problem("c1", "clock", "is wrong", "set it")) == "c1: clock: is wrong -> set it"
    odd = str(Problem("c1", "slurm_conf.a\nctl1: b", "is \x1b[2Jwrong", "set it"))
    assert odd == "c1: slurm_conf.a\\nctl1: b: is \\x1b[2Jwrong -> set it"


def test_thousand_hosts_are_fast() -> None:
    """Preflight and model of a thousand nodes take seconds at most, on a busy machine too."""
    given = inputs(1000, node={"gpus": gpus(8)})
    start = time.process_time()
    assert problems(given) == []
    build_model(given)
    assert time.process_time() - start < 5


def test_a_host_that_is_down_is_no_closed_port() -> None:
    given = inputs(compute=2)
    address = "10.0.0.77"
    given["host_vars"]["c2"]["ansible_host"] = address
    del given["facts"]["c2"]
    given["facts"]["ctl"]["reach"] = {f"{address}:6818": "filtered: no answer in 3 s"}
    assert not problems(given)


def test_cases_are_of_many_kinds() -> None:
    """Each case of the tables is another kind of problem."""
    kinds = {(case[3], case[4]) for table in TABLES for case in table.CASES}
    assert len(kinds) > 100


def test_every_check_is_registered() -> None:
    """A check that its file leaves out of CHECKS would never run."""
    modules = [item for item in vars(registry).values() if isinstance(item, types.ModuleType)]
    checks = {
        function
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isgeneratorfunction)
        if function.__module__ == module.__name__
        and list(inspect.signature(function).parameters) == ["inputs"]
    }
    assert len(modules) >= 13
    assert checks == {*shape.CHECKS, *registry.CHECKS}
