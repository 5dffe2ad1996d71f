# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The setup of the recorded clusters, which every version shows: expected.json may not differ.

The values are those of tests/fixtures/slurm/site/, written here by hand, so that a parser's fault
cannot hide in expected.json, which parsers made.
"""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import data, text

from .test_replay import FIXTURES, api_of, not_shown, versions

DAY, HOUR, MINUTE = 86400, 3600, 60
Known = dict[t.Any, dict[str, t.Any]]
NOT_HERE = {"state": "DOWN", "reason": "not here yet, [rack 3] a=b", "memory": 512000, "cpus": 32}
HELD = {"state": "PENDING", "nodes": "", "start_time": None, "elapsed": 0, "exit_code": None}

NODES: Known = {
    "c1": {
        "state": "MIXED",
        "reason": "",
        "reason_user": "",
        "reason_time": None,
        "address": "10.0.0.11",
        "hostname": "c1",
        "cpus": 8,
        "cpus_allocated": 6,
        "memory": 16000,
        "memory_allocated": 1400,
        "gres": "gpu:h100:4",
        "features": ["gpu", "ib", "rack1"],
        "active_features": ["gpu", "ib", "rack1"],
        "partitions": ["main", "long", "big"],
        "weight": 10,
        "comment": 'rack 1, slot=7 "top" [x]',
    },
    "c2": {
        "state": "IDLE",
        "flags": ["DRAIN"],
        "reason": 'tw:health:gpu0: ECC errors [Xid=48] "row remap" -> replace GPU (a=b)',
        "reason_user": "root",
        "gres": "gpu:h100:2,gpu:a10:1",
        "features": ["gpu", "rack2"],
        "weight": 1,
        "comment": "",
        "cpus_allocated": 0,
        "tres_allocated": {},
    },
    "c3": {
        "state": "UNKNOWN",
        "flags": ["NOT_RESPONDING"],
        "version": "",
        "boot_time": None,
        "slurmd_start_time": None,
        "address": "192.0.2.3",
        "gres": "",
        "features": [],
        "reason": "",
        "memory": 8000,
    },
    "c4": {**NOT_HERE, "partitions": ["big", "hid"], "version": ""},
    "c5": {**NOT_HERE, "partitions": ["big", "hid", "off"], "version": ""},
    "k1": {"state": "IDLE", "flags": ["CLOUD", "POWERED_DOWN"], "partitions": ["cloud"]},
    "f1": {"state": "FUTURE", "partitions": [], "memory": 1000},
}
JOBS: Known = {
    1: {
        "name": "slow",
        "user": "bob",
        "account": "chem",
        "state": "TIMEOUT",
        "time_limit": MINUTE,
        "nodes": "c1",
        "exit_code": 0,
        "stdout": "/home/bob/slurm-1.out",
    },
    2: {
        "name": "done job a=b",
        "user": "alice",
        "account": "physics",
        "partition": "main",
        "qos": "high",
        "state": "COMPLETED",
        "flags": [],
        "reason": "",
        "comment": 'why "x"=y [z]',
        "exit_code": 0,
        "exit_signal": 0,
        "node_count": 1,
        "cpus": 1,
        "restarts": 0,
        "workdir": "/home/alice",
        "batch_host": "c1",
    },
    3: {
        "state": "FAILED",
        "exit_code": 3,
        "exit_signal": 0,
        "stdout": "/home/alice/slurm-3.out",
        "stderr": "/home/alice/broken-3.err",
    },
    4: {"name": "unwanted", "state": "CANCELLED", "user": "bob"},
    5: {
        "state": "RUNNING",
        "partition": "long",
        "account": "open",
        "time_limit": None,
        "end_time": None,
        "exit_code": None,
        "cpus": 2,
        "nodes": "c1",
        "stdout": "/home/alice/gpu-5.out",
        "stderr": "/home/alice/gpu-5.out",
    },
    6: {**HELD, "reason": "Dependency", "dependency": "afterok:5(unfulfilled)", "account": "hep"},
    7: {
        **HELD,
        "name": "held Comment=no UserId=x(1)",
        "user": "alice",
        "comment": "",
        "reason": "JobHeldUser",
        "priority": 0,
    },
    8: {"state": "PENDING", "reason": "JobHeldAdmin", "priority": 0},
    9: {"state": "RUNNING", "reservation": "cores", "user": "bob", "cpus": 2, "time_limit": HOUR},
    10: {"state": "PENDING", "name": "again", "restarts": 1, "exit_code": None, "nodes": ""},
    11: {"state": "PENDING", "name": "whole", "user": "dave", "account": "chem"},
    12: {"state": "PENDING", "reason": "BeginTime", "time_limit": DAY, "node_count": 2},
    13: {
        "name": "all|licences",
        "state": "PENDING",
        "comment": "two|lines:\nJobId=99 State=x",
        "workdir": "/home/alice",
    },
    14: {"state": "PENDING", "partition": "off"},
    15: {**HELD, "name": "pair", "reason": "JobHeldUser", "array_job_id": None, "array_task": ""},
    16: {**HELD, "name": "pair", "reason": "JobHeldUser"},
    17: {"state": "CANCELLED", "user": "carol", "nodes": ""},
    18: {"state": "PENDING", "name": "many", "array_job_id": 18, "nodes": ""},
    19: {
        "state": "RUNNING",
        "name": "many",
        "array_job_id": 18,
        "array_task": "1",
        "time_limit": 10 * MINUTE,
        "stdout": "/home/alice/18_1.out",
    },
    20: {"state": "RUNNING", "array_job_id": 18, "array_task": "2"},
}
GPU_TRES = {"cpu": 2, "mem": 1000, "node": 1, "gres/gpu": 1, "license/matlab": 1}
PARTITIONS: Known = {
    "main": {
        "state": "UP",
        "nodes": "c[1-3]",
        "node_count": 3,
        "cpus": 20,
        "default": True,
        "max_time": DAY,
        "default_time": HOUR,
        "min_nodes": 0,
        "max_nodes": None,
        "priority_tier": 2,
        "priority_job_factor": 10,
        "allow_accounts": [],
        "deny_accounts": [],
        "allow_groups": [],
        "allow_qos": [],
        "qos": "",
        "hidden": False,
        "root_only": False,
        "over_subscribe": "NO",
    },
    "long": {"max_time": None, "default_time": None, "qos": "partqos", "default": False},
    "big": {
        "max_time": 2 * DAY + 12 * HOUR + 30 * MINUTE,
        "min_nodes": 2,
        "max_nodes": 4,
        "allow_accounts": ["physics", "hep"],
        "deny_qos": ["low"],
        "grace_time": 30,
        "over_subscribe": "FORCE:2",
        "preempt_mode": "CANCEL",
    },
    "hid": {
        "hidden": True,
        "root_only": True,
        "allow_groups": ["root", "lab"],
        "deny_accounts": ["chem"],
        "state": "DRAIN",
        "over_subscribe": "EXCLUSIVE",
    },
    "off": {"state": "DOWN", "allow_qos": ["normal", "high"], "nodes": "c5"},
    "cloud": {"state": "INACTIVE", "max_time": 30 * MINUTE},
}
RESERVATIONS: Known = {
    "maint": {
        "nodes": "c[4-5]",
        "node_count": 2,
        "users": ["root", "alice"],
        "flags": ["IGNORE_JOBS", "MAINT"],
        "partition": "",
    },
    "nightly": {"nodes": "c2", "users": ["bob", "dave"], "flags": ["DAILY", "FLEX"]},
    "cores": {"nodes": "c1", "core_count": 2, "users": ["bob"], "flags": [], "accounts": []},
    "future": {
        "users": [],
        "accounts": ["physics", "hep"],
        "licenses": "matlab:2",
        "features": "gpu",
        "partition": "main",
        "node_count": 1,
    },
    "lab": {"groups": ["lab"], "users": [], "nodes": "c3"},
}
LENGTHS = {"nightly": 15 * MINUTE, "cores": DAY, "future": 2 * HOUR, "lab": HOUR}
LICENSES: Known = {
    "matlab": {"total": 10, "used": 1, "free": 9, "remote": False},
    "comsol": {"total": 2, "used": 0, "free": 2, "remote": False},
    "vcs@flexhost": {"total": 10, "used": 0, "remote": True},
}
CONTROLLERS: Known = {
    "ctl": {"mode": "primary", "up": True},
    "ctl2": {"mode": "backup", "up": False},
}
ENDED: Known = {
    key: {
        field: value
        for field, value in JOBS[key].items()
        if field in ("name", "user", "account", "partition", "qos", "exit_code", "comment")
        or (field in ("state", "nodes") and key != 10)
    }
    for key in (1, 2, 3, 4, 5)
}
#: Of these a document may have a few only, and always jobs 3 and 5.
SAMPLED = ("jobs", "ended_jobs")
KNOWN = {
    "nodes": NODES,
    "jobs": JOBS,
    "partitions": PARTITIONS,
    "reservations": RESERVATIONS,
    "licenses": LICENSES,
    "controllers": CONTROLLERS,
    "ended_jobs": ENDED,
}


def sources() -> list[tuple[str, Path, str]]:
    """Return (version, file, kind) for all that was recorded of the kinds above."""
    return [
        (version, path, kind)
        for version in versions()
        for kind in KNOWN
        for path in sorted(
            [
                *(FIXTURES / version).glob(f"cli/{kind}*.txt"),
                *(FIXTURES / version).glob(f"cli_json/{kind}.json"),
                *(FIXTURES / version).glob(f"rest/*/{kind}.json"),
            ]
        )
    ]


def read(path: Path, kind: str) -> dict[t.Any, dict[str, t.Any]]:
    shown = path.read_text(encoding="utf-8")
    parse = getattr(text if path.suffix == ".txt" else data, kind)
    found = [
        record.as_dict()
        for record in parse(shown if parse.__module__.endswith("text") else json.loads(shown))
    ]
    key = {"controllers": "host", "jobs": "id", "ended_jobs": "id"}.get(kind, "name")
    return {record[key]: record for record in found}


@pytest.mark.parametrize(
    ("version", "path", "kind"),
    sources(),
    ids=lambda value: "/".join(value.parts[-3:]) if isinstance(value, Path) else value,
)
def test_known_values_are_read(version: str, path: Path, kind: str) -> None:
    found = read(path, kind)
    hidden = set() if path.suffix == ".txt" else not_shown(kind, api_of(path, version))
    wrong = {}
    for name, fields in KNOWN[kind].items():
        if (name == "f1" and path.suffix == ".json") or (name == "k1" and version == "22.05"):
            continue  # FUTURE nodes are in no document, and 22.05 hides cloud nodes without power
        if name not in found and kind in SAMPLED and path.suffix == ".json":
            continue
        assert name in found
        for field, value in fields.items():
            if field not in hidden and found[name][field] != value:
                wrong[f"{name}.{field}"] = (found[name][field], value)
    assert wrong == {}
    if kind == "reservations":
        lengths = {name: found[name]["end_time"] - found[name]["start_time"] for name in LENGTHS}
        assert lengths == LENGTHS
    if kind in SAMPLED:
        assert {3, 5} <= found.keys()
    if kind == "jobs":
        assert found[5]["tres"].items() >= GPU_TRES.items()
    if kind == "jobs" and 12 in found:
        assert found[12]["start_time"] - found[12]["submit_time"] == 2 * DAY
        assert 60 <= found[1]["elapsed"] < 150


@pytest.mark.parametrize("version", versions())
def test_events_and_configuration(version: str) -> None:
    shown = (FIXTURES / version / "cli" / "events.txt").read_text(encoding="utf-8")
    drained = [event for event in text.events(shown) if event.node == "c2"]
    assert [(event.state, event.reason, event.end_time) for event in drained] == [
        ("DRAIN", NODES["c2"]["reason"], None)
    ]
    shown = (FIXTURES / version / "cli" / "configuration.txt").read_text(encoding="utf-8")
    settings = text.configuration(shown).settings
    wanted = {
        "ClusterName": "fix",
        "AccountingStorageEnforce": "associations,limits,qos",
        "SchedulerParameters": "bf_interval=5",
        "PreemptMode": "REQUEUE",
        "SlurmctldHost[1]": "ctl2(192.0.2.2)",
    }
    assert {key: settings.get(key) for key in wanted} == wanted


def test_no_token_or_key_was_recorded() -> None:
    # Tokens of slurmctld begin like this; munge's credentials with its name.
    secret = re.compile(r"eyJ[\w-]{8,}\.|MUNGE:")
    files = [path for version in versions() for path in (FIXTURES / version).rglob("*.*")]
    assert len(files) > 100
    assert [
        path for path in files if path.is_file() and secret.search(path.read_text("utf-8"))
    ] == []
