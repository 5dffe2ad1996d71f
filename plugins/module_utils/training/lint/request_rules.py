# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mistakes in what a job asks for: time, signals, memory, GPUs, tasks, partition. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import re

from ...slurm import values
from ...slurm.batch import shell
from ...slurm.batch.request import count_of, gpus_of, nodes_of
from ...slurm.batch.script import Script
from .rule import Cluster, Found, placeholder, rule, seconds_of


@rule("time-missing", "warning", "no time limit", common=True)
def _time(script: Script, cluster: Cluster) -> Found:
    if script.directives and script.value("time") is None:
        yield (
            script.directives[0].line,
            "there is no --time, so the partition's default counts, which may be short, and the job fits no gap",
            "add #SBATCH --time=D-HH:MM:SS",
        )


@rule("time-short", "error", "the time limit is shorter than the work")
def _short(script: Script, cluster: Cluster) -> Found:
    directive = script.directive("time")
    limit = seconds_of(directive.value) if directive else None
    if directive is None or limit is None:
        return
    remedy = (
        "raise --time, or let the job go on in parts: #SBATCH --signal=B:USR1@300 and --requeue, a trap that "
        "has a checkpoint written, and a start from the newest one"
    )
    if cluster.planned and cluster.planned > limit and not _goes_on(script):
        need = values.duration(cluster.planned)
        yield (
            directive.line,
            f"--time={directive.value} ends the job before the {need} that it needs",
            remedy,
        )
    for launch in script.launches:
        match = re.fullmatch(r"(\d+)([smhd]?)", launch.limit)
        if match:
            unit = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
            if int(match[1]) * unit > limit:
                yield (
                    directive.line,
                    f"--time={directive.value} ends the job before the {launch.limit} of timeout in line {launch.line}",
                    "let timeout end before the limit, so that what follows it still runs",
                )


def _goes_on(script: Script) -> bool:
    return script.value("signal") is not None and script.value("requeue") is not None


_LONG = 86400  # seconds after which losing the work hurts


@rule("no-signal", "warning", "a long job gets no signal before its limit")
def _no_signal(script: Script, cluster: Cluster) -> Found:
    directive = script.directive("time")
    limit = seconds_of(directive.value) if directive else None
    if directive and limit and limit > _LONG and script.value("signal") is None:
        yield (
            directive.line,
            f"at the end of {directive.value} the job is killed, and all since its last checkpoint is lost",
            "add #SBATCH --signal=B:USR1@300 and a trap that has a checkpoint written and requeues the job",
        )


@rule("signal-not-caught", "error", "the signal before the limit kills the script")
def _not_caught(script: Script, cluster: Cluster) -> Found:
    directive = script.directive("signal")
    match = re.match(
        r"[BR]*B[BR]*:(?:SIG)?([A-Za-z0-9]+)", (directive.value or "") if directive else ""
    )
    if not directive or not match:
        return
    name = match[1].upper()
    names = {
        name,
        f"SIG{name}",
        {"10": "USR1", "12": "USR2", "15": "TERM", "2": "INT"}.get(name, name),
    }
    for command in script.commands:
        if command.name == "trap" and names & {shell.plain(w.text).upper() for w in command.words}:
            return
    yield (
        directive.line,
        f"--signal={directive.value} goes to this script, which has no trap for {name} and dies of it",
        f"add a trap for {name}, or leave out B: so that the tasks get it",
    )


@rule("requeue-truncates", "warning", "a requeued job overwrites its own log")
def _truncates(script: Script, cluster: Cluster) -> Found:
    directive = script.directive("requeue")
    if directive and not (script.value("open-mode") or "").startswith("a"):
        yield (
            directive.line,
            "when the job starts again, its output file is emptied, and why it was requeued is lost",
            "add #SBATCH --open-mode=append",
        )


@rule(
    "memory-missing", "warning", "no memory asked for on nodes that others may share", common=True
)
def _memory(script: Script, cluster: Cluster) -> Found:
    if not script.directives or cluster.default_memory:
        return
    asks = ("mem", "mem-per-cpu", "mem-per-gpu", "exclusive")
    if all(script.value(name) is None for name in asks):
        yield (
            script.directives[0].line,
            "without --mem the job takes all memory of its nodes unless slurm.conf has a default, and no other "
            "job fits beside it",
            "add #SBATCH --mem=SIZE (or --mem-per-gpu), or --exclusive where the nodes are meant to be its own",
        )


@rule("memory-twice", "error", "two ways to ask for memory at once")
def _memory_twice(script: Script, cluster: Cluster) -> Found:
    found = [one for one in script.directives if one.name in ("mem", "mem-per-cpu", "mem-per-gpu")]
    names = sorted({one.name for one in found})
    if len(names) > 1:
        yield (
            found[-1].line,
            f"{' and '.join('--' + name for name in names)} exclude each other",
            "keep one of them",
        )


@rule("gpus-twice", "error", "two options ask for different numbers of GPUs")
def _gpus_twice(script: Script, cluster: Cluster) -> Found:
    gres = script.directive("gres")
    by_gres = count_of(gpus_of(gres.value or "")) if gres else None
    if gres is None or by_gres is None:
        return
    tasks, nodes = count_of(script.value("ntasks-per-node")), nodes_of(script)
    factors = {"gpus-per-node": 1, "gpus-per-task": tasks, "gpus": nodes}
    for name, factor in factors.items():
        other = script.directive(name)
        count = count_of(other.value) if other else None
        if other is None or count is None or factor is None:
            continue
        same = count == by_gres * factor if name == "gpus" else count * factor == by_gres
        if not same:
            yield (
                max(gres.line, other.line),
                f"--gres={gres.value} and --{name}={other.value} ask for different numbers of GPUs, and Slurm may "
                "grant either or refuse both",
                "keep --gpus-per-node alone",
            )


@rule("tasks-disagree", "error", "numbers of nodes and tasks that do not fit")
def _tasks(script: Script, cluster: Cluster) -> Found:
    nodes, total = script.value("nodes"), script.directive("ntasks")
    each = count_of(script.value("ntasks-per-node"))
    if not (nodes or "").isdigit() or total is None or each is None:
        return
    tasks = count_of(total.value)
    if tasks is not None and tasks != int(nodes or 0) * each:
        yield (
            total.line,
            f"--ntasks={tasks} is not {nodes} nodes of {each} tasks; Slurm takes --ntasks-per-node for a limit then",
            "leave out --ntasks",
        )


@rule("partition-unknown", "error", "a partition that the cluster does not have")
def _partition(script: Script, cluster: Cluster) -> Found:
    directive = script.directive("partition")
    if directive is None or cluster.partitions is None:
        return
    for name in (directive.value or "").split(","):
        left = placeholder(name) or placeholder(script.lines[directive.line - 1])
        if name not in cluster.partitions and not left:
            have = ", ".join(sorted(cluster.partitions))
            yield directive.line, f"the cluster has no partition {name}", f"write one of {have}"


@rule("output-overwritten", "warning", "jobs of the same script write one output file")
def _output(script: Script, cluster: Cluster) -> Found:
    if (script.value("open-mode") or "").startswith("a"):
        return
    one = script.directive("output")
    if one is None or not one.value or one.value.startswith("/dev/") or "$" in one.value:
        return
    if not re.search(r"%\d*[jJA]", one.value):
        yield (
            one.line,
            f"--output={one.value} has no job number: the next job of this script overwrites the log of this one",
            "write %j into the name (%A_%a in an array)",
        )


@rule("job-unknown", "error", "a dependency on a job that Slurm does not know")
def _unknown(script: Script, cluster: Cluster) -> Found:
    directive = script.directive("dependency")
    if directive is None or cluster.job_known is None:
        return
    for number in dependencies(directive.value or ""):
        if not cluster.job_known(number):
            yield (
                directive.line,
                f"--dependency={directive.value}: Slurm has no job {number}, so the job may never start",
                "give the number that sbatch printed for the job to wait for (sacct -X lists yours)",
            )


def dependencies(value: str) -> list[int]:
    """Return the numbers of the jobs that a --dependency waits for."""
    waits = re.findall(r"(?:after\w*|expand):([\d:+_]+)", value)
    return [int(number) for wait in waits for number in re.findall(r"(?:^|:)(\d+)", wait)]
