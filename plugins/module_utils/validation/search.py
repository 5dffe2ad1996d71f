# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds the bad node, link or switch by rounds of tests between disjoint pairs of nodes. Pure; kept as plain JSON.

search = Search(["c1", "c2", "c3", "c4"], {"c1": "leaf1", ...}, Settings(reference=48.0, source="our table"))
while pairs := search.next_round():          # [("c1", "c2"), ("c3", "c4")]: run them at the same time
    search.record([Measurement(pair, value=47.1) for pair in pairs])
    keep(json.dumps(search.to_json()))       # Search.from_json continues an interrupted run
search.outcome()                             # bad nodes, links and switches, with the evidence
"""

from __future__ import annotations

import typing as t

from .measurement import Json, Measurement, Outcome, Pair, Settings


class Search:
    """The state of one search.

    nodes: names, each once. switches: node to its leaf switch; nodes that are not in it are on a switch of their own
    called "" together. Raises SearchError.
    """

    def __init__(
        self,
        nodes: t.Sequence[str],
        switches: t.Mapping[str, str] | None = None,
        settings: Settings | None = None,
    ) -> None:
        raise NotImplementedError

    def next_round(self) -> list[Pair]:
        """Return the pairs to test at the same time, each node at most once; [] when the search is finished.

        The same until record() is called, also after from_json(): an interrupted round is run again.
        """
        raise NotImplementedError

    def record(self, measurements: t.Iterable[Measurement]) -> None:
        """Take the results of the pairs of next_round(), in any order.

        A pair of the round without a measurement counts as one that could not be measured. Raises SearchError for a pair
        that is not of the round, or is given twice, and for a value that is not a number of at least 0.
        """
        raise NotImplementedError

    def outcome(self) -> Outcome:
        """Return what is known so far; it is final once next_round() returns []."""
        raise NotImplementedError

    def to_json(self) -> Json:
        """Return the whole state as plain data."""
        raise NotImplementedError

    @classmethod
    def from_json(cls, state: t.Mapping[str, t.Any]) -> Search:
        """Return the search that to_json() wrote. Raises SearchError for anything else."""
        raise NotImplementedError


def most_rounds(nodes: int, bad_nodes: int = 0) -> int:
    """Return the most rounds that a search takes, without `full`: 3 + 2 x log2(nodes) + 2 x bad nodes."""
    raise NotImplementedError
