# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The result of one check on one host and its verdict, in one form for preflight, health checks and validation. Pure.

docs/results.md publishes the schema. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import enum
import typing as t

#: The format of a document of results; a change that a reader must know of makes it another.
FORMAT = 1
#: The directory of a node's last results, a file for each kind of checks.
RESULTS = "/var/lib/trainwright/results"
Value = t.Union[str, int, float, bool, None]


class Verdict(str, enum.Enum):
    """The outcome of a check, the worst last.

    PASS: as it should be. NOT_APPLICABLE: the cluster model declares no such hardware. WARN: usable, and somebody
    should look. INCOMPLETE: should have run and could not. FAIL: less than it should be.
    """

    PASS = "PASS"
    NOT_APPLICABLE = "NOT_APPLICABLE"
    WARN = "WARN"
    INCOMPLETE = "INCOMPLETE"
    FAIL = "FAIL"

    def __str__(self) -> str:
        return self.value


_ORDER = list(Verdict)
#: The number of each verdict in a metric: higher is worse.
NUMBERS = {verdict: number for number, verdict in enumerate(Verdict)}


class ResultError(ValueError):
    """A result that is not of the schema: `results[0].verdict: is 'OK' -> one of PASS, ...`."""


@dataclasses.dataclass(frozen=True)
class Result:
    """One check on one host.

    check: its name, letters, digits, `_`, `.` and `-`. value: what was found; threshold: what was expected; both in
    unit, such as `GPUs` or `MiB`. detail: what else is known, one line. provenance: the source of the threshold.
    remedy: what to do about a verdict that is not PASS, one line.
    """

    host: str
    check: str
    verdict: Verdict
    value: Value = None
    threshold: Value = None
    provenance: str = ""
    remedy: str = ""
    unit: str = ""
    detail: str = ""

    @property
    def what(self) -> str:
        """Return what was found, in words: `7 of 8 GPUs (7 on the PCI bus)`."""
        detail = f" ({self.detail})" if self.detail else ""
        if self.value is None and self.threshold is None:
            return self.detail or self.check
        if self.threshold is None:
            return f"{self.value} {self.unit}".rstrip() + detail
        found = "unknown" if self.value is None else self.value
        joint = "of" if is_number(self.value) and is_number(self.threshold) else "instead of"
        if self.verdict is Verdict.PASS and joint == "instead of":
            return f"{self.value or 'as expected'} {self.unit}".rstrip() + detail
        if joint == "of" and not self.threshold:
            other = ", not 0" if self.value else ""
            return f"{found} {self.unit}".rstrip() + other + detail
        return f"{found} {joint} {self.threshold} {self.unit}".rstrip() + detail

    def to_json(self) -> dict[str, t.Any]:
        """Return it as plain data of the schema."""
        return {**dataclasses.asdict(self), "verdict": self.verdict.value}


def is_number(value: object) -> bool:
    """Whether a value is a number: true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def worst(results: t.Iterable[Result]) -> Verdict:
    """Return the worst verdict; NOT_APPLICABLE if nothing was checked."""
    found = [result.verdict for result in results if result.verdict != Verdict.NOT_APPLICABLE]
    return max(found, key=_ORDER.index, default=Verdict.NOT_APPLICABLE)


def ends_with_failure(results: t.Iterable[Result], allow_incomplete: bool = False) -> bool:
    """Whether a playbook ends with failure: FAIL, and INCOMPLETE unless that is allowed."""
    ending = {Verdict.FAIL} if allow_incomplete else {Verdict.FAIL, Verdict.INCOMPLETE}
    return any(result.verdict in ending for result in results)


def counts(results: t.Iterable[Result]) -> dict[str, int]:
    """Return how many results have each verdict, by its name, also those that none has."""
    found = dict.fromkeys((verdict.value for verdict in Verdict), 0)
    for result in results:
        found[result.verdict.value] += 1
    return found


# -- the schema ------------------------------------------------------------------------------------
_TEXTS = ("host", "check", "provenance", "remedy", "unit", "detail")
_NEEDED = ("host", "check", "verdict")
_VALUE: dict[str, t.Any] = {"type": ["string", "number", "boolean", "null"]}
_LINE: dict[str, t.Any] = {"type": "string", "pattern": r"^[^\r\n]*$"}

#: JSON Schema of a document: the results of one run of a suite of checks.
SCHEMA: dict[str, t.Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Results of checks",
    "type": "object",
    "required": ["format", "suite", "verdict", "counts", "results"],
    "additionalProperties": False,
    "properties": {
        "format": {"const": FORMAT},
        "suite": {"type": "string", "description": "What was run, such as preflight."},
        "verdict": {"enum": [verdict.value for verdict in Verdict], "description": "The worst."},
        "counts": {
            "type": "object",
            "description": "Number of results by verdict.",
            "required": [verdict.value for verdict in Verdict],
            "additionalProperties": {"type": "integer", "minimum": 0},
        },
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [field.name for field in dataclasses.fields(Result)],
                "additionalProperties": False,
                "properties": {
                    "host": {**_LINE, "description": "Name in the inventory."},
                    "check": {"type": "string", "pattern": "^[a-zA-Z0-9_.-]+$"},
                    "verdict": {"enum": [verdict.value for verdict in Verdict]},
                    "value": {**_VALUE, "description": "What was found, in unit."},
                    "threshold": {**_VALUE, "description": "What was expected, in unit."},
                    "provenance": {**_LINE, "description": "Source of the threshold."},
                    "remedy": {**_LINE, "description": "What to do; empty for PASS."},
                    "unit": {**_LINE, "description": "Unit of value and threshold."},
                    "detail": {**_LINE, "description": "What else is known."},
                },
            },
        },
    },
}


def document(suite: str, results: t.Sequence[Result]) -> dict[str, t.Any]:
    """Return the results as a document of SCHEMA. The same results give the same document."""
    return {
        "format": FORMAT,
        "suite": suite,
        "verdict": worst(results).value,
        "counts": counts(results),
        "results": [result.to_json() for result in results],
    }


def from_json(items: object, where: str = "results") -> list[Result]:
    """Return the results in plain data, as to_json writes it; other keys than needed ones may be missing.

    Raises ResultError, one line for each fault. where: name of the list in messages.
    """
    if not isinstance(items, (list, tuple)):
        raise ResultError(f"{where}: is a {type(items).__name__} -> a list of results")
    fields = [field.name for field in dataclasses.fields(Result)]
    faults: list[str] = []
    made = []
    for index, item in enumerate(items):
        at = f"{where}[{index}]"
        if not isinstance(item, t.Mapping):
            faults.append(f"{at}: is not a mapping -> one with {', '.join(fields)}")
            continue
        found = [*_faults_of(at, item, fields)]
        faults += found
        if not found:
            made.append(Result(**{**item, "verdict": Verdict(item["verdict"])}))
    if faults:
        raise ResultError("\n".join(faults))
    return made


def _faults_of(at: str, item: t.Mapping[str, t.Any], fields: t.Sequence[str]) -> t.Iterator[str]:
    for name in item:
        if name not in fields:
            yield f"{at}.{name}: no field has that name -> one of {', '.join(fields)}"
    for name in _NEEDED:
        if name not in item:
            yield f"{at}.{name}: is missing -> every result has it"
    verdicts = [verdict.value for verdict in Verdict]
    if "verdict" in item and item["verdict"] not in verdicts:
        yield f"{at}.verdict: is {item['verdict']!r} -> one of {', '.join(verdicts)}"
    for name in _TEXTS:
        text = item.get(name, "")
        if not isinstance(text, str) or "\n" in text or "\r" in text:
            yield f"{at}.{name}: is {text!r} -> one line of text"
    for name in ("value", "threshold"):
        if not isinstance(item.get(name), (str, int, float, bool, type(None))):
            yield f"{at}.{name}: is a {type(item[name]).__name__} -> a number, a text, true, false or null"
