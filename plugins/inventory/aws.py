# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The nodes and file systems of a cluster on EC2 as an inventory that site.yml takes as it is."""

from __future__ import annotations

DOCUMENTATION = r"""
name: aws
short_description: Nodes and file systems of a cluster on AWS
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Finds the EC2 instances of a cluster by tag or filter, in several regions and accounts, puts them into the groups
    that C(trainwright.slurm.site) expects, and reports each one's hardware and place in the network. File
    systems of FSx become C(cluster_mounts).
  - It is designed for thousands of GPU instances. Host variables are few and flat, groups do not need an
    expression for each host, EC2's answers are read as they arrive, and a cache holds finished hosts. See
    C(docs/benchmarks.md).
  - The file's name ends with C(aws.yml) or C(aws.yaml).
extends_documentation_fragment:
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
  - trainwright.slurm.aws.plugins
requirements:
  - boto3 >= 1.34.0 on the control node
  - the collection amazon.aws >= 10.0.0
options:
  plugin:
    description: V(trainwright.slurm.aws), which marks this file as input of this plugin.
    type: str
    required: true
    choices: [trainwright.slurm.aws]
  regions:
    description:
      - Regions to search, or V(all) for every region that is enabled for the account.
      - By default, the region from O(region), C(AWS_REGION), or the profile.
    type: list
    elements: str
    default: []
  assume_role_arns:
    description:
      - Roles to assume, one for each account. The credentials need C(sts:AssumeRole) on them.
      - By default, the inventory reads the account of the credentials.
    type: list
    elements: str
    default: []
    aliases: [assume_role_arn]
  cluster:
    description:
      - Name of the cluster. Selects instances and file systems whose tag O(cluster_tag) has this value.
      - One of O(cluster), O(parallelcluster), O(pcs) and O(filters) is needed, of the first three at most one.
    type: str
  parallelcluster:
    description: >-
      Name of a cluster of AWS ParallelCluster. Its head node, login nodes and compute nodes join
      C(slurm_controller), C(slurm_login) and C(slurm_compute).
    type: str
  pcs:
    description: >-
      Id of a cluster of AWS PCS, such as V(pcs_a1b2c3d4e5). Its instances join C(slurm_compute), those of
      node groups without a queue C(slurm_login). AWS runs its controller outside your instances.
    type: str
  filters:
    description: >-
      Filters of EC2's DescribeInstances and their values. An instance must match all filters, and any one
      value of each.
    type: dict
    default: {}
  states:
    description: States of instances to list. The filter C(instance-state-name) in O(filters) takes precedence.
    type: list
    elements: str
    choices: [pending, running, shutting-down, stopping, stopped, terminated]
    default: [running]
  cluster_tag:
    description: Name of the tag with the cluster's name, on instances and file systems.
    type: str
    default: trainwright:cluster
  role_tag:
    description:
      - Name of the tag with an instance's role in the cluster, V(controller), V(database), V(login),
        V(compute), V(rest), V(pyxis), V(oci) or V(build). Several are joined by V(+), as in V(controller+database);
        spaces, commas and slashes separate them as well.
      - An instance with this tag has only these roles, even if it belongs to ParallelCluster or PCS.
    type: str
    default: trainwright:role
  partition_tag:
    description: >-
      Name of the tag that names the partitions of an instance, several joined by V(+). Each becomes a group
      C(partition_NAME), which C(slurm_partitions) names in C(groups).
    type: str
    default: trainwright:partition
  hostnames:
    description:
      - Sources of a host's name; the first available one is used. V(tag:NAME), V(private-dns-name), V(dns-name),
        V(private-ip-address), V(ip-address) or V(instance-id).
      - If instances share a value, the one that was started first keeps it, in the region that O(regions) names
        first; the others use their next one, finally their id, with a warning.
      - A tag that could be taken for something else (a group, an address, the control node, another instance) or is
        not a valid host name is skipped, with a warning. See C(docs/aws.md).
    type: list
    elements: str
    default: ["tag:Name", private-dns-name, instance-id]
  address:
    description: Address for C(ansible_host). For an instance without a public address, the private one is used.
    type: str
    choices: [private, public]
    default: private
  strict_regions:
    description:
      - Whether a region or account that does not answer is an error. Otherwise it is a warning that names
        it, and the inventory is not cached. If none of them answers, it is always an error.
      - A region in O(regions) or a role in O(assume_role_arns) without any instance counts as one that does not answer,
        if others have some. So does an id in O(fsx) that is not found.
      - The same applies to calls for types, topology, file systems and PCS.
    type: bool
    default: true
  timeout:
    description:
      - Seconds to wait for the answer of a call. The connection itself is waited for at most 5 seconds.
      - A call that nobody answers is tried 3 times, so a region that is down takes about a minute at most. A region
        that has not answered within 10 seconds is reported meanwhile.
    type: float
    default: 20
  topology:
    description: >-
      Whether to read the place of each running instance in the network, for C(slurm_topology). This takes
      one call for 100 instances; types without topology in EC2 are left out.
    type: bool
    default: true
  fsx:
    description: >-
      Whether to look for file systems of FSx with the tag of O(cluster), or a list of their ids. See C(docs/fsx.md).
    type: raw
    default: true
  instance_type_source:
    description: >-
      Source of the hardware of a type. V(table) is the table of this collection, V(api) is EC2's
      DescribeInstanceTypes, V(auto) calls EC2 for the types that the table lacks.
    type: str
    choices: [auto, table, api]
    default: auto
  machine_types:
    description: A site's own types, which take precedence over all others, in the form of C(docs/aws.md).
    type: dict
    default: {}
  export_tags:
    description: >-
      Whether hosts get all their tags as the variable C(ec2_tags). Expressions of O(compose), O(groups) and
      O(keyed_groups) can always use it. Tags are never templated.
    type: bool
    default: false
notes:
  - >-
    Groups. C(slurm_controller), C(slurm_database), C(slurm_login), C(slurm_compute), C(slurm_rest), C(slurm_pyxis),
    C(slurm_oci) and C(slurm_build) by role, all below C(slurm_cluster). C(type_p5_48xlarge) by instance type,
    C(region_eu_west_1), C(zone_eu_west_1a), C(account_123456789012), C(placement_NAME) by placement group,
    C(reservation_cr_0123) by capacity reservation, C(partition_NAME) by O(partition_tag) or by the queue of
    ParallelCluster or PCS, C(parallelcluster) and C(pcs) by the manager of the cluster. Characters in a name
    other than letters, digits and underscores become underscores.
  - >-
    The nodes that ParallelCluster or PCS manages are in C(slurm_foreign), which C(trainwright.slurm.site) refuses, and
    not in C(slurm_cluster). Their login and compute nodes are in C(slurm_pyxis), for C(trainwright.slurm.containers).
    See C(docs/parallelcluster.md).
  - >-
    Hosts are in the order of their names. If C(slurm_controller) has two, the first is the primary.
  - >-
    If an inventory source fails, Ansible itself continues without its hosts, with a warning. The playbooks of this
    collection fail then, by the variable C(aws_inventory_failure) of all hosts. For others, set
    C(any_unparsed_is_failed = true) in the section C([inventory]) of C(ansible.cfg).
  - >-
    SageMaker HyperPod is out of scope. Its instances are not in the customer's account and EC2 does not list them.
"""

EXAMPLES = r"""
# aws.yml: a cluster of ours, all that is tagged trainwright:cluster = train
plugin: trainwright.slurm.aws
regions: [eu-west-1]
cluster: train

---
# Two accounts and two regions; one that cannot be asked is a warning
plugin: trainwright.slurm.aws
regions: [eu-west-1, us-east-2]
assume_role_arns:
  - arn:aws:iam::111111111111:role/inventory
  - arn:aws:iam::222222222222:role/inventory
cluster: train
strict_regions: false

---
# Stopped ones too, named by their ids, without asking for topology and file systems
plugin: trainwright.slurm.aws
regions: [eu-west-1]
filters: {tag:team: [vision, speech], instance-type: p5*}
states: [pending, running, stopped]
hostnames: [instance-id]
topology: false
fsx: false

---
# The nodes of a cluster that AWS ParallelCluster keeps
plugin: trainwright.slurm.aws
regions: [eu-west-1]
parallelcluster: train

---
# Kept for an hour in a file; a group by an own tag
plugin: trainwright.slurm.aws
regions: [eu-west-1]
cluster: train
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/trainwright
cache_timeout: 3600
keyed_groups:
  - prefix: team
    key: ec2_tags.team
"""

RETURN = r"""
ansible_host:
  description: The private address, or the one selected by O(address).
  returned: hosts with an address
  type: str
  sample: 10.0.1.17
ec2_instance_id:
  description: The instance.
  returned: each host
  type: str
  sample: i-0123456789abcdef0
ec2_instance_type:
  description: Its type.
  returned: each host
  type: str
  sample: p5.48xlarge
ec2_architecture:
  description: As C(uname -m) prints it.
  returned: each host
  type: str
  sample: x86_64
ec2_state:
  description: Its state when it was read.
  returned: each host
  type: str
  sample: running
ec2_lifecycle:
  description: V(on-demand), V(spot), V(scheduled) or V(capacity-block).
  returned: each host
  type: str
  sample: capacity-block
ec2_region:
  description: Where it is.
  returned: each host
  type: str
  sample: eu-west-1
ec2_zone:
  description: Its availability zone.
  returned: each host
  type: str
  sample: eu-west-1a
ec2_account_id:
  description: The account that it is in.
  returned: each host
  type: str
  sample: "123456789012"
ec2_vpc_id:
  description: Its VPC.
  returned: hosts in one
  type: str
  sample: vpc-0123456789abcdef0
ec2_subnet_id:
  description: Its subnet.
  returned: hosts in one
  type: str
  sample: subnet-0123456789abcdef0
ec2_private_ip:
  description: Its private address; IPv6 if it lacks IPv4.
  returned: hosts with one
  type: str
  sample: 10.0.1.17
ec2_public_ip:
  description: Its public address.
  returned: hosts with one
  type: str
  sample: 198.51.100.7
ec2_private_dns:
  description: Its private DNS name.
  returned: hosts with one
  type: str
  sample: ip-10-0-1-17.eu-west-1.compute.internal
ec2_placement_group:
  description: The placement group that it was started in.
  returned: hosts in one
  type: str
  sample: train
ec2_capacity_reservation_id:
  description: The capacity reservation that it uses.
  returned: hosts with one
  type: str
  sample: cr-0123456789abcdef0
ec2_capacity_block_id:
  description: The capacity block that it uses.
  returned: hosts with one
  type: str
  sample: cb-0123456789abcdef0
ec2_cluster: {description: "Name or id of the cluster, by its tags.", returned: hosts with such a tag, type: str}
ec2_cluster_manager:
  description: V(parallelcluster) or V(pcs).
  returned: hosts of their clusters
  type: str
  sample: parallelcluster
ec2_efa_interfaces: {description: Number of attached EFA interfaces., returned: each host, type: int, sample: 32}
ec2_vcpus:
  description: Logical CPUs of its type.
  returned: hosts of a type that is known
  type: int
  sample: 192
ec2_memory_mib:
  description: Memory of its type, in MiB.
  returned: hosts of a type that is known
  type: int
  sample: 2097152
ec2_gpu_model:
  description: Model of its GPUs.
  returned: hosts with GPUs
  type: str
  sample: H100
ec2_gpu_count:
  description: Number of its GPUs.
  returned: hosts with GPUs
  type: int
  sample: 8
ec2_gpu_memory_mib:
  description: Memory of one GPU, in MiB.
  returned: hosts with GPUs
  type: int
  sample: 81920
ec2_neuron_model:
  description: Model of its Trainium or Inferentia devices.
  returned: hosts with such devices
  type: str
  sample: Trainium2
ec2_neuron_count:
  description: Number of its Trainium or Inferentia devices.
  returned: hosts with such devices
  type: int
  sample: 16
ec2_nvme_count:
  description: NVMe disks of the machine itself.
  returned: hosts with such disks
  type: int
  sample: 8
ec2_nvme_size_gb:
  description: Size of one of these disks, in GB (10^9 bytes).
  returned: hosts with such disks
  type: int
  sample: 3800
slurm_prefix:
  description: Where the Slurm of ParallelCluster or PCS is installed.
  returned: hosts of their clusters
  type: str
  sample: /opt/slurm
slurm_network_path:
  description: Network nodes from the top of EC2's network to the one above the instance; see C(docs/topology.md).
  returned: O(topology), running hosts of which EC2 says it
  type: list
  elements: str
  sample: [nn-0a, nn-0b, nn-0c]
slurm_block:
  description: The UltraServer that it is a part of.
  returned: O(topology), hosts of one
  type: str
  sample: cb-0123456789abcdef0
ec2_tags:
  description: All tags of the instance.
  returned: O(export_tags)
  type: dict
  sample: {team: vision}
ec2_machine_types:
  description: >-
    Types of the hosts that are in O(machine_types) or come from EC2, not from the table; a variable of all hosts.
    Preflight compares machines with them (C(docs/machine_types.md)).
  returned: when there is any
  type: dict
cluster_mounts:
  description: How the cluster's file systems of FSx are mounted; a variable of all hosts. See C(docs/fsx.md).
  returned: O(fsx), when there is any
  type: list
  elements: dict
  sample: [{path: /fsx, source: "fs-0123.fsx.eu-west-1.amazonaws.com@tcp:/abcd", fstype: lustre}]
cluster_data_repositories:
  description: Directories of these that are linked to S3; a variable of all hosts.
  returned: O(fsx), when there is any
  type: list
  elements: dict
  sample: [{path: /fsx/data, s3: "s3://bucket/data"}]
"""

import json
import typing as t
from collections.abc import Mapping

from ansible import constants
from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import fleet
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import AwsProblem
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.plugin_utils.aws_cache import (
    key_of,
    private_files,
    read,
    write,
)
from ansible_collections.trainwright.slurm.plugins.plugin_utils.aws_groups import (
    CLUSTER,
    SERVICES,
    collision,
    own_name,
)
from ansible_collections.trainwright.slurm.plugins.plugin_utils.aws_options import (
    misspelt,
    problem_of,
)
from ansible_collections.trainwright.slurm.plugins.plugin_utils.garbage import without_collection

if t.TYPE_CHECKING:
    from ansible.inventory.data import InventoryData
    from ansible.parsing.dataloader import DataLoader

#: The variable of all hosts that keeps why the inventory failed.
FAILURE = "aws_inventory_failure"
_EXPRESSIONS = ("compose", "groups", "keyed_groups")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """The inventory plugin trainwright.slurm.aws."""

    NAME = "trainwright.slurm.aws"

    def verify_file(self, path: str) -> bool:
        """Tell whether the file is one for this plugin, by its name."""
        return super().verify_file(path) and path.endswith(("aws.yml", "aws.yaml"))

    def parse(
        self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True
    ) -> None:
        """Fill the inventory. Raises AnsibleParserError with where, why and the remedy."""
        super().parse(inventory, loader, path, cache)
        # Another plugin's file is an error here, and is none of ours.
        with private_files():
            given = self._read_config_data(path)
        try:
            self._fill(path, given, cache)
        except Exception as problem:
            # Ansible continues without the hosts of a source that fails; the playbooks look at this and end.
            inventory.set_variable("all", FAILURE, str(problem))
            raise

    def _fill(self, path: str, given: Mapping[str, t.Any], cache: bool) -> None:
        options = self._all_options()
        definitions = constants.config.get_configuration_definitions("inventory", self._load_name)
        wrong = misspelt(given, definitions, self.NAME) or problem_of(options)
        if wrong:
            raise AnsibleParserError(wrong)
        with without_collection():
            key = key_of(self.get_cache_key(path), options)
            found = read(self._cache, key) if cache and options["cache"] else None
            if found is None:
                found = self._ask(key, options)
            for line in found["warnings"]:
                self.display.warning(printable(line))
            self._populate(found, options)

    def _all_options(self) -> dict[str, t.Any]:
        """All options, templates in them filled in; not those of expressions, which are for each host."""
        options = self.get_options()
        return {
            name: value if name in _EXPRESSIONS else self.templar.template(value)
            for name, value in options.items()
        }

    def _ask(self, key: str, options: dict[str, t.Any]) -> dict[str, t.Any]:
        # Here and not above: with a cached answer nobody needs boto3.
        try:
            from ..plugin_utils.aws_fleet import Asker

            found = Asker(options, self.display.warning).ask()
        except AwsProblem as problem:
            raise AnsibleParserError(str(problem)) from problem
        if found.failures and options["strict_regions"]:
            raise AnsibleParserError(printable("\n".join(found.failures)))
        for line in found.failures:
            self.display.warning(printable(f"not all of the cluster is in the inventory: {line}"))
        result = {
            "hosts": found.hosts,
            "variables": found.variables,
            "warnings": found.warnings,
            "own": found.own or not found.managed,
        }
        if options["cache"] and found.hosts and not found.failures:
            # An empty one is asked for again: it is a mistake, or about to change.
            # One text: a cache looks at each value that it is given, again when it hands it out.
            self._cache[key] = {"fleet": json.dumps(result)}
        return result

    def update_cache_if_changed(self) -> None:
        """Write the cache, for its owner only: it has all tags and addresses."""
        write(self._cache)

    def _populate(self, found: dict[str, t.Any], options: dict[str, t.Any]) -> None:
        inventory = self.inventory
        for name in SERVICES:
            inventory.add_group(name)
        for name, value in found["variables"].items():
            inventory.set_variable("all", name, value)
        expressions = any(options[name] for name in _EXPRESSIONS)
        for group in dict.fromkeys(group for host in found["hosts"] for group in host[2]):
            inventory.add_group(group)
        for name, variables, groups, tags in found["hosts"]:
            name, warning = own_name(inventory, name, variables)
            if warning:
                self.display.warning(printable(warning))
            inventory.add_host(name)
            for key, value in variables.items():
                inventory.set_variable(name, key, value)
            if options["export_tags"]:
                inventory.set_variable(name, "ec2_tags", tags)
            for group in groups:
                # Not add_child: that takes the name of a group for the group.
                inventory.add_host(name, group)
            if expressions:
                self._construct(name, {**variables, "ec2_tags": tags}, options)
        wrong = collision(inventory)
        if wrong:
            raise AnsibleParserError(wrong)
        if found["own"]:
            inventory.add_group(CLUSTER)
            for role in fleet.ROLES:
                if f"slurm_{role}" in inventory.groups:
                    inventory.add_child(CLUSTER, f"slurm_{role}")

    def _construct(self, name: str, variables: dict[str, t.Any], options: dict[str, t.Any]) -> None:
        strict = options["strict"]
        self._set_composite_vars(options["compose"], variables, name, strict=strict)
        self._add_host_to_composed_groups(options["groups"], variables, name, strict=strict)
        self._add_host_to_keyed_groups(options["keyed_groups"], variables, name, strict=strict)
