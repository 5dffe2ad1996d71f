# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The document of a validation run: its results, its measurements, what it searched and what it compares with. Pure.

It is a document of results (checks/result.py) with more keys: run, measurements, search and baseline. All files of
the report are made from it. docs/results.md describes it, docs/validation.schema.json is SCHEMA. The same objects give
the same document; texts come from hosts and are escaped by whoever shows them. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ..checks import result as checks
from ..checks import schema as shapes
from ..checks.result import Result, ResultError

#: The format of a document of a validation; a change that a reader must know of makes it another.
FORMAT = 1
SUITE = "validate"
STATES = ("done", "skipped", "failed", "not_run")
KINDS = ("sizes", "pair", "node", "storage")

Names = t.Sequence[str]
Plain = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of the run.

    state: done (it ran to its end, whatever it found), skipped (not asked for, or nothing to test), failed (it could
    not run to its end), not_run (an earlier stage ended the run). seconds: wall-clock time, None if it did not run.
    jobs: Slurm's numbers of its jobs.
    """

    name: str
    state: str
    seconds: float | None = None
    jobs: t.Sequence[int] = ()


@dataclasses.dataclass(frozen=True)
class Run:
    """The run itself: its time, its stages, its nodes, its software and its arguments.

    id: name of the run, also of its directory. started, ended: ISO 8601 with its zone, such as 2026-11-24T09:00:00Z;
    ended is None for a run that was cut off. nodes: all nodes under test. switches: leaf switch -> its nodes, empty
    where the topology is unknown. versions: software -> version. arguments: what the run was asked for, by the names
    of the variables; values are texts, numbers, true, false, null or lists of these.
    """

    id: str
    cluster: str
    started: str
    ended: str | None = None
    stages: t.Sequence[Stage] = ()
    nodes: Names = ()
    switches: t.Mapping[str, Names] = dataclasses.field(default_factory=dict)
    versions: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    arguments: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One measurement, of a kind, which decides on its fields.

    sizes: points = ((message size in bytes, value in unit), ...), least size first; size = the message size at which
    the gate holds, None for the greatest. pair: hosts = the two, round = its number from 1, size = message size in
    bytes (None if it has none), value. node: hosts = the one (or all of a job's), size as for pair, value. storage:
    hosts = the clients, mount = path of the mount, value.

    value: in unit; None if it ran and gave no number, for which the log says why. unit: such as GB/s, us or MiB/s.
    gate: the least good value in unit (the greatest, where less is better), None if nothing judges it.
    less_is_better: True for a time or a latency. provenance: source of the gate. log: path of the raw log. command:
    what runs it again, one line.
    """

    stage: str
    check: str
    kind: str
    hosts: Names
    unit: str
    value: float | None = None
    points: t.Sequence[tuple[int, float]] = ()
    round: int | None = None
    size: int | None = None
    mount: str = ""
    gate: float | None = None
    less_is_better: bool = False
    provenance: str = ""
    log: str = ""
    command: str = ""

    def to_json(self) -> Plain:
        """Return it as plain data of the schema: the fields of its kind."""
        data = {name: getattr(self, name) for name in (*_COMMON, *_OF_KIND[self.kind])}
        data["hosts"] = list(self.hosts)
        if self.kind == "sizes":
            data["points"] = [[size, value] for size, value in self.points]
        return data


_COMMON = (
    "stage",
    "check",
    "kind",
    "hosts",
    "unit",
    "gate",
    "less_is_better",
    "provenance",
    "log",
    "command",
)
_OF_KIND: dict[str, Names] = {
    "sizes": ("points", "size"),
    "pair": ("round", "size", "value"),
    "node": ("size", "value"),
    "storage": ("mount", "value"),
}


@dataclasses.dataclass(frozen=True)
class Search:
    """The search for the node, link or switch that is at fault.

    rounds: number of rounds of pairs that ran. bad_nodes, bad_switches: their names. bad_links: the two nodes of each.
    untested: nodes that no round has tested. evidence: one line for each finding, with the numbers.
    """

    rounds: int
    bad_nodes: Names = ()
    bad_links: t.Sequence[tuple[str, str]] = ()
    bad_switches: Names = ()
    untested: Names = ()
    evidence: Names = ()


@dataclasses.dataclass(frozen=True)
class Baseline:
    """The earlier run that this one is compared with. id, started: as in Run. measurements: its own."""

    id: str
    started: str
    measurements: t.Sequence[Measurement] = ()


@dataclasses.dataclass(frozen=True)
class Document:
    """A validation run, whole. search: None if there was no search. baseline: None if there is nothing to compare."""

    run: Run
    results: t.Sequence[Result] = ()
    measurements: t.Sequence[Measurement] = ()
    search: Search | None = None
    baseline: Baseline | None = None

    def to_json(self) -> Plain:
        """Return it as plain data of SCHEMA."""
        made = {
            **checks.document(SUITE, self.results),
            "format": FORMAT,
            "run": _plain(self.run),
            "measurements": [one.to_json() for one in self.measurements],
            "search": None if self.search is None else _plain(self.search),
            "baseline": None,
        }
        if self.baseline is not None:
            made["baseline"] = {
                "id": self.baseline.id,
                "started": self.baseline.started,
                "measurements": [one.to_json() for one in self.baseline.measurements],
            }
        return made


def as_text(document: Document) -> str:
    """Return the canonical JSON: keys sorted, a line a value. Raises ValueError for NaN and infinities."""
    return json.dumps(document.to_json(), indent=1, sort_keys=True, allow_nan=False) + "\n"


def _plain(value: t.Any) -> t.Any:
    """Return a dataclass as JSON's own types."""
    if dataclasses.is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, t.Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


# -- the schema ------------------------------------------------------------------------------------
def _line(description: str = "one line of text") -> Plain:
    return {"type": "string", "pattern": r"^[^\r\n]*$", "description": description}


def _named(description: str) -> Plain:
    return {"type": "string", "pattern": r"^[^\r\n]+$", "description": description}


def _lines(description: str, **more: t.Any) -> Plain:
    return {"type": "array", "description": description, "items": _line(), **more}


def _number(description: str, kind: str = "number", null: bool = True, **more: t.Any) -> Plain:
    return {"type": [kind, "null"] if null else kind, "description": description, **more}


def _object(properties: Plain, description: str = "") -> Plain:
    """Return the schema of an object with these keys, all of them and no others."""
    made: Plain = (
        {"type": "object", "description": description} if description else {"type": "object"}
    )
    return {
        **made,
        "required": list(properties),
        "additionalProperties": False,
        "properties": properties,
    }


_TIME: Plain = {
    "type": "string",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$",
    "description": "a time as 2026-11-24T09:00:00Z",
}
_SIZE = _number("Message size in bytes.", "integer", minimum=0)
_VALUE = _number("Measured value in unit; null: it ran and gave no number.")
_POINT: Plain = {
    "type": "array",
    "prefixItems": [
        _number("Message size in bytes.", "integer", null=False, minimum=0),
        _number("Measured value in unit.", null=False),
    ],
    "items": False,
    "minItems": 2,
    "maxItems": 2,
}
_SHARED: Plain = {
    "stage": _named("the name of its stage"),
    "check": {
        "type": "string",
        "pattern": "^[a-zA-Z0-9_.-]+$",
        "description": "letters, digits, _, . and -",
    },
    "kind": {},
    "hosts": _lines("Hosts that took part.", minItems=1),
    "unit": _line("the unit of all values, one line"),
    "gate": _number(
        "Least good value in unit, or the greatest if less is better; null: not judged."
    ),
    "less_is_better": {"type": "boolean", "description": "True for a time or a latency."},
    "provenance": _line("the source of the gate, one line"),
    "log": _line("the path of the raw log, one line"),
    "command": _line("what runs it again, one line"),
}
_KEYS_OF_KIND: dict[str, Plain] = {
    "sizes": {
        "points": {"type": "array", "description": "Values by message size.", "items": _POINT},
        "size": _number(
            "Message size in bytes at which the gate holds; null: the greatest.",
            "integer",
            minimum=0,
        ),
    },
    "pair": {
        "hosts": _lines("The two hosts.", minItems=2, maxItems=2),
        "round": _number("Number of the round, from 1.", "integer", minimum=1),
        "size": _SIZE,
        "value": _VALUE,
    },
    "node": {"size": _SIZE, "value": _VALUE},
    "storage": {"mount": _named("the path of the mount"), "value": _VALUE},
}
_MEASUREMENTS: Plain = {
    "type": "array",
    "items": {
        "oneOf": [
            _object({**_SHARED, "kind": {"const": kind}, **_KEYS_OF_KIND[kind]}) for kind in KINDS
        ]
    },
}
_SCALAR: Plain = {"type": ["string", "number", "boolean", "null"]}

#: JSON Schema of a document.
SCHEMA: Plain = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A validation run",
    **_object(
        {
            **checks.SCHEMA["properties"],
            "format": {"const": FORMAT},
            "suite": {"const": SUITE},
            "run": _object(
                {
                    "id": _named("the name of the run"),
                    "cluster": _line("the name of the cluster, one line"),
                    "started": _TIME,
                    "ended": {**_TIME, "type": ["string", "null"]},
                    "stages": {
                        "type": "array",
                        "items": _object(
                            {
                                "name": _named("the name of the stage"),
                                "state": {"enum": list(STATES)},
                                "seconds": _number(
                                    "Wall-clock time; null: it did not run.", minimum=0
                                ),
                                "jobs": {
                                    "type": "array",
                                    "description": "Slurm's numbers of its jobs.",
                                    "items": {"type": "integer", "minimum": 1},
                                },
                            }
                        ),
                    },
                    "nodes": _lines("All nodes under test."),
                    "switches": {
                        "type": "object",
                        "description": "Nodes by leaf switch; empty where the topology is unknown.",
                        "additionalProperties": _lines("Its nodes."),
                    },
                    "versions": {
                        "type": "object",
                        "description": "Versions by software.",
                        "additionalProperties": _line(),
                    },
                    "arguments": {
                        "type": "object",
                        "description": "What the run was asked for.",
                        "additionalProperties": {
                            "type": ["string", "number", "boolean", "null", "array"],
                            "items": _SCALAR,
                        },
                    },
                }
            ),
            "measurements": _MEASUREMENTS,
            "search": {
                **_object(
                    {
                        "rounds": _number(
                            "Rounds of pairs that ran.", "integer", null=False, minimum=0
                        ),
                        "bad_nodes": _lines("Nodes at fault."),
                        "bad_links": {
                            "type": "array",
                            "description": "The two nodes of each pair that is at fault though neither node is.",
                            "items": _lines("The two nodes.", minItems=2, maxItems=2),
                        },
                        "bad_switches": _lines("Leaf switches at fault."),
                        "untested": _lines("Nodes that no round has tested."),
                        "evidence": _lines("A line for each finding, with its numbers."),
                    },
                    "The search for the node, link or switch at fault; null: there was none.",
                ),
                "type": ["object", "null"],
            },
            "baseline": {
                **_object(
                    {
                        "id": _named("the name of the earlier run"),
                        "started": _TIME,
                        "measurements": _MEASUREMENTS,
                    },
                    "The run that this one is compared with; null: none.",
                ),
                "type": ["object", "null"],
            },
        }
    ),
}


# -- reading ---------------------------------------------------------------------------------------
def from_json(data: object) -> Document:
    """Return the document in plain data, as to_json writes it.

    Raises ResultError, one line for each fault: what is not of SCHEMA, a verdict or counts that are not those of the
    results.
    """
    found = shapes.faults(SCHEMA, data)
    if found:
        raise ResultError("\n".join(found))
    plain = t.cast(Plain, data)
    results = checks.from_json(plain["results"])
    real: Plain = {"verdict": checks.worst(results).value, "counts": checks.counts(results)}
    wrong = [
        f"{name}: is not that of the results -> {value}"
        for name, value in real.items()
        if plain[name] != value
    ]
    if wrong:
        raise ResultError("\n".join(wrong))
    run, search, baseline = plain["run"], plain["search"], plain["baseline"]
    return Document(
        run=Run(**{**run, "stages": [Stage(**one) for one in run["stages"]]}),
        results=results,
        measurements=_measurements(plain["measurements"]),
        search=search and Search(**{**search, "bad_links": list(map(tuple, search["bad_links"]))}),
        baseline=baseline
        and Baseline(**{**baseline, "measurements": _measurements(baseline["measurements"])}),
    )


def _measurements(items: t.Sequence[Plain]) -> list[Measurement]:
    return [
        Measurement(
            **{**one, "points": tuple((size, value) for size, value in one.get("points", ()))}
        )
        for one in items
    ]
