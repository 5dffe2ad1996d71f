# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mistakes in how a script ends: what runs in the background, exit codes, results. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import re

from ...slurm.batch import shell
from ...slurm.batch.request import nodes_of
from ...slurm.batch.script import Launch, Script
from .rule import Cluster, Found, fails_fast, pipefail, rule, top_level, working_launches


# -- what comes after ------------------------------------------------------------------------------
@rule(
    "exit-code-unreachable", "error", "set -e ends the script before it can look at the exit code"
)
def _unreachable(script: Script, cluster: Cluster) -> Found:
    for command in script.commands:
        words = (*command.assignments, *command.words[1:])
        takes = any(re.match(r'\w+="?\$(\?|\{\?\})', word.text) for word in words)
        if (
            takes
            and not command.function
            and command.before != "||"
            and fails_fast(script, command.line)
        ):
            yield (
                command.line,
                "with set -e the script has ended already when the command before failed: this sees nothing but 0",
                "write `code=0; srun ... || code=$?`, or leave out set -e",
            )


@rule("monitor-left", "error", "set -e ends the script before it ends what runs in the background")
def _left(script: Script, cluster: Cluster) -> Found:
    works = [one.line for one in working_launches(script) if one.command.after != "&"]
    if not works or any(command.name == "trap" for command in script.commands):
        return
    started = [c for c in script.commands if c.after == "&" and c.line < works[-1]]
    if not started or not fails_fast(script, works[-1]):
        return
    for command in top_level(script):
        if command.name == "kill" and command.line > works[-1] and command.before != "||":
            yield (
                command.line,
                "with set -e this is not reached when the training fails, and what runs in the background goes on",
                f"trap it where it is started (line {started[0].line}): trap 'kill \"$pid\"' EXIT",
            )
            return


#: Arguments with which nvidia-smi answers once, and does not watch the work.
_ASKS_ONCE = frozenset("topo nvlink mig -L --list-gpus".split())


@rule("monitor-one-node", "warning", "a monitor that sees the first node alone")
def _monitor(script: Script, cluster: Cluster) -> Found:
    nodes = nodes_of(script) or 1
    starters = {id(launch.command) for launch in script.launches}
    for command in script.commands:
        if nodes < 2 or command.name not in ("nvidia-smi", "dcgmi") or id(command) in starters:
            continue
        words = [shell.plain(word.text) for word in command.words]
        if _ASKS_ONCE & set(words):
            continue
        repeats = command.depth or command.function or command.after == "&"
        loops = any(re.match(r"-l\b|--loop|-lms|dmon", word) for word in words)
        if repeats or loops:
            yield (
                command.line,
                f"it runs in the batch step, on the first of {nodes} nodes, and sees no other GPU",
                "start it by srun --overlap --ntasks-per-node=1, with $SLURMD_NODENAME in the file's name",
            )
            return


@rule("background-not-awaited", "error", "steps in the background that nobody waits for")
def _awaited(script: Script, cluster: Cluster) -> Found:
    waits = [command.line for command in script.commands if command.name in _WAITING]
    last = max(waits, default=0)
    for launch in working_launches(script):
        if launch.command.after != "&" or not launch.starter or last >= launch.command.end_line:
            continue
        if launch.command.function or _serves(script, launch):
            continue
        yield (
            launch.line,
            "the script ends while this runs in the background, and Slurm then kills it",
            "add `wait` at the end",
        )
        return


#: Commands that wait for others, or for a time.
_WAITING = frozenset("wait fg tail inotifywait read".split())
#: Commands in the foreground that do no work of their own.
_BRIEF = frozenset(
    "echo printf export set cd sleep date exit return true : test [ mkdir kill trap wait".split()
)


def _serves(script: Script, launch: Launch) -> bool:
    """Whether a step in the background serves work that comes after it in the foreground."""
    return any(
        command.after != "&"
        and command.start > launch.command.end
        and not command.function
        and command.words
        and (
            command.name not in _BRIEF or (command.depth and command.name in ("sleep", "test", "["))
        )
        for command in script.commands
    )


@rule(
    "steps-exit-lost",
    "warning",
    "a failed step does not count, since others follow or run beside it",
)
def _steps(script: Script, cluster: Cluster) -> Found:
    steps = [one for one in working_launches(script) if one.starter and not one.command.function]
    beside = [one for one in steps if one.command.after == "&"]
    if not beside or any(fault.kind in ("comment", "space") for fault in script.faults):
        return
    for command in script.commands:
        if command.name != "wait" or command.line < beside[0].line or command.function:
            continue
        if len(command.words) == 1 and not _serves(script, beside[-1]):
            yield (
                command.line,
                f"`wait` without a process returns 0, so a step that fails (line {beside[0].line}) counts as COMPLETED",
                'keep each $! in an array, `for p in "${pids[@]}"; do wait "$p" || code=$?; done`, and exit with $code',
            )
            return


@rule("exit-code-lost", "warning", "the job's exit code is not that of the training")
def _lost(script: Script, cluster: Cluster) -> Found:
    top = top_level(script)
    works = [one for one in working_launches(script) if any(one.command is c for c in top)]
    works = [one for one in works if one.command.after != "&" and one.starter]
    if any(fault.kind in ("comment", "space") for fault in script.faults):
        return  # what follows was meant as arguments
    if not works or len({one.line for one in works}) > 1 or fails_fast(script, works[-1].line):
        return
    launch = works[-1]
    place = [command is launch.command for command in top].index(True)
    after = list(top[place + 1 :])
    joined = launch.command.after
    if joined == "|" and not pipefail(script):
        yield (
            launch.line,
            "the exit code of a pipe is that of its last part: the job succeeds when the training fails",
            "add `set -o pipefail` above",
        )
        return
    while after and joined in ("|", "&&"):
        joined = after.pop(0).after
    if joined == "||" or not after:
        return
    handled = any(
        command.name in ("exit", "return")
        or "$?" in " ".join(w.text for w in command.words)
        and command.name in ("exit", "test", "[", "if")
        for command in script.commands
        if command.line >= launch.line
    )
    if not handled:
        yield (
            launch.line,
            f"the job's exit code is that of line {after[-1].line}, so a failed training counts as COMPLETED",
            "write `code=$?` after it and `exit $code` at the end",
        )


@rule("s3-untested", "warning", "the first write to S3 comes after the training")
def _s3(script: Script, cluster: Cluster) -> Found:
    works = [one.line for one in working_launches(script) if one.command.after != "&"]
    buckets = {one.name for one in script.variables if one.value.startswith("s3://")}
    wrote = False
    for command in script.commands:
        words = [shell.plain(word.text) for word in command.words]
        if words[:1] != ["aws"] and command.name != "aws":
            continue
        verb = words[1:3]
        targets = [word for word in words[3:] if not re.match(r"-.", word)]
        to_s3 = len(targets) > 1 and (
            targets[1].startswith("s3://")
            or any(re.match(rf"\$\{{?{name}\b", targets[1]) for name in buckets)
        )
        writes = verb[:1] == ["s3"] and verb[1:] in (["cp"], ["sync"], ["mv"]) and to_s3
        writes = writes or verb == ["s3api", "put-object"]
        if writes and works and command.line > works[0] and not command.function and not wrote:
            yield (
                command.line,
                "if the nodes may only read the bucket, this is found out when the training is over",
                "write a small object there before the training, and stop if that fails: "
                "`echo test | aws s3 cp - s3://BUCKET/PREFIX/.test || exit 1`",
            )
            return
        wrote = wrote or writes
