# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which news of a watched training are worth a line. Runs on nodes: Python 3.9; the action plugin uses it too."""

from __future__ import annotations

import time
import typing as t

_EVERY = 30.0  # seconds between two lines that differ in the step alone


class News:
    """The last reported state of the training: new steps are printed twice a minute, anything else at once."""

    def __init__(self) -> None:
        self.line, self.at = "", 0.0
        self.kept: tuple[t.Any, ...] = ()

    def now(self, seen: dict[str, t.Any]) -> str:
        """Return the news of a poll as lines.

        seen: a look at the training, as status.watched() returns it.
        """
        look = seen["look"]
        newest = [one["name"] for one in look["checkpoints"] if one["newest"]]
        nan = (look["progress"] or {}).get("nan_since")
        kept = (seen["state"], look["stalled"], nan, len(look.get("attempts") or []), *newest)
        due = not self.line or time.monotonic() - self.at >= _EVERY
        if due or kept != self.kept:
            self.line, self.kept, self.at = look["summary"], kept, time.monotonic()
        return self.line
