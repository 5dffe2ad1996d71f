# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The state of a validation beside its logs, by which another run of the playbook continues it. Pure.

A job that has a whole log in the directory of the run is done. The rest is here: which nodes, and what was asked.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import typing as t

#: Another form than an earlier release's begins a new run.
FORMAT = 1
_RUN = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}")


@dataclasses.dataclass(frozen=True)
class State:
    """A run.

    run: its id, which also names its directory and jobs: the time of its start, and the beginning of asked. asked:
    digest of what was asked.
    nodes: under test. started: ISO 8601 in UTC. ended: the same, "" while it goes on. verdict: of the whole run.
    """

    run: str
    asked: str
    nodes: tuple[str, ...]
    started: str
    ended: str = ""
    verdict: str = ""

    def to_json(self) -> str:
        """Return it as the text of its file."""
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=1) + "\n"


def from_json(text: str) -> State | None:
    """Return the state in a file; None for anything else, so that a new run begins."""
    try:
        data = json.loads(text)
        if data.pop("format") != FORMAT:
            return None
        made = State(**{**data, "nodes": tuple(data["nodes"])})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    texts = (made.run, made.asked, made.started, made.ended, made.verdict, *made.nodes)
    good = all(isinstance(one, str) for one in texts) and bool(_RUN.fullmatch(made.run))
    return made if good else None


def digest(asked: t.Any) -> str:
    """Return the digest of plain data: what was asked, so that only a run that asked the same goes on."""
    text = json.dumps(asked, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def goes_on(state: State | None, asked: str) -> bool:
    """Whether a run of the same that was not finished is there."""
    return state is not None and state.asked == asked and not state.ended
