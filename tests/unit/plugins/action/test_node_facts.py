# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The action plugin node_facts tells the module who connects, and judges what the host answers."""

from __future__ import annotations

import functools
import json
import re
import time
import typing as t

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.action.node_facts import ActionModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    drift,
    fact_schema,
    facts,
)


class Task:
    """A task with arguments."""

    args: t.ClassVar[dict[str, t.Any]] = {"paths": ["/var"]}


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJN6gxojK9sxz3PzNRmyU61mp5y+U1ZJVPRs0ZvmFGa2"


def run(
    monkeypatch: pytest.MonkeyPatch,
    answer: dict[str, t.Any],
    user: str | None = None,
    arguments: dict[str, t.Any] | None = None,
) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    """What the action gives the module, and what it makes of its answer."""
    seen: list[dict[str, t.Any]] = []

    def execute(
        _self: ActionBase, module_args: dict[str, t.Any], **_more: t.Any
    ) -> dict[str, t.Any]:
        seen.append(module_args)
        return answer

    monkeypatch.setattr(ActionBase, "run", lambda *_args: {})
    monkeypatch.setattr(ActionBase, "_execute_module", execute)
    monkeypatch.setattr(ActionBase, "_get_remote_user", lambda _self: user)
    action = object.__new__(ActionModule)
    action._task = Task()
    action._task.args = {**Task.args, **(arguments or {})}  # type: ignore[misc]
    result = action.run(None, {"inventory_hostname": "c1"})
    return seen[0], result


@functools.cache
def gathered() -> str:
    """The facts of this machine, which take a moment."""
    return json.dumps(facts.gather([], [], [], [], []))


def honest() -> dict[str, t.Any]:
    """The answer of a good host."""
    node = json.loads(gathered())
    now = time.time()
    return {
        "ansible_facts": {"trainwright_node": {**node, "ssh_host_key": KEY}},
        "clock": {"start": now, "end": now},
        "warnings": ["said by the host"],
    }


@pytest.mark.parametrize(("remote_user", "given"), [("opsu", "opsu"), (None, "")])
def test_the_module_learns_the_user_of_the_connection(
    monkeypatch: pytest.MonkeyPatch, remote_user: str | None, given: str
) -> None:
    asked, _result = run(monkeypatch, {}, remote_user)
    assert asked == {"connected_as": given, "paths": ["/var"]}


def test_an_honest_answer_is_believed_and_has_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = honest()
    answer["ansible_facts"]["discovered_interpreter_python"] = "/usr/bin/python3"
    _asked, result = run(monkeypatch, answer)
    assert not result.get("failed"), result
    assert set(result) == {"changed", "ansible_facts", "node", "look"}
    assert result["changed"] is False and result["look"] == {}
    assert set(result["ansible_facts"]) == {"trainwright_node", "discovered_interpreter_python"}
    node = result["node"]
    assert node == result["ansible_facts"]["trainwright_node"]
    assert node["ssh_host_key"] == KEY and set(fact_schema.ADDED) < set(node)


LOOK = drift.no_answer(OSError("it is full"), "r1")


def test_a_host_is_compared_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, result = run(monkeypatch, {**honest(), "look": LOOK}, arguments={"look": "/m"})
    assert asked["look"] == "/m" and re.fullmatch("[0-9a-f]{16}", asked["run"])
    assert result["look"] == LOOK and not result.get("failed")
    asked, result = run(monkeypatch, {**honest(), "look": LOOK})
    assert "look" not in asked and result["look"] == {}
    # Given by the inventory's side in one set with the probes.
    asked, _result = run(
        monkeypatch, {**honest(), "look": LOOK}, arguments={"probes": {"look": ""}}
    )
    assert "run" not in asked


def test_the_first_look_of_a_run_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    first = {**LOOK, "others": 7}
    asked, result = run(
        monkeypatch, {**honest(), "look": LOOK}, arguments={"look": "/m", "looked": first}
    )
    assert not {"look", "looked", "run"} & set(asked)
    assert result["look"] == first


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (None, "look: None is not a mapping"),
        ({**LOOK, "state": "fine"}, "look.state"),
        ({**LOOK, "digest": "{{ 1 }}"}, "look.digest"),
        ({**LOOK, "others": "many"}, "look.others"),
        ({**LOOK, "unknown": [{"role": "a\nb", "part": "", "why": ""}]}, "look.unknown"),
        ({**LOOK, "ansible_facts": {}}, "ansible_facts"),
    ],
)
def test_a_look_of_another_form_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, look: t.Any, said: str
) -> None:
    _asked, result = run(monkeypatch, {**honest(), "look": look}, arguments={"look": "/m"})
    assert result["failed"] and said in result["msg"] and "node" not in result


@pytest.mark.parametrize("word", [False, "no"])
def test_facts_that_are_no_variable_are_in_the_result_alone(
    monkeypatch: pytest.MonkeyPatch, word: object
) -> None:
    answer = honest()
    answer["ansible_facts"]["discovered_interpreter_python"] = "/usr/bin/python3"
    _asked, result = run(monkeypatch, answer, arguments={"as_variable": word})
    assert result["ansible_facts"] == {"discovered_interpreter_python": "/usr/bin/python3"}
    assert result["node"]["ssh_host_key"] == KEY


def lie(change: t.Callable[[dict[str, t.Any]], object]) -> dict[str, t.Any]:
    answer = honest()
    change(answer)
    return answer


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda answer: answer["ansible_facts"].update(slurm_conf={"Prolog": "/x"}), "slurm_conf"),
        (
            lambda answer: answer["ansible_facts"].update(slurm_node={"name": "mirror"}),
            "slurm_node",
        ),
        (lambda answer: answer["ansible_facts"].update({"a\nc2: x": 1}), "a\\nc2"),
        (lambda answer: answer.update(ansible_facts=["x"]), "trainwright_node: is missing"),
        (
            lambda answer: answer["ansible_facts"]["trainwright_node"].pop("gpus"),
            "gpus: is missing",
        ),
        (lambda answer: answer.update(clock={"start": "now", "end": 1}), "clock.start"),
        (lambda answer: answer.pop("clock"), "clock"),
    ],
    ids=["setting", "host-variable", "odd-name", "no-mapping", "incomplete", "clock", "no-clock"],
)
def test_a_host_that_answers_anything_else_fails_by_its_name(
    monkeypatch: pytest.MonkeyPatch, change: t.Callable[[dict[str, t.Any]], object], why: str
) -> None:
    _asked, result = run(monkeypatch, lie(change))
    assert set(result) == {"failed", "msg"} and result["failed"]
    assert result["msg"].startswith("c1: node_facts: ") and why in result["msg"]
    assert " -> " in result["msg"] and result["msg"].isprintable()


def test_a_module_that_fails_does_not_reach_the_terminal_or_the_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = {"failed": True, "msg": "\x1b]0;x\x07no", "ansible_facts": {"slurm_conf": {}}, "rc": 1}
    failed["node"] = {"os": {"like": "rhel"}}
    _asked, result = run(monkeypatch, failed)
    assert result == {"failed": True, "msg": "\\x1b]0;x\\x07no", "rc": 1}
