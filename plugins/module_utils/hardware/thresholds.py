# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""References for tests of bandwidth and latency, from our table or from a site's own rows. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t
from functools import cache

from .machine_types import find as find_type
from .thresholds_data import SOURCES, THRESHOLDS, VERSION

_SIZE = re.compile(r"([1-9]\d{0,15})([KMGT]?)")
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
#: A row of n nodes serves up to so many times n.
_NODES_AT_MOST = 4
#: The nodes from which a row serves more nodes than its own.
_MANY = 3
#: The references that a test can have in its unit. Below, everything would pass.
_LEAST, _MOST = 1e-6, 1e9
#: The same in words, for messages.
REFERENCE = "a number from 0.000001 to 1000000000, in the unit of the test"
#: Units of which less is better.
TIMES = ("us", "ms", "s")


class ThresholdError(ValueError):
    """A site's row that is wrong: `where: what -> remedy`, one line for each fault."""


@dataclasses.dataclass(frozen=True)
class Threshold:
    """A row. type, test, nodes: what it is for. size: of the message in bytes, None for the peak over all sizes.

    reference: in unit. source: who says so, with the table's version.
    """

    type: str
    test: str
    nodes: int
    size: int | None
    reference: float
    unit: str
    source: str

    @property
    def less_is_better(self) -> bool:
        return self.unit in TIMES


Key = tuple[str, str, int, t.Optional[int]]
Table = t.Mapping[Key, Threshold]


def size_in_bytes(given: object) -> int | None:
    """Return 17179869184 for "16G", a number as it is, None for None and "-". Raises ThresholdError."""
    if given in (None, "-"):
        return None
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    found = _SIZE.fullmatch(given) if isinstance(given, str) else None
    if not found:
        raise ThresholdError(f"size: is {given!r} -> bytes, or a text such as 16G")
    return int(found[1]) << _UNITS[found[2]]


def size_as_text(size: int | None) -> str:
    """Return 16G for 17179869184, the bytes where no unit fits, and "peak" for None."""
    if size is None:
        return "peak"
    for unit, shift in reversed(_UNITS.items()):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


def is_reference(value: object) -> bool:
    """Whether a value can be the reference of a test."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and _LEAST <= t.cast(float, value) <= _MOST


@cache
def _ours() -> dict[Key, Threshold]:
    made = {}
    for line in THRESHOLDS.strip().splitlines():
        kind, test, nodes, size, reference, unit, source = line.split()
        key = (kind, test, int(nodes), size_in_bytes(size))
        text = f"{SOURCES[source]}; thresholds {VERSION}"
        made[key] = Threshold(*key, float(reference), unit, text)
    return made


# -- a site's rows ---------------------------------------------------------------------------------
_FIELDS = ("type", "test", "nodes", "size", "reference", "unit", "source")


def table(site: object = None, where: str = "thresholds") -> dict[Key, Threshold]:
    """Return our table with a site's rows, which take the place of ours for the same type, test, nodes and size.

    site: a list of mappings with type, test, reference, and as needed nodes (1), size (None: the peak; bytes or a text
        such as 16G), unit (that of ours for the test, else GB/s) and source (the name of the variable). A reference of
        null removes our row.
    where: name of the variable, for messages.

    Raises ThresholdError with all that is wrong.
    """
    rows = dict(_ours())
    if site is None:
        return rows
    if not isinstance(site, (list, tuple)):
        raise ThresholdError(
            f"{where}: is a {type(site).__name__} -> a list of rows with {', '.join(_FIELDS)}"
        )
    faults: list[str] = []
    seen: set[Key] = set()
    for index, row in enumerate(site):
        at = f"{where}[{index}]"
        if not isinstance(row, t.Mapping):
            faults.append(f"{at}: is a {type(row).__name__} -> a mapping with {', '.join(_FIELDS)}")
            continue
        found = list(_faults_of(at, row))
        faults += found
        if found:
            continue
        nodes = row.get("nodes", 1)
        key = (row["type"], row["test"], nodes, size_in_bytes(row.get("size")))
        if key in seen:
            faults.append(
                f"{at}: is the second row for this type, test, nodes and size -> keep one"
            )
        seen.add(key)
        if row["reference"] is None:
            if rows.pop(key, None) is None:
                faults.append(f"{at}.reference: is null, and there is no row to remove -> a number")
            continue
        unit = row.get("unit") or _unit_of(row["test"])
        rows[key] = Threshold(*key, float(row["reference"]), unit, row.get("source") or where)
    if faults:
        raise ThresholdError("\n".join(faults))
    return rows


def _unit_of(test: str) -> str:
    return next((row.unit for row in _ours().values() if row.test == test), "GB/s")


def _faults_of(at: str, row: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    for name in row:
        if name not in _FIELDS:
            yield f"{at}.{name}: no field has that name -> one of {', '.join(_FIELDS)}"
    for name in ("type", "test", "reference"):
        if name not in row:
            yield f"{at}.{name}: is missing -> every row has type, test and reference"
    for name in ("type", "test", "unit", "source"):
        text = row.get(name, "-")
        if not isinstance(text, str) or not text or "\n" in text:
            yield f"{at}.{name}: is {text!r} -> one line of text"
    nodes = row.get("nodes", 1)
    if isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 1:
        yield f"{at}.nodes: is {nodes!r} -> a whole number of at least 1"
    try:
        size_in_bytes(row.get("size"))
    except ThresholdError as error:
        yield f"{at}.{error}"
    reference = row.get("reference")
    if reference is not None and not is_reference(reference):
        yield f"{at}.reference: is {reference!r} -> {REFERENCE}, or null to remove our row"


# -- looking one up --------------------------------------------------------------------------------
def lookup(
    rows: Table, kind: str, test: str, nodes: int = 1, size: int | None = None, gpu: str = ""
) -> Threshold | None:
    """Return the row that a test is judged by, None without.

    kind: the machine type; if it lacks a row for the test, gpu:MODEL is looked up, with the model that is given or
    that the table of machine types has. size: of the message in bytes, None for the peak over all sizes.

    A row for exactly these nodes and this size comes first. Else the nearest smaller one:

    - of sizes, the next smaller; bandwidth grows with the size, so this asks for less. For the peak, the row for the
      peak, or the largest size. A row for the peak does not serve one size.
    - of nodes, the next smaller count of at least 3, up to 4 times its nodes. Rows for 1 and 2 nodes serve no others.
    """
    known = find_type(kind)
    model = gpu or (known.gpus.model if known and known.gpus else "")
    for name in (kind, f"gpu:{model}"):
        own = [row for row in rows.values() if row.type == name and row.test == test]
        counts = sorted({row.nodes for row in own if _serves(row.nodes, nodes)}, reverse=True)
        for count in counts:
            found = _by_size([row for row in own if row.nodes == count], size)
            if found:
                return found
    return None


def _serves(count: int, nodes: int) -> bool:
    return count == nodes or _MANY <= count < nodes <= _NODES_AT_MOST * count


def _by_size(rows: t.Sequence[Threshold], size: int | None) -> Threshold | None:
    if size is None:
        peak = [row for row in rows if row.size is None]
        return peak[0] if peak else max(rows, key=lambda row: row.size or 0, default=None)
    smaller = [row for row in rows if row.size is not None and row.size <= size]
    return max(smaller, key=lambda row: row.size or 0, default=None)


def provenance(row: Threshold, nodes: int, size: int | None) -> str:
    """Return the source of a row, and for what it is where that is not what was tested."""
    other = []
    if row.nodes != nodes:
        other.append(f"{row.nodes} nodes")
    if row.size != size:
        other.append(size_as_text(row.size))
    return f"{row.source} (row of {', '.join(other)})" if other else row.source
