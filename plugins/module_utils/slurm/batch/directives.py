# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads the #SBATCH lines of a batch script. Pure.

They begin in column one, end at the first command, and no shell expands them: src/sbatch/opt.c,
_opt_batch_script() and get_argument() of Slurm. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import typing as t

from .options import SBATCH
from .options import read as read_options

_BEGIN = "#SBATCH"


@dataclasses.dataclass(frozen=True)
class Directive:
    """An option of an #SBATCH line. value: None for one without."""

    line: int
    name: str
    value: str | None


class Unread(t.NamedTuple):
    """A line that looks like a directive and is not one, or that sbatch refuses.

    kind: late, indented, spelling, unknown, value, quote or words; what: the part that is wrong. hetjob: the line that
    begins the next part of a heterogeneous job.
    """

    line: int
    kind: str
    what: str


class Found(t.NamedTuple):
    """The directives of a script, and the lines that could not be read as directives."""

    directives: tuple[Directive, ...]
    unread: tuple[Unread, ...]


def read(lines: t.Sequence[str], documents: t.Collection[int] = ()) -> Found:
    """Read the directives in the lines of a script.

    documents: numbers of the lines inside here-documents, in which "#SBATCH" is just text. It reads the
    first part of a heterogeneous job.
    """
    found: list[Directive] = []
    unread: list[Unread] = []
    in_body = False
    for number, line in enumerate(lines, 1):
        in_body = in_body or bool(line.strip()) and not line.lstrip().startswith("#")
        if not line.startswith(_BEGIN):
            if re.match(r"[ \t]+#SBATCH\s+-", line) and not in_body:
                unread.append(Unread(number, "indented", line.strip()))
            elif re.match(r"#(?i:sbatch)\s+-", line) and not in_body:
                unread.append(Unread(number, "spelling", line.split()[0]))
            continue
        rest = line[len(_BEGIN) :]
        other = re.match(r"\s+(hetjob|packjob)\b", rest)
        if other and not in_body:
            unread.append(Unread(number, "hetjob", other[1]))
            break
        if not re.match(r"\s+-", rest):
            if rest.strip() and not rest.strip().startswith("#"):
                unread.append(Unread(number, "spelling", line.strip()))
            continue
        if in_body:
            if number not in documents:
                unread.append(Unread(number, "late", rest.strip()))
            continue
        words = split(rest)
        if words is None:
            unread.append(Unread(number, "quote", rest.strip()))
            continue
        given = read_options(words, SBATCH)
        found += [Directive(number, one.name, one.value) for one in given.options]
        if given.fault:
            kind, _colon, what = given.fault.partition(":")
            unread.append(Unread(number, kind, what))
        elif given.taken < len(words):
            unread.append(Unread(number, "words", words[given.taken]))
    return Found(tuple(found), tuple(unread))


def lines_of(text: str) -> list[str]:
    """Return the lines of a script, as every reader here counts them."""
    return text.replace("\r\n", "\n").split("\n")


def not_understood(text: str) -> Unread | None:
    """Return the first line that sbatch reads and this reader does not understand, if there is one.

    A line that sbatch itself ignores (indented, too late, #sbatch) does no harm and is not returned.
    """
    lines = lines_of(text)
    for one in read(lines).unread:
        ignored = one.kind in ("late", "indented")
        if not ignored and lines[one.line - 1].startswith(_BEGIN):
            return one
    return None


def without(text: str, names: t.Collection[str]) -> str:
    """Return a script whose directives do not have the options of these long names."""
    lines = lines_of(text)
    found = read(lines).directives
    changed = {one.line for one in found if one.name in names}
    if not changed:
        return text
    for number in changed:
        kept = [one for one in found if one.line == number and one.name not in names]
        words = [f"--{one.name}" + ("" if one.value is None else f"={one.value}") for one in kept]
        lines[number - 1] = " ".join([_BEGIN, *map(shlex.quote, words)])
    return "\n".join(lines)


def split(line: str) -> list[str] | None:
    """Split a directive as sbatch does: quotes, backslashes, comments after a space; None for an open quote."""
    words: list[str] = []
    word: list[str] = []
    quote, open_word = "", False
    place = 0
    while place < len(line):
        char = line[place]
        if char == "\\" and quote != "'" and place + 1 < len(line):
            place += 1
            word.append(line[place])
            open_word = True
        elif quote:
            if char == quote:
                quote = ""
            else:
                word.append(char)
        elif char in "'\"":
            quote, open_word = char, True
        elif char.isspace():
            if open_word:
                words.append("".join(word))
            word, open_word = [], False
        elif char == "#" and not open_word:
            break
        else:
            word.append(char)
            open_word = True
        place += 1
    if quote:
        return None
    return [*words, "".join(word)] if open_word else words
