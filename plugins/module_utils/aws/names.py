# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Host names of instances. Anyone who may tag an instance chooses its Name tag, so a name is checked before it is used.

Pure: no I/O, no Ansible. Sources: RFC 1123 and RFC 6761 on names; inet_aton(3) on ways to write an address.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..node import names as node_names
from ..node.network import LOCAL_NAMES

if t.TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from .instances import Raw

#: Other sources of an instance's name, besides tag:NAME, by the names of EC2's filters.
NAMES = {
    "private-dns-name": "private_dns",
    "dns-name": "public_dns",
    "private-ip-address": "private_ip",
    "ip-address": "public_ip",
    "instance-id": "id",
}
_TAG = "tag:"
_ADDRESSES = ("private-ip-address", "ip-address")
# Names that are valid for Ansible, Slurm and DNS.
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", re.ASCII)
# 127.0.0.1, 127.1, 0x7f.1, 017700000001 and 2130706433 are all the same address.
_ADDRESS = re.compile(r"(0x[0-9a-f]*|\d+)(\.(0x[0-9a-f]*|\d+))*\.?", re.ASCII | re.IGNORECASE)
_ADDRESS_6 = re.compile(r"\[?[0-9a-f.]*:[0-9a-f:.]*(%.*)?\]?", re.ASCII)
_INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}", re.ASCII | re.IGNORECASE)
#: Names of a machine for itself and for multicast, in the first label or the last (RFC 6761: also below localhost).
_LOOPBACK = frozenset((
    *LOCAL_NAMES, "localdomain", "localdomain4", "localdomain6", "loopback", "broadcasthost",
    "ip6-localnet", "ip6-mcastprefix", "ip6-allnodes", "ip6-allrouters", "ip6-allhosts",
))  # fmt: skip
_ALWAYS_GROUPS = ("all", "ungrouped")
_SHOWN = 3
#: Warnings of one kind that are printed one by one; a mistake in a launch template concerns thousands.
_LINES = 10
_RUNNING = ("running", "pending")


def some(names: Iterable[str]) -> str:
    """The first few of many names, for a message."""
    return node_names.some(sorted(names, key=node_names.natural_key), _SHOWN)


def capped(lines: Sequence[str], kind: str) -> list[str]:
    """The first lines of many, and a line that counts the rest; kind: what they are about, in the plural."""
    more = len(lines) - _LINES
    if more <= 0:
        return list(lines)
    return [
        *lines[:_LINES],
        f"{more} more {kind} like these -> repair the tags above and run again",
    ]


def check_hostnames(preferences: Sequence[str]) -> str:
    """Return what is wrong with the option hostnames, with its remedy; empty when nothing is."""
    wrong = [
        one for one in preferences if one not in NAMES and not re.fullmatch(r"tag:[^,=|]+", one)
    ]
    if not wrong:
        return ""
    return f"hostnames: {', '.join(map(repr, wrong))} names nothing -> write {', '.join(NAMES)}, or tag:NAME"


def refusal(name: str, groups: Collection[str] = ()) -> str:
    """Return why a name is not used for a host, empty when it is. A remote host must never be taken for another thing.

    Args:
        name: from a tag.
        groups: names of the inventory's groups, in lower case.
    """
    lower = name.lower().rstrip(".")
    labels = lower.split(".")
    if _ADDRESS.fullmatch(name) or _ADDRESS_6.fullmatch(lower):
        return "is an address, or text that the system reads as one"
    if labels[0] in _LOOPBACK or labels[-1] in _LOOPBACK or lower == "implicit localhost":
        return "is a name of the control node itself"
    if lower in _ALWAYS_GROUPS or lower in groups:
        return "is the name of a group"
    if not _HOST_NAME.fullmatch(name) or name.endswith((".", "-")) or not all(labels):
        return "is not a valid host name"
    return ""


@dataclass
class _Claim:
    """An instance and its possible names; it has the one at `level`."""

    raw: Raw
    names: list[str]
    rank: tuple[t.Any, ...]
    level: int = 0

    @property
    def name(self) -> str:
        return self.names[self.level]


def names_of(
    raws: Sequence[Raw],
    preferences: Sequence[str],
    region: Mapping[str, str] | None = None,
    groups: Collection[str] = (),
) -> tuple[list[str], list[str]]:
    """Return a name for each instance, all different, and messages about names that were refused or shared.

    Each takes the first of its preferred names that may be a host's. If several share one, the one that was started
    first keeps it, so a node that is replaced while it runs keeps its name; the others take their next one, finally
    their id. A region that is named later never changes a name in an earlier one. EC2's own names of another
    instance, and ids, are never taken from a tag. The order of an answer does not matter.

    Args:
        region: of an instance, by its id, in the order in which regions are searched.
        groups: names of the inventory's groups.
    """
    refused: list[str] = []
    lowered = {group.lower() for group in groups}
    order = {name: index for index, name in enumerate(dict.fromkeys((region or {}).values()))}
    own: dict[str, set[str]] = {}
    for raw in raws:
        for key in NAMES.values():
            own.setdefault(raw.get(key, "").lower(), set()).add(raw["id"])
    claims = []
    for raw in raws:
        names = _candidates(raw, preferences, lowered, own, refused)
        rank = (
            order.get((region or {}).get(raw["id"], ""), 0),
            raw.get("state", "running") not in _RUNNING,
            raw.get("launched") or "~",
            raw["id"],
        )
        claims.append(_Claim(raw, names, rank))
    shared = _settle(claims)
    warnings = capped(sorted(refused), "tags")
    lines = []
    for keeper, losers in shared:
        moved = some(claim.raw["id"] for claim in losers)
        becomes = f", as {losers[0].name}" if len(losers) == 1 else ""
        lines.append(
            f"{keeper.raw['id']} and {moved} share the name {keeper.name}: {keeper.raw['id']}, which was started "
            f"first, keeps it, and the host {moved} gets its next name in hostnames{becomes} -> give each a Name tag "
            "of its own, end the one that was replaced, or begin hostnames with private-dns-name"
        )
    return [claim.name for claim in claims], warnings + capped(lines, "names")


def _settle(claims: Sequence[_Claim]) -> list[tuple[_Claim, list[_Claim]]]:
    """Give each a name of its own; return each that kept a shared name, with those that had to leave it."""
    shared: dict[str, list[_Claim]] = {}
    waiting = list(claims)
    holders: dict[str, _Claim] = {}
    while waiting:
        claim = waiting.pop()
        held = holders.get(claim.name.lower())
        if held is not None and (held.level, held.rank) < (claim.level, claim.rank):
            claim, held = held, claim
        holders[claim.name.lower()] = claim
        if held is not None:
            shared.setdefault(held.name.lower(), []).append(held)
            held.level += 1
            waiting.append(held)
    return [
        (holders[name], sorted(losers, key=lambda one: node_names.natural_key(one.raw["id"])))
        for name, losers in sorted(shared.items(), key=lambda item: node_names.natural_key(item[0]))
    ]


def _candidates(
    raw: Raw,
    preferences: Sequence[str],
    groups: Collection[str],
    own: Mapping[str, set[str]],
    refused: list[str],
) -> list[str]:
    """The names that an instance may have, best first; its id is the last. Adds what is refused, and why."""
    found: list[str] = []
    reasons: list[str] = []
    for one in preferences:
        tagged = one.startswith(_TAG)
        name = raw["tags"].get(one[len(_TAG) :], "") if tagged else raw.get(NAMES[one], "")
        if not name:
            continue
        # EC2 itself chose the others.
        reason = "" if one in _ADDRESSES or one == "instance-id" else refusal(name, groups)
        if tagged and not reason and own.get(name.lower(), {raw["id"]}) != {raw["id"]}:
            reason = "is EC2's own name of another instance"
        elif tagged and not reason and _INSTANCE_ID.fullmatch(name) and name != raw["id"]:
            reason = "is the id of another instance"
        if not reason:
            found.append(name)
        elif tagged:
            reasons.append(f"its tag {one[len(_TAG) :]} is {_quoted(name)}, which {reason}")
    found.append(raw["id"])
    refused += [
        f"{raw['id']}: {reason}: the host is in the inventory as {found[0]} -> tag it with a name of its own, of "
        "letters, digits, hyphens and dots"
        for reason in reasons
    ]
    return list(dict.fromkeys(found))


def _quoted(text: str) -> str:
    """A tag's value for a message, in which it can neither end the line nor fill the screen."""
    shown = ascii(text)
    return shown if len(shown) <= 80 else f"{shown[:76]}...'"
