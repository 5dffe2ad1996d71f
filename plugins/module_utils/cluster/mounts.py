# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""cluster_mounts with every key present. Pure."""

from __future__ import annotations

import itertools
import re
import typing as t

from ..slurm.conf.pairs import text_of
from .inputs import is_true

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


#: Directories of one pattern.
MOST = 4096
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"([0-9]{1,18})\.\.([0-9]{1,18})")


def expand(pattern: str) -> list[str]:
    """Return the paths of a pattern: {1..7} is each number, {01..12} with two digits, {a,b} each word.

    Raises ValueError: what is wrong with it.
    """
    parts: list[list[str]] = []
    count = 1
    for index, text in enumerate(_BRACES.split(pattern)):
        words = [text]
        if index % 2:
            bounds = _RANGE.fullmatch(text)
            if bounds:
                first, last = int(bounds[1]), int(bounds[2])
                width = len(bounds[1]) if bounds[1].startswith("0") else 0
                if last < first:
                    raise ValueError(f"{{{text}}} counts down")
                # Only as many as are needed to see that they are too many.
                last = min(last, first + MOST)
                words = [f"{number:0{width}d}" for number in range(first, last + 1)]
            elif "," in text and all(text.split(",")):
                words = text.split(",")
            else:
                raise ValueError(
                    f"{{{text}}} is neither a range such as {{1..7}} nor words such as {{a,b}}"
                )
        elif "{" in text or "}" in text:
            raise ValueError("has a brace without its partner")
        count *= len(words)
        if count > MOST:
            raise ValueError(f"stands for more than {MOST} directories")
        parts.append(words)
    return ["".join(words) for words in itertools.product(*parts)]


def normalise_mounts(mounts: Sequence[Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return cluster_mounts with every key present; a parent comes before the mounts inside it."""
    result = []
    for mount in mounts:
        options = mount.get("options") or "defaults"
        result.append(
            {
                "path": str(mount["path"]).rstrip("/") or "/",
                "source": str(mount.get("source") or ""),
                "fstype": str(mount.get("fstype") or "nfs"),
                "options": text_of(options),
                "purpose": mount.get("purpose") or "",
                "directories": [
                    {
                        "path": path,
                        "owner": item.get("owner", "root"),
                        "group": item.get("group", "root"),
                        "mode": str(item.get("mode", "0755")),
                        "recursive": is_true(item.get("recursive", False)),
                        "remove_after_days": int(item.get("remove_after_days") or 0),
                    }
                    for item in mount.get("directories") or []
                    for path in expand(str(item["path"]))
                ],
            }
        )
    return sorted(result, key=lambda mount: mount["path"])
