# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From the decoded documents of slurmrestd and of ``scontrol --json`` to records. Pure.

They are the same for one API version. v0.0.37 and v0.0.38 (22.05) have plain numbers and flat
partitions; v0.0.39 (23.02) and later come from the data_parser plugins, whose numbers are
{"set", "infinite", "number"} and whose states are lists. A field that a version does not have
keeps the record's default. The paths are those of src/plugins/openapi/v0.0.3[78] of Slurm 22.05
and of src/plugins/data_parser/v0.0.39 to v0.0.45. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import re
import time
import typing as t

from .. import records, values

Item = dict[str, t.Any]


def _list(document: Item, key: str) -> list[Item]:
    return [item for item in document.get(key) or [] if isinstance(item, dict)]


def _get(item: Item, *paths: str) -> t.Any:
    """Return the value of the first path ("maximums/time") that item has, None where it has none."""
    for path in paths:
        value: t.Any = item
        for key in path.split("/"):
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def _text(item: Item, *paths: str) -> str:
    value = _get(item, *paths)
    return ",".join(map(str, value)) if isinstance(value, list) else str(value or "").strip()


def _count(item: Item, *paths: str) -> int:
    return values.number(_get(item, *paths)) or 0


def _moment(item: Item, *paths: str) -> int | None:
    return values.number(_get(item, *paths)) or None  # 0 is "not yet" and "never"


def _words(value: t.Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(word) for word in value or ()]


def _minutes(item: Item, *paths: str) -> int | None:
    """Return the seconds of a limit in minutes."""
    limit = values.number(_get(item, *paths))
    return None if limit is None else limit * 60


# --- nodes and jobs -------------------------------------------------------------------------------
def nodes(document: Item) -> list[records.Node]:
    """Return the nodes of GET /nodes."""
    return [_node(item) for item in _list(document, "nodes") if item.get("name")]


def _node(item: Item) -> records.Node:
    state, flags = values.node_state([*_words(item.get("state")), *_words(item.get("state_flags"))])
    reason = _text(item, "reason")
    # User and time remain when a reason is removed; a reason of slurm.conf has neither.
    since = _moment(item, "reason_changed_at") if reason else None
    return records.Node(
        name=item["name"],
        state=state,
        flags=flags,
        reason=reason,
        reason_user=_text(item, "reason_set_by_user") if since else "",
        reason_time=since,
        address=_text(item, "address"),
        hostname=_text(item, "hostname"),
        version=_text(item, "version", "slurmd_version"),
        cpus=_count(item, "cpus"),
        cpus_allocated=_count(item, "alloc_cpus"),
        memory=_count(item, "real_memory"),
        memory_allocated=_count(item, "alloc_memory"),
        gres=_text(item, "gres"),
        gres_used=_text(item, "gres_used"),
        features=values.names(_get(item, "features")),
        active_features=values.names(_get(item, "active_features")),
        partitions=values.names(_get(item, "partitions")),
        weight=_count(item, "weight"),
        comment=_text(item, "comment"),
        extra=_text(item, "extra"),
        boot_time=_moment(item, "boot_time"),
        slurmd_start_time=_moment(item, "slurmd_start_time"),
        tres=values.tres(_text(item, "tres")),
        tres_allocated=values.tres(_text(item, "tres_used")),
    )


def jobs(document: Item, now: float | None = None) -> list[records.Job]:
    """Return the jobs of GET /jobs. now: of the document, for the elapsed time of running jobs."""
    moment = int(time.time() if now is None else now)
    return [_job(item, moment) for item in _list(document, "jobs") if item.get("job_id")]


def _job(item: Item, now: int) -> records.Job:
    state, flags = values.job_state(_words(item.get("job_state")))
    code, signal = _exit(item.get("exit_code"), state)
    limit = _minutes(item, "time_limit")
    end = _moment(item, "end_time")
    task = values.number(item.get("array_task_id"))
    # As scontrol shows them: blanks in a description become underscores.
    reason = re.sub(r"\s", "_", _text(item, "state_description")) or _text(item, "state_reason")
    array = _moment(item, "array_job_id")
    tres = values.tres(_text(item, "tres_alloc_str") or _text(item, "tres_req_str"))
    job = records.Job(
        id=int(item["job_id"]),
        name=str(item.get("name") or ""),
        user=_text(item, "user_name"),
        account=_text(item, "account"),
        partition=_text(item, "partition"),
        qos=_text(item, "qos"),
        state=state,
        flags=flags,
        reason=values.plain(reason),
        array_job_id=array,
        array_task=_task(_text(item, "array_task_string"), task) if array else "",
        nodes=_text(item, "nodes"),
        node_count=_count(item, "node_count"),
        cpus=_count(item, "cpus") or tres.get("cpu", 0),
        tres=tres,
        priority=values.number(item.get("priority")),
        submit_time=_moment(item, "submit_time"),
        start_time=_moment(item, "start_time"),
        # slurmctld sets a far end for a job without a limit.
        end_time=None if limit is None and end and end > now else end,
        elapsed=_elapsed(item, state, now),
        time_limit=limit,
        exit_code=code,
        exit_signal=signal,
        restarts=_count(item, "restart_cnt"),
        dependency=_text(item, "dependency"),
        reservation=_text(item, "resv_name"),
        comment=_text(item, "comment"),
        command=_text(item, "command"),
        workdir=_text(item, "current_working_directory"),
        batch_host=_text(item, "batch_host"),
    )
    stdout, stderr = (_output(item, job, stream) for stream in ("out", "err"))
    return dataclasses.replace(job, stdout=stdout, stderr=stderr or stdout)


def _task(shown: str, number: int | None) -> str:
    return shown or ("" if number is None else str(number))


def _output(item: Item, job: records.Job, stream: str) -> str:
    """Return the path of stdout or stderr; 22.05 does not fill in the default nor the patterns."""
    name = "output" if stream == "out" else "error"
    pattern = _text(item, f"std{stream}_expanded") or _text(item, f"standard_{name}")
    if not pattern and stream == "out" and item.get("batch_flag"):
        pattern = "slurm-%A_%a.out" if job.array_job_id else "slurm-%j.out"
    return values.output_path(pattern, job)


def _elapsed(item: Item, state: str, now: int) -> int:
    """Return the seconds for which the job ran, without those in which it was suspended."""
    start, end = _moment(item, "start_time"), _moment(item, "end_time")
    before = _count(item, "pre_sus_time")
    if state == "PENDING" or not start:
        return 0
    if state == "SUSPENDED":
        return before
    until = now if state == "RUNNING" or not end else end
    resumed = _moment(item, "suspend_time")
    return max(0, until - resumed + before if resumed else until - start)


def _exit(value: t.Any, state: str) -> tuple[int | None, int]:
    """Return exit code and signal, None while it has not ended.

    value: the status of wait(2) (before v0.0.40), or {"status", "return_code", "signal"}.
    """
    if state not in records.ENDED:
        return None, 0
    if isinstance(value, dict) and "status" in value:
        signal = values.number(_get(value, "signal/id", "signal/signal_id")) or 0
        code = values.number(value.get("return_code")) or 0
        # Before v0.0.40 slurmrestd shows 0 for every exit that is in the accounting.
        lost = value["status"] == "SUCCESS" and not code and state == "FAILED"
        return (None if lost else code), signal
    status = values.number(value)
    if status is None:
        return None, 0
    # A status with a signal may have a code as well, which wait(2) leaves undefined; scontrol shows 0.
    signal = status & 0x7F
    return (0 if signal else (status >> 8) & 0xFF), signal


def ended_jobs(document: Item) -> list[records.Job]:
    """Return the jobs of GET /slurmdb/.../job/{job_id}, from the accounting."""
    return [_ended(item) for item in _list(document, "jobs") if item.get("job_id")]


def _ended(item: Item) -> records.Job:
    state, flags = values.job_state(_words(_get(item, "state/current")))
    code, signal = _exit(item.get("exit_code"), state)
    array = _moment(item, "array/job_id")
    task = values.number(_get(item, "array/task_id"))
    allocated = _get(item, "tres/allocated") or _get(item, "tres/requested") or []
    counts = {
        "/".join(filter(None, (one.get("type"), one.get("name")))): values.number(one.get("count"))
        for one in allocated
    }
    # Energy that nothing measured is a negative number.
    tres = {name: count for name, count in counts.items() if count is not None and count >= 0}
    # slurmrestd writes the time of the request if there is not a time yet.
    start, end = _moment(item, "time/start"), _moment(item, "time/end")
    waits = state == "PENDING" and start == end
    hosts, reservation = _text(item, "nodes"), _get(item, "reservation/name")
    job = records.Job(
        id=int(item["job_id"]),
        name=str(item.get("name") or ""),
        user=_text(item, "user", "association/user"),
        account=_text(item, "account"),
        partition=_text(item, "partition"),
        qos=_text(item, "qos"),
        state=state,
        flags=flags,
        reason=values.plain(_text(item, "state/reason")),
        array_job_id=array,
        array_task=_task(_text(item, "array/task"), task) if array else "",
        nodes="" if hosts == "None assigned" else hosts,
        node_count=_count(item, "allocation_nodes") or tres.get("node", 0),
        cpus=tres.get("cpu", 0),
        tres=tres,
        priority=values.number(item.get("priority")),
        submit_time=_moment(item, "time/submission"),
        start_time=None if waits else start,
        end_time=None if waits or state in ("RUNNING", "SUSPENDED") else end,
        elapsed=_count(item, "time/elapsed"),
        time_limit=_minutes(item, "time/limit"),
        exit_code=code,
        exit_signal=signal,
        restarts=_count(item, "restart_cnt"),
        # dbv0.0.38 and older show an address in memory there.
        reservation="" if isinstance(reservation, int) else _text(item, "reservation/name"),
        comment=_text(item, "comment/job"),
        workdir=_text(item, "working_directory"),
    )
    # Not before 24.05; the accounting records lack a default.
    stdout, stderr = (
        values.output_path(_text(item, f"std{stream}_expanded", f"std{stream}"), job)
        for stream in ("out", "err")
    )
    return dataclasses.replace(job, stdout=stdout, stderr=stderr or stdout)


# --- partitions, reservations, licences, controllers, configuration -------------------------------
def partitions(document: Item) -> list[records.Partition]:
    """Return the partitions of GET /partitions."""
    return [_partition(item) for item in _list(document, "partitions") if item.get("name")]


def _partition(item: Item) -> records.Partition:
    flags = item.get("flags")
    shown = None if flags is None else {str(flag).upper() for flag in flags}

    def flag(name: str) -> bool | None:
        return None if shown is None else name in shown

    flat = not isinstance(item.get("nodes"), dict)
    return records.Partition(
        name=item["name"],
        state=_text(item, "partition/state", "state"),
        nodes=_text(item, "nodes" if flat else "nodes/configured"),
        node_count=_count(item, "nodes/total", "total_nodes"),
        cpus=_count(item, "cpus/total", "total_cpus"),
        default=flag("DEFAULT"),
        max_time=_minutes(item, "maximums/time", "max_time_limit"),
        default_time=_minutes(item, "defaults/time", "default_time_limit"),
        min_nodes=_count(item, "minimums/nodes", "min nodes per job"),
        max_nodes=values.number(_get(item, "maximums/nodes", "maximum_nodes_per_job")),
        priority_tier=_count(item, "priority/tier", "priority_tier"),
        priority_job_factor=_count(item, "priority/job_factor", "priority_job_factor"),
        allow_accounts=_allowed(item, "accounts/allowed", "allowed_accounts"),
        deny_accounts=values.names(_text(item, "accounts/deny", "denied_accounts")),
        allow_groups=_allowed(item, "groups/allowed", "allowed_groups"),
        allow_qos=_allowed(item, "qos/allowed", "allowed_qos"),
        deny_qos=values.names(_text(item, "qos/deny", "denied_qos")),
        qos=_text(item, "qos" if flat else "qos/assigned"),
        preempt_mode=_preempt_mode(_get(item, "preempt_mode", "preemption_mode")),
        grace_time=_count(item, "grace_time", "preemption_grace_time"),
        over_subscribe=_over_subscribe(item),
        hidden=flag("HIDDEN"),
        root_only=flag("ROOT_ONLY"),
        tres=values.tres(_text(item, "tres" if flat else "tres/configured")),
    )


def _allowed(item: Item, *paths: str) -> tuple[str, ...]:
    given = _text(item, *paths)
    return () if given.upper() == "ALL" else values.names(given)


def _preempt_mode(modes: t.Any) -> str:
    """Return the mode as scontrol writes it; "" if it does not have its own, or if that is unknown."""
    words = _words(modes)
    if words == ["DISABLED"]:
        return "OFF"
    # "disabled" of 22.05 is OFF as well as none of its own.
    known = {"GANG_SCHEDULE": "GANG", "CLUSTER_GLOBAL": "", "DISABLED": ""}
    shown = {known.get(word, word) for word in map(str.upper, words)} - {""}
    return ",".join(sorted(shown, key=lambda word: (word not in ("GANG", "WITHIN"), word)))


def _over_subscribe(item: Item) -> str:
    if _get(item, "partition/exclusive") in ("NODE", "TOPO"):
        return "EXCLUSIVE"
    shown = _get(item, "partition/oversubscribe")
    shares = _get(item, "maximums/shares")
    if shown is not None or shares is None:
        return str(shown or "")
    force, most = shares & 0x8000, shares & 0x7FFF
    if most == 0:
        return "EXCLUSIVE"
    if force:
        return f"FORCE:{most}"
    return "NO" if most == 1 else f"YES:{most}"


def reservations(document: Item, now: float | None = None) -> list[records.Reservation]:
    """Return the reservations of GET /reservations. now: of the document, for their state."""
    moment = int(time.time() if now is None else now)
    found = [item for item in _list(document, "reservations") if item.get("name")]
    return [_reservation(item, moment) for item in found]


def _reservation(item: Item, now: int) -> records.Reservation:
    start, end = _moment(item, "start_time"), _moment(item, "end_time")
    active = (start or 0) <= now and (end is None or end >= now)
    return records.Reservation(
        name=item["name"],
        state="ACTIVE" if active else "INACTIVE",
        start_time=start,
        end_time=end,
        nodes=_text(item, "node_list"),
        node_count=_count(item, "node_count"),
        core_count=_count(item, "core_count"),
        users=values.names(_text(item, "users")),
        accounts=values.names(_text(item, "accounts")),
        groups=values.names(_text(item, "groups")),
        partition=_text(item, "partition"),
        features=_text(item, "features"),
        licenses=_text(item, "licenses"),
        flags=values.reservation_flags(_words(item.get("flags"))),
        tres=values.tres(_text(item, "tres")),
        comment=_text(item, "comment"),
    )


def licenses(document: Item) -> list[records.License]:
    """Return the licences of GET /licenses."""
    return [
        records.License(
            name=item["LicenseName"],
            total=_count(item, "Total"),
            used=_count(item, "Used"),
            free=_count(item, "Free"),
            reserved=_count(item, "Reserved"),
            remote=bool(item.get("Remote")),
        )
        for item in _list(document, "licenses")
        if item.get("LicenseName")
    ]


def controllers(document: Item) -> list[records.Controller]:
    """Return the controllers of GET /ping, which lists them in the order of slurm.conf."""
    found = _list(document, "pings")
    return [
        records.Controller(
            host=_text(item, "hostname"),
            mode=_mode(index, len(found)),
            up=bool(item.get("responding", _get(item, "pinged", "ping") == "UP")),
        )
        for index, item in enumerate(found)
    ]


def _mode(index: int, count: int) -> str:
    """Return what scontrol ping calls a controller."""
    if index == 0:
        return "primary"
    return "backup" if count == 2 else f"backup{index}"


def configuration(document: Item) -> records.Configuration:
    """Return the settings of GET /conf, which slurmrestd has from v0.0.45 on, as text.

    Numbers are without the unit that ``scontrol show config`` writes behind them.
    """
    shown = document.get("slurm_conf") or {}
    return records.Configuration({key: _setting(value) for key, value in shown.items()})


def _setting(value: t.Any) -> str:
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if isinstance(value, list):
        return ",".join(_setting(one) for one in value)
    if isinstance(value, dict) and "infinite" in value:
        number = "" if not value.get("set") else value.get("number")
        return "UNLIMITED" if value["infinite"] else str(number)
    if isinstance(value, dict):
        return ",".join(f"{key}={_setting(one)}" for key, one in value.items())
    return "" if value is None else str(value)
