# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""IOR: bandwidth of a file system. Pure.

Formats: hpc/ior 2.10 to 4.0. Columns are found by the header: before 3.3 there is none for IOPS and latency.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .error import ParseError, shown
from .parsed import Parsed
from .text import lines, number

_TOOL = "IOR"
_AGAIN = "run the test again; see its errors"
_MIB = 1024.0 * 1024.0
_MAX = re.compile(r"Max (Write|Read):\s*(\S+) MiB/sec\s*\((\S+) MB/sec\)\s*")
_END = re.compile(r"(Run )?[Ff]inished\s*:\s.+")
_OPTION = re.compile(r"([A-Za-z][A-Za-z ]{1,30}?)\s*[:=] (\S.{0,200})")
#: src/ior.c: `WARNING: Incorrect data on read (5 errors found).`; before 3: `[3] FAILED comparison of buffer`.
_WRONG = re.compile(
    r"Incorrect data on [\w ]{1,40}\(([0-9]{1,12}) errors found\)|\] FAILED comparison()"
)
_COMMAND = re.compile(r"Command line(?: used)?\s*: (.{1,2000})")


@dataclass(frozen=True)
class Ior(Parsed):
    """A run.

    write, read: GB/s, the best repetition, None where the operation was not asked for. write_ops, read_ops: operations
    a second, None before 3.3. wrong: errors that -R or -W found. cached: reads may come from the page cache of the
    node that wrote them, since neither -C, -Q, -Z nor direct I/O was on the command line. partial: fewer bytes were
    moved than the command asked for, as with a time limit (-D).
    """

    write: float | None
    read: float | None
    write_ops: float | None
    read_ops: float | None
    wrong: int
    cached: bool
    partial: bool = False

    @property
    def figures(self) -> dict[str, float]:
        """Return write, read (GB/s), write_ops and read_ops (operations a second)."""
        named = ("write", "read", "write_ops", "read_ops")
        values = ((name, getattr(self, name)) for name in named)
        return {name: value for name, value in values if value is not None}

    @property
    def faults(self) -> tuple[str, ...]:
        return (f"{self.wrong} errors in the data that was read back",) if self.wrong else ()

    @property
    def gaps(self) -> tuple[str, ...]:
        found = ["fewer bytes were moved than asked for"] if self.partial else []
        if self.cached and self.write is not None and self.read is not None:
            found.append(
                "reads may come from the page cache: the command has neither -C nor direct I/O"
            )
        return tuple(found)


def parse(text: str) -> Ior:
    """Read standard output of one run. Raises ParseError."""
    best: dict[str, float] = {}
    seen: dict[str, list[dict[str, float]]] = {}
    columns: list[str] = []
    command, done, wrong, shifted, partial = "", False, 0, False, False
    for line in lines(text, _TOOL):
        line = line.strip()
        words = line.split()
        command = (_COMMAND.fullmatch(line) or ["", command])[1]
        option = _OPTION.fullmatch(line)
        if option and option[1] == "ordering inter file":
            shifted = shifted or not option[2].startswith("no tasks offsets")
        if words[:1] == ["access"] and len(words) > 2:
            columns = words
        elif columns and words and words[0] in ("write", "read") and "total(s)" in columns:
            if len(words) == len(columns):
                seen.setdefault(words[0], []).append(_row(words, columns))
            elif not best:
                raise ParseError(f"{_TOOL}: the row {shown(line)}", _AGAIN)
        elif _MAX.fullmatch(line):
            found = t.cast("re.Match[str]", _MAX.fullmatch(line))
            name = found[1].lower()
            if name in best:
                raise ParseError(f"{_TOOL}: two summaries", "write each run to a file of its own")
            best[name] = number(found[2], f"{_TOOL}: Max {found[1]}")
            if abs(best[name] * _MIB - number(found[3], f"{_TOOL}: MB/sec") * 1e6) > 6e3 * 2:
                raise ParseError(f"{_TOOL}: {shown(found[0])}", _AGAIN)
        elif re.match(r"(ior )?ERROR\b", line):
            raise ParseError(f"{_TOOL}: {shown(line)}", _AGAIN)
        elif _WRONG.search(line):
            wrong += int(t.cast("re.Match[str]", _WRONG.search(line))[1] or 1)
        partial = partial or "Using actual aggregate bytes moved" in line
        done = done or bool(_END.fullmatch(line))
    best = {name: value for name, value in best.items() if value or name in seen}
    if not best or not done:
        raise ParseError(
            f"{_TOOL}: {'no end' if best else 'no summary'} of the run",
            "it stopped early: " + _AGAIN,
        )
    if set(seen) != set(best):
        raise ParseError(f"{_TOOL}: rows of {sorted(seen)}, a summary of {sorted(best)}", _AGAIN)
    for name, rows in seen.items():
        most = max(row["bw"] for row in rows)
        if not best[name] or abs(most - best[name]) > 0.51 + 0.001 * best[name]:
            raise ParseError(
                f"{_TOOL}: Max {name} {best[name]:g} MiB/sec over rows of {most:g}", _AGAIN
            )

    def operations(name: str) -> float | None:
        found = [row["ops"] for row in seen.get(name, ()) if "ops" in row]
        return max(found) if found else None

    kept = re.search(r"(^|\s)(-[A-Za-z]*[CBQZ]|--?posix\.odirect|-O useO_DIRECT=1)", command)
    return Ior(
        best["write"] * _MIB / 1e9 if "write" in best else None,
        best["read"] * _MIB / 1e9 if "read" in best else None,
        operations("write"),
        operations("read"),
        wrong,
        not kept and not shifted,
        partial,
    )


def _row(words: list[str], columns: list[str]) -> dict[str, float]:
    values = dict(zip(columns, words))
    rate = next((word for name, word in values.items() if name.startswith("bw(MiB/s")), "")
    found = {"bw": number(rate, f"{_TOOL}: bandwidth")}
    if "IOPS" in values:
        found["ops"] = number(values["IOPS"], f"{_TOOL}: IOPS")
    for name, word in values.items():
        if name not in ("access", "iter") and word != "-":
            number(word, f"{_TOOL}: {name}")
    return found
