# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The conclusions from measurements about nodes, links and switches, and the tests that would prove more. Pure.

The rules, each for pairs on one switch and for pairs across switches on their own:

- A pair that passed acquits both nodes.
- A node is condemned after two failures with different partners that are acquitted, if none of its pairs passed. Of
  failures across switches, only while another node of its switch passes there: else it may be the switch.
- A switch is condemned when more than three quarters of its tested nodes, at least two, fail across with acquitted
  partners (twice each, if only two were tested); or when no pair on it passes, and each of its nodes failed with all
  others or with three.
- A pair that fails twice between acquitted nodes is a bad link.
- A failure that one of these explains accuses nobody else, but a node that failed only so is tested again.
- Of three to five nodes without a reference, only those far slower than the others fail: after two tests of a pair, and
  while others still pass.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict

from .measurement import ACROSS, INNER, Measurement, Pair, Settings
from .pairs import groups_of, in_order
from .peers import best_values, few_across, outpaced, references

OTHER = {INNER: ACROSS, ACROSS: INNER}
#: Failures with different acquitted partners that condemn a node.
_FAILURES = 2
#: More than this share of a switch's tested nodes condemns the switch.
_SHARE = 0.75
#: Failed pairs of each node on its switch, none passing, that condemn the switch.
_INNER_FAILURES = 3
#: Tests that could not be made, after which a node is not tested further.
ATTEMPTS = 3


class Diagnosis:
    """Everything that follows from measurements.

    bad_switches: switch to "across" (only its pairs across are slow), "within" or "all". condemned: node to the
    partners whose pairs prove it. bad_links: pairs; open_links: pairs that failed and could not be tested again.
    wanted: suspects to the scopes in which they failed; suspects: those of them for whom no test is left, and
    not_tested: nodes without a complete test, both with the reason. unproved: suspects among few nodes, before the
    tests that prove it. tests: pairs to test next.
    """

    def __init__(
        self,
        nodes: t.Sequence[str],
        switches: t.Mapping[str, str],
        settings: Settings,
        measurements: t.Sequence[Measurement],
    ) -> None:
        self.nodes = nodes
        self.switches = switches
        self.settings = settings
        self.rank = {node: index for index, node in enumerate(nodes)}
        self.members = {switches.get(group[0], ""): group for group in groups_of(nodes, switches)}
        self.values = best_values(measurements, self.scope_of)
        self.references = references(self.values, len(nodes), settings)
        self._sort(measurements)
        self.bad_switches = self._bad_switches()
        self.condemned = self._condemned()
        self.bad_links: list[Pair] = []
        self.open_links: list[Pair] = []
        self.wanted: dict[str, list[str]] = {}
        self.suspects: dict[str, str] = {}
        self.not_tested: dict[str, str] = {}
        self.tests: list[Pair] = []
        self.unproved: list[str] = []
        self._plan()

    def in_doubt(self) -> bool:
        """Whether a further round of the plan may show what healthy pairs reach."""
        if any(one.few for one in self.references.values()):
            return True
        able = sum(self.tested[node] > 0 for node in self.nodes)
        return few_across(self.values[ACROSS][0], able, self.settings) or self.outpaced()

    def outpaced(self) -> bool:
        """Whether some pairs are much faster than most."""
        values = {scope: both[0] for scope, both in self.values.items()}
        return outpaced(values, len(self.nodes), self.settings)

    # -- the measurements ----------------------------------------------------------------------
    def switch_of(self, node: str) -> str:
        return self.switches.get(node, "")

    def pair(self, one: str, other: str) -> Pair:
        return in_order(one, other, self.rank)

    def scope_of(self, pair: Pair) -> str:
        return INNER if self.switch_of(pair[0]) == self.switch_of(pair[1]) else ACROSS

    def is_slow(self, pair: Pair, scope: str) -> bool | None:
        """Whether the best of a pair's values is an outlier; None: nothing to compare it with."""
        limit = self.references[scope]
        bandwidth, speed = self.values[scope]
        if pair not in bandwidth:
            return None
        if limit.is_narrow(bandwidth[pair]) or self.is_lossy(pair):
            return True
        if pair in speed and limit.is_late(1 / speed[pair]):
            return True
        return None if limit.floor is None else False

    def is_lossy(self, pair: Pair) -> bool:
        """Whether each test of a pair had to send too much again."""
        return self.resent.get(pair, 0.0) > self.settings.resent_percent

    def _sort(self, measurements: t.Sequence[Measurement]) -> None:
        self.tried: dict[Pair, int] = defaultdict(int)
        self.complete: dict[Pair, int] = defaultdict(int)
        self.tested: dict[str, int] = defaultdict(int)
        self.failed_tests: dict[str, list[str]] = defaultdict(list)
        self.failed_with: dict[str, list[str]] = defaultdict(list)
        self.resent: dict[Pair, float] = {}
        self.latest = {one.pair: one for one in measurements if one.complete}
        for one in measurements:
            if one.resent_percent is not None:
                least = self.resent.get(one.pair, one.resent_percent)
                self.resent[one.pair] = min(least, one.resent_percent)
            self.tried[one.pair] += 1
            self.complete[one.pair] += one.complete
            for node in one.pair:
                if one.complete:
                    self.tested[node] += 1
                else:
                    self.failed_tests[node].append(one.reason)
                    self.failed_with[node] += [other for other in one.pair if other != node]
        self.slow: dict[str, list[Pair]] = {INNER: [], ACROSS: []}
        self.passed: dict[str, int] = {INNER: 0, ACROSS: 0}
        self.slow_with: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.acquitted: set[tuple[str, str]] = set()
        for scope, (bandwidth, _speed) in self.values.items():
            for pair in bandwidth:
                found = self.is_slow(pair, scope)
                if found:
                    self.slow[scope].append(pair)
                    self.slow_with[pair[0], scope].append(pair[1])
                    self.slow_with[pair[1], scope].append(pair[0])
                elif found is False:
                    self.passed[scope] += 1
                    self.acquitted.update((node, scope) for node in pair)

    # -- what is proved ------------------------------------------------------------------------
    def proof(self, node: str, scope: str) -> list[str]:
        """Return the acquitted partners with whom a node failed, [] if one of its pairs passed.

        Few nodes are tested one pair after the other, so a load of the network may be taken for a fault: each pair has
        to fail twice, and others have to pass after that (_is_confirmed).
        """
        if (node, scope) in self.acquitted:
            return []
        least = _FAILURES if self.references[scope].few else 1
        return [
            other
            for other in self.slow_with[node, scope]
            if (other, scope) in self.acquitted and self.complete[self.pair(node, other)] >= least
        ]

    def _witnesses(self, node: str, scope: str) -> list[Pair]:
        """Return the pairs without a node that passed, the last tested one first."""
        found = [
            pair
            for pair in self.latest
            if node not in pair and self.scope_of(pair) == scope and pair not in self.slow[scope]
        ]
        return sorted(found, key=lambda pair: -self.latest[pair].number)

    def _is_confirmed(self, node: str, scope: str) -> bool | None:
        """Whether a pair of others passed after a node of few had failed; None: none was tested since."""
        if not self.references[scope].few:
            return True
        pairs = [self.pair(node, other) for other in self.proof(node, scope)]
        last = max((self.latest[pair].number for pair in pairs), default=0)
        for pair in self._witnesses(node, scope):
            if self.latest[pair].number > last:
                return not self.references[scope].is_narrow(self.latest[pair].value)
        return None

    def _next_of_few(self, pair: Pair, scope: str) -> Pair | None:
        """Return what to test because of a slow pair of few nodes: the pair again, or others after it."""
        if not self.references[scope].few:
            return None
        proved = [node for node in pair if len(self.proof(node, scope)) >= _FAILURES]
        for node in proved:
            witnesses = self._witnesses(node, scope)
            if witnesses and self._is_confirmed(node, scope) is None:
                lost = self.tried[witnesses[0]] - self.complete[witnesses[0]]
                return witnesses[0] if lost < ATTEMPTS else None
        lost = self.tried[pair] - self.complete[pair]
        again = not proved and self.complete[pair] < _FAILURES and lost < ATTEMPTS
        return pair if again else None

    def _bad_switches(self) -> dict[str, str]:
        found = {}
        if len(self.members) == 1:
            return {}
        for switch, group in self.members.items():
            measured = [
                node
                for node in group
                if self.slow_with[node, ACROSS] or (node, ACROSS) in self.acquitted
            ]
            # Two nodes with a failure each may be a bad one and one with a bad link.
            least = _FAILURES if len(measured) == 2 else 1
            proved = [node for node in measured if len(self.proof(node, ACROSS)) >= least]
            across = len(proved) >= 2 and len(proved) > _SHARE * len(measured)
            within = self._slow_within(group, across)
            if across or within:
                found[switch] = "all" if across and within else "across" if across else "within"
        return found

    def _slow_within(self, group: t.Sequence[str], across: bool) -> bool:
        """Whether no pair of a switch passes, and too many fail to be the fault of a few nodes.

        If a switch has two nodes and both fail across switches, they cannot be told from their switch.
        """
        inner = [node for node in group if self.slow_with[node, INNER]]
        if any((node, INNER) in self.acquitted for node in group):
            return False
        if len(inner) < 3:
            return across and len(inner) == 2
        least = min(len(inner) - 1, _INNER_FAILURES)
        return all(len(self.slow_with[node, INNER]) >= least for node in inner)

    def _condemned(self) -> dict[str, list[str]]:
        found = {}
        for node in self.nodes:
            state = self.bad_switches.get(self.switch_of(node))
            proof = self.proof(node, INNER) if state in (None, "across") else []
            proof = proof if self._is_confirmed(node, INNER) else []
            if state in (None, "within"):
                across = self._proof_across(node)
                if across and self.witnessed(node) and self._is_confirmed(node, ACROSS):
                    proof = proof + across
            if len(proof) >= _FAILURES:
                found[node] = proof
        return found

    def _proof_across(self, node: str) -> list[str]:
        return [
            other
            for other in self.proof(node, ACROSS)
            if self.bad_switches.get(self.switch_of(other)) in (None, "within")
        ]

    def witnessed(self, node: str) -> bool:
        """Whether the switch is good across, or the node is the only one of it that can be tested."""
        others = [other for other in self.members[self.switch_of(node)] if other != node]
        if any((other, ACROSS) in self.acquitted for other in others):
            return True
        return not any(self._testable(other) for other in others)

    def _failed_alone(self, node: str) -> int:
        """Return how many tests of a node could not be made with partners that could be tested."""
        return sum(self.tested[other] > 0 for other in self.failed_with[node])

    def _testable(self, node: str) -> bool:
        """Whether another attempt at a node is worth it."""
        if self.tested[node]:
            return True
        most = 2 * ATTEMPTS if any(self.tested.values()) else ATTEMPTS
        return self._failed_alone(node) < ATTEMPTS and len(self.failed_with[node]) < most

    def explained(self, pair: Pair, scope: str) -> bool:
        """Whether a slow pair is due to a condemned node or switch."""
        if any(node in self.condemned for node in pair):
            return True
        states = {self.bad_switches.get(self.switch_of(node)) for node in pair}
        return bool(states & ({"all", "within"} if scope == INNER else {"all", "across"}))

    def _is_hidden(self, node: str) -> bool:
        """Whether all that is known of a node is due to others, so that it may be bad like them.

        It failed with condemned partners alone; or it is on a switch that is slow across, and was not tested within it.
        """
        if node in self.condemned or {(node, INNER), (node, ACROSS)} & self.acquitted:
            return False
        state = self.bad_switches.get(self.switch_of(node))
        if state is None:
            partners = {*self.slow_with[node, INNER], *self.slow_with[node, ACROSS]}
            return partners <= self.condemned.keys()
        return state == "across" and not self.slow_with[node, INNER]

    # -- what to test next ---------------------------------------------------------------------
    def _plan(self) -> None:
        self._busy: set[str] = set()
        again: list[Pair] = []
        wanted = self.wanted
        for scope, pairs in self.slow.items():
            for pair in pairs:
                if self.explained(pair, scope):
                    for node in filter(self._is_hidden, pair):
                        on_bad = self.switch_of(node) in self.bad_switches
                        wanted.setdefault(node, []).append(INNER if on_bad else scope)
                    continue
                if more := self._next_of_few(pair, scope):
                    again.append(more)
                    self.unproved += [n for n in pair if not self._cleared(n, scope)]
                    continue
                unclear = [node for node in pair if not self._cleared(node, scope)]
                for node in unclear:
                    wanted.setdefault(node, []).append(scope)
                if unclear:
                    continue
                if self.complete[pair] >= _FAILURES:
                    self.bad_links.append(pair)
                elif self.tried[pair] - self.complete[pair] < ATTEMPTS:
                    again.append(pair)
                else:
                    self.open_links.append(pair)
        for node in self.nodes:
            if not self.tested[node]:
                self.not_tested[node] = self._why_not(node)
        for pair in again:
            self._take(pair)
        waiting = set(wanted)
        for node in sorted(wanted, key=lambda name: self.rank[name]):
            self._test(node, list(dict.fromkeys(wanted[node])), waiting)
        for node in self.not_tested:
            if len(self.nodes) > 1 and self._testable(node):
                self._pair(node, self._any_partners(node), waiting)

    def _why_not(self, node: str) -> str:
        if len(self.nodes) == 1:
            return "there is no other node to test it with"
        reasons = self.failed_tests[node]
        if not reasons:
            return "no test was made"
        return f"{len(reasons)} tests could not be made: {reasons[-1]}"

    def _cleared(self, node: str, scope: str) -> bool:
        """Whether a node passed in the scope; or in the other one, and no more partner is left in this one.

        Two nodes without a third cannot be told from their link.
        """
        if (node, scope) in self.acquitted or len(self.nodes) == 2:
            return True
        return (node, OTHER[scope]) in self.acquitted and not any(self._partners(node, scope))

    def _take(self, pair: Pair) -> None:
        if not self._busy & set(pair):
            self.tests.append(pair)
            self._busy.update(pair)

    def _pair(self, node: str, candidates: t.Sequence[str], waiting: set[str]) -> None:
        """Test a node with a free partner: the least tested one, and no suspect, if there is another."""
        free = [other for other in candidates if other not in self._busy]
        if free and node not in self._busy:
            best = min(free, key=lambda other: (other in waiting, self.tested[other]))
            self._take(self.pair(node, best))

    def _test(self, node: str, scopes: t.Sequence[str], waiting: set[str]) -> None:
        """Find a suspect a partner: an acquitted one where it failed, else elsewhere, else another suspect."""
        if self._failed_alone(node) >= ATTEMPTS:
            self.suspects[node] = self._why_not(node)
            return
        proof = len(self._proof_across(node))
        if ACROSS in scopes and proof >= _FAILURES and not self.witnessed(node):
            self._test_witness(node, waiting)
            return
        found = [(scope, self._partners(node, scope)) for scope in scopes]
        candidates = next((acquitted for _scope, (acquitted, _others) in found if acquitted), [])
        for scope in scopes:
            if not candidates and (node, OTHER[scope]) not in self.acquitted:
                candidates = self._partners(node, OTHER[scope])[0]
        if not candidates:
            candidates = next((others for _scope, (_acquitted, others) in found if others), [])
        if candidates:
            self._pair(node, candidates, waiting)
        else:
            self.suspects[node] = self._why_open(node)

    def _test_witness(self, node: str, waiting: set[str]) -> None:
        """Test another node of a switch across, without which a node's failures may be the switch's."""
        others = [other for other in self.members[self.switch_of(node)] if other != node]
        if any(other in self._busy for other in others):
            return
        for other in others:
            if (other, ACROSS) not in self.acquitted and other not in self.condemned:
                candidates = self._partners(other, ACROSS)[0]
                self._pair(other, candidates, waiting)
                if other in self._busy:
                    return
        self.suspects[node] = self._why_open(node)

    def _partners(self, node: str, scope: str) -> tuple[list[str], list[str]]:
        """Return whom a node has not been tested with yet: those that passed in the scope, and others.

        Without the former, pairs of suspects prove something only together, and only a few are worth it.
        """
        own = self.switch_of(node)
        closed = ("within" if scope == INNER else "across", "all")
        acquitted: list[str] = []
        others: list[str] = []
        if self.bad_switches.get(own) in closed:
            return acquitted, others
        for other in self.members[own] if scope == INNER else self.nodes:
            switch = self.switch_of(other)
            if other == node or (switch == own) != (scope == INNER) or other in self.condemned:
                continue
            if self.bad_switches.get(switch) in closed:
                continue
            if self.tried.get(self.pair(node, other)):
                continue
            if (other, scope) in self.acquitted:
                acquitted.append(other)
            elif self.tested[other]:
                others.append(other)
        if acquitted or len(self.slow_with[node, scope]) >= _INNER_FAILURES:
            others = []
        return acquitted, others

    def _any_partners(self, node: str) -> list[str]:
        """Return whom a node without a complete test can be tested with: new ones, tested ones, if there are any."""
        able = [other for other in self.nodes if other != node]
        new = [one for one in able if not self.tried.get(self.pair(node, one))] or able
        tested = [one for one in new if self.tested[one] and one not in self.condemned] or new
        own = self.switch_of(node)
        return [one for one in tested if self.switch_of(one) == own] or tested

    def _why_open(self, node: str) -> str:
        partners = self.slow_with[node, INNER] + self.slow_with[node, ACROSS]
        return (
            f"slow with {', '.join(partners[:5])}, and no node that passed is left to test it with"
        )
