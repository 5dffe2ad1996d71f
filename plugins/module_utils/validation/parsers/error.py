# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The one error of all parsers. Pure."""

from __future__ import annotations

from ...node.terminal import printable

_LONGEST = 400


class ParseError(ValueError):
    """An output that does not yield a whole measurement, as one line: `what was found -> remedy`.

    The check that asked for the output ends as INCOMPLETE with this text. The first part may quote the output, so
    control characters are written out, line breaks become blanks, and a long text is cut.
    """

    def __init__(self, what: str, remedy: str) -> None:
        text = " ".join(printable(what).split())
        if len(text) > _LONGEST:
            text = text[:_LONGEST] + "..."
        super().__init__(f"{text} -> {remedy}")


def shown(value: object) -> str:
    """Return a value of an output for a message, at most 40 characters of it."""
    text = str(value)
    return repr(text if len(text) <= 40 else text[:37] + "...")
