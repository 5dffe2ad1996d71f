# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Preflight of nccl-tests in a cluster: what this run brings is not missing, and what nobody brings is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from tests.unit.test_empty_inventory import play

PARTS = ["cuda_toolkit", "nccl", "efa"]
# Host -> its parts of the GPU software, its variables, and the file that is missing.
HOSTS: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "whole": (PARTS, {}, ""),
    "branch": (PARTS, {"nccl_tests_cuda": "/usr/local/cuda-13.2"}, ""),
    "older": (PARTS, {"nccl_tests_cuda": "/usr/local/cuda-1.0"}, "/usr/local/cuda-1.0/bin/nvcc"),
    "elsewhere": (PARTS, {"nccl_tests_nccl": "/opt/none"}, "/opt/none/include/nccl.h"),
    "infiniband": (PARTS[:2], {"nccl_tests_mpi": "/opt/none"}, "/opt/none/include/mpi.h"),
}


def test_the_host_that_could_not_build_is_named_with_the_file(tmp_path: Path) -> None:
    versions = {"cuda": "13.2", "nccl": "2.27.3"}
    hosts = {
        host: {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "slurm_model": {"stack": {"versions": versions, "hosts": {host: {"roles": parts}}}},
            **more,
        }
        for host, (parts, more, _missing) in HOSTS.items()
    }
    system = {"id": "debian", "version": "13", "like": "debian"}
    given = {
        "artifact_cache": str(tmp_path / "cache"),
        "nccl_tests_sha256": "0" * 64,
        "slurm_facts": {"node": {"arch": "x86_64", "os": system}},
    }
    role = {"name": "trainwright.slurm.nccl_tests", "tasks_from": "preflight"}
    tasks = [{"ansible.builtin.import_role": role}]
    (tmp_path / "inventory").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "vars": given, "tasks": tasks}])
    )
    code, said = play(tmp_path, str(tmp_path / "play.yml"))
    assert code == 2
    for host, (_parts, _more, missing) in HOSTS.items():
        words = f"{host}: gpu_stack_nccl_tests: this host would build nccl-tests, and {missing} is neither there"
        assert (words in said) == bool(missing), f"{host}: {said}"
        assert f"{host} : ok=2 changed=0 unreachable=0 failed={int(bool(missing))}" in said, said
