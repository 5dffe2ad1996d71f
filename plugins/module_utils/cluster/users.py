# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""cluster_users and cluster_groups with every key present. Pure."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def normalise_users(
    users: Sequence[Mapping[str, t.Any]], groups: Sequence[Mapping[str, t.Any]]
) -> tuple[list[dict[str, t.Any]], list[dict[str, t.Any]]]:
    """Return (users, groups), complete. A user without a gid gets a group of its own.

    An absent user gets none: userdel removes such a group, and the next run would make it again.
    """
    all_groups = {str(group["name"]): int(group["gid"]) for group in groups}
    result = []
    for user in users:
        name, uid = str(user["name"]), int(user["uid"])
        gid = int(user.get("gid") or uid)
        state = str(user.get("state") or "present")
        if state == "present" and gid not in all_groups.values():
            all_groups[name] = gid
        result.append(
            {
                "name": name,
                "uid": uid,
                "gid": gid,
                "groups": [str(group) for group in user.get("groups") or []],
                "shell": str(user.get("shell") or "/bin/bash"),
                "home": str(user.get("home") or f"/home/{name}"),
                "ssh_authorized_keys": [str(key) for key in user.get("ssh_authorized_keys") or []],
                "state": state,
            }
        )
    return result, [{"name": name, "gid": gid} for name, gid in sorted(all_groups.items())]
