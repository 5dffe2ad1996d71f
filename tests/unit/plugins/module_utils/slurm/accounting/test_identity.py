# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A database without the records of the cluster is refused before anything is added to it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import identity
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting.state import (
    AccountingError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.session import Session


class Database:
    """Answers sacctmgr."""

    def __init__(self, shown: str) -> None:
        self.shown, self.asked = shown, 0

    def from_params(self, _params: t.Any) -> Database:
        return self

    def command(self, *words: str) -> str:
        assert words[:3] == ("sacctmgr", "-nP", "show")
        self.asked += 1
        return self.shown


@pytest.mark.parametrize(
    ("kept", "shown", "what"),
    [
        ("hpc|775\n", "hpc|775\n", ""),
        ("hpc|775", "hpc|1284\n", "has it as number 1284"),
        ("hpc|775", "", "does not know hpc"),
        ("hpc|775", "other|775\n", "does not know hpc"),
    ],
)
def test_another_database_is_refused_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str, shown: str, what: str
) -> None:
    (tmp_path / identity.NAME).write_text(kept)
    monkeypatch.setattr(identity, "Cli", Database(shown))
    session = Session("slurm_accounting", {"cluster": "hpc", "controller_timeout": 0}, False)
    if not what:
        identity.refuse_another(session, str(tmp_path))
        return
    with pytest.raises(AccountingError, match=f"{what}, and slurmctld has worked with number 775"):
        identity.refuse_another(session, str(tmp_path))


@pytest.mark.parametrize("kept", [None, "hpc", "hpc|0", "other|775", "hpc|7|7", "|5", "\0"])
def test_where_slurmctld_knows_no_number_nobody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str | None
) -> None:
    """With 22.05, before the first registration, and after a change of the name, which preflight refuses."""
    if kept is not None:
        (tmp_path / identity.NAME).write_text(kept)
    database = Database("")
    monkeypatch.setattr(identity, "Cli", database)
    session = Session("slurm_accounting", {"cluster": "hpc", "controller_timeout": 0}, False)
    identity.refuse_another(session, str(tmp_path))
    assert not database.asked
