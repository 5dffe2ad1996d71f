# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The report of a training job as an HTML page. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import typing as t

from ...report import page as report
from ...slurm import values
from ...slurm.client import job_messages
from . import gpu_use, progress

View = dict[str, t.Any]


def size(count: int) -> str:
    """Return a number of bytes as text."""
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.4g} {units[0]}"


def page(
    result: View, read: progress.Progress, uses: t.Sequence[gpu_use.GpuUse], now: float
) -> str:
    """Return the report as HTML. result: a look at the job, as status.look() returns it; now: seconds since 1970."""
    job = result["job"]
    summary: list[tuple[str, report.Cell]] = [
        ("Job", job["id"]),
        ("User", job["user"]),
        ("State", job_messages.standing(job)),
        ("Elapsed", job_messages.duration(job["elapsed"])),
        ("Started again", job["restarts"]),
        ("Training", result["summary"]),
        ("Log", result["log"]),
        *(("Run", address) for address in result["links"]),
    ]
    sections: list[report.Section] = []
    if result["failure"]:
        sections.append(report.Text("Why it failed", result["failure"]))
    for title, axis, of in (
        ("Loss", "loss", lambda point: point.loss),
        ("Throughput", "samples a second", lambda point: point.samples_per_second),
        ("Time of a step", "seconds", lambda point: point.seconds),
    ):
        points = [(float(point.step), of(point)) for point in read.points]
        if any(y is not None for _x, y in points):
            x = "line" if read.counted else "step"
            sections.append(report.Chart(title, x, axis, [report.Series(title, points)]))
    if result["checkpoints"]:
        sections.append(
            report.Table(
                "Checkpoints",
                ["Name", "Step", "Size", "Age", "Verdict", "Why"],
                [
                    [
                        one["name"] + (" (newest)" if one["newest"] else ""),
                        one["step"],
                        size(one["size"]),
                        job_messages.duration(one["age"]),
                        "PASS" if one["complete"] else "INCOMPLETE",
                        one["why"],
                    ]
                    for one in result["checkpoints"]
                ],
            )
        )
    if uses:
        columns = [
            "Node",
            "Model",
            "GPUs",
            "Busy, mean %",
            "Busy, most %",
            "Memory, most MiB",
            "Of MiB",
            "Most C",
        ]
        names = (
            *("node", "model", "gpus", "utilization_mean", "utilization_max", "memory_max"),
            *("memory_total", "temperature_max"),
        )
        sections.append(
            report.Table("GPUs", columns, [[getattr(use, name) for name in names] for use in uses])
        )
        series = [report.Series(use.node, use.curve) for use in uses if use.curve]
        sections.append(report.Chart("GPU use", "minutes", "busy, %", series))
    footer = f"Written by trainwright.slurm {values.stamp(int(now))} UTC"
    title = f"Training {job['name'] or job['id']}"
    return report.render(report.Report(title, summary, sections, footer))
