#!/usr/bin/python
# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages that lie as files on the control node, and what they need from the repositories, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_files
short_description: Install package files of the control node on a host
version_added: "0.1.0"
description:
  - Installs C(.deb) or C(.rpm) files that lie on the control node, together with packages of the host's own
    repositories, in one transaction of the host's package manager.
  - A file is copied to the host only if the package has another version there, so a second run only reads the versions.
  - Check mode reports what it would install even if the file does not exist yet.
extends_documentation_fragment: [trainwright.slurm.internal, trainwright.slurm.managed]
options:
  packages:
    description: The packages that come as files.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the package., type: str, required: true}
      version:
        description: The version in the file, with its release, such as V(4.1.2-1).
        type: str
        required: true
      src: {description: The file on the control node., type: path, required: true}
  needs:
    description: Names of packages from the host's repositories that must be there too, in any version.
    type: list
    elements: str
    default: []
  files:
    description: >-
      Paths of the files on the host, by the names of their packages. If empty, the files are copied from the
      control node when they are needed.
    type: dict
    default: {}
  reinstall:
    description: Install the packages even if that version is installed, because its files were found damaged.
    type: bool
    default: false
  timeout:
    description: Seconds to wait for another run of the package manager to end.
    type: int
    default: 300
attributes:
  check_mode:
    description: Reports which packages it would install.
    support: full
  diff_mode:
    description: The versions before and after.
    support: full
notes:
  - A newer version is replaced by the requested one.
  - "Errors: a file that is not on the control node; a package manager that refuses, with its last lines."
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Install Enroot
  trainwright.slurm.package_files:
    packages:
      - {name: enroot, version: 4.1.2-1, src: ~/.cache/trainwright/enroot_4.1.2-1_amd64.deb}
    needs: [squashfuse, fuse-overlayfs]
"""

RETURN = r"""
missing:
  description: Names of the packages that were missing, or had another version.
  type: list
  elements: str
  returned: always
"""

import os
import re
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    apt_errors,
    left,
    manifest,
)


def installed(module: AnsibleModule, names: list[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    if module.get_bin_path("dpkg-query"):
        query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status} ${Version}\n", *names]
    else:
        query = ["rpm", "-q", "--qf", "%{NAME} installed %{VERSION}-%{RELEASE}\n", *names]
    _rc, out, _err = module.run_command(query, environ_update={"LC_ALL": "C"})
    return dict(re.findall(r"^(\S+) installed (\S+)$", out, re.M))


def install(module: AnsibleModule, what: list[str]) -> None:
    """Install names and files in one transaction; fail with the package manager's last message."""
    timeout = module.params["timeout"]
    if module.get_bin_path("apt-get"):
        tool = ["apt-get", "--yes", f"-oDPkg::Lock::Timeout={timeout}"]
        command = [*tool, "--no-install-recommends", "--allow-downgrades", "--reinstall"]
        command += ["-oDpkg::Options::=--force-confold", "install", *what]
        refresh = [*tool, "--quiet", "update"]
    else:
        tool = ["dnf", "--assumeyes", "--setopt=install_weak_deps=False"]
        verb = "reinstall" if module.params["reinstall"] else "install"
        command, refresh = [*tool, verb, *what], [*tool, "makecache"]
    environment = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    rc, out, err = module.run_command(command, environ_update=environment)
    for delay in (0, 5, 10):
        if rc == 0:
            return
        # Package lists that are missing or old, or a mirror that did not answer.
        time.sleep(delay)
        module.run_command(refresh, environ_update=environment)
        rc, out, err = module.run_command(command, environ_update=environment)
    if rc != 0:
        module.fail_json(
            msg=f"{' '.join(command)}: exit {rc}: {apt_errors.failure(out + err)}",
            rc=rc,
        )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **manifest.ARGUMENT,
            "packages": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "version": {"type": "str", "required": True},
                    "src": {"type": "path", "required": True},
                },
            },
            "needs": {"type": "list", "elements": "str", "default": []},
            "reinstall": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 300},
            "files": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    wanted = {row["name"]: row["version"] for row in module.params["packages"]}
    needs = module.params["needs"]
    before = installed(module, [*wanted, *needs])
    again = module.params["reinstall"]
    missing = [name for name, version in wanted.items() if again or before.get(name) != version]
    missing_needs = [name for name in needs if name not in before]
    files = module.params["files"]
    after = {**before, **wanted, **dict.fromkeys(missing_needs, "any")}
    diff = {
        "before": "".join(f"{name} {before[name]}\n" for name in sorted(before)),
        "after": "".join(f"{name} {after[name]}\n" for name in sorted(after)),
    }
    result = {"changed": bool(missing or missing_needs), "missing": missing + missing_needs}
    record = manifest.of(module)
    # Nothing decides the version of a need, and roles make no call while it is there: any version is as it was left.
    left_there = left.of_versions({**wanted, **dict.fromkeys(needs, "")})
    if not result["changed"]:
        record.end(left_there)
    if not result["changed"] or module.check_mode or (missing and not files):
        module.exit_json(**result, diff=diff)
    record.begin()
    there = installed(module, [])
    install(module, [*missing_needs, *(os.path.abspath(files[name]) for name in missing)])
    now = installed(module, list(wanted))
    wrong = [
        f"{name} {now.get(name, 'not installed')}"
        for name in wanted
        if now.get(name) != wanted[name]
    ]
    if wrong:
        module.fail_json(
            msg=f"{', '.join(wrong)}: not the version that was asked for"
            f" ({', '.join(f'{name} {version}' for name, version in wanted.items())}) -> give the"
            " version that the file has"
        )
    changed = left.changed(there, installed(module, []))
    record.end(left_there, changed)
    module.exit_json(**result, diff=diff)


if __name__ == "__main__":
    main()
