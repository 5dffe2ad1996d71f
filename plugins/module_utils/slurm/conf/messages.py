# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What slurmctld and scontrol say about a configuration, the reason first."""

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
    """Return log lines without time stamps and program names, each once."""
    bare = (re.sub(r"^(\[[^\]]*\]\s*)?(\w+: (?=error|fatal))?", "", line) for line in lines)
    return list(dict.fromkeys(line.strip() for line in bare if line.strip()))


def fatal(lines: list[str]) -> bool:
    """Whether a line says why slurmctld ended."""
    return any(_FATAL.search(line) for line in lines)


def reason(lines: list[str]) -> str:
    """Return what matters in the lines of a log: fatal ones first, then errors, then the rest; "" for nothing."""
    lines = [line for line in plain(lines) if not _NOISE.search(line)]
    ranks: list[list[str]] = [[], [], []]
    for line in lines:
        if _NEWS.search(line):
            rank = 0 if _FATAL.search(line) else 1 if "error:" in line.lower() else 2
            ranks[rank].append(line)
    if not any(ranks):
        return "; ".join(lines[-_SHOWN:])
    shown: list[str] = []
    for rank in ranks:
        # The last line is the reason; the lines before it lead there.
        shown += rank[-(_SHOWN - len(shown)) :] if len(shown) < _SHOWN else []
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
