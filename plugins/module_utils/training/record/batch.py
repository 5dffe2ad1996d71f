# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keeps the record of a run, one JSON file, and writes into it what only its job knows. Batch scripts carry this file.

`start PATH JOB PID` notes nodes and versions of the host each time the job starts, `end PATH JOB CODE` how its script
ended. The submission writes its part after the job has its number, so the first start waits for that.
Runs on nodes: Python 3.9, standard library.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import re
import stat
import subprocess
import sys
import time
import typing as t

Json = dict[str, t.Any]

SCHEMA_NAME = "trainwright.run/1"
LARGEST = 4 * 2**20  # bytes of a record
MOST_STARTS = 100  # the last ones are kept
_PATIENCE = 60  # seconds for the submission to write its part
_TEXT = 300  # characters of a text from elsewhere


def read_own(path: str) -> Json:
    """Return the record in a file of this user; {} for anything else that has its name."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return {}
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(handle)
        whole = stat.S_ISREG(info.st_mode) and info.st_size <= LARGEST
        if not whole or info.st_uid != os.geteuid():
            return {}
        try:
            found = json.loads(file.read(LARGEST).decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return {}
    return found if isinstance(found, dict) and found.get("schema") == SCHEMA_NAME else {}


def change(path: str, job: str, edit: t.Callable[[Json], None]) -> None:
    """Change the record at a path, or begin one, for its owner's eyes alone, whole or not at all. Raises OSError."""
    directory, name = os.path.split(path)
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(place)
        record = read_own(path) or {"schema": SCHEMA_NAME, "job": {"id": job}}
        edit(record)
        new = f".{name}-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(new, flags, 0o600, dir_fd=place)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
                json.dump(record, file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, name, src_dir_fd=place, dst_dir_fd=place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new, dir_fd=place)
            raise
    finally:
        os.close(place)


def _lock(place: int) -> None:
    """Keep two writers apart, where the file system can; they seldom meet."""
    for _turn in range(20):
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.1)
        except OSError:
            return


# -- the job's own part ----------------------------------------------------------------------------
def host() -> Json:
    """Return what the host of the batch script has: names and versions, "" where it does not say."""
    first = re.search(r"(\d+(?:\.\d+)+)", _first("/proc/driver/nvidia/version"))
    cuda = re.search(r'"version"\s*:\s*"([\d.]+)"', _first("/usr/local/cuda/version.json", 4096))
    named = re.search(r'^PRETTY_NAME="?([^"\n]*)', _first("/etc/os-release", 4096), re.MULTILINE)
    return {
        "host": platform.node()[:_TEXT],
        "kernel": platform.release()[:_TEXT],
        "os": named[1][:_TEXT] if named else "",
        # Debian writes slurm-wlm before it.
        "slurm": _said("scontrol", "--version").strip().rpartition(" ")[2][:40],
        "driver": first[1] if first else "",
        "cuda": cuda[1] if cuda else "",
        "efa": _first("/opt/amazon/efa_installed_packages").strip()[:_TEXT],
        "python": platform.python_version(),
    }


def _first(path: str, most: int = _TEXT) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(most)
    except OSError:
        return ""


def _said(*command: str) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


def start(path: str, job: str, shell: int) -> None:
    """Note a start of the job. shell: the process of its batch script, without which nothing is waited for."""
    values = os.environ
    restart = values.get("SLURM_RESTART_COUNT") or "0"
    began = values.get("RUN_BEGAN") or ""
    one = {
        "time": int(began) if began.isdigit() else int(time.time()),
        "restart": int(restart) if restart.isdigit() else 0,
        "nodes": values.get("SLURM_JOB_NODELIST", "")[:4096],
        "gpus": values.get("SLURM_GPUS_ON_NODE", "")[:_TEXT],
        **host(),
    }
    deadline = time.monotonic() + _PATIENCE
    while (
        not read_own(path).get("submitted") and time.monotonic() < deadline and not one["restart"]
    ):
        time.sleep(0.5)
        try:
            os.kill(shell, 0)
        except OSError:
            break

    def note(record: Json) -> None:
        before = record.get("starts")
        record["starts"] = [*(before if isinstance(before, list) else []), one][-MOST_STARTS:]
        ended = record.get("end")
        # A script that ends at once may have written its own end by now.
        own = isinstance(ended, dict) and _number(ended.get("time")) >= one["time"]
        record["end"] = ended if own or not one["restart"] else None

    change(path, job, note)


def _number(value: t.Any) -> int:
    return value if isinstance(value, int) else 0


def end(path: str, job: str, code: int) -> None:
    """Note how the batch script has ended."""

    def note(record: Json) -> None:
        record["end"] = {"time": int(time.time()), "state": "", "exit_code": code}

    change(path, job, note)


def main(words: t.Sequence[str]) -> int:
    """Take a step: start or end, PATH, JOB, and a number."""
    step, path, job, number = words
    try:
        (start if step == "start" else end)(path, job, int(number))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        sys.stderr.write(f"record: {path}: {why} -> the record of this run is not complete\n")
        return 1
    return 0
