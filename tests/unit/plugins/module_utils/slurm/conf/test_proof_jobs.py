# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the jobs of a proof, with programs in the place of Slurm's commands."""

from __future__ import annotations

import errno
import os
import pathlib
import subprocess
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import text
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import (
    accepted,
    proof,
    proof_jobs,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf.proof_jobs import (
    ProofError,
    Settings,
    Slurm,
    Steps,
    verdict,
)

OLD, NEW = "2026-01-01T00:00:09", "2026-02-01T00:00:09"
_NODE = """NodeName={name} Arch=x86_64 CoresPerSocket=1
   CPUAlloc=0 CPUEfctv=1 CPUTot=1 CPULoad=0.00
   NodeAddr={name} NodeHostName={name} Version=24.11.5
   OS=Linux RealMemory=1000 AllocMem=0 FreeMem=900 Sockets=1 Boards=1
   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=p
   BootTime=2026-01-01T00:00:00 SlurmdStartTime={start}
   LastBusyTime=2026-01-01T00:00:10 ResumeAfterTime=None

"""
_SCONTROL = """echo "scontrol $*" >> {place}/calls
case "$1 $2" in
"show node") cat {place}/nodes || exit 1;;
"show config") echo "SlurmUser = root(0)";;
"reconfigure ") test ! -e {place}/told || cp {place}/told {place}/nodes;;
"delete PartitionName=trainwright_proof") test ! -s {place}/left || {{ echo "Partition is in use" >&2; exit 1; }};;
"create PartitionName=trainwright_proof") test ! -s {place}/left || {{ echo "Invalid name" >&2; exit 1; }};;
esac
"""


class Cluster:
    """Programs that answer as Slurm's do; each job ends well."""

    def __init__(self, place: pathlib.Path) -> None:
        self.place = place
        self.applied = place / "applied"
        self.applied.mkdir()
        (place / "slurm.conf").write_text("ClusterName=x\n")
        self._program("scontrol", _SCONTROL.format(place=place))
        count = f"n=$(cat {place}/n 2>/dev/null || echo 0)"
        self._program("sbatch", f"{count}; n=$((n+1)); echo $n > {place}/n; echo $n")
        jobs = f'{count}; for i in $(seq 1 $n); do echo "$i|COMPLETED|None|"; done'
        self._program(
            "squeue", f'case "$*" in *all*) {jobs};; *) cat {place}/left 2>/dev/null; true;; esac'
        )
        self._program("scancel", f'echo "scancel $*" >> {place}/calls; rm -f {place}/left')
        self._program("sacctmgr", "true")
        self.settings = Settings(
            "24.11", str(place), str(self.applied), str(place), taken=0.4, end=20.0
        )

    def _program(self, name: str, body: str) -> None:
        (self.place / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.place / name).chmod(0o755)

    def show(self, file: str = "nodes", **starts: str) -> str:
        """Have the nodes with these starts of slurmd. Returns what is shown."""
        shown = "".join(_NODE.format(name=name, start=start) for name, start in starts.items())
        (self.place / file).write_text(shown)
        return shown

    def proved(self, content: str, shown: str) -> None:
        """Have this content proved on all nodes."""
        files, nodes = self.files(content), text.nodes(shown)
        digest = accepted.digest(files)
        stamps = {node.name: proof.stamp_of(node, digest, "") for node in nodes}
        state = {"digest": digest, "files": files, "nodes": stamps}
        accepted.write(str(self.applied), accepted.PROVED, state)

    def handed_out(self, content: str, **starts: str) -> None:
        """Have slurmctld tell this content to nodes whose slurmd started then."""
        files = self.files(content)
        before = {"of": accepted.digest(files), "told": True, "starts": starts}
        more = {"drained": [], "since": 1, "zone": "UTC"}
        accepted.write(str(self.applied), accepted.BEFORE, {**before, **more})
        accepted.write(str(self.applied), accepted.ACCEPTED, {"files": files})

    def files(self, content: str) -> list[dict[str, t.Any]]:
        given = {"path": "/etc/slurm/slurm.conf", "content": content, "state": "present"}
        return [{**given, "mode": "0644", "owner": "root", "group": "root"}]

    def prove(self, *nodes: str) -> proof.Result:
        found = proof.prove(proof.Reported(nodes), self.settings)
        assert found is not None
        return found

    @property
    def calls(self) -> str:
        return (self.place / "calls").read_text()


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.parametrize("known", [OLD, "None"])
def test_a_slurmd_that_missed_the_configuration_is_found_by_a_later_run(
    cluster: Cluster, known: str
) -> None:
    """The run that had handed it out did not have the node; its steps run until it boots."""
    cluster.proved("A=1\n", cluster.show(c1=OLD, c2=OLD))
    cluster.handed_out("B=1\n", c1=OLD, c2=OLD)
    # A slurmctld that was reconfigured has forgotten the start of one that does not answer.
    cluster.show(c1=NEW, c2=known)
    assert cluster.prove("c1").proved == ["c1"]
    cluster.show(c1=NEW, c2=OLD)
    found = cluster.prove("c1", "c2")
    assert found.failed == {"c2": "its slurmd did not take the configuration"} and not found.proved
    assert "scontrol reconfigure" in cluster.calls, "it may have been away when it was told"
    assert proof.files_before(cluster.settings) == [], "the configuration is proved"
    # One that was away takes it then, and nothing is left to be looked at.
    cluster.show("told", c1=NEW, c2=NEW)
    assert cluster.prove("c1", "c2").proved == ["c2"]
    assert not (cluster.applied / accepted.BEFORE).exists()


LIMIT = """sbatch: error: AssocGrpSubmitJobsLimit
sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or)"""


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (LIMIT, "AssocGrpSubmitJobsLimit"),
        (LIMIT.splitlines()[1], "Job violates accounting/QOS policy"),
    ],
)
def test_a_limit_of_the_accounting_is_no_fault_of_the_configuration(
    cluster: Cluster, words: str, name: str
) -> None:
    """GrpSubmitJobs=0 of account root stops all submissions, and the good configuration must not be taken back."""
    cluster.handed_out("B=1\n", c1=OLD, c2=OLD)
    cluster.show(c1=NEW, c2=NEW)
    cluster._program("sbatch", f'echo x >> {cluster.place}/n; echo "{words}" >&2; exit 1')
    cluster.settings.at_once = 1
    found = cluster.prove("c1", "c2")
    assert not found.failed and not found.proved and not found.refused
    why = f"a limit of the accounting stops its job ({name})"
    assert found.skipped == {"c1": why, "c2": why}
    assert (cluster.place / "n").read_text() == "x\n", "one attempt tells it for all nodes"


def test_a_limit_of_few_jobs_lets_the_others_follow(cluster: Cluster) -> None:
    names = {f"c{number}": OLD for number in range(1, 8)}
    cluster.handed_out("B=1\n", **names)
    cluster.show(**dict.fromkeys(names, NEW))
    # Three at once; all that are open have ended when squeue is asked.
    (cluster.place / "open").write_text("0")
    cluster._program(
        "sbatch",
        f"exec 9>{cluster.place}/lock; flock 9; o=$(cat {cluster.place}/open)\n"
        f'if [ "$o" -ge 3 ]; then echo "{LIMIT}" >&2; exit 1; fi\n'
        f"echo $((o+1)) > {cluster.place}/open\n"
        f"n=$(cat {cluster.place}/n 2>/dev/null || echo 0); n=$((n+1)); echo $n > {cluster.place}/n; echo $n",
    )
    before = (cluster.place / "squeue").read_text()
    cluster._program("squeue", before.replace("#!/bin/sh\n", f"echo 0 > {cluster.place}/open\n"))
    found = cluster.prove(*names)
    assert sorted(found.proved) == sorted(names) and not found.skipped and not found.failed


def test_jobs_of_a_proof_that_was_killed_are_cancelled(cluster: Cluster) -> None:
    """With them, the partition could neither be removed nor made."""
    (cluster.place / "left").write_text("7\n")
    cluster.proved("A=1\n", cluster.show(c1=OLD))
    cluster.handed_out("B=1\n", c1="2025-01-01T00:00:09")
    found = cluster.prove("c1")
    assert found.proved == ["c1"] and not found.failed
    assert "scancel -p trainwright_proof" in cluster.calls


def test_a_slurmctld_that_does_not_answer_is_an_error(cluster: Cluster) -> None:
    """No node would be listed then, and nothing would be to be proved."""
    with pytest.raises(ProofError, match=r"slurmctld does not answer any more.* -> "):
        cluster.prove("c1")


def test_a_node_that_a_job_drains_late_is_given_back_too(cluster: Cluster) -> None:
    """The job began with the configuration that was put back since, and the step on the other node ran meanwhile."""
    cluster.handed_out("B=1\n", c1=OLD, c2=OLD)
    late = cluster.show("late", c1=NEW, c2=NEW).replace("State=IDLE", "State=IDLE+DRAIN")
    late = late.replace("\n\n", "\n   Reason=Prolog error [slurm@2026-03-01T00:00:09]\n\n")
    (cluster.place / "late").write_text(late)
    cluster.show(c1=NEW, c2=NEW)
    place = cluster.place
    cluster._program("sbatch", f"cp {place}/late {place}/nodes; echo 1 > {place}/n; echo 1")
    assert proof.again(["c1"], [], cluster.settings).proved == ["c1"]
    assert "scontrol update NodeName=c2 State=RESUME" in cluster.calls


def drained_by_a_job(cluster: Cluster, digest: str, reason: str = "Prolog error") -> None:
    """Have c2 drained, and a proof of that configuration, which was not ended, have noted it."""
    shown = cluster.show(c1=NEW, c2=NEW)
    first, second = shown.split("NodeName=c2")
    second = second.replace("State=IDLE", "State=IDLE+DRAIN")
    second = second.replace("\n\n", f"\n   Reason={reason} [slurm@2026-03-01T00:00:09]\n\n")
    (cluster.place / "nodes").write_text(f"{first}NodeName=c2{second}")
    (cluster.place / "calls").write_text("")
    state = accepted.read(str(cluster.applied), accepted.PROVED)
    state["drained"] = {"with": digest, "nodes": ["c2"]}
    accepted.write(str(cluster.applied), accepted.PROVED, state)


def test_nodes_that_a_killed_proof_had_not_resumed_are_resumed_by_the_next(
    cluster: Cluster,
) -> None:
    bad = accepted.digest(cluster.files("B=1\n"))
    cluster.proved("A=1\n", cluster.show(c1=NEW, c2=NEW))
    # slurmctld still has the configuration with which their jobs fail.
    cluster.handed_out("B=1\n", c1=NEW, c2=NEW)
    drained_by_a_job(cluster, bad)
    cluster.prove("c1")
    assert "State=RESUME" not in cluster.calls
    # The one before is back.
    cluster.proved("A=1\n", cluster.show(c1=NEW, c2=NEW))
    cluster.handed_out("A=1\n", c1=NEW, c2=NEW)
    drained_by_a_job(cluster, bad)
    proof.prove(proof.Reported(["c1"]), cluster.settings)
    assert cluster.calls.count("scontrol update NodeName=c2 State=RESUME") == 1
    # Once; and what a person drains later stays drained.
    proof.prove(proof.Reported(["c1"]), cluster.settings)
    assert cluster.calls.count("State=RESUME") == 1
    drained_by_a_job(cluster, bad, "rack 4")
    proof.prove(proof.Reported(["c1"]), cluster.settings)
    assert "State=RESUME" not in cluster.calls


def test_a_proof_waits_for_that_of_another_run(cluster: Cluster) -> None:
    cluster.settings.other = 0.5
    with (
        proof.alone(cluster.settings),
        pytest.raises(ProofError, match="another run has proved nodes for 0.5 seconds -> "),
        proof.alone(cluster.settings),
    ):
        pytest.fail("two proofs at once")
    with proof.alone(cluster.settings):
        pass


def test_a_failed_proof_is_told_where_nothing_can_be_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was proved last comes back then; the next proof of one that passed runs the steps once more."""

    def full(*_arguments: t.Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/var/lib/trainwright/applied/x")

    cluster.proved("A=1\n", cluster.show(c1=OLD, c2=OLD))
    cluster.handed_out("B=1\n", c1=OLD, c2=OLD)
    cluster.show(c1=NEW, c2=OLD)
    monkeypatch.setattr(accepted, "write", full)
    assert cluster.prove("c1", "c2").failed == {"c2": "its slurmd did not take the configuration"}
    cluster.show(c1=NEW, c2=NEW)
    with pytest.raises(OSError, match="No space left"):
        cluster.prove("c1", "c2")


def test_a_full_directory_for_temporary_files_is_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: t.Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/x/job")

    cluster.proved("A=1\n", cluster.show(c1=OLD))
    cluster.handed_out("B=1\n", c1=OLD)
    cluster.show(c1=NEW)
    monkeypatch.setattr(Steps, "_prepare", full)
    with pytest.raises(
        ProofError, match="/tmp/x/job: No space left on device.* -> make room there"
    ):
        cluster.prove("c1")
    assert "scontrol delete PartitionName=trainwright_proof" in cluster.calls


class Epilogs:
    """Slurm's commands, with the job of c2 completing for ever."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def run(self, name: str, *arguments: str) -> tuple[int, str]:
        self.asked.append(" ".join((name, *arguments)))
        return 0, "8\n" if name == "squeue" else ""

    def held(self) -> frozenset[str]:
        return frozenset()

    def remove_partition(self) -> None:
        self.asked.append("remove")


@pytest.mark.parametrize(("end", "minutes"), [(45.0, 1), (60.0, 2), (700.0, 12)])
def test_slurm_does_not_end_the_job_before_the_proof_does(end: float, minutes: int) -> None:
    """A site's Prolog may take minutes."""
    settings = Settings("24.11", end=end)
    slurm, asked = Slurm(settings), []

    def run(name: str, *arguments: str, **more: t.Any) -> tuple[int, str]:
        asked.append(" ".join((name, *arguments)))
        return 0, ""

    slurm.run = run  # type: ignore[method-assign]
    slurm.user = lambda: ("slurm", 64030)  # type: ignore[method-assign]
    slurm.make_partition(["c1"])
    Steps(slurm, settings)._submit("c1", "/nonexistent")
    assert any(f" MaxTime={minutes + 1} " in words for words in asked)
    assert any(words.startswith("sbatch ") and f" -t{minutes} " in words for words in asked)


def test_a_node_is_not_proved_while_its_epilog_runs() -> None:
    """It could drain the node yet."""
    slurm = Epilogs()
    steps = Steps(t.cast(t.Any, slurm), Settings("24.11", end=0.3))
    steps.jobs = {"7": "c1", "8": "c2"}
    steps.result.proved = ["c1", "c2"]
    steps._end()
    assert steps.result.proved == ["c1"]
    assert steps.result.skipped == {"c2": "its epilog did not end within 0.3 s"}
    assert slurm.asked[-2:] == ["scancel -p trainwright_proof", "remove"]


@pytest.mark.parametrize(
    ("state", "reason", "comment", "word"),
    [
        ("COMPLETED", "None", "(null)", "proved"),
        ("RUNNING", "None", "(null)", "runs"),
        ("PENDING", "Resources", "(null)", "waits"),
        ("PENDING", "launch failed requeued held", "(null)", "failed"),
        ("CANCELLED", "None", "(null)", "skipped"),
        ("FAILED", "NonZeroExitCode", "srun: error: no", "failed"),
        ("NODE_FAIL", "None", "(null)", "failed"),
    ],
)
def test_verdict_of_a_job(state: str, reason: str, comment: str, word: str) -> None:
    assert verdict(state, reason, comment)[0] == word


def test_the_words_of_srun_are_the_reason() -> None:
    assert verdict("FAILED", "NonZeroExitCode", "srun: error: no")[1] == "srun: error: no"
    assert "NODE_FAIL (None)" in verdict("NODE_FAIL", "None", "(null)")[1]


@pytest.mark.parametrize(
    ("srun", "rc", "told"),
    [
        ("exit 0", 0, ""),
        ("echo 'srun: job 7 queued' >&2", 0, ""),
        ("echo 'srun: error: no such node' >&2; exit 1", 1, "no such node"),
        # The step is over before srun aborts it.
        ("echo 'srun: error: srun prolog failed rc = 1. Aborting step' >&2", 1, "prolog failed"),
    ],
)
def test_the_script_fails_where_a_longer_step_would(
    tmp_path: pathlib.Path, srun: str, rc: int, told: str
) -> None:
    for name, body in (("srun", srun), ("scontrol", f'echo "$*" > {tmp_path}/said')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    done = subprocess.run(["sh", "-c", proof_jobs._SCRIPT], env=environment, check=False)
    assert done.returncode == rc
    said = tmp_path / "said"
    assert (told in said.read_text()) if told else not said.exists()
