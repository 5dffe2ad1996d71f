# Whether another run has written a file since this one read it.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Two runs may begin with the same files; the one that ends later would take back what the other did."""

from __future__ import annotations

import hashlib
import typing as t


def changed_since(read: t.Mapping[str, str], specs: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the files that are neither as they were read nor as they are wanted. Raises OSError.

    read: by path the SHA-256 of the text that was read, "" for no file.
    """
    wanted = {spec["path"]: spec.get("content") for spec in specs}
    return [
        path for path, then in read.items() if _digest(path) not in (then, _of(wanted.get(path)))
    ]


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as handle:
            return hashlib.sha256(handle.read()).hexdigest()
    except FileNotFoundError:
        return ""


def _of(content: str | None) -> str:
    return (
        ""
        if content is None
        else hashlib.sha256(content.encode(errors="surrogateescape")).hexdigest()
    )
