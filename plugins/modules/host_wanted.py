#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keeps on a host what it was set up for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_wanted
short_description: Keep on a host the digest of what it was set up for
version_added: "1.2.0"
description:
  - Keeps a digest beside the manifest of the host, C(/var/lib/trainwright/manifest). The next call of a role that
    changes something there removes it, so that it is only there after a whole run.
  - M(trainwright.slurm.drift_info) compares it, and C(site.yml) leaves out a host with the same digest on which nothing
    differs.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  digest:
    description: The digest. C(site.yml) makes it of C(slurm_model.wanted) and the digest of the secrets.
    type: str
    required: true
  run:
    description: The run that has set the host up, as M(trainwright.slurm.drift_info) returned it before.
    type: str
    default: ''
  others:
    description:
      - How many calls of other runs had changed something there before, as M(trainwright.slurm.drift_info) returned
        it. If there are more of them now, nothing is kept. Without it nobody looks.
    type: int
attributes:
  check_mode:
    description: Changes nothing.
    support: full
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Remember what the host was set up for
  trainwright.slurm.host_wanted:
    digest: "{{ 'all that is wanted here' | hash('sha256') }}"
"""

RETURN = r"""
kept:
  description: Whether the digest is kept, or would be.
  returned: success
  type: bool
  sample: true
digest:
  description: The digest that is kept; in check mode the one that would be.
  returned: success
  type: str
  sample: 5f0c...
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import manifest_place


def main() -> None:
    """Keep the digest. It is not a change of what the host is."""
    module = AnsibleModule(
        argument_spec={
            "digest": {"type": "str", "required": True},
            "run": {"type": "str", "default": ""},
            "others": {"type": "int"},
        },
        supports_check_mode=True,
    )
    given, kept = module.params, True
    if not module.check_mode:
        try:
            kept = manifest_place.remember(
                given["digest"], run=given["run"], others=given["others"]
            )
        except (manifest_place.ManifestError, OSError) as error:
            module.fail_json(
                msg=f"{manifest_place.DIRECTORY}: {error} -> check the file system (read-only, full?) and run again"
            )
    if not kept:
        module.warn(
            "Another run has changed something here at the same time, or this one has put something back, so the next"
            " run walks over this host"
        )
    module.exit_json(changed=False, kept=kept, digest=given["digest"])


if __name__ == "__main__":
    main()
