# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Preflight of roles efa and aws_ofi_nccl, and how role gpu_stack comes to NCCL's plugin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cluster import ROOT
from tests.unit.test_empty_inventory import play

EFA: dict[str, tuple[dict[str, Any], str]] = {
    "whole": ({}, ""),
    "signed": ({"efa_version": "99.0.0"}, ""),
    "unknown": ({"efa_version": "99.0", "efa_signature": "never"}, "efa_installer 99.0: is not in the table"),
    "unverified": ({"efa_version": "99.0.0", "efa_signature": "never"}, "-> set efa_sha256 to the output"),
    "keyless": ({"efa_key_fingerprint": ""}, "efa_key_fingerprint: is empty, so that any key would do"),
    "unkeyed": ({"efa_key_fingerprint": "", "efa_signature": "never"}, ""),
}  # fmt: skip
PLUGIN: dict[str, tuple[dict[str, Any], str]] = {
    "bundled": ({}, ""),
    "summed": ({"aws_ofi_nccl_source": "build", "aws_ofi_nccl_sha256": "0" * 64}, ""),
    "unsummed": ({"aws_ofi_nccl_source": "build", "aws_ofi_nccl_version": "99.0.0"}, "-> set aws_ofi_nccl_sha256"),
    "relative": ({"aws_ofi_nccl_libfabric": "efa"}, "aws_ofi_nccl_libfabric: 'efa' is not the path of a directory"),
}  # fmt: skip


@pytest.mark.parametrize(("role", "hosts"), [("efa", EFA), ("aws_ofi_nccl", PLUGIN)])
def test_what_could_not_be_used_is_refused_with_the_remedy(
    tmp_path: Path, role: str, hosts: dict[str, tuple[dict[str, Any], str]]
) -> None:
    own = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "artifact_cache": str(tmp_path / "cache"),
    }
    listed = {host: {**own, **more} for host, (more, _said) in hosts.items()}
    (tmp_path / "inventory").write_text(yaml.safe_dump({"all": {"hosts": listed}}))
    name = f"trainwright.slurm.{role}"
    called = {"name": name, "tasks_from": "preflight", "rolespec_validate": False}
    tasks_of_play = [{"ansible.builtin.import_role": called}]
    plays = [{"hosts": "all", "gather_facts": False, "tasks": tasks_of_play}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(plays))
    code, said = play(tmp_path, str(tmp_path / "play.yml"))
    assert code == 2
    for host, (_more, words) in hosts.items():
        failed = int(bool(words))
        assert f"{host} : ok={1 - failed} changed=0 unreachable=0 failed={failed}" in said, said
        assert words.replace("\\n", "\\\\n") in said.replace("\\n", "\\\\n"), f"{host}: {said}"


def test_one_host_builds_each_package(tmp_path: Path) -> None:
    """The first that needs it; one that does not build is passed over."""
    own = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    versions = {"c1": "", "c2": "1.19.0", "c3": "1.19.0", "c4": "1.18.0"}
    listed = {host: {**own, "aws_ofi_nccl_version": text} for host, text in versions.items()}
    (tmp_path / "inventory").write_text(yaml.safe_dump({"all": {"hosts": listed}}))
    system = {"id": "debian", "version": "13", "like": "debian", "pretty": "Debian"}
    given = {
        "artifact_cache": str(tmp_path / "cache"),
        "aws_ofi_nccl_sha256": "0" * 64,
        "aws_ofi_nccl_source": "build",
        "slurm_facts": {"node": {"arch": "x86_64", "cpus": 1, "os": system}},
    }
    role = {"name": "trainwright.slurm.aws_ofi_nccl", "tasks_from": "variables"}
    [named] = [
        task
        for task in tasks("roles/aws_ofi_nccl/tasks/install_package.yml")
        if "ansible.builtin.set_fact" in task
    ]
    condition = tasks("roles/aws_ofi_nccl/tasks/install_package.yml")[1]["when"]
    listed_tasks = [
        {"ansible.builtin.import_role": {**role, "rolespec_validate": False}},
        {**named, "when": "aws_ofi_nccl_version != ''"},
        {
            "ansible.builtin.debug": {"msg": "{{ inventory_hostname }} builds {{ __aws_ofi_nccl_wanted | basename }}"},
            "when": ["aws_ofi_nccl_version != ''", condition],
        },
    ]  # fmt: skip
    plays = [{"hosts": "all", "gather_facts": False, "vars": given, "tasks": listed_tasks}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(plays))
    code, said = play(tmp_path, str(tmp_path / "play.yml"))
    assert code == 0, said
    assert "c2 builds trainwright-ofi-nccl_1.19.0+" in said
    assert "c4 builds trainwright-ofi-nccl_1.18.0+" in said
    assert said.count(" builds trainwright-ofi-nccl_") == 2, said


def tasks(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((ROOT / path).read_text())
    return found


def test_preflight_looks_up_both_sources() -> None:
    plays = {one["name"]: one for one in tasks("playbooks/preflight.yml")}
    for name, role in (
        ("Refuse an EFA that could not be verified", "efa"),
        ("Refuse a plugin of NCCL that could not be built", "aws_ofi_nccl"),
    ):
        assert f"sources.{role}" in plays[name]["hosts"]
        [task] = plays[name]["tasks"]
        called = task["ansible.builtin.import_role"]
        assert (called["name"], called["tasks_from"]) == (f"trainwright.slurm.{role}", "preflight")


def test_a_run_of_the_stack_ends_with_the_plugin_or_fails() -> None:
    """The bundled one is read back with EFA; the one of the site is built, or taken from the control node, after it."""
    listed = tasks("roles/gpu_stack/tasks/install.yml")
    names = [task["name"] for task in listed]
    efa = listed[names.index("Install EFA")]
    assert (
        "['plugin'] if __gpu_stack_needs_plugin and not __aws_ofi_nccl_built"
        in efa["vars"]["__efa_require"]
    )
    [call] = [
        task
        for task in tasks("roles/efa/tasks/installer.yml")
        if "trainwright.slurm.efa_installer" in task
    ]
    assert call["trainwright.slurm.efa_installer"]["require"] == "{{ __efa_require | default([]) }}"
    built = listed[names.index("Build NCCL's plugin for libfabric once, and install it")]
    assert names.index(built["name"]) > max(
        names.index("Install EFA"),
        names.index("Install the packages, or hold those that are there"),
    )
    called = built["ansible.builtin.include_role"]
    assert (called["name"], called["tasks_from"]) == ("trainwright.slurm.aws_ofi_nccl", "install")
    [found] = [
        task
        for task in tasks("roles/aws_ofi_nccl/tasks/install.yml")
        if "trainwright.slurm.efa_info" in task
    ]
    assert found["trainwright.slurm.efa_info"]["require"] == ["plugin"]
