# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The words of slurmctld and scontrol about a configuration, the reason first."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable

#: run(argv) -> (exit status, stdout, stderr)
Run = Callable[[list[str]], tuple[int, str, str]]

_NEWS = re.compile(r"\b(error|fatal|refus|invalid|unrecognized|mismatch)", re.IGNORECASE)
_FATAL = re.compile(r"\bfatal:", re.IGNORECASE)
# slurmctld logs it as an error for each job that ends, whatever was configured.
_NOISE = re.compile(r"tres_run_secs.*underflow", re.IGNORECASE)
_SHOWN = 5


def plain(lines: list[str]) -> list[str]:
    """Return log lines without time stamps and program names, each once; a message of several lines is one."""
    whole: list[str] = []
    for line in lines:
        # In a log file, only the first line of a message has a time stamp.
        if whole and not line.startswith("[") and re.match(r"\[.*\bfatal:", whole[-1]):
            whole[-1] += f" {line.strip()}"
        else:
            whole.append(line)
    lines = whole
    bare = (re.sub(r"^(\[[^\]]*\]\s*)?(\w+: (?=error|fatal))?", "", line) for line in lines)
    return list(dict.fromkeys(line.strip() for line in bare if line.strip()))


def fatal(lines: list[str]) -> bool:
    """Whether a line says why slurmctld ended."""
    return any(_FATAL.search(line) for line in lines)


def lost(answer: str) -> bool:
    """Whether scontrol gave up waiting: a busy slurmctld may have done what it was told, or not."""
    return "timed out" in answer.lower()


def reason(lines: list[str]) -> str:
    """Return what matters in the lines of a log: fatal ones first, then errors, then the rest; "" for nothing."""
    lines = [line for line in plain(lines) if not _NOISE.search(line)]
    news = [line for line in lines if _NEWS.search(line)]
    fatals = [line for line in news if _FATAL.search(line)]
    # After a fatal line, slurmctld resumes with its old configuration: what it says there is of less interest.
    after = news.index(fatals[-1]) if fatals else 0
    errors = [
        line
        for line in news[after:] + news[:after]
        if "error:" in line.lower() and line not in fatals
    ]
    others = [line for line in news if line not in fatals + errors]
    shown: list[str] = []
    for kind in (fatals, errors, others) if news else (lines,):
        # The last line is the reason; the lines before it lead there.
        shown += kind[max(0, len(kind) - (_SHOWN - len(shown))) :]
    return "; ".join(shown)


def parser_says(text: str, scontrol: str, run: Run) -> str:
    """Return the objection of Slurm's own parser to a slurm.conf without includes, "" for none.

    scontrol reads the whole file before it does anything, and ends with the parser's message at a
    value it cannot read (seen with 22.05 and 24.11); expanding a host list does not need a daemon. It does
    not find faults that only slurmctld can see (plugins, nodes of partitions).
    """
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "slurm.conf")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as handle:
            handle.write(text)
        rc, _out, err = run(["env", f"SLURM_CONF={path}", scontrol, "show", "hostnames", "a"])
    return "; ".join(plain(err.splitlines())[-4:]) if rc else ""


def of_difference(reason: tuple[str, str, str, str]) -> str:
    """Return an option that differs in words: its name, both values unless they are secret, and what it takes."""
    name, before, after, action = reason
    secret = name in ("AccountingStoragePass", "StoragePass")
    change = "changed" if secret else f"{before or 'unset'!s} -> {after or 'unset'!s}"
    return f"{name}: {change} ({action})"
