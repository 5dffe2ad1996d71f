# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files that a unit has run with, to be put back when it does not run with new ones. Runs on nodes: Python 3.9."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import typing as t

from . import keyed
from .terminal import PrintableError

DIRECTORY = "/var/lib/trainwright/proved"
_File = t.Optional[dict[str, t.Any]]


class ProvedError(PrintableError):
    """A file that cannot be put back, or brought back; the message has the path, the cause and the remedy."""


class Proved:
    """One small file a unit, which only root can read, as the files may have passwords."""

    def __init__(self, directory: str = DIRECTORY) -> None:
        self.directory = directory

    def _path(self, unit: str) -> str:
        return os.path.join(self.directory, f"{unit}.json")

    def kept(self, unit: str) -> dict[str, _File]:
        """Return the files as they were when the unit last ran; {} if nothing is kept."""
        try:
            with open(self._path(unit), encoding="utf-8") as handle:
                return dict(json.load(handle))
        except (OSError, ValueError):
            return {}

    def keep(self, unit: str, paths: t.Iterable[str]) -> None:
        """Keep the files as they are: the unit runs with them. Raises OSError with the path."""
        found = {path: _read(path) for path in paths}
        if found and found != self.kept(unit):
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            keyed.write_private(self._path(unit), json.dumps(found, sort_keys=True))

    @contextlib.contextmanager
    def instead(self, unit: str, paths: t.Iterable[str]) -> t.Iterator[bool]:
        """Put the kept files back for the block; whether they differ. An exception brings the new ones back.

        Raises ProvedError, for a full disk.
        """
        kept = self.kept(unit)
        new = {path: _read(path) for path in paths if path in kept}
        changed = [path for path in new if new[path] != kept[path]]
        try:
            for path in changed:
                _write(path, kept[path])
            yield bool(changed)
        except BaseException as error:
            stuck = [fault for path in changed for fault in _brought_back(path, new[path])]
            if stuck:
                raise ProvedError("Not all of them are new again: " + "; ".join(stuck)) from error
            raise


def _brought_back(path: str, new: _File) -> list[str]:
    """Bring the new form of a file back where it is not there; return why that fails."""
    try:
        if _read(path) != new:
            _write(path, new)
    except (ProvedError, OSError) as error:
        return [str(error)]
    return []


def _read(path: str) -> _File:
    try:
        info = os.stat(path)
        with open(path, "rb") as handle:
            content = base64.b64encode(handle.read()).decode("ascii")
    except FileNotFoundError:
        return None
    mode = info.st_mode & 0o7777
    return {"content": content, "uid": info.st_uid, "gid": info.st_gid, "mode": mode}


def _write(path: str, file: _File) -> None:
    """Write a file, or remove it. Raises ProvedError."""
    # Compiling it takes longer than the rest of most calls, which put nothing back.
    from . import files

    change = files.Change(path, "absent")
    if file is not None:
        owner = {name: file[name] for name in ("uid", "gid", "mode")}
        change = files.Change(path, "file", base64.b64decode(file["content"]), **owner)
    try:
        files.apply(change)
    except files.FilesError as error:
        raise ProvedError(str(error)) from error
