# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compares a batch script with its translation: resources, processes on a node, commands. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...slurm.batch import shell
from ...slurm.batch.directives import Directive
from ...slurm.batch.options import PYXIS
from ...slurm.batch.request import asked, processes_of, run_by
from ...slurm.batch.script import Launch, Script, parse
from ..job.schema import FIELDS
from . import around

#: Options of srun that ask for resources.
ASKS = frozenset(FIELDS) - {"chdir", "error", "output", "job-name"} | {"gres", "ntasks"}
_MARK = re.compile(r"\$\?|\$\{\?\}|\$\{?TRAIN_EXIT_CODE\}?")


def differences(before: str, after: str) -> list[str]:
    """Return in what two batch scripts ask for other resources, or run other commands; [] for nothing."""
    return between(parse(before), parse(after))


def between(first: Script, second: Script) -> list[str]:
    """Return the differences of two scripts that are read already."""
    found = []
    one, two = _requested(first), _requested(second)
    for key in sorted(set(one) | set(two)):
        if one.get(key) != two.get(key):
            found.append(f"--{key}: {one.get(key, 'none')} and {two.get(key, 'none')}")
    ran = [
        [launch for launch in script.launches if not _only_looks(launch)]
        for script in (first, second)
    ]
    shown = [
        [(run_by(launch), _contained(script, launch)) for launch in launches]
        for script, launches in zip((first, second), ran)
    ]
    if shown[0] != shown[1]:
        found.append(f"commands: {shown[0]} and {shown[1]}")
        return found
    for old, new in zip(*ran):
        counts = processes_of(first, old), processes_of(second, new)
        if counts[0] != counts[1]:
            found.append(f"processes on a node: {counts[0]} and {counts[1]}")
        options = [_own(launch) for launch in (old, new)]
        if old.starter == "srun" and first.directives and options[0] - options[1]:
            found.append(f"options of srun: {sorted(options[0] - options[1])} are missing")
    return found


def _own(launch: Launch) -> set[tuple[str, str]]:
    left_out = PYXIS | {"export"}
    return {
        (one.name, shell.plain(one.value or ""))
        for one in launch.options
        if one.name not in left_out
    }


def _only_looks(launch: Launch) -> bool:
    """Whether it is a step beside the work that samples the GPUs."""
    beside = any(option.name == "overlap" for option in launch.options)
    return beside and any("nvidia-smi --query-gpu" in word for word in run_by(launch)[-1])


def _requested(script: Script) -> dict[str, str]:
    found = asked(script)
    if not script.directives and len(script.launches) == 1:
        # Without directives, srun itself asks.
        options = script.launches[0].options
        own = tuple(Directive(1, one.name, one.value) for one in options if one.name in ASKS)
        found = asked(dataclasses.replace(script, directives=own))
    return found


def _contained(script: Script, launch: Launch) -> tuple[tuple[str, str], ...]:
    options = {one.name: one.value or "" for one in launch.options if one.name in PYXIS}
    for one in script.directives:
        if one.name in PYXIS and launch.starter == "srun":
            options.setdefault(one.name, one.value or "")
    return tuple(sorted((name, shell.plain(value)) for name, value in options.items()))


# -- the words of a description --------------------------------------------------------------------
def lost(
    script: Script,
    job: t.Mapping[str, t.Any],
    launch: Launch | None,
    gone: t.Collection[tuple[int, str]],
    cut: t.Collection[int],
    said: t.Collection[str],
) -> list[str]:
    """Return the commands and values of a script that its description does not have, or has otherwise.

    launch: the one training that the description expresses, or None where it keeps the commands. gone: (line, name) of
    the variables that were left out or moved. cut: places of the commands that were left out. said: names that the
    corrections have. Commands are compared with quotes and redirections, in their order.
    """
    hooks = job.get("hooks", {})
    last = hooks.get("post") or hooks.get("always", "")
    texts = [hooks.get("pre", ""), last] if launch else [job["command"]]
    texts = [around.own(text) for text in texts]
    got = [shell.parse(f"{text}\n") for text in texts]
    want: list[list[t.Any]] = [[]]
    for command in script.commands:
        if launch and command.start == launch.command.start:
            want.append([])
        elif command.start not in cut:
            want[-1] += _told(command, gone)
    want += [[]] * (len(texts) - len(want))
    found = []
    for wanted, made in zip(want, got):
        mine = [one for command in made.commands for one in _told(command, ())]
        if wanted != mine:
            odd = next((a or b for a, b in _pairs(wanted, mine) if a != b), None)
            found.append(f"commands around it: {' '.join((odd or ('', '', ''))[1])[:60]!r}")
    documents = [_document(script.text, script.documents)]
    made_documents = [_document(text, one.documents) for text, one in zip(texts, got)]
    if documents[0] != [line for lines in made_documents for line in lines]:
        found.append("lines of a here-document")
    environment = job.get("environment", {})
    for one in script.variables:
        moves = launch is not None and one.where in ("srun", "mpirun")
        if (one.line, one.name) not in gone and not moves:
            continue
        expected = one.name in said or one.name in ("MASTER_ADDR", "MASTER_PORT")
        if not expected and (one.live or environment.get(one.name) != one.value):
            found.append(f"{one.name}={one.value}")
    for option in job.get("launcher_options", ()):
        if re.search(r"[$`]", str(option)):
            found.append(f"{option}: nothing is expanded in launcher_options")
    return found


def _pairs(one: t.Sequence[t.Any], two: t.Sequence[t.Any]) -> t.Iterator[tuple[t.Any, t.Any]]:
    for place in range(max(len(one), len(two))):
        yield tuple((side[place] if place < len(side) else None) for side in (one, two))  # type: ignore[misc]


def _told(command: shell.Command, gone: t.Collection[tuple[int, str]]) -> list[t.Any]:
    """Return a command in a form to compare; nothing of one that only set variables that are gone."""

    def stays(word: shell.Word) -> bool:
        match = shell.ASSIGNMENT.match(word.text)
        return match is None or (word.line, match[1]) not in gone

    if around.is_set(command):
        return []  # comes back as the lines around a hook say
    assigned = tuple(_MARK.sub("$?", word.text) for word in command.assignments if stays(word))
    words = tuple(_MARK.sub("$?", word.text) for word in command.words if stays(word))
    flags = all(text.startswith("-") for text in words[1:])
    if not (assigned or words) or (len(words) < len(command.words) and flags) or words == (":",):
        return []
    joined = command.after if command.after in ("&", "|", "|&", "&&", "||") else ""
    return [(assigned, words, command.redirects, joined, bool(command.function), command.depth)]


def _document(text: str, numbers: t.Collection[int]) -> list[str]:
    lines = text.split("\n")
    return [lines[number - 1].strip() for number in sorted(numbers) if number <= len(lines)]


def expands_quotes(script: Script, launch: Launch) -> bool:
    """Whether words of a launch come from a text with quotes, which the shell does not read again."""
    texts = {one.name: one.text for one in script.variables if not one.text.startswith("(")}
    return any(
        re.search(r"\\?[\"'\\]", shell.plain(texts.get(match[1], "")))
        for word in launch.command.words
        if (match := re.fullmatch(r"\$\{?(\w+)\}?", word.text))
    )
