# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One test between two nodes, how it is judged, and what a search over such tests found. Pure, plain JSON both ways."""

from __future__ import annotations

import dataclasses
import math
import typing as t

Json = dict[str, t.Any]
#: Two names of nodes, in the order of the topology.
Pair = tuple[str, str]

#: Where a pair is: both nodes on one switch, or on two.
INNER = "same switch"
ACROSS = "across switches"


class SearchError(ValueError):
    """Input that a search does not take: `where: what -> remedy`."""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One test between two nodes.

    value: bandwidth in the unit of Settings (GB/s by default), more is better; None: it could not be measured, and
    reason says why in one line. latency_us: in microseconds, less is better; None: not measured. resent_percent: of the
    bytes, by TCP; None: not measured. number: of the round, from 1; Search sets it.
    """

    pair: Pair
    value: float | None = None
    latency_us: float | None = None
    reason: str = ""
    resent_percent: float | None = None
    number: int = 0

    @property
    def complete(self) -> bool:
        return self.value is not None

    def to_json(self) -> Json:
        return {**dataclasses.asdict(self), "pair": list(self.pair)}

    @classmethod
    def from_json(cls, given: t.Mapping[str, t.Any]) -> Measurement:
        return cls(**{**given, "pair": tuple(given["pair"])})


@dataclasses.dataclass(frozen=True)
class Settings:
    """How pairs are judged (contracts: Thresholds).

    reference: bandwidth that the table of thresholds has for two nodes, in unit; None: pairs are compared with their
    peers. across_reference: the same for nodes on two switches; None: reference, where the pairs across switches reach
    it, else their peers, since oversubscription is not a node's fault. latency_us: the table's latency. source: of the
    references. fail, warn: below these shares of a reference a pair fails or is warned about; a latency, above the
    reference divided by them. mads: an outlier is below median - max(1 - fail, mads x MAD) of its peers
    (peers.floor_of). peers: least number of nodes with a value for such a comparison. full: test every pair once (N - 1
    rounds or more). resent_percent: a pair that had to send more of its bytes again fails; the networks of clusters
    lose far less.
    """

    reference: float | None = None
    across_reference: float | None = None
    latency_us: float | None = None
    source: str = ""
    unit: str = "GB/s"
    fail: float = 0.8
    warn: float = 0.9
    mads: float = 4.0
    peers: int = 6
    full: bool = False
    resent_percent: float = 1.0

    def __post_init__(self) -> None:
        for name in ("reference", "across_reference", "latency_us"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and value > 0):
                raise SearchError(f"settings.{name}: is {value!r} -> a number above 0, or null")
        if not (is_number(self.fail) and is_number(self.warn) and 0 < self.fail <= self.warn < 1):
            raise SearchError(
                f"settings: fail {self.fail!r} and warn {self.warn!r} -> shares with 0 < fail <= warn < 1"
            )

    def to_json(self) -> Json:
        return dataclasses.asdict(self)


def is_number(value: object) -> bool:
    """Tell whether a value is a finite number; true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


# -- what was found --------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Evidence:
    """A measurement that a finding rests on: the pair, where it is, what it reached and what it was compared with.

    value, reference: in the unit of Settings; latency_us in microseconds; resent_percent of the bytes. round: its
    number, from 1.
    """

    pair: Pair
    scope: str
    value: float | None
    reference: float | None
    latency_us: float | None
    round: int
    resent_percent: float | None = None

    def to_json(self) -> Json:
        return {**dataclasses.asdict(self), "pair": list(self.pair)}


@dataclasses.dataclass(frozen=True)
class Finding:
    """A bad node, link or switch.

    kind: "node", "link" or "switch". name: of the node or the switch; of a link, both nodes as `c1 - c2`. nodes:
    that it concerns (of a switch, its tested nodes). why: one line for people.
    """

    kind: str
    name: str
    nodes: tuple[str, ...]
    why: str
    evidence: tuple[Evidence, ...] = ()

    def to_json(self) -> Json:
        return {
            **dataclasses.asdict(self),
            "nodes": list(self.nodes),
            "evidence": [one.to_json() for one in self.evidence],
        }


@dataclasses.dataclass(frozen=True)
class Reference:
    """The values with which the pairs of one scope (INNER or ACROSS) are compared.

    value: in the unit of Settings, None: too few peers, so these pairs are not judged. floor: a pair below it fails.
    median: of the pairs that reach what healthy nodes reach, with too few peers of all pairs; None without any. source:
    the table's row, or `median of 12 nodes`. few: the floor is that of peers.few_level, which finds only those far
    slower than the others, so that a pair above it is not judged. latency_us, latency_ceiling_us, latency_source: the
    same for latencies, in microseconds.
    """

    scope: str
    value: float | None
    floor: float | None
    median: float | None
    source: str
    latency_us: float | None = None
    latency_ceiling_us: float | None = None
    latency_source: str = ""
    few: bool = False

    def is_narrow(self, value: float | None) -> bool:
        """Whether a bandwidth is too low."""
        return value is not None and self.floor is not None and value < self.floor

    def is_late(self, latency_us: float | None) -> bool:
        """Whether a latency is too high."""
        ceiling = self.latency_ceiling_us
        return latency_us is not None and ceiling is not None and latency_us > ceiling

    def to_json(self) -> Json:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The findings of a search so far.

    nodes, links, switches: those that are bad. suspects: nodes with a failed pair that could not be settled, and why;
    they are not condemned. not_tested: nodes without a complete measurement, and why. not_judged: nodes that were
    measured without a threshold for what they should reach, with the best that they reached. references: by scope.
    notes: lines for people about all pairs, such as `all 12 pairs across switches are slow alike`. rounds: used.
    most_rounds: the bound for this number of nodes and of bad nodes. finished: nothing is left to test.
    """

    nodes: tuple[Finding, ...]
    links: tuple[Finding, ...]
    switches: tuple[Finding, ...]
    suspects: dict[str, str]
    not_tested: dict[str, str]
    not_judged: dict[str, float]
    references: dict[str, Reference]
    notes: tuple[str, ...]
    rounds: int
    most_rounds: int
    finished: bool

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the bad switches, nodes and links."""
        return (*self.switches, *self.nodes, *self.links)

    def to_json(self) -> Json:
        """Return it as plain data."""
        return {
            **{
                kind: [one.to_json() for one in getattr(self, kind)]
                for kind in ("nodes", "links", "switches")
            },
            "suspects": dict(self.suspects),
            "not_tested": dict(self.not_tested),
            "not_judged": dict(self.not_judged),
            "references": {scope: one.to_json() for scope, one in self.references.items()},
            "notes": list(self.notes),
            "rounds": self.rounds,
            "most_rounds": self.most_rounds,
            "finished": self.finished,
        }
