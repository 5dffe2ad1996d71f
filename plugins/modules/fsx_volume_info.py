#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads volumes of FSx for OpenZFS and ONTAP and how a node mounts them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fsx_volume_info
short_description: Read volumes of FSx for OpenZFS and ONTAP and how to mount them
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns volumes with their paths, quotas and NFS exports, each with its mount entry.
  - Without options, returns all of the region. Several options are combined, each narrowing the result.
  - Changes nothing.
extends_documentation_fragment:
  - trainwright.slurm.aws
options:
  volume_ids:
    description: Only these. A missing one is an error.
    type: list
    elements: str
    default: []
  file_system_ids: {description: Only those of these file systems., type: list, elements: str, default: []}
  tags:
    description: Only those that have all these tags with these values. AWS does not offer such a filter, so all are
      read.
    type: dict
    default: {}
attributes:
  check_mode: {support: full, description: "Reads, as always."}
  diff_mode: {support: none, description: There is nothing to show.}
notes:
  - Needs the permissions C(fsx:DescribeVolumes), C(fsx:DescribeFileSystems) for the names of OpenZFS servers, and
    C(fsx:DescribeStorageVirtualMachines) for those of ONTAP.
seealso:
  - module: trainwright.slurm.fsx_filesystem_info
"""

EXAMPLES = r"""
- name: Read the volumes of a file system
  trainwright.slurm.fsx_volume_info:
    file_system_ids: [fs-0123456789abcdef0]
    region: eu-west-1
  delegate_to: localhost
  run_once: true
  register: volumes

- name: Say how full homes may get
  ansible.builtin.debug:
    msg: "{{ volumes.volumes | selectattr('path', 'equalto', '/fsx/home') | map(attribute='quota') | list }}"
"""

RETURN = r"""
volumes:
  description: Volumes, by their id. Fields that a type does not have are an empty string or null.
  returned: success
  type: list
  elements: dict
  contains:
    id: {description: Id., type: str, returned: always, sample: fsvol-0123456789abcdef0}
    arn: {description: ARN., type: str, returned: always}
    name: {description: Name., type: str, returned: always, sample: home}
    type: {description: "C(OPENZFS) or C(ONTAP).", type: str, returned: always}
    file_system_id: {description: File system that it belongs to., type: str, returned: always}
    lifecycle:
      description: >-
        C(AVAILABLE), C(CREATED), C(CREATING), C(PENDING), C(DELETING), C(FAILED) or C(MISCONFIGURED).
      type: str
      returned: always
    failure: {description: AWS' description of a failed change., type: str, returned: always}
    path: {description: Path on the server; empty for one that is not mounted., type: str, returned: always,
      sample: /fsx/home}
    parent_volume_id: {description: Parent volume (OpenZFS)., type: str, returned: always}
    storage_virtual_machine_id: {description: Its server (ONTAP)., type: str, returned: always}
    quota: {description: Maximum storage in GiB; null without a limit., type: int, returned: always, sample: 1024}
    reservation: {description: Storage kept for it in GiB., type: int, returned: always}
    record_size: {description: Record size in KiB (OpenZFS)., type: int, returned: always, sample: 128}
    compression: {description: "C(NONE), C(ZSTD) or C(LZ4) (OpenZFS).", type: str, returned: always}
    read_only: {description: Whether it is read-only., type: bool, returned: always}
    security_style: {description: "C(UNIX), C(NTFS) or C(MIXED) (ONTAP).", type: str, returned: always}
    nfs_exports:
      description: Clients that may mount it, and how (OpenZFS).
      type: list
      elements: dict
      returned: always
      contains:
        clients: {description: "An address, a network, or C(*) for all.", type: str, returned: always}
        options: {description: Options as in exports(5)., type: list, elements: str, returned: always}
    quotas:
      description: Limits of users and groups (OpenZFS).
      type: list
      elements: dict
      returned: always
      contains:
        type: {description: "C(USER) or C(GROUP).", type: str, returned: always}
        id: {description: Uid or gid., type: int, returned: always}
        quota: {description: Maximum storage in GiB., type: int, returned: always}
    tags: {description: Tags., type: dict, returned: always}
    mount:
      description:
        - An entry for C(cluster_mounts); null for a volume without a path, or with only Windows permissions.
        - It has C(path) with the tag C(trainwright:mount), and C(purpose) with the tag C(trainwright:purpose).
      type: dict
      returned: always
      sample:
        path: /home
        source: fs-0123456789abcdef0.fsx.eu-west-1.amazonaws.com:/fsx/home
        fstype: nfs
        options: nfsvers=4.2,nconnect=16,rsize=1048576,wsize=1048576,_netdev
        purpose: home
action: {description: The call that failed., returned: failure of AWS, type: str, sample: "fsx:DescribeVolumes"}
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
    "volume_ids": {"type": "list", "elements": "str", "default": []},
    "file_system_ids": {"type": "list", "elements": "str", "default": []},
    "tags": {"type": "dict", "default": {}},
}


def read(client: t.Any, params: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the volumes with their mounts. Raises AwsProblem."""
    found = [
        one
        for one in fsx.volumes(client, params["volume_ids"], params["file_system_ids"])
        if fsx_records.tagged(one.tags, params["tags"])
    ]
    servers = fsx.servers_of(client, found)
    return [
        {
            **asdict(one),
            "mount": fsx_mounts.mount_of(
                fsx_mounts.source_of_volume(
                    one, servers.get(one.storage_virtual_machine_id or one.file_system_id, "")
                ),
                one.tags,
            ),
        }
        for one in sorted(found, key=lambda one: one.id)
    ]


def main() -> None:
    """Run the module."""
    module = AnsibleAWSModule(argument_spec=SPEC, supports_check_mode=True)
    client = answers.client_of(module, "fsx")
    try:
        volumes = read(client, module.params)
    except AwsProblem as problem:
        module.fail_json(msg=str(problem), action=problem.action, code=problem.code)
    for one in volumes:
        for line in fsx_mounts.tag_problems(f"FSx volume {one['id']}", one["tags"]):
            warn(line)
    module.exit_json(volumes=volumes)


if __name__ == "__main__":
    main()
