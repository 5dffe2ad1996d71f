#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compares a directory with S3 or another directory by size and checksum, and names what differs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: dataset_verify
short_description: Compare a directory with S3 or another directory
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Compares all files by name and size, and the content of all or of some of them by checksum. Changes nothing.
  - An object's checksum is the SHA-256 or CRC32 that it was stored with, else its ETag, computed from its parts
    for an object in parts. If none decides, the object is read.
  - A difference is not a failure of the task; RV(same) says whether there is one.
  - Control characters in the names of files are returned in a printable form, such as C(\\x1b) and C(\\n).
extends_documentation_fragment:
  - trainwright.slurm.aws
options:
  source:
    description: Directory on the host of the task, an absolute path.
    type: path
    required: true
  destination:
    description: V(s3://BUCKET/PREFIX), or the absolute path of a directory.
    type: str
    required: true
  sample:
    description:
      - Compare the content of this many files, chosen at random; V(0) only compares names and sizes. Without it, all
        files.
    type: int
  seed: {description: "Choose the same files again, for the same number.", type: int}
  settle:
    description:
      - Ignore files that changed in the last so many seconds, since an automatic export lags behind the writer.
    type: int
    default: 0
  exclude:
    description: "As in M(trainwright.slurm.dataset_sync)."
    type: list
    elements: str
    default: []
  jobs: {description: How many files are compared at once., type: int, default: 16}
attributes:
  check_mode: {support: full, description: It changes nothing anyway.}
  diff_mode: {support: none, description: It changes nothing.}
notes:
  - Needs the permissions C(s3:ListBucket) and C(s3:GetObject).
  - Root takes on the rights of the user who controls a directory, as in M(trainwright.slurm.dataset_sync).
  - Comparing a file of FSx for Lustre whose data is only in S3 reads it back into the file system.
seealso:
  - module: trainwright.slurm.dataset_sync
"""

EXAMPLES = r"""
- name: See whether all checkpoints are in S3
  trainwright.slurm.dataset_verify:
    source: /fsx/checkpoints
    destination: s3://example-bucket/checkpoints
    settle: 600
    region: eu-west-1
  register: exported

- name: Compare a hundred files of a data set
  trainwright.slurm.dataset_verify:
    source: /shared/data/datasets/wikitext
    destination: s3://datasets/wikitext
    endpoint_url: https://store.example.org
    sample: 100
"""

RETURN = r"""
same:
  description: Whether the destination has everything that the source has. Files that exist only at the destination do
    not count.
  returned: success
  type: bool
files: {description: Files of the source., returned: success, type: int, sample: 10000}
bytes: {description: Their size., returned: success, type: int, sample: 1073741824}
checked: {description: Files whose content was compared., returned: success, type: int, sample: 100}
read_back: {description: Objects that had to be read for that., returned: success, type: int, sample: 0}
missing: {description: Files that are not at the destination; a thousand at most., returned: success, type: list,
  elements: str, sample: [step-100/model.pt]}
missing_count: {description: How many., returned: success, type: int}
other: {description: "Files that differ in size or content, and in which of them; a thousand at most.",
  returned: success, type: dict, sample: {step-90/model.pt: 10 bytes instead of 12}}
other_count: {description: How many., returned: success, type: int}
extra: {description: Files that exist only at the destination; a thousand at most., returned: success, type: list,
  elements: str}
extra_count: {description: How many., returned: success, type: int}
recent: {description: Files that O(settle) left out; a thousand at most., returned: success, type: list, elements: str}
recent_count: {description: How many., returned: success, type: int}
outside: {description: Links to directories outside of O(source); their files were not compared. A thousand at most.,
  returned: success, type: list, elements: str, sample: [run7], version_added: 1.2.0}
outside_count: {description: How many., returned: success, type: int, version_added: 1.2.0}
action: {description: "The call that failed, by its permission.", returned: failure, type: str, sample: "s3:GetObject"}
code: {description: The store's code of the failure; else empty., returned: failure, type: str, sample: AccessDenied}
"""

import os
import typing as t

from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule
from ansible_collections.trainwright.slurm.plugins.module_utils.data import module_options
from ansible_collections.trainwright.slurm.plugins.module_utils.data.manifest import DatasetError
from ansible_collections.trainwright.slurm.plugins.module_utils.data.verify import (
    Comparison,
    compare,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node import path_owner
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import escaped_line

SPEC: dict[str, t.Any] = {
    "source": {"type": "path", "required": True},
    "destination": {"type": "str", "required": True},
    "sample": {"type": "int"},
    "seed": {"type": "int"},
    "settle": {"type": "int", "default": 0},
    "exclude": {"type": "list", "elements": "str", "default": []},
    "jobs": {"type": "int", "default": 16},
}
_NAMED = 1000


def result_of(found: Comparison) -> dict[str, t.Any]:
    """Return the module's result, with names that are safe to print: users chose them, and plays print them."""

    def names(paths: list[str]) -> list[str]:
        return [escaped_line(path) for path in paths[:_NAMED]]

    other = list(found.other.items())[:_NAMED]
    return {
        "changed": False,
        "same": found.same,
        "files": found.files,
        "bytes": found.size,
        "checked": found.checked,
        "read_back": found.read_back,
        "missing": names(found.missing),
        "missing_count": len(found.missing),
        "other": {escaped_line(path): escaped_line(how) for path, how in other},
        "other_count": len(found.other),
        "extra": names(found.extra),
        "extra_count": len(found.extra),
        "recent": names(found.recent),
        "recent_count": len(found.recent),
        "outside": names(found.outside),
        "outside_count": len(found.outside),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleAWSModule(argument_spec=SPEC, supports_check_mode=True, check_boto3=False)
    params = module.params
    source = os.path.normpath(params["source"])
    try:
        if not os.path.isabs(source) or params["jobs"] < 1 or (params["sample"] or 0) < 0:
            raise DatasetError(
                f"source: {source}: give an absolute path, at least one job and no negative sample -> correct them"
            )
        target = module_options.target_of(module, params["destination"], params["jobs"])
        with path_owner.rights_of(module_options.owner_of(source, target)):
            found = compare(
                source,
                target,
                sample=params["sample"],
                seed=params["seed"],
                settle=params["settle"],
                exclude=params["exclude"],
                jobs=params["jobs"],
            )
    except DatasetError as error:
        module.fail_json(msg=str(error), action=error.action, code=error.code)
    module.exit_json(**result_of(found))


if __name__ == "__main__":
    main()
