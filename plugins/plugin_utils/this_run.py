# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which run of ansible-playbook this is, for the locks of playbooks."""

from __future__ import annotations

import getpass
import multiprocessing
import os
import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.node import run_lock


def this_run() -> dict[str, t.Any]:
    """Return the holder that this run is: the process of ansible-playbook, not its worker."""
    parent = multiprocessing.parent_process()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # OSError from Python 3.13 on
        user = f"uid {os.getuid()}"
    return run_lock.this_run(user, parent.pid if parent and parent.pid else os.getpid())
