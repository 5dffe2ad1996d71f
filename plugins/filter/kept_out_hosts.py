# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hosts of the play that keeps machines out of a run."""

from __future__ import annotations

DOCUMENTATION = r"""
name: kept_out_hosts
short_description: Return the hosts of the play that keeps machines out of a run
version_added: "1.0.0"
author: The trainwright team (@trainwright)
description:
  - Returns a pattern for C(hosts) of a play, with the hosts in C(kept_out) of the cluster model that only run slurmd,
    and the primary controller if it is in the run. Ansible ends a run when all hosts of a play have failed.
  - Without such hosts the pattern matches no host.
positional: hostvars
options:
  _input:
    description: The variable C(groups).
    type: dict
    required: true
  hostvars:
    description: Variables of all hosts; the cluster model is C(slurm_model) of each host of the run.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the pattern of a run in which c2 is kept out
  ansible.builtin.debug:
    msg: "{{ {'slurm_controller': ['ctl1'], 'slurm_cluster': ['ctl1', 'c1', 'c2']}
             | trainwright.slurm.kept_out_hosts(known) }}"
  vars:
    known: {ctl1: {slurm_model: {kept_out: [{host: c2, service: false}]}}}
"""

RETURN = r"""
_value:
  description: The pattern.
  type: str
  sample: ctl1,c2
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.wanted import NOBODY


def kept_out_hosts(groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Mapping[str, t.Any]) -> str:
    """Return the pattern. Only hosts of the run have the model: with --limit the controllers may not."""
    controllers = list(groups.get("slurm_controller") or [])
    for host in [*controllers, *(groups.get("slurm_cluster") or [])]:
        variables = hostvars.get(host) or {}
        if "slurm_model" not in variables:
            continue
        kept = variables["slurm_model"].get("kept_out") or []
        hosts = [str(item["host"]) for item in kept if not item["service"]]
        if not hosts:
            return NOBODY
        primary = [host] if host in controllers else []
        return ",".join([*primary, *hosts])
    return NOBODY


class FilterModule:
    """The filter of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"kept_out_hosts": kept_out_hosts}
