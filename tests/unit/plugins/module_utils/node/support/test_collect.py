# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the line on a file that a support bundle leaves out."""

from __future__ import annotations

import os
from pathlib import Path

from ansible_collections.trainwright.slurm.plugins.module_utils.node.support import collect


def test_a_file_of_any_size_that_is_called_a_key_is_described(tmp_path: Path) -> None:
    """A user's sparse file of a terabyte ended the bundle of every host."""
    key, huge = tmp_path / "own.key", tmp_path / "huge.key"
    key.write_bytes(b"k" * 64)
    huge.touch()
    os.truncate(huge, 1 << 40)
    assert " size 64 digest " in collect._described(str(key))
    line = collect._described(str(huge))
    assert f" size {1 << 40}\n" in line and "digest" not in line
