# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Takes the log of a job of a validation apart: its steps, and in a step the output of each node. Pure.

The log is a user's file: nothing in it is believed beyond what a step can say of itself.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from . import endings

#: Exit code of timeout(1) for a step that it ended, and for one that it had to kill.
TIMED_OUT = (124, 137)
#: Exit codes of a shell for a program that is not there or cannot run.
MISSING = (126, 127)
#: The last word of a step's end, where its output was cut, and where its file system was full at the end.
CUT, FULL = "cut", "full"
#: Words of srun about a task that it did start.
_TASK = re.compile(
    r"srun: (error|launch/slurm): \S+: tasks? [\d,-]+: |srun: Terminating|srun: Job step aborted"
)
_LABEL = re.compile(r"^ *(\d+): ?(.*)$")


@dataclasses.dataclass(frozen=True)
class Output:
    """The output of a step, or of one check on one node.

    code: its exit code; None where its end is not in the log. seconds: None where that is not known. cut: why only the
    beginning of it is there, CUT or FULL; "" for a whole one. killed: who ended it, `what -> remedy`, "" for nobody.
    deadline: seconds that it was given; None where that is not known.
    """

    text: str
    code: int | None = None
    seconds: int | None = None
    cut: str = ""
    killed: str = ""
    deadline: int | None = None

    @property
    def late(self) -> bool:
        """Whether its deadline ended it: a program that somebody killed has the same exit code, but earlier."""
        known = self.deadline is not None and self.seconds is not None
        return self.code in TIMED_OUT and (
            not known or t.cast(int, self.seconds) >= t.cast(int, self.deadline) - 1
        )

    @property
    def ended_by(self) -> str:
        """Return who ended it before it could answer, `what -> remedy`; "" for its deadline, and for itself."""
        if self.late or self.code == 0:
            return ""
        return self.killed or endings.by_signal(self.text, self.code)

    @property
    def refused(self) -> str:
        """Return why srun did not start it, in its words; "" where it did, or that is not known."""
        said = [line.strip() for line in self.text.splitlines() if line.strip()]
        own = all(line.startswith(("srun: ", "Try ")) and not _TASK.match(line) for line in said)
        return said[0] if self.code and said and own else ""

    @property
    def why(self) -> str:
        """Return why it says nothing, in words; "" where it ended well."""
        if self.cut == FULL:
            return "its output was lost: the disk of the first node of the job is full -> make room in /tmp there (df)"
        if self.code in (0, None) and self.cut:
            return "printed more than the log keeps of a step, so the rest is unknown -> print less"
        if self.code == 0:
            return ""
        if self.ended_by:
            return self.ended_by
        if self.refused:
            return f"did not start: {self.refused} -> see validate_srun_options, and srun_options of the check"
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        # Slurm's own words follow those of the task that failed.
        of_slurm = ("srun: ", "slurmstepd: ")
        last = ([line for line in lines if not line.startswith(of_slurm)] or lines or [""])[-1]
        # A remedy, which programs of ours print, is kept whole.
        said = f": {last[: 500 if ' -> ' in last else 200]}" if last else ""
        if self.code is None:
            return f"its end is missing in the log{said}"
        if self.late:
            return f"did not end within its deadline{said}"
        if self.code in MISSING:
            return f"its program is missing or cannot run{said}"
        return f"ended with {self.code}{said}"


def mark(run: str, word: str) -> str:
    """Return the beginning of a line that the script of a job of this run writes."""
    return f"@@{run} {word}"


def steps(log: str, run: str) -> dict[str, Output]:
    """Return the outputs of a job's steps by their names; a step without its end does not have a code."""
    found: dict[str, Output] = {}
    begin, end = mark(run, "begin "), mark(run, "end ")
    name = ""
    lines: list[str] = []
    for line in log.splitlines():
        if line.startswith(begin):
            if name:
                found[name] = Output("\n".join(lines))
            name, lines = line[len(begin) :].strip(), []
        elif line.startswith(end) and name:
            words = line[len(end) :].split()
            code, seconds = _numbers(words[1:]) if words[:1] == [name] else (None, None)
            cut = next((one for one in (CUT, FULL) if words[3:] == [one]), "")
            text = "\n".join(lines)
            found[name] = Output(text, code, seconds, cut, endings.found(text, code))
            name, lines = "", []
        elif name:
            lines.append(line)
    if name:
        found[name] = Output("\n".join(lines))
    return found


def complete(log: str, run: str, job: str) -> bool:
    """Whether the job's script came to its end, so that no step is missing."""
    return mark(run, f"done {job}") in log.splitlines()[-20:]


def ended(log: str, run: str) -> int:
    """Return how many steps have ended."""
    return sum(line.startswith(mark(run, "end ")) for line in log.splitlines())


def by_node(step: Output, run: str) -> dict[str, dict[str, Output]]:
    """Return the outputs of the checks of each node, by node and check, from a step with srun's --label."""
    tasks: dict[str, list[str]] = {}
    of_all: list[str] = []
    for line in step.text.splitlines():
        match = _LABEL.match(line)
        if match:
            tasks.setdefault(match[1], []).append(match[2])
        else:
            of_all.append(line)
    found: dict[str, dict[str, Output]] = {}
    node_mark, check, end = mark(run, "node "), mark(run, "check "), mark(run, "code ")
    for lines in tasks.values():
        node = next(
            (one[len(node_mark) :].strip() for one in lines if one.startswith(node_mark)), ""
        )
        if not node:
            continue
        mine = found.setdefault(node, {})
        said_of = re.compile(rf"srun: error: (?!{re.escape(node)}:)\S+: task")
        around = "\n".join([*lines, *(one for one in of_all if not said_of.match(one))])
        name = ""
        said: list[str] = []
        for line in lines:
            if line.startswith(check):
                name, said = line[len(check) :].strip(), []
            elif line.startswith(end) and name:
                code, seconds = _numbers(line[len(end) :].split())
                # The kernel and slurmd report the end of a check after it.
                who = endings.found(around, code) if code in endings.SIGNALS else ""
                # With labels of srun, nobody knows whether the last line was whole.
                mine[name] = Output("\n".join([*said, ""]), code, seconds, killed=who)
                name = ""
            elif name:
                said.append(line)
        if name:
            who = step.ended_by and (endings.found(around, None) or step.ended_by)
            mine[name] = Output("\n".join(said), cut=step.cut, killed=who)
    return found


def each(
    log: str, run: str, checks: t.Mapping[str, t.Sequence[str]]
) -> dict[str, dict[str, Output]]:
    """Return the outputs of what each node tests for itself, by node and check. checks: the nodes of each check."""
    step = steps(log, run).get("each")
    if step is None:
        return {}
    if not step.refused and not step.ended_by:
        return by_node(step, run)
    found = by_node(step, run) if step.ended_by else {}
    # A check that did not run has the same end as the step.
    missing = Output("", killed=step.ended_by) if step.ended_by else step
    for check, nodes in checks.items():
        for node in nodes:
            found.setdefault(node, {}).setdefault(check, missing)
    return found


def _numbers(words: t.Sequence[str]) -> tuple[int | None, int | None]:
    numbers = [int(word) if re.fullmatch(r"\d{1,9}", word) else None for word in words[:2]]
    numbers += [None, None]
    return numbers[0], numbers[1]
