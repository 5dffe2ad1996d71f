# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Says what is wrong with a batch script: each mistake with its line, the reason and the remedy. Pure.

`# job-lint: ignore=RULE,RULE` on a line, or on the line above, means that the named rules do not apply
to it. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...slurm.batch.script import parse
from .rule import Cluster
from .rules import RULES

_IGNORE = re.compile(r"#\s*job-lint:\s*ignore=([\w,-]+)")


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    """A mistake. severity: error or warning; what: what is wrong and why."""

    line: int
    rule: str
    severity: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.severity}: {self.what} -> {self.remedy} [{self.rule}]"

    def to_json(self) -> dict[str, t.Any]:
        """Return it as plain data."""
        return dataclasses.asdict(self)


def lint(text: str, cluster: Cluster | None = None) -> list[Finding]:
    """Return the mistakes of a batch script in the order of their lines.

    cluster: known facts about it; without them, rules that depend on it are skipped. Raises nothing.
    """
    script = parse(text)
    found = {
        Finding(line, name, rule.severity, what, remedy)
        for name, rule in RULES.items()
        for line, what, remedy in rule.find(script, cluster or Cluster())
    }
    return sorted(one for one in found if not _ignored(script.lines, one))


def lines(found: t.Iterable[Finding]) -> list[str]:
    """Return the findings as lines of text: those that many scripts have come together in the last one."""
    found = list(found)
    own = [str(one) for one in found if not RULES[one.rule].common]
    common: dict[str, list[int]] = {}
    for one in found:
        if RULES[one.rule].common:
            common.setdefault(one.rule, []).append(one.line)
    if len(common) < 2:
        return [str(one) for one in found]
    named = ", ".join(
        f"{name} ({'lines' if len(at) > 1 else 'line'} {', '.join(map(str, at))})"
        for name, at in common.items()
    )
    return [
        *own,
        f"also, as in many scripts: {named} -> job-lint --all shows the reasons and remedies",
    ]


def _ignored(lines: t.Sequence[str], finding: Finding) -> bool:
    for number in (finding.line, finding.line - 1):
        match = _IGNORE.search(lines[number - 1]) if 0 < number <= len(lines) else None
        own_line = match and not lines[number - 1][: match.start()].strip()
        if match and (number == finding.line or own_line) and finding.rule in match[1].split(","):
            return True
    return False
