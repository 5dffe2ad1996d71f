#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads which directories of FSx for Lustre are linked to which buckets."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fsx_data_repository_association_info
short_description: Read links between FSx for Lustre and S3
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns data repository associations of FSx for Lustre, and of Amazon File Cache.
  - Without options, returns all of the region. Several options are combined, each narrowing the result.
  - Changes nothing.
extends_documentation_fragment:
  - trainwright.slurm.aws
options:
  association_ids:
    description: Only these. A missing one is an error.
    type: list
    elements: str
    default: []
  file_system_ids: {description: Only those of these file systems., type: list, elements: str, default: []}
  type:
    description: Only links to this kind of storage. Only Amazon File Cache has V(NFS).
    type: str
    choices: [S3, NFS]
attributes:
  check_mode: {support: full, description: "Reads, as always."}
  diff_mode: {support: none, description: There is nothing to show.}
notes:
  - Needs the permission C(fsx:DescribeDataRepositoryAssociations).
seealso:
  - module: trainwright.slurm.fsx_data_repository_association
"""

EXAMPLES = r"""
- name: Read the links of a file system
  trainwright.slurm.fsx_data_repository_association_info:
    file_system_ids: [fs-0123456789abcdef0]
    region: eu-west-1
  delegate_to: localhost
  run_once: true
  register: links

- name: See that all of them work
  ansible.builtin.assert:
    that: links.associations | rejectattr('lifecycle', 'equalto', 'AVAILABLE') | length == 0
    fail_msg: "{{ links.associations | map(attribute='failure') | select | join('; ') }}"
"""

RETURN = r"""
associations:
  description: Links, by file system and path.
  returned: success
  type: list
  elements: dict
  contains:
    id: {description: Id., type: str, returned: always, sample: dra-0123456789abcdef0}
    arn: {description: ARN., type: str, returned: always}
    file_system_id: {description: File system., type: str, returned: always, sample: fs-0123456789abcdef0}
    file_cache_id: {description: Cache; empty for a file system., type: str, returned: always}
    lifecycle:
      description: "C(CREATING), C(AVAILABLE), C(UPDATING), C(DELETING), C(MISCONFIGURED) or C(FAILED)."
      type: str
      returned: always
    failure: {description: "AWS' description of a failure.", type: str, returned: always}
    path: {description: Directory from the root of the file system., type: str, returned: always, sample: /checkpoints/}
    data_repository_path: {description: Where it is linked to., type: str, returned: always,
      sample: "s3://example-bucket/checkpoints/"}
    type: {description: "C(S3) or C(NFS).", type: str, returned: always}
    auto_import: {description: Events of the bucket that the file system follows., type: list, elements: str,
      returned: always, sample: [NEW, CHANGED]}
    auto_export: {description: Events of the file system that the bucket follows., type: list, elements: str,
      returned: always, sample: [NEW, CHANGED, DELETED]}
    chunk_size: {description: Most data of an imported file on one disk in MiB., type: int, returned: always,
      sample: 1024}
    import_metadata: {description: Whether all was imported when it was made., type: bool, returned: always}
    created: {description: When it was made (ISO 8601)., type: str, returned: always, sample: "2026-11-01T12:00:00Z"}
    tags: {description: Tags., type: dict, returned: always}
action: {description: The call that failed., returned: failure of AWS, type: str,
  sample: "fsx:DescribeDataRepositoryAssociations"}
code: {description: "AWS' code of the failure, empty without an answer.", returned: failure of AWS, type: str}
"""

import typing as t
from dataclasses import asdict

from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import (
    answers,
    fsx,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import (
    AwsProblem,
)

SPEC: dict[str, t.Any] = {
    "association_ids": {"type": "list", "elements": "str", "default": []},
    "file_system_ids": {"type": "list", "elements": "str", "default": []},
    "type": {"type": "str", "choices": ["S3", "NFS"]},
}


def main() -> None:
    """Run the module."""
    module = AnsibleAWSModule(argument_spec=SPEC, supports_check_mode=True)
    params = module.params
    client = answers.client_of(module, "fsx")
    try:
        found = list(
            fsx.associations(
                client, params["association_ids"], params["file_system_ids"], params["type"] or ""
            )
        )
    except AwsProblem as problem:
        module.fail_json(msg=str(problem), action=problem.action, code=problem.code)
    found.sort(key=lambda one: (one.file_system_id, one.file_cache_id, one.path))
    module.exit_json(associations=[asdict(one) for one in found])


if __name__ == "__main__":
    main()
