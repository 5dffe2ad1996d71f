# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Messages about a job, each in one line: its progress, why it failed, why Slurm refused it.

Pure, but for the look-ups of names through a transport. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t

from .. import values
from ..batch.options import SBATCH
from ..errors import SlurmError, nearest, unknown_names
from ..records import Node, Partition
from .transport import Transport

View = t.Mapping[str, t.Any]
Options = t.Mapping[str, t.Any]

#: Reasons that nobody but a person changes: such a job never starts.
STUCK = ("DependencyNeverSatisfied", "BadConstraints")

# Beginning of the reason for which a job waits -> what to do.
_WAITS = (
    (
        "DependencyNeverSatisfied",
        "the job that it depends on did not end as it must: cancel this one",
    ),
    ("BadConstraints", "no node can ever give what it asks for: cancel it and ask for less"),
    ("Dependency", "see `scontrol show job` for the jobs that it waits for"),
    ("JobHeldUser", "`scontrol release` lets it go"),
    ("JobHeldAdmin", "an administrator holds it: ask him, or see why with `scontrol show job`"),
    ("BeginTime", "it starts no earlier than begin says"),
    ("PartitionTimeLimit", "its time_limit is over the partition's: cancel it, then ask for less"),
    ("PartitionNodeLimit", "it asks for more nodes than the partition allows"),
    ("Partition", "the partition takes no jobs now: `scontrol show partition`"),
    ("ReqNodeNotAvail", "a node that it needs is down, drained or reserved: `sinfo -R`"),
    ("Reservation", "the reservation has not begun, or is full: `scontrol show reservation`"),
    ("Licenses", "`scontrol show licenses` shows who has them"),
    ("Assoc", "a limit of the account: `sacctmgr show assoc tree`"),
    ("QOS", "a limit of the QoS: `sacctmgr show qos`"),
)
_ANY_WAIT = "see `squeue` for the jobs before it and `sinfo -R` for nodes that are out of service"

# State of a job that ended badly -> what happened, what to do.
_ENDS = {
    "BOOT_FAIL": ("could not start, since its nodes did not boot", "see `sinfo -R`"),
    "DEADLINE": ("was ended at its deadline", "give it a later deadline or less to do"),
    "LAUNCH_FAILED": ("could not be started", "see the log of slurmd on its nodes"),
    "NODE_FAIL": (
        "lost a node",
        "see `sinfo -R`; with requeue: true Slurm starts such a job again",
    ),
    "OUT_OF_MEMORY": ("used more memory than it asked for", "raise memory, or use less"),
    "PREEMPTED": ("was preempted", "submit it again, or use a QoS that is not preempted"),
    "REVOKED": ("was taken over by another cluster", "look for it there"),
    "TIMEOUT": ("was ended at its time limit", "raise time_limit, or have it write checkpoints"),
}
_POLICY = "Job violates accounting/QOS policy"
# src/slurmrestd/plugins/openapi/slurmctld/jobs.c, nonfatal_errors.
_WAITING = (
    "Job is in held state",
    "Licenses currently unavailable",
    "Partition in DOWN state",
    "Requested account has breached requested QOS usage threshold",
    "Requested nodes are busy",
    "Requested partition configuration not available now",
    "Requested reservation is in use",
    "Requested reservation not usable now",
    "Required node not available",
    "Required ports are in use",
    "Waiting for burst buffer",
    _POLICY,
)


def duration(seconds: int) -> str:
    """Return seconds as H:MM:SS, with days before it where there are some."""
    days, rest = divmod(max(0, int(seconds)), 86400)
    return (f"{days}-" if days else "") + f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02}"


def number(seen: View) -> str:
    """The number of a job, or of the task of an array that was looked at: 12, 12_3."""
    return str(seen["id"]) + (f"_{seen['task']}" if seen.get("task") else "")


def called(seen: View) -> str:
    """The job as a person knows it: job 12 (train)."""
    return f"job {number(seen)}" + (f" ({seen['name']})" if seen.get("name") else "")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def standing(seen: View) -> str:
    """State, and why it waits or where it runs: PENDING (Resources), 3 before it in gpu."""
    if seen["state"] == "PENDING":
        reason = f" ({seen['reason']})" if seen.get("reason") else ""
        position = seen.get("queue_position")
        queue = f", number {position} in the queue of {seen['partition']}" if position else ""
        return f"PENDING{reason}{queue}"
    nodes = f" on {seen['nodes']}" if seen.get("nodes") else ""
    return f"{seen['state']}{nodes}"


def progress(seen: View) -> tuple[str, str]:
    """Return a line with the progress of a job, and the part of it that is worth another line when it changes."""
    line = f"{called(seen)}: {standing(seen)}"
    news = line
    if seen["state"] != "PENDING":
        line += f", {duration(seen['elapsed'])}"
        said = _last(seen.get("output_tail") or "")
        if said:
            line, news = f"{line} | {said}", f"{news} | {said}"
    return line, news


def never_ran(seen: View) -> bool:
    """Return whether a job was cancelled before it started, so that it has neither nodes nor a log."""
    return seen["state"] == "CANCELLED" and not seen.get("nodes")


def failure(seen: View) -> str:
    """Why a job that ended otherwise than COMPLETED did so, and what to do."""
    state, code, signal = seen["state"], seen.get("exit_code"), seen.get("exit_signal")
    happened, remedy = _ENDS.get(state, ("", ""))
    never = never_ran(seen)
    if state == "FAILED" and signal:
        happened = f"was killed by signal {signal}"
    elif state == "FAILED":
        happened = f"failed with exit code {code}" if code is not None else "failed"
    elif state == "CANCELLED":
        happened = "was cancelled before it started" if never else "was cancelled"
        remedy = "submit it again, if it was not you"
    elif not happened:
        happened = f"ended as {state}"
    where = f" on {seen['nodes']}" if seen.get("nodes") else ""
    reason = seen.get("reason") or ""
    # "NonZeroExitCode", "TimeLimit" and the like repeat the state.
    why = f" ({reason})" if reason and state in ("FAILED", "CANCELLED") and code is None else ""
    said = _last(seen.get("stderr_tail") or "")
    said = f"; the last it wrote: {said}" if said else ""
    log = "" if never else seen.get("stderr") or seen.get("stdout")
    look = f"see {log}" if log else f"see `sacct -j {seen['id']}`"
    task = f" task {seen['failed_task']}" if seen.get("failed_task") else ""
    after = "" if never else f" after {duration(seen['elapsed'])}"
    return f"{called(seen)}{task} {happened}{why}{where}{after}{said} -> " + "; ".join(
        filter(None, (look, remedy))
    )


def late(seen: View, waited: float) -> str:
    """Why a job has not ended although the task waited for it, and the remedy."""
    remedy = _ANY_WAIT
    if seen["state"] == "PENDING":
        reason = seen.get("reason") or ""
        remedy = next((do for begin, do in _WAITS if reason.startswith(begin)), _ANY_WAIT)
    else:
        remedy = "give it a longer timeout"
        said = _last(seen.get("output_tail") or "")
        if said:
            remedy = f"the last it wrote: {said}; " + remedy
    never = "will not start" if seen.get("reason") in STUCK else "has not ended"
    return (
        f"{called(seen)} {never} after {waited:g} s: {standing(seen)} -> {remedy}; it stays as it "
        f"is, another run finds it, and `scancel {seen['id']}` removes it"
    )


# -- refusals --------------------------------------------------------------------------------------
def refusal(error: SlurmError, transport: Transport, options: Options, user: str) -> SlurmError:
    """Return the message when Slurm refuses a job: with names and limits that it accepts.

    Without the data (no accounting, no permission), the error stays as it was.
    """
    text = str(error)
    for pattern, explain in _REFUSALS:
        match = re.search(pattern, text, re.IGNORECASE)
        if not match:
            continue
        try:
            said = explain(transport, options, user, match)
        except SlurmError:
            continue
        if said:
            return SlurmError(error.kind, f"job {options.get('job_name')} is refused: {said}")
    return error


def waits_only(error: SlurmError) -> bool:
    """Whether Slurm accepts the job and keeps it waiting in spite of this message."""
    return any(mark in str(error) for mark in _WAITING)


def _clusters(transport: Transport) -> list[str]:
    """Name of the cluster; all that the accounting knows where slurmrestd (before 26.05) does not show it."""
    try:
        return [transport.configuration().settings["ClusterName"]]
    except (SlurmError, KeyError):
        rows = transport.accounting_rows(("cluster",), "", {"cluster": ("Cluster",)})["cluster"]
        return [row["cluster"] for row in rows]


def _account(transport: Transport, options: Options, user: str, match: re.Match[str]) -> str:
    columns = {"assoc": ("Account", "User", "Partition")}
    mine = sorted(
        {
            row["account"]
            for cluster in _clusters(transport)
            for row in transport.accounting_rows(("assoc",), cluster, columns)["assoc"]
            if row["user"] == user
        }
    )
    given = options.get("account")
    if not mine:
        return (
            f"{user} does not have an account in the accounting -> have an administrator add the user to "
            "one, with slurm_association or in slurm_accounts of site.yml"
        )
    if given and given not in mine:
        close = nearest(given, mine)
        meant = f" (did you mean {' or '.join(close)}?)" if close else ""
        return f"{user} does not have the account {given}{meant} -> set account to one of: {', '.join(mine)}"
    return (
        f"{user} may not use account {given or mine[0]} in partition "
        f"{options.get('partition') or 'that is the default'} -> use another of "
        f"{', '.join(mine)}, or see AllowAccounts of the partition (`scontrol show partition`)"
    )


def _partition(transport: Transport, options: Options, user: str, match: re.Match[str]) -> str:
    known = [partition.name for partition in transport.partitions()]
    given = str(options.get("partition") or "")
    if not given:
        return f"the cluster does not have a default partition -> set partition to one of: {', '.join(known)}"
    wrong = [name for name in given.split(",") if name not in known]
    return str(unknown_names("partition", wrong, known)) if wrong else ""


def _qos(transport: Transport, options: Options, user: str, match: re.Match[str]) -> str:
    known = [
        row["name"] for row in transport.accounting_rows(("qos",), "", {"qos": ("Name",)})["qos"]
    ]
    given = str(options.get("qos") or "")
    if given and given not in known:
        return str(unknown_names("QoS", [given], known))
    return (
        f"{user} may not use the QoS {given or 'that is the default'} -> use another of "
        f"{', '.join(sorted(known))}, or have an administrator allow it, with slurm_association"
    )


def _chosen(transport: Transport, options: Options) -> list[Partition]:
    """The partitions that the job may run in."""
    given = str(options.get("partition") or "")
    return [
        partition
        for partition in transport.partitions()
        if (partition.name in given.split(",") if given else partition.default)
    ]


def _time(transport: Transport, options: Options, user: str, match: re.Match[str]) -> str:
    limits = [
        f"{partition.name} {values.duration(partition.max_time)}"
        for partition in _chosen(transport, options)
    ]
    given = options.get("time")
    if not limits or not given:
        return ""
    return (
        f"time_limit {given} is over the limit of the partition or of the QoS (partition "
        f"{', '.join(limits)}) -> ask for less, or use another partition or QoS"
    )


def _size(transport: Transport, options: Options, user: str, match: re.Match[str]) -> str:
    partitions = _chosen(transport, options)
    names = {partition.name for partition in partitions}
    nodes = [node for node in transport.nodes() if names & set(node.partitions)]
    asked = ", ".join(
        f"{key} {options[key]}"
        for key in (
            *("nodes", "nodelist", "ntasks", "ntasks_per_node", "cpus_per_task", "gpus"),
            *("gpus_per_node", "gres", "mem", "mem_per_cpu", "mem_per_gpu", "constraint"),
        )
        if options.get(key)
    )
    if not nodes:
        return ""
    return (
        f"no nodes can give it what it asks for ({asked or 'by default'}): {_have(names, nodes)} "
        "-> ask for less, or use another partition"
    )


def _have(names: t.Collection[str], nodes: t.Sequence[Node]) -> str:
    gres = sorted({node.gres for node in nodes if node.gres})
    return (
        f"partition {','.join(sorted(names))} has {len(nodes)} nodes, the largest with "
        f"{max(node.cpus for node in nodes)} CPUs and {max(node.memory for node in nodes)} MiB"
        + (f", gres {', '.join(gres)}" if gres else ", without gres")
    )


def _node_names(transport: Transport, options: Options, user: str, match: re.Match[str]) -> str:
    known = [node.name for node in transport.nodes()]
    asked = ",".join(str(options[key]) for key in ("nodelist", "exclude") if options.get(key))
    try:
        wrong = [name for name in values.expand(asked) if name not in known]
    except ValueError as error:
        return f"{asked}: {error} -> write it as gpu[01-04],login1"
    return str(unknown_names("node", wrong, known)) if wrong else ""


def _reservation(transport: Transport, options: Options, user: str, match: re.Match[str]) -> str:
    reservations = {item.name: item for item in transport.reservations()}
    given = str(options.get("reservation") or "")
    wrong = [name for name in given.split(",") if name and name not in reservations]
    if wrong:
        return str(unknown_names("reservation", wrong, reservations))
    return (
        f"reservation {given} does not admit {user} with this account and partition, or is over -> "
        f"`scontrol show reservation {given}` shows whom it admits"
    )


def _feature(transport: Transport, options: Options, user: str, match: re.Match[str]) -> str:
    known = {feature for node in transport.nodes() for feature in node.features}
    asked = re.findall(r"[A-Za-z_][A-Za-z0-9_.:-]*", str(options.get("constraint") or ""))
    wrong = [word for word in asked if word not in known]
    return str(unknown_names("feature", wrong, known)) if wrong else ""


def _gres(transport: Transport, options: Options, user: str, match: re.Match[str]) -> str:
    known = sorted({node.gres for node in transport.nodes() if node.gres})
    asked = ", ".join(f"{k} {v}" for k, v in options.items() if "gpu" in k or k == "gres")
    have = f"the nodes have {', '.join(known)}" if known else "no node has any"
    return f"its generic resources ({asked}) are not there: {have} -> ask for what is there"


def _option(transport: Transport, options: Options, user: str, match: re.Match[str]) -> str:
    name = match[1].replace("-", "_")
    close = nearest(name, {known.replace("-", "_") for known in SBATCH.known})
    meant = f" (did you mean {' or '.join(close)}?)" if close else ""
    return f"this sbatch does not have the option {name}{meant} -> see `man sbatch` on that host"


def _plain(said: str) -> t.Callable[[Transport, Options, str, re.Match[str]], str]:
    return lambda transport, options, user, match: said


# Slurm's error (src/common/slurm_errno.c, src/sbatch) -> cause and remedy.
_REFUSALS: tuple[
    tuple[str, t.Callable[[Transport, Options, str, re.Match[str]], str]],
    ...,
] = (
    (r"unrecognized option '--([a-z-]+)", _option),
    (r"Invalid account", _account),
    (r"Invalid partition name|No partition specified", _partition),
    (r"Invalid qos", _qos),
    (r"Requested time limit is invalid|Time limit specification required", _time),
    (r"Invalid node name|Invalid node list", _node_names),
    (r"Requested reservation is invalid|Access denied to requested reservation", _reservation),
    (r"Invalid feature specification", _feature),
    (r"Invalid generic resource|Invalid GRES", _gres),
    (
        r"Node count specification invalid|Requested node configuration is not available"
        r"|More processors requested than permitted|Memory required by task is not available"
        r"|CPU count per node can not be satisfied|Invalid Trackable RESource",
        _size,
    ),
    (
        r"does not look like a batch script",
        _plain("the script does not begin with #! -> make #!/bin/bash its first line"),
    ),
    (
        r"DOS line breaks",
        _plain("the script has DOS line ends (CR LF) -> save it with Unix ones, as dos2unix does"),
    ),
    (
        r"Batch script (is empty|contains only whitespace)|Job script not specified",
        _plain("the script is empty -> write one into content, or see the file of script"),
    ),
    (
        re.escape(_POLICY),
        _plain(
            "it is over a limit of the account or the QoS -> ask for less or wait for other jobs; "
            "`sacctmgr show assoc tree` and `sacctmgr show qos` show the limits"
        ),
    ),
    (
        r"group not permitted to use this partition",
        _plain("this partition is for other groups -> use another one (`sinfo -s`)"),
    ),
    (
        r"Job dependency problem",
        _plain("a job in dependency is not known -> see `squeue`; the form is afterok:ID[:ID]"),
    ),
    (
        r"Invalid job array specification",
        _plain(
            "array is not a list of indices -> write 0-15, 1,3,5 or 0-99%10 (at most 10 at once)"
        ),
    ),
)
