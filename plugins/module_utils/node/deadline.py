# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Questions about paths whose file system may not answer: a child asks them, and is left behind when it hangs.

A process that waits for a dead server cannot always be killed, and neither can a thread of it, so this one never looks
itself. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
import typing as t

_READ = 65536


def answers(
    question: t.Callable[[str], t.Any], paths: t.Iterable[str], seconds: float = 5.0
) -> dict[str, t.Any]:
    """Return the answer about each path, without those that had none after so many seconds, twice that for all.

    question: its answer must fit into JSON. Call this before threads are started. Raises OSError with the text of one
    that the question raised.
    """
    found: dict[str, t.Any] = {}
    left = list(dict.fromkeys(paths))
    end = time.monotonic() + 2 * seconds
    while left and time.monotonic() < end:
        lines = _ask(question, left, min(seconds, end - time.monotonic()))
        for path, line in zip(left, lines):
            fault, answer = json.loads(line)
            if fault:
                raise OSError(f"{path}: {fault}")
            found[path] = answer
        # The next one is what the child waits for.
        left = left[len(lines) + 1 :]
    return found


def _ask(question: t.Callable[[str], t.Any], paths: t.Sequence[str], seconds: float) -> list[str]:
    """Return the lines that a child wrote before it hung on a path for so many seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _answer(question, paths, writing)
    os.close(writing)
    text, more = b"", True
    try:
        while more and select.select([reading], [], [], seconds)[0]:
            part = os.read(reading, _READ)
            text, more = text + part, bool(part)
    finally:
        os.close(reading)
        if more:
            os.kill(child, signal.SIGKILL)
        # It may not be able to end.
        os.waitpid(child, os.WNOHANG if more else 0)
    return text.decode().split("\n")[:-1]


def _answer(question: t.Callable[[str], t.Any], paths: t.Sequence[str], writing: int) -> t.NoReturn:
    """Be the child. It must not hold the output of the module, whose end the control node waits for."""
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.closerange(3, writing)
        os.closerange(writing + 1, 1024)
        for path in paths:
            try:
                line = json.dumps(["", question(path)])
            except OSError as error:
                line = json.dumps([error.strerror or str(error), None])
            os.write(writing, f"{line}\n".encode())
    finally:
        os._exit(0)
