# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The interface of what a parser returns: points and figures that a threshold judges, and faults. Pure."""

from __future__ import annotations

import typing as t


class Point(t.NamedTuple):
    """A bandwidth at one size. size_bytes: of a message or transfer; value: GB/s (10^9 bytes a second)."""

    size_bytes: int
    value: float


class Parsed:
    """The base of all results; each is a frozen dataclass with the fields of its tool.

    A result is always a whole measurement: an output that is not raises ParseError instead.
    """

    @property
    def points(self) -> tuple[Point, ...]:
        """Return bandwidths in GB/s by ascending size, each size once: where it was measured twice, the lowest."""
        return ()

    @property
    def figures(self) -> dict[str, float]:
        """Return the named scalars that a threshold may judge.

        Names end in their unit: `_us` microseconds, `_iops` and `_ops` operations a second, `_percent`; names that
        begin with `bandwidth`, `busbw` or `algbw`, or name a direction or test of bandwidth, are GB/s (10^9 bytes a
        second); anything else is a count. A phase that did not run is missing,
        so a threshold on it cannot be met.
        """
        return {}

    @property
    def faults(self) -> tuple[str, ...]:
        """Return faults that no number excuses, a line each: wrong data, a failed test. They make a FAIL."""
        return ()

    @property
    def gaps(self) -> tuple[str, ...]:
        """Return reasons against a clean PASS although nothing is proved wrong, a line each: at best a WARN.

        Such as data that the command did not check, warnings of the tool, or reads from a page cache.
        """
        return ()


def lowest(points: t.Iterable[Point]) -> tuple[Point, ...]:
    """Return points by ascending size, each size once with its lowest value."""
    found: dict[int, float] = {}
    for size, value in points:
        found[size] = min(value, found.get(size, value))
    return tuple(Point(size, found[size]) for size in sorted(found))
