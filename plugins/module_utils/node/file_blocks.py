# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Blocks of lines between two markers, in files whose other lines are somebody else's. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re

from .terminal import PrintableError


class BlockError(PrintableError):
    """A file whose block cannot be found; the message has the cause and the remedy, not the path."""


def block_of(text: str, marker: str) -> str | None:
    """Return the lines between the markers, None where there is no whole block."""
    lines = text.split("\n")
    try:
        first = lines.index("# BEGIN %s" % marker)
        last = lines.index("# END %s" % marker, first)
    except ValueError:
        return None
    return "".join(line + "\n" for line in lines[first + 1 : last])


def edit_block(text: str, block: str | None, spec: dict) -> str:
    """Text with the block between its markers replaced, added, or removed (block None).

    spec: marker, insertbefore, insertafter. A block that is there stays where it is, unless that is on the
    wrong side of the line that the spec names: an older release, or another role, put it there.
    """
    begin, end = "# BEGIN %s" % spec["marker"], "# END %s" % spec["marker"]
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    stripped = [line.rstrip("\r\n") for line in lines]
    wanted = []
    if block is not None:
        body = block if block.endswith("\n") or not block else block + "\n"
        wanted = [begin + "\n", *body.splitlines(keepends=True), end + "\n"]
    if begin in stripped:
        first = stripped.index(begin)
        try:
            last = stripped.index(end, first)
        except ValueError:
            raise BlockError(
                "has the line %r without %r. Remedy: restore the end line, or delete the block "
                "by hand" % (begin, end)
            ) from None
        others = lines[:first] + lines[last + 1 :]
        right = _right_place(others, first, spec)
        return "".join(others[:right] + wanted + others[right:])
    if block is None:
        return text
    number = _place(lines, spec)
    if number is None:
        number = 0 if spec.get("insertbefore") == "BOF" else len(lines)
    return "".join(lines[:number] + wanted + lines[number:])


def is_in_place(text: str, spec: dict) -> bool:
    """Whether a block is on the right side of the line that the spec names; true where there is no block."""
    begin, end = "# BEGIN %s" % spec["marker"], "# END %s" % spec["marker"]
    lines = text.splitlines(keepends=True)
    stripped = [line.rstrip("\r\n") for line in lines]
    if begin not in stripped or end not in stripped[stripped.index(begin) :]:
        return True
    first = stripped.index(begin)
    others = lines[:first] + lines[stripped.index(end, first) + 1 :]
    return _right_place(others, first, spec) == first


def _right_place(others: list[str], first: int, spec: dict) -> int:
    """Return where a block belongs that is at a number among the other lines."""
    place = _place(others, spec)
    wrong = place is not None and (first > place if spec.get("insertbefore") else first < place)
    return place if place is not None and wrong else first


def _place(lines: list[str], spec: dict) -> int | None:
    """Return where the line that the spec names begins or ends, None without such a line."""
    before, after = spec.get("insertbefore"), spec.get("insertafter")
    numbers = range(len(lines))
    if before and before != "BOF":
        return next((number for number in numbers if re.search(before, lines[number])), None)
    if after and after != "EOF":
        found = (number + 1 for number in reversed(numbers) if re.search(after, lines[number]))
        return next(found, None)
    return None
