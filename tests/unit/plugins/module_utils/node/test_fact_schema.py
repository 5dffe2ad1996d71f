# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Each fact has a type, a pattern and bounds; the facts of real hosts fit, and no lie that was tried does."""

from __future__ import annotations

import copy
import json
import time
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.node import fact_schema, facts
from ansible_collections.trainwright.slurm.plugins.modules import node_facts

from tests.unit.cluster import gpus

RECORDED: dict[str, dict[str, t.Any]] = json.loads(
    (Path(__file__).parents[4] / "fixtures" / "cluster" / "facts.json").read_text(encoding="utf-8")
)
GATHERED = facts.gather([22], ["127.0.0.1:1"], ["/var"], ["bob"], [0], [0], ["/bin/sh", "a.so"])
KEY = RECORDED["c1"]["ssh_host_key"]


def changed(path: str, value: t.Any) -> dict[str, t.Any]:
    """The facts of c1 with another value at a place such as gpus.0.device."""
    made = copy.deepcopy(
        {**RECORDED["c1"], "gpus": gpus(1), "files": {}, "sudoers": {"users": [], "groups": []}}
    )
    *way, last = path.split(".")
    place: t.Any = made
    for step in way:
        place = place[int(step) if isinstance(place, list) else step]
    place[int(last) if isinstance(place, list) else last] = value
    return made


@pytest.mark.parametrize("host", sorted(RECORDED))
def test_the_facts_of_real_hosts_fit(host: str) -> None:
    assert fact_schema.fault(RECORDED[host]) == ""


def test_what_the_module_gathers_here_fits_and_is_whole() -> None:
    assert fact_schema.fault({**GATHERED, "ssh_host_key": KEY}, whole=True) == ""


def test_the_schema_has_the_facts_that_are_documented() -> None:
    documented = yaml.safe_load(node_facts.RETURN)["ansible_facts"]["contains"]["trainwright_node"]
    assert set(fact_schema.FACTS) == set(documented["contains"])
    assert set(fact_schema.FACTS) == {*GATHERED, *fact_schema.ADDED}


LIES: list[tuple[str, t.Any]] = [
    ("gpus.0.device", "/dev/null\nNodeName=c2 Name=gpu File=/dev/zero"),
    ("gpus.0.device", "/dev/../etc/shadow"),
    ("gpus.0.device", "/etc/shadow"),
    ("gpus.0.model", "H100\x1b]0;x"),
    ("gpus.0.index", True),
    ("gpus.0", {"device": "/dev/nvidia0"}),
    ("gpus", gpus(1) * 300),
    ("gpus", {"device": "/dev/nvidia0"}),
    ("ssh_host_key", f"{KEY}\n@cert-authority * {KEY}"),
    ("ssh_host_key", KEY.replace(" ", "  ")),
    ("ssh_host_key", f"{KEY} comment"),
    ("ssh_host_key", ["a", "b"]),
    ("hostname", "mirror.example"),
    ("hostname", "c1 NodeName=c2"),
    ("hostname", ""),
    ("hostname", ["c1"]),
    ("addresses", "10.0.0.1"),
    ("addresses", ["10.0.0.1\nc2"]),
    ("addresses", ["10.0.0.1"] * 2000),
    ("cpus", 0), ("cpus", "4"), ("cpus", 10**9), ("cpus", True), ("cpus", None), ("memory_mb", -1), ("memory_mb", 1.5),
    ("clock_offset_s", float("nan")), ("clock_offset_s", float("inf")), ("clock_offset_s", "1"),
    ("cgroup.mode", "v3"), ("cgroup.controllers", ["cpu\n"]),
    ("slurm.config_dir", "/shared/data"), ("slurm.prefix", "/opt/../home/alice"), ("slurm.manager", "x"),
    ("slurm.prolog", ["/a\n/b"]), ("slurm.plugstack_dir", "/home/alice"),
    ("slurm.prefix", "/home/alice"), ("slurm.sbin", "/tmp/sbin"),
    ("slurm.plugin_dir", "/usr/lib/../../home/alice/slurm"), ("slurm.version", "24.11\nx"),
    ("slurm.mpi", ["pmix\nMpiDefault=x"]), ("os.id", "../debian"), ("os", []), ("arch", "x86_64/.."),
    ("services.slurmd", "active\n"), ("services_enabled", ["slurmd\n"]), ("controllers_reached", {"a b": ""}),
    ("users.alice", {"uid": -1, "gid": 1}), ("users.alice", {"uid": 1}),
    ("users.alice:x", None), ("uids.x", "alice"), ("ports.6818", "slurmd\x9b"), ("reach.a", "yes"),
    ("reach.a b", "open"),
    ("files.x", "true"), ("disks./var/log.free_mb", "1"), ("containers.plugstack", "x"), ("slurm_conf", {}),
    ("service_hosts.controllers", ["a b"]), ("packages_interrupted", "no"),
    ("sudoers", {"users": [], "groups": ["a,b"]}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value"), LIES, ids=lambda item: repr(item)[:40])
def test_a_lie_is_found_at_its_place(path: str, value: t.Any) -> None:
    found = fact_schema.fault(changed(path, value))
    name = path.split(".")[0]
    assert found and name in found, found
    assert len(found) < 400


def test_a_prefix_that_is_given_is_believed_and_no_other() -> None:
    there = changed("slurm.prefix", "/shared/slurm")
    there["slurm"].update(sbin="/shared/slurm/sbin", config_dir="/shared/slurm/etc")
    there["slurm"]["plugin_dir"] = "/shared/slurm/lib/slurm"
    there["slurm"]["plugstack_dir"] = "/shared/slurm/etc/plugstack.conf.d"
    assert fact_schema.fault(there, prefix="/shared/slurm/") == ""
    assert "slurm." in fact_schema.fault(there)
    assert "slurm." in fact_schema.fault(there, prefix="/shared/slur")
    there["slurm"]["config_dir"] = "/shared/data"
    assert "slurm.config_dir" in fact_schema.fault(there, prefix="/shared/slurm")


@pytest.mark.parametrize("value", [None, [], "text", 1])
def test_facts_that_are_no_mapping_are_refused(value: t.Any) -> None:
    assert fact_schema.fault(value)


def test_facts_that_are_missing_are_named() -> None:
    assert fact_schema.fault({"cpus": 1}, whole=True) == "addresses: is missing"
    assert fact_schema.fault({"cpus": 1}) == ""


def test_a_host_costs_well_under_a_millisecond() -> None:
    whole = {**GATHERED, "ssh_host_key": KEY}
    best = 1.0
    for _ in range(5):
        started = time.process_time()
        for _ in range(100):
            fact_schema.fault(whole)
        best = min(best, (time.process_time() - started) / 100)
    assert best < 0.001
