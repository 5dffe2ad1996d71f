#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a host is as the roles have left it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: drift_info
short_description: Compare a host with what the roles have left on it
version_added: "1.2.0"
description:
  - Compares files, links, directories, units, packages, users, groups, mounts, databases, kernel settings and secrets
    of this host with the manifest in C(/var/lib/trainwright/manifest), which each call of a role writes once it has
    succeeded.
  - Files are compared by their content, whatever their times are. Nothing is changed, and no content is returned.
  - What no call of a role has recorded is not looked at.
options:
  directory:
    description: Directory of the manifest.
    type: path
    default: /var/lib/trainwright/manifest
  timeout:
    description: Seconds after which a path that does not answer, as on a dead server, counts as unknown.
    type: float
    default: 30
attributes:
  check_mode:
    description: Changes nothing.
    support: full
notes:
  - Needs root. Another user cannot read the manifest.
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Look whether the host is as it was left
  trainwright.slurm.drift_info:
  register: drift
"""

RETURN = r"""
state:
  description:
    - V(as left) if all that the manifest has was seen and nothing differs. V(drifted) if something differs.
    - V(not known) if there is no manifest, if a run was interrupted, or if something could not be read.
  returned: success
  type: str
  choices: [as left, drifted, not known]
  sample: drifted
differences:
  description: What differs, at most 200.
  returned: success
  type: list
  elements: dict
  contains:
    kind: {description: 'Kind of thing, such as V(file) or V(unit).', type: str, returned: always, sample: file}
    name: {description: Its path or name., type: str, returned: always, sample: /etc/slurm/gres.conf}
    what: {description: 'What differs, such as V(mode) or V(missing).', type: str, returned: always, sample: mode}
    found: {description: 'What is there, without contents.', type: str, returned: always, sample: "0600"}
    left: {description: 'What was left there, without contents.', type: str, returned: always, sample: "0644"}
    role: {description: The role or playbook that left it., type: str, returned: always, sample: slurmd}
    part: {description: Its task., type: str, returned: always, sample: Write the configuration}
left_out:
  description: Number of further differences.
  returned: success
  type: int
  sample: 0
unknown:
  description: The tasks whose entries do not tell what they left.
  returned: success
  type: list
  elements: dict
  contains:
    role: {description: The role or playbook., type: str, returned: always, sample: slurmd}
    part: {description: 'Its task, or the name of an entry that cannot be read.', type: str, returned: always}
    why: {description: Why., type: str, returned: always, sample: a run began to change it and did not end}
items:
  description: Number of things that were compared.
  returned: success
  type: int
  sample: 214
secrets:
  description: >-
    A digest of the secrets of the cluster that the host keeps; empty if it does not keep any, or if anything about them
    differs.
  returned: success
  type: str
  sample: ""
digest:
  description: >-
    What the last whole run has set the host up for (M(trainwright.slurm.host_wanted)); empty if there is none, or if
    something was changed since.
  returned: success
  type: str
  sample: ""
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import drift, manifest


def main() -> None:
    """Look, and return what was found."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "default": manifest.DIRECTORY},
            "timeout": {"type": "float", "default": 30},
        },
        supports_check_mode=True,
    )
    try:
        found = drift.answer(module.params["directory"], module.params["timeout"])
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename or module.params['directory']}: {error.strerror or error} -> run this as root, and"
            " check the file system"
        )
    for name in ("others", "run"):  # of a run that sets the host up
        found.pop(name)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
