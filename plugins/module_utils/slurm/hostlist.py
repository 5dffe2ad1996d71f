# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Host lists as Slurm writes them: ``c[1-2,7]``. For the control node; needs ClusterShell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

try:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetParseError
except ImportError:  # pragma: no cover - require_clustershell() reports it, with the remedy
    NodeSet = None

from ..node.names import natural_key

_TRAILING_NUMBER = re.compile(r"^(.*?)(\d+)$")
_PARTS = re.compile(r",(?![^\[]*\])")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)
#: As many as Slurm reads in one range (scontrol show hostnames refuses more).
_MOST = 65536


class HostlistError(ValueError):
    """A host list that cannot be read, or ClusterShell is missing. The message is for people."""


def require_clustershell() -> None:
    """Raise HostlistError, with the remedy, where ClusterShell is missing."""
    if NodeSet is None:
        raise HostlistError(
            "the control node's Python lacks ClusterShell, which folds node names"
            " -> pip install ClusterShell (into the environment that runs ansible-playbook)"
        )


def expand(hostlist: str) -> list[str]:
    """Return the names in ``c[1-2],login1``, sorted. Raises HostlistError for a malformed list."""
    require_clustershell()
    try:
        return sorted(NodeSet(hostlist, resolver=RESOLVER_NOGROUP), key=natural_key)
    except NodeSetParseError as error:
        raise HostlistError(str(error)) from error


def read(given: object) -> list[str]:
    """Return the names in a host list that Slurm would read, or in a list of them, sorted.

    ClusterShell reads more: set operations, groups, steps, and text behind a range, which scontrol
    refuses or reads as part of a name. Raises HostlistError, which names the fault, for them,
    for malformed text and for anything but text.
    """
    texts = given if isinstance(given, Iterable) and not isinstance(given, (str, dict)) else [given]
    names: set[str] = set()
    for text in texts:
        if not isinstance(text, str):
            raise HostlistError(
                f"{text!r} is not a host list but {type(text).__name__} -> give text such as"
                " 'c[1-4]', or a list of such texts"
            )
        for part in _PARTS.split(text) if text else []:
            why = _malformed(part)
            if why:
                raise HostlistError(f"host list {text!r}: {why}")
            names.update(expand(part) if "[" in part else [part])
    return sorted(names, key=natural_key)


def _malformed(part: str) -> str:
    """Return why the text between two commas is neither a name nor a range, with the remedy, or ""."""
    if not part:
        return "a name is missing on one side of a comma -> remove it"
    text = _BRACKETS.sub("", part)
    if "[" in text or "]" in text:
        return f"the brackets in {part!r} do not pair -> write them as in c[1-4]"
    strange = re.search(r"[^\w.-]", text, re.ASCII)
    if strange:
        return f"no name has {strange[0]!r} in it -> put commas, without blanks, between names"
    ranges = _BRACKETS.findall(part)
    if ranges and not part.endswith("]"):
        return f"Slurm reads no text behind a range, as in {part!r} -> write its names one by one"
    if "][" in part:
        return f"{part!r} has two ranges side by side -> write them as one, or as names"
    count = 1
    for items in ranges:
        found = 0
        for item in items.split(","):
            match = _RANGE.fullmatch(item)
            first, last = match.groups(item) if match else ("1", "0")
            if int(last) < int(first):
                return f"{item!r} in {part!r} is not a range from a lower to a higher number -> write it as in c[1-4]"
            padded = (first[0] == "0" and len(first) > 1) or last[0] == "0"
            if padded and len(first) != len(last):
                return f"{item!r} in {part!r} has numbers of two widths -> write it as two ranges"
            found += int(last) - int(first) + 1
        count *= found
    if count > _MOST:
        return f"{part!r} has {count} names, and Slurm reads at most {_MOST} -> write fewer"
    return ""


def fold(names: Iterable[str]) -> str:
    """Return the shortest list that Slurm reads, names in natural order.

    Slurm wants a range at the end of a name (slurm.conf(5), NodeName: "unit[0-31]rack is invalid"),
    so only the last number is folded, and only where nothing follows it.
    """
    require_clustershell()
    foldable: dict[str, list[str]] = {}
    for name in sorted(set(names), key=natural_key):
        match = _TRAILING_NUMBER.match(name)
        foldable.setdefault(match.group(1) if match else name, []).append(name)
    parts = []
    for members in foldable.values():
        if len(members) == 1:
            parts.append(members[0])
            continue
        nodes = NodeSet(resolver=RESOLVER_NOGROUP)
        nodes.fold_axis = (-1,)
        nodes.updaten(members)
        parts.append(str(nodes))
    return ",".join(parts)


def fold_in_order(values: Sequence[str]) -> str:
    """Fold neighbours only, so that the n-th value stays the n-th: for NodeAddr and NodeHostname.

    ``10.0.0.9, 10.0.0.10, 10.0.0.4`` becomes ``10.0.0.[9-10],10.0.0.4``.
    """
    runs: list[tuple[str, int, int, int]] = []  # prefix, width (0: not padded), first, last
    for value in values:
        match = _TRAILING_NUMBER.match(value)
        if not match:
            runs.append((value, -1, 0, 0))
            continue
        prefix, digits = match.groups()
        number, width = (
            int(digits),
            len(digits) if digits.startswith("0") and len(digits) > 1 else 0,
        )
        if runs:
            last_prefix, last_width, first, last = runs[-1]
            padded = last_width if last_width > 0 and len(digits) == last_width else width
            if (
                last_prefix == prefix
                and last_width >= 0
                and padded == last_width
                and number == last + 1
            ):
                runs[-1] = (prefix, last_width, first, number)
                continue
        runs.append((prefix, width, number, number))
    parts = []
    for prefix, width, first, last in runs:
        if width < 0:
            parts.append(prefix)
        elif first == last:
            parts.append(f"{prefix}{first:0{width}d}" if width else f"{prefix}{first}")
        elif width:
            parts.append(f"{prefix}[{first:0{width}d}-{last:0{width}d}]")
        else:
            parts.append(f"{prefix}[{first}-{last}]")
    return ",".join(parts)
