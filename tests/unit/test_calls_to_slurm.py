# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Playbooks and roles speak to Slurm by modules, which share their options as one action group."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    module as slurm_module,
)

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = re.compile(
    r"(?<![\w.-])(scontrol|sacctmgr|sbatch|squeue|sinfo|scancel|sacct|srun|salloc)(?![\w.-])"
)
RUNS = re.compile(r"(ansible\.(builtin|legacy)\.)?(command|shell|raw|script|expect)")
FRAGMENT = "trainwright.slurm.slurm"


def load(path: Path) -> t.Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def files() -> list[Path]:
    found = [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").rglob("*.yml")]
    return sorted(path for path in found if path.parent.name != "meta")


def dicts(data: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Every dict in the data, so every set of variables, wherever they are given."""
    if isinstance(data, dict):
        yield data
    for item in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from dicts(item)


def tasks(entries: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Every play, block and task in a list of them."""
    lists = "tasks pre_tasks post_tasks handlers block rescue always".split()
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            yield entry
            for key in lists:
                yield from tasks(entry.get(key))


def texts(data: t.Any) -> t.Iterator[str]:
    if isinstance(data, (dict, list)):
        for item in data.values() if isinstance(data, dict) else data:
            yield from texts(item)
    elif data is not None:
        yield str(data)


def run_by(task: dict[str, t.Any]) -> list[str]:
    """The texts that a task hands to a module that runs them, keywords of the task excepted."""
    found = [key for key in task if RUNS.fullmatch(key)]
    for key in ("action", "local_action"):
        action = task.get(key)
        name = action.get("module", "") if isinstance(action, dict) else str(action or "")
        found += [key] if RUNS.match(name) else []
    more = ["args", "vars", "environment", "loop", "with_items"] if found else []
    return [text for key in [*found, *more] for text in texts(task.get(key))]


def calls(paths: t.Iterable[Path]) -> list[str]:
    """Each command of Slurm that a task runs; variables stand for all that any file gives them."""
    data = {path: load(path) for path in paths}
    values: dict[str, list[str]] = {}
    for content in data.values():
        for found in dicts(content):
            for key, value in found.items():
                values.setdefault(str(key), []).extend(texts(value))
    out = []
    for path, content in data.items():
        for task in tasks(content):
            seen: set[str] = set()
            waiting = run_by(task)
            while waiting:
                text = waiting.pop()
                # A trigger of dpkg names a program, and runs another one.
                ran = re.sub(r"^interest\S* \S+$", "", text, flags=re.M)
                out += [f"{path.name}: {task.get('name')}: {m[0]}" for m in COMMANDS.finditer(ran)]
                for expression in re.findall(r"\{[{%](.*?)[%}]\}", text, re.DOTALL):
                    # The value of a variable has those of its attributes in it.
                    for name in set(re.findall(r"(?<![\w.])\w+", expression)) - seen:
                        seen.add(name)
                        waiting += values.get(name, [])
    return out


def test_no_task_runs_a_command_of_slurm() -> None:
    assert not calls(files())


@pytest.mark.parametrize(
    "task",
    [
        "ansible.builtin.command: scontrol show nodes",
        "command: {argv: [/usr/bin/scontrol, ping]}",
        "ansible.builtin.shell: {cmd: 'x=$(squeue -h)'}",
        "ansible.builtin.raw: sinfo",
        "ansible.builtin.script: files/a.sh sacctmgr",
        "action: command sbatch job.sh",
        "local_action: {module: ansible.builtin.command, cmd: scancel 1}",
        "ansible.builtin.command: echo\n  args: {stdin: srun hostname}",
        "ansible.builtin.command: '{{ bin }}/{{ tool }} show'\n  vars: {tool: sacct}",
        "ansible.builtin.command: '{{ words | join }}'\n  vars: {words: '{{ more }}', more: [sinfo]}",
        "ansible.builtin.command: '{{ item }}'\n  loop: [scontrol]",
    ],
)
def test_a_call_is_found_however_it_is_written(task: str, tmp_path: Path) -> None:
    path = tmp_path / "tasks.yml"
    path.write_text("- block:\n  - name: Call\n    " + task.replace("\n", "\n  ") + "\n")
    assert calls([path])


def test_other_commands_are_none(tmp_path: Path) -> None:
    path = tmp_path / "tasks.yml"
    path.write_text(
        "- name: Run scontrol no more\n  ansible.builtin.command: make -C slurm/sacct.d install\n"
        "- trainwright.slurm.slurm_job: {script: srun hostname}\n  vars: {tool: scontrol}\n"
    )
    assert not calls([path])


def documented(path: Path) -> dict[str, t.Any]:
    text = path.read_text(encoding="utf-8")
    return t.cast(
        "dict[str, t.Any]",
        yaml.safe_load(re.search(r'^DOCUMENTATION = r"""\n(.*?)^"""', text, re.M | re.S)[1]),  # type: ignore[index]
    )


def test_the_action_group_has_every_module_with_the_common_options() -> None:
    modules = (ROOT / "plugins" / "modules").glob("[a-z]*.py")
    fragments = {
        path.stem: documented(path).get("extends_documentation_fragment") or [] for path in modules
    }
    group = load(ROOT / "meta" / "runtime.yml")["action_groups"]["slurm"]
    assert group == sorted(name for name, used in fragments.items() if FRAGMENT in used)


def test_the_documentation_of_the_common_options_is_that_of_their_spec() -> None:
    text = (ROOT / "plugins" / "doc_fragments" / "slurm.py").read_text(encoding="utf-8")
    match = re.search(r'    DOCUMENTATION = r"""\n(.*?)^"""', text, re.M | re.S)
    assert match
    options = yaml.safe_load(match[1])["options"]
    assert set(options) == set(slurm_module.arguments())
    for name, spec in slurm_module.arguments().items():
        for key in ("type", "default", "choices"):
            assert options[name].get(key) == spec.get(key), (name, key)
