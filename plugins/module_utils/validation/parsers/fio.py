# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""fio: the JSON of `--output-format=json`. Pure.

Formats: axboe/fio, stat.c. Version 3 counts bandwidth in bytes (bw_bytes) and latencies in nanoseconds; version 2 has
bw in KiB/s and latencies in microseconds.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .error import ParseError, shown
from .parsed import Parsed
from .text import amount, json_object, mapping, sequence

_TOOL = "fio"
_AGAIN = "run the test again; see its errors"
#: Errors of a job (errno) that the storage made; with any other one the job could not run.
_STORAGE = {
    5: "input/output error",
    84: "data was read back wrong",
    121: "remote input/output error",
}


@dataclass(frozen=True)
class Direction:
    """One direction, of the slowest group of jobs. bandwidth: GB/s; iops: a second; latency_us: mean, slowest job's."""

    bandwidth: float
    iops: float
    latency_us: float


@dataclass(frozen=True)
class Fio(Parsed):
    """A run. version: such as fio-3.16; read, write: None where nothing was transferred; failed: a line a job."""

    version: str
    jobs: int
    read: Direction | None
    write: Direction | None
    failed: tuple[str, ...]

    @property
    def figures(self) -> dict[str, float]:
        """Return read, write (GB/s), read_iops, write_iops, read_latency_us and write_latency_us."""
        found: dict[str, float] = {}
        for name, one in (("read", self.read), ("write", self.write)):
            if one:
                found[name] = one.bandwidth
                found[f"{name}_iops"] = one.iops
                found[f"{name}_latency_us"] = one.latency_us
        return found

    @property
    def faults(self) -> tuple[str, ...]:
        return self.failed


def parse(text: str) -> Fio:
    """Read the output of one run. Raises ParseError."""
    found = json_object(text, _TOOL)
    version = found.get("fio version")
    if not isinstance(version, str) or not version.startswith("fio-"):
        raise ParseError(f"{_TOOL}: no version of fio in the JSON", _AGAIN)
    jobs = [
        mapping(job, f"{_TOOL}: a job")
        for job in sequence(found.get("jobs", found.get("client_stats")), f"{_TOOL}: jobs")
    ]
    # A run on several hosts appends the sum of all as a job of this name.
    jobs = [job for job in jobs if job.get("jobname") != "All clients"]
    failed = []
    for job in jobs:
        code = amount(job.get("error"), f"{_TOOL}: error")
        if code in _STORAGE:
            failed.append(f"job {shown(job.get('jobname'))}: {_STORAGE[int(code)]}")
        elif code:
            raise ParseError(
                f"{_TOOL}: job {shown(job.get('jobname'))} ended with error {code:g}", _AGAIN
            )
    read, write = _lowest(jobs, "read"), _lowest(jobs, "write")
    if not read and not write:
        raise ParseError(f"{_TOOL}: nothing was read or written", _AGAIN)
    return Fio(version[:32], len(jobs), read, write, tuple(failed))


def _lowest(jobs: list[dict[str, t.Any]], name: str) -> Direction | None:
    """Return the rates of the slowest group of jobs: groups run one after another, the jobs of a group together."""
    groups: dict[str, list[Direction]] = {}
    for job in jobs:
        one = _one(mapping(job.get(name), f"{_TOOL}: {name}"), f"{_TOOL}: {name}")
        if one:
            groups.setdefault(str(job.get("groupid")), []).append(one)
    if not groups:
        return None
    return Direction(
        min(sum(one.bandwidth for one in group) for group in groups.values()),
        min(sum(one.iops for one in group) for group in groups.values()),
        max(one.latency_us for group in groups.values() for one in group),
    )


def _one(values: dict[str, t.Any], what: str) -> Direction | None:
    moved = amount(values.get("io_bytes"), f"{what}.io_bytes")
    iops = amount(values.get("iops"), f"{what}.iops")
    kib = amount(values.get("bw"), f"{what}.bw")
    if not moved:
        if iops or kib:
            raise ParseError(f"{what}: {kib:g} KiB/s of 0 bytes", _AGAIN)
        return None
    rate = kib * 1024
    if "bw_bytes" in values:
        rate = amount(values["bw_bytes"], f"{what}.bw_bytes")
        if abs(rate / 1024 - kib) > 1.5 + 0.001 * kib:
            raise ParseError(f"{what}: bw {kib:g} KiB/s and bw_bytes {rate:g}", _AGAIN)
    else:
        moved *= 1024
    seconds = amount(values.get("runtime"), f"{what}.runtime") / 1e3
    # fio counts the runtime in whole milliseconds.
    if not seconds or abs(moved / seconds - rate) > 0.02 * rate + 2048 + rate * 2e-3 / seconds:
        raise ParseError(f"{what}: {moved:g} bytes in {seconds:g} s at {rate:g} bytes/s", _AGAIN)
    latency = next(
        (
            amount(mapping(values[key], f"{what}.{key}").get("mean"), f"{what}.{key}.mean") / scale
            for key, scale in (("lat_ns", 1e3), ("lat", 1.0), ("clat_ns", 1e3), ("clat", 1.0))
            if isinstance(values.get(key), dict) and values[key].get("mean")
        ),
        None,
    )
    if not iops or latency is None:
        raise ParseError(f"{what}: no {'latency' if iops else 'iops'}", _AGAIN)
    return Direction(rate / 1e9, iops, latency)
