#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Drains, resumes, sets down and reboots nodes, and changes their weight, features and comment."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node
short_description: Drain, resume, set down or reboot nodes, and change their settings in slurmctld
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Brings nodes to the wanted state and settings, and waits until they are drained or idle on request.
  - >-
    Reasons of the form C(tw:OWNER:PART: FAULT -> REMEDY) belong to OWNER. A drain that is there keeps
    its reason, and O(state=resumed) leaves the drain of another owner alone, unless O(force) is set.
  - Names that Slurm does not know are named in the error with the nearest that it does, and nothing is
    changed.
  - Equal changes are one call for all nodes.
extends_documentation_fragment: [trainwright.slurm.slurm]
options:
  names:
    description:
      - Names of the nodes, folded (C(gpu[01-04])) or not; V(ALL) alone is all nodes.
    type: list
    elements: str
    required: true
  state:
    description:
      - V(drained) lets no new jobs start there; those that run go on. A node that is drained already
        stays as it is. Without O(owner), the drain of a part that would end it itself becomes yours, with O(reason)
        before its reason.
      - V(resumed) ends drain, failure and down.
      - V(down) ends all jobs there at once.
      - V(rebooted) asks slurmctld to reboot the nodes (RebootProgram in slurm.conf) when they are idle.
        It is an action, changed each time, unless a reboot is pending already.
      - Without it, the state stays as it is.
    type: str
    choices: [drained, resumed, down, rebooted]
  reason:
    description:
      - Why, in one line. Needed for V(drained) and V(down); a node that is so already needs none.
      - With O(owner), C(tw:OWNER:) is put in front of it, unless it begins so.
    type: str
  owner:
    description:
      - The part for which the task acts, such as V(health). It marks O(reason), and O(state=resumed)
        then ends only drains of this owner. A node that a person set down keeps its reason when it is drained.
      - Without it, the task acts for a person, and O(state=resumed) ends all drains except those that
        are marked as some owner's. Those of V(hook) end too, since nothing else ends them.
    type: str
  force:
    description:
      - Overwrite reasons and end drains that belong to another owner.
    type: bool
    default: false
  reboot_asap:
    description:
      - Drain the nodes until O(state=rebooted) is done, so that they are idle sooner. A node that
        another owner drained is rebooted without, and stays drained.
    type: bool
    default: true
  reboot_next_state:
    description:
      - State after the reboot. Without it, the node goes back to work; one that was drained before
        stays so, unless O(reboot_asap) is set.
    type: str
    choices: [resume, down]
  weight:
    description:
      - Weight in scheduling, lower is taken first. Without it, it stays as it is. slurmctld forgets it at a
        restart.
    type: int
  features:
    description:
      - All available features; the order does not count, and an empty list removes all. Features that
        go are taken from the active ones first. Without it, they stay as they are. slurmctld forgets
        them at a restart.
    type: list
    elements: str
  active_features:
    description:
      - All active features, out of the available ones. Without it, those stay active that are still
        available.
    type: list
    elements: str
  comment:
    description:
      - Comment, in one line; an empty one removes it. Without it, it stays as it is.
    type: str
  wait:
    description:
      - V(drained) waits until no job is left on the nodes, suspended ones included; one that is down needs no
        waiting. V(idle) waits until they are idle, answer and are not drained, V(usable) also takes nodes with
        jobs. Nodes in RV(kept) are not waited for.
    type: str
    choices: [none, drained, idle, usable]
    default: none
  absent:
    description:
      - With V(ignore), names that Slurm does not know are returned in RV(absent). With V(fail), the task fails for them
        with nothing changed.
    type: str
    choices: [fail, ignore]
    default: fail
    version_added: "1.2.0"
  wait_timeout:
    description:
      - Seconds to wait; after them, the task fails and the nodes stay as they are.
    type: int
    default: 3600
attributes:
  check_mode: {support: full, description: Says what would change; calls nothing that changes and waits for nothing.}
  diff_mode: {support: full, description: What changes of each node.}
"""

EXAMPLES = r"""
- name: Empty two nodes
  trainwright.slurm.slurm_node:
    names: c[1-2]
    state: drained
    reason: "rack 4: power is changed -> back on Monday"
    wait: drained
    wait_timeout: 7200

- name: Give them back, and wait until they can be used
  trainwright.slurm.slurm_node:
    names: c[1-2]
    state: resumed
    wait: idle
    wait_timeout: 300

- name: End the drains of our own health checks only
  trainwright.slurm.slurm_node:
    names: ALL
    state: resumed
    owner: health

- name: Reboot a node when it is idle
  trainwright.slurm.slurm_node:
    names: c1
    state: rebooted
    reason: new kernel
    wait: idle

- name: Prefer the large nodes last, through slurmrestd
  trainwright.slurm.slurm_node:
    names: c[1-2]
    weight: 100
    features: [bigmem, rack4]
    transport: rest
    rest_url: http://ctl1:6820
    rest_token: "{{ vault_slurm_token }}"
"""

RETURN = r"""
names:
  description: The nodes, by their own names.
  returned: success
  type: list
  elements: str
  sample: [gpu07, gpu08]
absent:
  description: Names that Slurm does not know, with O(absent=ignore).
  returned: success
  type: list
  elements: str
  sample: []
changed_names:
  description: Nodes that were changed, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [gpu07]
kept:
  description: Nodes that O(state=resumed) left alone, since another owner drained them, and their reasons.
  returned: success
  type: dict
  sample: {gpu08: "tw:health:gpu: GPU 3 is lost -> replace it"}
nodes:
  description: The nodes as they are afterwards; in check mode, as they are. Memory is in MiB.
  returned: success
  type: list
  elements: dict
  contains:
    name: {description: Its name., type: str, returned: always}
    state: {description: "State in one word, such as C(IDLE).", type: str, returned: always}
    flags: {description: "Flags of the state, such as C(DRAIN).", type: list, elements: str, returned: always}
    reason: {description: Reason of a drain or failure., type: str, returned: always}
    reason_user: {description: User who gave the reason., type: str, returned: always}
    reason_time: {description: When in seconds since 1970., type: int, returned: where there is a reason}
    weight: {description: Weight., type: int, returned: always}
    features: {description: Available features., type: list, elements: str, returned: always}
    active_features: {description: Active features., type: list, elements: str, returned: always}
    comment: {description: Comment., type: str, returned: always}
  sample:
    - {name: gpu07, state: IDLE, flags: [DRAIN], reason: rack 4, weight: 1, features: [], comment: ''}
error:
  description: Kind of the error.
  returned: failure
  type: str
  sample: unknown
"""

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import run
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.node import work

SPEC = {
    "names": {"type": "list", "elements": "str", "required": True},
    "state": {"type": "str", "choices": ["drained", "resumed", "down", "rebooted"]},
    "reason": {"type": "str"},
    "owner": {"type": "str"},
    "force": {"type": "bool", "default": False},
    "reboot_asap": {"type": "bool", "default": True},
    "reboot_next_state": {"type": "str", "choices": ["resume", "down"]},
    "weight": {"type": "int"},
    "features": {"type": "list", "elements": "str"},
    "active_features": {"type": "list", "elements": "str"},
    "comment": {"type": "str"},
    "wait": {"type": "str", "choices": ["none", "drained", "idle", "usable"], "default": "none"},
    "wait_timeout": {"type": "int", "default": 3600},
    "absent": {"type": "str", "choices": ["fail", "ignore"], "default": "fail"},
}


def main() -> None:
    run("slurm_node", SPEC, work)


if __name__ == "__main__":
    main()
