# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One self-contained program for each kind of hook: the runner, and the parts as data. On the control node."""

from __future__ import annotations

import pprint
import re
import typing as t
from pathlib import Path

from ..checks.result import RESULTS
from . import plan

_HERE = Path(__file__).resolve().parent
#: -S and -I: no site-packages and no variables of the environment, which also start faster.
_FIRST = "#!/usr/bin/python3 -IS\n# Written by trainwright.slurm (role job_hooks).\n"


def source_of(name: str) -> str:
    """Return the Python of a part that this collection ships."""
    return (_HERE / "parts" / f"{name}.py").read_text(encoding="utf-8")


def program(
    kind: str, mode: str, parts: t.Sequence[plan.Part], read: t.Callable[[str], str]
) -> str:
    """Return the text of the program. read: returns the text of a site's file.

    The same input gives the same text, so that a run after which nothing changed changes nothing.
    """
    manifest = {
        "kind": kind,
        "mode": mode,
        "results": RESULTS if kind in plan.ON_NODES else "",
        "parts": [_entry(part, read) for part in parts if part.kind == kind],
    }
    data = pprint.pformat(manifest, width=110, sort_dicts=True)
    return f'{_FIRST}{_runner()}\n\nMANIFEST = {data}\n\nif __name__ == "__main__":\n    sys.exit(guarded(MANIFEST))\n'


def _runner() -> str:
    """Return the text of the runner, with the module that it imports in the place of the import."""
    runner, processes = (
        (_HERE / f"{name}.py").read_text(encoding="utf-8") for name in ("runner", "processes")
    )
    return re.sub(
        r"(?m)^from \.processes import .*\n",
        lambda _found: processes.partition("from __future__ import annotations\n\n")[2],
        runner,
        count=1,
    )


def _entry(part: plan.Part, read: t.Callable[[str], str]) -> dict[str, t.Any]:
    entry: dict[str, t.Any] = {
        "name": part.name,
        "deadline": part.deadline,
        "policy": part.policy,
        "remedy": part.remedy,
    }
    if part.needs:
        entry["needs"] = part.needs
    if part.shipped:
        entry.update(code=source_of(part.shipped), options=dict(part.options))
    elif part.path:
        entry["path"] = part.path
    else:
        entry["text"] = part.text or read(part.file)
    return entry
