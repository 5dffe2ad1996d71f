# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The word of a node about itself, in the field Extra of its record in Slurm, and how the agent reads it. Pure.

One line of JSON of limited length. The agent believes a node about itself alone: another node's name, another format or
anything that is not printable is refused as a whole. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass, field

from ..checks.result import Verdict
from .finding import Finding
from .manifest import ACTIONS, NAME, Check

FORMAT = 1
#: Characters of the whole text, and how many failures and versions it has at most.
LONGEST, _MOST, _MOST_VERSIONS = 1500, 6, 20
#: Checks that could not be tested, of which no more are named.
_MOST_UNSURE = 20
#: The name of a driver or a package.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,59}")
_TEXT = re.compile(r"[ -~]{0,120}")
#: How bad an action is; the worst failure of a node decides.
ORDER = ("none", "drain", "reset", "reboot", "replace")


class PublicationError(ValueError):
    """A publication that is not believed, and why."""


@dataclass(frozen=True)
class Failure:
    """A check that failed: what, what cures it, and which action that is."""

    check: str
    fault: str
    remedy: str
    action: str = "drain"

    def reason(self, owner: str = "health", remedy: str = "") -> str:
        """Return the reason for a drain."""
        return f"tw:{owner}:{self.check}: {self.fault} -> {remedy or self.remedy}"


@dataclass(frozen=True)
class Publication:
    """The word of a node. at: seconds since 1970 by its clock. unsure: checks that could not be tested."""

    node: str
    boot: str
    seq: int
    at: int
    failures: tuple[Failure, ...] = ()
    unsure: tuple[str, ...] = ()
    hooks: tuple[Failure, ...] = ()
    passed: int = 0
    did: str = ""
    kernel: str = field(default="", compare=False)
    #: of drivers and packages, by name
    versions: t.Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> str:
        """Return what tells it from the one before."""
        return f"{self.boot}/{self.seq}/{self.at}"

    @property
    def worst(self) -> Failure | None:
        """Return the failure that decides; None if nothing failed that asks for an action."""
        due = [one for one in self.failures if one.action != "none"]
        return max(due, key=lambda one: ORDER.index(one.action), default=None)

    def is_unsure(self, check: str) -> bool:
        """Whether this check could not be tested, or may be one of those that are not named any more."""
        return check in self.unsure or len(self.unsure) >= _MOST_UNSURE


def plain(text: object) -> str:
    """Return a text as a reason and scontrol can hold it: printable ASCII without quotes, = and arrows."""
    shown = str(text).encode("ascii", "replace").decode().replace("->", ">")
    return re.sub(r"[^ -~]|[\"'\\=|]", ".", shown).strip()[:100]


def failures(
    findings: t.Iterable[Finding], checks: t.Mapping[str, Check]
) -> tuple[tuple[Failure, ...], tuple[str, ...]]:
    """Return what failed, the worst first, and the checks that could not be tested."""
    bad, unsure = [], []
    for one in findings:
        if one.verdict is Verdict.INCOMPLETE:
            unsure.append(one.check)
        if one.verdict is Verdict.FAIL:
            check = checks.get(one.check)
            action = one.action if one.action in ACTIONS else ""
            if check is None or check.action == "none" or not action:
                action = check.action if check else "drain"
            what = one.result("").what
            bad.append(Failure(one.check, plain(what), plain(one.remedy) or "see the node", action))
    bad.sort(key=lambda one: -ORDER.index(one.action))
    return tuple(bad[:_MOST]), tuple(unsure)


def hook_failures(drain: object, node: str) -> tuple[Failure, ...]:
    """Return the part of a job hook that drained this node, by `drain` of the hooks' document; none in observe."""
    if not isinstance(drain, dict) or drain.get("mode") != "enforce":
        return ()
    match = re.fullmatch(r"tw:hook:([^:]+): (.+?)(?: -> (.+))?", str(drain.get("reason", "")))
    if not match:
        return ()
    name = re.sub(r"[^a-z0-9_]", "_", match[1].lower())[:40]
    remedy = plain(match[3] or "") or f"see journalctl -t trainwright-hooks on {node}"
    return (Failure(name, plain(match[2]), remedy),) if NAME.fullmatch(name) else ()


def dump(word: Publication) -> str:
    """Return the text that is published. Left out if it does not fit: versions, then failures, the least bad first."""

    def text(kept: int, versions: bool = False) -> str:
        data: dict[str, t.Any] = {
            "tw": FORMAT,
            "node": word.node,
            "boot": word.boot,
            "seq": word.seq,
            "at": word.at,
            "ok": word.passed,
        }
        if word.failures:
            data["bad"] = [[x.check, x.fault, x.remedy, x.action] for x in word.failures[:kept]]
        if word.hooks:
            data["hooks"] = [[one.check, one.fault, one.remedy] for one in word.hooks]
        if word.unsure:
            data["unsure"] = list(word.unsure[:_MOST_UNSURE])
        if word.did:
            data["did"] = word.did
        if word.kernel:
            data["kernel"] = plain(word.kernel)[:60]
        if versions and word.versions:
            shown = sorted(word.versions.items())[:_MOST_VERSIONS]
            data["versions"] = {name: plain(version)[:40] for name, version in shown}
        return json.dumps(data, separators=(",", ":"))

    whole = text(len(word.failures), versions=True)
    if len(whole) <= LONGEST:
        return whole
    for kept in range(len(word.failures), 0, -1):
        if len(text(kept)) <= LONGEST:
            return text(kept)
    return text(0)


def is_ours(text: str) -> bool:
    """Whether a text in a node's record is one of these, and may be replaced."""
    return not text or text.startswith('{"tw":')


def load(text: str, node: str) -> Publication | None:
    """Return the word of a node; None if its record has none. Raises PublicationError for one that is not believed."""
    if not text.startswith('{"tw":'):
        return None
    if len(text) > LONGEST + 200:
        raise PublicationError(f"{node}: its publication is too long")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:  # brackets in brackets, more than Python follows
        raise PublicationError(f"{node}: its publication is not JSON") from error
    if not isinstance(data, dict) or data.get("tw") != FORMAT:
        raise PublicationError(
            f"{node}: its publication is of another format -> run site.yml there"
        )
    if data.get("node") != node:
        raise PublicationError(f"{node}: its publication is of another node")
    numbers = [data.get(name) for name in ("seq", "at", "ok")]
    if not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in numbers):
        raise PublicationError(f"{node}: a number in its publication is wrong")
    boot, did, kernel = data.get("boot"), data.get("did", ""), data.get("kernel", "")
    texts = (boot, did, kernel)
    if not all(isinstance(one, str) and _TEXT.fullmatch(one) for one in texts):
        raise PublicationError(f"{node}: a text in its publication is wrong")
    unsure = data.get("unsure") or []
    if not isinstance(unsure, list) or not all(
        isinstance(one, str) and NAME.fullmatch(one) for one in unsure
    ):
        raise PublicationError(f"{node}: unsure in its publication is wrong")
    versions = data.get("versions") or {}
    if not isinstance(versions, dict) or not all(
        _NAME.fullmatch(name) and isinstance(one, str) and _TEXT.fullmatch(one)
        for name, one in versions.items()
    ):
        raise PublicationError(f"{node}: versions in its publication are wrong")
    return Publication(
        node,
        str(boot),
        data["seq"],
        data["at"],
        _failures(data.get("bad"), 4, node),
        tuple(unsure),
        _failures(data.get("hooks"), 3, node),
        data["ok"],
        str(did),
        str(kernel),
        versions,
    )


def _failures(items: object, length: int, node: str) -> tuple[Failure, ...]:
    if items is None:
        return ()
    wrong = PublicationError(f"{node}: a failure in its publication is wrong")
    if not isinstance(items, list) or len(items) > _MOST:
        raise wrong
    found = []
    for item in items:
        if not isinstance(item, list) or len(item) != length:
            raise wrong
        if not all(
            isinstance(one, str) and _TEXT.fullmatch(one) and "->" not in one for one in item
        ):
            raise wrong
        if not NAME.fullmatch(item[0]) or (length == 4 and item[3] not in ACTIONS):
            raise wrong
        found.append(Failure(*item))
    return tuple(found)
