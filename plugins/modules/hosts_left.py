#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which hosts are as they were left. The action plugin does it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hosts_left
short_description: Find the hosts that are as the last run left them
version_added: "1.2.0"
description:
  - Compares what hosts were set up for with what is wanted on them now. A host with the same digest on which nothing
    differs is as it was left, and C(site.yml) leaves it out of its later plays
    (P(trainwright.slurm.hosts_to_walk#filter)).
  - Warns of the differences on the others. Runs on the control node.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  looks:
    description: By host the C(look) of M(trainwright.slurm.node_facts).
    type: dict
    required: true
  wanted:
    description: By host the digest of what is wanted, as M(trainwright.slurm.cluster_model) returns it.
    type: dict
    required: true
  services:
    description: >-
      Those of O(wanted) with services of the cluster, which are left out only where all hosts are as they were left.
    type: list
    elements: str
    required: true
  record_stays:
    description: >-
      Whether the record that was read is the one that this run would write. If not, no host of O(services) is left out.
    type: bool
    required: true
  secrets:
    description: The digest of the secrets of the cluster. Where it is empty, no host is left out.
    type: str
    required: true
attributes:
  action:
    description: The action plugin does all of it.
    support: full
  check_mode:
    description: Changes nothing.
    support: full
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Find the hosts that are as they were left
  trainwright.slurm.hosts_left:
    looks:
      c1: {state: as left, digest: "9e107d9d372bb682"}
    wanted:
      c1: 1f0c1d2e3f4a5b6c
    services: []
    record_stays: true
    secrets: 5f0c1d2e3f4a5b6c
"""

RETURN = r"""
as_left:
  description: Hosts that take no part in later plays.
  returned: success
  type: list
  elements: str
  sample: [c1, c2]
services_as_left:
  description: Hosts with services that take no part in some of them.
  returned: success
  type: list
  elements: str
  sample: [ctl1]
states:
  description: By host V(as left), V(drifted) or V(not known), for hosts that were set up for what is wanted now,
    and V(drifted) for all others where something differs.
  returned: success
  type: dict
  sample: {c1: as left, c2: as left}
digests:
  description: By host what M(trainwright.slurm.host_wanted) has to have kept there.
  returned: success
  type: dict
  sample: {}
"""
