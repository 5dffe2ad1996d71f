# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Measurements that are shown together, the value of each, and which of them are bad. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t

from .document import Measurement
from .peers import floor_of

#: Peers from which on a value can be an outlier.
LEAST_PEERS = 6

Key = t.TypeVar("Key")


def grouped(
    measurements: t.Iterable[Measurement], key: t.Callable[[Measurement], Key]
) -> dict[Key, list[Measurement]]:
    """Return the measurements by a key, in their order."""
    made: dict[Key, list[Measurement]] = {}
    for one in measurements:
        made.setdefault(key(one), []).append(one)
    return made


def value_of(one: Measurement) -> float | None:
    """Return the value that its gate judges: of sizes that at its size, or at the greatest."""
    if one.kind != "sizes":
        return one.value
    values = dict(one.points)
    return values.get(one.size if one.size is not None else max(values, default=0))


def is_worse(one: Measurement, value: float, than: float) -> bool:
    """Whether a value of this measurement is worse than another."""
    return value > than if one.less_is_better else value < than


def is_bad(one: Measurement) -> bool:
    """Whether it gave no number, or one on the wrong side of its gate."""
    value = value_of(one)
    return value is None or (one.gate is not None and is_worse(one, value, one.gate))


def best_pairs(measurements: t.Iterable[Measurement]) -> dict[tuple[str, str], Measurement]:
    """Return the best measurement of each pair, by check and by the pair as `c1 - c2`, whatever its order was.

    Shares of what was sent again are left out: they have a limit of their own.
    """
    best: dict[tuple[str, str], Measurement] = {}
    for one in measurements:
        if one.kind != "pair" or one.value is None or one.unit == "%":
            continue
        key = one.check, " - ".join(sorted(one.hosts))
        known = best[key].value if key in best else None
        if known is None or is_worse(one, known, one.value):
            best[key] = one
    return best


def outliers(values: t.Mapping[str, float], less_is_better: bool = False) -> set[str]:
    """Return the names of values below the floor of their peers, as the judge has it, if there are at least 6."""
    if len(values) < LEAST_PEERS:
        return set()
    speeds = {
        name: (1 / value if value else 0.0) if less_is_better else value
        for name, value in values.items()
    }
    floor = floor_of(list(speeds.values()))
    return {name for name, speed in speeds.items() if speed < floor}
