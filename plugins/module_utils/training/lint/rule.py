# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The form of a rule, its knowledge of the cluster, and helpers shared by several rules. Pure.

A rule reports nothing where it cannot know. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...slurm import values
from ...slurm.batch import shell
from ...slurm.batch.script import Launch, Script, program

#: line, what is wrong and why, and the remedy
Found = t.Iterator[tuple[int, str, str]]


#: A comment in a line of a script, but for a directive of sbatch and the first line.
COMMENT = re.compile(r"(?:^|\s)#(?!SBATCH\b|!).*")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The known facts about the cluster; None is unknown, and is not checked.

    interfaces: names of the network interfaces of its compute nodes. partitions: its partitions.
    mounts: paths of the file systems that all its nodes mount.
    default_memory: whether slurm.conf gives jobs without --mem a part of a node's memory.
    image_faults: finds what in an image does not fit the nodes: by the value of --container-image, the partition and
    the list of nodes; returns the fault, the remedy, and whether the job cannot work.
    directory_exists, file_exists: test an absolute path. workdir: where sbatch will be run. planned: seconds
    that the work takes. syntax: finds what the shell refuses in a script, by line. pyxis: whether srun can start
    containers. job_known: tests whether Slurm knows a job's number. release: of Slurm, such as (23, 2).
    has_option: returns whether sbatch has a long option here, None where that is not known.
    """

    interfaces: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    mounts: frozenset[str] | None = None
    default_memory: bool | None = None
    directory_exists: t.Callable[[str], bool] | None = None
    image_faults: t.Callable[[str, str, str], t.Sequence[tuple[str, str, bool]]] | None = None
    workdir: str = ""
    planned: int | None = None
    syntax: t.Callable[[str], t.Sequence[tuple[int, str]]] | None = None
    file_exists: t.Callable[[str], bool] | None = None
    pyxis: bool | None = None
    job_known: t.Callable[[int], bool] | None = None
    release: tuple[int, int] | None = None
    has_option: t.Callable[[str], bool | None] | None = None


class Rule(t.NamedTuple):
    """A rule. severity: error where the job fails, does other work than is meant, or loses it; else warning.

    common: whether so many scripts have it that it is shown in one line with others of its kind.
    """

    name: str
    severity: str
    summary: str
    find: t.Callable[[Script, Cluster], Found]
    common: bool = False


def rule(
    name: str, severity: str, summary: str, common: bool = False
) -> t.Callable[[t.Callable[[Script, Cluster], Found]], Rule]:
    """Make a rule of the function that finds its lines; rules.py collects them in the order of their definition."""

    def make(find: t.Callable[[Script, Cluster], Found]) -> Rule:
        return Rule(name, severity, summary, find, common)

    return make


#: The first line of a script that bash can run.
SHELL = re.compile(r"#!\s*\S*/(?:env\s+(?:-S\s+)?)?(?:ba)?sh(?:\s|$)")
#: Texts of a template that its user is to replace: <your_account>, {{ account }}, { account }, xxx, /path/to.
_PLACEHOLDER = re.compile(
    r"<[\w .:/-]+>|\{\{.*?\}\}|(?<![$\w}])\{ *[A-Za-z_]\w* *\}|\bx{3,}\b"
    r"|\b(change|fill|replace|insert)[ _-]?(me|this|in|here)\b"
    r"|\byour[_-]\w+|\bmy[_-](account|project|partition|token)\b|/path/to\b|/your/|^\.\.\.$|\btodo\b",
    re.I,
)


def placeholder(text: str | None) -> str:
    """Return the part of a text that a template left for its user to fill in; "" without one."""
    match = _PLACEHOLDER.search(text or "")
    return match[0] if match else ""


# -- what several rules ask ------------------------------------------------------------------------
#: Programs that look or measure and do not train.
_LOOKING = frozenset(
    "cat date df dcgmi echo env fi_info free grep hostname id ls lscpu mkdir nproc nvidia-smi rm"
    " sleep true uname uptime".split()
)
#: A task's own number, from srun.
OWN_RANK = re.compile(r"\$\{?(SLURM_(?:PROCID|LOCALID|NODEID))\b")


def _program(launch: Launch) -> str:
    return shell.plain(launch.program[0]).rpartition("/")[2] if launch.program else ""


def working_launches(script: Script) -> list[Launch]:
    """Launches that do the job's work."""
    return [one for one in script.launches if one.launcher or not _looks(one)]


def _looks(launch: Launch) -> bool:
    if launch.inner:
        return all(program(command) in _LOOKING for command in launch.inner.commands)
    return _program(launch) in _LOOKING


def seconds_of(text: str | None) -> int | None:
    try:
        return values.seconds(text) if text else None
    except ValueError:
        return None


def is_mpi(script: Script) -> bool:
    if any(one.launcher for one in script.launches):
        return False
    return any(
        one.starter == "mpirun" or one.option("mpi") not in (None, "none")
        for one in script.launches
    )


def _errexit(script: Script) -> list[tuple[int, bool]]:
    """Lines from which on a failing command ends the script, or no longer does."""
    found = [(1, True)] if re.match(r"#!\S*\bsh\s+-\w*e", script.lines[0]) else []
    if re.match(r"#!\S*/(?:env\s+)?bash\s+-\w*e", script.lines[0]):
        found = [(1, True)]
    for command in script.commands:
        if command.name != "set" or command.function:
            continue
        words = [word.text for word in command.words[1:]]
        for place, word in enumerate(words):
            named = word in ("-o", "+o") and words[place + 1 : place + 2] == ["errexit"]
            if named or re.fullmatch(r"[-+][a-z]*e[a-z]*", word):
                found.append((command.line, word[0] == "-"))
    return found


def fails_fast(script: Script, line: int) -> bool:
    states = [on for at, on in _errexit(script) if at <= line]
    return bool(states) and states[-1]


def pipefail(script: Script) -> bool:
    return any(
        command.name == "set" and any(word.text == "pipefail" for word in command.words)
        for command in script.commands
    )


def top_level(script: Script) -> list[shell.Command]:
    return [one for one in script.commands if not one.function and not one.depth]
