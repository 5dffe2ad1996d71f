#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads Amazon FSx file systems and how a node mounts them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fsx_filesystem_info
short_description: Read Amazon FSx file systems and how to mount them
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns file systems of FSx for Lustre, OpenZFS, ONTAP and Windows, each with its mount entry.
  - Without options, returns all of the region. Several options are combined, each narrowing the result.
  - Changes nothing.
extends_documentation_fragment:
  - trainwright.slurm.aws
options:
  file_system_ids:
    description: Only these. A missing one is an error.
    type: list
    elements: str
    default: []
  tags:
    description: Only those that have all these tags with these values. AWS does not offer such a filter, so all are
      read.
    type: dict
    default: {}
  types:
    description: Only these types.
    type: list
    elements: str
    choices: [LUSTRE, OPENZFS, ONTAP, WINDOWS]
    default: []
  vpc_id: {description: Only those of this VPC., type: str}
attributes:
  check_mode: {support: full, description: "Reads, as always."}
  diff_mode: {support: none, description: There is nothing to show.}
notes:
  - Needs the permission C(fsx:DescribeFileSystems).
  - The guide C(docs/fsx.md) explains the tags for path and purpose, and the errors.
seealso:
  - module: trainwright.slurm.fsx_volume_info
  - module: trainwright.slurm.fsx_data_repository_association_info
"""

EXAMPLES = r"""
- name: Read the file systems of a cluster
  trainwright.slurm.fsx_filesystem_info:
    tags:
      trainwright:cluster: train1
    region: eu-west-1
  delegate_to: localhost
  run_once: true
  register: storage

- name: Show what cluster_mounts could be
  ansible.builtin.debug:
    msg: "{{ storage.file_systems | map(attribute='mount') | select | list }}"

- name: Read one
  trainwright.slurm.fsx_filesystem_info:
    file_system_ids: [fs-0123456789abcdef0]
"""

RETURN = r"""
file_systems:
  description: File systems, by their id. Fields that a type does not have are an empty string or null.
  returned: success
  type: list
  elements: dict
  contains:
    id: {description: Id., type: str, returned: always, sample: fs-0123456789abcdef0}
    arn: {description: ARN., type: str, returned: always}
    type: {description: "C(LUSTRE), C(OPENZFS), C(ONTAP) or C(WINDOWS).", type: str, returned: always}
    type_version: {description: Version of Lustre., type: str, returned: always, sample: "2.15"}
    lifecycle:
      description: >-
        C(AVAILABLE), C(CREATING), C(UPDATING), C(DELETING), C(FAILED), C(MISCONFIGURED) or
        C(MISCONFIGURED_UNAVAILABLE).
      type: str
      returned: always
    failure: {description: "AWS' description of a failure.", type: str, returned: always}
    dns_name: {description: Name in DNS., type: str, returned: always,
      sample: fs-0123456789abcdef0.fsx.eu-west-1.amazonaws.com}
    vpc_id: {description: VPC., type: str, returned: always}
    subnet_ids: {description: Subnets., type: list, elements: str, returned: always}
    storage_capacity: {description: Storage in GiB., type: int, returned: always, sample: 4800}
    storage_type: {description: "C(SSD), C(HDD) or C(INTELLIGENT_TIERING).", type: str, returned: always}
    deployment_type: {description: "Such as C(PERSISTENT_2).", type: str, returned: always}
    throughput: {description: Throughput in MB/s where it is set as such., type: int, returned: always}
    per_unit_throughput: {description: Throughput of Lustre in MB/s for each TiB of storage., type: int,
      returned: always, sample: 250}
    metadata_iops: {description: Metadata operations a second of Lustre., type: int, returned: always}
    mount_name: {description: Name for mounting Lustre., type: str, returned: always, sample: abcdebev}
    efa_enabled: {description: Whether Lustre takes connections over EFA., type: bool, returned: always}
    compression: {description: "Compression of Lustre, C(NONE) or C(LZ4).", type: str, returned: always}
    root_squash: {description: "Identity of root on Lustre, C(UID:GID).", type: str, returned: always}
    root_volume_id: {description: Root volume of OpenZFS., type: str, returned: always}
    endpoint_ip_address: {description: Address of OpenZFS., type: str, returned: always}
    data_repository:
      description: The S3 link that a Lustre file system was created with; null without one, and with associations.
      type: dict
      returned: always
      contains:
        import_path: {description: Source of the files., type: str, returned: always}
        export_path: {description: Destination of the files., type: str, returned: always}
        lifecycle: {description: As that of an association., type: str, returned: always}
        failure: {description: "AWS' description of a failure.", type: str, returned: always}
    pending_actions:
      description: Changes that AWS has not finished.
      type: list
      elements: dict
      returned: always
      contains:
        type: {description: "Such as C(FILE_SYSTEM_UPDATE).", type: str, returned: always}
        status: {description: "Such as C(IN_PROGRESS).", type: str, returned: always}
        progress: {description: Percent done if AWS reports it., type: int, returned: always}
    tags: {description: Tags., type: dict, returned: always}
    mount:
      description:
        - An entry for C(cluster_mounts); null for ONTAP, whose volumes are mounted, and for Windows.
        - It has C(path) with the tag C(trainwright:mount), and C(purpose) with the tag C(trainwright:purpose).
      type: dict
      returned: always
      sample:
        path: /fsx
        source: fs-0123456789abcdef0.fsx.eu-west-1.amazonaws.com@tcp:/abcdebev
        fstype: lustre
        options: noatime,flock,_netdev,x-systemd.automount,x-systemd.requires=network-online.target
        purpose: scratch
action: {description: The call that failed., returned: failure of AWS, type: str, sample: "fsx:DescribeFileSystems"}
code: {description: "AWS' code of the failure, empty without an answer.", returned: failure of AWS, type: str}
"""

import typing as t
from dataclasses import asdict

# AnsibleAWSModule's method passes warnings to exit_json, which core has deprecated.
from ansible.module_utils.common.warnings import warn
from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import (
    answers,
    fsx,
    fsx_mounts,
    fsx_records,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import (
    AwsProblem,
)

SPEC: dict[str, t.Any] = {
    "file_system_ids": {"type": "list", "elements": "str", "default": []},
    "tags": {"type": "dict", "default": {}},
    "types": {
        "type": "list",
        "elements": "str",
        "choices": ["LUSTRE", "OPENZFS", "ONTAP", "WINDOWS"],
        "default": [],
    },
    "vpc_id": {"type": "str"},
}


def main() -> None:
    """Run the module."""
    module = AnsibleAWSModule(argument_spec=SPEC, supports_check_mode=True)
    params = module.params
    client = answers.client_of(module, "fsx")
    try:
        found = [
            fs
            for fs in fsx.file_systems(client, params["file_system_ids"])
            if fsx_records.tagged(fs.tags, params["tags"])
            and fs.type in (params["types"] or [fs.type])
            and fs.vpc_id == (params["vpc_id"] or fs.vpc_id)
        ]
    except AwsProblem as problem:
        module.fail_json(msg=str(problem), action=problem.action, code=problem.code)
    for fs in found:
        for line in fsx_mounts.tag_problems(f"FSx {fs.type} {fs.id}", fs.tags):
            warn(line)
    module.exit_json(
        file_systems=[
            {**asdict(fs), "mount": fsx_mounts.mount_of(fsx_mounts.source_of(fs), fs.tags)}
            for fs in sorted(found, key=lambda fs: fs.id)
        ]
    )


if __name__ == "__main__":
    main()
