# Files as they were, to be put back.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files that a change replaces, kept until slurmctld has accepted the new ones."""

from __future__ import annotations

import contextlib
import hashlib
import os
import typing as t
from dataclasses import dataclass, field

from ansible_collections.trainwright.slurm.plugins.module_utils.node import files
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import accepted, syntax

#: Digests of the texts that runs have written, until slurmctld accepts one or the old ones are back.
TRIED = "tried.json"


@dataclass
class Interrupted:
    """Files that a run which was killed has written, and slurmctld has not accepted.

    back: path -> the change that brings back what slurmctld accepted, None if it had accepted that there is none.
    unkept: files without a copy that could come back. tried: path -> digests of the texts that runs wrote there, this
    run too.
    """

    directory: str = ""
    back: dict[str, files.Change | None] = field(default_factory=dict)
    unkept: list[str] = field(default_factory=list)
    tried: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, specs: list[dict], settings: t.Any) -> Interrupted:
        """Compare the disk with the copies of what slurmctld accepted last. Reads only."""
        found = cls(settings.applied_dir)
        found.tried = dict(accepted.read(settings.applied_dir, TRIED))
        listed = accepted.read(settings.applied_dir, accepted.ACCEPTED).get("files", [])
        entries = {entry["path"]: entry for entry in listed}
        for spec in specs:
            path, disk = spec["path"], accepted.text_of(spec["path"])
            text = None if spec["state"] == "absent" else accepted.content(spec)
            if not syntax.read_by_slurmctld(path):
                continue
            # Any other text is somebody's, or slurmctld has started with it, and runs with it.
            ours = (
                disk == text if spec.get("secret") else _digest(disk) in found.tried.get(path, [])
            )
            if disk != text and not spec.get("secret"):
                found.tried[path] = [*found.tried.get(path, []), _digest(text)]
            if not ours:
                continue
            given = accepted.text_of(accepted.path_of(spec, settings))
            if spec.get("secret"):
                same = (accepted.recorded(spec, settings), accepted.plain_digest(spec))
                same_as_given = given in same if text is not None else given is None
                found.unkept += [] if same_as_given or not entries else [path]
                continue
            entry = entries.get(path)
            # Without a copy, or with an empty one, which a power failure may have left.
            if not given and entry:
                given = None if entry["state"] == "absent" else entry["content"] or ""
            if given == disk or _is_refused(path, given, disk, settings):
                continue
            if given is not None or entry:
                found.back[path] = _way_back(path, given, entry or spec)
            elif entries:
                found.unkept.append(path)
        return found

    def begin(self) -> None:
        """Note what is about to be written. On a full disk the change is made without."""
        if self.tried:
            with contextlib.suppress(OSError):
                os.makedirs(self.directory, mode=0o700, exist_ok=True)
                accepted.write(self.directory, TRIED, self.tried)

    def end(self) -> None:
        """Forget it: slurmctld has accepted it or may run with it, or has its old files."""
        if self.directory:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.directory, TRIED))


def _is_refused(path: str, given: str | None, disk: str | None, settings: t.Any) -> bool:
    """Whether the way back is a change that loses jobs: slurmctld may have started with what is there."""
    if os.path.basename(path) != "slurm.conf" or given is None or disk is None:
        return False
    return accepted.decide(disk, given, settings.version).action == "refuse"


def _digest(text: str | None) -> str:
    data = (text or "").encode("utf-8", errors="surrogateescape")
    return "" if text is None else hashlib.sha256(data).hexdigest()


def _way_back(path: str, text: str | None, entry: dict) -> files.Change | None:
    if text is None:
        return None
    data = text.encode("utf-8", errors="surrogateescape")
    with contextlib.suppress(FileNotFoundError):
        return _as_it_is(path, data)
    return files.Change(
        path,
        "file",
        data,
        uid=files.resolve_owner(entry["owner"], "user", path, True),
        gid=files.resolve_owner(entry["group"], "group", path, True),
        mode=files.parse_mode(entry["mode"], path),
    )


def _as_it_is(path: str, data: bytes) -> files.Change:
    """Return the change that gives a file this content, with the owner and mode that it has now."""
    info = os.stat(path)
    return files.Change(
        path, "file", data, uid=info.st_uid, gid=info.st_gid, mode=info.st_mode & 0o7777
    )


class Snapshot:
    """The files as slurmctld had them, to be put back when it refuses the new ones."""

    def __init__(self, changes: list[files.Change], interrupted: Interrupted) -> None:
        self._interrupted = interrupted
        saved = dict(interrupted.back)
        for change in changes:
            if change.path in saved:
                continue
            saved[change.path] = None
            with contextlib.suppress(FileNotFoundError), open(change.path, "rb") as handle:
                saved[change.path] = _as_it_is(change.path, handle.read())
        self._saved = saved

    def restore(self) -> None:
        for path, change in self._saved.items():
            if change:
                files.apply(change)
                continue
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self._interrupted.end()

    def told(self) -> str:
        """Return in words what restore puts back."""
        last = "files that slurmctld accepted last" if self._interrupted.back else "old files"
        paths = ", ".join(self._interrupted.unkept)
        return f"the {last} are back" + (f" (except {paths}: no copy is kept)" if paths else "")
