# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The mounts of one host, which may itself serve some of them to the others."""

from __future__ import annotations

DOCUMENTATION = r"""
name: host_mounts
short_description: Find the mounts of a host, and the directories that it makes on them
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the mounts of a host. An NFS mount from the host's own exports becomes a bind mount of the exported
    directory, since NFS from a host to itself can block when memory is short.
  - A mount keeps its directories on the host that makes them. For exports of the cluster's own servers, that is the
    server, whose root is not squashed there. For all other storage with a server it is the first host, and for local
    file systems each host.
positional: exports, host, first
options:
  _input:
    description: The mounts of the cluster model, with C(path), C(source), C(fstype), C(options) and C(directories).
    type: list
    elements: dict
    required: true
  exports:
    description: C(nfs_exports) of the cluster model.
    type: dict
    required: true
  host:
    description: Name of the host in the inventory.
    type: str
    required: true
  first:
    description: Whether it is the first host of the run.
    type: bool
    required: true
"""

EXAMPLES = r"""
- name: Show the mounts of the server
  ansible.builtin.debug:
    msg: "{{ mounts | trainwright.slurm.host_mounts(exports, 'nas1', false) }}"
  vars:
    mounts:
      - {path: /home, source: "nas1:/srv/home", fstype: nfs4, options: defaults, directories: []}
    exports:
      nas1: {names: [nas1], exports: [{path: /srv/home}]}
"""

RETURN = r"""
_value:
  description: The mounts.
  type: list
  elements: dict
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.nfs import server_of
from ansible_collections.trainwright.slurm.plugins.module_utils.node.mounting import is_own

Mount = t.Mapping[str, t.Any]


def host_mounts(
    mounts: t.Sequence[Mount], exports: t.Mapping[str, Mount], host: str, first: bool
) -> list[dict[str, t.Any]]:
    """Return the mounts of a host, with the directories that it makes."""
    found = []
    for mount in mounts:
        server = server_of(mount, exports)
        makes = is_own(mount["fstype"]) or (server == host if server else first)
        one = {**mount, "directories": mount["directories"] if makes else []}
        if server == host:
            source = str(mount["source"]).rpartition(":")[2].rstrip("/")
            options = str(mount.get("options") or "").split(",")
            one |= {
                "source": source,
                "fstype": "none",
                "options": "bind,ro" if "ro" in options else "bind",
            }
        found.append(one)
    return found


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"host_mounts": host_mounts}
