# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds the bad node, link or switch by rounds of tests between disjoint pairs of nodes. Pure; kept as plain JSON.

    search = Search(["c1", "c2", "c3", "c4"], {"c1": "leaf1", ...}, Settings(reference=48.0, source="our table"))
    while pairs := search.next_round():          # [("c1", "c2"), ("c3", "c4")]: run them at the same time
        search.record([Measurement(pair, value=47.1) for pair in pairs])
        keep(json.dumps(search.to_json()))       # Search.from_json continues an interrupted run
    search.outcome()                             # bad nodes, links and switches, with the evidence

The first rounds are a plan (pairs.py); then each suspect is tested with nodes that passed (diagnosis.py has the rules).

Limits: fewer than half of the nodes may be slow, and of the pairs across switches that can be made; else a note says
that some pairs are much faster than most. In 1,000 simulated clusters with a noise of 3 to 5 % (standard deviation)
nothing healthy was named; with 10 % something is in up to 5 of 100, so a test has to be long enough. Pairs of the first
rounds share the links between switches, and later rounds have fewer pairs, so a fault that shows only under the load of
a whole round may pass when it is tested again.
"""

from __future__ import annotations

import dataclasses
import math
import typing as t
from collections import Counter

from .diagnosis import Diagnosis
from .measurement import (
    Json,
    Measurement,
    Outcome,
    Pair,
    SearchError,
    Settings,
    is_number,
)
from .outcome import outcome_of
from .pairs import MORE_ROUNDS, ROUNDS, full_plan, groups_of, plan

FORMAT = 1


class Search:
    """The state of one search.

    nodes: names, each once. switches: node to its leaf switch; nodes that are not in it count as being on one switch.
    Raises SearchError.
    """

    def __init__(
        self,
        nodes: t.Sequence[str],
        switches: t.Mapping[str, str] | None = None,
        settings: Settings | None = None,
    ) -> None:
        twice = sorted(node for node, count in Counter(nodes).items() if count > 1)
        if twice:
            raise SearchError(f"nodes: {', '.join(twice)} is there twice -> name each node once")
        given = dict(switches or {})
        self.switches = {node: given[node] for node in nodes if node in given}
        self.nodes = [node for group in groups_of(nodes, self.switches) for node in group]
        self.settings = settings or Settings()
        self.measurements: list[Measurement] = []
        self.rounds = 0
        if self.settings.full:
            self._planned = full_plan(self.nodes, self.switches)
            self._least = len(self._planned)
        else:
            self._planned = plan(self.nodes, self.switches, ROUNDS + MORE_ROUNDS)
            self._least = min(ROUNDS, len(self._planned))
        self._from_plan = 0
        self._pending: list[Pair] | None = None
        self._known: Diagnosis | None = None

    def next_round(self) -> list[Pair]:
        """Return the pairs to test at the same time, each node at most once; [] when the search is finished.

        The same until record() is called, also after from_json(): an interrupted round is run again.
        """
        if self._pending is None:
            if self._follows_plan():
                self._pending = list(self._planned[self.rounds])
            elif self.rounds < self._most(self._diagnosis()):
                self._pending = list(self._diagnosis().tests)
            else:
                self._pending = []
        return list(self._pending)

    def record(self, measurements: t.Iterable[Measurement]) -> None:
        """Take the results of the pairs of next_round(), in any order.

        A pair of the round without a measurement counts as one that could not be measured. Raises SearchError for a
        pair that is not of the round, or is given twice, and for a value that is not a number of at least 0.
        """
        pairs = self.next_round()
        if not pairs:
            raise SearchError("record: the search is finished -> next_round() returns [] then")
        found: dict[Pair, Measurement] = {}
        for one in measurements:
            pair = one.pair if one.pair in pairs else (one.pair[1], one.pair[0])
            where = f"measurement of {' - '.join(one.pair)}"
            if pair not in pairs:
                raise SearchError(f"{where}: is not of this round -> only pairs of next_round()")
            if pair in found:
                raise SearchError(f"{where}: is there twice -> give one for each pair")
            _check(one, where)
            found[pair] = dataclasses.replace(one, pair=pair, number=self.rounds + 1)
        self._from_plan += self._follows_plan()
        self.rounds += 1
        for pair in pairs:
            missing = Measurement(pair, reason="no result was reported", number=self.rounds)
            self.measurements.append(found.get(pair, missing))
        self._pending = None
        self._known = None

    def outcome(self) -> Outcome:
        """Return what is known so far; it is final once next_round() returns []."""
        known = self._diagnosis()
        return outcome_of(
            known,
            self.measurements,
            self.settings,
            rounds=self.rounds,
            bound=self._bound(len(known.condemned)),
            finished=not self.next_round(),
        )

    def _follows_plan(self) -> bool:
        """Whether this round is the plan's: a first one, or another while it is open what healthy pairs reach."""
        if self.rounds != self._from_plan or self.rounds >= len(self._planned):
            return False
        return self.rounds < self._least or self._diagnosis().in_doubt()

    def _diagnosis(self) -> Diagnosis:
        if self._known is None:
            self._known = Diagnosis(self.nodes, self.switches, self.settings, self.measurements)
        return self._known

    def _bound(self, bad_nodes: int) -> int:
        further = len(self._planned) if self.settings.full else 0
        return further + most_rounds(len(self.nodes), bad_nodes)

    def _most(self, known: Diagnosis) -> int:
        """Return the rounds after which the search ends; one of the nodes that are tested further may be a bad one."""
        tested = {node for pair in known.tests for node in pair} - set(known.condemned)
        return self._bound(len(known.condemned) + min(len(tested), 1))

    # -- plain data ----------------------------------------------------------------------------
    def to_json(self) -> Json:
        """Return the whole state as plain data."""
        return {
            "format": FORMAT,
            "nodes": list(self.nodes),
            "switches": dict(self.switches),
            "settings": self.settings.to_json(),
            "rounds": self.rounds,
            "from_plan": self._from_plan,
            "pending": None if self._pending is None else [list(pair) for pair in self._pending],
            "measurements": [one.to_json() for one in self.measurements],
        }

    @classmethod
    def from_json(cls, state: t.Mapping[str, t.Any]) -> Search:
        """Return the search that to_json() wrote. Raises SearchError for anything else."""
        if not isinstance(state, t.Mapping) or state.get("format") != FORMAT:
            raise SearchError(f"search: is not a search of format {FORMAT} -> start a new one")
        try:
            made = cls(state["nodes"], state["switches"], Settings(**state["settings"]))
            made.measurements = [Measurement.from_json(one) for one in state["measurements"]]
            made.rounds = int(state["rounds"])
            made._from_plan = int(state["from_plan"])
            if state["pending"] is not None:
                made._pending = [(pair[0], pair[1]) for pair in state["pending"]]
        except (KeyError, TypeError, ValueError) as error:
            raise SearchError(f"search: cannot be read ({error}) -> start a new one") from error
        names = {node for one in made.measurements for node in one.pair}
        names.update(node for pair in made._pending or [] for node in pair)
        if names - set(made.nodes):
            raise SearchError(
                f"search: {', '.join(sorted(names - set(made.nodes)))} is not in nodes -> start a new one"
            )
        return made


def _check(one: Measurement, where: str) -> None:
    if one.value is not None and not (is_number(one.value) and one.value >= 0):
        raise SearchError(f"{where}: {one.value!r} -> a number of at least 0, or null and a reason")
    if one.latency_us is not None and not (is_number(one.latency_us) and one.latency_us > 0):
        raise SearchError(f"{where}: a latency of {one.latency_us!r} -> a number above 0, or null")


def most_rounds(nodes: int, bad_nodes: int = 0) -> int:
    """Return the most rounds that a search takes, without `full`: 3 + 2 x log2(nodes) + 2 x bad nodes."""
    return math.floor(3 + 2 * math.log2(nodes)) + 2 * bad_nodes if nodes > 1 else 0
