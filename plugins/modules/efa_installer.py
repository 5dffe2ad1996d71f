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
    description: Its archive on the control node, which has been verified there.
    type: path
    required: true
  sha256:
    description: Checksum that the copy on the host must have; empty for the one that O(src) has.
    type: str
    default: ""
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
attributes:
  check_mode:
    description: Refuses what it would refuse, and reports whether it would run the installer.
    support: full
  diff_mode:
    description: The versions before and after.
    support: full
notes:
  - "Errors: what is refused; an archive with another checksum; the installer's exit code with its last lines; a
    manifest that lacks the version afterwards; EFA devices that libfabric does not have."
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Install EFA
  trainwright.slurm.efa_installer:
    version: 1.47.0
    src: ~/.cache/trainwright/2df4201e0468-aws-efa-installer-1.47.0.tar.gz
    family: debian
    conflicts: ["openmpi-*", "libopenmpi*"]
"""

RETURN = r"""
needed:
  description: Whether the installer has to run, or has run.
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
    kernel_modules,
    safe_path,
)


def decision(params: dict) -> tuple[efa.Decision, list[str]]:
    """Return what is to be done, and the packages in the way. Raises EfaError for what is refused."""
    bad = list(efa.bad_options(params["options"], params["container"]))
    packages = efa.installed(params["family"])
    have = efa.manifest()
    unfinished = os.path.exists(efa.UNFINISHED)
    decided = efa.decide(
        params["version"], have, efa.lacking(have, packages), unfinished, params["downgrade"]
    )
    in_the_way = efa.conflicts(packages, params["conflicts"])
    if decided.action == "none":
        return decided, []
    if in_the_way and not params["remove_conflicts"]:
        bad.append(
            f"{', '.join(in_the_way)}: packages of the distribution, in whose place EFA brings its own. Remedy: remove"
            " them, or set efa_remove_distribution_mpi to true"
        )
    if params["kernel_module"]:
        found = kernel_modules.build_faults(params["family"])
        bad += [f"{fault}. Remedy: {remedy}" for fault, remedy in found]
    if bad:
        raise efa.EfaError("; ".join(bad))
    return decided, in_the_way


def install(params: dict, in_the_way: list[str], lock: int) -> tuple[list[str], str]:
    """Run the installer; return the packages that were removed, and its output."""
    wanted = params["sha256"]
    if wanted and efa_installer.sha256(params["archive"]) != wanted.lower():
        raise efa.EfaError(
            f"{params['archive']}: does not have the SHA-256 {wanted}. Remedy: remove {params['src']} on the"
            " control node,"
            " and run this again"
        )
    removed: list[str] = []
    options = efa.arguments(params["kernel_module"], params["container"], params["options"])
    with efa_installer.private_directory() as directory:
        top = efa_installer.unpack(params["archive"], directory)
        if params["family"] == "debian":
            efa_installer.wait_for_dpkg(params["lock_timeout"])
            efa_installer.repair(params["timeout"], os.path.exists(efa.UNFINISHED))
        if in_the_way:
            removed = efa_installer.remove_packages(
                params["family"], in_the_way, params["conflicts"]
            )
        variables = efa_installer.environment(directory, params["lock_timeout"])
        with safe_path.replacing(efa.UNFINISHED, 0o644, make=0o755) as stream:
            stream.write(f"{params['version']}\n".encode())
        if efa.number(efa.manifest().version) > efa.number(params["version"]):
            efa_installer.call(top, ["-u", "-y"], params["timeout"], lock, variables)
        output = efa_installer.call(top, options, params["timeout"], lock, variables)
    have = efa.manifest()
    left = efa.lacking(have, efa.installed(params["family"]))
    if have.version != params["version"] or left:
        raise efa.EfaError(
            f"the installer ended with 0, and {efa.MANIFEST} has"
            f" {have.version or 'no version'}{f' without the packages {left}' if left else ''}. Remedy: compare"
            " efa_version"
            f" with the archive {params['src']}"
        )
    os.unlink(efa.UNFINISHED)
    return removed, output


def read_back(params: dict, output: str, ran: bool, check: bool) -> tuple[dict, str, bool]:
    """Return what is there, the reason for a reboot, and whether that was new. Raises EfaError for what is missing."""
    found = efa.read_back(os.uname().machine)
    brought = kernel_modules.installed_version("efa") if found["loaded"] else ""
    reason = efa.reboot_reason(found["loaded"], brought, output)
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


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "src": {"type": "path", "required": True},
            "sha256": {"type": "str", "default": ""},
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
        },
        supports_check_mode=True,
    )
    params, check = module.params, module.check_mode
    removed: list[str] = []
    output = ""
    before = efa.manifest().version
    try:
        decided, in_the_way = decision(params)
        needed = decided.action != "none"
        if needed and not check and params["archive"]:
            with efa_installer.alone(params["lock_timeout"]) as lock:
                # Another run may have done it while this one waited.
                decided_now, in_the_way = decision(params)
                if decided_now.action != "none":
                    removed, output = install(params, in_the_way, lock)
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
        found, reason, new = read_back(params, output, needed, check)
    except efa_installer.Failed as error:
        module.fail_json(msg=str(error), rc=error.code, lines=error.lines)
    except (efa.EfaError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=needed or new,
        needed=needed,
        why=decided.why,
        removed=removed,
        efa=found,
        reboot=reason,
        diff={"before": f"EFA {before}\n", "after": f"EFA {found['version']}\n"},
    )


if __name__ == "__main__":
    main()
