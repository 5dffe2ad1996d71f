#!/usr/bin/python
# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All files that a role writes to a node, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: config_files
short_description: Write a role's files and directories in one call
version_added: "0.1.0"
description:
  - Ensures the content, owner and mode of a list of directories and then of a list of files.
  - The whole list is checked before anything is written, and each file is replaced atomically.
  - Replaces one task for each file, which would each cost a connection and a Python start.
extends_documentation_fragment: [trainwright.slurm.internal, trainwright.slurm.managed]
options:
  root_only:
    description:
      - Directories that only root may be able to change, because root installs or runs what is in them, with all that
        is in them and the directories above. Otherwise the task fails and writes nothing. One that does not exist
        yet is not a fault.
    type: list
    elements: path
    default: []
  directories:
    description:
      - Directories, created before the files, each before those below it. Missing parents are created with mode 0755.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Absolute path., type: path, required: true}
      owner: {description: Name or uid., type: str, default: root}
      group: {description: Name or gid., type: str, default: root}
      mode: {description: Quoted octal mode., type: raw, default: '0755'}
      only_listed:
        description: Remove everything in it that is not in O(directories) or O(files).
        type: bool
        default: false
      state:
        description: With V(absent) the directory is removed with everything in it.
        type: str
        choices: [present, absent]
        default: present
  files:
    description: Files, in this order.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Absolute path., type: path, required: true}
      content: {description: Text of the file or of the block., type: str}
      content_b64: {description: Content in base64., type: str}
      link:
        description: Make O(files[].path) a symbolic link to this.
        type: str
      state:
        description: V(absent) removes the file, or with O(files[].block) the block.
        type: str
        choices: [present, absent]
        default: present
      owner:
        description: Name or uid; default root. A file edited by O(files[].block) keeps its owner.
        type: str
      group:
        description: Name or gid; default root. A file edited by O(files[].block) keeps its group.
        type: str
      mode:
        description:
          - Quoted octal mode; default 0644. A file edited by O(files[].block) keeps its mode.
        type: raw
      secret: {description: Keep the content out of the diff., type: bool, default: false}
      validate:
        description: Command that must accept the new file, C(%s), before it is put in place.
        type: str
      create:
        description: Create a missing file that has a block or only attributes.
        type: bool
        default: false
      block:
        description:
          - Manage only the lines between C(# BEGIN marker) and C(# END marker); the rest of the file is not
            changed. An existing block stays where it is, unless that is after the first match of
            O(files[].block.insertbefore), or before the last match of O(files[].block.insertafter).
        type: dict
        suboptions:
          marker: {description: Text that names the block., type: str, required: true}
          insertbefore:
            description: Regular expression; a new block goes before the first match, or V(BOF).
            type: str
          insertafter:
            description: Regular expression; a new block goes after the last match, or V(EOF).
            type: str
attributes:
  check_mode:
    description: >-
      Full. Owners, parent directories and files for blocks that do not exist yet count as a change, since an
      earlier task would have created them. O(files[].validate) is not run.
    support: full
  diff_mode:
    description: One diff for each path.
    support: full
notes:
  - Root does not follow a symbolic link on the way to a path unless the link belongs to root, and nobody else can write
    to the directories above it. The task fails and names the link.
  - Where anybody but root can rename or add entries, a directory that exists does not get another owner, unless it is
    root's and empty, and neither does a file of which only lines or attributes are managed. The task fails and names
    both owners.
  - Content is not hidden in the invocation; set C(no_log) on a task with secrets.
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Write the configuration of the node
  trainwright.slurm.config_files:
    directories:
      - {path: /etc/slurm, mode: '0755'}
    files:
      - path: /etc/slurm/gres.conf
        content: "AutoDetect=nvidia\n"
        owner: slurm
        group: slurm
      - path: /etc/pam.d/sshd
        content: "account required pam_slurm_adopt.so\n"
        block: {marker: trainwright pam_slurm_adopt, insertbefore: '^account'}
      - path: /etc/sudoers.d/cluster
        content: "%cluster-admins ALL=(ALL) NOPASSWD: ALL\n"
        mode: '0440'
        validate: /usr/sbin/visudo -cf %s
"""

RETURN = r"""
changed_paths:
  description: Paths that were changed, or would be in check mode.
  returned: always
  type: list
  elements: str
  sample: [/etc/slurm/gres.conf]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    files,
    manifest,
    trusted_path,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.services import Stamps

STATE = {"type": "str", "choices": ["present", "absent"], "default": "present"}
DIRECTORY = {
    "path": {"type": "path", "required": True},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "raw", "default": "0755"},
    "only_listed": {"type": "bool", "default": False},
    "state": STATE,
}
FILE = {
    "path": {"type": "path", "required": True},
    "content": {"type": "str"},
    "content_b64": {"type": "str"},
    "link": {"type": "str"},
    "state": STATE,
    "owner": {"type": "str"},
    "group": {"type": "str"},
    "mode": {"type": "raw"},
    "secret": {"type": "bool", "default": False, "no_log": False},
    "validate": {"type": "str"},
    "create": {"type": "bool", "default": False},
    "block": {
        "type": "dict",
        "options": {
            "marker": {"type": "str", "required": True},
            "insertbefore": {"type": "str"},
            "insertafter": {"type": "str"},
        },
        "mutually_exclusive": [("insertbefore", "insertafter")],
    },
}


def refuse_others(paths: list[str]) -> None:
    """Raise FilesError where somebody other than root could change one of the directories."""
    for path in paths:
        try:
            fault = trusted_path.fault_of_tree(path)
        except OSError as error:
            raise files.FilesError(
                f"{path}: {error.filename or path}: {error.strerror}. Remedy: check the storage and its rights for root"
            ) from error
        if fault:
            raise files.FilesError(
                f"{path}: {fault}, and root would install what is in it. Remedy: find out who wrote there, move it "
                "away, and use a directory that belongs to root, as do all above it"
            )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **manifest.ARGUMENT,
            "root_only": {"type": "list", "elements": "path", "default": []},
            "directories": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": DIRECTORY,
            },
            "files": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": FILE,
                "mutually_exclusive": [("content", "content_b64", "link"), ("link", "block")],
            },
        },
        supports_check_mode=True,
    )
    changed: list[str] = []
    record = manifest.of(module)
    try:
        refuse_others(module.params["root_only"])
        plan = files.plan_all(
            module.params["directories"], module.params["files"], module.check_mode
        )
        if any(not manifest.passes(change.path) for change in plan.changes):
            record.begin()
        if not module.check_mode:
            # First: a run that is killed in between has them started again all the same.
            for unit in record.put_back(plan.changes):
                Stamps().forget(unit)
        for change in plan.changes:
            if not module.check_mode:
                firm = files.apply(change)
                # Elsewhere somebody could redirect the path; new files there have their directory's type.
                if firm and change.kind != "absent":
                    module.set_default_selinux_context(change.path, False)
            changed.append(change.path)
        record.end(plan.leaves)
    except files.FilesError as error:
        module.fail_json(msg=str(error), changed_paths=changed, changed=bool(changed))
    result = {"changed": bool(changed), "changed_paths": changed}
    if module._diff:
        result["diff"] = [change.diff() for change in plan.changes]
    module.exit_json(**result)


if __name__ == "__main__":
    main()
