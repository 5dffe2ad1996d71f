# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A lock that keeps apart the submissions of jobs of one name by one user. Runs on nodes: Python 3.9."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import typing as t
from pathlib import Path

from ..errors import SlurmError

_LONGEST = 100  # characters of a job's name in that of its lock
#: Seconds for which a module waits for another submission, which may import an image.
PATIENCE = 900.0
_PAUSE = 0.2
_HELD: set[int] = set()


@contextlib.contextmanager
def alone(
    names: t.Iterable[str],
    say: t.Callable[[str], None] = lambda line: None,
    patience: float = float("inf"),
) -> t.Iterator[None]:
    """Keep out other submissions of this user of jobs of these names, where the home can hold locks.

    Where it cannot, nothing is kept out. say: called with a line before a wait. patience: seconds to wait; the lock of
    a process that is gone is free, once its sbatch has ended (see handles()). Raises SlurmError: timeout.
    """
    with contextlib.ExitStack() as held:
        for name in sorted({name[:_LONGEST].replace("/", "_") for name in names}):
            path = Path.home() / f".config/trainwright/submit-{name}.lock"
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            try:
                os.makedirs(path.parent, mode=0o700, exist_ok=True)
                file = held.enter_context(os.fdopen(os.open(path, flags, 0o600), "r+"))
                _lock(file.fileno(), name, say, patience)
            except OSError:
                continue
            held.callback(_HELD.discard, file.fileno())
            _HELD.add(file.fileno())
        yield


def handles() -> tuple[int, ...]:
    """Return the locks that this process holds, for sbatch to inherit: it submits even if this process is killed."""
    return tuple(_HELD)


def _lock(handle: int, name: str, say: t.Callable[[str], None], patience: float) -> None:
    """Take a lock. Raises OSError where the file system does not have them, SlurmError after the patience."""
    until = time.monotonic() + patience
    told = False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise SlurmError(
                    "timeout",
                    f"job {name}: another submission of it has been under way for {patience:g} s -> wait for it, or end"
                    " it (`train submit`, or a playbook)",
                ) from None
        if not told:
            say(f"job {name}: is being submitted already: waiting for that")
            told = True
        time.sleep(_PAUSE)
