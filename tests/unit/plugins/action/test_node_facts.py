# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The action plugin node_facts tells the module who connects."""

from __future__ import annotations

import typing as t

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.action.node_facts import ActionModule


class Task:
    """A task with arguments."""

    args: t.ClassVar[dict[str, t.Any]] = {"paths": ["/var"]}


@pytest.mark.parametrize(("remote_user", "given"), [("opsu", "opsu"), (None, "")])
def test_the_module_learns_the_user_of_the_connection(
    monkeypatch: pytest.MonkeyPatch, remote_user: str | None, given: str
) -> None:
    seen: list[dict[str, t.Any]] = []

    def execute(
        _self: ActionBase, module_args: dict[str, t.Any], **_more: t.Any
    ) -> dict[str, t.Any]:
        seen.append(module_args)
        return {}

    monkeypatch.setattr(ActionBase, "run", lambda *_args: {})
    monkeypatch.setattr(ActionBase, "_execute_module", execute)
    monkeypatch.setattr(ActionBase, "_get_remote_user", lambda _self: remote_user)
    action = object.__new__(ActionModule)
    action._task = Task()
    action.run(None, {})
    assert seen == [{"connected_as": given, "paths": ["/var"]}]
