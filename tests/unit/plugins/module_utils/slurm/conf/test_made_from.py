# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run does not take back what another one did since it began."""

from __future__ import annotations

import hashlib
import pathlib

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf.made_from import (
    changed_since,
)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_file_that_another_run_has_written_is_found(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "record.json")
    wanted = [{"path": path, "content": "ours: ö\n"}]
    # The first run finds no file, and so does the next if nobody has written one.
    assert changed_since({path: ""}, wanted) == []
    assert changed_since({path: digest("then")}, wanted) == [path]
    pathlib.Path(path).write_text("then")
    assert changed_since({path: digest("then")}, wanted) == []
    assert changed_since({path: ""}, wanted) == [path]
    assert changed_since({path: digest("before")}, wanted) == [path]
    # A run that was killed after it had written the file.
    pathlib.Path(path).write_text("ours: ö\n")
    assert changed_since({path: digest("before")}, wanted) == []
    assert changed_since({}, wanted) == []
