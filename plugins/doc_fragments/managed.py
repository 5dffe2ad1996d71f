# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation shared by the modules that record what they leave on a node."""

from __future__ import annotations


class ModuleDocFragment:
    """The option by which a module knows the role and the task that run it."""

    DOCUMENTATION = r"""
options:
  managed_by:
    description:
      - The role and the task of this call, under which the host records what the call leaves there, for
        M(trainwright.slurm.drift_info). The action plugin of the module sets it. Without it, nothing is recorded.
    type: dict
    version_added: "1.2.0"
    suboptions:
      manager: {description: Name of the role or of the file of the playbook., type: str, required: true}
      part: {description: Name of the task., type: str, required: true}
      version: {description: Version of the collection., type: str, default: ''}
      run: {description: The run of Ansible., type: str, default: ''}
"""
