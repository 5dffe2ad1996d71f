# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The directory of the manifest of a node: its key, its files, and the digest for which the node was set up.

That digest counts only for a run that was alone: of two at once, each may have changed what the other one has written.
So changes are counted by the run that made them.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import stat
import tempfile
import typing as t

from .terminal import PrintableError

DIRECTORY = "/var/lib/trainwright/manifest"
KEY = ".key"
#: The digest of what was wanted here when the last whole run had ended.
WANTED = ".wanted"
#: How many calls have changed something here, and how many of them were of each of the latest runs.
CALLS = ".calls"
_RUNS = 8
#: Bytes of a file that are read. The longest of this collection has some 100 kB.
_MOST = 16 << 20


class ManifestError(PrintableError):
    """A manifest that cannot be written; the message has the path, the cause and the remedy."""


# -- files -----------------------------------------------------------------------------------------------------
def text(path: str) -> str:
    """Return the content of a regular file. Raises OSError, and ValueError for what is none."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("is not a regular file")
        data = stream.read(_MOST + 1)
    if len(data) > _MOST:
        raise ValueError(f"has more than {_MOST >> 20} MiB")
    return data.decode()


def sync(directory: str) -> None:
    """Bring the names in a directory to the disk. Raises OSError."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: str, text: str, replace: bool = True, durable: bool = True) -> None:
    """Write a file that only root reads, whole or not at all.

    durable: also where the power fails. Without it the file may be the old one then, or one that cannot be read.
    """
    directory = os.path.dirname(path)
    handle, temporary = tempfile.mkstemp(prefix=".new-", dir=directory)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    if durable:
        sync(directory)


def key_of(directory: str) -> str:
    """Return the key of the digests, "" where there is none. Raises OSError."""
    try:
        with open(os.path.join(directory, KEY), encoding="ascii", errors="replace") as handle:
            return handle.read(200).strip()
    except FileNotFoundError:
        return ""


def prepare(directory: str = DIRECTORY) -> None:
    """Make the directory, for root alone, and the key."""
    os.makedirs(os.path.dirname(directory), mode=0o755, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    info = os.lstat(directory)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise ManifestError(
            f"{directory}: is not a directory of root, so what this run leaves cannot be recorded there."
            " Remedy: find out who made it, and remove it"
        )
    if stat.S_IMODE(info.st_mode) != 0o700:
        os.chmod(directory, 0o700)
    if not key_of(directory):
        path = os.path.join(directory, KEY)
        with contextlib.suppress(FileNotFoundError):
            if not os.path.getsize(path):
                os.unlink(path)
        with contextlib.suppress(FileExistsError):
            write(path, secrets.token_hex(32) + "\n", replace=False)


# -- what was wanted -------------------------------------------------------------------------------------------
def wanted(directory: str = DIRECTORY) -> str:
    """Return the digest for which the node was set up last; "" where an entry was changed or removed since."""
    try:
        kept, _blank, entries = text(os.path.join(directory, WANTED)).strip().partition(" ")
        return kept if entries == _digest_of_entries(directory) else ""
    except (OSError, ValueError):
        return ""


def is_whole(directory: str = DIRECTORY) -> bool:
    """Whether the entries are those of the last whole run, or a call has begun to change them since. Raises OSError."""
    try:
        entries = text(os.path.join(directory, WANTED)).strip().partition(" ")[2]
        return entries == _digest_of_entries(directory)
    except FileNotFoundError:
        return True
    except ValueError:
        return False


def remember(
    digest_of_wanted: str, directory: str = DIRECTORY, run: str = "", others: int | None = None
) -> bool:
    """Keep the digest for which a whole run has set the node up; return whether that run was alone.

    others: of_others() of the run before its first change, None where nobody counted.
    Raises ManifestError, and OSError.
    """
    prepare(directory)
    with _locked(directory):
        if others is not None and of_others(run, directory) != others:
            return False
        if wanted(directory) != digest_of_wanted:
            line = f"{digest_of_wanted} {_digest_of_entries(directory)}\n"
            write(os.path.join(directory, WANTED), line)
    return True


def _digest_of_entries(directory: str) -> str:
    """Return a digest of all entries: what is not recorded any more is not looked at. Raises OSError and ValueError."""
    made = hashlib.sha256()
    for name in sorted(name for name in os.listdir(directory) if name.endswith(".json")):
        content = text(os.path.join(directory, name))
        made.update(f"{name}\0{len(content)}\0{content}\0".encode())
    return made.hexdigest()


def of_others(run: str, directory: str = DIRECTORY) -> int:
    """Return how many calls of other runs have changed something here, -1 where that is not known."""
    found = _calls(directory)
    return found[0] - found[1].get(run, 0) if found else -1


def forget(directory: str = DIRECTORY, run: str = "") -> None:
    """Remove the digest, before a call of a run changes something: an interrupted run leaves none. Raises OSError."""
    with _locked(directory):
        # A file that cannot be read may have had any number.
        total, runs = _calls(directory) or (secrets.randbelow(1 << 48), {})
        count = runs.pop(run, 0) + 1
        latest = [*runs.items()][1 - _RUNS :]
        write(
            os.path.join(directory, CALLS),
            json.dumps({"total": total + 1, "runs": dict([*latest, (run, count)])}) + "\n",
            durable=False,
        )
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, WANTED))
            sync(directory)


def _calls(directory: str) -> tuple[int, dict[str, int]] | None:
    """Return the number of calls, and those of each run; none before the first, None where they cannot be read."""
    try:
        found = json.loads(text(os.path.join(directory, CALLS)))
        return int(found["total"]), {str(run): int(count) for run, count in found["runs"].items()}
    except FileNotFoundError:
        return 0, {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


@contextlib.contextmanager
def _locked(directory: str) -> t.Iterator[None]:
    """Keep other calls from the digest and the numbers. Ends with the process at the latest."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
