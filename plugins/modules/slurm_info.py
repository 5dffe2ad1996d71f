#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads nodes, jobs, partitions and the like from Slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_info
short_description: Read nodes, jobs, partitions, reservations, licences and more from Slurm
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns what O(gather) names as lists of dictionaries that are the same for every version of Slurm and
    for both transports.
  - A filter that does not apply to a subject leaves that subject whole.
    Several names in a filter are alternatives, except for O(features); several filters must all hold.
  - Changes nothing.
extends_documentation_fragment: [trainwright.slurm.slurm]
options:
  gather:
    description:
      - What to read. Jobs, events and the configuration are many lines and are read only when they are
        named.
      - V(events) are times in which nodes were not available, from the accounting; no slurmrestd shows them.
      - V(configuration) is the effective one, as slurmctld runs it; slurmrestd shows it since 26.05.
    type: list
    elements: str
    choices: [nodes, jobs, partitions, reservations, licenses, controllers, events, configuration]
    default: [nodes, partitions, reservations, licenses, controllers]
  nodes:
    description:
      - Only these nodes, jobs and reservations that have one of them, and events of them. Host lists such as
        V(gpu[01-04]) are understood. Without it, all.
    type: list
    elements: str
  states:
    description:
      - Only nodes and jobs in one of these states, or with one of these flags (C(DRAIN), C(COMPLETING)).
        Upper and lower case are the same. Without it, all.
    type: list
    elements: str
  partitions:
    description: Only these partitions, and nodes, jobs and reservations of one of them. Without it, all.
    type: list
    elements: str
  users:
    description: Only jobs of, and reservations for, one of these users. Without it, those of all.
    type: list
    elements: str
  accounts:
    description: Only jobs of, and reservations for, one of these accounts. Without it, those of all.
    type: list
    elements: str
  jobs:
    description:
      - Only the jobs with these ids; the id of a job array selects all of its tasks. Without it, all jobs
        that slurmctld knows.
    type: list
    elements: int
  features:
    description: Only nodes that have all of these features. Without it, all.
    type: list
    elements: str
  reservations:
    description: Only these reservations, and jobs in one of them. Without it, all.
    type: list
    elements: str
  events_since:
    description:
      - Only events after this; a point in time in UTC (V(2026-11-20T16:00:00)), seconds since 1970, or a
        duration ago with days or colons (V(7-00:00:00)).
      - Without it, what C(sacctmgr) shows by itself, which is events since the beginning of yesterday.
    type: str
attributes:
  check_mode: {support: full, description: "Reads, as always."}
  diff_mode: {support: none, description: There is nothing to show.}
notes:
  - A node, feature, partition, reservation, job or state that Slurm does not know is an error, with the names
    that are most like it. Users and accounts are not checked.
  - Users see of jobs, reservations and nodes what C(PrivateData) in slurm.conf lets them see.
"""

EXAMPLES = r"""
- name: Look at the cluster
  trainwright.slurm.slurm_info:
  register: slurm

- name: List the nodes that are drained, and why
  trainwright.slurm.slurm_info:
    gather: [nodes]
    states: [DRAIN]
  register: drained

- name: Read the jobs of one user through slurmrestd, with no Slurm on the host
  trainwright.slurm.slurm_info:
    gather: [jobs]
    users: [alice]
    states: [PENDING, RUNNING]
    rest_url: https://slurm.example.org
    rest_token: "{{ vault_slurm_token }}"
  delegate_to: localhost

- name: Ask how often two nodes failed this week
  trainwright.slurm.slurm_info:
    gather: [events]
    nodes: ["c[1-2]"]
    events_since: 7-00:00:00
"""

RETURN = r"""
version:
  description: Version of Slurm.
  returned: success
  type: str
  sample: 24.11.5
transport:
  description: How it was read, C(cli) or C(rest).
  returned: success
  type: str
nodes:
  description: Nodes. Text that is not set is empty, a number that is not set is null.
  returned: when C(nodes) is gathered
  type: list
  elements: dict
  contains:
    name: {description: Name., type: str, returned: always, sample: gpu01}
    state:
      description: Base state in one upper-case word.
      type: str
      returned: always
      sample: IDLE
    flags:
      description: What else holds, in upper case.
      type: list
      elements: str
      returned: always
      sample: [DRAIN]
    reason: {description: Why it is drained or down., type: str, returned: always}
    reason_user: {description: User who gave the reason., type: str, returned: always}
    reason_time: {description: "When, in seconds since 1970.", type: int, returned: always}
    address: {description: NodeAddr., type: str, returned: always}
    hostname: {description: NodeHostName., type: str, returned: always}
    version: {description: Version of its slurmd; empty until it registered., type: str, returned: always}
    cpus: {description: Logical CPUs., type: int, returned: always}
    cpus_allocated: {description: CPUs of running jobs., type: int, returned: always}
    memory: {description: Memory in MiB., type: int, returned: always}
    memory_allocated: {description: Memory of running jobs in MiB., type: int, returned: always}
    gres: {description: Generic resources., type: str, returned: always, sample: "gpu:h100:8"}
    gres_used: {description: Generic resources of running jobs., type: str, returned: always}
    features: {description: Available features., type: list, elements: str, returned: always}
    active_features: {description: Active features., type: list, elements: str, returned: always}
    partitions: {description: Partitions that have it., type: list, elements: str, returned: always}
    weight: {description: Weight., type: int, returned: always}
    comment: {description: Comment., type: str, returned: always}
    extra: {description: Extra., type: str, returned: always}
    boot_time: {description: "When it booted, in seconds since 1970.", type: int, returned: always}
    slurmd_start_time:
      description: When its slurmd started, in seconds since 1970.
      type: int
      returned: always
    tres: {description: Trackable resources by name; memory in MiB., type: dict, returned: always}
    tres_allocated: {description: Those of running jobs; memory in MiB., type: dict, returned: always}
jobs:
  description: Jobs that slurmctld knows; a job array has one for each task that started.
  returned: when C(jobs) is gathered
  type: list
  elements: dict
  contains:
    id: {description: Id., type: int, returned: always}
    name: {description: Name., type: str, returned: always}
    user: {description: User., type: str, returned: always}
    account: {description: Account., type: str, returned: always}
    partition: {description: "Partition; while it waits, perhaps several.", type: str, returned: always}
    qos: {description: QOS., type: str, returned: always}
    state:
      description: Base state in one upper-case word.
      type: str
      returned: always
      sample: RUNNING
    flags: {description: What else holds., type: list, elements: str, returned: always}
    reason: {description: Why it waits or failed., type: str, returned: always}
    array_job_id: {description: Id of its job array; null for none., type: int, returned: always}
    array_task: {description: "Task, or tasks that wait.", type: str, returned: always, sample: 4-9%2}
    nodes: {description: Host list of its nodes; empty while it waits., type: str, returned: always}
    node_count: {description: Number of nodes., type: int, returned: always}
    cpus: {description: Number of CPUs., type: int, returned: always}
    tres:
      description: Trackable resources, allocated, or requested while it waits; memory in MiB.
      type: dict
      returned: always
    priority: {description: Priority; 0 is held., type: int, returned: always}
    submit_time: {description: "Submission, in seconds since 1970.", type: int, returned: always}
    start_time: {description: "Start, or expected start, in seconds since 1970.", type: int, returned: always}
    end_time: {description: "End, or expected end, in seconds since 1970.", type: int, returned: always}
    elapsed: {description: Seconds for which it ran., type: int, returned: always}
    time_limit: {description: Limit in seconds; null for none., type: int, returned: always}
    exit_code: {description: Exit code; null until it ended., type: int, returned: always}
    exit_signal: {description: Signal that ended it; 0 for none., type: int, returned: always}
    restarts: {description: How often it was requeued., type: int, returned: always}
    dependency: {description: What it waits for., type: str, returned: always}
    reservation: {description: Reservation., type: str, returned: always}
    comment: {description: Comment., type: str, returned: always}
    command: {description: Script or command., type: str, returned: always}
    workdir: {description: Working directory., type: str, returned: always}
    stdout: {description: Path of its output., type: str, returned: always}
    stderr: {description: Path of its errors., type: str, returned: always}
    batch_host: {description: Node on which the script runs., type: str, returned: always}
partitions:
  description: >-
    Partitions. An empty list of names is "all". What slurmrestd before 26.05 does not show is null or
    empty.
  returned: when C(partitions) is gathered
  type: list
  elements: dict
  contains:
    name: {description: Name., type: str, returned: always}
    state: {description: "C(UP), C(DOWN), C(DRAIN) or C(INACTIVE).", type: str, returned: always}
    nodes: {description: Host list of its nodes., type: str, returned: always}
    node_count: {description: Number of nodes., type: int, returned: always}
    cpus: {description: Number of CPUs., type: int, returned: always}
    default: {description: Whether jobs that name none go there., type: bool, returned: always}
    max_time: {description: Limit of a job in seconds; null for none., type: int, returned: always}
    default_time: {description: Default limit in seconds; null for the limit., type: int, returned: always}
    min_nodes: {description: Least nodes of a job., type: int, returned: always}
    max_nodes: {description: Most nodes of a job; null for no limit., type: int, returned: always}
    priority_tier: {description: PriorityTier., type: int, returned: always}
    priority_job_factor: {description: PriorityJobFactor., type: int, returned: always}
    allow_accounts: {description: AllowAccounts., type: list, elements: str, returned: always}
    deny_accounts: {description: DenyAccounts., type: list, elements: str, returned: always}
    allow_groups: {description: AllowGroups., type: list, elements: str, returned: always}
    allow_qos: {description: AllowQos., type: list, elements: str, returned: always}
    deny_qos: {description: DenyQos., type: list, elements: str, returned: always}
    qos: {description: QOS of the partition., type: str, returned: always}
    preempt_mode: {description: PreemptMode., type: str, returned: always}
    grace_time: {description: GraceTime in seconds., type: int, returned: always}
    over_subscribe: {description: OverSubscribe., type: str, returned: always, sample: "FORCE:4"}
    hidden: {description: Hidden., type: bool, returned: always}
    root_only: {description: RootOnly., type: bool, returned: always}
    tres: {description: Trackable resources; memory in MiB., type: dict, returned: always}
reservations:
  description: Reservations.
  returned: when C(reservations) is gathered
  type: list
  elements: dict
  contains:
    name: {description: Name., type: str, returned: always}
    state: {description: C(ACTIVE) or C(INACTIVE)., type: str, returned: always}
    start_time: {description: "Start, in seconds since 1970.", type: int, returned: always}
    end_time: {description: "End, in seconds since 1970.", type: int, returned: always}
    nodes: {description: Host list of its nodes., type: str, returned: always}
    node_count: {description: Number of nodes., type: int, returned: always}
    core_count: {description: Number of cores., type: int, returned: always}
    users: {description: Users who may use it., type: list, elements: str, returned: always}
    accounts: {description: Accounts that may use it., type: list, elements: str, returned: always}
    groups: {description: Groups that may use it., type: list, elements: str, returned: always}
    partition: {description: Partition., type: str, returned: always}
    features: {description: Features of its nodes., type: str, returned: always}
    licenses: {description: Licences., type: str, returned: always}
    flags:
      description: Flags by the names that O(trainwright.slurm.slurm_reservation#module:flags) takes.
      type: list
      elements: str
      returned: always
    tres: {description: Trackable resources; memory in MiB., type: dict, returned: always}
    comment: {description: Comment; slurmrestd does not show it., type: str, returned: always}
licenses:
  description: Licences.
  returned: when C(licenses) is gathered
  type: list
  elements: dict
  contains:
    name: {description: Name., type: str, returned: always}
    total: {description: How many there are., type: int, returned: always}
    used: {description: How many are used., type: int, returned: always}
    free: {description: How many are free., type: int, returned: always}
    reserved: {description: How many are reserved., type: int, returned: always}
    remote: {description: Whether the accounting counts them., type: bool, returned: always}
controllers:
  description: The slurmctlds, the primary one first.
  returned: when C(controllers) is gathered
  type: list
  elements: dict
  contains:
    host: {description: Host., type: str, returned: always}
    mode: {description: "C(primary), C(backup), or C(backup1) and so on.", type: str, returned: always}
    up: {description: Whether it answers., type: bool, returned: always}
events:
  description: Times in which a node was not available.
  returned: when C(events) is gathered
  type: list
  elements: dict
  contains:
    cluster: {description: Cluster., type: str, returned: always}
    node: {description: Node; empty for an event of the cluster., type: str, returned: always}
    start_time: {description: "Begin, in seconds since 1970.", type: int, returned: always}
    end_time: {description: "End, in seconds since 1970; null while it goes on.", type: int, returned: always}
    state: {description: State of the node as C(sacctmgr) shortens it., type: str, returned: always}
    reason: {description: Reason., type: str, returned: always}
    user: {description: User who gave the reason., type: str, returned: always}
configuration:
  description: Effective configuration; values are text as Slurm prints them.
  returned: when C(configuration) is gathered
  type: dict
  contains:
    settings: {description: Settings of slurm.conf by name., type: dict, returned: always}
    sections: {description: "Settings of the other files (cgroup, MPI), by title.", type: dict, returned: always}
"""

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.info import (
    SUBJECTS,
    work,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import run

NAMES = {"type": "list", "elements": "str"}
SPEC = {
    "gather": {
        **NAMES,
        "choices": list(SUBJECTS),
        "default": ["nodes", "partitions", "reservations", "licenses", "controllers"],
    },
    "nodes": NAMES,
    "states": NAMES,
    "partitions": NAMES,
    "users": NAMES,
    "accounts": NAMES,
    "jobs": {"type": "list", "elements": "int"},
    "features": NAMES,
    "reservations": NAMES,
    "events_since": {"type": "str"},
}


def main() -> None:
    run("slurm_info", SPEC, work)


if __name__ == "__main__":
    main()
