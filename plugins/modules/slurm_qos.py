#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One quality of service: its priority, limits, flags, and which others it preempts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_qos
short_description: Make, change or remove a quality of service in Slurm's accounting
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Brings one QOS to the wanted state. QOS are those of the whole accounting, not of one cluster.
  - Removing is refused, with the names, while an account, a user, another QOS or a partition names it,
    or while jobs use it.
extends_documentation_fragment:
  - trainwright.slurm.accounting
  - trainwright.slurm.accounting.cluster
  - trainwright.slurm.slurm
options:
  name: {description: "Name of the QOS, in lower case", type: str, required: true}
  state:
    description: Whether the QOS is there.
    type: str
    choices: [present, absent]
    default: present
  description:
    description: Purpose of the QOS; Slurm keeps it in lower case. Without it, a new one has its name.
    type: str
  priority:
    description: Priority of its jobs. Without it, a new QOS has 0 and another keeps its own.
    type: int
  preempt:
    description: QOS whose jobs it may preempt; an empty list is none. Without it, they stay.
    type: list
    elements: str
  flags:
    description:
      - All flags, such as V(DenyOnLimit); an empty list is none. Without it, they stay as they are.
    type: list
    elements: str
  options:
    description:
      - Other options of C(sacctmgr), such as C(MaxWall), C(MaxTRESPU) or C(GraceTime); null clears a
        limit. An option that is not named stays as it is.
      - Times without a colon are minutes, except C(GraceTime), which is seconds; memory without a unit
        is MiB. Times in minutes are refused as numbers, since YAML makes one of an unquoted C(1:30:00);
        write them in quotes.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Urgent jobs, few and short, ahead of the others
  trainwright.slurm.slurm_qos:
    name: urgent
    priority: 100
    preempt: [normal]
    flags: [DenyOnLimit]
    options: {MaxWall: "04:00:00", MaxTRESPU: "cpu=16"}

- name: Remove it
  trainwright.slurm.slurm_qos:
    name: urgent
    state: absent
"""

RETURN = r"""
operations:
  description: What was done, or would be in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["add qos urgent Priority=100 MaxWall=04:00:00", "modify qos urgent Preempt=normal"]
transport:
  description: How it was done, C(cli) or C(rest).
  returned: success
  type: str
  sample: cli
error:
  description: Kind of the error.
  returned: failure
  type: str
  sample: invalid
"""

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import apply
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import run

SPEC = {
    "cluster": {"type": "str"},
    "name": {"type": "str", "required": True},
    "state": apply.STATE,
    "description": {"type": "str"},
    "priority": {"type": "int"},
    "preempt": {"type": "list", "elements": "str"},
    "flags": {"type": "list", "elements": "str"},
    "options": {"type": "dict", "default": {}},
}


def main() -> None:
    run("slurm_qos", SPEC, apply.qos)


if __name__ == "__main__":
    main()
