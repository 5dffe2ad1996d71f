# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A database without the records of the cluster is refused before anything is added to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import identity
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting.state import (
    AccountingError,
)


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_WAIT", 0.2)
    monkeypatch.setattr(identity, "_INTERVAL", 0.01)


@pytest.mark.parametrize("there", [[], ["other"]])
def test_a_database_that_does_not_know_the_cluster_of_this_slurmctld_is_refused(
    tmp_path: Path, there: list[str]
) -> None:
    (tmp_path / identity.NAME).write_text("hpc|775\n")
    with pytest.raises(AccountingError, match=r"does not know hpc, .*number 775 .* -> "):
        identity.refuse_another("hpc", str(tmp_path), lambda: there)


def test_a_slurmctld_that_has_just_started_registers_itself_a_moment_later(tmp_path: Path) -> None:
    (tmp_path / identity.NAME).write_text("hpc|775")
    answers = iter([[], [], ["hpc", "other"]])
    identity.refuse_another("hpc", str(tmp_path), lambda: next(answers))
    assert next(answers, None) is None


@pytest.mark.parametrize("kept", [None, "hpc", "hpc|0", "other|775", "hpc|7|7", "|5", "\0"])
def test_where_slurmctld_knows_no_number_nobody_is_asked(tmp_path: Path, kept: str | None) -> None:
    """With 22.05, before the first registration, and after a change of the name, which preflight refuses."""
    if kept is not None:
        (tmp_path / identity.NAME).write_text(kept)
    identity.refuse_another("hpc", str(tmp_path), lambda: pytest.fail("asked"))
