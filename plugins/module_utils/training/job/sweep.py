# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Sweeps: a job array with a task for each combination of named values, each with directories of its own. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
import typing as t

from ...slurm.batch import shell
from . import texts as texts_of

#: Tasks of a sweep.
MOST = 200
_LONGEST = 200  # characters of a value
Values = t.Mapping[str, tuple[str, ...]]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
#: A value in arguments, launcher_options and environment.
PLACEHOLDER = re.compile(r"\{sweep\.([A-Za-z0-9_-]*)\}")
#: A text that is meant as one, misspelt or not.
_MEANT = re.compile(r"\{\{\s*sweep\s*\.[^{}]*\}\}|\{\s*sweep\s*\.[^{}]*\}", re.IGNORECASE)
_REPLACED = re.compile(r"(command|arguments|launcher_options|environment)\b")
_PREFIX = "SWEEP_"
#: The number of the task, as the directories of its own have it.
TASK = "$SLURM_ARRAY_TASK_ID"

_Fault = t.Callable[[str, str, str], None]


def variable(name: str) -> str:
    """Return the variable that has the value of a name."""
    return _PREFIX + name.upper()


def texts(given: object) -> list[str] | None:
    """Return the values of a name as texts; None for what is not a list of plain values."""
    if not isinstance(given, (list, tuple)):
        return None
    found = []
    for one in given:
        if isinstance(one, bool):
            found.append(str(one).lower())
        elif isinstance(one, (str, int, float)):
            found.append(str(one))
        else:
            return None
    return found


def faults(made: t.Mapping[str, t.Any], fault: _Fault) -> None:
    """Report what is wrong with the sweep of a description, and with the placeholders in it."""
    given: t.Mapping[t.Any, t.Any] = made["sweep"]
    count = 1
    for name, values in given.items():
        at = f"sweep.{name}"
        found = texts(values)
        if not _NAME.fullmatch(str(name)):
            fault(at, "is not a valid name", "letters, digits and _, not a digit first")
        if found is None or not found:
            fault(at, f"is {values!r}", "a list of texts and numbers, such as [0.1, 0.01]")
            continue
        for one in sorted({one for one in found if found.count(one) > 1}):
            fault(at, f"{one} is there {found.count(one)} times", "leave out the others")
        if any(
            not re.fullmatch(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,%d}" % _LONGEST, one)
            for one in found
        ):
            fault(
                at,
                "has a value that is empty, has several lines, or is too long",
                f"1 to {_LONGEST} characters",
            )
        count *= len(found)
    names = [variable(str(name)) for name in given]
    for name in sorted({name for name in names if names.count(name) > 1}):
        fault("sweep", f"{name} would have the values of two names", "rename one of them")
    for name in names:
        if name in made["environment"]:
            fault(f"environment.{name}", "is set for each task of the sweep", "leave it out")
    if given and count > MOST:
        fault("sweep", f"has {count} combinations", f"at most {MOST}")
    if given and made["array"]:
        fault(
            "array",
            "a sweep is an array already",
            "leave it out; sweep_parallel limits how many run at a time",
        )
    if made["sweep_parallel"] is not None and not given:
        fault("sweep_parallel", "there is no sweep", "leave it out")
    if made["sweep_parallel"] == 0:
        fault("sweep_parallel", "is 0", "a number of tasks, or leave it out")
    if given and made["output"] and not re.search(r"%[aAjJ]", made["output"]):
        fault(
            "output",
            "all tasks of the sweep would write this file",
            "put %a into it, or leave it out",
        )
    _placeholders(made, fault)


def _placeholders(made: t.Mapping[str, t.Any], fault: _Fault) -> None:
    """Report each placeholder that would stay as it is written, or whose value is unknown."""
    known = {str(name) for name in made["sweep"]}
    for key, text in texts_of.leaves({**made, "sweep": {}}):
        at = key.partition("[")[0]
        for found in _MEANT.findall(text):
            match = PLACEHOLDER.fullmatch(found)
            if not _REPLACED.match(key):
                fault(at, f"{found} is not replaced there", _remedy(key))
            elif not match:
                fault(at, f"{found} is not the form of a placeholder", "write {sweep.NAME}")
            elif match[1] not in known:
                fault(
                    at,
                    f"{found} is not a value of the sweep",
                    f"one of {', '.join(sorted(known))}" if known else "give sweep",
                )
    if known and _literal(made["command"] or ""):
        fault(
            "command",
            "has a placeholder in single quotes, where the shell does not expand it",
            "put it in double quotes, or use its variable, such as SWEEP_LR of {sweep.lr}",
        )


def _remedy(key: str) -> str:
    """Return what to do about a placeholder where none is replaced."""
    if re.match(r"(hooks|notify|srun_options|container)\b", key) and key != "container.source":
        return "write its variable, such as ${SWEEP_LR} for {sweep.lr}"
    return "remove it; command, arguments, launcher_options and environment take placeholders"


def _literal(text: str) -> bool:
    """Return whether lines of shell have a placeholder where the shell expands no variables."""
    if not PLACEHOLDER.search(text):
        return False
    read = shell.parse(text)
    if re.search(r"<<-?[ \t]*['\"\\]", text) and any(
        number in read.documents and PLACEHOLDER.search(line)
        for number, line in enumerate(text.split("\n"), 1)
    ):
        return True
    words = [word.text for one in read.commands for word in (*one.words, *one.assignments)]
    return any(
        len(PLACEHOLDER.findall(one)) > len(PLACEHOLDER.findall(shell.live(one))) for one in words
    )


def elements(values: t.Mapping[str, t.Sequence[str]]) -> list[dict[str, str]]:
    """Return the values of each task, in the order of their numbers: the last name changes fastest."""
    return (
        [dict(zip(values, chosen)) for chosen in itertools.product(*values.values())]
        if values
        else []
    )


def array(values: t.Mapping[str, t.Sequence[str]], parallel: int | None) -> str:
    """Return the indices of the array."""
    count = math.prod(len(one) for one in values.values())
    return f"0-{count - 1}" + (f"%{parallel}" if parallel else "")


def own_keys(values: Values, array: str) -> tuple[str, ...]:
    """Return the keys of those directories of which each task of a job with these values or array has its own.

    Tasks that run one after another (`%1`) continue each other's checkpoints, and share them.
    """
    if values:
        return ("workdir", "checkpoints", "logs", "results", "tensorboard")
    if array and not re.search(r"%1$", array.strip()):
        return ("checkpoints", "tensorboard")
    return ()


def export(sweep: Values) -> list[str]:
    """Return the lines of the batch script that give a task its values and its directory."""
    if not sweep:
        return []
    lines = ["case $SLURM_ARRAY_TASK_ID in"]
    for number, values in enumerate(elements(sweep)):
        words = " ".join(f"{variable(name)}={shlex.quote(value)}" for name, value in values.items())
        lines.append(f"  {number}) export {words} ;;")
    lines += [
        '  *) echo "$SLURM_ARRAY_TASK_ID: the sweep has no such task -> submit it as an array" >&2; exit 1 ;;',
        "esac",
    ]
    return lines


def quoted(text: str) -> str:
    """Return a word of the shell for a text with placeholders, which become the variables."""
    if not PLACEHOLDER.search(text):
        return shlex.quote(text)
    parts = PLACEHOLDER.split(text)
    words = [
        f'"${{{variable(part)}}}"' if number % 2 else shlex.quote(part) if part else ""
        for number, part in enumerate(parts)
    ]
    return "".join(words)


def in_command(text: str) -> str:
    """Return lines of shell with the variables in place of the placeholders."""
    return PLACEHOLDER.sub(lambda match: f"${{{variable(match[1])}}}", text)
