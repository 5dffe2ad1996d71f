#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Brings NVIDIA's installer of the driver to a host, and runs it now or leaves it for the next boot."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_runfile
short_description: Install NVIDIA's driver with NVIDIA's installer
version_added: "1.2.0"
description:
  - Runs a C(.run) file of NVIDIA on a host that does not have its version of the driver by the installer's own record,
    C(/var/lib/nvidia/log). The file is copied only to a host that needs it.
  - The order for the installer is written before it runs and goes when it has ended well. An installer that failed, or
    that was killed, runs again with the next call or the next boot.
  - With O(fetch_only) the next boot runs it.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  version:
    description: Version of the driver.
    type: str
    required: true
  src:
    description: The file on the control node, which has been verified there.
    type: path
    required: true
  file:
    description: Its name on the host.
    type: str
    required: true
  sha256:
    description: Checksum that the copy on the host must have.
    type: str
    required: true
  archive:
    description: The copy on the host. If it is empty, O(src) is copied when it is needed.
    type: path
  options:
    description: Options of the installer.
    type: list
    elements: str
    default: []
  program:
    description: The program that carries out the order, for sh.
    type: str
    required: true
  fetch_only:
    description: Runs nothing, since another driver is in use.
    type: bool
    default: false
  reason:
    description: Why the host waits for its boot, which O(fetch_only) writes before the order.
    type: str
    default: ""
    version_added: "1.2.0"
  timeout:
    description: Seconds for the installer.
    type: int
    default: 1800
attributes:
  check_mode:
    description: Reports whether it would run the installer, or leave it for a boot.
    support: full
  diff_mode:
    description: The versions before and after.
    support: full
notes:
  - "Errors: a file with another checksum; the installer's exit code with its last lines and its log; another version
    than O(version) afterwards."
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Install the driver
  trainwright.slurm.nvidia_runfile:
    version: 595.91.07
    src: ~/.cache/trainwright/0123456789ab-NVIDIA-Linux-x86_64-595.91.07.run
    file: NVIDIA-Linux-x86_64-595.91.07.run
    sha256: "{{ nvidia_driver_runfile_sha256 }}"
    options: [--silent, --dkms, --kernel-module-type=open]
    program: "{{ lookup('ansible.builtin.file', '/usr/lib/trainwright/nvidia-runfile') }}"
"""

RETURN = r"""
needed:
  description: Whether the file has to be on the host, and is not.
  type: bool
  returned: success
version:
  description: Version that the installer installed on this host, empty for none.
  type: str
  returned: success
rc:
  description: Exit code of the program, 124 if it was ended at the deadline.
  type: int
  returned: when the installer failed
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import nvidia_runfile


def run(module: AnsibleModule) -> None:
    """Carry out the order that waits. Raises RunfileError."""
    seconds = str(module.params["timeout"])
    command = ["timeout", "--kill-after=20", seconds, "sh", "-c", module.params["program"]]
    rc, out, err = module.run_command(command, environ_update={"LC_ALL": "C.UTF-8"})
    if rc:
        lines = [line.strip() for line in (out + err).splitlines() if line.strip()][-4:]
        if rc == 124:
            lines.append(f"not finished after {seconds} seconds, and ended -> run this again")
        module.fail_json(
            msg=f"NVIDIA's installer of driver {module.params['version']}: {' | '.join(lines)}",
            rc=rc,
        )
    found = nvidia_runfile.installed()
    if found != module.params["version"]:
        raise nvidia_runfile.RunfileError(
            f"{module.params['file']}: installed {found or 'nothing'} instead of {module.params['version']}. Remedy:"
            " compare gpu_stack_versions (driver) with the file that nvidia_driver_runfile_url names"
        )


def ensure(module: AnsibleModule) -> tuple[bool, bool]:
    """Do what is left to do; return whether that changes something, and whether the file has to come first."""
    params, check = module.params, module.check_mode
    wanted = nvidia_runfile.order(params["sha256"].lower(), params["file"], params["options"])
    waits = nvidia_runfile.waiting()
    # Also where the version is there: an order that waits was not carried out, or was broken off.
    file = params["file"]
    same = waits.partition("\n")[0] == wanted.partition("\n")[0]
    if nvidia_runfile.installed() == params["version"] and not same:
        # The order that waited was for another version.
        gone = [*nvidia_runfile.leftovers(), *([nvidia_runfile.ORDER] if waits else [])]
        for path in () if check else reversed(gone):
            os.unlink(path)
        return bool(gone), False
    there = nvidia_runfile.staged(file, params["sha256"].lower())
    changes = not (params["fetch_only"] and there and waits == wanted)
    if check or not changes:
        return changes, False
    if not there and not params["archive"]:
        return True, True
    if not there:
        nvidia_runfile.stage(params["archive"], file, params["sha256"].lower())
    if params["fetch_only"] and params["reason"]:
        nvidia_runfile.ask_for_boot(params["reason"])
    nvidia_runfile.write_order(wanted)
    for path in nvidia_runfile.leftovers(keep=file):
        os.unlink(path)
    if not params["fetch_only"]:
        run(module)
    return True, False


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "src": {"type": "path", "required": True},
            "file": {"type": "str", "required": True},
            "sha256": {"type": "str", "required": True},
            "archive": {"type": "path"},
            "options": {"type": "list", "elements": "str", "default": []},
            "program": {"type": "str", "required": True},
            "fetch_only": {"type": "bool", "default": False},
            "reason": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
    )
    before = nvidia_runfile.installed()
    try:
        changed, needed = ensure(module)
    except (nvidia_runfile.RunfileError, OSError) as error:
        module.fail_json(msg=str(error))
    found = nvidia_runfile.installed()
    waits = " at the next boot" if module.params["fetch_only"] else ""
    after = f"driver {module.params['version']}{waits}\n" if changed else f"driver {found}\n"
    module.exit_json(
        changed=changed,
        needed=needed,
        version=found,
        diff={"before": f"driver {before}\n", "after": after},
    )


if __name__ == "__main__":
    main()
