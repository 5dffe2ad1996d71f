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
#: A character that no line of a file may have: each of them but the tab.
NOT_IN_A_LINE = re.compile(rf"(?!\t)[{CONTROL}]")
# Format, surrogate and private use (Unicode's Cf, Cs, Co): they hide, turn text around, or look as each font likes.
# U+FFFE and U+FFFF, which XML cannot have. Bytes outside UTF-8, which may be of C1, are surrogates here.
_FORMAT = (
    r"\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\uf8ff"
    r"\ufeff\ufff9-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
# Letters and marks shown as nothing: fillers of Hangul, Khmer and Mongolian, the grapheme joiner, blank Braille.
_FILLERS = r"\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0"
_UNPRINTABLE = re.compile(rf"(?![\n\t])[{CONTROL}{_FORMAT}{_FILLERS}]")


def printable(text: object) -> str:
    """Return text with each character that a terminal obeys or hides written as `\\x1b`; line breaks and tabs stay."""
    return _UNPRINTABLE.sub(lambda match: _written(ord(match[0])), str(text))


def one_line(text: object, most: int | None = None) -> str:
    """Return text as :func:`printable` does, with blanks for line breaks and tabs, cut to so many characters."""
    return printable(text).replace("\n", " ").replace("\t", " ")[:most]


def escaped_line(text: object) -> str:
    """Return text as :func:`printable` does, with line breaks and tabs written out: names of files stay different."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


class PrintableError(Exception):
    """An error whose message may have text that somebody else wrote: Ansible prints messages as they are."""

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(message))


def _written(code: int) -> str:
    if code < 256:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
