# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The parts of a batch script that write what only the job knows into the record of its run. Pure.

The script carries the program (record/batch.py) at its end, so it works on a cluster that nobody prepared.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import inspect
import re

from ..record import batch
from .schema import DIRECTORIES, Job

#: The comments at the beginning of a source.
LICENSE = re.compile(r"\A(?:#.*\n)+")
#: The interpreter of the programs at the end of a script.
PYTHON = '"$host_python"'
_FUTURE = re.compile(r"^from __future__ import .*\n", re.MULTILINE)


def records(job: Job) -> bool:
    """Whether the run has a place for its record."""
    return bool(job.checkpoints or job.logs)


def python() -> str:
    """Return the lines that find the interpreter, before lines of the user may activate another one."""
    return (
        "# For the programs at the end of this script, whichever Python the training uses.\n"
        "host_python=$(type -P python3 || echo python3)"
    )


def begin(job: Job) -> str:
    """Return the lines that make the program callable and note the start; "" for a run without a record."""
    if not records(job):
        return ""
    place = DIRECTORIES["checkpoints" if job.checkpoints else "logs"]
    return "\n".join(
        [
            f"# The record of this run, run-<job>.json in ${place}: docs/training_records.md.",
            f'run_job="{job.number}"',
            f'run_record="${place}/run-$run_job.json"',
            "run_record() {",
            f'  {PYTHON} -I - "$1" "$run_record" "$run_job" "$2" \\',
            '    <<< "$(sed -n \'/^: <<.RECORD.$/,/^RECORD$/{//!p}\' "$0")" &> /dev/null',
            "}",
            "# Not a child of this shell, whose `wait` would wait for it too. With the time of the script: on a busy",
            "# node the program may begin after a script that ends at once.",
            "printf -v run_began '%(%s)T' -1",
            "(RUN_BEGAN=$run_began run_record start $$ &) &> /dev/null < /dev/null",
        ]
    )


def end(job: Job) -> list[str]:
    """Return the lines that note the end, where `code` has the exit code."""
    return ['run_record end "$code"'] if records(job) else []


def program(job: Job) -> str:
    """Return the program, as a here-document that bash never reaches, and sed reads; "" without a record."""
    if not records(job):
        return ""
    text = _FUTURE.sub("", LICENSE.sub("", inspect.getsource(batch))).strip("\n")
    return "\n".join(
        [
            "# The program that keeps the record of the run. It is data for bash, which has ended before.",
            ": <<'RECORD'",
            "from __future__ import annotations",
            text,
            "",
            "sys.exit(main(sys.argv[1:]))",
            "RECORD",
        ]
    )
