# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Options shared by the modules for Slurm's accounting."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of the shared behaviour in module_utils/slurm/accounting/apply.py."""

    DOCUMENTATION = r"""
attributes:
  check_mode: {support: full, description: Plans the same operations but does not execute them.}
  diff_mode: {support: full, description: Shows each thing that changes.}
notes:
  - Changes need root, SlurmUser, or a user with AdminLevel operator or administrator; over slurmrestd,
    a token of one.
  - A failed operation does not undo the ones before it; the next run does the rest.
"""

    CLUSTER = r"""
options:
  cluster:
    description:
      - Name of the cluster (ClusterName of slurm.conf). Without it, the only one that the accounting
        knows; it is an error when there are several.
    type: str
"""

    LIMITS = r"""
options:
  fairshare:
    description:
      - Share of its parent, a number or V(parent). Without it, the share stays as it is.
    type: str
  qos:
    description:
      - All QOS that may be used; an empty list means those of the parent account. Without it, they stay
        as they are.
    type: list
    elements: str
  default_qos:
    description:
      - QOS of jobs that name none. Without it, it stays as it is.
    type: str
  options:
    description:
      - Other options of C(sacctmgr), such as C(GrpTRES), C(MaxJobs) or C(MaxWall); null clears a limit.
        An option that is not named stays as it is.
      - Times without a colon are minutes, memory without a unit is MiB. Times are refused as numbers,
        since YAML makes one of an unquoted C(1:30:00); write them in quotes.
    type: dict
    default: {}
"""
