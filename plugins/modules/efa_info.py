#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""EFA on a host: versions, devices, NCCL's plugin, Open MPI."""

from __future__ import annotations

DOCUMENTATION = r"""
module: efa_info
short_description: Return what EFA's installer brought to a host
version_added: "1.1.0"
description:
  - Reads the installer's manifest, the kernel module that is loaded, the EFA devices, NCCL's plugin for libfabric, and
    EFA's releases of Open MPI.
  - Can fail if a part that is needed is missing.
options:
  require:
    description: Parts without which the module fails, C(libnccl-net.so) or a release of Open MPI.
    type: list
    elements: str
    choices: [plugin, open_mpi]
    default: []
  places:
    description: More directories to look for NCCL's plugin in, before those of EFA.
    type: list
    elements: path
    default: []
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
notes:
  - "Errors: a part of O(require) that is missing, with the places where it was looked for, and the remedy."
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Find NCCL's plugin
  trainwright.slurm.efa_info:
    require: [plugin]
  register: found

- name: Show its version
  ansible.builtin.debug:
    msg: "{{ found.efa.plugin.path }} {{ found.efa.plugin.version }}"
"""

RETURN = r"""
efa:
  description: What is on the host.
  type: dict
  returned: success
  contains:
    version:
      description: Version of the installer, empty where EFA is not installed.
      type: str
      returned: always
      sample: 1.47.0
    components:
      description: Versions in the manifest of C(libfabric), C(aws_ofi_nccl), C(rdma_core) and C(kernel_module).
      type: dict
      returned: always
      sample: {libfabric: 2.4.0amzn3.0, aws_ofi_nccl: 1.19.0}
    loaded:
      description: Version of the kernel module that is loaded.
      type: str
      returned: always
    devices:
      description: Names of the EFA devices.
      type: list
      elements: str
      returned: always
    plugin:
      description: C(path), C(directory) and C(version) of NCCL's plugin, empty where there is none.
      type: dict
      returned: always
    open_mpi:
      description: EFA's releases of Open MPI, each C(package) and C(prefix).
      type: list
      elements: dict
      returned: always
    unfinished:
      description: Whether an installation was interrupted.
      type: bool
      returned: always
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import efa


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "require": {
                "type": "list",
                "elements": "str",
                "choices": ["plugin", "open_mpi"],
                "default": [],
            },
            "places": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    machine = os.uname().machine
    try:
        found = efa.read_back(machine)
        own = efa.plugin(machine, module.params["places"])
        found["plugin"] = own if own["path"] else found["plugin"]
    except OSError as error:
        module.fail_json(msg=f"{error}. Remedy: repair that file")
    faults = list(efa.missing_parts(found, module.params["require"]))
    if faults:
        module.fail_json(msg="; ".join(faults))
    module.exit_json(changed=False, efa=found)


if __name__ == "__main__":
    main()
