# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run leaves slurmctld's own copy of the accounting behind, and reconfigures for nothing else."""

from __future__ import annotations

import os
import pathlib
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import kept
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.session import Session
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError

OLD = 1_000_000_000


class Slurmctld:
    """Writes its copy with a reconfigure, as save_all_state does."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.path = directory / kept.NAME
        self.works = True
        self.calls: list[str] = []

    def from_params(self, _params: t.Any) -> Slurmctld:
        return self

    def command(self, *words: str) -> str:
        self.calls.append(" ".join(words))
        if self.works:
            self.path.write_text("now")
        return ""


@pytest.fixture
def slurmctld(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Slurmctld:
    made = Slurmctld(tmp_path)
    monkeypatch.setattr(kept, "Cli", made)
    monkeypatch.setattr(kept, "_WAIT", 0.01)
    return made


@pytest.mark.parametrize(
    "there, changed, written",
    [(False, False, True), (False, True, True), (True, True, True), (True, False, False)],
)
@pytest.mark.parametrize("check", [True, False])
def test_it_is_written_when_it_is_missing_or_old(
    slurmctld: Slurmctld, there: bool, changed: bool, written: bool, check: bool
) -> None:
    if there:
        slurmctld.path.write_text("then")
        os.utime(slurmctld.path, (OLD, OLD))
    session = Session("slurm_accounting", {"controller_timeout": 0}, check)
    done = {"changed": changed, "operations": ["add account a"] if changed else []}
    result = kept.keep(session, str(slurmctld.path.parent), done)
    assert result["changed"] is written
    assert (f"write {slurmctld.path}" in result["operations"]) is written
    told = ["scontrol show partition", "scontrol reconfigure"]
    assert slurmctld.calls == (told if written and not check else [])
    if not check:
        again = kept.keep(session, str(slurmctld.path.parent), {"changed": False, "operations": []})
        assert again == {"changed": False, "operations": []}


def test_one_that_does_not_write_it_is_an_error(slurmctld: Slurmctld) -> None:
    slurmctld.works = False
    session = Session("slurm_accounting", {"controller_timeout": 0}, False)
    with pytest.raises(SlurmError, match="did not write .*assoc_mgr_state.* -> "):
        kept.keep(session, str(slurmctld.path.parent), {"changed": False, "operations": []})
