#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Exports, imports or releases files of FSx for Lustre now, and waits for the end."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fsx_data_repository_task
short_description: Export, import or release files of FSx for Lustre now
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Starts a data repository task of FSx for Lustre and waits until it has ended, or cancels one.
  - If the same task is already running, the module joins it instead of starting a second one. If another
    task is in the way (AWS refuses some in parallel), the new one starts after that has ended.
  - If the data repository task fails, this task fails with AWS' reason and the path of the list of failed files.
extends_documentation_fragment:
  - trainwright.slurm.aws
options:
  state:
    description:
      - V(present) starts a task, joins one, or waits for O(task_id).
      - V(absent) cancels O(task_id), or the task that O(state=present) would join. Files that it has transferred stay.
    type: str
    choices: [present, absent]
    default: present
  file_system_id: {description: Id of the file system. Needs O(type)., type: str}
  type:
    description:
      - V(EXPORT_TO_REPOSITORY) writes new and changed files to S3.
      - V(IMPORT_METADATA_FROM_REPOSITORY) imports names and attributes of objects in S3 into the file
        system; data follows when a file is read.
      - V(RELEASE_DATA_FROM_FILESYSTEM) frees the space of files that are in S3; reading one brings it back.
    type: str
    choices: [EXPORT_TO_REPOSITORY, IMPORT_METADATA_FROM_REPOSITORY, RELEASE_DATA_FROM_FILESYSTEM]
  paths:
    description:
      - Directories and files, at most 100, from the root of the file system and not of the node, such as
        V(checkpoints/run1); for an import, places in S3 such as V(s3://bucket/prefix). Without it, all.
    type: list
    elements: str
    default: []
  release_after_days:
    description: Release only files that have not been used for this many days.
    type: int
    default: 0
  report_path:
    description:
      - Where in S3 to write the list of files that failed, C(s3://bucket/prefix); the prefix must be under that of an
        association of the file system. Without it, no list is written.
    type: str
  task_id: {description: A task that was started before., type: str}
  join:
    description:
      - Join a running task that does the same. A task that is C(EXECUTING) may have missed files that
        changed since it began; V(false) starts another one after it.
    type: bool
    default: true
  tags: {description: Tags of a new task., type: dict, aliases: [resource_tags]}
  wait: {description: Wait until the task has ended., type: bool, default: true}
  wait_timeout: {description: "Maximum seconds to wait, also for tasks in the way.", type: int, default: 3600}
attributes:
  check_mode: {support: full, description: Reports whether a task would be started or joined.}
  diff_mode: {support: none, description: A task does not have an earlier state.}
notes:
  - Needs the permissions C(fsx:DescribeDataRepositoryTasks), C(fsx:CreateDataRepositoryTask) (and C(fsx:TagResource)
    for tags), and C(fsx:CancelDataRepositoryTask) for O(state=absent).
  - The guide C(docs/fsx.md) has a table of errors.
seealso:
  - module: trainwright.slurm.fsx_data_repository_association
"""

EXAMPLES = r"""
- name: Export the checkpoints of a run now
  trainwright.slurm.fsx_data_repository_task:
    file_system_id: fs-0123456789abcdef0
    type: EXPORT_TO_REPOSITORY
    paths: [checkpoints/run1]
    report_path: s3://example-bucket/checkpoints/reports
    region: eu-west-1
  delegate_to: localhost
  run_once: true

- name: See what was put into the bucket
  trainwright.slurm.fsx_data_repository_task:
    file_system_id: fs-0123456789abcdef0
    type: IMPORT_METADATA_FROM_REPOSITORY
    paths: ["s3://example-bucket/datasets/new"]

- name: Free the space of what nobody has read for a month
  trainwright.slurm.fsx_data_repository_task:
    file_system_id: fs-0123456789abcdef0
    type: RELEASE_DATA_FROM_FILESYSTEM
    paths: [datasets]
    release_after_days: 30

- name: Cancel a task
  trainwright.slurm.fsx_data_repository_task:
    task_id: task-0123456789abcdef0
    state: absent
"""

RETURN = r"""
task:
  description:
    - The last known state of the task, also after a failure; null without a task, and in check mode for one
      that would be started.
  returned: success, and failure of a task
  type: dict
  contains:
    id: {description: Id., type: str, returned: always, sample: task-0123456789abcdef0}
    type: {description: As O(type)., type: str, returned: always}
    lifecycle:
      description: "C(PENDING), C(EXECUTING), C(SUCCEEDED), C(FAILED), C(CANCELING) or C(CANCELED)."
      type: str
      returned: always
    file_system_id: {description: File system., type: str, returned: always}
    paths: {description: As O(paths)., type: list, elements: str, returned: always}
    total: {description: Number of files to process., type: int, returned: always, sample: 1200}
    succeeded: {description: Number of files done., type: int, returned: always, sample: 1200}
    failed: {description: Number of files that failed., type: int, returned: always, sample: 0}
    created: {description: When it was made (ISO 8601)., type: str, returned: always, sample: "2026-11-01T12:00:00Z"}
    started: {description: When it began; empty before., type: str, returned: always}
    ended: {description: When it ended; empty before., type: str, returned: always}
    failure: {description: "AWS' description of a failure.", type: str, returned: always}
    report_path: {description: As O(report_path); empty if not given., type: str, returned: always}
    failures: {description: Path of the list of failed files; empty without a report., type: str, returned: always,
      sample: "s3://example-bucket/checkpoints/reports/task-0123456789abcdef0/failures.csv"}
    release_after_days: {description: As O(release_after_days); null for other types., type: int, returned: always}
    tags: {description: Tags., type: dict, returned: always}
joined: {description: Whether the task existed before., returned: success, type: bool}
waited_for:
  description: Ids of other tasks that had to end first.
  returned: success
  type: list
  elements: str
action: {description: The call that failed., returned: failure of AWS, type: str,
  sample: "fsx:CreateDataRepositoryTask"}
code: {description: "AWS' code of the failure, C(timeout), C(FAILED) or C(CANCELED); else empty.", returned: failure,
  type: str}
"""

import typing as t
from dataclasses import asdict

from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import answers, fsx_tasks
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import (
    AwsProblem,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.waiting import Wait

SPEC: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "file_system_id": {"type": "str"},
    "type": {
        "type": "str",
        "choices": list(fsx_tasks.TYPES),
    },
    "paths": {"type": "list", "elements": "str", "default": []},
    "release_after_days": {"type": "int", "default": 0},
    "report_path": {"type": "str"},
    "task_id": {"type": "str"},
    "join": {"type": "bool", "default": True},
    "tags": {"type": "dict", "aliases": ["resource_tags"]},
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 3600},
}


def work(client: t.Any, params: dict[str, t.Any], check_mode: bool) -> fsx_tasks.Outcome:
    """Bring the task to its state. Raises AwsProblem."""
    wait = Wait(params["wait_timeout"]) if params["wait"] else None
    known = fsx_tasks.one(client, params["task_id"]) if params["task_id"] else None
    if known is not None and params["state"] == "present":
        if wait is not None and not check_mode:
            known = fsx_tasks.follow(client, known, wait)
        return fsx_tasks.Outcome(False, known, joined=True)
    if known is not None:
        return fsx_tasks.cancel(client, known, check_mode=check_mode, wait=wait)
    tags = params["tags"] or {}
    wanted = fsx_tasks.Wanted(
        file_system_id=params["file_system_id"],
        type=params["type"],
        paths=params["paths"],
        report_path=params["report_path"] or "",
        release_after_days=params["release_after_days"],
        tags={key: str(value) for key, value in tags.items()},
    )
    if params["state"] == "absent":
        found = fsx_tasks.alike(client, wanted)
        return fsx_tasks.cancel(client, found, check_mode=check_mode, wait=wait)
    return fsx_tasks.start(client, wanted, join=params["join"], check_mode=check_mode, wait=wait)


def main() -> None:
    """Run the module."""
    module = AnsibleAWSModule(
        argument_spec=SPEC,
        required_one_of=[("task_id", "file_system_id")],
        mutually_exclusive=[("task_id", "file_system_id"), ("task_id", "type")],
        required_together=[("file_system_id", "type")],
        supports_check_mode=True,
    )
    client = answers.client_of(module, "fsx")
    try:
        outcome = work(client, module.params, module.check_mode)
    except fsx_tasks.TaskProblem as problem:
        task = problem.task and asdict(problem.task)
        module.fail_json(msg=str(problem), code=problem.code, task=task)
    except AwsProblem as problem:
        module.fail_json(msg=str(problem), action=problem.action, code=problem.code)
    module.exit_json(
        changed=outcome.changed,
        task=outcome.task and asdict(outcome.task),
        joined=outcome.joined,
        waited_for=list(outcome.waited_for),
    )


if __name__ == "__main__":
    main()
