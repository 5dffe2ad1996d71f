# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Damages to a recorded output, the same on each run, as a network, a full disk or two writers cause them.

A damage returns None where it does not apply: a table of one row does not have a middle row.
"""

from __future__ import annotations

import json
import re
import typing as t

#: The rows of numbers of each tool that prints tables.
ROWS = {
    "nccl_tests": r"(\[1,0\]<stdout>:)?\s*[0-9]+\s+[0-9]+\s+float\s",
    "osu": r"\s*[0-9]+(\.[0-9]+)?\s+[0-9.]+",
    "ior": r"(write|read)\s(?!.*[A-Z]).*\s0$",
    "mdtest": r"\s+(File|Directory) \w+\s*:\s+[1-9]",
    "fi_pingpong": r"[0-9]+[km]?\s+10k?\s+=",
    "perftest": r"\s*[0-9]+\s+[0-9]+\s+[0-9.]+\s+[0-9.]+\s",
    "nvbandwidth": r"\s[0-9]\s+[0-9.]+",
    "nvidia_topo": r"GPU[0-9]\s+(X|N|S|P)",
    "fi_info": r"\s+(domain|version|type): ",
}
#: The heading that names the columns.
HEADINGS = {
    "nccl_tests": r"(\[1,0\]<stdout>:)?#\s+size\s",
    "osu": r"# (Size|Avg Latency)",
    "ior": r"access\s",
    "mdtest": r"\s+Operation\s",
    "fi_pingpong": r"bytes\s",
    "perftest": r"\s*#bytes",
    "nvbandwidth": r"memcpy CE",
    "nvidia_topo": r"\s+GPU0",
    "fi_info": r"provider: ",
}
_NUMBER = re.compile(r"(?<![0-9A-Za-z.:_-])[0-9]+(?:\.[0-9]+)?(?![0-9A-Za-z.:_-])")
KILLED = "srun: error: node-2: task 1: Killed"


def rows_of(parser: str, lines: t.Sequence[str]) -> list[int]:
    """Return the indices of the rows of numbers."""
    heading = re.compile(HEADINGS[parser])
    begin = next(index for index, line in enumerate(lines) if heading.match(line))
    row = re.compile(ROWS[parser])
    return [index for index in range(begin, len(lines)) if row.match(lines[index])]


def _middle(parser: str, text: str) -> tuple[list[str], int]:
    lines = text.split("\n")
    rows = rows_of(parser, lines)
    return lines, rows[len(rows) // 2]


def _joined(lines: list[str]) -> str:
    return "\n".join(lines)


def before_the_last_row(parser: str, text: str) -> str:
    lines = text.split("\n")
    # A server and its client print it each.
    last = lines[rows_of(parser, lines)[-1]]
    return _joined(lines[: lines.index(last)]) + "\n"


def inside_the_last_row(parser: str, text: str) -> str:
    lines = text.split("\n")
    last = rows_of(parser, lines)[-1]
    return _joined([*lines[:last], lines[last].rstrip()[:-2]])


def without_a_heading(parser: str, text: str) -> str:
    heading = re.compile(HEADINGS[parser])
    return _joined([line for line in text.split("\n") if not heading.match(line)])


def without_a_row(parser: str, text: str) -> str | None:
    lines, index = _middle(parser, text)
    # A lost phase of mdtest gives no figure: see test_a_lost_phase_gives_no_figure.
    if parser == "mdtest":
        return None
    del lines[index]
    return _joined(lines)


def _numbers(line: str) -> list[re.Match[str]]:
    return list(_NUMBER.finditer(line))


def _with_number(parser: str, text: str, change: t.Callable[[str], str]) -> str | None:
    """Change the last number but one of the middle row, of its measured ones."""
    lines, index = _middle(parser, text)
    line = lines[index]
    found = _numbers(line)
    if parser in ("fi_info", "nvidia_topo") or not found:
        return None
    place = {"nccl_tests": 3, "osu": -1, "ior": 0, "mdtest": 2, "nvbandwidth": 1}.get(parser, -2)
    if parser == "nccl_tests":
        # time, behind size, count and perhaps the root.
        match = next(m for m in found if "." in m[0] or m.start() > line.index("float") + 20)
    else:
        match = found[place]
    lines[index] = line[: match.start()] + change(match[0]) + line[match.end() :]
    return _joined(lines)


def a_letter_for_a_digit(parser: str, text: str) -> str | None:
    return _with_number(parser, text, lambda word: word[:-1] + "O")


def not_a_number(parser: str, text: str) -> str | None:
    return _with_number(parser, text, lambda _word: "nan")


def infinite(parser: str, text: str) -> str | None:
    return _with_number(parser, text, lambda _word: "inf")


def negative(parser: str, text: str) -> str | None:
    return _with_number(parser, text, lambda word: "-" + word)


def digits_without_end(parser: str, text: str) -> str | None:
    return _with_number(parser, text, lambda word: "9" * 5000)


def ten_times(parser: str, text: str) -> str | None:
    """A digit too many, which tools that print a number twice give away."""
    if parser in ("osu", "mdtest"):
        return None
    return _with_number(parser, text, lambda word: "9" + word)


def swapped_columns(parser: str, text: str) -> str | None:
    lines, index = _middle(parser, text)
    found = _numbers(lines[index])
    places = {
        "nccl_tests": None, "ior": (0, -1), "mdtest": (0, 1), "fi_pingpong": (-3, -2), "perftest": (1, 3),
        "nvbandwidth": (0, 1), "osu": (0, 1),
    }.get(parser)  # fmt: skip
    if parser == "nccl_tests":
        line = lines[index]
        numbers = [m for m in found if m.start() > line.index("float") + 20]
        first, second = numbers[0], numbers[1]
    elif places and len(found) > max(places):
        first, second = found[places[0]], found[places[1]]
    else:
        return None
    if first[0] == second[0]:
        return None
    line = lines[index]
    lines[index] = (
        line[: first.start()]
        + second[0]
        + line[first.end() : second.start()]
        + first[0]
        + line[second.end() :]
    )
    return _joined(lines)


def an_error_in_a_row(parser: str, text: str) -> str:
    lines, index = _middle(parser, text)
    # Links between GPUs come first; the affinities behind them are not part of the result.
    half = 7 if parser == "nvidia_topo" else len(lines[index].rstrip()) - 4
    lines[index] = f"{lines[index][:half]}\n{KILLED}\n{lines[index][half:]}"
    return _joined(lines)


#: Damages of tables that are always refused.
TABLES: dict[str, t.Callable[[str, str], str | None]] = {
    function.__name__: function
    for function in (
        before_the_last_row,
        inside_the_last_row,
        without_a_heading,
        without_a_row,
        a_letter_for_a_digit,
        not_a_number,
        infinite,
        negative,
        digits_without_end,
        ten_times,
        swapped_columns,
        an_error_in_a_row,
    )
}  # fmt: skip


# -- JSON ------------------------------------------------------------------------------------------
#: A pattern with a value that the tool's result depends on, in its second group.
VALUES = {
    "fio": r'("iops" : )([1-9][0-9.]*)',
    "iperf3": r'("sum_received": \{(?:[^}]*?)"bits_per_second": )([0-9.]+)',
    "dcgmi_diag": r'("status": )("\w+")',
}


def _valued(parser: str, text: str, new: str) -> str:
    found = t.cast("re.Match[str]", re.search(VALUES[parser], text))
    return text[: found.start(2)] + new + text[found.end(2) :]


def cut_in_half(_parser: str, text: str) -> str:
    return text[: len(text) // 2]


def without_the_end(_parser: str, text: str) -> str:
    return text.rstrip()[:-1]


def twice(_parser: str, text: str) -> str:
    return text.rstrip("\n") + "\n" + text


def in_a_list(_parser: str, text: str) -> str:
    return f"[{text}]"


def an_error_inside(_parser: str, text: str) -> str:
    place = text.index(":", len(text) // 2)
    return f"{text[:place]}\n{KILLED}\n{text[place:]}"


def null(parser: str, text: str) -> str:
    return _valued(parser, text, "null")


def a_nan(parser: str, text: str) -> str:
    return _valued(parser, text, "NaN")


def a_text(parser: str, text: str) -> str:
    return _valued(parser, text, '"12 or so"')


def below_zero(parser: str, text: str) -> str:
    return _valued(parser, text, "-1")


def without_the_key(parser: str, text: str) -> str:
    found = t.cast("re.Match[str]", re.search(VALUES[parser], text))
    begin = text.rindex('"', 0, text.rindex('"', 0, found.start(2)))
    return f"{text[:begin]}{json.dumps('other')}: 1{text[found.end(2) :]}"


DOCUMENTS: dict[str, t.Callable[[str, str], str | None]] = {
    function.__name__: function
    for function in (
        cut_in_half,
        without_the_end,
        twice,
        in_a_list,
        an_error_inside,
        null,
        a_nan,
        a_text,
        below_zero,
        without_the_key,
    )
}  # fmt: skip


# -- XML -------------------------------------------------------------------------------------------
XML: dict[str, t.Callable[[str, str], str | None]] = {
    "cut_in_half": cut_in_half,
    "without_the_end": lambda _parser, text: text.replace("</nvidia_smi_log>", ""),
    "an_error_inside": lambda _parser, text: text.replace("</uuid>", f"</uu\n{KILLED}\n", 1),
    "a_gpu_less": lambda _parser, text: re.sub(r"<gpu id.*</gpu>", "", text, flags=re.S),
    "a_gpu_more_attached": lambda _parser, text: text.replace("<attached_gpus>1<", "<attached_gpus>8<"),
    "without_attached": lambda _parser, text: text.replace("attached_gpus>", "attached>"),
    "without_a_uuid": lambda _parser, text: re.sub(r"<uuid>.*</uuid>", "", text),
    "without_a_name": lambda _parser, text: re.sub(r"<product_name>.*</product_name>", "", text),
    "without_a_driver": lambda _parser, text: re.sub(r"<driver_version>.*</driver_version>", "", text),
    "an_entity": lambda _parser, text: re.sub(
        r"<!DOCTYPE[^>]*>", '<!DOCTYPE nvidia_smi_log [<!ENTITY a "ten">]>', text
    ),
    "another_root": lambda _parser, text: text.replace("nvidia_smi_log", "html"),
    "twice": twice,
}  # fmt: skip
