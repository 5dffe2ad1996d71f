# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The file with a job's secrets: written for its owner alone, removed when the job is gone.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import re
import shlex
import time
import typing as t

from ...node import acting

#: A file that no job is known for stays this long, in seconds: its job may just have been submitted.
GRACE = 300.0
_MOST = 1 << 20
_NAME = re.compile(r"(\d+)(_\d+)?")


class SecretError(ValueError):
    """A secret that is missing or cannot be read; the message never has its value."""


def content(secrets: t.Mapping[str, str]) -> str:
    """Return the lines of the file: NAME=value, quoted for the shell."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in secrets.items())


def values(
    wanted: t.Sequence[t.Mapping[str, str]], given: t.Mapping[str, t.Any], vault: str = ""
) -> dict[str, str]:
    """Return the value of each secret by its name.

    wanted: with name, and file for those that given has not. A file's last line break is not part of the
    value. vault: how else to give one, with {} for its name. Raises SecretError.
    """
    found = {}
    for one in wanted:
        name, path = one["name"], one.get("file") or ""
        if given.get(name) is not None:
            found[name] = str(given[name])
        elif not path:
            raise SecretError(
                f"secrets.{name}: has no value -> name a file with it (file:){vault.format(name)}"
            )
        else:
            found[name] = _read(name, path)
    return found


def _read(name: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8", opener=acting.regular) as file:
            value = file.read(_MOST + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not text"
        raise SecretError(
            f"secrets.{name}: {path}: {why} -> give a file that the job's owner can read"
        ) from None
    if len(value) > _MOST:
        raise SecretError(
            f"secrets.{name}: {path} has more than {_MOST} characters -> give a file with one value"
        )
    if not value.strip():
        raise SecretError(f"secrets.{name}: {path} is empty -> write the value into it")
    return value.rstrip("\r\n")


def differs(path: str, text: str) -> bool:
    """Return whether a file has another content or mode, or is not there."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() != text or os.stat(path).st_mode & 0o777 != 0o600
    except OSError:
        return True


def write(path: str, text: str) -> None:
    """Write a file of mode 0600, whole or not at all."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    new = f"{path}.{os.getpid()}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def stale(directory: str, needed: t.Callable[[int, int | None], bool]) -> list[str]:
    """Return the files whose jobs are gone: cancelled before they began, or killed with no time to clean up.

    needed: whether the job of a number, or the task of an array, waits or runs.
    """
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    found = []
    for name in names:
        match = _NAME.match(name)
        path = os.path.join(directory, name)
        try:
            age = time.time() - os.lstat(path).st_mtime
        except FileNotFoundError:
            continue  # its job, or another submission, has just removed it
        if not match or age <= GRACE:
            continue
        if not needed(int(match[1]), int(match[2][1:]) if match[2] else None):
            found.append(path)
    return found


def tasks(array: str) -> list[int]:
    """Return the indices of an array such as 0-7%4 or 1,3,10-20:5."""
    found: list[int] = []
    for part in array.partition("%")[0].split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part.strip())
        if not match:
            raise SecretError(f"array: {array!r} -> write it as sbatch takes it, such as 0-7%4")
        first, last, step = match.groups()
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return found
