# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files with the environment of training jobs."""

from __future__ import annotations

DOCUMENTATION = r"""
name: training_profiles
short_description: Make the files with the environment of training jobs for a node
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the files that a batch script sources, for M(trainwright.slurm.config_files), from the table by which
    C(train.yml) writes batch scripts and C(job-lint) checks them.
options:
  _input:
    description: Machine type of the node, such as V(p5.48xlarge); empty where it is not known.
    type: str
    required: true
  efa:
    description: Whether the node has EFA devices. A type of the collection's table that has them needs no telling.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show the environment of training jobs on a p5
  ansible.builtin.debug:
    msg: "{{ 'p5.48xlarge' | trainwright.slurm.training_profiles }}"
"""

RETURN = r"""
_value:
  description: Files, each with C(path), C(mode) and C(content).
  type: list
  elements: dict
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import profile


def training_profiles(machine_type: str, efa: bool = False) -> list[dict[str, str]]:
    """Return the files for config_files."""
    efa = efa or profile.has_efa(machine_type)
    return [
        {"path": path, "mode": "0644", "content": profile.profile(machine_type, efa=efa, mpi=mpi)}
        for path, mpi in ((profile.PATH, False), (profile.MPI_PATH, True))
    ]


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"training_profiles": training_profiles}
