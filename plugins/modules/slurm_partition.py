#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes, changes and removes partitions of a running slurmctld."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_partition
short_description: Make, change or remove a partition of a running slurmctld
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Brings one partition to the wanted settings at once, without a restart. A setting that is not given
    stays as it is, and gets Slurm's own default in a new partition.
  - slurmctld forgets the change at its next restart or reconfigure unless slurm.conf has the same
    setting; the task warns of it.
  - Values are compared in one form, V(60) and V(01:00:00) are the same time, and the order of lists does not
    matter.
extends_documentation_fragment: [trainwright.slurm.slurm]
options:
  name:
    description: Name of the partition.
    type: str
    required: true
  state:
    description:
      - V(present) makes or changes it, V(absent) removes it. Slurm refuses to remove one that jobs use.
    type: str
    choices: [present, absent]
    default: present
  partition_state:
    description:
      - V(up) accepts and starts jobs; V(down) accepts jobs and does not start them; V(drain) starts the
        queued ones and does not accept others; V(inactive) does neither. Stays as it is if omitted.
    type: str
    choices: [up, down, drain, inactive]
  nodes:
    description:
      - All nodes of the partition, folded (C(gpu[01-04])) or not; V(ALL) alone is all nodes, an empty
        list none. Stay as they are if omitted.
    type: list
    elements: str
  max_time:
    description:
      - Longest time of a job, in minutes, as C(1-02:03:04) or V(unlimited), in quotes; rounded up to
        minutes. YAML makes a number of an unquoted C(1:30:00), so a number is refused. Stays as it is if
        omitted.
    type: raw
  default_time:
    description:
      - Time of a job that does not set one, written as O(max_time); V(unlimited) is that of O(max_time).
        Stays as it is if omitted.
    type: raw
  min_nodes: {description: Fewest nodes of a job. Stays as it is if omitted., type: int}
  max_nodes:
    description: Most nodes of a job, a number or V(unlimited). Stays as it is if omitted.
    type: str
  default:
    description:
      - Whether jobs that name no partition go there. The one that was it before loses that by itself.
        Stays as it is if omitted.
    type: bool
  hidden:
    description: Whether users who may not use it do not see it. Stays as it is if omitted.
    type: bool
  root_only:
    description: Whether only root may start jobs there. Stays as it is if omitted.
    type: bool
  priority_tier:
    description:
      - Jobs of a higher tier start first and may preempt those of lower ones. Stays as it is if omitted.
    type: int
  priority_job_factor:
    description: Part of the partition in the priority of a job. Stays as it is if omitted.
    type: int
  allow_accounts:
    description: Accounts that may use it; an empty list allows all. Stay as they are if omitted.
    type: list
    elements: str
  deny_accounts:
    description:
      - Accounts that may not use it; an empty list denies none. Slurm looks at it only while
        O(allow_accounts) allows all. Stay as they are if omitted.
    type: list
    elements: str
  allow_groups:
    description: Unix groups that may use it; an empty list allows all. Stay as they are if omitted.
    type: list
    elements: str
  allow_qos:
    description: QOS that may be used there; an empty list allows all. Stay as they are if omitted.
    type: list
    elements: str
  deny_qos:
    description: QOS that may not be used there; an empty list denies none. Stay as they are if omitted.
    type: list
    elements: str
  qos:
    description:
      - QOS whose limits hold for the whole partition; an empty text removes it. Stays as it is if omitted.
    type: str
  preempt_mode:
    description:
      - How jobs there are preempted. Stays as it is if omitted.
    type: str
    choices: ["off", cancel, requeue, suspend]
  grace_time:
    description: Seconds between the notice of a preemption and the end. Stays as it is if omitted.
    type: int
  over_subscribe:
    description:
      - Whether jobs share resources, V(no), V(exclusive), V(yes:4) or V(force:2) with the most jobs on
        one. Stays as it is if omitted.
    type: str
attributes:
  check_mode: {support: full, description: Reports what would change and changes nothing.}
  diff_mode: {support: full, description: The settings that change.}
"""

EXAMPLES = r"""
- name: A partition for a course, until the next reconfigure
  trainwright.slurm.slurm_partition:
    name: course
    nodes: c[1-2]
    max_time: "02:00:00"
    default_time: "30"
    allow_groups: [students]

- name: Start no more jobs there
  trainwright.slurm.slurm_partition:
    name: course
    partition_state: down

- name: Remove it
  trainwright.slurm.slurm_partition:
    name: course
    state: absent
"""

RETURN = r"""
partition:
  description:
    - The partition as it is afterwards; in check mode as it is, empty where there is none. Times are in
      seconds, and null without a limit.
  returned: success
  type: dict
  contains:
    name: {description: Its name., type: str, returned: always}
    state: {description: "C(UP), C(DOWN), C(DRAIN) or C(INACTIVE).", type: str, returned: always}
    nodes: {description: Its nodes as a host list., type: str, returned: always}
    node_count: {description: How many nodes it has., type: int, returned: always}
    cpus: {description: How many CPUs they have., type: int, returned: always}
    max_time: {description: Longest time of a job in seconds., type: int, returned: always}
    default_time: {description: "Time of a job that does not set one, in seconds.", type: int, returned: always}
    allow_accounts: {description: Accounts that may use it; empty for all., type: list, elements: str, returned: always}
  sample: {name: course, state: UP, nodes: "c[1-2]", node_count: 2, cpus: 8, max_time: 7200}
error:
  description: Kind of the error.
  returned: failure
  type: str
  sample: unknown
"""

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import run
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.partition import work

NAMES = {"type": "list", "elements": "str"}
SPEC = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "partition_state": {"type": "str", "choices": ["up", "down", "drain", "inactive"]},
    "nodes": NAMES,
    # As text, a number that YAML has made of 1:30:00 would pass for minutes.
    "max_time": {"type": "raw"},
    "default_time": {"type": "raw"},
    "min_nodes": {"type": "int"},
    "max_nodes": {"type": "str"},
    "default": {"type": "bool"},
    "hidden": {"type": "bool"},
    "root_only": {"type": "bool"},
    "priority_tier": {"type": "int"},
    "priority_job_factor": {"type": "int"},
    "allow_accounts": NAMES,
    "deny_accounts": NAMES,
    "allow_groups": NAMES,
    "allow_qos": NAMES,
    "deny_qos": NAMES,
    "qos": {"type": "str"},
    "preempt_mode": {"type": "str", "choices": ["off", "cancel", "requeue", "suspend"]},
    "grace_time": {"type": "int"},
    "over_subscribe": {"type": "str"},
}


def main() -> None:
    run("slurm_partition", SPEC, work)


if __name__ == "__main__":
    main()
