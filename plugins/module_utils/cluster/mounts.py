# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""cluster_mounts with every key present. Pure."""

from __future__ import annotations

import typing as t

from ..slurm.conf.pairs import text_of

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
                        "path": str(item["path"]),
                        "owner": item.get("owner", "root"),
                        "group": item.get("group", "root"),
                        "mode": str(item.get("mode", "0755")),
                    }
                    for item in mount.get("directories") or []
                ],
            }
        )
    return sorted(result, key=lambda mount: mount["path"])
