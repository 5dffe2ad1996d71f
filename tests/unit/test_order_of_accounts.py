# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The accounts come after every daemon of Slurm, so that an error there leaves a cluster whose daemons agree."""

from __future__ import annotations

import typing as t

import yaml

from tests.unit.cluster import ROOT

#: Daemons and clients that have to be told of a new port or key in the run that tells slurmctld.
TOLD = {"slurmctld", "slurmd", "slurm_login", "slurmrestd"}


def plays() -> list[dict[str, t.Any]]:
    return yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text("utf-8"))  # type: ignore[no-any-return]


def tasks(listed: list[dict[str, t.Any]]) -> t.Iterator[dict[str, t.Any]]:
    """The tasks, those of blocks too; not those of rescue, which are for failures."""
    for task in listed:
        yield task
        yield from tasks(task.get("block", []))


def roles(play: dict[str, t.Any]) -> list[tuple[str, str]]:
    """Each role of a play with the file of tasks that it starts with."""
    found = [(role["role"], "main") for role in play.get("roles", [])]
    for task in tasks(play.get("tasks", [])):
        used = task.get("ansible.builtin.import_role") or task.get("ansible.builtin.include_role")
        if used:
            found.append((used["name"], used.get("tasks_from", "main")))
    return [(name.rsplit(".", 1)[-1], start) for name, start in found]


def test_an_error_of_the_accounting_finds_every_daemon_told() -> None:
    """After slurmctld was restarted with another port, each slurmd is out of reach until it is restarted, too."""
    places = [(number, *role) for number, play in enumerate(plays()) for role in roles(play)]
    (accounts,) = (number for number, role, _start in places if role == "slurm_accounts")
    told = {role: number for number, role, start in places if role in TOLD and start == "main"}
    assert set(told) == TOLD
    assert max(told.values()) < accounts
    (proof,) = (number for number, *role in places if role == ["slurmctld", "verify"])
    assert accounts < proof


def test_the_accounts_are_the_first_controllers_alone_and_end_a_run_that_cannot_make_them() -> None:
    kept = {"hosts": "slurm_controller", "serial": 1, "any_errors_fatal": True}
    for role in ("slurmctld", "slurm_accounts"):
        (play,) = (play for play in plays() if (role, "main") in roles(play))
        assert roles(play) == [(role, "main")]
        assert {key: play[key] for key in kept} == kept
