#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Links a directory of FSx for Lustre to a bucket, changes that, and unlinks it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fsx_data_repository_association
short_description: Link a directory of FSx for Lustre to S3
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Ensures that a directory of a file system is linked to a bucket or a prefix of one, with the wanted
    policies, or is not linked. The link is identified by file system and path.
  - Settings that are not given stay as they are.
  - AWS cannot move a link to another place in S3; that is an error. Remove and create the link in two tasks.
extends_documentation_fragment:
  - trainwright.slurm.aws
  - trainwright.slurm.aws.tags
options:
  state:
    description: V(present) creates or changes the link; V(absent) removes it.
    type: str
    choices: [present, absent]
    default: present
  file_system_id: {description: Id of the file system., type: str, required: true}
  file_system_path:
    description:
      - Directory, relative to the root of the file system and not of the node, such as V(/checkpoints). AWS
        creates it if it is missing. There must not be another link in or above it.
    type: str
    required: true
  data_repository_path:
    description:
      - Place in S3, C(s3://bucket) or C(s3://bucket/prefix/), in the region of the file system. Other links
        of the file system must not use it.
      - Needed for a new link.
    type: str
  auto_import:
    description: Events of the bucket that the file system follows; an empty list for none, as in a new link.
    type: list
    elements: str
    choices: [NEW, CHANGED, DELETED]
  auto_export:
    description:
      - Events of the file system that the bucket follows; an empty list for none, as in a new link.
      - With V(DELETED), removing a file removes its object.
    type: list
    elements: str
    choices: [NEW, CHANGED, DELETED]
  imported_file_chunk_size:
    description:
      - Maximum data of an imported file on one disk in MiB, 1 to 512000, which determines how many disks it
        is striped over. AWS uses 1024 for a new link.
    type: int
  import_metadata:
    description:
      - Import names and attributes of all objects in the bucket once, when the link is created. The module
        does not wait for the end of this import; M(trainwright.slurm.fsx_data_repository_task) does.
    type: bool
    default: false
  delete_data_in_filesystem:
    description:
      - With O(state=absent), delete the files of the directory in the file system too. Objects in S3 stay,
        but files that were never exported are lost.
    type: bool
    default: false
  wait: {description: Wait until the link is usable or gone., type: bool, default: true}
  wait_timeout: {description: For how many seconds at most., type: int, default: 1800}
attributes:
  check_mode: {support: full,
    description: Also checks paths and whether a new link is possible; makes only calls that read.}
  diff_mode: {support: full, description: The settings of the link.}
notes:
  - Needs the permissions C(fsx:DescribeDataRepositoryAssociations), C(fsx:DescribeFileSystems),
    C(fsx:CreateDataRepositoryAssociation), C(fsx:UpdateDataRepositoryAssociation),
    C(fsx:DeleteDataRepositoryAssociation), C(fsx:TagResource) and C(fsx:UntagResource). AWS also asks for C(s3:Get*),
    C(s3:List*), C(s3:PutObject), and C(iam:CreateServiceLinkedRole) and C(iam:PutRolePolicy) of its role for the
    bucket.
  - A link that is C(MISCONFIGURED) is sent again as it is, since that makes AWS check it again at once; with
    O(wait=false) it is not changed.
  - The guide C(docs/fsx.md) has a table of errors.
seealso:
  - module: trainwright.slurm.fsx_data_repository_association_info
  - module: trainwright.slurm.fsx_data_repository_task
"""

EXAMPLES = r"""
- name: Keep checkpoints in S3 as they are written
  trainwright.slurm.fsx_data_repository_association:
    file_system_id: fs-0123456789abcdef0
    file_system_path: /checkpoints
    data_repository_path: s3://example-bucket/checkpoints/
    auto_export: [NEW, CHANGED]
    region: eu-west-1
  delegate_to: localhost
  run_once: true

- name: Show a data set of S3 as files
  trainwright.slurm.fsx_data_repository_association:
    file_system_id: fs-0123456789abcdef0
    file_system_path: /datasets
    data_repository_path: s3://example-bucket/datasets/
    auto_import: [NEW, CHANGED, DELETED]
    import_metadata: true

- name: Unlink it, and keep the files
  trainwright.slurm.fsx_data_repository_association:
    file_system_id: fs-0123456789abcdef0
    file_system_path: /datasets
    state: absent
"""

RETURN = r"""
association:
  description: The link after the task, in check mode the current one; null without a link.
  returned: success
  type: dict
  contains:
    id: {description: Id., type: str, returned: always, sample: dra-0123456789abcdef0}
    arn: {description: ARN., type: str, returned: always}
    file_system_id: {description: File system., type: str, returned: always, sample: fs-0123456789abcdef0}
    file_cache_id: {description: Empty., type: str, returned: always}
    lifecycle:
      description: C(AVAILABLE). With O(wait=false) also C(CREATING), C(UPDATING), C(DELETING) or C(MISCONFIGURED).
      type: str
      returned: always
    failure: {description: "AWS' description of a failure.", type: str, returned: always}
    path: {description: Directory from the root of the file system., type: str, returned: always, sample: /checkpoints}
    data_repository_path: {description: Place in S3., type: str, returned: always,
      sample: "s3://example-bucket/checkpoints/"}
    type: {description: C(S3)., type: str, returned: always}
    auto_import: {description: Events of the bucket that the file system follows., type: list, elements: str,
      returned: always}
    auto_export: {description: Events of the file system that the bucket follows., type: list, elements: str,
      returned: always, sample: [NEW, CHANGED]}
    chunk_size: {description: Most data of an imported file on one disk in MiB., type: int, returned: always,
      sample: 1024}
    import_metadata: {description: Whether all was imported when it was created., type: bool, returned: always}
    created: {description: When it was made (ISO 8601)., type: str, returned: always, sample: "2026-11-01T12:00:00Z"}
    tags: {description: Tags., type: dict, returned: always}
action: {description: The call that failed., returned: failure of AWS, type: str,
  sample: "fsx:CreateDataRepositoryAssociation"}
code: {description: "AWS' code of the failure, C(timeout), or the final state of the link; else empty.",
  returned: failure, type: str}
"""

import typing as t
from dataclasses import asdict

from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import answers, fsx_associations
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import (
    AwsProblem,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.waiting import Wait

EVENTS = {"type": "list", "elements": "str", "choices": list(fsx_associations.EVENTS)}
SPEC: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "file_system_id": {"type": "str", "required": True},
    "file_system_path": {"type": "str", "required": True},
    "data_repository_path": {"type": "str"},
    "auto_import": EVENTS,
    "auto_export": EVENTS,
    "imported_file_chunk_size": {"type": "int"},
    "import_metadata": {"type": "bool", "default": False},
    "delete_data_in_filesystem": {"type": "bool", "default": False},
    "tags": {"type": "dict", "aliases": ["resource_tags"]},
    "purge_tags": {"type": "bool", "default": True},
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 1800},
}


def work(client: t.Any, params: dict[str, t.Any], check: bool) -> fsx_associations.Outcome:
    """Bring the link to its state. Raises AwsProblem."""
    wait = Wait(params["wait_timeout"]) if params["wait"] else None
    if params["state"] == "absent":
        return fsx_associations.absent(
            client,
            params["file_system_id"],
            params["file_system_path"],
            delete_data=params["delete_data_in_filesystem"],
            check=check,
            wait=wait,
        )
    tags = params["tags"]
    wanted = fsx_associations.Wanted(
        file_system_id=params["file_system_id"],
        path=params["file_system_path"],
        data_repository_path=params["data_repository_path"],
        auto_import=params["auto_import"],
        auto_export=params["auto_export"],
        chunk_size=params["imported_file_chunk_size"],
        import_metadata=params["import_metadata"],
        tags=None if tags is None else {key: str(value) for key, value in tags.items()},
        purge_tags=params["purge_tags"],
    )
    return fsx_associations.present(client, wanted, check=check, wait=wait)


def main() -> None:
    """Run the module."""
    module = AnsibleAWSModule(argument_spec=SPEC, supports_check_mode=True)
    client = answers.client_of(module, "fsx")
    try:
        outcome = work(client, module.params, module.check_mode)
    except AwsProblem as problem:
        module.fail_json(msg=str(problem), action=problem.action, code=problem.code)
    module.exit_json(
        changed=outcome.changed,
        association=outcome.association and asdict(outcome.association),
        diff={"before": outcome.before, "after": outcome.after},
    )


if __name__ == "__main__":
    main()
