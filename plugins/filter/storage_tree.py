# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The directories of a storage policy, on the mounts that have their purposes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: storage_tree
short_description: Add the directories of a storage policy to mounts
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the mounts with a directory for each entry of the policy, on the first mount that has one of the entry's
    purposes, those with its first purpose first. An entry without such a mount is left out.
  - A directory that a mount lists itself stays as it is.
positional: policy, group
options:
  _input:
    description: The mounts of the cluster model, with C(path), C(purpose) and C(directories).
    type: list
    elements: dict
    required: true
  policy:
    description: Entries with C(name), C(purposes), C(mode), C(open) (the mode without a group), C(remove_after_days).
    type: list
    elements: dict
    required: true
  group:
    description: Group of the directories; empty is root's.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show what would be made
  ansible.builtin.debug:
    msg: "{{ mounts | trainwright.slurm.storage_tree(policy, 'research') }}"
  vars:
    mounts:
      - {path: /fsx, purpose: shared, directories: []}
    policy:
      - {name: datasets, purposes: [data, shared], mode: "2775", open: "1777", remove_after_days: 0}
"""

RETURN = r"""
_value:
  description: The mounts, with more directories.
  type: list
  elements: dict
"""

import typing as t

Mount = t.Mapping[str, t.Any]


def _place(mounts: t.Sequence[Mount], purposes: t.Sequence[str]) -> str:
    """Return the path of the first mount with the first of the purposes that any mount has."""
    found = (
        mount["path"] for purpose in purposes for mount in mounts if mount["purpose"] == purpose
    )
    return str(next(found, ""))


def storage_tree(
    mounts: t.Sequence[Mount], policy: t.Sequence[Mount], group: str = ""
) -> list[dict[str, t.Any]]:
    """Return the mounts with the directories of the policy."""
    more: dict[str, list[dict[str, t.Any]]] = {}
    for entry in policy:
        place = _place(mounts, entry["purposes"])
        directory = {
            "path": f"{place}/{entry['name']}",
            "owner": "root",
            "group": group or "root",
            "mode": entry["mode"] if group else entry["open"],
            "recursive": False,
            "remove_after_days": entry["remove_after_days"],
        }
        if place:
            more.setdefault(place, []).append(directory)
    found = []
    for mount in mounts:
        own = {str(one["path"]).rstrip("/") for one in mount["directories"]}
        added = [one for one in more.get(mount["path"], []) if one["path"] not in own]
        found.append({**mount, "directories": [*mount["directories"], *added]})
    return found


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"storage_tree": storage_tree}
