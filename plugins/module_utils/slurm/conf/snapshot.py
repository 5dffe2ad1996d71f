# Files as they were, to be put back.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files that a change replaces, kept until slurmctld has accepted the new ones."""

from __future__ import annotations

import contextlib
import os

from ansible_collections.trainwright.slurm.plugins.module_utils.node import files


class Snapshot:
    """The files as they were, to be put back when slurmctld refuses the new ones."""

    def __init__(self, changes: list[files.Change]) -> None:
        self._saved = []
        for change in changes:
            with contextlib.suppress(FileNotFoundError):
                info = os.stat(change.path)
                with open(change.path, "rb") as handle:
                    content = handle.read()
                self._saved.append(
                    files.Change(
                        change.path,
                        "file",
                        content,
                        uid=info.st_uid,
                        gid=info.st_gid,
                        mode=info.st_mode & 0o7777,
                    )
                )
        old = {change.path for change in self._saved}
        self._new = [change.path for change in changes if change.path not in old]

    def restore(self) -> None:
        for change in self._saved:
            files.apply(change)
        for path in self._new:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
