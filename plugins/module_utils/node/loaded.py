# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A short digest of the files that a service loads, by names, sizes and times. Runs on nodes: Python 3.9."""

from __future__ import annotations

import glob
import hashlib
import os

from . import spank

# A file that includes itself ends here.
_DEEPEST = 5


def digest(patterns: list[str], plugstack: list[str], plugin_dir: str) -> str:
    """Return 16 hexadecimal digits that change with the files; no file is read but those that plugstack includes.

    A pattern or a plugin that does not begin with / is below plugin_dir. plugstack: lines of plugstack.conf.
    """
    paths = {path for one in patterns for path in glob.glob(os.path.join(plugin_dir or "/", one))}
    paths |= named(plugstack, plugin_dir)
    words = "\n".join(_state(path) for path in sorted(paths))
    return hashlib.sha256(words.encode(errors="surrogateescape")).hexdigest()[:16]


def named(lines: list[str], plugin_dir: str, depth: int = 0) -> set[str]:
    """Return the paths that lines of plugstack.conf name, and those of the files that they include."""
    found: set[str] = set()
    for line in lines:
        kind, path = [*line.split(), "", ""][:2]
        if kind in ("required", "optional") and path:
            found.add(os.path.join(plugin_dir, path))
        elif kind == "include" and os.path.isabs(path) and depth < _DEEPEST:
            for file in glob.glob(path):
                found |= {file, *named(spank.lines(file), plugin_dir, depth + 1)}
    return found


def _state(path: str) -> str:
    """Return name, size and time of a file; of a link those of its target."""
    try:
        info = os.stat(path)
    except OSError:
        return f"{path} is missing"
    return f"{path} {info.st_size} {info.st_mtime_ns}"
