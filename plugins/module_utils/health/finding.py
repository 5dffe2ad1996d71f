# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The finding of one check on this node, and short ways to write it. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..checks.result import Result, Value, Verdict
from ..node.terminal import printable

_LONGEST = 160


def line(text: object) -> str:
    """Return a text from a tool as one printable line of limited length."""
    shown = re.sub(r"\s+", " ", printable(text)).strip()
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."


@dataclasses.dataclass(frozen=True)
class Finding:
    """A verdict with what led to it. action: what cures it, "" for that of the check's manifest."""

    check: str
    verdict: Verdict
    detail: str = ""
    remedy: str = ""
    value: Value = None
    threshold: Value = None
    unit: str = ""
    action: str = ""

    def to_json(self) -> dict[str, t.Any]:
        """Return it as plain data."""
        return {**dataclasses.asdict(self), "verdict": self.verdict.value}

    @classmethod
    def from_json(cls, item: t.Mapping[str, t.Any]) -> Finding:
        """Return it from plain data, its texts made printable."""

        def text(name: str) -> str:
            return line(item.get(name, ""))

        def value(name: str) -> Value:
            found = item.get(name)
            return line(found) if isinstance(found, str) else found

        return cls(
            item["check"],
            Verdict(item["verdict"]),
            text("detail"),
            text("remedy"),
            value("value"),
            value("threshold"),
            text("unit"),
            text("action"),
        )

    def result(self, host: str, provenance: str = "") -> Result:
        """Return it in the schema of results."""
        return Result(
            host,
            self.check,
            self.verdict,
            self.value,
            self.threshold,
            provenance if self.threshold is not None else "",
            self.remedy if self.verdict not in (Verdict.PASS, Verdict.NOT_APPLICABLE) else "",
            self.unit,
            self.detail,
        )


def passed(check: str, detail: object = "", **more: t.Any) -> Finding:
    """The check passed."""
    return Finding(check, Verdict.PASS, line(detail), **more)


def failed(check: str, detail: object, remedy: str, **more: t.Any) -> Finding:
    """The node is less than it should be."""
    return Finding(check, Verdict.FAIL, line(detail), remedy, **more)


def warned(check: str, detail: object, remedy: str, **more: t.Any) -> Finding:
    """The node is usable, and somebody should look."""
    return Finding(check, Verdict.WARN, line(detail), remedy, **more)


def incomplete(check: str, detail: object, remedy: str) -> Finding:
    """The check should have run and could not."""
    return Finding(check, Verdict.INCOMPLETE, line(detail), remedy)


def not_declared(check: str, what: str) -> Finding:
    """Nothing of that kind is declared for this node."""
    return Finding(check, Verdict.NOT_APPLICABLE, f"{what} is not declared")
