#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads which GPU capacity an AWS account has reserved and may start."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ec2_gpu_capacity_info
short_description: Read reserved and free GPU capacity, and quotas
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns on-demand capacity reservations and capacity blocks of a region with their state, how many
    instances and GPUs are free, and when they start and end; also the quotas of running on-demand instances
    with GPUs or Trainium, and their use.
  - Changes nothing.
extends_documentation_fragment:
  - trainwright.slurm.aws
options:
  reservation_ids:
    description: Only these reservations. A missing one is an error. Without it, all.
    type: list
    elements: str
    default: []
  instance_types:
    description: Only reservations of these types; EC2's wildcards are supported, as in V(p5*). Without it, all.
    type: list
    elements: str
    default: []
  states:
    description: Only reservations in one of these states, as EC2 names them.
    type: list
    elements: str
    default: [active, scheduled, pending, payment-pending, assessing, delayed]
  gpus_only:
    description: Leave out reservations of types without GPUs and without Trainium.
    type: bool
    default: true
  quotas:
    description: Read the quotas, and count their use.
    type: bool
    default: true
attributes:
  check_mode: {support: full, description: "Reads, as always."}
  diff_mode: {support: none, description: There is nothing to show.}
notes:
  - Needs the permission C(ec2:DescribeCapacityReservations).
  - Without C(ec2:DescribeCapacityBlocks), C(ec2:DescribeInstanceTypes), C(ec2:DescribeInstances),
    C(servicequotas:GetServiceQuota), C(servicequotas:GetAWSDefaultServiceQuota) or C(sts:GetCallerIdentity),
    the missing values are null and a warning names the permission.
  - Quotas count vCPUs of on-demand instances that start or run, and unused vCPUs of the account's own
    on-demand reservations. Spot instances and capacity blocks do not count towards them.
"""

EXAMPLES = r"""
- name: Read all GPU capacity of a region
  trainwright.slurm.ec2_gpu_capacity_info:
    region: us-east-2
  register: capacity

- name: Wait for the capacity block to begin
  trainwright.slurm.ec2_gpu_capacity_info:
    reservation_ids: [cr-0123456789abcdef0]
    quotas: false
    region: us-east-2
  register: block
  until: block.reservations | map(attribute='state') | first | default('') == 'active'
  retries: 60
  delay: 60
"""

RETURN = r"""
account: {description: "Number of the account, null without permission or with O(quotas=false).", returned: success,
  type: str, sample: "123456789012"}
region: {description: Region., returned: success, type: str, sample: us-east-2}
reservations:
  description: Capacity reservations and the reservations of capacity blocks. Times are in UTC.
  returned: success
  type: list
  elements: dict
  contains:
    id: {description: Id., type: str, returned: always, sample: cr-0123456789abcdef0}
    name: {description: Its tag Name., type: str, returned: always}
    type: {description: C(on-demand) or C(capacity-block)., type: str, returned: always}
    state: {description: State as EC2 names it., type: str, returned: always, sample: active}
    instance_type: {description: Type., type: str, returned: always, sample: p5.48xlarge}
    zone: {description: Availability zone., type: str, returned: always, sample: us-east-2a}
    zone_id: {description: Id of the zone., type: str, returned: always, sample: use2-az1}
    total: {description: Instances reserved., type: int, returned: always, sample: 16}
    available: {description: Instances of it that are not running., type: int, returned: always, sample: 4}
    used: {description: Instances of it that are running., type: int, returned: always, sample: 12}
    gpu_model: {description: "GPU of the type, null without one.", type: str, returned: always, sample: H100}
    gpus_per_instance:
      description: GPUs of an instance; null if the type is unknown.
      type: int
      returned: always
      sample: 8
    gpus_free:
      description: GPUs that can be started now; 0 while the reservation is not active.
      type: int
      returned: always
      sample: 32
    start: {description: When it starts or started., type: str, returned: always, sample: "2026-11-20T11:30:00Z"}
    end:
      description: When it ends; null for no end. EC2 ends instances of a capacity block half an hour before.
      type: str
      returned: always
    match: {description: C(open) or C(targeted)., type: str, returned: always}
    owner: {description: Number of the account that it belongs to., type: str, returned: always}
    capacity_block_id: {description: Capacity block of the reservation., type: str, returned: always}
    placement_group_arn: {description: Placement group., type: str, returned: always}
    tags: {description: Tags., type: dict, returned: always}
capacity_blocks:
  description:
    - Capacity blocks that have one of RV(reservations), in EC2's own list of them; null without permission, and
      in regions that do not support the call.
  returned: success
  type: list
  elements: dict
  contains:
    id: {description: Id., type: str, returned: always, sample: cb-0123456789abcdef0}
    name: {description: Its tag Name., type: str, returned: always}
    state: {description: State as EC2 names it., type: str, returned: always, sample: active}
    ultraserver_type: {description: UltraServer., type: str, returned: always}
    zone: {description: Availability zone., type: str, returned: always}
    zone_id: {description: Id of the zone., type: str, returned: always}
    start: {description: When it starts or started., type: str, returned: always}
    end: {description: When it ends., type: str, returned: always}
    reservation_ids: {description: Its reservations., type: list, elements: str, returned: always}
    tags: {description: Tags., type: dict, returned: always}
gpus_free: {description: GPUs of all of them that can be started now., returned: success, type: int, sample: 32}
quotas:
  description: Quotas in vCPUs; null with O(quotas=false).
  returned: success
  type: list
  elements: dict
  contains:
    name: {description: Name., type: str, returned: always, sample: Running On-Demand P instances}
    code: {description: Code., type: str, returned: always, sample: L-417A185B}
    limit_vcpus: {description: The quota; null without permission., type: int, returned: always, sample: 1152}
    used_vcpus: {description: vCPUs in use; null without permission., type: int, returned: always, sample: 768}
    free_vcpus: {description: vCPUs left; null if one of the others is null., type: int, returned: always, sample: 384}
action:
  description: The call that failed.
  returned: failure of AWS
  type: str
  sample: ec2:DescribeCapacityReservations
code: {description: "AWS' code of the failure, empty without an answer.", returned: failure of AWS, type: str}
"""

import typing as t

# AnsibleAWSModule's method passes warnings to exit_json, which core has deprecated.
from ansible.module_utils.common.warnings import warn
from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import answers, ec2_info
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import (
    DENIED,
    NOT_HERE,
    AwsProblem,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware import machine_types

SPEC: dict[str, t.Any] = {
    "reservation_ids": {"type": "list", "elements": "str", "default": []},
    "instance_types": {"type": "list", "elements": "str", "default": []},
    "states": {
        "type": "list",
        "elements": "str",
        "default": ["active", "scheduled", "pending", "payment-pending", "assessing", "delayed"],
    },
    "gpus_only": {"type": "bool", "default": True},
    "quotas": {"type": "bool", "default": True},
}
T = t.TypeVar("T")


class Reader:
    """Asks AWS; of what may be missing, a permission that is not there costs a warning."""

    def __init__(self, module: AnsibleAWSModule) -> None:
        self.module = module
        self._clients: dict[str, t.Any] = {}

    def client(self, service: str) -> t.Any:
        if service not in self._clients:
            self._clients[service] = answers.client_of(self.module, service)
        return self._clients[service]

    def optional(self, ask: t.Callable[..., T], service: str, *args: t.Any) -> T | None:
        """Return the answer; None, with a warning, where it is not allowed or not there."""
        try:
            return ask(self.client(service), *args)
        except AwsProblem as problem:
            if problem.code not in DENIED | NOT_HERE:
                raise
            warn(f"{problem} (null in the result until then)")
            return None

    def kinds(self, names: set[str]) -> dict[str, machine_types.MachineType]:
        """Return types by name, from EC2 and else from the table."""
        asked = self.optional(ec2_info.types_by_name, "ec2", sorted(names))
        ours = {name: one for name, one in machine_types.table().items() if name in names}
        return {**ours, **{one.name: one for one in (asked[0] if asked else [])}}


def read(module: AnsibleAWSModule) -> dict[str, t.Any]:
    """Return all that the module does. Raises AwsProblem."""
    params, reader = module.params, Reader(module)
    ec2 = reader.client("ec2")
    found = ec2_info.reservations(
        ec2, params["reservation_ids"], params["instance_types"], params["states"]
    )
    names = {one["instance_type"] for one in found}
    account = quotas = running = None
    active: list[dict[str, t.Any]] = []
    if params["quotas"]:
        account = reader.optional(ec2_info.account_of, "sts")
        running = reader.optional(ec2_info.running_on_demand, "ec2")
        # The quotas are of the whole region, whatever reservations were asked for.
        active = [
            one
            for one in ec2_info.reservations(ec2, states=["active"])
            if ec2_info.quota_of(one["instance_type"])
        ]
        names |= {one["instance_type"] for one in active} | set(running or ())
    kinds = reader.kinds(names) if names else {}
    if params["quotas"]:
        limits = {}
        for quota in ec2_info.QUOTAS:
            limits[quota.code] = reader.optional(ec2_info.quota_limit, "service-quotas", quota)
        quotas = ec2_info.quota_use(limits, running, active, kinds, account)
    if params["gpus_only"]:
        kept = {name for name, one in kinds.items() if one.gpus or one.neuron}
        kept |= names - set(kinds)
        found = [one for one in found if one["instance_type"] in kept]
    whole = [ec2_info.with_gpus(one, kinds.get(one["instance_type"])) for one in found]
    ids = [one["id"] for one in whole]
    return {
        "account": account,
        "region": module.region,
        "reservations": whole,
        "capacity_blocks": reader.optional(ec2_info.capacity_blocks, "ec2", ids),
        "gpus_free": sum(one["gpus_free"] or 0 for one in whole),
        "quotas": quotas,
    }


def main() -> None:
    module = AnsibleAWSModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        module.exit_json(**read(module))
    except AwsProblem as problem:
        module.fail_json(msg=str(problem), action=problem.action, code=problem.code)


if __name__ == "__main__":
    main()
