#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tells what machines of a type have, from EC2 or from the table of the collection."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ec2_instance_type_info
short_description: Return CPUs, memory, GPUs, EFA and NVMe of instance types
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the hardware of machines of a type. The data comes from EC2 if it can be called, else from the
    table of the collection, which has EC2's types with GPUs or Trainium and some machines for sale (DGX). So
    the
    module works without credentials, without a network, and without boto3.
  - Your own definitions in O(machine_types) take precedence over both.
  - Types with Trainium are only described; no role of this collection sets up Neuron.
  - Changes nothing.
extends_documentation_fragment:
  - trainwright.slurm.aws
options:
  names:
    description: Names of types. Without O(names) and O(families), all types with GPUs or Trainium.
    type: list
    elements: str
    default: []
  families:
    description: Families of types, such as V(p5) or V(g6e); all their sizes.
    type: list
    elements: str
    default: []
  gpu:
    description: V(true) leaves out types without GPUs, V(false) those with. Without it, both are returned.
    type: bool
  source:
    description:
      - Source of the data. V(auto) calls EC2 and uses the table for types that EC2 does not know in this
        region, or for everything, with a warning, if EC2 cannot be called. V(api) only calls EC2 and fails if
        it cannot. V(table) only uses the table.
    type: str
    choices: [auto, api, table]
    default: auto
  machine_types:
    description:
      - Types of your own by name, usually the variable of that name; their fields are those of
        RV(instance_types). For a name in the table, only the given fields change.
    type: dict
    default: {}
attributes:
  check_mode: {support: full, description: "Reads, as always."}
  diff_mode: {support: none, description: There is nothing to show.}
notes:
  - Needs the permission C(ec2:DescribeInstanceTypes), except with O(source=table).
"""

EXAMPLES = r"""
- name: Look up two types, at EC2 if it can be asked
  trainwright.slurm.ec2_instance_type_info:
    names: [p5.48xlarge, g5.8xlarge]
    region: eu-west-1
  register: types

- name: List all types with GPUs that the table knows
  trainwright.slurm.ec2_instance_type_info:
    gpu: true
    source: table

- name: Describe a machine of our own
  trainwright.slurm.ec2_instance_type_info:
    names: [node-h100]
    source: table
    machine_types:
      node-h100:
        vcpus: 224
        cores: 112
        memory_mib: 2097152
        gpus: {model: H100, count: 8, memory_mib: 81920}
        nvlink_links: 18
"""

RETURN = r"""
instance_types:
  description: Types by name. Hardware that a machine lacks, and unknown values, are null.
  returned: success
  type: dict
  contains:
    name: {description: Name., type: str, returned: always, sample: p5.48xlarge}
    family: {description: Family., type: str, returned: always, sample: p5}
    origin:
      description: Origin of the data, C(api), C(table), or C(site) for O(machine_types).
      type: str
      returned: always
    architecture: {description: As C(uname -m) prints it., type: str, returned: always, sample: x86_64}
    vcpus: {description: Logical CPUs., type: int, returned: always, sample: 192}
    cores: {description: Cores., type: int, returned: always, sample: 96}
    threads_per_core: {description: Threads of a core., type: int, returned: always, sample: 2}
    memory_mib:
      description: Advertised memory in MiB; the kernel shows a few percent less.
      type: int
      returned: always
      sample: 2097152
    gpus:
      description: GPUs; C(model), C(count) and C(memory_mib), the memory of one in MiB.
      type: dict
      returned: always
      sample: {model: H100, count: 8, memory_mib: 81920}
    neuron:
      description: Trainium devices, in the same form.
      type: dict
      returned: always
    nvlink_links: {description: NVLink links of each GPU., type: int, returned: always, sample: 18}
    pcie_width: {description: Lanes of each GPU's PCIe link., type: int, returned: always, sample: 16}
    efa_interfaces: {description: EFA interfaces at most., type: int, returned: always, sample: 32}
    infiniband_ports: {description: Ports of its compute fabric on InfiniBand., type: int, returned: always, sample: 0}
    nvme:
      description: NVMe disks of the machine itself; C(count) and C(size_gb), the size of one in GB (10^9 bytes).
      type: dict
      returned: always
      sample: {count: 8, size_gb: 3800}
    network_layers:
      description: Length of the path that EC2 returns for its place in the network.
      type: int
      returned: always
      sample: 3
    source: {description: Source of the data., type: str, returned: always}
    unverified:
      description: Fields that no source confirms, such as C(pcie_width).
      type: list
      elements: str
      returned: always
missing: {description: Names in O(names) that are unknown., type: list, elements: str, returned: success}
action:
  description: The call that failed.
  returned: failure of AWS
  type: str
  sample: ec2:DescribeInstanceTypes
code: {description: "AWS' code of the failure, empty without an answer.", returned: failure of AWS, type: str}
"""

import typing as t

# AnsibleAWSModule's method passes warnings to exit_json, which core has deprecated.
from ansible.module_utils.common.warnings import warn
from ansible_collections.amazon.aws.plugins.module_utils.botocore import HAS_BOTO3
from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import answers, ec2_info
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import (
    AwsProblem,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware import machine_types

SPEC: dict[str, t.Any] = {
    "names": {"type": "list", "elements": "str", "default": []},
    "families": {"type": "list", "elements": "str", "default": []},
    "gpu": {"type": "bool"},
    "source": {"type": "str", "choices": ["auto", "api", "table"], "default": "auto"},
    "machine_types": {"type": "dict", "default": {}},
}


def from_ec2(module: AnsibleAWSModule, names: list[str]) -> list[machine_types.MachineType]:
    """Ask EC2 for what the options name. Raises AwsProblem."""
    if not HAS_BOTO3:
        raise AwsProblem(
            "boto3 is not installed for the Python of this task -> pip install boto3, or run it on the control node "
            "(delegate_to: localhost); `source: table` needs none"
        )
    if not module.region:
        raise AwsProblem(
            "no region is set -> give `region`, or AWS_REGION; `source: table` needs none"
        )
    client = answers.client_of(module, "ec2")
    families = module.params["families"]
    found = ec2_info.types_by_name(client, names)[0]
    if families or not module.params["names"]:
        found += ec2_info.types_by_family(client, families)
    return found


def main() -> None:
    # The table answers without boto3 too.
    module = AnsibleAWSModule(argument_spec=SPEC, supports_check_mode=True, check_boto3=False)
    params = module.params
    try:
        site = machine_types.site_types(params["machine_types"])
    except machine_types.MachineTypeError as error:
        module.fail_json(msg=str(error))
    names, families = params["names"], params["families"]
    asked: list[machine_types.MachineType] = []
    if params["source"] != "table":
        try:
            asked = from_ec2(module, [name for name in names if name not in site])
        except AwsProblem as problem:
            if params["source"] == "api":
                module.fail_json(msg=str(problem), action=problem.action, code=problem.code)
            warn(f"{problem} (the collection's own table answers instead)")
    known = {} if params["source"] == "api" else dict(machine_types.table())
    origin = {name: "table" for name in known}
    for more, who in (({one.name: one for one in asked}, "api"), (site, "site")):
        known.update(more)
        origin.update(dict.fromkeys(more, who))
    everything = not names and not families
    found = {
        name: {**one.to_json(), "family": one.family, "origin": origin[name]}
        for name, one in sorted(known.items())
        if (everything or name in names or one.family in families)
        and params["gpu"] in (None, bool(one.gpus))
    }
    module.exit_json(instance_types=found, missing=[name for name in names if name not in known])


if __name__ == "__main__":
    main()
