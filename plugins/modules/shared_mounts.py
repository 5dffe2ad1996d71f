#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""All mounts of a host, and the directories on them, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: shared_mounts
short_description: Mount file systems, and make directories on them, in one call
version_added: "1.1.0"
description:
  - Writes one line of C(/etc/fstab) for each mount, from which systemd makes its units, and mounts what is not mounted
    yet, within a deadline for all of them together.
  - A mount with a server gets an automount and a time limit for each attempt. A server that does not answer then
    delays neither boot nor the run beyond these limits, and nothing is written below its empty mount point.
  - Nothing is unmounted or mounted again, since jobs may use it. Options that have changed apply from the next mount,
    and another source of NFS gives a warning.
  - A bind mount of a directory over itself is not made, only its directories are.
  - Directories are made after mountinfo shows the mount and its server has answered, else none at all.
extends_documentation_fragment: [trainwright.slurm.internal, trainwright.slurm.managed]
options:
  mounts:
    description: Mounts, as the cluster model has them, parents first.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Mount point., type: str, required: true}
      source: {description: Source of the mount., type: str, required: true}
      fstype: {description: Type of the file system., type: str, required: true}
      options: {description: Mount options with commas between them., type: str, default: defaults}
      purpose: {description: Not used here., type: str, default: ''}
      directories:
        description: Directories on it.
        type: list
        elements: dict
        default: []
        suboptions:
          path: {description: Absolute path., type: str, required: true}
          owner: {description: Name or uid., type: str, default: root}
          group: {description: Name or gid., type: str, default: root}
          mode: {description: Quoted octal mode., type: raw, default: '0755'}
          recursive:
            description:
              - Give everything below it the same owner, group and mode, files without the rights to execute that they
                do not have. Links, special files, other file systems, and files with several names are left alone.
            type: bool
            default: false
          remove_after_days:
            description:
              - Days after which systemd-tmpfiles removes what is in it. It follows links on the way, so a directory is
                refused if others than root can change one above it.
            type: int
            default: 0
  tuning:
    description: Add the options that are recommended for the type of each mount and that it does not decide.
    type: bool
    default: true
  nfs_read_ahead:
    description: KiB that mounts of NFS read ahead; read back. 0 leaves it as it is.
    type: int
    default: 0
  lustre_tuning:
    description: If Lustre is mounted, set the parameters of its client that are recommended, and read them back.
    type: bool
    default: true
  timeout:
    description: Seconds of one attempt to mount something that has a server.
    type: int
    default: 30
  deadline:
    description: Seconds to wait for all mounts together.
    type: int
    default: 120
attributes:
  check_mode:
    description: Full. Directories on a mount that is not there yet are not listed; the mount itself is a change.
    support: full
  diff_mode:
    description: The lines of fstab.
    support: full
notes:
  - Root does not follow a symbolic link on the way to a directory unless the link belongs to root, and nobody else can
    write to the directories above it. The task fails and names the link.
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Mount what the cluster shares
  trainwright.slurm.shared_mounts:
    mounts:
      - path: /srv/apps
        source: tmpfs
        fstype: tmpfs
        options: size=1m
        directories:
          - {path: /srv/apps/modules, mode: "0755"}
    deadline: 60
"""

RETURN = r"""
changed_paths:
  description: >-
    The file fstab, mount points, directories, parameters of Lustre and read-ahead of NFS that were changed, or would be
    in check mode.
  returned: always
  type: list
  elements: str
  sample: [/etc/fstab, /shared, /shared/data]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    files,
    fstab,
    lustre,
    machine,
    manifest,
    mounting,
    read_ahead,
)

DIRECTORY = {
    "path": {"type": "str", "required": True},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "raw", "default": "0755"},
    "recursive": {"type": "bool", "default": False},
    "remove_after_days": {"type": "int", "default": 0},
}
MOUNT = {
    "path": {"type": "str", "required": True},
    "source": {"type": "str", "required": True},
    "fstype": {"type": "str", "required": True},
    "options": {"type": "str", "default": "defaults"},
    "purpose": {"type": "str", "default": ""},
    "directories": {"type": "list", "elements": "dict", "default": [], "options": DIRECTORY},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **manifest.ARGUMENT,
            "mounts": {"type": "list", "elements": "dict", "required": True, "options": MOUNT},
            "tuning": {"type": "bool", "default": True},
            "nfs_read_ahead": {"type": "int", "default": 0},
            "lustre_tuning": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 30},
            "deadline": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    params, changed = module.params, []
    record = manifest.of(module)
    # A server of NFS has the directory that it exports where the others mount it.
    here = [one for one in params["mounts"] if one["source"] == one["path"]]
    mounts = [one for one in params["mounts"] if one not in here]
    try:
        # First: a mount point or the source of a bind may be in one that hangs, and whatever touches that hangs, too.
        answered = mounting.may_hang(mounts)
        mounting.ask(answered, params["deadline"])
        plan = mounting.plan(mounts, params["timeout"], params["tuning"])
        mounting.refuse_links(plan)
        changed = plan.changed
        told = list(plan.warnings)
        if module.check_mode:
            mounting.ask(plan.waiting, params["deadline"])
        else:
            if plan.changed:
                record.begin()
            if plan.text != plan.before:
                mounting.write_fstab(plan.text)
            units = [fstab.unit_of(mount["path"]) for mount in mounts]
            mounting.read_again(units, plan.text != plan.before)
            if plan.pending:
                waits = ", ".join(one["path"] for one in plan.pending)
                module.log(f"waiting at most {params['deadline']} s for {waits}")
                told += mounting.mount_all(plan.pending, params["deadline"])
        new = [path for path in mounting.may_hang(mounts) if path not in answered]
        mounting.ask(new, params["deadline"])
        there = [mount for mount in mounts if mounting.is_mounted(mount["path"])]
        paths = [mount["path"] for mount in there if mount["fstype"] in fstab.NFS]
        with open(mounting.MOUNTINFO, encoding="utf-8", errors="surrogateescape") as handle:
            tuned, words = read_ahead.tune(
                paths, params["nfs_read_ahead"], module.check_mode, handle.read()
            )
        changed, told = changed + tuned, told + words
        left = list(plan.leaves)
        if params["nfs_read_ahead"] and not words:
            left = [
                {**item, "read_ahead": params["nfs_read_ahead"]}
                if item["kind"] == "mount" and item["name"] in paths
                else item
                for item in left
            ]
        if params["lustre_tuning"] and any(mount["fstype"] == "lustre" for mount in there):
            cpus = machine.cpu_layout()["cpus"]
            tuned, words = lustre.tune(cpus, machine.memory_mb(), module.check_mode)
            changed, told = changed + tuned, told + words
            lacking = lustre.ask_for_reboot(cpus, module.check_mode)
            changed += [f"reason for a reboot: {one}" for one in lacking]
        wanted = [one for mount in [*here, *there] for one in mount["directories"]]
        if wanted:
            changed += mounting.directories(wanted, module.check_mode, record.begin, left)
        record.end(left)
    except (mounting.MountingError, files.FilesError, OSError) as error:
        module.fail_json(msg=str(error), changed_paths=changed, changed=bool(changed))
    for line in told:
        module.warn(line)
    result = {"changed": bool(changed), "changed_paths": changed}
    if module._diff:
        result["diff"] = {
            "before_header": mounting.FSTAB,
            "after_header": mounting.FSTAB,
            "before": plan.before,
            "after": plan.text,
        }
    module.exit_json(**result)


if __name__ == "__main__":
    main()
