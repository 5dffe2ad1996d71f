# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compares a directory with S3 or another directory, by size and checksum, and names what differs."""

from __future__ import annotations

import os
import random
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from . import manifest
from .manifest import ChangedError
from .sync import Progress, Target


@dataclass
class Comparison:
    """Paths, sorted, and counts.

    Attributes:
        files, size: of the source, size in bytes.
        missing: not at the destination. other: there with another size or content, and which. extra: there alone.
        recent: changed in the source so short ago that they were not judged.
        checked: files whose checksums were compared.
        read_back: of these, objects that had to be read since their checksums do not decide.
        outside: links of the source to directories elsewhere, whose files were not judged.
    """

    files: int = 0
    size: int = 0
    missing: list[str] = field(default_factory=list)
    other: dict[str, str] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    recent: list[str] = field(default_factory=list)
    checked: int = 0
    read_back: int = 0
    outside: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether both hold the same; what is at the destination alone does not count."""
        return not self.missing and not self.other


def compare(
    source: str, target: Target, *, sample: int | None = None, seed: int | None = None, settle: float = 0,
    exclude: t.Sequence[str] = (), jobs: int = 16, tell: t.Callable[[str], None] = lambda _line: None,
) -> Comparison:  # fmt: skip
    """Compare all sizes, and the checksums of all files or of some.

    Args:
        sample: compare the checksums of so many files, chosen at random; None: of all.
        seed: of that choice.
        settle: leave out files that changed in the last so many seconds.
    Raises:
        DatasetError: a side cannot be read.
    """
    found = Comparison()
    tell("listing the source")
    listing = manifest.scan(source, exclude)
    files, found.outside = listing.files, _outside(source, listing.skipped)
    found.files, found.size = len(files), sum(one.size for one in files.values())
    tell("listing the destination")
    there = target.listing()
    latest = (time.time() - settle) * 1e9
    alike = []
    for path, entry in files.items():
        if settle and entry.mtime_ns > latest:
            found.recent.append(path)
        elif path not in there:
            found.missing.append(path)
        elif there[path].size != entry.size:
            found.other[path] = f"{there[path].size} bytes instead of {entry.size}"
        else:
            alike.append(path)
    found.extra = sorted(
        path for path in there if path not in files and not manifest.ignored(path, exclude)
    )
    if sample is not None and sample < len(alike):
        alike = random.Random(seed).sample(alike, sample)
    progress = Progress(tell, len(alike), sum(files[path].size for path in alike))

    def check(path: str) -> tuple[str, str]:
        local = os.path.join(source, path)
        try:
            same = target.same(path, local, files[path], read_back=True)
            what = "" if same else "another content"
        except ChangedError:
            what = "it changed while it was compared"
        progress.add(1, files[path].size)
        return path, what

    with ThreadPoolExecutor(jobs) as pool:
        found.other.update((path, what) for path, what in pool.map(check, alike) if what)
    found.checked, found.read_back = len(alike), target.read_back
    found.missing.sort()
    found.recent.sort()
    found.other = dict(sorted(found.other.items()))
    return found


def _outside(source: str, skipped: t.Iterable[str]) -> list[str]:
    """Return the links to directories that are not in the source themselves."""
    own = os.path.join(os.path.realpath(source), "")
    places = {path: os.path.realpath(os.path.join(source, path)) for path in skipped}
    return sorted(
        path
        for path, place in places.items()
        if os.path.isdir(place) and not os.path.join(place, "").startswith(own)
    )
