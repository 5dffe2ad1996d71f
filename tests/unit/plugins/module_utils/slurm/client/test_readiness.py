# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of who is ready and who may be resumed, on lines that 22.05.8 and 24.11.5 printed."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import records
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import readiness
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import text as shown

OLD = (
    "NodeName=c1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=1.61 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr=10.0.0.1 "
    "NodeHostName=c1 Version=22.05.8 OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=1 "
    "AllocMem=0 FreeMem=20123 Sockets=2 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 "
    "Owner=N/A MCS_label=N/A Partitions=batch  BootTime=2026-11-20T12:19:40 "
    "SlurmdStartTime=2026-11-20T12:48:23 LastBusyTime=2026-11-20T12:48:23 "
    "CfgTRES=cpu=2,mem=1M,billing=2 AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 "
    "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s"
)
NEW = (
    "NodeName=c1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=1.60 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:h100:8(S:0-1) NodeAddr=10.0.0.1 "
    "NodeHostName=c1 Version=24.11.5 OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=1 "
    "AllocMem=0 FreeMem=20147 Sockets=2 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 "
    "Owner=N/A MCS_label=N/A Partitions=batch  BootTime=2026-11-20T12:19:41 "
    "SlurmdStartTime=2026-11-20T12:48:30 LastBusyTime=2026-11-20T12:48:30 ResumeAfterTime=None "
    "CfgTRES=cpu=2,mem=1M,billing=2 AllocTRES= CurrentWatts=0 AveWatts=0 "
)
NEVER_SEEN = (
    "NodeName=c2 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=N/A "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr=c2 NodeHostName=c2  "
    "RealMemory=1 AllocMem=0 FreeMem=N/A Sockets=2 Boards=1 State=UNKNOWN* ThreadsPerCore=1"
)
BY = "[{user}@2026-11-20T12:59:16]"


def one(state: str, reason: str = "", user: str = "root", line: str = NEW) -> records.Node:
    """Return the node that a line with this state and reason describes."""
    text = line.format(state=state)
    if reason:
        text += f" Reason={reason} {BY.format(user=user)}"
    return shown.nodes(text + "\n")[0]


@pytest.mark.parametrize(("line", "version"), [(OLD, "22.05.8"), (NEW, "24.11.5")])
def test_a_node_of_either_version(line: str, version: str) -> None:
    """Values with spaces in them do not spoil the others."""
    node = one("IDLE", line=line)
    assert (node.state, node.flags, node.version, node.cpus) == ("IDLE", (), version, 2)
    assert node.gres == ("" if line == OLD else "gpu:h100:8(S:0-1)")
    assert readiness.why_not_ready("c1", node) == ""


@pytest.mark.parametrize(
    ("state", "reason", "why"),
    [
        ("IDLE", "", ""),
        ("MIXED+COMPLETING", "", ""),
        ("IDLE+DRAIN", "by a person", ""),
        ("DOWN+DRAIN", "by a person", ""),
        ("IDLE+DRAIN", "tw:health:gpu: lost -> replace", ""),
        (
            "IDLE+DRAIN+INVALID_REG",
            "tw:validate:hardware: 0 of 8 GPUs -> install the NVIDIA driver",
            "",
        ),
        ("IDLE+INVALID_REG", "", "less"),
        (
            "IDLE+INVALID_REG",
            "tw:validate:hardware: 0 of 8 GPUs -> install the NVIDIA driver",
            "less",
        ),
        ("IDLE+DRAIN+INVALID_REG", "tw:health:gpu: lost -> replace", "less"),
        ("IDLE+DRAIN+INVALID_REG", "gres/gpu count reported lower than configured (0 < 8)", "less"),
        ("IDLE+DRAIN", "Low RealMemory (reported:900 < 100.00% of configured:1000)", "less"),
        ("DOWN*", "Not responding", "does not answer"),
        ("IDLE*", "", "does not answer"),
        ("DOWN", "bad disk", "find out why"),
        ("IDLE+CLOUD+POWERED_DOWN", "", "powered down"),
        ("FUTURE", "", "not one of"),
    ],
)
def test_ready_or_why_not(state: str, reason: str, why: str) -> None:
    """Each reason ends in a remedy; a drained node waits for whoever drained it."""
    said = readiness.why_not_ready("c1", one(state, reason))
    assert why in said
    assert bool(said) == bool(why)
    assert not said or " -> " in said


def test_a_node_that_never_registered() -> None:
    """IDLE without a version is not registered: slurmctld only guesses."""
    node = shown.nodes(NEVER_SEEN)[0]
    assert not node.registered
    assert "has not registered" in readiness.why_not_ready("c2", node)
    assert "does not know it" in readiness.why_not_ready("c3", None)


@pytest.mark.parametrize(
    ("state", "reason", "resumed"),
    [
        ("DOWN", "Not responding", True),
        ("DOWN", "Node unexpectedly rebooted", False),
        ("DOWN*", "Not responding", False),
        ("DOWN+DRAIN", "Not responding", False),
        ("DOWN", "Not responding since the fire", False),
        ("DOWN", "bad disk", False),
        ("DOWN", "tw:reboot:kernel: old -> reboot", True),
        ("DOWN", "tw:health:gpu: lost -> replace", False),
        ("IDLE+DRAIN", "tw:reboot:kernel: old -> reboot", False),
        ("IDLE", "", False),
    ],
)
def test_only_what_is_ours_or_slurms_is_resumed(state: str, reason: str, resumed: bool) -> None:
    """What a person set, and what another owner set, stays."""
    assert readiness.may_resume(one(state, reason), ["not_responding"], "reboot") is resumed


def test_an_unexpected_reboot_is_resumed_on_request() -> None:
    """It may be a fault of the machine, so it is not in the default."""
    node = one("DOWN", "Node unexpectedly rebooted", user="slurm")
    assert readiness.may_resume(node, ["unexpected_reboot"], "")


NOT_YET = "gres/gpu count reported lower than configured (0 < 8)"


@pytest.mark.parametrize(
    ("state", "reason", "ours", "ready"),
    [
        # Its slurmd registered between the restart of slurmctld and its own: 24.11 writes over the drain of a run.
        ("IDLE+DRAIN", NOT_YET, True, True),
        ("IDLE+DRAIN", "gres/gpu:h100 count too low (0 < 8)", True, True),
        ("IDLE+DRAIN+INVALID_REG", NOT_YET, True, False),
        # Nobody knows who had drained it, or it has lost one.
        ("IDLE+DRAIN", NOT_YET, False, False),
        ("IDLE+DRAIN", "gres/gpu count reported lower than configured (7 < 8)", True, False),
        ("IDLE+DRAIN", f"{NOT_YET}, Low CPUs", True, False),
        ("IDLE+DRAIN", "rack 4 is moved", True, True),
        # A machine that is whole is waited for until Slurm accepts it.
        ("IDLE+DRAIN+INVALID_REG", "tw:validate:hardware: 0 of 8 GPUs -> wait", True, False),
        ("IDLE+DRAIN", "tw:validate:hardware: 0 of 8 GPUs -> wait", True, True),
    ],
)
def test_a_node_whose_gpus_have_come(state: str, reason: str, ours: bool, ready: bool) -> None:
    node = one(state, reason)
    assert (not readiness.why_not_ready("c1", node, whole=True, ours=ours)) == ready
    by_slurm = reason in (NOT_YET, "gres/gpu:h100 count too low (0 < 8)")
    assert readiness.overwritten(node) == (by_slurm and "INVALID_REG" not in state)
