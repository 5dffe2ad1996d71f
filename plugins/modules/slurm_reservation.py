#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes, changes and removes advance reservations."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_reservation
short_description: Make, change or remove an advance reservation
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Brings one reservation to the wanted times, resources and users. A setting that is not given stays
    as it is.
  - A second run changes nothing. O(start=now) is fulfilled by a reservation that runs; the start of a
    repeated one is compared within its period; the order of lists and flags does not matter.
  - A new reservation needs O(end) or O(duration), one of O(users), O(groups) and O(accounts), and
    something to reserve.
extends_documentation_fragment: [trainwright.slurm.slurm]
options:
  name:
    description: Name of the reservation.
    type: str
    required: true
  state:
    description:
      - V(present) makes or changes it, V(absent) removes it. Slurm refuses to remove one in which jobs run.
    type: str
    choices: [present, absent]
    default: present
  start:
    description:
      - Start, as V(now), C(now+2hours) (seconds, minutes, hours, days or weeks), C(2026-01-31T08:00:00),
        the same with an offset such as C(+01:00), or seconds since 1970. A time without an offset is UTC.
      - Without it, a new one starts now, and that of an existing one stays. So does it with C(now+...).
      - Slurm cannot move the start of a reservation that runs.
    type: raw
  end:
    description: End, in the forms of O(start). Not together with O(duration).
    type: raw
  duration:
    description:
      - Length, in minutes, as C(1-02:03:04) or V(unlimited), which Slurm limits to 365 days, in quotes;
        rounded up to minutes. YAML makes a number of an unquoted C(1:30:00), so a number is refused.
    type: raw
  nodes:
    description:
      - The nodes, folded (C(gpu[01-04])) or not; V(ALL) alone is all nodes, or with O(partition) all of
        that.
    type: list
    elements: str
  lists:
    description:
      - V(exact) makes O(nodes), O(users), O(groups) and O(accounts) the lists of the reservation. V(add) adds
        them to those that it has when the task runs, so what other runs have added stays. V(remove) takes
        them away, and removes a reservation that would be left without nodes.
    type: str
    choices: [exact, add, remove]
    default: exact
    version_added: "1.2.0"
  node_count: {description: "Number of nodes, which Slurm picks.", type: int}
  core_count: {description: "Number of cores, which Slurm picks.", type: int}
  users:
    description:
      - Users who may use it; with C(-) before each name, users who may not. An empty list removes all.
    type: list
    elements: str
  groups:
    description: Unix groups that may use it; not together with O(users). An empty list removes all.
    type: list
    elements: str
  accounts:
    description: Accounts that may use it, or may not, as with O(users). An empty list removes all.
    type: list
    elements: str
  partition: {description: Partition that the nodes are taken from., type: str}
  features:
    description: Features that the nodes must have, such as C(bigmem&rack4); an empty text removes them.
    type: str
  licenses:
    description: Licences with their counts, such as C(matlab:4); an empty list removes all.
    type: list
    elements: str
  flags:
    description:
      - All flags. One that is there and not in the list is taken away; where Slurm cannot do that, it is an
        error. Those that Slurm sets by itself (C(SPEC_NODES), C(ALL_NODES), C(PART_NODES),
        C(REPLACE_DOWN)) do not count.
      - Without it, they stay as they are.
    type: list
    elements: str
    choices:
      - ANY_NODES
      - DAILY
      - FLEX
      - FORCE_START
      - HOURLY
      - IGNORE_JOBS
      - MAGNETIC
      - MAINT
      - NO_HOLD_JOBS_AFTER
      - OVERLAP
      - PART_NODES
      - PURGE_COMP
      - REPLACE
      - REPLACE_DOWN
      - STATIC_ALLOC
      - TIME_FLOAT
      - USER_DELETE
      - WEEKDAY
      - WEEKEND
      - WEEKLY
  tres:
    description:
      - Trackable resources and their counts, such as C(gres/gpu) and 2. They must be in
        AccountingStorageTRES of slurm.conf.
    type: dict
  comment: {description: "Comment, in one line. Slurm 23.02 and later.", type: str}
attributes:
  check_mode: {support: full, description: Reports what would change and changes nothing.}
  diff_mode: {support: full, description: "What changes, times in UTC."}
"""

EXAMPLES = r"""
- name: Two nodes for a workshop
  trainwright.slurm.slurm_reservation:
    name: workshop
    start: "2030-12-02T09:00:00+01:00"
    duration: "08:00:00"
    nodes: c[1-2]
    accounts: [research]

- name: Maintenance from now on, with the jobs that run left alone
  trainwright.slurm.slurm_reservation:
    name: maintenance
    start: now
    duration: "120"
    nodes: ALL
    users: [root]
    flags: [MAINT, IGNORE_JOBS]

- name: One more node for the workshop, and one more account
  trainwright.slurm.slurm_reservation:
    name: workshop
    nodes: c3
    accounts: [lab]
    lists: add

- name: End it
  trainwright.slurm.slurm_reservation:
    name: maintenance
    state: absent
"""

RETURN = r"""
reservation:
  description:
    - The reservation as it is afterwards; in check mode as it is, empty where there is none. Times are in
      seconds since 1970.
  returned: success
  type: dict
  contains:
    name: {description: Its name., type: str, returned: always}
    state:
      description: C(ACTIVE) or C(INACTIVE); empty with slurmrestd, which does not show it.
      type: str
      returned: always
    start_time: {description: Start in seconds since 1970., type: int, returned: always}
    end_time: {description: End in seconds since 1970., type: int, returned: always}
    nodes: {description: Its nodes as a host list., type: str, returned: always}
    node_count: {description: How many nodes it has., type: int, returned: always}
    users: {description: Users who may use it., type: list, elements: str, returned: always}
    accounts: {description: Accounts that may use it., type: list, elements: str, returned: always}
    flags: {description: "Flags, without C(SPEC_NODES).", type: list, elements: str, returned: always}
  sample: {name: workshop, state: INACTIVE, start_time: 1796112000, end_time: 1796140800, nodes: "c[1-2]"}
error:
  description: Kind of the error.
  returned: failure
  type: str
  sample: invalid
"""

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import run
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.reservation import work

NAMES = {"type": "list", "elements": "str"}
FLAGS = (
    "ANY_NODES DAILY FLEX FORCE_START HOURLY IGNORE_JOBS MAGNETIC MAINT NO_HOLD_JOBS_AFTER OVERLAP "
    "PART_NODES PURGE_COMP REPLACE REPLACE_DOWN STATIC_ALLOC TIME_FLOAT USER_DELETE WEEKDAY WEEKEND WEEKLY"
).split()
SPEC = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    # As text, a number that YAML has made of 1:30:00 would pass for minutes or for 1970.
    "start": {"type": "raw"},
    "end": {"type": "raw"},
    "duration": {"type": "raw"},
    "nodes": NAMES,
    "lists": {"type": "str", "choices": ["exact", "add", "remove"], "default": "exact"},
    "node_count": {"type": "int"},
    "core_count": {"type": "int"},
    "users": NAMES,
    "groups": NAMES,
    "accounts": NAMES,
    "partition": {"type": "str"},
    "features": {"type": "str"},
    "licenses": NAMES,
    "flags": {"type": "list", "elements": "str", "choices": FLAGS},
    "tres": {"type": "dict"},
    "comment": {"type": "str"},
}


def main() -> None:
    run("slurm_reservation", SPEC, work, mutually_exclusive=[("end", "duration")])


if __name__ == "__main__":
    main()
