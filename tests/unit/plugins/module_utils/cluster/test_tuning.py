# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a node is tuned, by what it has and what the site wants; and that the guide shows the same table."""

from __future__ import annotations

import configparser
import re
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.filter.tuning_plan import tuning_plan
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import tuning
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware.tuning_data import (
    BASE,
    CONDITIONS,
    ROWS,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node import sysctl

from tests.unit.cluster import DEFAULTS, ROOT, inputs

GUIDE = ROOT / "docs" / "node_tuning.md"
CPU: dict[str, t.Any] = {"memory_mb": 64000, "kernel": "6.12", "gpus": [], "efa": [], "nics": []}
GPU = {**CPU, "on_bus": {"gpus": 8, "efa": 0}}
EFA = {**CPU, "on_bus": {"gpus": 8, "efa": 32}}
FAST = {**CPU, "nics": [{"name": "ens1", "speed_mbps": 100000}]}


def settings(**given: t.Any) -> dict[str, t.Any]:
    own = {key: value for key, value in DEFAULTS.items() if key.startswith("node_tuning_")}
    return {**own, **{f"node_tuning_{key}": value for key, value in given.items()}}


def plan(node: dict[str, t.Any], **given: t.Any) -> dict[str, t.Any]:
    return tuning.plan(node, settings(**given))


def keys(node: dict[str, t.Any]) -> set[str]:
    return set(plan(node)["sysctl"])


def test_each_setting_comes_with_its_hardware() -> None:
    everywhere = {"vm.dirty_background_ratio", "vm.dirty_ratio", "vm.max_map_count"}
    tcp = {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
    assert keys(CPU) == everywhere
    assert keys(GPU) == everywhere | {"kernel.numa_balancing"}
    assert keys(FAST) == everywhere | tcp
    both = {"kernel.numa_balancing", "kernel.yama.ptrace_scope"}
    assert keys(EFA) == everywhere | tcp | both
    # As a node with drivers reports them.
    assert keys({**CPU, "gpus": [{"index": 0}], "efa": ["rdmap0"]}) == keys(EFA)


@pytest.mark.parametrize(
    ("node", "name"),
    [(CPU, "trainwright-cpu"), (FAST, "trainwright-cpu"), (EFA, "trainwright-gpu")],
)
def test_the_profile_has_the_same_values_as_the_file(node: t.Any, name: str) -> None:
    made = plan(node, sysctl={"net.ipv4.conf.all.rp_filter": 2}, transparent_hugepages="madvise")
    assert (made["profile"], made["replace"], made["state"]) == (name, False, "present")
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(made["profile_text"])
    assert parser["main"]["include"] == BASE
    assert dict(parser["sysctl"]) == made["sysctl"]
    assert made["sysctl"]["net.ipv4.conf.all.rp_filter"] == "2"
    assert parser["cpu"]["governor"] == "performance"
    assert dict(parser["vm"]) == {
        "dirty_background_ratio": "10",
        "dirty_ratio": "20",
        "transparent_hugepages": "madvise",
    }


def test_the_site_changes_adds_and_removes() -> None:
    given = {"vm.max_map_count": 262144, "kernel.numa_balancing": None, "vm/swappiness": "1"}
    made = plan(GPU, sysctl=given, hugepages=512, cpu_governor="")
    assert made["sysctl"] == {
        "vm.dirty_background_ratio": "10",
        "vm.dirty_ratio": "20",
        "vm.max_map_count": "262144",
        "vm.nr_hugepages": "512",
        "vm.swappiness": "1",
    }
    assert "[cpu]" not in made["profile_text"] and not made["governor"]


def test_a_number_of_bytes_replaces_our_ratio() -> None:
    """The kernel sets the one that was written earlier to 0."""
    made = plan(CPU, sysctl={"vm.dirty_bytes": 2**30, "vm.dirty_background_bytes": 2**28})
    assert not {"vm.dirty_ratio", "vm.dirty_background_ratio"} & set(made["sysctl"])


def test_a_profile_of_the_site_replaces_the_table_alone() -> None:
    made = plan(EFA, profile="hpc-compute", sysctl={"vm.swappiness": 1}, kernel_arguments=["a=1"])
    assert (made["profile"], made["profile_text"], made["governor"]) == ("hpc-compute", "", "")
    assert made["sysctl"] == {"vm.swappiness": "1"}
    assert made["replace"] and made["kernel_arguments"] == ["a=1"]


def test_none_asks_for_nothing() -> None:
    made = plan(EFA, profile="none")
    assert made["state"] == "absent" and not made["sysctl"] and not made["profile"]
    assert plan(EFA, profile="trainwright")["replace"] is True


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("vm.swappiness", "vm/swappiness"),
        ("net.ipv4.conf.eth0/1.rp_filter", "net/ipv4/conf/eth0.1/rp_filter"),
        ("net/ipv4/conf/eth0.1/rp_filter", "net/ipv4/conf/eth0.1/rp_filter"),
    ],
)
def test_names_of_settings_are_read_as_sysctl_d_reads_them(key: str, path: str) -> None:
    assert sysctl.proc_path(key) == f"/proc/sys/{path}"
    assert sysctl.proc_path(sysctl.plain_key(key)) == f"/proc/sys/{path}"


def faults(node: dict[str, t.Any], **given: t.Any) -> str:
    chosen = settings(**given)
    found = [*tuning.problems(chosen), *tuning.host_problems(node, chosen)]
    return "\n".join(f"{name}: {what} -> {remedy}" for name, what, remedy in found)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"profile": "my profile"}, r"node_tuning_profile: 'my profile' is not the name .* -> write auto"),
        ({"profile": "../x"}, r"node_tuning_profile: '../x' is not the name"),
        ({"profile": "trainwright-gpu"}, r"node_tuning_profile: .* -> write trainwright"),
        ({"sysctl": {"swappiness": 1}}, r"node_tuning_sysctl.swappiness: is not the name of one"),
        ({"sysctl": {"net.ipv4.conf.*.rp_filter": 1}}, r"is not the name of one kernel setting"),
        ({"sysctl": {"vm.../../x": 1}}, r"is not the name of one kernel setting"),
        ({"sysctl": {"vm.swappiness": True}}, r"vm.swappiness: True is not a number .* -> write 0 or 1"),
        ({"sysctl": {"vm.swappiness": 1.5}}, r"1.5 is not a number"),
        ({"sysctl": {"vm.swappiness": "1\nkernel.x=2"}}, r"is not a number or words"),
        ({"sysctl": {"vm.swappiness": ""}}, r"'' is not a number"),
        ({"sysctl": {"vm.swappiness": [1]}}, r"\[1\] is not a number"),
        ({"sysctl": {"vm.swappiness": None}}, r"it is none of them -> .*vm.max_map_count"),
        ({"sysctl": {"vm.nr_hugepages": 4}}, r"-> set node_tuning_hugepages"),
        ({"sysctl": {"vm.nosuch": 4}}, r"the kernel of this node \(6.12\) does not have it"),
        ({"hugepages": -1}, r"node_tuning_hugepages: is negative"),
        ({"hugepages": 24001}, r"24001 pages are 48002 MiB, and the node has 64000 -> write at most 24000"),
        ({"transparent_hugepages": "yes"}, r"'yes' is not a mode -> write one of always, madvise, never"),
        ({"cpu_governor": "Fast Mode"}, r"'Fast Mode' is not a governor"),
        ({"kernel_arguments": ["a b"]}, r"'a b' is not one argument"),
        ({"kernel_arguments": ["x=$(reboot)"]}, r"is not one argument of the kernel"),
        ({"kernel_arguments": ["root=/dev/sdb1"]}, r"root=/dev/sdb1 decides what the node boots"),
        ({"profile": "none", "hugepages": 4}, r"hugepages: has no effect with node_tuning_profile: none"),
        ({"profile": "mine", "transparent_hugepages": "never"}, r"has no effect with node_tuning_profile: mine"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_values_are_refused_with_their_remedy(given: dict[str, t.Any], line: str) -> None:
    node = {**CPU, "files": {"/proc/sys/vm/nosuch": False, "/proc/sys/vm/swappiness": True}}
    found = faults(node, **given)
    assert re.search(line, found) and len(found.splitlines()) == 1, found
    # A value of one group of hosts is refused as well, by the filter that plans for the host.
    with pytest.raises(AnsibleFilterError, match=line):
        tuning_plan(node, settings(**given))


def test_good_values_are_not_refused() -> None:
    given = {
        "sysctl": {"vm.swappiness": 1, "net.ipv4.tcp_rmem": "4096  131072 33554432", "vm/x": "a"},
        "hugepages": 24000,
        "kernel_arguments": ["intel_idle.max_cstate=1", "nosmt", "pci=noaer,nomsi"],
        "transparent_hugepages": "never",
    }
    assert not faults({**CPU, "files": {}}, **given)


def test_preflight_refuses_what_one_node_cannot_have() -> None:
    given = inputs(2, node_tuning_hugepages=3000)
    assert not problems(given)
    given["facts"]["c2"]["memory_mb"] = 7000
    [found] = problems(given)
    assert (found.host, found.variable) == ("c2", "node_tuning_hugepages")


def test_preflight_leaves_containers_to_their_host() -> None:
    """The defaults do not apply there; what a site asks for would be for nothing."""
    given = inputs(2, node={"virtualization": "container"})
    assert build_model(given)["tuning"]["hosts"] == []
    assert not problems(given)
    given["settings"]["node_tuning_hugepages"] = 4
    [found] = [str(problem) for problem in problems(given)]
    assert found.startswith(
        "c[1-2]: node_tuning_hugepages: this node is a container, and its kernel"
    )


def test_two_values_of_one_governor_or_one_setting_are_refused() -> None:
    given = inputs(2, job_hooks_cpu_governor="schedutil")
    given["groups"]["slurm_job_hooks"] = ["c1"]
    [found] = problems(given)
    assert found.variable == "job_hooks_cpu_governor" and "performance" in found.what
    given["settings"]["node_tuning_profile"] = "none"
    assert not problems(given)
    given = inputs(2, node_tuning_sysctl={"net.core.somaxconn": 1})
    [found] = problems(given)
    assert found.variable == "node_tuning_sysctl.net.core.somaxconn" and "node_base" in found.what


def test_the_model_has_the_nodes_and_the_package() -> None:
    assert build_model(inputs(2))["tuning"] == {"hosts": ["c1", "c2"], "packages": ["tuned"]}
    assert build_model(inputs(2, node_tuning_profile="none"))["tuning"] == {
        "hosts": ["c1", "c2"],
        "packages": [],
    }


def test_every_row_has_a_reason_and_is_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert [row.name for row in ROWS] == sorted(row.name for row in ROWS)
    for row in ROWS:
        cells = (f"`{row.name}`", f"`{row.value}`", CONDITIONS[row.when], row.why, row.source)
        assert f"| {' | '.join(cells)} |" in text, f"docs/node_tuning.md: {row.name}"
    assert len(re.findall(r"^\| `[a-z]+\.\S+` \| `", text, re.M)) == len(ROWS)
