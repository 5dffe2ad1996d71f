#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Joins the support bundles of nodes into one archive; runs on the control node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: support_archive
short_description: Join the support bundles of nodes into one archive
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Writes one C(.tar.gz) with a directory for each host, and an C(index.json) that names the hosts
    whose part is missing.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  parts:
    description: Directory with one file C(<host>.tar.gz) for each host.
    type: path
    required: true
  hosts:
    description: Hosts that should have a part.
    type: list
    elements: str
    required: true
  path:
    description: The archive to write; it ends in C(.tar.gz). Its directory is created if missing.
    type: path
    required: true
attributes:
  check_mode: {support: full, description: Writes nothing.}
  diff_mode: {support: none, description: There is nothing to show.}
"""

EXAMPLES = r"""
- name: Join the parts
  trainwright.slurm.support_archive:
    parts: /tmp/parts
    hosts: "{{ ansible_play_hosts_all }}"
    path: ~/demo-support-20261120.tar.gz
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
path: {description: The archive, type: str, returned: success}
size: {description: Its size in bytes, type: int, returned: success}
missing: {description: Hosts without a part, type: list, elements: str, returned: success}
damaged:
  description: Why the part of a host could not be read to its end, by host; what was read of it is in the archive.
  type: dict
  returned: success
"""

import glob
import os
import tarfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node.safe_path import (
    UnsafePathError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.support.join import join


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "parts": {"type": "path", "required": True},
            "hosts": {"type": "list", "elements": "str", "required": True},
            "path": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    path = os.path.abspath(module.params["path"])
    if not path.endswith(".tar.gz"):
        module.fail_json(msg=f"path {path}: is not a .tar.gz -> let its name end in .tar.gz")
    parts = {
        os.path.basename(part)[: -len(".tar.gz")]: part
        for part in glob.glob(os.path.join(glob.escape(module.params["parts"]), "*.tar.gz"))
    }
    if module.check_mode:
        module.exit_json(changed=True, path=path, size=0, missing=[], damaged={})
    try:
        result = join(parts, module.params["hosts"], path)
    except (OSError, tarfile.TarError, UnsafePathError) as error:
        module.fail_json(
            msg=f"{path}: cannot be written: {error} -> set support_bundle_directory to a directory "
            "with room that you may write to"
        )
    module.exit_json(changed=True, **result)


if __name__ == "__main__":
    main()
