# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what is read from scontrol, sacct and sacctmgr.

The texts here are written by hand after src/api/*_info.c and src/scontrol of Slurm 22.05 and 24.11;
what real ones print is replayed in test_replay.py.
"""

from __future__ import annotations

import re

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import records
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import text
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

SOME = settings(max_examples=1_000, deadline=None)
# 16:00 of 20 November 2026, UTC.
NOON = 1795190400
NODE = """\
NodeName=c1 Arch=x86_64 CoresPerSocket=1{sp}
   CPUAlloc=1 CPUEfctv=2 CPUTot=2 CPULoad=1.61
   AvailableFeatures=gpu,fast
   ActiveFeatures=gpu
   Gres=gpu:h100:8(S:0-1)
   GresDrain=N/A
   GresUsed=gpu:h100:1(IDX:0)
   NodeAddr=10.0.0.1 NodeHostName=c1-host Version={version}
   OS=Linux 6.1.0 State=ODD #1 SMP PREEMPT_DYNAMIC{sp}
   RealMemory=2000 AllocMem=500 FreeMem=N/A Sockets=2 Boards=1
   State=MIXED+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=7 Owner=N/A MCS_label=N/A
   Partitions=batch,gpu{sp}
   BootTime=2026-11-20T16:00:00 SlurmdStartTime=2026-11-20T16:00:01
   LastBusyTime=2026-11-20T16:00:02{new}
   CfgTRES=cpu=2,mem=2000M,billing=2,gres/gpu=8
   AllocTRES=cpu=1,mem=500M
{old}   CurrentWatts=0 AveWatts=0
{sp}{sp}{sp}
   Reason={reason} [alice@2026-11-20T16:00:03]
   Comment={comment}
   Extra={extra}

"""
OLD_NODE = {
    "version": "22.05.8",
    "new": "",
    "old": "   CapWatts=n/a\n   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s\n",
}
NEW_NODE = {"version": "24.11.5", "new": " ResumeAfterTime=None", "old": ""}
JOB = """\
JobId=17 JobName={name}
   UserId=alice(1000) GroupId=staff(1000) MCS_label=N/A
   Priority=4294901757 Nice=0 Account=lab QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=1-00:00:05 TimeLimit=2-00:00:00 TimeMin=N/A
   SubmitTime=2026-11-20T16:00:00 EligibleTime=2026-11-20T16:00:00
   AccrueTime=2026-11-20T16:00:00
   StartTime=2026-11-20T16:00:01 EndTime=2026-11-22T16:00:01 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-20T16:00:01 Scheduler=Main
   Partition=batch AllocNode:Sid=login:4711
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=c[1-2]
   BatchHost=c1
   NumNodes=2 NumCPUs=4 NumTasks=2 CPUs/Task=2 ReqB:S:C:T=0:0:*:*
{tres}
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES=(null)
     Nodes=c[1-2] CPU_IDs=0-1 Mem=500 GRES=
   MinCPUsNode=2 MinMemoryNode=500M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   Reservation=maint
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command={command}
   WorkDir={workdir}
   Comment={comment}{sp}
   StdErr={stderr}
   StdIn=/dev/null
   StdOut={stdout}
{end}

"""
OLD_JOB = {"tres": "   TRES=cpu=4,mem=1000M,node=2,billing=4", "end": "   Power=\n   "}
NEW_JOB = {
    "tres": (
        "   ReqTRES=cpu=2,mem=1000M,node=2,billing=2\n   AllocTRES=cpu=4,mem=1000M,node=2,billing=4"
    ),
    "end": "   TresPerTask=cpu=2\n   ",
}
JOB_TEXTS = {
    "name": "train",
    "command": "/home/alice/run.sh",
    "workdir": "/home/alice",
    "comment": "seen",
    "stderr": "/home/alice/e",
    "stdout": "/home/alice/o",
}
VERSIONS = pytest.mark.parametrize("new", [False, True], ids=["22.05", "24.11"])
FORMS = pytest.mark.parametrize("one_line", [False, True], ids=["lines", "-o"])
# What a person, or Slurm, may write into a text: also what looks like fields of scontrol.
WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=30
).map(str.strip)
FIELDS = (
    *("State=DOWN", "JobState=FAILED", "UserId=root(0)", "WorkDir=/", "Comment=x", "[a@b]"),
    *("Extra=", "a=b", "|", "x y", "Reason=none", "StdOut=/etc/shadow", "None", "NodeName=c9"),
)
FREE = st.one_of(WORDS, st.lists(st.sampled_from(FIELDS), min_size=1, max_size=4).map(" ".join))
NO_FIELDS = WORDS.filter(lambda words: not re.search(r"[A-Z]\S*=", words))


def in_one_line(shown: str) -> str:
    """Return what -o makes of a record: a blank for each line end and its indentation."""
    return re.sub(r"\n {3}", " ", shown.strip("\n")) + "\n"


def node(new: bool = True, **texts: str) -> str:
    given_ = {"reason": "bad disk", "comment": "seen", "extra": "x=1", **texts}
    return NODE.format(sp=" ", **(NEW_NODE if new else OLD_NODE), **given_)


def job(new: bool = True, **texts: str) -> str:
    return JOB.format(sp=" ", **(NEW_JOB if new else OLD_JOB), **{**JOB_TEXTS, **texts})


# --- nodes ----------------------------------------------------------------------------------------
@VERSIONS
@FORMS
def test_a_node(new: bool, one_line: bool) -> None:
    shown = in_one_line(node(new)) if one_line else node(new)
    assert text.nodes("some warning\n" + shown + shown.replace("=c1 ", "=c2 ")) == [
        records.Node(
            name=name,
            state="MIXED",
            flags=("DRAIN",),
            reason="bad disk",
            reason_user="alice",
            reason_time=NOON + 3,
            address="10.0.0.1",
            hostname="c1-host",
            version="24.11.5" if new else "22.05.8",
            cpus=2,
            cpus_allocated=1,
            memory=2000,
            memory_allocated=500,
            gres="gpu:h100:8(S:0-1)",
            gres_used="gpu:h100:1(IDX:0)",
            features=("gpu", "fast"),
            active_features=("gpu",),
            partitions=("batch", "gpu"),
            weight=7,
            comment="seen",
            extra="x=1",
            boot_time=NOON,
            slurmd_start_time=NOON + 1,
            tres={"cpu": 2, "mem": 2000, "billing": 2, "gres/gpu": 8},
            tres_allocated={"cpu": 1, "mem": 500},
        )
        for name in ("c1", "c2")
    ]


def test_a_reason_that_looks_like_keys_in_one_line() -> None:
    """A reason ends with who set it, also where -o puts everything into one line."""
    (read,) = text.nodes(in_one_line(node(reason="see State=DOWN Version=1 [x] in wiki")))
    assert read.reason == "see State=DOWN Version=1 [x] in wiki"
    assert (read.reason_user, read.shown, read.version) == ("alice", "MIXED+DRAIN", "24.11.5")


def test_a_reason_of_several_lines() -> None:
    """Slurm writes who set it behind the first line, and indents the others."""
    shown = node().replace("16:00:03]\n", "16:00:03]\n          second State=DOWN\n")
    (read,) = text.nodes(shown)
    assert (read.reason, read.reason_user) == ("bad disk\nsecond State=DOWN", "alice")
    assert (read.state, read.comment) == ("MIXED", "seen")


def test_a_node_that_never_registered() -> None:
    (read,) = text.nodes(
        "NodeName=c2 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=N/A "
        "AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr=c2 NodeHostName=c2  "
        "RealMemory=1 AllocMem=0 FreeMem=N/A Sockets=2 Boards=1 State=UNKNOWN* ThreadsPerCore=1 "
        "BootTime=None SlurmdStartTime=None LastBusyTime=Unknown CfgTRES=cpu=2 AllocTRES= \n"
    )
    assert (read.state, read.flags, read.version) == ("UNKNOWN", ("NOT_RESPONDING",), "")
    assert (read.features, read.gres, read.reason, read.boot_time) == ((), "", "", None)
    assert (read.tres, read.tres_allocated) == ({"cpu": 2}, {})
    assert not read.registered


@SOME
@given(FREE, FREE, FREE, st.booleans())
@example("x [root@2026-11-20T16:00:00]", "a", "b", True)
def test_no_text_of_a_node_spoils_its_fields(
    reason: str, comment: str, extra: str, new: bool
) -> None:
    assume(reason and comment and extra)
    (read,) = text.nodes(node(new, reason=reason, comment=comment, extra=extra))
    assert (read.reason, read.reason_user, read.reason_time) == (reason, "alice", NOON + 3)
    assert (read.comment, read.extra) == (comment, extra)
    assert (read.name, read.shown, read.hostname) == ("c1", "MIXED+DRAIN", "c1-host")
    assert (read.boot_time, read.tres_allocated) == (NOON, {"cpu": 1, "mem": 500})


@SOME
@given(NO_FIELDS, NO_FIELDS, st.booleans())
def test_no_text_without_keys_spoils_a_node_in_one_line(
    reason: str, comment: str, new: bool
) -> None:
    assume(reason and comment)
    (read,) = text.nodes(in_one_line(node(new, reason=reason, comment=comment)))
    assert (read.reason, read.comment, read.extra) == (reason, comment, "x=1")
    assert (read.name, read.shown, read.boot_time) == ("c1", "MIXED+DRAIN", NOON)


@SOME
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(shown: str) -> None:
    """No loop without end and no error but of a value."""
    for read in (text.nodes, text.jobs, text.partitions, text.reservations, text.licenses):
        for first in ("NodeName=", "JobId=", "PartitionName=", "ReservationName=", "LicenseName="):
            try:
                read(first + shown)
            except ValueError:
                assert first == "JobId="  # what follows is no number
    text.configuration(shown)
    text.controllers(shown)


# --- jobs -----------------------------------------------------------------------------------------
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
    elapsed=86405,
    time_limit=2 * 86400,
    restarts=2,
    reservation="maint",
    comment="seen",
    command="/home/alice/run.sh",
    workdir="/home/alice",
    stdout="/home/alice/o",
    stderr="/home/alice/e",
    batch_host="c1",
)


@VERSIONS
@FORMS
def test_a_job(new: bool, one_line: bool) -> None:
    shown = in_one_line(job(new)) if one_line else job(new)
    assert text.jobs(shown) == [RUNNING]
    assert len(text.jobs(shown * 3)) == 3


@pytest.mark.parametrize(
    ("state", "exit_code", "wanted"),
    [
        ("COMPLETED", "0:0", (0, 0)),
        ("FAILED", "3:0", (3, 0)),
        ("TIMEOUT", "0:15", (0, 15)),
        ("PENDING", "0:0", (None, 0)),
        ("COMPLETING", "0:0", (None, 0)),
    ],
)
def test_the_exit_of_a_job_shows_when_it_has_ended(
    state: str, exit_code: str, wanted: tuple[int | None, int]
) -> None:
    shown = job().replace("=RUNNING", f"={state}").replace("ExitCode=0:0", f"ExitCode={exit_code}")
    (read,) = text.jobs(shown)
    assert (read.exit_code, read.exit_signal) == wanted


def test_a_suspended_job() -> None:
    (read,) = text.jobs(job().replace("=RUNNING ", "=SUSPENDED "))
    assert (read.state, read.flags, read.nodes) == ("SUSPENDED", (), "c[1-2]")


def test_a_job_that_waits() -> None:
    shown = (
        job()
        .replace("=RUNNING Reason=None", "=PENDING Reason=Nodes_required_for_job_are_DOWN")
        .replace("NodeList=c[1-2]", "NodeList=(null)")
        .replace("NumNodes=2 NumCPUs=4", "NumNodes=2-4 NumCPUs=4-8")
        .replace("AllocTRES=cpu=4,mem=1000M,node=2,billing=4", "AllocTRES=(null)")
        .replace("StartTime=2026-11-20T16:00:01 EndTime=2026-11-22T16:00:01", "StartTime=Unknown EndTime=Unknown")
        .replace("RunTime=1-00:00:05 TimeLimit=2-00:00:00", "RunTime=00:00:00 TimeLimit=UNLIMITED")
        .replace("JobId=17 ", "JobId=17 ArrayJobId=15 ArrayTaskId=4-9%2 ArrayTaskThrottle=2 ")
        .replace("   BatchHost=c1\n", "")
    )  # fmt: skip
    (read,) = text.jobs(shown)
    assert (read.state, read.reason) == ("PENDING", "Nodes_required_for_job_are_DOWN")
    assert (read.nodes, read.node_count, read.cpus, read.batch_host) == ("", 2, 4, "")
    assert read.tres == {"cpu": 2, "mem": 1000, "node": 2, "billing": 2}
    assert (read.start_time, read.end_time, read.time_limit, read.elapsed) == (None, None, None, 0)
    assert (read.array_job_id, read.array_task, read.name) == (15, "4-9%2", "train")


@SOME
@given(FREE, FREE, FREE, FREE, st.booleans())
@example("x UserId=root(0) GroupId=root(0) MCS_label=N/A", "a", "b", "c", True)
def test_no_text_of_a_job_spoils_its_fields(
    name: str, command: str, path: str, comment: str, new: bool
) -> None:
    assume(name and command and comment and "%" not in path)
    assume(command != "(null)")
    workdir, stdout = f"/w {path}", f"/o {path}"
    shown = job(new, name=name, command=command, workdir=workdir, comment=comment, stdout=stdout)
    (read,) = text.jobs(shown)
    assert (read.name, read.command, read.comment) == (name, command, comment)
    assert (read.workdir, read.stdout) == (workdir.strip(), stdout.strip())
    assert (read.user, read.state, read.nodes) == ("alice", "RUNNING", "c[1-2]")
    assert (read.stderr, read.reservation, read.elapsed) == ("/home/alice/e", "maint", 86405)


def test_a_comment_of_several_lines() -> None:
    (read,) = text.jobs(job(comment="first\nsecond line\n\n  third"))
    assert read.comment == "first\nsecond line\n\n  third"
    assert (read.stdout, read.stderr) == ("/home/alice/o", "/home/alice/e")


@SOME
@given(NO_FIELDS, NO_FIELDS, NO_FIELDS)
def test_no_text_without_keys_spoils_a_job_in_one_line(name: str, path: str, comment: str) -> None:
    assume(name and comment and "%" not in path)
    shown = job(name=name, workdir=f"/w {path}", comment=comment)
    (read,) = text.jobs(in_one_line(shown))
    assert (read.name, read.workdir, read.comment) == (name, f"/w {path}".strip(), comment)
    assert (read.user, read.state, read.stdout) == ("alice", "RUNNING", "/home/alice/o")


# --- partitions, reservations, licences, controllers, configuration -------------------------------
PARTITION = """\
PartitionName=batch
   AllowGroups=ALL DenyAccounts=guest,old AllowQos=normal,high
   AllocNodes=ALL Default=YES QoS=part
   DefaultTime=01:00:00 DisableRootJobs=NO {exclusive} GraceTime=30 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=7-00:00:00 MinNodes=1 LLN=NO MaxCPUsPerNode=UNLIMITED
   Nodes=c[1-2]
   PriorityJobFactor=10 PriorityTier=2 RootOnly=NO ReqResv=NO OverSubscribe={share}
   OverTimeLimit=NONE PreemptMode=GANG,SUSPEND
   State=UP TotalCPUs=4 TotalNodes=2 SelectTypeParameters=NONE
   JobDefaults=(null)
   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED
   TRES=cpu=4,mem=4000M,node=2,billing=4

"""
WANTED_PARTITION = records.Partition(
    name="batch",
    state="UP",
    nodes="c[1-2]",
    node_count=2,
    cpus=4,
    default=True,
    max_time=7 * 86400,
    default_time=3600,
    min_nodes=1,
    max_nodes=None,
    priority_tier=2,
    priority_job_factor=10,
    deny_accounts=("guest", "old"),
    allow_qos=("normal", "high"),
    qos="part",
    preempt_mode="GANG,SUSPEND",
    grace_time=30,
    over_subscribe="EXCLUSIVE",
    tres={"cpu": 4, "mem": 4000, "node": 2, "billing": 4},
)


@FORMS
@pytest.mark.parametrize(
    ("exclusive", "share"),
    [("ExclusiveUser=NO", "EXCLUSIVE"), ("Exclusive=NODE", "NO")],
    ids=["22.05", "26.05"],
)
def test_a_partition(exclusive: str, share: str, one_line: bool) -> None:
    shown = PARTITION.format(exclusive=exclusive, share=share)
    assert text.partitions(in_one_line(shown) if one_line else shown) == [WANTED_PARTITION]


def test_a_partition_without_limits() -> None:
    shown = PARTITION.format(exclusive="ExclusiveUser=NO", share="FORCE:4")
    shown = shown.replace("=01:00:00", "=NONE").replace("=7-00:00:00", "=UNLIMITED")
    shown = shown.replace("Default=YES", "Default=NO").replace("Hidden=NO", "Hidden=YES")
    (read,) = text.partitions(shown.replace("MaxNodes=UNLIMITED", "MaxNodes=4"))
    assert (read.default_time, read.max_time, read.max_nodes) == (None, None, 4)
    assert (read.default, read.hidden, read.over_subscribe) == (False, True, "FORCE:4")


RESERVATION = """\
ReservationName=maint StartTime=2026-11-20T16:00:00 EndTime=2026-11-21T16:00:00 Duration=1-00:00:00
   Nodes=c[1-2] NodeCnt=2 CoreCnt=4 Features=(null) PartitionName=batch Flags={flags}
     NodeName=c1 CoreIDs=0-1
   TRES=cpu=4
   Users=alice,bob Groups=(null) Accounts=lab Licenses=matlab:2 State=ACTIVE BurstBuffer=(null)
   MaxStartDelay=(null)
   Comment={comment}

"""


@FORMS
@pytest.mark.parametrize("flags", ["", "IGNORE_JOBS,MAINT,SPEC_NODES"])
def test_a_reservation(flags: str, one_line: bool) -> None:
    shown = RESERVATION.format(flags=flags, comment="Users=eve says hello")
    assert text.reservations(in_one_line(shown) if one_line else shown) == [
        records.Reservation(
            name="maint",
            state="ACTIVE",
            start_time=NOON,
            end_time=NOON + 86400,
            nodes="c[1-2]",
            node_count=2,
            core_count=4,
            users=("alice", "bob"),
            accounts=("lab",),
            partition="batch",
            licenses="matlab:2",
            flags=("IGNORE_JOBS", "MAINT") if flags else (),
            tres={"cpu": 4},
            comment="Users=eve says hello",
        )
    ]


@pytest.mark.parametrize("end", [" ", "\n    "], ids=["-o", "lines"])
def test_licences(end: str) -> None:
    shown = f"LicenseName=matlab{end}Total=10 Used=3 Free=7 Reserved=1 Remote=no\n"
    shown += (
        f"LicenseName=ansys@db{end}Total=5 Used=0 Free=5 Reserved=0 Remote=yes"
        f"{end}LastConsumed=0 LastDeficit=0 LastUpdate=2026-11-20T16:00:00\n"
    )
    assert text.licenses(shown) == [
        records.License("matlab", 10, 3, 7, 1, False),
        records.License("ansys@db", 5, 0, 5, 0, True),
    ]
    assert text.licenses("No licenses configured in Slurm.\n") == []


def test_controllers() -> None:
    shown = (
        "Slurmctld(primary) at ctl1 is DOWN\nSlurmctld(backup1) at ctl2 is UP\n"
        "*****************************************\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n"
    )
    assert text.controllers(shown) == [
        records.Controller("ctl1", "primary", False),
        records.Controller("ctl2", "backup1", True),
    ]


def test_configuration() -> None:
    """Units stay; (null) is empty; sections are kept apart."""
    read = text.configuration(
        "Configuration data as of 2026-11-20T12:59:18\n"
        "AccountingStorageHost   = localhost\n"
        "AccountingStorageUser   = N/A\n"
        "PreemptParameters       = (null)\n"
        "SchedulerParameters     = bf_max=1,x=2\n"
        "TCPTimeout              = 2 sec\n\n"
        "Cgroup Support Configuration:\n"
        "CgroupPlugin            = disabled\n\n"
        "Slurmctld(primary) at c0 is UP\n"
    )
    assert read.settings == {
        "AccountingStorageHost": "localhost",
        "AccountingStorageUser": "N/A",
        "PreemptParameters": "",
        "SchedulerParameters": "bf_max=1,x=2",
        "TCPTimeout": "2 sec",
    }
    assert read.sections == {"Cgroup Support Configuration": {"CgroupPlugin": "disabled"}}


# --- the accounting -------------------------------------------------------------------------------
ROW = {
    "JobID": "15_3",
    "User": "alice",
    "Account": "lab",
    "Partition": "batch",
    "QOS": "normal",
    "State": "CANCELLED by 1000",
    "Reason": "None",
    "NodeList": "c[1-2]",
    "NNodes": "2",
    "AllocCPUS": "4",
    "AllocTRES": "billing=4,cpu=4,mem=1000M,node=2",
    "ReqTRES": "cpu=2",
    "Priority": "4294901757",
    "Submit": "2026-11-20T16:00:00",
    "Start": "2026-11-20T16:00:01",
    "End": "2026-11-20T16:01:01",
    "ElapsedRaw": "60",
    "TimelimitRaw": "2880",
    "ExitCode": "0:15",
    "Reservation": "",
    "JobName": "train",
    "WorkDir": "/home/alice",
    "Comment": "",
    "JobIDRaw": "17",
}


def sacct(delimiter: str, *rows: dict[str, str]) -> str:
    assert tuple(ROW) == text.SACCT_COLUMNS
    return "".join(delimiter.join({**ROW, **row}.values()) + "\n" for row in rows)


@pytest.mark.parametrize("delimiter", ["|", text.SACCT_DELIMITER])
def test_a_job_of_the_accounting(delimiter: str) -> None:
    waiting = {"JobID": "15_[4-9%2]", "JobIDRaw": "15", "NodeList": "None assigned"}
    waiting |= {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "AllocTRES": ""}
    waiting |= {"TimelimitRaw": "UNLIMITED", "ElapsedRaw": "0"}
    ended, read = text.ended_jobs(sacct(delimiter, {}, waiting))
    assert ended == records.Job(
        id=17,
        name="train",
        user="alice",
        account="lab",
        partition="batch",
        qos="normal",
        state="CANCELLED",
        array_job_id=15,
        array_task="3",
        nodes="c[1-2]",
        node_count=2,
        cpus=4,
        tres={"cpu": 4, "mem": 1000, "node": 2, "billing": 4},
        priority=4294901757,
        submit_time=NOON,
        start_time=NOON + 1,
        end_time=NOON + 61,
        elapsed=60,
        time_limit=2 * 86400,
        exit_code=0,
        exit_signal=15,
        workdir="/home/alice",
    )
    assert (read.id, read.array_job_id, read.array_task, read.nodes) == (15, 15, "4-9%2", "")
    assert (read.start_time, read.time_limit, read.exit_code) == (None, None, None)
    assert read.tres == {"cpu": 2}
    assert text.ended_jobs("") == []


def test_bars_in_the_name_and_comment_of_a_job() -> None:
    """Where the delimiter is the default, the path tells the name from the comment."""
    (read,) = text.ended_jobs(sacct("|", {"JobName": "a|b", "Comment": "c|d"}))
    assert (read.name, read.workdir, read.comment) == ("a|b", "/home/alice", "c|d")
    assert read.id == 17


@SOME
@given(FREE, FREE, FREE, st.booleans())
def test_no_text_spoils_a_job_of_the_accounting(
    name: str, path: str, comment: str, line: bool
) -> None:
    name = f"{name}\n{name}" if line else name
    row = {"JobName": name, "WorkDir": f"/{path}", "Comment": comment}
    found = text.ended_jobs(sacct(text.SACCT_DELIMITER, row, {}, row))
    assert [read.id for read in found] == [17, 17, 17]
    assert (found[2].name, found[2].workdir, found[2].comment) == (name, f"/{path}", comment)
    assert found[1].name == "train"


def test_events() -> None:
    shown = (
        "demo|c1|2026-11-20T16:00:00|2026-11-20T16:05:00|DOWN*|slurm(64030)|Not responding\n"
        "demo|c2|2026-11-20T16:00:00|Unknown|DRAIN|root(0)|a|b\nsecond line\n"
        "demo||2026-11-20T15:00:00|Unknown||Unknown|Cluster Registered TRES\n"
    )
    assert text.events(shown) == [
        records.Event("demo", "c1", NOON, NOON + 300, "DOWN*", "Not responding", "slurm"),
        records.Event("demo", "c2", NOON, None, "DRAIN", "a|b\nsecond line", "root"),
        records.Event("demo", "", NOON - 3600, None, "", "Cluster Registered TRES", "Unknown"),
    ]
