#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The local scratch of a host, and the program that brings it back at boot, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: scratch_disks
short_description: Make a file system of a host's own disks, and mount it, in one call
version_added: "1.1.0"
description:
  - Makes RAID 0 of several disks, or takes one as it is, with the file system xfs, labelled C(tw-scratch), and mounts
    it through C(/etc/fstab) by that label.
  - Without O(devices), the disks are the instance's own NVMe disks on EC2 that carry no data. Volumes of EBS are never
    taken by default.
  - A disk carries data if it has a partition, a signature of a file system, an array or LVM, or is in use; other disks
    than EC2's own also if their first or last MiB is not empty. Such a disk is never changed, unless O(wipe) names it
    and nothing uses it.
  - Disks that have the scratch already are used again as they are.
  - Without any disk, O(path) is a directory on the disk below it. What the site itself mounts there is left as it is.
extends_documentation_fragment: [trainwright.slurm.internal, trainwright.slurm.managed]
options:
  path:
    description: Mount point.
    type: str
    required: true
  devices:
    description:
      - Disks, by C(/dev/disk/by-id) or their names. A pattern stands for several whole disks.
    type: list
    elements: str
    default: []
  wipe:
    description: Those of the disks that may be wiped although they carry data. Patterns are refused.
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds to wait for the disks, here and at boot.
    type: int
    default: 180
  directories:
    description:
      - Directories of root on it, made before anybody else may write beside them. Of a path with more parts only the
        first one below O(path) is made, and paths elsewhere are left out.
    type: list
    elements: str
    default: []
  install_directories:
    description: Directories of O(install), as M(trainwright.slurm.config_files) takes them.
    type: list
    elements: dict
    default: []
  install:
    description:
      - Files of the program that brings the scratch back at boot, as M(trainwright.slurm.config_files) takes them. Only
        where the scratch has disks.
    type: list
    elements: dict
    default: []
  unit:
    description: Unit of systemd that runs this program.
    type: str
    default: trainwright-scratch.service
attributes:
  check_mode:
    description: Full.
    support: full
  diff_mode:
    description: The lines of fstab, and the files.
    support: full
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Make a scratch of the instance's own disks
  trainwright.slurm.scratch_disks:
    path: /scratch
"""

RETURN = r"""
kind:
  description: >-
    V(local) for a file system on the host's disks, V(site) where the site itself mounts one, V(directory) without
    disks.
  returned: success
  type: str
disks:
  description: Disks of the scratch.
  returned: success
  type: list
  elements: str
  sample: [/dev/nvme1n1, /dev/nvme2n1]
changed_paths:
  description: The disks, files, mount points and directories that were changed, or would be in check mode.
  returned: always
  type: list
  elements: str
  sample: [/dev/nvme1n1, /dev/nvme2n1, /etc/fstab, /scratch]
"""

import json
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    block_devices,
    files,
    fstab,
    manifest,
    mounting,
    own_files,
    scratch,
)


def wanted_files(params: dict, decision: scratch.Decision) -> tuple[list[dict], list[dict]]:
    """Return directories and files that the host should have."""
    path = params["path"]
    open_to_all = {"path": path, "owner": "root", "group": "root", "mode": "1777"}
    if decision.kind == scratch.SITE:
        return [], []
    if decision.kind == scratch.DIRECTORY:
        # One that is there is the site's.
        return ([] if os.path.isdir(path) else [open_to_all]), []
    config = {
        "path": path,
        "devices": params["devices"],
        "count": len(decision.disks),
        "directories": params["directories"],
    }
    text = json.dumps(config, indent=4, sort_keys=True) + "\n"
    written = {"path": scratch.CONFIG, "content": text, "mode": "0644"}
    return list(params["install_directories"]), [*params["install"], written]


def on_it(params: dict) -> list[dict]:
    """Return the directories on the mounted file system."""
    root = {"owner": "root", "group": "root"}
    return [
        {"path": params["path"], **root, "mode": "1777"},
        *(
            {"path": f"{params['path']}/{name}", **root, "mode": "0755"}
            for name in params["directories"]
        ),
    ]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **manifest.ARGUMENT,
            "path": {"type": "str", "required": True},
            "devices": {"type": "list", "elements": "str", "default": []},
            "wipe": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 180},
            "directories": {"type": "list", "elements": "str", "default": []},
            "install_directories": {"type": "list", "elements": "dict", "default": []},
            "install": {"type": "list", "elements": "dict", "default": []},
            "unit": {"type": "str", "default": "trainwright-scratch.service"},
        },
        supports_check_mode=True,
    )
    params, check = module.params, module.check_mode
    path, changed, diffs = params["path"], [], []
    record, left = manifest.of(module), []
    below = [
        one[len(path) + 1 :].split("/")[0]
        for one in params["directories"]
        if one.startswith(f"{path}/")
    ]
    params["directories"] = list(dict.fromkeys(one for one in below if one))
    try:
        found = scratch.look(path, params["devices"], params["wipe"])
        decision = scratch.decide(found)
        if decision.fault:
            raise scratch.ScratchError(f"{decision.fault}. Remedy: {decision.remedy}")
        told = list(decision.notes)

        def settle(directories: list[dict], contents: list[dict]) -> bool:
            todo = own_files.plan(directories, contents, check)
            left.extend(todo.leaves)
            if todo.changes:
                record.begin()
            for change in todo.changes:
                if not check and files.apply(change):
                    module.set_default_selinux_context(change.path, False)
                changed.append(change.path)
                diffs.append(change.diff())
            return bool(todo.changes)

        if decision.kind == scratch.LOCAL:
            # First: nothing is formatted that could not be mounted.
            options = f"noatime,nofail,x-systemd.device-timeout={params['timeout']}"
            if params["install"]:
                options += f",x-systemd.requires={params['unit']}"
            mount = {
                "path": path,
                "source": f"LABEL={block_devices.NAME}",
                "fstype": "xfs",
                "options": options,
            }
            plan = mounting.plan([mount], params["timeout"], False)
            mounting.refuse_links(plan)
        new_files = settle(*wanted_files(params, decision))
        if decision.kind == scratch.LOCAL:
            if decision.action != scratch.NOTHING:
                changed += [disk.device for disk in decision.disks]
            if not check:
                if decision.action != scratch.NOTHING:
                    record.begin()
                scratch.make(decision, params["directories"])
            changed += plan.changed
            left.extend(plan.leaves)
            if plan.changed:
                record.begin()
            if plan.text != plan.before:
                header = {"before_header": mounting.FSTAB, "after_header": mounting.FSTAB}
                diffs.append({**header, "before": plan.before, "after": plan.text})
            if not check:
                if plan.text != plan.before:
                    mounting.write_fstab(plan.text)
                mounting.read_again([fstab.unit_of(path)], new_files or plan.text != plan.before)
                if plan.pending:
                    remedy = (
                        f"see systemctl status {fstab.unit_of(path)} {params['unit']} on the host"
                    )
                    told += mounting.mount_all(plan.pending, params["timeout"], remedy)
            if mounting.is_mounted(path):
                settle(on_it(params), [])
        record.end(left)
    except (mounting.MountingError, files.FilesError, scratch.ScratchError) as error:
        module.fail_json(msg=f"{path}: {error}", changed_paths=changed, changed=bool(changed))
    for line in told:
        module.warn(line)
    result = {
        "changed": bool(changed),
        "changed_paths": changed,
        "kind": decision.kind,
        "disks": [disk.device for disk in decision.disks],
    }
    if module._diff:
        result["diff"] = diffs
    module.exit_json(**result)


if __name__ == "__main__":
    main()
