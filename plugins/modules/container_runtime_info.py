#!/usr/bin/python
# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions of Slurm, Enroot and Pyxis on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_runtime_info
short_description: Read the versions of Slurm, Enroot and Pyxis, and check that they match
version_added: "0.1.0"
description:
  - Reads the versions of Slurm, Enroot and Pyxis, and the Slurm release that the Pyxis plugin was built for.
  - Slurm does not load a SPANK plugin that is missing or was built for another release. On such a host, jobs that ask
    for a container fail and all others run. This module reports it.
options:
  prefix:
    description: Where Slurm is installed, such as V(/opt/slurm). By default, the module looks for it.
    type: str
    default: ""
  plugin:
    description: The plugin, or a link that leads to it.
    type: path
    default: /usr/lib/trainwright/spank_pyxis.so
  fail:
    description: Fail when something prevents container jobs on this host.
    type: bool
    default: false
attributes:
  check_mode:
    description: Changes nothing.
    support: full
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Read what container jobs need
  trainwright.slurm.container_runtime_info:
  register: containers

- name: Stop where a container job could not run
  trainwright.slurm.container_runtime_info:
    fail: true
"""

RETURN = r"""
runtime:
  description: The container runtime of this host.
  type: dict
  returned: always
  contains:
    os:
      description: As in the facts of M(trainwright.slurm.node_facts).
      type: dict
      returned: always
    arch:
      description: Machine architecture, such as C(x86_64).
      type: str
      returned: always
    slurm:
      description: >-
        C(version), C(package_version) (empty where Slurm is not packaged), C(headers_package), which
        contains C(spank.h), C(prefix), C(config_dir).
      type: dict
      returned: always
    containers:
      description: As in the facts of M(trainwright.slurm.node_facts).
      type: dict
      returned: always
    problems:
      description: Problems that prevent container jobs on this host, each with its remedy.
      type: list
      elements: str
      returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import runtime
from ansible_collections.trainwright.slurm.plugins.module_utils.node.spank import PLUGIN
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "prefix": {"type": "str", "default": ""},
            "plugin": {"type": "path", "default": PLUGIN},
            "fail": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    found = runtime.read(module.params["prefix"], module.params["plugin"])
    if module.params["fail"] and found["problems"]:
        module.fail_json(msg=printable("; ".join(found["problems"])), runtime=found)
    module.exit_json(runtime=found)


if __name__ == "__main__":
    main()
