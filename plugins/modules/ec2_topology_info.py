#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads where EC2 instances hang in the network."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ec2_topology_info
short_description: Read the place of EC2 instances in the network
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the place of each instance in EC2's network, as EC2's DescribeInstanceTopology returns it, and
    the host variables for Slurm's topology.
  - Give O(instance_ids), or O(group_names) and O(filters), or nothing for all instances of the region.
  - An instance that was terminated, or that EC2 does not return, is listed in RV(missing) and is not an error.
  - Changes nothing.
extends_documentation_fragment:
  - trainwright.slurm.aws
options:
  instance_ids:
    description: Only these instances, as many as you like.
    type: list
    elements: str
  group_names:
    description: Only instances in one of these placement groups.
    type: list
    elements: str
    default: []
  filters:
    description:
      - Only instances that match these filters of EC2, such as C(instance-type) and C(zone-id); a string or
        a list of strings each. EC2 does not offer a filter by tag here; use O(instance_ids) instead.
    type: dict
    default: {}
attributes:
  check_mode: {support: full, description: "Reads, as always."}
  diff_mode: {support: none, description: There is nothing to show.}
notes:
  - Needs the permission C(ec2:DescribeInstanceTopology).
  - Only running instances have a place, and only those of some types; g5 and g6 for instance do not.
"""

EXAMPLES = r"""
- name: Read the places of the nodes of this cluster
  trainwright.slurm.ec2_topology_info:
    instance_ids: "{{ groups['slurm_compute'] | map('extract', hostvars, 'ec2_instance_id') | list }}"
    region: us-east-2
  register: topology

- name: Read all p5 instances of a placement group
  trainwright.slurm.ec2_topology_info:
    group_names: [training]
    filters:
      instance-type: p5.48xlarge
    region: us-east-2
"""

RETURN = r"""
instances:
  description: Places. Values that EC2 does not return are null.
  returned: success
  type: list
  elements: dict
  contains:
    instance_id: {description: Id., type: str, returned: always, sample: i-0d1e2f3a4b5c6d7e8}
    instance_type: {description: Type., type: str, returned: always, sample: p5.48xlarge}
    network_nodes:
      description:
        - Network nodes from the top to the one above the instance; null where EC2 does not return them.
        - Their number differs between types (three, or four on p6-b200 and p6-b300), so count from the end.
      type: list
      elements: str
      returned: always
      sample: [nn-1111111111example, nn-2222222222example, nn-3333333333example]
    leaf: {description: The last of them., type: str, returned: always, sample: nn-3333333333example}
    zone: {description: Availability zone., type: str, returned: always, sample: us-east-2a}
    zone_id: {description: Id of the zone., type: str, returned: always, sample: use2-az1}
    capacity_block_id:
      description: Id of the UltraServer's capacity block, of types that have it.
      type: str
      returned: always
    group: {description: Placement group., type: str, returned: always}
    slurm_network_path:
      description: The host variable for Slurm's topology; empty if the place is unknown.
      type: list
      elements: str
      returned: always
    slurm_block:
      description: The host variable for blocks of Slurm's topology, which is the capacity block.
      type: str
      returned: always
tree:
  description: The same by leaf.
  returned: success
  type: dict
  contains:
    leaves:
      description: Each with C(leaf), its C(path) from the top, and C(instances), their ids.
      type: list
      elements: dict
      returned: always
    unknown: {description: Ids of instances whose place is not known., type: list, elements: str, returned: always}
missing:
  description: Instances of O(instance_ids) that were terminated, or that EC2 does not return.
  returned: success
  type: list
  elements: str
action:
  description: The call that failed.
  returned: failure of AWS
  type: str
  sample: ec2:DescribeInstanceTopology
code: {description: "AWS' code of the failure, empty without an answer.", returned: failure of AWS, type: str}
"""

import typing as t

from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import answers, ec2_info
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import (
    AwsProblem,
)

SPEC: dict[str, t.Any] = {
    "instance_ids": {"type": "list", "elements": "str"},
    "group_names": {"type": "list", "elements": "str", "default": []},
    "filters": {"type": "dict", "default": {}},
}


def main() -> None:
    module = AnsibleAWSModule(
        argument_spec=SPEC,
        mutually_exclusive=[("instance_ids", "group_names"), ("instance_ids", "filters")],
        supports_check_mode=True,
    )
    params = module.params
    filters = {
        name: [str(one) for one in (value if isinstance(value, list) else [value])]
        for name, value in params["filters"].items()
    }
    client = answers.client_of(module, "ec2")
    missing: list[str] = []
    try:
        if params["instance_ids"] is not None:
            places, missing = ec2_info.places_by_id(client, params["instance_ids"])
        else:
            places = ec2_info.places_by_filter(client, params["group_names"], filters)
    except AwsProblem as problem:
        module.fail_json(msg=str(problem), action=problem.action, code=problem.code)
    module.exit_json(
        instances=[place.to_json() for place in places],
        tree=ec2_info.tree_of(places),
        missing=missing,
    )


if __name__ == "__main__":
    main()
