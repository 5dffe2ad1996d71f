# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Joins the nodes' parts of a support bundle into one archive, on the control node.

A node may have written anything: what is taken from its part is the content of regular files and the last part of their
names. Modes and owners are ours, and so are the limits.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
import time
import typing as t
import zlib

from .. import safe_path
from ..terminal import printable

#: Of one part, unpacked: a small file can be packed so that it fills every disk.
MOST_BYTES = 4 << 30
MOST_MEMBERS = 10000
_IN_MEMORY = 16 << 20
_DAMAGES = (tarfile.TarError, EOFError, OSError, zlib.error, ValueError)
# Names as contents.member_name writes them, and no others.
_NAME = re.compile(r"[\w.@+,:=~%-]{1,255}(/[\w.@+,:=~%-]{1,255}){0,30}", re.ASCII)


class _Bounded(io.RawIOBase):
    """A stream that ends with an error once it has given too much."""

    def __init__(self, stream: t.IO[bytes], most: int) -> None:
        super().__init__()
        self._stream, self._left = stream, most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("is larger than a part can be")
        return data


def _safe(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not {".", ".."} & set(name.split("/"))


def _members(part: str) -> t.Iterator[tuple[str, t.IO[bytes], int, int]]:
    """Yield name, content, size and time of each file of a part."""
    with gzip.open(part, "rb") as packed:
        bounded = _Bounded(t.cast("t.IO[bytes]", packed), MOST_BYTES)
        # "r|": forwards only, so that nothing is read twice and a header leads nowhere.
        with tarfile.open(fileobj=bounded, mode="r|") as source:
            for number, member in enumerate(source):
                if number >= MOST_MEMBERS:
                    raise ValueError(f"has more than {MOST_MEMBERS} files")
                plain = member.isreg() and not member.issparse()
                content = source.extractfile(member) if plain else None
                name = member.name.lstrip("/")
                if content is None or not _safe(name):
                    continue
                with tempfile.SpooledTemporaryFile(_IN_MEMORY) as whole:
                    shutil.copyfileobj(content, whole)
                    size = whole.tell()
                    whole.seek(0)
                    yield name, t.cast("t.IO[bytes]", whole), size, int(member.mtime)


def _add(tar: tarfile.TarFile, name: str, content: t.IO[bytes], size: int, when: int) -> None:
    # tarfile would write the path, mode and owner that a node gave its member.
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, max(0, min(when, 1 << 33))
    tar.addfile(info, content)


def join(parts: t.Mapping[str, str], hosts: t.Sequence[str], path: str) -> dict[str, t.Any]:
    """Join the nodes' parts into one .tar.gz at path, each below its host's name.

    A part that cannot be read to its end is named in `damaged` with the reason; what was read of it is in the archive.
    """
    top = os.path.basename(path)[: -len(".tar.gz")]
    missing = [host for host in hosts if host not in parts]
    damaged: dict[str, str] = {}
    with (
        safe_path.replacing(path, mode=0o600, make=0o755) as stream,
        tarfile.open(fileobj=stream, mode="w:gz") as tar,
    ):
        for host, part in sorted(parts.items()):
            members = _members(part)
            while True:
                try:
                    found = next(members, None)
                except _DAMAGES as error:
                    damaged[host] = printable(error) or type(error).__name__
                    break
                if found is None:
                    break
                name, content, size, when = found
                _add(tar, f"{top}/{host}/{name}", content, size, when)
        index = {"hosts": sorted(parts), "missing": missing, "damaged": damaged}
        text = json.dumps(index, indent=1).encode() + b"\n"
        _add(tar, f"{top}/index.json", io.BytesIO(text), len(text), int(time.time()))
    size = os.path.getsize(path)
    return {"path": path, "size": size, "missing": missing, "damaged": damaged}
