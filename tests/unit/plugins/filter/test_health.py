# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is expected of a node comes from the model, and what nodes answer is not believed about their names."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.filter.health_config import health_config
from ansible_collections.trainwright.slurm.plugins.filter.health_results import health_results

MODEL: dict[str, t.Any] = {
    "nodes": [
        {"name": "gpu1", "host": "c1", "memory_mb": 3800, "declared": {"gpus": 8}},
        {"name": "gpu2", "host": "c2", "memory_mb": 3800},
    ],
    "mounts": [{"path": "/fsx", "options": "rw", "source": "x"}],
    "spool_dir": "/srv/slurmd",
    "auth_type": "munge",
    "users": [{"name": "ada"}],
}
GROUPS = {"slurm_node_health": ["c1"], "slurm_pyxis": ["c1"]}


def test_a_node_gets_what_its_machine_type_declares() -> None:
    found = health_config(
        MODEL, "c1", GROUPS, {"interval": "15", "dcgm": "true", "local_users": ["ops"]}
    )
    assert (found["node"], found["enabled"], found["declared"]) == ("gpu1", True, {"gpus": 8})
    assert found["mounts"] == [{"path": "/fsx", "options": "rw"}]
    assert (found["units"], found["pyxis"]) == (["slurmd", "munge"], True)
    assert (found["interval"], found["dcgm"], found["users"]) == (15, True, ["ops", "ada"])


def test_a_local_scratch_has_to_be_mounted_like_any_other_file_system() -> None:
    scratches = [
        {"host": host, "path": path, "kind": kind}
        for host, path, kind in (
            ("c1", "/scratch", "local"),
            ("c1", "/plain", "directory"),
            ("c2", "/other", "site"),
        )
    ]
    found = health_config({**MODEL, "scratches": scratches}, "c1", GROUPS)
    assert [one["path"] for one in found["mounts"]] == ["/fsx", "/scratch"]


def test_a_node_outside_the_group_is_off() -> None:
    found = health_config(MODEL, "c2", GROUPS)
    assert (found["enabled"], found["declared"], found["pyxis"]) == (False, {}, False)
    assert "users" not in found


def test_a_site_changes_and_removes_keys() -> None:
    found = health_config(MODEL, "c1", GROUPS, {"conf": {"spool_mib": 9, "units": None}})
    assert found["spool_mib"] == 9 and "units" not in found


@pytest.mark.parametrize(
    ("host", "settings", "words"),
    [
        ("login1", {}, "is not a compute node -> put it into slurm_compute"),
        ("c1", {"checks": [{"name": "mine"}]}, "absolute path"),
    ],
)
def test_what_cannot_work_is_refused(host: str, settings: t.Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        health_config(MODEL, host, GROUPS, settings)


def answer(**more: t.Any) -> dict[str, t.Any]:
    item = {"host": "evil", "check": "memory", "verdict": "PASS", **more}
    return {"rc": 0, "stdout": json.dumps({"results": [item]})}


def test_a_host_is_not_believed_about_its_name() -> None:
    found = health_results({"c1": answer(), "c2": answer(verdict="FAIL", remedy="reboot it")})
    assert [one["host"] for one in found["results"]] == ["c1", "c2"]
    assert found["failed"] and found["failed_tests"]
    assert found["message"] == "c2: memory FAIL: memory -> reboot it"
    assert found["json"]["counts"]["FAIL"] == 1 and "1 FAIL" in found["table"][-1]


@pytest.mark.parametrize(
    "given",
    [
        {"unreachable": True},
        {},
        {"stdout": "no JSON", "stderr": "trainwright-health: wrong\x1b[2J"},
        {"stdout": "[]"},
        {"stdout": '{"results": ' + "[" * 100_000},
        {"stdout": '{"results": 7}'},
        {"stdout": '{"results": [7]}'},
        {"stdout": '{"results": [{"check": "memory", "verdict": "OK"}]}'},
        {"msg": "[Errno 2] No such file or directory"},
    ],
)
def test_a_host_without_a_proper_answer_is_incomplete(given: dict[str, t.Any]) -> None:
    found = health_results({"c1": given})
    assert [one["verdict"] for one in found["results"]] == ["INCOMPLETE"]
    assert found["failed"] and not found["failed_tests"] and "\x1b" not in found["message"]


def test_it_is_known_that_nothing_was_checked() -> None:
    assert health_results({"c1": answer(verdict="NOT_APPLICABLE")})["nothing"]
    assert health_results({"c1": {"stdout": '{"results": []}'}})["nothing"]
    assert not health_results({"c1": answer(verdict="NOT_APPLICABLE"), "c2": answer()})["nothing"]
    assert not health_results({"c1": {"unreachable": True}})["nothing"]
