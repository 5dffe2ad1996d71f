# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hosts that are as they were left take no part in later plays, by real plays on hosts with manifests of their own."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.wanted import (
    left_out,
    to_walk,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node import manifest, manifest_place

from tests.unit.cluster import ROOT

PLAYBOOK = """
- name: Read
  hosts: all
  gather_facts: false
  tasks:
    - name: Read the host, and look at it
      trainwright.slurm.node_facts:
        look: "{{ place }}"
      register: slurm_facts
- name: Look
  hosts: slurm_controller
  gather_facts: false
  vars:
    looks: "{{ groups['all'] | map('extract', hostvars, ['slurm_facts', 'look']) }}"
    asked: "{{ groups['all'] | map('extract', hostvars, 'asked') }}"
  tasks:
    - name: Find the hosts that are as they were left
      trainwright.slurm.hosts_left:
        looks: "{{ dict(groups['all'] | zip(looks)) }}"
        wanted: "{{ dict(groups['all'] | zip(asked)) }}"
        services: []
        record_stays: true
        secrets: "{{ seal }}"
      failed_when: false
      register: __site_left
- name: Walk
  hosts: "{{ 'slurm_cluster' | trainwright.slurm.hosts_to_walk(groups, hostvars | default({})) }}"
  gather_facts: false
  tasks:
    - name: Walk over it
      ansible.builtin.debug:
        msg: "walked over {{ inventory_hostname }}, {{ ansible_play_hosts | length }} in all"
"""
SEAL = "5ea1"
#: Host -> what its manifest has as absent, for what it was set up, and what is wanted.
HOSTS = {
    "left": ("/etc/nobody-makes-this", "d1", "d1"),
    "other": ("/etc/nobody-makes-this", "d1", "d2"),
    "unset": ("/etc/nobody-makes-this", "", "d1"),
    "silent": ("/etc/nobody-makes-this", "d1", ""),
    "drifted": ("/etc", "d1", "d1"),
    "both": ("/etc", "d1", "d2"),
}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the two plays print."""
    return played(tmp_path_factory.mktemp("left"), PLAYBOOK)


def played(directory: Path, playbook: str, seal: str = SEAL) -> str:
    """Return what a playbook prints, with all hosts."""
    collection = directory / "c/ansible_collections/trainwright/slurm"
    collection.parent.mkdir(parents=True)
    collection.symlink_to(ROOT)
    lines = []
    for host, (path, kept, asked) in HOSTS.items():
        place = str(directory / host)
        manifest.Record("slurmd", "files", "config_files", "", place).end(
            [{"kind": "absent", "name": path}]
        )
        if kept:
            whole = hashlib.sha256(f"{kept}{SEAL}".encode()).hexdigest()
            manifest_place.remember(whole, place)
        lines.append(f"{host} ansible_connection=local place={place} asked={asked!r}")
    # A node of which the manifest cannot be read.
    (directory / "broken").write_text("a file")
    lines.append(f"broken ansible_connection=local place={directory / 'broken'} asked=d1")
    lines += [
        *("[slurm_cluster]", *HOSTS, "broken", "[slurm_controller]", "drifted"),
        *("[all:vars]", f"seal={seal}"),
        f"ansible_python_interpreter={sys.executable}",
    ]
    (directory / "hosts").write_text("\n".join(lines) + "\n")
    (directory / "play.yml").write_text(playbook)
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "tests/unit/ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(directory / "c"),
        "ANSIBLE_CALLBACKS_ENABLED": "trainwright.slurm.run_summary",
        "ANSIBLE_NOCOLOR": "1",
        "COLUMNS": "400",
    }
    done = subprocess.run(
        [sys.executable, "-m", "ansible.cli.playbook", "-i", "hosts", "play.yml"],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_only_a_host_as_it_was_left_for_the_same_is_left_out(output: str) -> None:
    for host in [*HOSTS, "broken"]:
        assert (f"walked over {host}, 6 in all" in output) is (host != "left"), output


def test_a_difference_is_named(output: str) -> None:
    told = " ".join(output.split())
    for host in ("drifted", "both"):
        line = (
            f"[WARNING]: {host}: absent /etc: extra: a directory, not nothing (role slurmd: files)"
        )
        assert told.count(line) == told.count(f"[WARNING]: {host}") == 1


def test_the_last_line_counts_the_hosts(output: str) -> None:
    assert "7 hosts: 1 as left, 2 drifted, 4 walked over; 0 changed, 0 failed" in output


def test_without_the_secrets_all_hosts_are_walked_over(tmp_path: Path) -> None:
    found = played(tmp_path, PLAYBOOK, seal="")
    assert "7 in all" in found and "walked over left" in found, found


def test_the_second_part_of_a_run_looks_again(tmp_path: Path) -> None:
    """As in a playbook that imports site.yml twice, with other variables."""
    plays = yaml.safe_load(PLAYBOOK)
    second = yaml.safe_load(PLAYBOOK.replace("seal }}", "'other' }}"))
    found = played(tmp_path, yaml.safe_dump([*plays, *second]))
    assert found.count("walked over left, ") == 1 and "walked over left, 7 in all" in found, found
    assert found.count("walked over other, ") == 2, found


GROUPS: dict[str, list[str]] = {
    "all": ["ctl1", "db1", "c1", "c2"],
    "slurm_cluster": ["ctl1", "c1", "c2"],
    "slurm_controller": ["ctl1"],
    "slurm_database": ["db1"],
    "slurm_compute": ["c1", "c2"],
}
NOBODY = "slurm_cluster:!slurm_cluster"


@pytest.mark.parametrize(
    ("pattern", "left", "hosts"),
    [
        ("slurm_compute", [], "slurm_compute"),
        ("slurm_compute", ["c1"], "c2"),
        ("slurm_compute", ["c1", "c2"], NOBODY),
        ("slurm_controller:slurm_cluster", ["c1"], "ctl1,c2"),
        ("c1,c2", ["c1"], "c2"),
        ("slurm_cluster:!slurm_compute", ["c1"], "ctl1"),
        (NOBODY, ["c1"], NOBODY),
        ("c2", ["c1"], "c2"),
    ],
)
def test_hosts_that_are_left_out_are_not_in_the_pattern(
    pattern: str, left: list[str], hosts: str
) -> None:
    hostvars = {"ctl1": {"__site_left": {"as_left": left}}}
    assert to_walk(pattern, GROUPS, hostvars) == hosts
    assert to_walk(pattern, GROUPS, hostvars, True) == hosts


def test_a_failed_look_leaves_nobody_out() -> None:
    for answer in ({}, {"__site_left": {"failed": False, "msg": "no"}}):
        assert to_walk("slurm_compute", GROUPS, {"ctl1": answer}) == "slurm_compute"
    assert to_walk("slurm_compute", GROUPS, {}) == "slurm_compute"
    assert to_walk("slurm_compute", {"slurm_compute": ["c1"]}, {}) == "slurm_compute"


@pytest.mark.parametrize(
    ("left", "found"),
    [
        (["ctl1", "db1", "c1", "c2"], (["c1", "c2"], ["ctl1", "db1"])),
        # Another host is walked over, so all with services are; it may not even be among this run's hosts.
        (["ctl1", "c1", "c2"], (["c1", "c2"], [])),
        (["ctl1", "db1", "c1"], (["c1"], [])),
        ([], ([], [])),
    ],
)
def test_hosts_with_services_are_left_out_only_with_all_others(
    left: list[str], found: tuple[list[str], list[str]]
) -> None:
    states = {host: "as left" if host in left else "drifted" for host in GROUPS["all"]}
    assert left_out(states, ["ctl1", "db1"], GROUPS, record_stays=True) == found
    # A node was taken out of Slurm, say, and is still in the inventory.
    assert left_out(states, ["ctl1", "db1"], GROUPS, record_stays=False) == (found[0], [])
    hostvars = {"ctl1": {"__site_left": dict(zip(("as_left", "services_as_left"), found))}}
    assert (to_walk("slurm_cluster", GROUPS, hostvars, True) == NOBODY) is bool(found[1])
    assert to_walk("slurm_cluster", GROUPS, hostvars) != NOBODY
