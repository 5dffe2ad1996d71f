# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Sends what a destination lacks, all jobs at once, and notes each file as soon as both ends agree on it."""

from __future__ import annotations

import functools
import os
import threading
import time
import typing as t
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

from . import manifest
from .directory import Directory, human
from .journal import Journal, look
from .manifest import ChangedError, DatasetError, Entry
from .plan import Plan, plan
from .s3 import Bucket, DamagedError

Target = t.Union[Bucket, Directory]
#: How often a file is sent that changes meanwhile or does not arrive whole, and the pause before the next time.
TRIES, PAUSE = 4, 0.5
#: Seconds between two lines of progress.
EVERY = 1.0


class _EndedError(Exception):
    """The run ends, since another file has failed."""


@dataclass
class Outcome:
    """The result; in check mode, the expected one.

    Attributes:
        files, size: of the source, size in bytes.
        sent, bytes_sent: files and bytes that went over the network.
        whole: files that were there already, by the journal or by their checksum.
        changed: files that changed while they were sent, and were sent again; gone: that vanished.
        removed, extra: paths removed from the destination; that are there alone and stay.
        skipped: what the source holds and is not a file, and why.
        verified: files whose checksum both ends agreed on, now or in an earlier run.
    """

    files: int = 0
    size: int = 0
    sent: list[str] = field(default_factory=list)
    bytes_sent: int = 0
    bytes_resumed: int = 0
    whole: int = 0
    changed: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    verified: int = 0
    seconds: float = 0.0
    checksums: str = ""


class Progress:
    """Says now and then how far it is; any thread may add."""

    def __init__(self, tell: t.Callable[[str], None], files: int, size: int) -> None:
        self._tell, self._files, self._size = tell, files, size
        self._lock = threading.Lock()
        self._began = self._told = time.monotonic()
        self._done, self._bytes = 0, 0

    def add(self, files: int, size: int) -> None:
        """So much more is done."""
        with self._lock:
            self._done, self._bytes = self._done + files, self._bytes + size
            now = time.monotonic()
            if now >= self._told + EVERY:
                self._told = now
                self._tell(self.line(now - self._began))

    def line(self, seconds: float) -> str:
        """How far it is after so many seconds."""
        rate = self._bytes / max(seconds, 1e-9)
        left = f", {max(self._size - self._bytes, 0) / rate:.0f} s left" if rate else ""
        return (
            f"{self._done:,} of {self._files:,} files, {human(self._bytes)} of {human(self._size)}, "
            f"{human(rate)}/s{left}"
        )


class Sync:
    """One run from a directory to a destination."""

    def __init__(
        self, source: str, target: Target, journal: str, *, jobs: int = 16, exclude: t.Sequence[str] = (),
        tell: t.Callable[[str], None] = lambda _line: None,
    ) -> None:  # fmt: skip
        self._source, self._target, self._journal = source, target, journal
        self._jobs, self._exclude, self._tell = jobs, exclude, tell
        self.outcome = Outcome()
        self._files: dict[str, Entry] = {}
        self._failed: list[str] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def run(self, *, delete: bool = False, confirm: int = 0, check: bool = False) -> Outcome:
        """Send what is to be sent.

        Args:
            delete: remove from the destination what the source does not have, at most `confirm` files.
            check: only return what would be done. Nothing is written.
        Raises:
            DatasetError: something failed. Files sent until then are recorded, and not sent again.
        """
        began = time.monotonic()
        made = self.outcome
        self._nested()
        self._tell("listing the source")
        listing = manifest.scan(self._source, self._exclude)
        self._files, made.skipped = listing.files, listing.skipped
        made.files, made.size = len(self._files), sum(one.size for one in self._files.values())
        if check:
            sent, _lines = look(self._journal)
            self._work(self._planned(sent), None, delete)
        else:
            with Journal(self._journal) as journal:
                planned = self._planned(journal.sent)
                if delete and len(planned.extra) > confirm:
                    raise DatasetError(self._unconfirmed(planned.extra, confirm))
                self._work(planned, journal, delete)
        made.sent.sort()
        made.bytes_resumed, made.checksums = self._target.resumed, self._target.checksums
        made.bytes_sent -= made.bytes_resumed
        made.seconds = time.monotonic() - began
        return made

    def _nested(self) -> None:
        """Refuse a destination or a journal in the source, which would be sent too; and the other way round."""
        source = os.path.realpath(self._source)
        pairs = [(os.path.realpath(self._journal), source)]
        if isinstance(self._target, Directory):
            there = os.path.realpath(self._target.path)
            pairs += [(there, source), (source, there)]
        for inner, outer in pairs:
            if os.path.commonpath([inner, outer]) == outer:
                raise DatasetError(f"{inner}: it lies in {outer} -> take another place")

    def _planned(self, sent: t.Mapping[str, t.Any]) -> Plan:
        self._tell("listing the destination")
        there = self._target.listing()
        there = {
            path: one for path, one in there.items() if not manifest.ignored(path, self._exclude)
        }
        planned = plan(self._files, there, sent)
        self._target.refuse({path: self._files[path] for path in planned.send})
        self.outcome.whole = len(planned.whole)
        self.outcome.extra = planned.extra
        return planned

    def _unconfirmed(self, extra: t.Sequence[str], confirm: int) -> str:
        return (
            f"{self._target}: {len(extra):,} files that {self._source} lacks would be removed ({extra[0]}, ...) and "
            f" confirm_delete allows {confirm:,}; nothing was done -> look at `extra` in check mode, then give "
            f"confirm_delete: {len(extra)}"
        )

    def _work(self, planned: Plan, journal: Journal | None, delete: bool) -> None:
        todo = [*planned.compare, *planned.send]
        progress = Progress(self._tell, len(todo), sum(self._files[path].size for path in todo))
        differ: list[str] = []
        with ThreadPoolExecutor(self._jobs) as pool, ThreadPoolExecutor(self._jobs) as parts:

            def compare(path: str) -> None:
                if not self._same(path, journal, progress):
                    with self._lock:
                        differ.append(path)

            def send(path: str) -> None:
                if journal is None:
                    self._note("sent", path, self._files[path].size)
                else:
                    self._send(path, journal, parts, progress)

            try:
                self._each(pool, planned.compare, compare)
                wanted = [*planned.send, *differ]
                # A large file is sent by all jobs together, so those go last, and the next begins while one ends.
                large = {path for path in wanted if self._target.in_parts(self._files[path])}
                self._each(pool, (path for path in wanted if path not in large), send)
                self._each(pool, sorted(large), send, jobs=2)
                self._judge()
                if delete:
                    self._delete(pool, journal)
            except BaseException:
                self._stop.set()
                raise

    def _judge(self) -> None:
        if self._failed:
            raise DatasetError(
                f"{self._source}: {len(self._failed)} files changed while they were sent or did not arrive whole, "
                f"{TRIES} times each ({', '.join(sorted(self._failed)[:3])}) -> let the source rest, and run again"
            )
        self.outcome.verified = len(self._files) - len(self.outcome.gone)

    def _delete(self, pool: Executor, journal: Journal | None) -> None:
        extra, self.outcome.extra = self.outcome.extra, []
        if journal is not None:
            self._each(pool, extra, self._target.remove)
            for path in extra:
                journal.forget(path)
        self.outcome.removed = extra

    def _each(
        self, pool: Executor, paths: t.Iterable[str], work: t.Callable[[str], None], jobs: int = 0
    ) -> None:
        """Work on all, as many at once as there are jobs, or fewer; the first error stops all."""
        waiting = iter(paths)

        def drain() -> None:
            try:
                while not self._stop.is_set():
                    with self._lock:
                        path = next(waiting, None)
                    if path is None:
                        return
                    work(path)
            except _EndedError:
                return
            except BaseException:
                self._stop.set()
                raise

        for future in [pool.submit(drain) for _job in range(jobs or self._jobs)]:
            future.result()

    def _same(self, path: str, journal: Journal | None, progress: Progress) -> bool:
        """Tell whether the destination has the content of a file, and note it then."""
        entry = self._files[path]
        try:
            done = self._target.same(path, os.path.join(self._source, path), entry)
        except ChangedError:
            return False  # sending it reports its outcome
        if done is None:
            return False
        if journal is not None:
            journal.add(path, done)
        self._note("whole")
        progress.add(1, entry.size)
        return True

    def _send(self, path: str, journal: Journal, parts: Executor, progress: Progress) -> None:
        """Bring one file to the destination, again when it changes meanwhile."""
        local = os.path.join(self._source, path)
        for attempt in range(TRIES):
            entry = self._files[path]
            try:
                done = self._target.send(
                    path, local, entry, parts, functools.partial(self._sent, entry, progress)
                )
            except (ChangedError, DamagedError) as error:
                if isinstance(error, ChangedError):
                    try:
                        info = os.stat(local)
                    except OSError:
                        self._note("gone", path)
                        return
                    self._files[path] = Entry(info.st_size, info.st_mtime_ns)
                    self._note("changed", path)
                if attempt + 1 < TRIES:
                    self._stop.wait(PAUSE * 2**attempt)
                continue
            journal.add(path, done)
            self._note("sent", path, entry.size)
            progress.add(1, 0)
            return
        with self._lock:
            self._failed.append(path)

    def _sent(self, entry: Entry, progress: Progress, size: int) -> None:
        """Count bytes as they arrive. Raises _EndedError if another file has failed, and this one may take hours."""
        if self._stop.is_set() and self._target.in_parts(entry):
            raise _EndedError
        progress.add(0, size)

    def _note(self, what: str, path: str = "", size: int = 0) -> None:
        with self._lock:
            made = self.outcome
            if what == "whole":
                made.whole += 1
            elif what == "sent":
                made.sent.append(path)
                made.bytes_sent += size
            elif path not in getattr(made, what):
                getattr(made, what).append(path)
