#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The tuning of a compute node, set and read back in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_tuning
short_description: Tune a compute node, and read back what came of it
version_added: "1.1.0"
description:
  - Writes kernel settings to C(/etc/sysctl.d) and sets them, activates a profile of tuned, and has arguments of the
    kernel at the next boot. All in one call.
  - Then reads each value back. A value that did not take is a warning with the reason, such as the file of the site
    that wins.
  - Restarts no service of Slurm, and never reboots. What needs a reboot is written to
    C(/run/trainwright/reboot-required).
  - The values from before are kept in C(/var/lib/trainwright/node_tuning.json), and V(absent) puts them back.
extends_documentation_fragment: [trainwright.slurm.internal, trainwright.slurm.managed]
options:
  state:
    description: V(absent) undoes what earlier calls have done, and leaves a node alone that none has tuned.
    type: str
    choices: [present, absent]
    default: present
  profile:
    description: Profile of tuned to activate.
    type: str
    default: ""
  profile_text:
    description: Text of O(profile), if it is one of ours. Empty for a profile that is there already.
    type: str
    default: ""
  replace:
    description: Replace a profile that somebody chose on this node.
    type: bool
    default: true
  sysctl:
    description: Kernel settings by name.
    type: dict
    default: {}
  governor:
    description: Governor that O(profile) sets, to be read back.
    type: str
    default: ""
  transparent_hugepages:
    description: Mode of transparent huge pages that O(profile) sets, to be read back.
    type: str
    default: ""
  kernel_arguments:
    description: Arguments of the kernel.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Reports what would be changed. Values are not read back, since nothing was set.
    support: full
  diff_mode:
    description: The files.
    support: full
notes:
  - Fails in a container, whose kernel is that of its host.
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Undo the tuning of this node
  trainwright.slurm.node_tuning:
    state: absent
"""

RETURN = r"""
changed_paths:
  description: Files, settings and units that were changed, or would be in check mode.
  returned: always
  type: list
  elements: str
  sample: [/etc/sysctl.d/91-trainwright-tuning.conf, vm.max_map_count]
findings:
  description: What did not take, each with the reason and what to do. They are warnings, too.
  returned: success
  type: list
  elements: str
values:
  description: Values that were read back, by name.
  returned: success
  type: dict
  sample: {vm.max_map_count: "1048576", governor: performance}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    files,
    machine,
    manifest,
    tuning,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **manifest.ARGUMENT,
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "profile": {"type": "str", "default": ""},
            "profile_text": {"type": "str", "default": ""},
            "replace": {"type": "bool", "default": True},
            "sysctl": {"type": "dict", "default": {}},
            "governor": {"type": "str", "default": ""},
            "transparent_hugepages": {"type": "str", "default": ""},
            "kernel_arguments": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    record = manifest.of(module)
    given = {name: value for name, value in module.params.items() if name != "managed_by"}
    wanted = tuning.Wanted(**given)
    if wanted.state == "present" and machine.virtualization() == "container":
        module.fail_json(
            msg="this is a container, and its kernel settings are those of its host -> tune the host"
        )
    try:
        out = tuning.tune(wanted, module.check_mode, record.begin)
        if not out.stays:
            record.end(out.leaves)
    except (tuning.TuningError, files.FilesError) as error:
        module.fail_json(msg=str(error), changed_paths=[])
    for line in out.findings:
        module.warn(line)
    result = {
        "changed": bool(out.changed),
        "changed_paths": out.changed,
        "findings": out.findings,
        "values": out.values,
    }
    if module._diff:
        result["diff"] = out.diff
    module.exit_json(**result)


if __name__ == "__main__":
    main()
