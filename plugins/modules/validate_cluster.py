#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests a cluster by jobs, stage after stage, and returns the document of the validation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validate_cluster
short_description: Test a cluster by jobs, stage after stage
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - The playbook C(trainwright.slurm.validate) calls it; see C(docs/validation.md).
  - An action plugin of the same name plans the checks, submits each round of them as one job by
    M(trainwright.slurm.slurm_job), prints the progress, judges the logs, and leaves nodes that failed out of the later
    stages. The module itself looks at jobs and reads and writes the directory, on the host and with the rights of the
    user of the task.
  - An earlier run that asked for the same and was interrupted is continued. Its jobs are found by their names.
  - One run at a time uses a directory. Another one fails at once, and its message has the user, host and time of the
    first.
  - A check that fails does not fail the task; the playbook fails by the verdict.
extends_documentation_fragment: [trainwright.slurm.slurm]
options:
  directory:
    description: Directory for state, programs, scripts and logs, on shared storage. C(~) is the user's home.
    type: str
    required: true
  checks:
    description: The checks of the role C(validate), by name.
    type: dict
    default: {}
  changes:
    description: Those of the site, which are merged into O(checks); null removes one.
    type: dict
    default: {}
  programs:
    description: Texts of the programs of the checks, by file name.
    type: dict
    default: {}
  stages:
    description: Stages to run. Left out, all of them; an empty list is refused.
    type: list
    elements: str
  only:
    description: Names of checks; no others run. Empty means all of the stages.
    type: list
    elements: str
    default: []
  nodes:
    description: V(all), a number of nodes, or a host list.
    type: str
    default: all
  sample:
    description: Seed by which a number of nodes is drawn from all. Without it, the first ones.
    type: int
  partition:
    description: Partition of the jobs. Empty means the default one.
    type: str
    default: ""
  account:
    description: Account of the jobs. Empty means the user's default one.
    type: str
    default: ""
  reservation:
    description: Reservation of the jobs.
    type: str
    default: ""
  wake:
    description: Whether nodes that are powered down are started for the jobs.
    type: bool
    default: false
  queue_seconds:
    description: Seconds that a job may wait in the queue; then it is cancelled, and its checks are INCOMPLETE.
    type: int
    default: 3600
  parallel:
    description: Number of steps of a job at the same time. 0 means all that do not share a node.
    type: int
    default: 0
  outlier:
    description: Share of what their peers reach below which a node or a pair is an outlier.
    type: float
    default: 0.8
  full:
    description: Whether every pair of nodes is tested, in as many rounds as there are nodes.
    type: bool
    default: false
  again:
    description: Whether a new run begins where an interrupted one could be continued.
    type: bool
    default: false
  exports:
    description: Variables of all steps, a mapping or C(NAME=value) with commas in between.
    type: raw
    default: ""
  srun_options:
    description: Options of C(srun) for all steps, a mapping by their long names or a text.
    type: raw
    default: ""
  image:
    description: Image of the checks in containers.
    type: str
    default: ""
  ngc_image:
    description: Image of NVIDIA's kind for the checks that compare launchers. Empty leaves them out.
    type: str
    default: ""
  dcgm_level:
    description: Level of DCGM's diagnosis, V(1) to V(4). V(0) leaves it out.
    type: int
    default: 0
  mounts:
    description: The shared mounts, as C(cluster_mounts).
    type: list
    elements: dict
    default: []
  storage:
    description: Provisioned throughput in GB/s by path of a mount, each with C(write) and C(read).
    type: dict
    default: {}
  buckets:
    description: Addresses of buckets in which the user may write, such as C(s3://bucket/prefix).
    type: list
    elements: str
    default: []
  path:
    description: Directories in which the jobs look for programs, in their order. Empty means those of the system.
    type: list
    elements: str
    default: []
  pyxis:
    description: Hosts that should have Pyxis.
    type: list
    elements: str
    default: []
  mpi:
    description: Whether the nodes should have Open MPI.
    type: bool
    default: false
  foreign:
    description: Whether somebody else manages this Slurm.
    type: bool
    default: false
  machine_types:
    description: Rows of machine types, as C(slurm_machine_types).
    type: dict
    default: {}
  topology:
    description: Topology, as C(slurm_topology).
    type: dict
    default: {}
  thresholds:
    description: Rows of the site for the table of thresholds, each with C(type), C(test) and C(reference).
    type: list
    elements: dict
    default: []
  node_results:
    description: Results of the role C(node_health), as documented in C(docs/results.md).
    type: list
    elements: dict
  baseline:
    description: Document of an earlier run of the same cluster to compare with, a mapping or its text in JSON.
    type: raw
    default: ""
  cap:
    description:
      - Percent of a partition that may be drained at once, as of the health agent.
        P(trainwright.slurm.drains_within_cap#filter) applies it afterwards; here it is only checked, so that a wrong
        one is refused before any job.
    type: float
  cluster:
    description: Name of the cluster for the report.
    type: str
    default: ""
  look:
    description: What the action asks of the module.
    type: dict
    default: {}
attributes:
  check_mode: {support: full, description: Plans and submits nothing.}
  diff_mode: {support: none, description: There is nothing to show.}
"""

EXAMPLES = r"""
- name: Test two nodes
  trainwright.slurm.validate_cluster:
    directory: ~/validation
    checks: "{{ checks }}"
    nodes: "2"
  become: true
  become_user: alice
  register: validation
"""

RETURN = r"""
document: {description: "The run, as C(docs/validation.schema.json) has it.", returned: success, type: dict}
verdict: {description: The worst verdict., returned: success, type: str, sample: PASS}
summary: {description: "Why it is that, in one line.", returned: success, type: str}
lines: {description: A table of the verdicts that need somebody., returned: success, type: list, elements: str}
drains:
  description:
    - Why a node should be drained, by name, for a failure of its own in the stages static, node and pairwise.
    - The user of the task wrote the logs that decide it. P(trainwright.slurm.drains_within_cap#filter) returns those
      for which the cap of the health agent has room.
  returned: success
  type: dict
directory: {description: Directory of the run on the host., returned: success, type: str}
run: {description: Id of the run., returned: success, type: str, sample: 20261124-120000}
error: {description: Kind of the error., returned: failure, type: str, sample: invalid}
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import jobs
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import run
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.session import Session
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import directory
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.options import SPEC


def work(slurm: Session) -> dict[str, t.Any]:
    """Return what the action asks for: the lock, views of jobs, texts of files; write files."""
    asked = slurm.params["look"]
    try:
        user = directory.user()
        place = directory.prepare(slurm.params["directory"])
        lock = asked.get("take")
        held = directory.take(place, lock["holder"], lock["replaces"]) if lock else ""
        changed = directory.write(place, asked.get("write") or {})
        views = {
            str(one): slurm.call(jobs.look, slurm, int(one), 0) for one in asked.get("jobs") or []
        }
        if asked.get("release"):
            directory.release(place, asked["release"])
        return {
            "held": held,
            "changed": changed,
            "user": user,
            "directory": place,
            "jobs": views,
            "texts": directory.read(place, asked.get("read") or []),
        }
    except directory.DirectoryError as error:
        raise SlurmError("invalid", str(error)) from error


def main() -> None:
    """Run the module."""
    # It needs the data that slurm_job reads.
    run("slurm_job", SPEC, work)


if __name__ == "__main__":
    main()
