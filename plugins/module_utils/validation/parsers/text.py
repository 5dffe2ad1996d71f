# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lines, numbers and JSON out of text that a node printed, which may be anything. Pure."""

from __future__ import annotations

import json
import math
import re
import typing as t

from .error import ParseError, shown

#: Characters of an output; the longest recorded one has a hundredth of it.
MOST_CHARACTERS = 16 * 1024 * 1024
#: Characters of a line of a table.
LONGEST_LINE = 4096
_ANSI = re.compile(r"\x1b\[[0-9;?]{0,32}[@-~]")
_SURROGATE = re.compile("[\ud800-\udfff]")
#: Labels that launchers put before each line: mpirun --tag-output, torchrun and others, srun --label.
_LABEL = re.compile(
    r"\[[0-9]{1,9},[0-9]{1,9}\]<std(?:out|(?P<error>err))>: ?|\[rank ?[0-9]{1,9}\]:? ?| {0,9}[0-9]{1,9}: "
)
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,2})?")
_WHOLE = re.compile(r"[0-9]{1,18}")
_MOST_VALUE = 1e24


def checked(text: object, tool: str) -> str:
    """Return the text of an output. Raises ParseError for another type, an empty text and one that is too long."""
    if not isinstance(text, str):
        raise ParseError(f"{tool}: the output is not text", "decode it as UTF-8 first")
    if len(text) > MOST_CHARACTERS:
        raise ParseError(f"{tool}: {len(text)} characters of output", "read the output on the node")
    if not text.strip():
        raise ParseError(f"{tool}: no output", "see its exit code and its errors")
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def lines(text: object, tool: str, longest: int = LONGEST_LINE) -> list[str]:
    """Return the lines of standard output, without colours and without the labels of launchers.

    Raises ParseError for a line of more characters than longest, which no table has.
    """
    found = []
    for line in checked(text, tool).split("\n"):
        if len(line) > longest:
            raise ParseError(
                f"{tool}: a line of {len(line)} characters", "read the output on the node"
            )
        line = _ANSI.sub("", line).rstrip("\r")
        label = _LABEL.match(line)
        if label:
            if label["error"]:
                continue
            line = line[label.end() :]
        found.append(line)
    return found


def ended(text: object, tool: str) -> list[str]:
    """Return the lines of a tool that prints nothing at its end: the last one has to be whole.

    The text is passed as it was printed, with its last line break.
    """
    found = lines(text, tool)
    if found[-1].strip():
        raise ParseError(f"{tool}: the last line is cut: {shown(found[-1])}", "run the test again")
    return found


def number(word: str, what: str) -> float:
    """Return a number that is zero or more. Raises ParseError for anything else, NaN and infinity included."""
    if not _NUMBER.fullmatch(word):
        raise ParseError(f"{what} is {shown(word)}, not a number", "run the test again")
    return _bounded(float(word), what)


def whole(word: str, what: str) -> int:
    """Return a whole number of at most 18 digits that is zero or more."""
    if not _WHOLE.fullmatch(word):
        raise ParseError(f"{what} is {shown(word)}, not a whole number", "run the test again")
    return int(word)


def _bounded(value: float, what: str) -> float:
    if not math.isfinite(value) or value < 0 or value > _MOST_VALUE:
        raise ParseError(f"{what} is {shown(value)}", "run the test again")
    return value


def decimal(word: str, digits: int, what: str) -> float:
    """Return a number that a tool prints with so many digits behind the point; with fewer it was cut."""
    if len(word.partition(".")[2]) != digits:
        raise ParseError(f"{what} is {shown(word)}, not of {digits} decimals", "run the test again")
    return number(word, what)


def half_unit(word: str) -> float:
    """Return half of a printed number's last digit: its rounding error. 0.005 for 12.34."""
    mantissa, _mark, exponent = word.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    power = int(exponent) if re.fullmatch(r"[+-]?[0-9]{1,2}", exponent) else 0
    return 0.5 * 10.0 ** (power - decimals)


def agree(found: float, expected: float, error: float) -> bool:
    """Whether a printed number follows from the others of its row, within rounding."""
    return abs(found - expected) <= error + 1e-9 * abs(expected)


# -- JSON ------------------------------------------------------------------------------------------
def _short(word: str) -> int:
    if len(word) > 20:
        raise ParseError(f"a number of {len(word)} digits", "run the test again")
    return int(word)


def _float(word: str) -> float:
    if len(word) > 64:
        raise ParseError(f"a number of {len(word)} characters", "run the test again")
    return float(word)


def _constant(word: str) -> t.NoReturn:
    raise ParseError(f"the JSON has {word} for a number", "run the test again")


def _once(pairs: list[tuple[str, t.Any]]) -> dict[str, t.Any]:
    found: dict[str, t.Any] = {}
    for key, value in pairs:
        # fio prints percentiles that it does not use as "0.00": 0, again and again.
        if key in found and found[key] != value:
            raise ParseError(
                f"the JSON has {shown(key)} twice", "write each run to a file of its own"
            )
        found[key] = value
    return found


_DECODER = json.JSONDecoder(
    object_pairs_hook=_once, parse_int=_short, parse_float=_float, parse_constant=_constant
)
_BEGIN = re.compile(r"^[ \t]*\{", re.MULTILINE)


def json_object(text: object, tool: str) -> dict[str, t.Any]:
    """Return the one JSON object in an output; lines may precede and follow it. Raises ParseError."""
    whole_text = "\n".join(lines(text, tool, MOST_CHARACTERS))
    begin = _BEGIN.search(whole_text)
    if not begin:
        raise ParseError(f"{tool}: no JSON in {shown(whole_text.strip())}", "see its errors")
    try:
        found, end = _DECODER.raw_decode(whole_text, begin.end() - 1)
    except ParseError as error:
        raise ParseError(f"{tool}: {str(error).partition(' -> ')[0]}", "run it again") from None
    except (ValueError, RecursionError, MemoryError) as error:
        why = str(error) if isinstance(error, json.JSONDecodeError) else "it nests too deeply"
        raise ParseError(
            f"{tool}: the JSON is broken: {why}", "it was cut or mixed with errors: run it again"
        ) from None
    if _BEGIN.search(whole_text, end):
        raise ParseError(f"{tool}: two JSON objects", "write each run to a file of its own")
    return t.cast("dict[str, t.Any]", found)


def amount(value: object, what: str) -> float:
    """Return a number of a JSON document that is zero or more; neither true nor text is one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ParseError(f"{what} is {shown(value)}, not a number", "run the test again")
    return _bounded(float(value), what)


def mapping(value: object, what: str) -> dict[str, t.Any]:
    """Return an object of a JSON document."""
    if not isinstance(value, dict):
        raise ParseError(f"{what} is {_kind(value)}, not an object", "run the test again")
    return value


def sequence(value: object, what: str) -> list[t.Any]:
    """Return a list of a JSON document that has at least one entry."""
    if not isinstance(value, list) or not value:
        raise ParseError(f"{what} is {_kind(value)}, not a list with entries", "run the test again")
    return value


def _kind(value: object) -> str:
    return "missing" if value is None else "empty" if value in ([], {}) else type(value).__name__
