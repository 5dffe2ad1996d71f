# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the module database_rights with the role and the task under which the host records what it leaves."""

from ansible_collections.trainwright.slurm.plugins.plugin_utils.recorded import ActionModule

__all__ = ["ActionModule"]
