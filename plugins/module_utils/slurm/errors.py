# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Errors between a module and Slurm, in one form for both transports. Pure."""

from __future__ import annotations

import difflib
import typing as t

from ..node.names import some
from ..node.terminal import printable

#: Kinds of failure. down: slurmctld does not answer; database: slurmdbd does not answer;
#: off: accounting is not set up; denied: the user may not; unknown: a name that Slurm does not
#: know; exists: a name that is taken; invalid: a value that Slurm refuses; missing: no Slurm
#: commands here, or no slurmrestd at the URL; impossible: this version or transport cannot do it;
#: timeout: what was waited for did not come.
Kind = t.Literal[
    "down",
    "database",
    "off",
    "denied",
    "unknown",
    "exists",
    "invalid",
    "missing",
    "impossible",
    "timeout",
]


class ReportedError(Exception):
    """An error whose message is for a person: the fault, the reason and the remedy, a line for each fault."""


class SlurmError(ReportedError, RuntimeError):
    """Slurm refused or did not answer; the message has the fault, the reason and the remedy.

    kind: see Kind. Only down and database are worth another try.
    """

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(printable(message))
        self.kind = kind

    @property
    def passing(self) -> bool:
        """Whether the same call may succeed a little later (failover, restart)."""
        return self.kind in ("down", "database")


def nearest(name: str, known: t.Iterable[str], count: int = 3) -> list[str]:
    """Return the known names most like name, the best first; none that is far from it."""
    return difflib.get_close_matches(name, list(known), count, 0.6)


def unknown_names(what: str, names: t.Sequence[str], known: t.Iterable[str]) -> SlurmError:
    """Return the error for names that Slurm does not know, each with the nearest that it does."""
    known = sorted(known)
    said = []
    for name in names:
        close = nearest(name, known)
        said.append(f"{name} (did you mean {' or '.join(close)}?)" if close else name)
    return SlurmError(
        "unknown",
        f"Slurm does not know the {what} {', '.join(said)} -> write one of: {some(known, 10) or 'none there yet'}",
    )
