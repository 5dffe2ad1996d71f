# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes and reads a file on a shared mount, with Python's standard library alone, and prints one line of JSON.

It stands in for IOR and fio: one stream, written through to the server (fsync). The read asks the kernel to drop its
pages first; a file system may keep its own copy all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time

BLOCK = 1 << 20


def write(path: str, blocks: int, data: bytes) -> float:
    """Return the seconds until all blocks are on the server."""
    begin = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for _ in range(blocks):
            file.write(data)
        os.fsync(file.fileno())
    return time.perf_counter() - begin


def read(path: str, data: bytes) -> tuple[float, bool]:
    """Return the seconds to read the file, and whether it is what was written."""
    good = True
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        begin = time.perf_counter()
        while block := file.read(BLOCK):
            good = good and block == data
        took = time.perf_counter() - begin
    return took, good


def main() -> None:
    """Write, read, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", help="in which to make and remove a file")
    parser.add_argument("--mebibytes", type=int, default=256)
    given = parser.parse_args()
    data = os.urandom(BLOCK)
    try:
        with tempfile.TemporaryDirectory(prefix="validation-", dir=given.directory) as place:
            path = os.path.join(place, "data")
            written = write(path, given.mebibytes, data)
            took, good = read(path, data)
    except OSError as error:
        sys.exit(f"{given.directory}: {error.strerror}")
    size = given.mebibytes * BLOCK / 1e9
    figures = {"write": size / written, "read": size / max(took, 1e-9)}
    faults = [] if good else ["the file was read back with other data than was written"]
    print(json.dumps({"trainwright": 1, "figures": figures, "faults": faults}))


if __name__ == "__main__":
    main()
