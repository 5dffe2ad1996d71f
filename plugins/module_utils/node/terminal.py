# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Text that somebody else wrote, as a terminal may print it. Pure.

A terminal obeys control characters: they set its title, write its clipboard, overwrite lines and turn text around.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re

#: Control characters (C0, DEL, C1) and the separators of lines and paragraphs, for a class of a regular expression.
CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
# Characters that change the direction of text, and bytes outside UTF-8, which may be of C1.
_INVISIBLE = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNPRINTABLE = re.compile(rf"(?![\n\t])[{CONTROL}{_INVISIBLE}]")


def printable(text: object) -> str:
    """Return text with each character that a terminal would obey written as `\\x1b`; line breaks and tabs stay."""
    return _UNPRINTABLE.sub(lambda match: _written(ord(match[0])), str(text))


class PrintableError(Exception):
    """An error whose message may have text that somebody else wrote: Ansible prints messages as they are."""

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(message))


def _written(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
