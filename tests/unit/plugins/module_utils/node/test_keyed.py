# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Digests with the random key of a directory."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.trainwright.slurm.plugins.module_utils.node import keyed


def test_an_empty_key_is_none(tmp_path: Path) -> None:
    """A power failure may leave one; others could compute the digests that it makes."""
    key = tmp_path / keyed.KEY
    key.write_text("")
    assert keyed.keyed("x", str(tmp_path)) != keyed.keyed("x", str(tmp_path))
    keyed.make_key(str(tmp_path))
    made = key.read_text()
    assert len(made.strip()) == 64
    assert keyed.keyed("x", str(tmp_path)) == keyed.keyed("x", str(tmp_path))
    keyed.make_key(str(tmp_path))
    assert key.read_text() == made
