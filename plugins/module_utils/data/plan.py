# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files to send, those that are complete already, and those that exist only at the destination."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .journal import Sent
from .manifest import Entry, There


@dataclass
class Plan:
    """Paths, each in the order of the source.

    send: not there, or of another size. compare: there with the right size, and nobody noted that it is the same.
    whole: as it was when both ends agreed on it. extra: at the destination alone.
    """

    send: list[str] = field(default_factory=list)
    compare: list[str] = field(default_factory=list)
    whole: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)


def plan(
    files: t.Mapping[str, Entry], there: t.Mapping[str, There], sent: t.Mapping[str, Sent]
) -> Plan:
    """Say what is to be done with each file of the source and of the destination."""
    made = Plan()
    for path, entry in files.items():
        seen, noted = there.get(path), sent.get(path)
        if seen is None or seen.size != entry.size:
            made.send.append(path)
        elif noted is not None and noted.entry == entry and noted.there == seen.tag:
            made.whole.append(path)
        else:
            made.compare.append(path)
    made.extra = [path for path in there if path not in files]
    return made
