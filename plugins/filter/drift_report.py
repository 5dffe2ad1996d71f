# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The findings on all hosts, for the report of drift.yml."""

from __future__ import annotations

DOCUMENTATION = r"""
name: drift_report
short_description: Join what M(trainwright.slurm.drift_info) found on several hosts
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - Returns results in the schema of docs/results.md, a line for each difference, and a summary. A host is believed on
    what it has, and not on its name. A host that did not answer, or not in that form, is not as it was left.
positional: hooks
options:
  _input:
    description: The registered result of M(trainwright.slurm.drift_info), by host.
    type: dict
    required: true
  hooks:
    description: Lines of P(trainwright.slurm.hook_drift#filter), which become results too.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Print what differs on two hosts
  ansible.builtin.debug:
    msg: "{{ (answers | trainwright.slurm.drift_report).lines }}"
  vars:
    answers:
      c1: {state: as left, differences: [], unknown: [], items: 214}
      c2: {unreachable: true}
  # ["c2: unreachable -> see whether it runs and answers SSH"]
"""

RETURN = r"""
_value:
  description: The joined answers.
  type: dict
  contains:
    results: {description: Results in the schema of docs/results.md., type: list, elements: dict}
    lines: {description: 'A line for each difference, with its remedy.', type: list, elements: str}
    summary: {description: Number of hosts by state., type: str}
    drifted: {description: Whether something differs., type: bool}
    unknown: {description: Whether a host that answered is not known., type: bool}
    unreachable: {description: Whether a host did not answer., type: bool}
    states: {description: 'Number of hosts as left, drifted, not known and unreachable.', type: dict}
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.drift_report import report


def drift_report(
    answers: t.Mapping[str, t.Mapping[str, t.Any]], hooks: t.Sequence[str] = ()
) -> dict[str, t.Any]:
    """Return the report."""
    return report(answers, hooks)


class FilterModule:
    """The filter of this file, for Ansible."""

    def filters(self) -> dict[str, t.Any]:
        return {"drift_report": drift_report}
