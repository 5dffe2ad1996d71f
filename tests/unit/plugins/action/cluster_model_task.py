# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the task cluster_model of playbooks/preflight.yml as Ansible does, but for what the hosts answer.

The inventory, the group variables, the role's defaults, variables and task are read by Ansible's own parsers;
facts and the controller's record come from the caller. It is a process of its own, because Ansible's loader of
collections and an import of theirs without it do not go together: a line of JSON on its input is a run, a line on
its output what became of it.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
PLAY = "Read the nodes and refuse bad input"
ACTION = "trainwright.slurm.cluster_model"


class Process:
    """A process that runs the task."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        inventory: Path,
        facts: dict[str, t.Any],
        record: str,
        variables: dict[str, t.Any],
        limit: str = "",
        returned: dict[str, dict[str, t.Any]] | None = None,
        first: str = "",
        of_play: dict[str, t.Any] | None = None,
    ) -> dict[str, t.Any]:
        """Return what the task returned; "failed" and "msg" where it refused.

        returned: what else modules returned as facts on a host. first: the host that the task runs for. of_play:
        variables that an import_playbook gives the plays.
        """
        assert self._process.stdin and self._process.stdout
        given = {
            "inventory": str(inventory),
            "facts": facts,
            "record": record,
            "variables": variables,
            "limit": limit,
            "returned": returned or {},
            "first": first,
            "of_play": of_play or {},
        }
        self._process.stdin.write(json.dumps(given) + "\n")
        self._process.stdin.flush()
        answer: dict[str, t.Any] = json.loads(self._process.stdout.readline())
        return answer

    def end(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait() == 0


def run(given: dict[str, t.Any], loader: t.Any) -> dict[str, t.Any]:
    """One run of the task. loader: DataLoader, which reads the files of all runs once."""
    from ansible.errors import AnsibleError
    from ansible.inventory.manager import InventoryManager
    from ansible.playbook.play import Play
    from ansible.playbook.play_context import PlayContext
    from ansible.plugins.loader import connection_loader
    from ansible.template import Templar
    from ansible.vars.hostvars import HostVars
    from ansible.vars.manager import VariableManager
    from ansible_collections.trainwright.slurm.plugins.action.cluster_model import ActionModule

    inventory = InventoryManager(loader=loader, sources=[given["inventory"]])
    manager = VariableManager(loader, inventory)
    # Settings of the command line: -e and --limit.
    manager._extra_vars = given["variables"]
    if given["limit"]:
        inventory.subset(given["limit"])
        manager._options_vars = {**manager._options_vars, "ansible_limit": given["limit"]}
    HostVars(inventory, manager, loader)
    for host, facts in given["facts"].items():
        # As the strategy keeps what a task registers, and what any module returns as facts.
        manager.set_nonpersistent_facts(host, {"slurm_facts": {"node": facts}})
        manager.set_host_facts(host, {"trainwright_node": facts, **given["returned"].get(host, {})})

    # Only this play: the roles of the others would take half of the time of a case.
    plays = loader.load_from_file(
        str(ROOT / "playbooks" / "preflight.yml"), trusted_as_template=True
    )
    (data,) = [play for play in plays if play["name"] == PLAY]
    play = Play.load(data, variable_manager=manager, loader=loader)
    play.vars = {**play.vars, **given["of_play"]}
    (task,) = [task for task in tasks(play.compile()) if task.action == ACTION]
    pattern = Templar(loader=loader, variables=manager.get_vars(play=play)).template(play.hosts)
    hosts = [host for host in inventory.get_hosts(pattern) if host.name in given["facts"]]
    first = next((host for host in hosts if host.name == given["first"]), hosts[0])
    variables = manager.get_vars(play=play, host=first, task=task)
    templar = Templar(loader=loader, variables=variables)
    task.args = templar.template(task.args)
    play_context = PlayContext()
    action = ActionModule(
        task=task,
        connection=connection_loader.get("ansible.builtin.local", play_context, "/dev/null"),
        play_context=play_context,
        loader=loader,
        templar=templar,
        shared_loader_obj=None,
    )

    def slurp(module_name: str, **_more: t.Any) -> dict[str, t.Any]:
        assert module_name == "ansible.legacy.slurp"
        if not given["record"]:
            return {"failed": True, "msg": "file not found: record.json"}
        return {"content": base64.b64encode(given["record"].encode()).decode()}

    action._execute_module = slurp
    try:
        return {"failed": False, **action.run(task_vars=variables)}
    except AnsibleError as error:
        return {"failed": True, "msg": str(error)}


def tasks(blocks: t.Iterable[t.Any]) -> t.Iterator[t.Any]:
    """The tasks of blocks and of the blocks in them."""
    for block in blocks:
        for item in block.block:
            yield from tasks([item]) if hasattr(item, "block") else [item]


if __name__ == "__main__":
    from ansible.parsing.dataloader import DataLoader
    from ansible.plugins.loader import init_plugin_loader

    files = DataLoader()
    init_plugin_loader([str(ROOT / ".collections")])
    for request in sys.stdin:
        print(json.dumps(run(json.loads(request), files)), flush=True)
