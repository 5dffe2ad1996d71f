# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hands a module the role and the task that run it, under which its host records what the call leaves there.

It runs the module once and changes nothing else about the task: a role cannot forget it, and a playbook of a site
that runs the module has it too.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import typing as t
from pathlib import Path

from ansible.plugins.action.normal import ActionModule as Normal

_ROOT = Path(__file__).resolve().parents[2]


@functools.lru_cache(maxsize=1)
def collection_version() -> str:
    """Return the version of this collection, as it is installed or in its repository."""
    try:
        installed = json.loads((_ROOT / "MANIFEST.json").read_text(encoding="utf-8"))
        return str(installed["collection_info"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        text = (_ROOT / "galaxy.yml").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"^version:\s*[\"']?([^\s\"']+)", text, re.M)
    return found[1] if found else ""


def this_run() -> str:
    """Return a name of this run of Ansible, which another one on any control node does not have.

    Called in a worker, whose parent is the process of the run.
    """
    parent = os.getppid()
    try:
        # Ticks from the boot to its start: a number of a process comes back, and not with the same start.
        since = Path(f"/proc/{parent}/stat").read_text(encoding="utf-8").rpartition(")")[2]
        started = since.split()[19]
    except (OSError, IndexError):
        started = ""
    name = f"{os.uname().nodename} {parent} {started}"
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def managed_by(
    task: t.Any, task_vars: t.Mapping[str, t.Any] | None = None, templar: t.Any = None
) -> dict[str, str]:
    """Return the role, or the file of the playbook, and the name of a task, which is the same in every run.

    Each item of a task in a loop is a call of its own, which the label of the loop names.
    """
    role = task._role.get_name() if task._role else ""
    source = str(task.get_path() or "").rpartition(":")[0]
    manager = role.rpartition(".")[2] or os.path.basename(source) or "playbook"
    part = str(task.name or "")
    label = getattr(task.loop_control, "label", None)
    if label and templar and "ansible_loop_var" in (task_vars or {}):
        part = f"{part} ({templar.template(label)})"
    return {
        "manager": manager,
        "part": part,
        "version": collection_version(),
        "run": this_run(),
    }


class ActionModule(Normal):
    """Runs the module of its name with ``managed_by``."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        manager = managed_by(self._task, task_vars, self._templar)
        self._task.args = {**self._task.args, "managed_by": manager}
        return t.cast("dict[str, t.Any]", super().run(tmp, task_vars))
