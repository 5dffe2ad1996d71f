# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what is read from documents: every version's form of one thing leads to one record.

The documents here are written by hand after src/plugins/openapi/v0.0.38 of Slurm 22.05 and
src/plugins/data_parser of 23.02 to 26.05; what real ones say is replayed in test_replay.py.
"""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import records
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import data

NOON = 1795190400
APIS = (38, 39, 40, 42, 43, 45)
EACH = pytest.mark.parametrize("api", APIS)


def num(api: int, value: int | None, infinite: bool = False) -> t.Any:
    """Return a number that may be unset as an API version writes it."""
    if api < 39:
        return 4294967295 if infinite else value
    return {"set": value is not None, "infinite": infinite, "number": value or 0}


def moment(api: int, value: int) -> t.Any:
    """Return a point in time, which was a plain number up to v0.0.39."""
    return value if api < 40 else num(api, value)


# --- nodes ----------------------------------------------------------------------------------------
def node(api: int) -> dict[str, t.Any]:
    item = {
        "name": "c1",
        "state": ["NOT_RESPONDING", "DOWN", "DRAIN"],
        "reason": "bad disk\nsecond line",
        "reason_set_by_user": "alice",
        "reason_changed_at": moment(api, NOON + 3),
        "address": "10.0.0.1",
        "hostname": "c1-host",
        "version": "24.11.5",
        "cpus": 2,
        "alloc_cpus": 1,
        "real_memory": 2000,
        "alloc_memory": 500,
        "free_mem": num(api, None),
        "gres": "gpu:h100:8",
        "gres_used": "gpu:h100:0(IDX:N/A)",
        "features": ["gpu", "fast"],
        "active_features": ["gpu"],
        "partitions": ["batch", "gpu"],
        "weight": 7,
        "comment": "seen",
        "extra": "",
        "boot_time": moment(api, NOON),
        "slurmd_start_time": moment(api, NOON + 1),
        "tres": "cpu=2,mem=2000M,billing=2,gres/gpu=8",
        "tres_used": "cpu=1,mem=500M",
    }
    if api < 39:
        item |= {"state": "down", "state_flags": ["DRAIN", "NOT_RESPONDING"]}
        item |= {"features": "gpu,fast", "active_features": "gpu", "extra": None}
        item["slurmd_version"] = item.pop("version")
    return item


@EACH
def test_a_node(api: int) -> None:
    assert data.nodes({"nodes": [node(api), {"name": ""}]}) == [
        records.Node(
            name="c1",
            state="DOWN",
            flags=("DRAIN", "NOT_RESPONDING"),
            reason="bad disk\nsecond line",
            reason_user="alice",
            reason_time=NOON + 3,
            address="10.0.0.1",
            hostname="c1-host",
            version="24.11.5",
            cpus=2,
            cpus_allocated=1,
            memory=2000,
            memory_allocated=500,
            gres="gpu:h100:8",
            gres_used="gpu:h100:0(IDX:N/A)",
            features=("gpu", "fast"),
            active_features=("gpu",),
            partitions=("batch", "gpu"),
            weight=7,
            comment="seen",
            boot_time=NOON,
            slurmd_start_time=NOON + 1,
            tres={"cpu": 2, "mem": 2000, "billing": 2, "gres/gpu": 8},
            tres_allocated={"cpu": 1, "mem": 500},
        )
    ]


@EACH
def test_a_node_that_never_registered(api: int) -> None:
    empty = {"reason": "", "tres_used": None if api < 39 else "", "gres": None, "version": ""}
    empty |= {
        "boot_time": moment(api, 0),
        "slurmd_start_time": moment(api, 0),
        "slurmd_version": None,
    }
    empty |= {"partitions": [], "features": [] if api > 38 else None}
    (read,) = data.nodes({"nodes": [{**node(api), **empty}]})
    assert (read.boot_time, read.version, read.tres_allocated) == (None, "", {})
    # The user who set a removed reason does not matter.
    assert (read.reason, read.reason_user, read.reason_time) == ("", "", None)
    assert not read.registered


@pytest.mark.parametrize(
    "document", [{}, {"nodes": None}, {"nodes": [], "errors": [{"error": "x"}]}]
)
def test_an_empty_document(document: dict[str, t.Any]) -> None:
    for read in (data.nodes, data.jobs, data.partitions, data.reservations, data.licenses):
        assert read(document) == []
    assert data.controllers(document) == data.ended_jobs(document) == []
    assert data.configuration(document) == records.Configuration()


# --- jobs -----------------------------------------------------------------------------------------
def exit_code(api: int, code: int, signal: int = 0) -> t.Any:
    if api < 40:
        status = code << 8 | signal
        return status if api < 39 else num(api, status)
    return {
        "status": ["SIGNALED" if signal else "ERROR" if code else "SUCCESS"],
        "return_code": num(api, None if signal else code),
        "signal": {"id" if api > 41 else "signal_id": num(api, signal or None), "name": ""},
    }


def job(api: int, **more: t.Any) -> dict[str, t.Any]:
    item = {
        "job_id": 17,
        "name": "train",
        "user_name": "alice",
        "account": "lab",
        "partition": "batch",
        "qos": "normal",
        "job_state": ["RUNNING"] if api > 39 else "RUNNING",
        "state_reason": "None",
        "state_description": "" if api > 38 else None,
        "array_job_id": num(api, 0),
        "array_task_id": num(api, None),
        "array_task_string": "" if api > 38 else None,
        "batch_flag": True,
        "batch_host": "c1",
        "nodes": "c[1-2]",
        "node_count": num(api, 2),
        "cpus": num(api, 4),
        "tres_req_str": "cpu=2,mem=1000M,node=2,billing=2",
        "tres_alloc_str": "cpu=4,mem=1000M,node=2,billing=4",
        "priority": num(api, 4294901757),
        "submit_time": moment(api, NOON),
        "start_time": moment(api, NOON + 1),
        "end_time": moment(api, NOON + 1 + 2 * 86400),
        "suspend_time": moment(api, 0),
        "pre_sus_time": moment(api, 0),
        "time_limit": num(api, 2880),
        "exit_code": exit_code(api, 0),
        "restart_cnt": 2,
        "dependency": "",
        "resv_name": "maint",
        "comment": "seen",
        "command": "/home/alice/run.sh",
        "current_working_directory": "/home/alice",
        "standard_output": "/home/alice/o-%j" if api < 39 or api > 42 else "/home/alice/o-17",
        "standard_error": "" if api < 39 or api > 42 else "/home/alice/o-17",
    }
    if api > 42:
        item |= {"stdout_expanded": "/home/alice/o-17", "stderr_expanded": "/home/alice/o-17"}
    return {**item, **more}


RUNNING = records.Job(
    id=17,
    name="train",
    user="alice",
    account="lab",
    partition="batch",
    qos="normal",
    state="RUNNING",
    nodes="c[1-2]",
    node_count=2,
    cpus=4,
    tres={"cpu": 4, "mem": 1000, "node": 2, "billing": 4},
    priority=4294901757,
    submit_time=NOON,
    start_time=NOON + 1,
    end_time=NOON + 1 + 2 * 86400,
    elapsed=60,
    time_limit=2 * 86400,
    restarts=2,
    reservation="maint",
    comment="seen",
    command="/home/alice/run.sh",
    workdir="/home/alice",
    stdout="/home/alice/o-17",
    stderr="/home/alice/o-17",
    batch_host="c1",
)


@EACH
def test_a_job(api: int) -> None:
    assert data.jobs({"jobs": [job(api)]}, now=NOON + 61) == [RUNNING]


@EACH
def test_a_job_that_waits(api: int) -> None:
    item = job(
        api,
        job_state=["PENDING"] if api > 39 else "PENDING",
        state_reason="Resources",
        state_description="Nodes required for job are DOWN",
        array_job_id=num(api, 15),
        array_task_string="4-9%2",
        nodes="",
        tres_alloc_str="" if api > 38 else None,
        start_time=moment(api, 0),
        end_time=moment(api, 0),
        time_limit=None if api < 39 else num(api, None, infinite=True),
        priority=num(api, 0),
        batch_host="" if api > 38 else None,
    )
    (read,) = data.jobs({"jobs": [item]}, now=NOON + 61)
    assert (read.state, read.reason) == ("PENDING", "Nodes_required_for_job_are_DOWN")
    assert (read.array_job_id, read.array_task) == (15, "4-9%2")
    assert (read.nodes, read.batch_host, read.priority) == ("", "", 0)
    assert read.tres == {"cpu": 2, "mem": 1000, "node": 2, "billing": 2}
    assert (read.start_time, read.end_time, read.time_limit, read.elapsed) == (None, None, None, 0)


def test_a_signal_counts_before_a_code() -> None:
    """Slurm 22.05: a script that a signal ended, and whose step had ended with a code; scontrol shows 0:15."""
    item = job(38, job_state="CANCELLED", exit_code=15 << 8 | 15, end_time=moment(38, NOON + 31))
    (read,) = data.jobs({"jobs": [item]}, now=NOON + 61)
    assert (read.exit_code, read.exit_signal) == (0, 15)


@EACH
@pytest.mark.parametrize(
    ("state", "code", "signal"), [("COMPLETED", 0, 0), ("FAILED", 3, 0), ("TIMEOUT", 0, 15)]
)
def test_a_job_that_ended(api: int, state: str, code: int, signal: int) -> None:
    item = job(
        api,
        job_state=[state] if api > 39 else state,
        exit_code=exit_code(api, code, signal),
        end_time=moment(api, NOON + 31),
    )
    (read,) = data.jobs({"jobs": [item]}, now=NOON + 61)
    assert (read.state, read.exit_code, read.exit_signal) == (state, code, signal)
    assert (read.elapsed, read.ended) == (30, True)


def test_a_job_that_completes_and_one_without_a_limit() -> None:
    item = job(42, job_state=["COMPLETED", "COMPLETING"], time_limit=num(42, None, infinite=True))
    (read,) = data.jobs({"jobs": [item]}, now=NOON + 61)
    assert (read.state, read.flags, read.ended) == ("COMPLETED", ("COMPLETING",), False)
    # slurmctld's far end of a job without a limit is none.
    assert (read.time_limit, read.end_time) == (None, None)


def test_a_suspended_job() -> None:
    item = job(
        42, job_state=["SUSPENDED"], pre_sus_time=num(42, 20), suspend_time=num(42, NOON + 21)
    )
    (read,) = data.jobs({"jobs": [item]}, now=NOON + 61)
    assert (read.elapsed, read.state, read.nodes) == (20, "SUSPENDED", item["nodes"])
    assert read.nodes
    item |= {"job_state": ["RUNNING"], "suspend_time": num(42, NOON + 41)}
    assert data.jobs({"jobs": [item]}, now=NOON + 61)[0].elapsed == 40


def test_the_default_path_of_output_is_filled_in_where_slurm_does_not() -> None:
    item = job(38, standard_output=None, standard_error=None)
    (read,) = data.jobs({"jobs": [item]}, now=NOON)
    assert read.stdout == read.stderr == "/home/alice/slurm-17.out"
    item |= {"array_job_id": 15, "array_task_id": 3}
    (read,) = data.jobs({"jobs": [item]}, now=NOON)
    assert (read.stdout, read.array_task) == ("/home/alice/slurm-15_3.out", "3")
    (read,) = data.jobs({"jobs": [item | {"batch_flag": False}]}, now=NOON)
    assert read.stdout == read.stderr == ""


# --- the accounting -------------------------------------------------------------------------------
def ended(api: int, **more: t.Any) -> dict[str, t.Any]:
    return {
        "job_id": 17,
        "name": "train",
        "user": "alice",
        "account": "lab",
        "partition": "batch",
        "qos": "normal",
        "state": {"current": ["TIMEOUT"] if api > 39 else "TIMEOUT", "reason": "None"},
        "array": {"job_id": 15, "task_id": num(api, 3), "task": "" if api > 38 else None},
        "nodes": "c[1-2]",
        "allocation_nodes": 2,
        "tres": {
            "allocated": [
                {"type": "cpu", "name": "" if api > 38 else None, "id": 1, "count": 4},
                {"type": "mem", "name": "", "id": 2, "count": 1000},
                {"type": "gres", "name": "gpu:h100", "id": 1002, "count": 2},
            ],
            "requested": [{"type": "cpu", "name": "", "id": 1, "count": 2}],
        },
        "priority": num(api, 4294901757),
        "time": {
            "submission": NOON,
            "start": NOON + 1,
            "end": NOON + 61,
            "elapsed": 60,
            "limit": num(api, 2880),
        },
        "exit_code": exit_code(max(api, 40), 0, 15),
        "reservation": {"id": 0, "name": "maint"},
        "comment": {"job": "seen", "administrator": "", "system": ""},
        "working_directory": "/home/alice",
        **more,
    }


ENDED = dataclasses.replace(
    RUNNING,
    state="TIMEOUT",
    array_job_id=15,
    array_task="3",
    tres={"cpu": 4, "mem": 1000, "gres/gpu:h100": 2},
    end_time=NOON + 61,
    exit_code=0,
    exit_signal=15,
    restarts=0,
    command="",
    stdout="",
    stderr="",
    batch_host="",
)


@EACH
def test_a_job_of_the_accounting(api: int) -> None:
    assert data.ended_jobs({"jobs": [ended(api)]}) == [ENDED]


def test_the_exit_that_22_05_does_not_show() -> None:
    """Its slurmrestd calls every exit a success with 0 (dbv0.0.38, parse.c)."""
    said = {"status": "SUCCESS", "return_code": 0}
    for state, wanted in (("FAILED", None), ("COMPLETED", 0)):
        item = ended(38, exit_code=said, state={"current": state, "reason": "None"})
        assert data.ended_jobs({"jobs": [item]})[0].exit_code == wanted


def test_a_job_of_the_accounting_that_waits() -> None:
    waits = {"tres": {"allocated": [], "requested": [{"type": "cpu", "name": "", "count": 2}]}}
    waits |= {"state": {"current": ["PENDING"]}, "nodes": "None assigned"}
    (read,) = data.ended_jobs({"jobs": [ended(42, **waits)]})
    assert (read.tres, read.cpus, read.nodes, read.exit_code) == ({"cpu": 2}, 2, "", None)


# --- partitions, reservations, licences, controllers, configuration -------------------------------
def partition(api: int) -> dict[str, t.Any]:
    if api < 39:
        return {
            "name": "batch",
            "flags": ["default"],
            "state": "UP",
            "nodes": "c[1-2]",
            "total_nodes": 2,
            "total_cpus": 4,
            "max_time_limit": 10080,
            "default_time_limit": 60,
            "min nodes per job": 1,
            "maximum_nodes_per_job": -1,
            "priority_tier": 2,
            "priority_job_factor": 10,
            "allowed_accounts": None,
            "denied_accounts": "guest,old",
            "allowed_groups": None,
            "allowed_qos": "normal,high",
            "denied_qos": None,
            "qos": "part",
            "preemption_mode": ["suspend", "gang_schedule"],
            "preemption_grace_time": 30,
            "tres": "cpu=4,mem=4000M",
        }
    item: dict[str, t.Any] = {
        "name": "batch",
        "nodes": {"configured": "c[1-2]", "total": 2, "allowed_allocation": ""},
        "cpus": {"total": 4, "task_binding": 0},
        "maximums": {
            "time": num(api, 10080),
            "nodes": num(api, None, infinite=True),
            "shares": 0x8004,
        },
        "defaults": {"time": num(api, 60)},
        "minimums": {"nodes": 1},
        "priority": {"tier": 2, "job_factor": 10},
        "accounts": {"allowed": "", "deny": "guest,old"},
        "groups": {"allowed": ""},
        "qos": {"allowed": "normal,high", "deny": "", "assigned": "part"},
        "grace_time": 30,
        "tres": {"configured": "cpu=4,mem=4000M", "billing_weights": ""},
    }
    if api > 39:
        item["partition"] = {"state": ["UP"]}
    if api > 44:
        item["partition"] |= {"oversubscribe": "FORCE:4", "exclusive": "NO"}
        item |= {"flags": ["DEFAULT"], "preempt_mode": ["SUSPEND"]}
        del item["maximums"]["shares"]
    return item


@EACH
def test_a_partition(api: int) -> None:
    wanted = records.Partition(
        name="batch",
        state="UP" if api != 39 else "",
        nodes="c[1-2]",
        node_count=2,
        cpus=4,
        default=True,
        hidden=False,
        root_only=False,
        max_time=7 * 86400,
        default_time=3600,
        min_nodes=1,
        max_nodes=None,
        priority_tier=2,
        priority_job_factor=10,
        deny_accounts=("guest", "old"),
        allow_qos=("normal", "high"),
        qos="part",
        preempt_mode="GANG,SUSPEND" if api < 39 else "SUSPEND" if api > 44 else "",
        grace_time=30,
        over_subscribe="" if api < 39 else "FORCE:4",
        tres={"cpu": 4, "mem": 4000},
    )
    if 38 < api < 45:  # nothing says it
        wanted = dataclasses.replace(wanted, default=None, hidden=None, root_only=None)
    assert data.partitions({"partitions": [partition(api)]}) == [wanted]


@EACH
def test_a_partition_without_limits(api: int) -> None:
    item = partition(api)
    if api < 39:
        item |= {"max_time_limit": -1, "default_time_limit": None}
    else:
        item["maximums"]["time"] = num(api, None, infinite=True)
        item["defaults"]["time"] = num(api, None)
    (read,) = data.partitions({"partitions": [item]})
    assert (read.max_time, read.default_time) == (None, None)


@pytest.mark.parametrize(
    ("shares", "wanted"), [(0, "EXCLUSIVE"), (1, "NO"), (4, "YES:4"), (0x8004, "FORCE:4")]
)
def test_how_nodes_are_shared(shares: int, wanted: str) -> None:
    item = partition(42)
    item["maximums"]["shares"] = shares
    assert data.partitions({"partitions": [item]})[0].over_subscribe == wanted
    item = partition(45)
    item["partition"] |= {"exclusive": "NODE", "oversubscribe": "NO"}
    assert data.partitions({"partitions": [item]})[0].over_subscribe == "EXCLUSIVE"


@pytest.mark.parametrize(
    ("modes", "wanted"),
    [(["disabled"], ""), (["DISABLED"], "OFF"), (["CLUSTER_GLOBAL"], ""), (["REQUEUE"], "REQUEUE")],
)
def test_how_jobs_are_preempted(modes: list[str], wanted: str) -> None:
    item = partition(45) | {"preempt_mode": modes}
    assert data.partitions({"partitions": [item]})[0].preempt_mode == wanted


@EACH
def test_a_reservation(api: int) -> None:
    item = {
        "name": "maint",
        "start_time": moment(api, NOON),
        "end_time": moment(api, NOON + 86400),
        "node_list": "c[1-2]",
        "node_count": 2,
        "core_count": 4,
        "users": "alice,bob",
        "accounts": "" if api > 38 else None,
        "groups": "" if api > 38 else None,
        "partition": "batch",
        "features": "",
        "licenses": "matlab:2",
        "flags": ["MAINT", "IGNORE_JOBS", "SPEC_NODES", "REOCCURRING"],
        "tres": "cpu=4",
    }
    wanted = records.Reservation(
        name="maint",
        state="ACTIVE",
        start_time=NOON,
        end_time=NOON + 86400,
        nodes="c[1-2]",
        node_count=2,
        core_count=4,
        users=("alice", "bob"),
        partition="batch",
        licenses="matlab:2",
        flags=("IGNORE_JOBS", "MAINT"),
        tres={"cpu": 4},
    )
    document = {"reservations": [item]}
    assert data.reservations(document, now=NOON) == [wanted]
    for now in (NOON - 1, NOON + 86401):
        assert data.reservations(document, now)[0].state == "INACTIVE"


def test_licences() -> None:
    item = {"LicenseName": "matlab", "Total": 10, "Used": 3, "Free": 7, "Reserved": 1}
    document = {
        "licenses": [{**item, "Remote": False}, {**item, "LicenseName": "a", "Remote": True}]
    }
    assert data.licenses(document) == [
        records.License("matlab", 10, 3, 7, 1, False),
        records.License("a", 10, 3, 7, 1, True),
    ]


@EACH
def test_controllers(api: int) -> None:
    pings: list[dict[str, t.Any]] = [{"hostname": "ctl1"}, {"hostname": "ctl2"}]
    for ping, up in zip(pings, (False, True)):
        if api < 42:
            ping["ping" if api < 39 else "pinged"] = "UP" if up else "DOWN"
            ping["mode"] = "backup" if up else "primary"
        else:
            ping |= {"responding": up, "primary": not up}
    assert data.controllers({"pings": pings}) == [
        records.Controller("ctl1", "primary", False),
        records.Controller("ctl2", "backup", True),
    ]
    modes = [c.mode for c in data.controllers({"pings": [*pings, {"hostname": "ctl3"}]})]
    assert modes == ["primary", "backup1", "backup2"]


def test_configuration() -> None:
    shown = {
        "ClusterName": "demo",
        "JobRequeue": True,
        "TCPTimeout": 2,
        "AuthAltTypes": ["auth/jwt", "auth/x"],
        "PrologTimeout": {"set": False, "infinite": False, "number": 0},
        "SuspendTime": {"set": False, "infinite": True, "number": 0},
        "EpilogTimeout": {"set": True, "infinite": False, "number": 5},
        "Licenses": None,
    }
    assert data.configuration({"slurm_conf": shown}).settings == {
        "ClusterName": "demo",
        "JobRequeue": "Yes",
        "TCPTimeout": "2",
        "AuthAltTypes": "auth/jwt,auth/x",
        "PrologTimeout": "",
        "SuspendTime": "UNLIMITED",
        "EpilogTimeout": "5",
        "Licenses": "",
    }
