# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The decisions of playbooks/reboot.yml: which hosts, in which order, and whether one is back."""

from __future__ import annotations

DOCUMENTATION = r"""
name: reboot_plan
short_description: Decide which hosts to reboot, and in which order
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the hosts that wait for a reboot, or those that a person named, idle nodes first.
  - A run that was ended goes on. A node that it has drained and that has booted since then is only verified, and one
    that it gave back is left.
positional: slurm_nodes, named, reason, controllers, min_usable, at_once, boot_check, record
options:
  _input:
    description: The registered results of M(trainwright.slurm.node_facts), by host.
    type: dict
    required: true
  slurm_nodes:
    description: RV(trainwright.slurm.slurm_info#module:nodes); empty before there is a cluster.
    type: list
    elements: dict
    required: true
  named:
    description: Whether a person named these hosts; otherwise those with a reason are taken.
    type: bool
    default: false
  reason:
    description: Reason of the person.
    type: str
    default: ""
  controllers:
    description: Hosts that run slurmctld, which Slurm itself cannot reboot.
    type: list
    elements: str
    default: []
  min_usable:
    description: Nodes that have to stay usable during the first wave.
    type: int
    default: 0
  at_once:
    description: Nodes of a wave, a number or a percentage of those to reboot.
    type: str
    default: "1"
  boot_check:
    description: Whether the kernel has to be restarted, which that of a container cannot be.
    type: bool
    default: true
  record:
    description: The record of the first controller, which has the host of each node where their names differ.
    type: dict
    default: {}
    version_added: "1.2.0"
"""

EXAMPLES = r"""
- name: Show what waits for a reboot
  ansible.builtin.debug:
    msg: "{{ ({'c1': {'node': facts}} | trainwright.slurm.reboot_plan([])).lines }}"
  vars:
    facts:
      {boot_id: 5fec, mounts: [], unmounted: [], services: {}, reboot: [{part: system, reason: upgrade of linux-6.12}]}
  # ["c1: system: upgrade of linux-6.12"]
"""

RETURN = r"""
_value:
  description: The plan.
  type: dict
  contains:
    hosts:
      description: >-
        In order, C(host), C(why), C(done) (rebooted already, to be verified), C(node) (its name in Slurm, empty where
        Slurm does not know it), C(through_slurm) (Slurm reboots it), C(uses) (the paths to use before it is judged,
        since an automount mounts nothing that nobody uses), and of its facts, those to compare afterwards
        (C(before)).
      type: list
      elements: dict
    through_slurm: {description: Hosts that Slurm reboots., type: list, elements: str}
    directly: {description: The other hosts., type: list, elements: str}
    mark: {description: Hosts that get RV(_value.text) as their reason., type: list, elements: str}
    text: {description: The reason of the person and when it was given., type: str}
    problems: {description: Why nothing can be rebooted., type: list, elements: str}
    waiting: {description: Hosts that wait for a reboot and cannot have it now., type: list, elements: str}
    lines: {description: The plan for a person., type: list, elements: str}
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import reboot


def reboot_plan(
    answers: t.Mapping[str, t.Any],
    slurm_nodes: t.Sequence[t.Mapping[str, t.Any]],
    named: bool = False,
    reason: str = "",
    controllers: t.Sequence[str] = (),
    min_usable: int = 0,
    at_once: str = "1",
    boot_check: bool = True,
    record: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """Return the plan."""
    floor = reboot.Floor(int(min_usable), str(at_once))
    return reboot.plan(
        answers, slurm_nodes, named, str(reason), controllers, floor, boot_check, record
    )


def reboot_faults(
    before: t.Mapping[str, t.Any],
    after: t.Mapping[str, t.Any],
    boot_check: bool = True,
    done: bool = False,
) -> list[str]:
    """Return why a host that was rebooted must not work yet."""
    return reboot.still_wrong(before, after, boot_check, done)


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "reboot_faults": reboot_faults,
            "reboot_plan": reboot_plan,
            "reboot_reason": reboot.slurm_reason,
        }
