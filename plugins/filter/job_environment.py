# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The variables that jobs on a machine should set, from the table that train.yml and job-lint use."""

from __future__ import annotations

DOCUMENTATION = r"""
name: job_environment
short_description: List the variables that jobs on a machine should set
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the variables of NCCL, EFA and Open MPI for jobs over several nodes, none that is obsolete. C(train.yml)
    writes the same into batch scripts, and C(job-lint) judges scripts by the same table.
positional: efa, mpi
options:
  _input:
    description: Type of the machines, such as V(p5.48xlarge); empty where it is not known.
    type: str
    required: true
  efa:
    description: Whether the machines have EFA.
    type: bool
    default: false
  mpi:
    description: Whether MPI itself carries the data.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show the variables for MPI on machines with EFA
  ansible.builtin.debug:
    msg: "{{ 'p5.48xlarge' | trainwright.slurm.job_environment(efa=true, mpi=true) }}"
"""

RETURN = r"""
_value:
  description: >-
    Each with C(name), C(value), C(why), and C(mpi), true where only programs of MPI need it.
  type: list
  elements: dict
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import environment


def job_environment(
    machine_type: str, efa: bool = False, mpi: bool = False
) -> list[dict[str, t.Any]]:
    """Return the rows of the table for a machine type."""
    without = {one.name for one in environment.settings(machine_type, efa=efa)}
    return [
        {**one._asdict(), "mpi": one.name not in without}
        for one in environment.settings(machine_type, efa=efa, mpi=mpi)
    ]


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"job_environment": job_environment}
