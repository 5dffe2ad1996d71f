# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation shared by the modules that only this collection's roles call."""

from __future__ import annotations


class ModuleDocFragment:
    """A note that no other playbook should rely on the module."""

    DOCUMENTATION = r"""
options: {}
notes:
  - Internal to this collection's roles. Its options and results may change without notice, in any release.
"""
