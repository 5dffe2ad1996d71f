# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes the collection importable by its full name, and the helpers beside the tests."""

from __future__ import annotations

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
_links = ROOT / ".collections" / "ansible_collections" / "trainwright"
if not (_links / "slurm").exists():
    _links.mkdir(parents=True, exist_ok=True)
    (_links / "slurm").symlink_to(ROOT)
# Before site-packages, whose ansible_collections would else be found alone.
sys.path[:0] = [str(ROOT / ".collections"), str(pathlib.Path(__file__).parent)]
