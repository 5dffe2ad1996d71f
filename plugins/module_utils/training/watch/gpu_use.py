# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads what nvidia-smi wrote of the GPUs of a node while a job ran. Pure.

The files come from `nvidia-smi --query-gpu=timestamp,name,utilization.gpu,memory.used,memory.total,
temperature.gpu --format=csv,noheader -l 60` and are called gpu-<node>-<job>.csv. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
import typing as t

from .progress import moment

_FILE = re.compile(r"gpu-(?P<node>.+)-(?P<job>\d+)\.csv\Z")
_VALUE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:%|MiB|C)?\s*\Z")
_TOGETHER = 0.5  # seconds within which one sample shows its GPUs


@dataclasses.dataclass(frozen=True)
class GpuUse:
    """The GPUs of a node; numbers that nvidia-smi does not know are None. Memory in MiB, temperature in C."""

    node: str
    model: str = ""
    gpus: int = 0
    samples: int = 0
    utilization_mean: float | None = None  # per cent
    utilization_max: float | None = None
    memory_mean: float | None = None
    memory_max: float | None = None
    memory_total: float | None = None
    temperature_max: float | None = None
    #: Minutes since the first sample, mean utilization of the GPUs in per cent.
    curve: tuple[tuple[float, float], ...] = ()

    def as_dict(self) -> dict[str, t.Any]:
        """All but the curve, as the module returns it."""
        return {key: v for key, v in dataclasses.asdict(self).items() if key != "curve"}


def node_of(name: str, job: int) -> str:
    """Return the node of a file's name; "" if it is none of the job."""
    match = _FILE.match(name)
    return match["node"] if match and int(match["job"]) == job else ""


def read(node: str, lines: t.Iterable[str]) -> GpuUse:
    """Return the measurements of a node from the lines of its file; truncated and other lines are left out."""
    rows: list[tuple[float, str, list[float | None]]] = []
    for line in lines:
        cells = line.split(",")
        when = moment(cells[0].strip().replace("/", "-"))
        if len(cells) == 6 and when is not None:
            rows.append((when, cells[1].strip(), [_value(cell) for cell in cells[2:]]))
    if not rows:
        return GpuUse(node)
    samples: list[list[tuple[float, list[float | None]]]] = []
    for when, _model, values in rows:
        if not samples or when - samples[-1][-1][0] > _TOGETHER:
            samples.append([])
        samples[-1].append((when, values))
    start = rows[0][0]
    curve = [
        (round((sample[0][0] - start) / 60, 2), statistics.mean(known))
        for sample in samples
        for known in [[v[0] for _when, v in sample if v[0] is not None]]
        if known
    ]
    use, memory, total, heat = (
        [row[2][n] for row in rows if row[2][n] is not None] for n in range(4)
    )
    return GpuUse(
        node=node,
        model=rows[-1][1],
        gpus=max(map(len, samples)),
        samples=len(samples),
        utilization_mean=_over(statistics.mean, use),
        utilization_max=_over(max, use),
        memory_mean=_over(statistics.mean, memory),
        memory_max=_over(max, memory),
        memory_total=_over(max, total),
        temperature_max=_over(max, heat),
        curve=tuple(curve),
    )


def _value(cell: str) -> float | None:
    match = _VALUE.match(cell)  # no match: [N/A], [Unknown Error], [GPU is lost]
    return float(match[1]) if match else None


def _over(function: t.Callable[[t.Any], t.Any], values: t.Sequence[t.Any]) -> float | None:
    return round(float(function(values)), 1) if values else None
