# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A tree that its owner changes while it is walked."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.trainwright.slurm.plugins.module_utils.node import safe_path, walk


def test_a_directory_that_its_owner_moves_does_not_lead_elsewhere(tmp_path: Path) -> None:
    """What is beside its new place is not walked, and what is left of the tree is."""
    for name in ("top/a/b/c", "top/z", "elsewhere/secret"):
        (tmp_path / name).mkdir(parents=True)
    seen = []
    with safe_path.directory(str(tmp_path / "top")) as top:
        for name, _fd, _info in walk.tree(top.fd):
            seen.append(name)
            if name == "c":
                (tmp_path / "top/a/b").rename(tmp_path / "elsewhere/b")
    assert sorted(seen) == ["a", "b", "c", "z"]
