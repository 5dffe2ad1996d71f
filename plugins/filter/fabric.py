# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Descriptions for slurm_topology from a fabric's output; each filter is documented in its own .yml."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import fabric
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.hostlist import (
    HostlistError,
    read,
)


def ib_switches(text: str, nodes: t.Any = None, device: str = "") -> list[dict[str, str]]:
    """Return slurm_topology.switches for the output of ibnetdiscover."""
    try:
        return fabric.ib_switches(text, None if nodes is None else read(nodes), device)
    except (fabric.FabricError, HostlistError) as error:
        raise AnsibleFilterError(f"ib_switches: {error}") from error


def nvlink_blocks(texts: t.Mapping[str, str]) -> list[dict[str, str]]:
    """Return slurm_topology.blocks for node name -> output of nvidia-smi -q."""
    if not isinstance(texts, t.Mapping):
        raise AnsibleFilterError(
            f"nvlink_blocks: it takes a mapping of node names to texts, not {type(texts).__name__}"
            " -> give {node: output of nvidia-smi -q}"
        )
    try:
        return fabric.nvlink_blocks(texts)
    except (fabric.FabricError, HostlistError) as error:
        raise AnsibleFilterError(f"nvlink_blocks: {error}") from error


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"ib_switches": ib_switches, "nvlink_blocks": nvlink_blocks}
