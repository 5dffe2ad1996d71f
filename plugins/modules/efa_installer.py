#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Brings EFA's software to a host by AWS' installer, once, and reads back what is there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: efa_installer
short_description: Install EFA's software with AWS' installer
version_added: "1.1.0"
description:
  - Runs C(efa_installer.sh) of an archive on the control node, unless the host has that version. The archive is copied
    only to a host that needs it, and unpacked in a directory that root alone can enter.
  - "The host is unchanged after a refusal: of a downgrade, of packages that are in the way, of Secure Boot, of a
    kernel without headers."
  - Where EFA is there and the running kernel lacks its module, as after an upgrade of the kernel, dkms builds it.
  - An installer that failed, or that was killed, runs again. Only one runs at a time, within O(timeout).
  - Reads back the manifest C(/opt/amazon/efa_installed_packages), the version of the kernel module, and the domains
    that C(fi_info -p efa) has. Never reboots; the reason for one is written to C(/run/trainwright/reboot-required).
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  version:
    description: Version of the installer.
    type: str
    required: true
  src:
    description: Its archive on the control node.
    type: path
    required: true
  sha256:
    description: Checksum that the copy on the host must have; empty where only O(fingerprint) vouches for it.
    type: str
    default: ""
  fingerprint:
    description:
      - Fingerprint of the key that signed O(src). The control node verifies the signature each time before it copies
        the archive, with C(.sig) and C(.key) beside it, as M(trainwright.slurm.verified_file) leaves them.
      - Either this or O(sha256) is needed for an installation.
    type: str
    default: ""
    version_added: "1.2.0"
  archive:
    description: The copy on the host. If it is empty, O(src) is copied when it is needed.
    type: path
  family:
    description: Family of the operating system.
    type: str
    choices: [debian, rhel]
    required: true
  kernel_module:
    description: Whether the kernel module is built, by dkms.
    type: bool
    default: true
  container:
    description: Whether the host is a container, whose limits and devices are those of its host.
    type: bool
    default: false
  options:
    description: More options of the installer.
    type: list
    elements: str
    default: []
  downgrade:
    description: Uninstall a newer version first.
    type: bool
    default: false
  conflicts:
    description: Patterns of packages that must not be there.
    type: list
    elements: str
    default: []
  remove_conflicts:
    description: Remove those packages, unless others would be removed with them.
    type: bool
    default: false
  devices:
    description: Number of EFA devices that the machine should have, V(0) where nobody says.
    type: int
    default: 0
  require:
    description: Parts that must be there afterwards.
    type: list
    elements: str
    choices: [plugin, open_mpi]
    default: []
  timeout:
    description: Seconds for the installer.
    type: int
    default: 1800
  lock_timeout:
    description: Seconds to wait for another run of it, and for the package manager.
    type: int
    default: 300
  at_boot:
    description:
      - Leave an installer that would replace what the host has for the next boot, since jobs may use that. The program
        C(/usr/lib/trainwright/efa-installer) runs it there, before slurmd.
      - Without this, such an installer is refused while a step of a job runs on the host.
    type: bool
    default: false
    version_added: "1.2.0"
attributes:
  check_mode:
    description: Refuses what it would refuse, and reports whether it would run the installer.
    support: full
  diff_mode:
    description: The versions before and after.
    support: full
notes:
  - "Errors: what is refused; an archive with another checksum, with a bad signature, or without either; the
    installer's exit code with its last lines; a manifest that lacks the version afterwards; EFA devices that libfabric
    does not have."
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Install EFA
  trainwright.slurm.efa_installer:
    version: 1.47.0
    src: ~/.cache/trainwright/2df4201e0468-aws-efa-installer-1.47.0.tar.gz
    sha256: 2df4201e046833c7dc8160907bee7f52b76ff80ed147376a2d0ed8a0dd66b2db
    family: debian
    conflicts: ["openmpi-*", "libopenmpi*"]
"""

RETURN = r"""
needed:
  description: Whether the installer has to run, or has run. With O(at_boot), whether the archive has to be on the host.
  type: bool
  returned: success
why:
  description: The reason.
  type: str
  returned: success
  sample: EFA 1.41.0 is older than 1.47.0
removed:
  description: Packages of the distribution that were removed.
  type: list
  elements: str
  returned: success
efa:
  description: What is on the host, as in RV(trainwright.slurm.efa_info#module:efa).
  type: dict
  returned: success
reboot:
  description: Why the host needs a reboot, empty if it does not.
  type: str
  returned: success
rc:
  description: Exit code of the installer, 124 if it was ended at the deadline.
  type: int
  returned: when the installer failed
lines:
  description: The last lines of the installer.
  type: list
  elements: str
  returned: when the installer failed
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    efa,
    efa_installer,
    efa_order,
    kernel_modules,
)


def read_back(params: dict, output: str, ran: bool, check: bool) -> tuple[dict, str, bool]:
    """Return what is there, the reason for a reboot, and whether that was new. Raises EfaError for what is missing."""
    found = efa.read_back(os.uname().machine)
    loaded = efa.loaded_module()
    brought = kernel_modules.installed_version("efa") if loaded else ""
    reason = efa.reboot_reason(loaded, brought, output)
    new = efa.ask_for_reboot(reason, ran, check)
    faults = list(efa.missing_parts(found, params["require"]))
    found["domains"] = efa.fabric() if found["devices"] else []
    # Until the reboot, the devices are those of the module that is loaded.
    if not reason and not params["container"] and (found["devices"] or params["devices"]):
        fault = efa.fabric_fault(found["domains"], found["devices"], params["devices"])
        faults += [fault] if fault else []
    if faults:
        raise efa.EfaError("; ".join(faults))
    return found, reason, new


def leave_for_boot(params: dict, decided: efa.Decision, check: bool) -> dict:
    """Leave the installer for the next boot, and return the result. Raises EfaError."""
    now, why = efa_order.waiting(), efa_order.reason(params["version"], decided)
    same_key = now.get("fingerprint") == params["fingerprint"] != ""
    if not params["sha256"] and now.get("version") == params["version"] and same_key:
        # Signed by this key: that was verified when the order was written, with the checksum that the archive had.
        params = {**params, "sha256": now["sha256"]}
    wanted = efa_order.order(params)
    there = efa_order.staged(params["sha256"])
    done = there and now == wanted
    # Without the archive this is a look, which changes nothing.
    copied = there or bool(params["archive"])
    writes = not check and copied and not done
    if writes and not there:
        efa_order.stage(params["archive"], params["sha256"])
    # Before the order: until then whoever restarts slurmd would start the installer below the jobs.
    new = efa.ask_for_reboot(why, ran=True, check=check or not copied)
    if writes:
        efa_order.write(wanted)
    found = {**efa.read_back(os.uname().machine), "domains": []}
    after = f"EFA {params['version']} at the next boot\n"
    return {
        "changed": new or not done,
        "needed": not there,
        "why": decided.why,
        "removed": [],
        "efa": found,
        "reboot": why,
        "diff": {"before": "" if not done else after, "after": after},
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "src": {"type": "path", "required": True},
            "sha256": {"type": "str", "default": ""},
            "fingerprint": {"type": "str", "default": ""},
            "archive": {"type": "path"},
            "family": {"type": "str", "choices": ["debian", "rhel"], "required": True},
            "kernel_module": {"type": "bool", "default": True},
            "container": {"type": "bool", "default": False},
            "options": {"type": "list", "elements": "str", "default": []},
            "downgrade": {"type": "bool", "default": False},
            "conflicts": {"type": "list", "elements": "str", "default": []},
            "remove_conflicts": {"type": "bool", "default": False},
            "devices": {"type": "int", "default": 0},
            "require": {
                "type": "list",
                "elements": "str",
                "choices": ["plugin", "open_mpi"],
                "default": [],
            },
            "timeout": {"type": "int", "default": 1800},
            "lock_timeout": {"type": "int", "default": 300},
            "at_boot": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params, check = module.params, module.check_mode
    removed: list[str] = []
    output = ""
    before = efa.manifest().version
    try:
        # Jobs may use the installed software: their steps outlive a restart of slurmd.
        waits = params["at_boot"] and bool(before)
        apt = params["family"] == "debian" and before != params["version"]
        if apt and not check and not kernel_modules.has_lists():
            efa_installer.fetch_lists(params["lock_timeout"])
        decided, in_the_way = efa_order.decision(params, waits)
        needed = decided.action != "none"
        if needed and waits:
            module.exit_json(**leave_for_boot(params, decided, check))
        withdrawn = bool(efa_order.left_over())
        builds = not needed and efa_order.lacks_module(params)
        if builds and not check:
            efa_order.build_module()
        if needed and not check and params["archive"]:
            with efa_installer.alone(params["lock_timeout"]) as lock:
                # Another run may have done it while this one waited.
                decided_now, in_the_way = efa_order.decision(params)
                if decided_now.action != "none":
                    removed, output = efa_order.install(params, params["archive"], in_the_way, lock)
        elif needed:
            found = {**efa.read_back(os.uname().machine), "domains": []}
            module.exit_json(
                changed=True,
                needed=True,
                why=decided.why,
                removed=in_the_way,
                efa=found,
                reboot="",
                diff={"before": f"EFA {before}\n", "after": f"EFA {params['version']}\n"},
            )
        if withdrawn and not check:
            efa_order.forget()
        found, reason, new = read_back(params, output, needed, check)
    except efa_installer.Failed as error:
        module.fail_json(msg=str(error), rc=error.code, lines=error.lines)
    except (efa.EfaError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=needed or new or withdrawn or builds,
        needed=needed,
        why=decided.why,
        removed=removed,
        efa=found,
        reboot=reason,
        diff={"before": f"EFA {before}\n", "after": f"EFA {found['version']}\n"},
    )


if __name__ == "__main__":
    main()
