# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The commands of a script before and after its training, as hooks that do the same.

Pure. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re

from ...slurm.batch import shell
from ...slurm.batch.script import Script, Variable
from .rule import fails_fast, pipefail

#: Options of `set` that a script of ours may be without, or has in another form.
_TRACING = re.compile(r"[-+][eEuxvh]+|[-+]o|errexit|nounset|xtrace|verbose|pipefail|[-+][eEuxvh]*o")
_NAMED = {"errexit": "e", "nounset": "u"}

#: Around hooks.always where a set-up may end the script: what follows the training needs a training.
_REACHED = "reached=1  # what follows the training runs only after it"
_UNLESS_REACHED = '[[ "${reached:-}" ]] || exit 0'
#: Around hooks whose pipes ended as their last part did.
_LOOSE = "set +o pipefail"
_STRICT = "set -o pipefail"


def is_set(command: shell.Command) -> bool:
    """Return whether a command only sets options of the shell that say how it fails and what it prints."""
    return (
        command.name == "set"
        and not command.depth
        and not command.function
        and len(command.words) > 1
        and all(_TRACING.fullmatch(word.text) for word in command.words[1:])
    )


def strictness(command: shell.Command) -> str:
    """Return a `set` without what it prints, "" where nothing is left: `set -ex` becomes `set -e`."""
    kept = []
    sign = ""
    for word in command.words[1:]:
        text = word.text
        if text[0] in "-+":
            sign = text[0]
            letters = re.sub(r"[^eu]", "", text[1:])
            kept += [sign + letters] if letters else []
        elif text in _NAMED:
            kept.append(sign + _NAMED[text])
    return " ".join(["set", *kept]) if kept else ""


def strict_at(script: Script, place: int) -> str:
    """Return which of e (a failing command ends the script) and u (an unset variable does) are on at a place."""
    on = {"e": False, "u": False}
    for command in script.commands:
        if command.start < place and is_set(command):
            for word in strictness(command).split()[1:]:
                on.update({letter: word[0] == "-" for letter in word[1:]})
    return "".join(letter for letter, is_on in on.items() if is_on)


def key_of(script: Script, start: int, handled: bool) -> str:
    """Return the hook for what comes after a training: hooks.post where `set -e` runs nothing after a failed one.

    start: place of the training. handled: whether the script keeps its exit code (`|| code=$?`).
    """
    line = script.text.count("\n", 0, start) + 1
    return "post" if fails_fast(script, line) and not handled else "always"


def hooks(script: Script, start: int, pre: str, after: str, key: str) -> dict[str, str]:
    """Return the hooks for what a script does before and after a training, with what keeps their meaning.

    start: place of the training. key: that of the hook after it.
    """
    strict = strict_at(script, start)
    may_end = re.search(r"^\s*set -\w*[eu]|\b(exit|exec|return)\b", pre, re.M)
    piped = not pipefail(script)
    opening, closing, first = [], [], []
    if piped and _asks_pipes(pre, bool(re.search(r"^set -\w*e", pre, re.M))):
        first, closing = [_LOOSE], [_STRICT]
    if strict and pre:
        closing.append(f"set +{strict}")
    if key == "always" and after and may_end:
        closing.append(_REACHED)
        opening.append(_UNLESS_REACHED)
    if piped and _asks_pipes(after, "e" in strict):
        opening.append(_LOOSE)
    if strict:
        opening.append(f"set -{strict}")
    found = {
        "pre": "\n".join([*first, pre, *closing]) if pre else "",
        key: "\n".join([*opening, after]) if after else "",
    }
    return {name: text for name, text in found.items() if text}


def loose(script: Script, body: str) -> str:
    """Return the commands of a whole script, whose pipes end as their last part does unless it says otherwise."""
    strict = any(is_set(one) and "-e" in strictness(one) for one in script.commands)
    return f"{_LOOSE}\n{body}" if _asks_pipes(body, strict) and not pipefail(script) else body


def own(text: str) -> str:
    """Return a hook without the lines that were added to it."""
    added = re.compile(r"set \+[eu]+|set -[eu]+")
    lines = text.split("\n")
    while lines and (lines[0] in (_LOOSE, _UNLESS_REACHED) or added.fullmatch(lines[0])):
        lines.pop(0)
    while lines and (lines[-1] in (_REACHED, _STRICT) or added.fullmatch(lines[-1])):
        lines.pop()
    return "\n".join(lines)


def _asks_pipes(text: str, strict: bool) -> bool:
    """Whether it matters to commands how a pipe among them ends. strict: whether a failing command ends them."""
    if strict and re.search(r"(?<![|>])\|(?!\|)", shell.live(text)):
        return True
    inside = False
    for command in shell.parse(f"{text}\n").commands:
        inside = inside or command.after in ("|", "|&")
        if inside and (command.depth or command.function or command.after in ("&&", "||")):
            return True
        inside = inside and command.after in ("|", "|&")
    return False


# -- variables -------------------------------------------------------------------------------------
#: Commands that take no notice of a variable which the script sets only after them, and set none.
_INDIFFERENT = frozenset(
    ": [ [[ cd date declare df echo env export false free hostname id let local ls mkdir nproc nvidia-smi popd printenv"
    " printf pushd pwd readonly rocm-smi set shopt sleep test true typeset ulimit umask uname unset whoami".split()
)
#: The same inside $( ).
_COMPUTES = _INDIFFERENT | frozenset(
    "awk basename cat cut dirname expr grep head readlink realpath scontrol sed seq shuf sinfo sort squeue tail tr uniq"
    " wc".split()
)


def is_early(script: Script, one: Variable) -> bool:
    """Return whether a variable may be set before all commands: none before it sees it, or sets it otherwise.

    A module, an environment or a file of settings that is loaded before a variable does not change it any more.
    """
    for command in script.commands:
        words = command.words or command.assignments
        if any(
            word.line == one.line and re.match(rf"{one.name}=", word.text)
            for word in (*command.words, *command.assignments)
        ):
            return True
        if command.words and command.name not in _INDIFFERENT:
            return False
        for word in (*words, *command.assignments):
            if any(name not in _COMPUTES for name in _computed_by(word.text)):
                return False
    return False


def _computed_by(text: str) -> list[str]:
    """Return the programs that a word runs in $( ) and backticks."""
    parts = shell.live(text).split("`")
    live = "".join(part + ("$(" if place % 2 == 0 else ")") for place, part in enumerate(parts))
    found = re.findall(r"(?:\$\((?!\()|(?<!\|)\|(?!\|))\s*([\w./-]+)", live)
    return [name.rpartition("/")[2] for name in found]
