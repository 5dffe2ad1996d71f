# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the files of the last proof on a host that is the primary no more, or again."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import (
    accepted,
    primary,
    proof,
    restart,
)

from .test_apply import BASE, Site, killed

TWO = BASE.replace("SlurmctldHost=ctl1", "SlurmctldHost=ctl1(10.0.0.1)\nSlurmctldHost=ctl2")
SWAPPED = BASE.replace("SlurmctldHost=ctl1", "SlurmctldHost=ctl2\nSlurmctldHost=ctl1(10.0.0.1)")
PROOF = (accepted.PROVED, accepted.BEFORE)


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Site:
    """A primary controller whose nodes ran a step, and that has a restart of every slurmd to come."""
    found = Site(tmp_path)
    name = os.uname().nodename.split(".")[0]
    answer = f"Slurmctld(primary) at x is UP\nSlurmctld(backup) at {name} is UP\n"
    found.slurm._ping = lambda: (0, answer, "")  # type: ignore[attr-defined]
    found.run(TWO)
    for name in (*PROOF, restart.FILE):
        accepted.write(str(applied(found)), name, {"digest": "of long ago", "files": [], "had": []})
    return found


def applied(site: Site) -> pathlib.Path:
    return site.path / "var" / "applied"


def left(site: Site) -> set[str]:
    return {name for name in PROOF if (applied(site) / name).exists()}


def test_a_host_that_becomes_the_backup_forgets_the_last_proof(site: Site) -> None:
    site.run(SWAPPED, check=True, role="backup")
    assert left(site) == {*PROOF}
    site.run(SWAPPED, role="backup")
    assert left(site) == set()
    assert (applied(site) / restart.FILE).exists()
    assert not site.run(SWAPPED, role="backup")["changed"]


def test_a_backup_of_an_earlier_release_is_cleared_and_this_is_no_change(site: Site) -> None:
    site.run(SWAPPED, role="backup")
    accepted.write(str(applied(site)), accepted.PROVED, {"digest": "of long ago"})
    assert not site.run(SWAPPED, check=True, role="backup")["changed"]
    assert left(site) == {accepted.PROVED}
    assert not site.run(SWAPPED, role="backup")["changed"]
    assert left(site) == set()


def test_a_host_that_is_the_primary_again_starts_without_a_proof(site: Site) -> None:
    """The collection was updated between the two swaps: nothing was removed while the host was the backup."""
    site.run(SWAPPED, role="backup")
    accepted.write(str(applied(site)), accepted.PROVED, {"digest": "of long ago"})
    site.run(TWO, check=True)
    assert left(site) == {accepted.PROVED}
    killed(site, TWO, "apply")
    assert left(site) == set()
    site.run(TWO)
    # Only what this run itself found before it told slurmctld.
    assert accepted.PROVED not in left(site)


@pytest.mark.parametrize(
    "text", [TWO, TWO + "KillWait=9\n", TWO.replace("10.0.0.1", "10.0.0.9"), BASE]
)
def test_a_primary_keeps_its_proof(site: Site, text: str) -> None:
    site.run(text)
    assert accepted.PROVED in left(site)


@pytest.mark.parametrize(
    ("proved", "back"),
    [
        (TWO, True),
        (SWAPPED, False),
        (BASE, False),
        (TWO.replace("10.0.0.1", "10.0.0.9"), False),
    ],
)
def test_only_files_with_the_same_controllers_come_back(
    tmp_path: pathlib.Path, proved: str, back: bool
) -> None:
    def spec(text: str) -> dict[str, str]:
        return {"path": "/etc/slurm/slurm.conf", "content": text, "state": "present"}

    other = {**spec("SlurmctldHost=no\n"), "path": "/etc/slurm/other.conf"}
    now = accepted.manifest([other, spec(TWO + "NodeName=c2\n")])
    (tmp_path / accepted.ACCEPTED).write_text(now)
    state = {"digest": "of then", "files": [spec(proved)]}
    accepted.write(str(tmp_path), accepted.PROVED, state)
    found = proof.files_before(proof.Settings("24.11", applied_dir=str(tmp_path)))
    assert [one["path"] for one in found if one["state"] == "present"] == [
        "/etc/slurm/slurm.conf"
    ] * back


def test_text_that_slurm_cannot_read_names_nobody() -> None:
    assert primary.controllers("NodeName=\n") == []
    assert primary.controllers_of([]) == []
    assert primary.moves("", BASE)
