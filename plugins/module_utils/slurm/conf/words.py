# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Words that Slurm ignores in options such as SchedulerParameters: unknown ones, and those of other releases. Pure."""

from __future__ import annotations

import typing as t

from . import word_tables
from .valid import in_release, is_newer

#: Letters by which a typing error differs from a word, one where the word is this short.
_LETTERS, _SHORT = 2, 4
_WORDS = {name.lower(): table for name, table in word_tables.WORDS.items()}


class Ignored(t.NamedTuple):
    """A word that this Slurm ignores. close: the word that it is one or two letters off, of this release.

    releases: those that have it, as in the table ("25.05-"), "" where none has it.
    """

    word: str
    close: str
    releases: str


def letters_off(one: str, other: str) -> int:
    """Return by how many letters two words differ: changed, left out, added, or swapped with the next one."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        here = [row]
        for column, another in enumerate(other, 1):
            cost = min(
                above[column] + 1, here[column - 1] + 1, above[column - 1] + (letter != another)
            )
            swapped = row > 1 and column > 1 and one[row - 2] == another
            if swapped and letter == other[column - 2]:
                cost = min(cost, before[column - 2] + 1)
            here.append(cost)
        before, above = above, here
    return above[-1]


def parts_of(text: str) -> dict[str, str]:
    """Return the words of a value in lower case, each with what is behind its equals sign."""
    parts = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    return {word.strip().lower(): value.strip() for word, _equals, value in parts}


def ignored(name: str, text: str, version: str) -> list[Ignored]:
    """Return the words of an option that this Slurm ignores; none of an option or a release without a table."""
    table = _WORDS.get(name.lower())
    if table is None or is_newer(version):
        return []
    known = {word.lower(): word for word in in_release(table, version)}
    ever = {entry.partition(":")[0].lower(): entry.partition(":")[2] for entry in table.split()}
    found = []
    for word in parts_of(text):
        if word in known:
            continue
        close = ""
        if word not in ever:
            off, nearest = min((letters_off(word, one), one) for one in known)
            close = known[nearest] if off <= (_LETTERS if len(nearest) > _SHORT else 1) else ""
        found.append(Ignored(word, close, ever.get(word, "")))
    return found
