# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From what scontrol, sacct and sacctmgr print to records. Pure.

scontrol's ``show`` is read in both of its forms, with many lines for a record and with -o. In the
many-line form each free text (a job's name, a comment, a reason) is at the end of its line, so
that nothing in it can be taken for another field; with -o a text such as "x Comment=y" cannot be
told from two fields. The forms are those of src/api/*_info.c and src/scontrol of Slurm 22.05 to
26.05, run with TZ=UTC and SLURM_TIME_FORMAT=standard. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .. import records, values

#: Columns for ``sacct -nPX --delimiter=SACCT_DELIMITER -o``. The last one is a number, so that a
#: line end in a name or comment does not end the record.
SACCT_COLUMNS = (
    *("JobID", "User", "Account", "Partition", "QOS", "State", "Reason", "NodeList", "NNodes"),
    *("AllocCPUS", "AllocTRES", "ReqTRES", "Priority", "Submit", "Start", "End", "ElapsedRaw"),
    *("TimelimitRaw", "ExitCode", "Reservation", "JobName", "WorkDir", "Comment", "JobIDRaw"),
)
#: A character that no value has; the default, "|", may be in names, comments and paths.
SACCT_DELIMITER = "\x1f"
#: Columns for ``sacctmgr -nP show event``; the one with free text is the last.
EVENT_COLUMNS = ("Cluster", "NodeName", "TimeStart", "TimeEnd", "State", "User", "Reason")

Fields = dict[str, str]
_KEY = re.compile(r"(?:^|(?<=\s))([A-Z][A-Za-z_:/]*)=")
_LINE = re.compile(r" {3,4}(?=[A-Z][A-Za-z_:/]*=)")
_REASON = re.compile(r"(.*?)(?: \[([^\]@]+)@(\d{4}-\d\d-\d\dT[\d:]+|Unknown)\])?\Z", re.DOTALL)
_PING = re.compile(r"Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)")
# Free texts of a record in the order in which they are printed, each with what may follow it. Only
# needed for -o, where their end does not show.
_NODE_END = "InstanceId=|InstanceType=|ReservationName=|Parameters="
_NODE_TEXTS = {
    "OS": r"RealMemory=\d",
    "Reason": f"Comment=|Extra=|{_NODE_END}",
    "Comment": f"Extra=|{_NODE_END}",
    "Extra": _NODE_END,
}
_JOB_END = (
    r"Switches=|BurstBuffer=|BurstBufferState=|CPU_\w+=|Power=|Gres\w+=|KillOIn\w+=|SpreadJob="
    r"|SegmentSize=|OOMKillStep=|CpusPerTres=|MemPerTres=|Tres\w+=|MailUser=|NtasksPerTRES="
    r"|Container\w*=|SELinuxContext=|ResvPorts="
)
_JOB_TEXTS = {
    "JobName": r"UserId=(?:(?! UserId=).)*?\(\d+\) GroupId=|HetJobIdSet=",
    "Command": "SubmitLine=|WorkDir=",
    "SubmitLine": "WorkDir=",
    "WorkDir": f"AdminComment=|SystemComment=|Comment=|Extra=|StdErr=|{_JOB_END}",
    "AdminComment": f"SystemComment=|Comment=|Extra=|StdErr=|{_JOB_END}",
    "SystemComment": f"Comment=|Extra=|StdErr=|{_JOB_END}",
    "Comment": f"Extra=|StdErr=|{_JOB_END}",
    "Extra": f"StdErr=|{_JOB_END}",
    "StdErr": "StdIn=",
    "StdIn": "StdOut=",
    "StdOut": _JOB_END,
}
_RESERVATION_TEXTS = {"Comment": r"\Z"}


# --- the form -------------------------------------------------------------------------------------
def _show(text: str, first: str, then: str, texts: t.Mapping[str, str]) -> list[Fields]:
    """Return the fields of each record of ``scontrol show``.

    first: key that begins a record; then: one that follows it in the next lines, or in the same
    with -o. Both, and the blank line between records, are asked for so that no text with line ends
    in it is easily taken for a record.
    """
    found: list[tuple[bool, list[str]]] = []
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith(first + "="):
            one = not any(_LINE.match(more) for more in lines[number + 1 : number + 2])
            near = [line] if one else lines[number + 1 : number + 4]
            # Licences, which have no texts, have no blank lines between them either.
            apart = one or not texts or not found or not lines[number - 1].strip()
            if apart and any(f" {then}=" in more for more in near):
                found.append((one, [line]))
                continue
        if found:
            found[-1][1].append(line)
    return [_one(shown, texts) if one else _lines(shown, texts) for one, shown in found]


def _lines(lines: t.Sequence[str], texts: t.Mapping[str, str]) -> Fields:
    """Return the fields of a record of many lines; a free text continues to the end of its line."""
    fields: Fields = {}
    open_text = ""
    for number, line in enumerate(lines):
        if number and not _LINE.match(line):
            # The rest of a text with line ends in it; or the details of a job's nodes.
            if open_text:
                fields[open_text] += "\n" + line[10 if open_text == "Reason" else 0 :]
            continue
        open_text = ""
        line = line.strip() if not number else line[3:]
        marks = list(_KEY.finditer(line))
        for index, mark in enumerate(marks):
            end = marks[index + 1].start() if index + 1 < len(marks) else len(line)
            if mark[1] in texts:
                open_text, end = mark[1], len(line)
            fields.setdefault(mark[1], line[mark.end() : end].strip())
            if open_text:
                break
    return {key: value.rstrip() for key, value in fields.items()}


def _one(lines: t.Sequence[str], texts: t.Mapping[str, str]) -> Fields:
    """Return the fields of a record in one line; a free text ends where one that may follow begins."""
    line = "\n".join(lines).rstrip()
    fields: Fields = {}
    position = 0
    while True:
        mark = _KEY.search(line, position)
        if not mark:
            return fields
        follows = texts.get(mark[1], r"[A-Z][A-Za-z_:/]*=")
        end = re.compile(rf"\s(?={follows})").search(line, mark.end())
        position = end.start() if end else len(line)
        fields.setdefault(mark[1], line[mark.end() : position].strip())


def _whole(text: str) -> int:
    """Return the number at the beginning of text ("2-4" is at least 2), 0 without one."""
    match = re.match(r"\d+", text)
    return int(match[0]) if match else 0


def _plain(fields: Fields, key: str) -> str:
    return values.plain(fields.get(key))


def _text(fields: Fields, key: str) -> str:
    """Return a text that may well be "None", if a person wrote that."""
    given = fields.get(key, "")
    return "" if given == "(null)" else given


# --- scontrol -------------------------------------------------------------------------------------
def nodes(text: str) -> list[records.Node]:
    """Return the nodes of ``scontrol show node`` (GresUsed only with -d)."""
    return [_node(fields) for fields in _show(text, "NodeName", "CPUAlloc", _NODE_TEXTS)]


def _node(fields: Fields) -> records.Node:
    state, flags = values.node_state([fields.get("State", "UNKNOWN")])
    reason, user, since = _reason(fields.get("Reason", ""))
    return records.Node(
        name=fields["NodeName"],
        state=state,
        flags=flags,
        reason=reason,
        reason_user=user,
        reason_time=since,
        address=_plain(fields, "NodeAddr"),
        hostname=_plain(fields, "NodeHostName"),
        version=_plain(fields, "Version"),
        cpus=_whole(fields.get("CPUTot", "")),
        cpus_allocated=_whole(fields.get("CPUAlloc", "")),
        memory=_whole(fields.get("RealMemory", "")),
        memory_allocated=_whole(fields.get("AllocMem", "")),
        gres=_plain(fields, "Gres"),
        gres_used=_plain(fields, "GresUsed"),
        features=values.names(fields.get("AvailableFeatures")),
        active_features=values.names(fields.get("ActiveFeatures")),
        partitions=values.names(fields.get("Partitions")),
        weight=_whole(fields.get("Weight", "1")),
        comment=fields.get("Comment", ""),
        extra=fields.get("Extra", ""),
        boot_time=values.point(fields.get("BootTime", "")),
        slurmd_start_time=values.point(fields.get("SlurmdStartTime", "")),
        tres=values.tres(_plain(fields, "CfgTRES")),
        tres_allocated=values.tres(_plain(fields, "AllocTRES")),
    )


def _reason(shown: str) -> tuple[str, str, int | None]:
    """Return reason, who set it and when; these two follow its first line, in brackets."""
    line, end, more = shown.partition("\n")
    match = _REASON.match(line)
    if match is None:
        return shown, "", None
    return match[1] + end + more, match[2] or "", values.point(match[3] or "")


def jobs(text: str) -> list[records.Job]:
    """Return the jobs of ``scontrol show job``."""
    return [_job(fields) for fields in _show(text, "JobId", "UserId", _JOB_TEXTS)]


def _job(fields: Fields) -> records.Job:
    state, flags = values.job_state([fields.get("JobState", "")])
    code, signal = _exit(fields.get("ExitCode", ""), state)
    tres = [_plain(fields, key) for key in ("AllocTRES", "ReqTRES", "TRES")]
    job = records.Job(
        id=int(fields["JobId"]),
        name=fields.get("JobName", ""),
        user=_user(fields.get("UserId", "")),
        account=_plain(fields, "Account"),
        partition=_plain(fields, "Partition"),
        qos=_plain(fields, "QOS"),
        state=state,
        flags=flags,
        reason=_plain(fields, "Reason"),
        array_job_id=_whole(fields.get("ArrayJobId", "")) or None,
        array_task=_plain(fields, "ArrayTaskId"),
        nodes=_plain(fields, "NodeList"),
        node_count=_whole(fields.get("NumNodes", "")),
        cpus=_whole(fields.get("NumCPUs", "")),
        tres=values.tres(next(filter(None, tres), "")),
        priority=values.number(fields.get("Priority")),
        submit_time=values.point(fields.get("SubmitTime", "")),
        start_time=values.point(fields.get("StartTime", "")),
        end_time=values.point(fields.get("EndTime", "")),
        elapsed=values.seconds(fields.get("RunTime", "")) or 0,
        time_limit=values.seconds(fields.get("TimeLimit", "")),
        exit_code=code,
        exit_signal=signal,
        restarts=_whole(fields.get("Restarts", "")),
        dependency=_plain(fields, "Dependency"),
        reservation=_plain(fields, "Reservation"),
        comment=fields.get("Comment", ""),
        command=_text(fields, "Command"),
        workdir=_text(fields, "WorkDir"),
        batch_host=_plain(fields, "BatchHost"),
    )
    stdout, stderr = (values.output_path(fields.get(key, ""), job) for key in ("StdOut", "StdErr"))
    # 26.05 does not print StdErr when it is the same.
    return dataclasses.replace(job, stdout=stdout, stderr=stderr or stdout)


def _user(shown: str) -> str:
    return re.sub(r"\(\d+\)?\Z", "", shown)


def _exit(shown: str, state: str) -> tuple[int | None, int]:
    """Return exit code and signal of "1:0"; Slurm shows 0:0 for what has not ended."""
    code, _colon, signal = shown.partition(":")
    return (int(code or 0), int(signal or 0)) if state in records.ENDED else (None, 0)


def partitions(text: str) -> list[records.Partition]:
    """Return the partitions of ``scontrol show partition``."""
    return [_partition(fields) for fields in _show(text, "PartitionName", "AllocNodes", {})]


def _partition(fields: Fields) -> records.Partition:
    def allowed(key: str) -> tuple[str, ...]:
        given = fields.get(key, "")
        return () if given.upper() == "ALL" else values.names(given)

    most = fields.get("MaxNodes", "")
    # Since 26.05 whole nodes for a job are an option of their own.
    whole = fields.get("Exclusive") in ("NODE", "TOPO")
    return records.Partition(
        name=fields["PartitionName"],
        state=fields.get("State", ""),
        nodes=_plain(fields, "Nodes"),
        node_count=_whole(fields.get("TotalNodes", "")),
        cpus=_whole(fields.get("TotalCPUs", "")),
        default=fields.get("Default") == "YES",
        max_time=values.seconds(fields.get("MaxTime", "")),
        default_time=values.seconds(fields.get("DefaultTime", "")),
        min_nodes=_whole(fields.get("MinNodes", "")),
        max_nodes=int(most) if most.isdigit() else None,
        priority_tier=_whole(fields.get("PriorityTier", "")),
        priority_job_factor=_whole(fields.get("PriorityJobFactor", "")),
        allow_accounts=allowed("AllowAccounts"),
        deny_accounts=values.names(fields.get("DenyAccounts")),
        allow_groups=allowed("AllowGroups"),
        allow_qos=allowed("AllowQos"),
        deny_qos=values.names(fields.get("DenyQos")),
        qos=_plain(fields, "QoS"),
        preempt_mode=fields.get("PreemptMode", ""),
        grace_time=_whole(fields.get("GraceTime", "")),
        over_subscribe="EXCLUSIVE" if whole else fields.get("OverSubscribe", ""),
        hidden=fields.get("Hidden") == "YES",
        root_only=fields.get("RootOnly") == "YES",
        tres=values.tres(_plain(fields, "TRES")),
    )


def reservations(text: str) -> list[records.Reservation]:
    """Return the reservations of ``scontrol show reservation``."""
    return [_reservation(f) for f in _show(text, "ReservationName", "Nodes", _RESERVATION_TEXTS)]


def _reservation(fields: Fields) -> records.Reservation:
    return records.Reservation(
        name=fields["ReservationName"],
        state=fields.get("State", ""),
        start_time=values.point(fields.get("StartTime", "")),
        end_time=values.point(fields.get("EndTime", "")),
        nodes=_plain(fields, "Nodes"),
        node_count=_whole(fields.get("NodeCnt", "")),
        core_count=_whole(fields.get("CoreCnt", "")),
        users=values.names(fields.get("Users")),
        accounts=values.names(fields.get("Accounts")),
        groups=values.names(fields.get("Groups")),
        partition=_plain(fields, "PartitionName"),
        features=_plain(fields, "Features"),
        licenses=_plain(fields, "Licenses"),
        flags=values.reservation_flags(values.names(fields.get("Flags"))),
        tres=values.tres(_plain(fields, "TRES")),
        comment=fields.get("Comment", ""),
    )


def licenses(text: str) -> list[records.License]:
    """Return the licences of ``scontrol show licenses``."""
    return [
        records.License(
            name=fields["LicenseName"],
            total=_whole(fields.get("Total", "")),
            used=_whole(fields.get("Used", "")),
            free=_whole(fields.get("Free", "")),
            reserved=_whole(fields.get("Reserved", "")),
            remote=fields.get("Remote") == "yes",
        )
        for fields in _show(text, "LicenseName", "Total", {})
    ]


def configuration(text: str) -> records.Configuration:
    """Return the settings of ``scontrol show config``, and those of its sections by title.

    Values are as Slurm prints them ("60 sec"); (null) becomes "".
    """
    settings: dict[str, str] = {}
    sections: dict[str, dict[str, str]] = {}
    into = settings
    for line in text.splitlines():
        key, equals, value = (part.strip() for part in line.partition("="))
        if equals and not key.startswith("Slurmctld("):
            into[key] = value if value == "N/A" else values.plain(value)
        elif line.strip().endswith(":"):
            into = sections.setdefault(line.strip()[:-1], {})
    return records.Configuration(settings, sections)


def controllers(text: str) -> list[records.Controller]:
    """Return the controllers of ``scontrol ping``."""
    return [
        records.Controller(host=host, mode=mode, up=state == "UP")
        for mode, host, state in _PING.findall(text)
    ]


# --- the accounting -------------------------------------------------------------------------------
def ended_jobs(text: str) -> list[records.Job]:
    """Return the jobs of ``sacct -nPX`` with SACCT_COLUMNS, with SACCT_DELIMITER or with "|"."""
    if SACCT_DELIMITER not in text:
        rows = [_by_bars(line) for line in text.rstrip("\n").split("\n")]
        return [_ended(dict(zip(SACCT_COLUMNS, row))) for row in rows if row]
    last = len(SACCT_COLUMNS) - 1
    found: list[records.Job] = []
    row: list[str] = []
    for cell in text.split(SACCT_DELIMITER):
        if len(row) < last:
            row.append(cell)
            continue
        # The last column of a record and the first of the next are on both sides of a line end.
        end, _newline, begin = cell.partition("\n")
        found.append(_ended(dict(zip(SACCT_COLUMNS, [*row, end]))))
        row = [begin]
    return found


def _by_bars(line: str) -> list[str]:
    """Return the cells of a line; a bar too many belongs to the name or to the comment."""
    cells = line.split("|")
    name, more = SACCT_COLUMNS.index("JobName"), len(cells) - len(SACCT_COLUMNS)
    if more < 0:
        return []  # a line of something else
    paths = [at for at in range(name + 1, name + 2 + more) if cells[at].startswith("/")]
    at = paths[0] if paths else name + 1
    texts = ["|".join(cells[name:at]), cells[at], "|".join(cells[at + 1 : -1])]
    return [*cells[:name], *texts, cells[-1]]


def _ended(cells: Fields) -> records.Job:
    state, flags = values.job_state([cells["State"]])
    code, signal = _exit(cells["ExitCode"], state)
    array, _line, task = cells["JobID"].partition("_")
    tres = values.tres(_plain(cells, "AllocTRES") or _plain(cells, "ReqTRES"))
    hosts = _plain(cells, "NodeList")
    return records.Job(
        id=int(cells["JobIDRaw"]),
        name=cells["JobName"],
        user=_plain(cells, "User"),
        account=_plain(cells, "Account"),
        partition=_plain(cells, "Partition"),
        qos=_plain(cells, "QOS"),
        state=state,
        flags=flags,
        reason=_plain(cells, "Reason"),
        array_job_id=int(array) if task else None,
        array_task=task.strip("[]"),
        nodes="" if hosts == "None assigned" else hosts,
        node_count=_whole(cells["NNodes"]),
        cpus=tres.get("cpu", _whole(cells["AllocCPUS"])),
        tres=tres,
        priority=values.number(cells["Priority"]),
        submit_time=values.point(cells["Submit"]),
        start_time=values.point(cells["Start"]),
        end_time=values.point(cells["End"]),
        elapsed=_whole(cells["ElapsedRaw"]),
        time_limit=values.seconds(cells["TimelimitRaw"]),
        exit_code=code,
        exit_signal=signal,
        reservation=_plain(cells, "Reservation"),
        comment=cells["Comment"],
        workdir=cells["WorkDir"],
    )


def events(text: str) -> list[records.Event]:
    """Return the events of ``sacctmgr -nP show event`` with EVENT_COLUMNS."""
    rows: list[list[str]] = []
    for line in text.rstrip("\n").split("\n"):
        cells = line.split("|", len(EVENT_COLUMNS) - 1)
        if len(cells) == len(EVENT_COLUMNS):
            rows.append(cells)
        elif rows:  # a reason of several lines
            rows[-1][-1] += "\n" + line
    return [
        records.Event(
            cluster=cluster,
            node=node,
            start_time=values.point(start),
            end_time=values.point(end),
            state=state.upper(),
            reason=values.plain(reason),
            user=user.partition("(")[0],
        )
        for cluster, node, start, end, state, user, reason in rows
    ]
