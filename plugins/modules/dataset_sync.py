#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Sends a directory to S3 or to another one, each file with its checksum; continues after an interruption."""

from __future__ import annotations

DOCUMENTATION = r"""
module: dataset_sync
short_description: Send a data set to S3 or to another directory
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Sends the files of a directory that a destination lacks, many at once, and verifies that both ends have the same
    checksum
    of each file.
  - A run may be interrupted at any moment. Complete files are not sent again, and a large file continues
    with the first missing part.
  - A file that changes while it is sent is sent again, and the result lists it.
  - While it works, the task prints its progress. The action plugin of the same name does this; a task with
    O(ignore:async) shows nothing before the end.
extends_documentation_fragment:
  - trainwright.slurm.aws
options:
  source:
    description:
      - Directory on the host of the task, an absolute path. Files in it and below it are sent, and the
        targets of links to files. Empty directories and links to directories are not.
    type: path
    required: true
  destination:
    description:
      - V(s3://BUCKET/PREFIX), or the absolute path of a directory, on NFS for instance, which is created if it is
        missing.
      - With O(endpoint_url), the bucket can be in any S3-compatible store.
    type: str
    required: true
  exclude:
    description:
      - Patterns of paths in the directory to ignore on both sides, such as V(*.tmp) or V(cache/*); C(*) also
        matches slashes. A directory that matches is ignored with all that is in it.
    type: list
    elements: str
    default: []
  jobs:
    description:
      - How many files, or parts of a large file, are sent at once. Each takes up to 16 MiB of memory, twice that for
        parts.
    type: int
    default: 16
  delete:
    description: Remove files from the destination that the source does not have, after all others were sent.
    type: bool
    default: false
  confirm_delete:
    description:
      - How many files O(delete) may remove. If there are more, the task fails before it changes anything.
        Check mode reports how many there are, and which.
    type: int
    default: 0
  new_bucket:
    description:
      - Whether a task before this one makes the bucket. In check mode it does not, so one that is not there then counts
        as an empty one.
    type: bool
    default: false
    version_added: "1.2.0"
  state_dir:
    description:
      - Directory for the journal of sent files. Without it, C(.trainwright-sync) beside the source. After a
        lost journal, all files are read again, but not sent again.
    type: path
attributes:
  check_mode:
    support: full
    description: Compares checksums where necessary, lists the files that would be sent and removed, and writes nothing.
  diff_mode:
    support: full
    description: Lists the files that are sent and removed, the first hundred of each.
notes:
  - Needs the permissions C(s3:ListBucket), C(s3:GetObject), C(s3:PutObject), for files over 16 MiB also
    C(s3:ListBucketMultipartUploads) and C(s3:ListMultipartUploadParts), and for O(delete) C(s3:DeleteObject).
  - boto3 is only needed for S3, on the host of the task.
  - If the task runs as root and a user controls O(source), the destination or the journal, files are read and written
    with that user's rights, since root would follow the user's links. The credentials for S3 stay those of root.
    The task fails where two users control them. What no user controls has to be root's, with each entry in it.
  - An error is one line, C(where, what, why -> remedy).
seealso:
  - module: trainwright.slurm.dataset_verify
"""

EXAMPLES = r"""
- name: Send a data set to a bucket
  trainwright.slurm.dataset_sync:
    source: /srv/datasets/wikitext
    destination: s3://example-bucket/datasets/wikitext
    region: eu-west-1

- name: Send it to a store of your own
  trainwright.slurm.dataset_sync:
    source: /srv/datasets/wikitext
    destination: s3://datasets/wikitext
    endpoint_url: https://store.example.org
    jobs: 32

- name: Copy it to shared storage, and remove at most ten files that are no longer in it
  trainwright.slurm.dataset_sync:
    source: /srv/datasets/wikitext
    destination: /shared/data/datasets/wikitext
    exclude: ["*.tmp"]
    delete: true
    confirm_delete: 10
"""

RETURN = r"""
files: {description: Files of the source., returned: success, type: int, sample: 10000}
bytes: {description: Their size., returned: success, type: int, sample: 1073741824}
sent: {description: "Files that were sent, or would be in check mode.", returned: success, type: int, sample: 12}
bytes_sent: {description: Their size without RV(bytes_resumed)., returned: success, type: int, sample: 1048576}
bytes_resumed:
  description: Bytes of unfinished files that an earlier run had already sent.
  returned: success
  type: int
whole: {description: Files that were already complete., returned: success, type: int, sample: 9988}
verified:
  description: Files whose checksum was verified on both ends, now or when they were sent.
  returned: success
  type: int
  sample: 10000
checksums:
  description: C(SHA256), with C(CRC32) for the parts of large files, or C(MD5) with a store that does not support them.
  returned: success
  type: str
  sample: SHA256
changed_files:
  description: Files that changed while they were sent, and were sent again.
  returned: success
  type: list
  elements: str
gone: {description: Files that vanished before they were sent., returned: success, type: list, elements: str}
skipped:
  description: Entries of the source that were not sent, by path, and why.
  returned: success
  type: dict
  sample: {latest: a link to a directory}
removed: {description: "Files removed from the destination, or would be in check mode; a thousand at most.",
  returned: success, type: list, elements: str}
removed_count: {description: How many., returned: success, type: int}
extra: {description: Files that exist only at the destination and stay; a thousand at most., returned: success,
  type: list,
  elements: str}
extra_count: {description: How many., returned: success, type: int}
seconds: {description: How long it took., returned: success, type: float, sample: 12.5}
throughput: {description: Bytes sent a second., returned: success, type: float, sample: 83886080.0}
journal: {description: Path of the journal of sent files., returned: success, type: str,
  sample: /srv/datasets/.trainwright-sync/wikitext-0123456789ab.journal}
action: {description: "The call that failed, by its permission.", returned: failure, type: str, sample: "s3:PutObject"}
code: {description: The store's code of the failure; else empty., returned: failure, type: str, sample: AccessDenied}
"""

import os
import typing as t

# The warn of AnsibleAWSModule adds a deprecation of its own.
from ansible.module_utils.common.warnings import warn
from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule
from ansible_collections.trainwright.slurm.plugins.module_utils.data import journal, module_options
from ansible_collections.trainwright.slurm.plugins.module_utils.data.manifest import DatasetError
from ansible_collections.trainwright.slurm.plugins.module_utils.data.s3 import Bucket
from ansible_collections.trainwright.slurm.plugins.module_utils.data.sync import Outcome, Sync
from ansible_collections.trainwright.slurm.plugins.module_utils.node import path_owner
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import escaped_line

SPEC: dict[str, t.Any] = {
    "source": {"type": "path", "required": True},
    "destination": {"type": "str", "required": True},
    "exclude": {"type": "list", "elements": "str", "default": []},
    "jobs": {"type": "int", "default": 16},
    "delete": {"type": "bool", "default": False},
    "confirm_delete": {"type": "int", "default": 0},
    "new_bucket": {"type": "bool", "default": False},
    "state_dir": {"type": "path"},
}
_SHOWN = 100
_NAMED = 1000


def result_of(made: Outcome, path: str) -> dict[str, t.Any]:
    """Return the module's result, with names that are safe to print: users chose them, and --diff prints them."""

    def names(paths: list[str], most: int | None = None) -> list[str]:
        return [escaped_line(path) for path in paths[:most]]

    removed, extra = names(made.removed, _NAMED), names(made.extra, _NAMED)
    return {
        "changed": bool(made.sent or made.removed),
        "files": made.files,
        "bytes": made.size,
        "sent": len(made.sent),
        "bytes_sent": made.bytes_sent,
        "bytes_resumed": made.bytes_resumed,
        "whole": made.whole,
        "verified": made.verified,
        "checksums": made.checksums,
        "changed_files": names(made.changed),
        "gone": names(made.gone),
        "skipped": {escaped_line(path): why for path, why in made.skipped.items()},
        "removed": removed,
        "removed_count": len(made.removed),
        "extra": extra,
        "extra_count": len(made.extra),
        "seconds": round(made.seconds, 2),
        "throughput": round(made.bytes_sent / max(made.seconds, 1e-9), 1),
        "journal": path,
        "diff": {
            "before": "".join(f"{name}\n" for name in removed[:_SHOWN]),
            "after": "".join(f"{name}\n" for name in names(made.sent, _SHOWN)),
        },
    }


def main() -> None:
    """Run the module."""
    module = AnsibleAWSModule(argument_spec=SPEC, supports_check_mode=True, check_boto3=False)
    params = module.params
    source = os.path.normpath(params["source"])
    path = journal.place(source, params["destination"], params["state_dir"])
    progress = None
    try:
        if not os.path.isabs(source) or params["jobs"] < 1:
            raise DatasetError(
                f"source: {source}: give an absolute path, and at least one job -> correct them"
            )
        target = module_options.target_of(module, params["destination"], params["jobs"])
        if isinstance(target, Bucket):
            target.may_be_missing = module.check_mode and params["new_bucket"]
        owner = module_options.owner_of(source, target, path)
        if not module.check_mode:
            progress = module_options.Progress(journal.progress(source, params["destination"]))
        run = Sync(
            source,
            target,
            path,
            jobs=params["jobs"],
            exclude=params["exclude"],
            tell=progress.tell if progress else lambda _line: None,
        )
        with path_owner.rights_of(owner):
            made = run.run(
                delete=params["delete"], confirm=params["confirm_delete"], check=module.check_mode
            )
    except DatasetError as error:
        module.fail_json(msg=str(error), action=error.action, code=error.code)
    finally:
        if progress:
            progress.close()
    if made.checksums == "MD5":
        warn(
            f"{target} knows neither SHA-256 nor CRC32: each object was verified by its MD5 instead"
        )
    if made.changed:
        warn(f"{len(made.changed)} files changed while they were sent, and were sent again")
    module.exit_json(**result_of(made, path))


if __name__ == "__main__":
    main()
