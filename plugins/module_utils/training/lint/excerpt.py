# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Takes parts out of a batch script without a change to the rest of its text. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import re
import typing as t

from ...slurm.batch import shell
from ...slurm.batch.script import Script, program

#: Commands that export or declare the variables among their words.
SETTERS = frozenset("export declare typeset readonly".split())
_JOINED = frozenset(("&&", "||", "|", "|&"))


class Cut(t.NamedTuple):
    """A part of the text, from start to end, and what takes its place."""

    start: int
    end: int
    text: str = ""


def excerpt(
    script: Script, start: int, end: int, gone: t.Collection[tuple[int, str]], cuts: t.Iterable[Cut]
) -> str:
    """Return script.text[start:end] without comments, cuts, and the variables that go.

    gone: (line, name) of each variable.
    """
    edits = [Cut(0, start), *cuts, *variables(script, gone), Cut(end, len(script.text))]
    edits = _apart(sorted(edits))
    # Lines inside a command, its quoted texts among them.
    protected = set(script.documents) | {
        line
        for command in script.commands
        for line in range(command.line + 1, command.end_line + 1)
    }
    kept: list[str] = []
    place = 0
    for number, line in enumerate(script.lines, 1):
        text, touched = _line(line, place, edits)
        place += len(line) + 1
        # An empty line ends a command whose last line ends with a backslash.
        ends = bool(kept) and bool(re.search(r"(?<!\\)(\\\\)*\\\Z", kept[-1]))
        if ((number in protected or ends) and not touched) or _says(text):
            kept.append(text)
    return (
        re.sub(r"\A[\s;]+(?=\n|\S)", "", "\n".join(kept)) if start else "\n".join(kept).strip("\n")
    )


def _apart(edits: t.Iterable[Cut]) -> list[Cut]:
    """Leave out the cuts that lie inside another."""
    found: list[Cut] = []
    for one in edits:
        if found and one.start < found[-1].end:
            if one.end > found[-1].end:
                found.append(Cut(found[-1].end, one.end))
        else:
            found.append(one)
    return found


def _line(line: str, place: int, edits: t.Sequence[Cut]) -> tuple[str, bool]:
    """Return a line with the edits, and whether one changed it. place: where it begins in the text."""
    out, done, touched = "", place, False
    stop = place + len(line)
    for one in edits:
        if one.end <= place or one.start > stop or one.start == one.end:
            continue
        touched = True
        if one.start >= place:
            out += line[done - place : one.start - place] + one.text
        done = max(done, min(one.end, stop))
    return (out + line[done - place :]).rstrip() if touched else line, touched


def _says(line: str) -> bool:
    return line.strip() not in ("", ";") and not line.lstrip().startswith("#")


def variables(script: Script, gone: t.Collection[tuple[int, str]]) -> t.Iterator[Cut]:
    """Yield the cuts that take these variables out of the commands that set them."""
    for command in script.commands:
        if command.words and command.name not in SETTERS:
            for word in command.assignments:
                if _goes(word, gone):
                    yield Cut(word.start, word.end)
            continue
        words = command.words[1:] if command.words else command.assignments
        left = [word.text for word in words if not _goes(word, gone)]
        if len(left) == len(words):
            continue
        head = [command.words[0].text] if command.words else []
        if left and not all(text.startswith("-") for text in left):
            yield Cut(command.start, command.end, " ".join([*head, *left]))
        else:
            yield without(command)


def without(command: shell.Command) -> Cut:
    """Return the cut that removes a command; inside others, `:` takes its place."""
    joined = command.before in _JOINED or command.after in (*_JOINED, "&")
    return Cut(command.start, command.end, ":" if joined or _held(command) else "")


def _held(command: shell.Command) -> bool:
    return bool(command.depth or command.function or command.groups)


def _goes(word: shell.Word, gone: t.Collection[tuple[int, str]]) -> bool:
    match = shell.ASSIGNMENT.match(word.text)
    return bool(match) and (word.line, match[1]) in gone if match else False


# -- monitors --------------------------------------------------------------------------------------
_SAMPLERS = frozenset(("nvidia-smi", "dcgmi", "gpustat"))
_BESIDE = _SAMPLERS | frozenset("sleep date echo printf true : [ test tee cat awk grep".split())
_AMPERSAND = re.compile(r"(?<![&>])&(?![&>])")


def monitors(script: Script) -> list[tuple[int, list[Cut]]]:
    """Return the GPU monitors in the background: the line of each, and the cuts that take it out with its end."""
    found = []
    blocks = _blocks(script)
    for block in blocks:
        programs = {program(command) for command in block} - {""}
        if block[-1].after != "&" or not programs & _SAMPLERS or not programs <= _BESIDE:
            continue
        sign = _AMPERSAND.search(script.text, block[-1].end)
        if sign is None:
            continue
        before = re.compile(r"(?:(?:while|until|for)\b|[({!]|[ \t\n])*\Z").search(
            script.text[: block[0].start]
        )
        start = before.start() if before else block[0].start
        # The end of the line before stays.
        start += len(script.text[start:]) - len(script.text[start:].lstrip("\n"))
        cuts = [Cut(start, sign.end()), *_ends(script, sign.end())]
        found.append((block[0].line, cuts))
    return found


def _blocks(script: Script) -> list[list[shell.Command]]:
    """Return the commands at top level, those of a loop or group together."""
    found: list[list[shell.Command]] = []
    inside = False
    for command in script.commands:
        if command.function:
            inside = False
            continue
        held = bool(command.depth or command.groups)
        if held and inside:
            found[-1].append(command)
        else:
            found.append([command])
        inside = held and command.after != "&"
    return found


def _ends(script: Script, place: int) -> t.Iterator[Cut]:
    """Yield the cuts of a monitor's number, and of the commands that end it."""
    after = [one for one in script.commands if one.start >= place]
    if not after or after[0].words or len(after[0].assignments) != 1:
        return
    match = re.fullmatch(r'(\w+)="?\$!"?', after[0].assignments[0].text)
    if not match:
        return
    yield without(after[0])
    used = re.compile(rf"\$\{{?{match[1]}\b")
    for command, following in zip(after[1:], [*after[2:], None]):
        text = script.text[command.start : command.end]
        if command.name in ("kill", "wait") and used.search(text):
            if command.after == "||" and following and following.name in ("true", ":"):
                yield Cut(command.start, following.end, ":" if _held(command) else "")
            else:
                yield without(command)
        elif command.name == "trap" and re.fullmatch(
            rf"""trap\s+["']kill [^;&|]*{used.pattern}[^;&|]*["']\s+[\w ]+""", text
        ):
            yield without(command)
