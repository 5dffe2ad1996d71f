# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hosts that are as they were left take no part in later plays, by real plays on hosts with manifests of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.filter.hosts_to_walk import hosts_to_walk
from ansible_collections.trainwright.slurm.plugins.module_utils.node import manifest, manifest_place

from tests.unit.cluster import ROOT

PLAYBOOK = """
- name: Look
  hosts: all
  gather_facts: false
  tasks:
    - name: Look at the host
      trainwright.slurm.drift_info:
        directory: "{{ place }}"
        wanted: "{{ asked }}"
        group: trainwright_as_left
      changed_when: false
      failed_when: false
- name: Walk
  hosts: "{{ 'all' | trainwright.slurm.hosts_to_walk(groups) }}"
  gather_facts: false
  tasks:
    - name: Walk over it
      ansible.builtin.debug:
        msg: "walked over {{ inventory_hostname }}, {{ ansible_play_hosts | length }} in all"
"""
#: Host -> what its manifest has as absent, for what it was set up, and what is wanted.
HOSTS = {
    "left": ("/etc/nobody-makes-this", "d1", "d1"),
    "other": ("/etc/nobody-makes-this", "d1", "d2"),
    "unset": ("/etc/nobody-makes-this", "", "d1"),
    "silent": ("/etc/nobody-makes-this", "d1", ""),
    "drifted": ("/etc", "d1", "d1"),
}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the two plays print."""
    return played(tmp_path_factory.mktemp("left"), PLAYBOOK)


def played(directory: Path, playbook: str) -> str:
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
            manifest_place.remember(kept, place)
        lines.append(f"{host} ansible_connection=local place={place} asked={asked!r}")
    # A node of which the manifest cannot be read.
    (directory / "broken").write_text("a file")
    lines.append(f"broken ansible_connection=local place={directory / 'broken'} asked=d1")
    lines += [
        "[slurm_controller]",
        "drifted",
        "[all:vars]",
        f"ansible_python_interpreter={sys.executable}",
    ]
    (directory / "hosts").write_text("\n".join(lines) + "\n")
    (directory / "play.yml").write_text(playbook)
    environment = {
        **os.environ,
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
        assert (f"walked over {host}, 5 in all" in output) is (host != "left"), output


def test_a_difference_is_named(output: str) -> None:
    told = " ".join(output.split())
    assert (
        "[WARNING]: drifted: absent /etc: extra: a directory, not nothing (role slurmd: files)"
        in told
    )
    assert output.count("[WARNING]: drifted") == 1


def test_the_last_line_counts_the_hosts(output: str) -> None:
    assert "6 hosts: 1 as left, 0 changed, 1 drifted, 0 failed" in output


def test_the_second_part_of_a_run_walks_over_what_the_first_has_left_out(tmp_path: Path) -> None:
    """As in a playbook that imports site.yml twice."""
    plays = yaml.safe_load((ROOT / "playbooks/site.yml").read_text(encoding="utf-8"))
    (again,) = [play for play in plays if play["name"].startswith("Walk over all hosts where")]
    twice = [again, *yaml.safe_load(PLAYBOOK)] * 2
    found = played(tmp_path, yaml.safe_dump(twice))
    assert found.count("walked over left, ") == 1 and "walked over left, 6 in all" in found, found
    assert found.count("walked over other, ") == 2, found


CASES: list[tuple[str, dict[str, t.Any], str]] = [
    ("slurm_compute", {}, "slurm_compute"),
    ("slurm_compute", {"trainwright_as_left": []}, "slurm_compute"),
    ("a:b", {"trainwright_as_left": ["c1"]}, "a:b:!trainwright_as_left"),
    ("c1,c2", {"trainwright_as_left": ["c1"]}, "c1,c2,!trainwright_as_left"),
    ("a:b", {"trainwright_as_left": ["c1"], "trainwright_walk_all": ["ctl1"]}, "a:b"),
]
SERVED: dict[str, t.Any] = {
    "slurm_cluster": ["ctl1", "c1"],
    "slurm_controller": ["ctl1"],
    "slurm_database": ["db1"],
    "trainwright_as_left": ["c1"],
}


@pytest.mark.parametrize(
    ("services", "walk_all", "hosts"),
    [
        (["ctl1", "db1"], [], "a:!trainwright_services_as_left:!trainwright_as_left"),
        (["ctl1", "db1"], ["ctl1"], "a"),
        # Another host with services is walked over, so all of them are; it may not even be among this run's hosts.
        (["ctl1"], [], "a:!trainwright_as_left"),
        ([], [], "a:!trainwright_as_left"),
    ],
)
def test_hosts_with_services_are_left_out_only_with_all_others(
    services: list[str], walk_all: list[str], hosts: str
) -> None:
    groups = {**SERVED, "trainwright_services_as_left": services, "trainwright_walk_all": walk_all}
    assert hosts_to_walk("a", groups, True) == hosts
    assert hosts_to_walk("a", groups) == ("a" if walk_all else "a:!trainwright_as_left")
    more = {**groups, "slurm_cluster": ["ctl1", "c1", "c2"]}
    assert "services" not in hosts_to_walk("a", more, True)


@pytest.mark.parametrize(("pattern", "groups", "hosts"), CASES)
def test_a_pattern_has_one_kind_of_separator(
    pattern: str, groups: dict[str, t.Any], hosts: str
) -> None:
    assert hosts_to_walk(pattern, groups) == hosts
