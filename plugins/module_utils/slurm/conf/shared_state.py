# Whether the second controller sees the state that the first one works with.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The primary writes a new random text into StateSaveLocation in each run, and the backup has to read it there.

A text that stayed from an earlier run would prove nothing: whoever moves the state to another server copies it, too.
It is written in place and closed, and a client of NFS asks its server when it opens a file (close-to-open consistency,
nfs(5)). Both act as slurm, who owns the directory: root may be nobody there. Runs on controllers: Python 3.9.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.node import acting, deadline
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import PrintableError

NAME = "trainwright-state"
USER = "slurm"
_SILENT = "its file system does not answer"
#: Seconds until a file system counts as one that does not answer.
_PATIENCE = 20.0
#: Seconds until a client of NFS no longer goes by what it knew (acdirmax of nfs(5) is 60), and between two looks.
_WAIT, _INTERVAL = 65.0, 1.0


class SharedStateError(PrintableError):
    """The controllers do not share their state; the message has the place, the cause and the remedy."""


def write(directory: str) -> str:
    """Write a new text into the state of this controller, and return it. Raises SharedStateError."""
    text = secrets.token_hex(16)

    def put(path: str) -> bool:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(path, "w", opener=lambda name, _flags: os.open(name, flags, 0o600)) as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        return True

    _done, fault = _as_slurm(put, directory)
    if fault:
        raise SharedStateError(
            f"{directory}: {USER} cannot write there ({fault}), so the state of slurmctld would not be kept -> repair"
            " the mount or its rights on this host, and run again"
        )
    return text


def read(directory: str) -> tuple[str, str]:
    """Return the text that this controller sees, "" for none, and the reason for that."""

    def get(path: str) -> str:
        with open(path, encoding="ascii", errors="replace", opener=acting.regular) as file:
            return file.read(100).strip()

    text, fault = _as_slurm(get, directory)
    return str(text or ""), fault


def refuse_another(directory: str, text: str, primary: str, check: bool) -> None:
    """Raise SharedStateError where this controller does not see the text of the primary.

    In check mode the text is of an earlier run, and a host that is not set up yet does not see any; only another text
    is refused then.
    """
    until = time.monotonic() + _WAIT
    while True:
        seen, fault = read(directory)
        if seen == text or (check and not seen):
            return
        if check or fault.startswith(_SILENT) or time.monotonic() > until:
            break
        time.sleep(_INTERVAL)
    cause = f"{NAME}: {fault or 'another text than the one of this run'}"
    raise SharedStateError(
        f"nothing was written; this host does not see the state of {primary} in {directory} ({cause}), and would take"
        " over without its jobs -> mount the same file system on both, and run again"
    )


def _as_slurm(act: t.Callable[[str], t.Any], directory: str) -> tuple[t.Any, str]:
    """Return what act returns for the path of the text, and why it failed, "" where it did not."""

    def question(path: str) -> t.Any:
        try:
            with acting.as_user(USER):
                return act(path)
        except acting.UnknownUserError:
            raise OSError(errno.ENOENT, f"this host does not have the user {USER}") from None

    path = os.path.join(directory, NAME)
    try:
        found = deadline.answers(question, [path], _PATIENCE)
    except OSError as error:
        return None, str(error).removeprefix(f"{path}: ")
    return (found[path], "") if path in found else (None, f"{_SILENT} within {_PATIENCE:g} s")
