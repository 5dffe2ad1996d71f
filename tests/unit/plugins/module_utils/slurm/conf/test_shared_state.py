# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of whether two controllers see one state: the text that the primary writes and the backup reads."""

from __future__ import annotations

import os
import pathlib
import pwd
import shutil
import typing as t

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import shared_state

from .test_apply import BASE, Site, module, running, site

__all__ = ["module", "running", "site"]

ROLE = pathlib.Path(__file__).resolve().parents[6] / "roles" / "slurmctld"
TWO = BASE.replace("SlurmctldHost=ctl1", "SlurmctldHost=ctl1(10.0.0.1)\nSlurmctldHost=ctl2")
SENTENCE = (
    "nothing was written; this host does not see the state of ctl1 in {directory} ({name}: {cause})"
)
REMEDY = " -> mount the same file system on both, and run again"


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The account of the tests is slurm's, and nobody waits a minute."""
    monkeypatch.setattr(shared_state, "USER", pwd.getpwuid(os.getuid()).pw_name)
    monkeypatch.setattr(shared_state, "_WAIT", 0.05)
    monkeypatch.setattr(shared_state, "_INTERVAL", 0.01)


@pytest.fixture
def state(tmp_path: pathlib.Path) -> pathlib.Path:
    """StateSaveLocation of the primary."""
    directory = tmp_path / "nfs2"
    directory.mkdir()
    return directory


def refused(directory: pathlib.Path, text: str, check: bool = False) -> str:
    with pytest.raises(shared_state.SharedStateError) as error:
        shared_state.refuse_another(str(directory), text, "ctl1", check)
    return str(error.value)


def test_one_directory_under_two_names_is_one_state(
    state: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    other = tmp_path / "shared"
    other.symlink_to(state)
    texts = set()
    for _run in range(2):
        text = shared_state.write(str(state))
        shared_state.refuse_another(str(other), text, "ctl1", False)
        shared_state.refuse_another(str(other), text, "ctl1", True)
        texts.add(text)
    assert len(texts) == 2
    assert (state / shared_state.NAME).stat().st_mode & 0o777 == 0o600


def test_a_state_that_was_copied_to_another_server_is_another(
    state: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The backup is still on the server of before, whose text was copied with the state."""
    shared_state.write(str(state))
    old = tmp_path / "nfs1"
    shutil.copytree(state, old)
    said = refused(old, shared_state.write(str(state)))
    cause = "another text than the one of this run"
    assert SENTENCE.format(directory=old, name=shared_state.NAME, cause=cause) in said
    assert said.endswith(REMEDY)
    assert refused(old, shared_state.read(str(state))[0], check=True) == said


def test_a_directory_of_its_own_is_another(state: pathlib.Path, tmp_path: pathlib.Path) -> None:
    text = shared_state.write(str(state))
    (tmp_path / "local").mkdir()
    for directory in (tmp_path / "local", tmp_path / "none"):
        assert "No such file or directory" in refused(directory, text)
        # A host that is not set up yet.
        shared_state.refuse_another(str(directory), text, "ctl1", True)


def test_a_text_that_appears_a_moment_later_is_seen(
    state: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client of NFS may know for a while that there was no such file."""
    answers = [("", "No such file or directory"), ("old", ""), ("new", "")]
    monkeypatch.setattr(shared_state, "_WAIT", 60)
    monkeypatch.setattr(shared_state, "read", lambda _directory: answers.pop(0))
    shared_state.refuse_another(str(state), "new", "ctl1", False)
    assert answers == []


def test_a_file_system_that_does_not_answer_ends_the_wait(
    state: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(state / shared_state.NAME)
    monkeypatch.setattr(shared_state, "_PATIENCE", 0.3)
    with pytest.raises(shared_state.SharedStateError, match="does not answer within 0.3 s"):
        shared_state.write(str(state))
    monkeypatch.setattr(shared_state, "_WAIT", 600)
    monkeypatch.setattr(
        shared_state, "read", lambda _directory: ("", f"{shared_state._SILENT} within 20 s")
    )
    assert "does not answer" in refused(state, "text")


@pytest.mark.parametrize("kind", ["link", "directory", "user"])
def test_a_state_in_which_nobody_can_write_is_named(
    state: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place = state / shared_state.NAME
    if kind == "link":
        place.symlink_to(tmp_path / "trap")
    elif kind == "directory":
        place.mkdir()
    else:
        monkeypatch.setattr(shared_state, "USER", "nobody-here")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(shared_state.SharedStateError, match="cannot write there .* and run again"):
        shared_state.write(str(state))
    assert not (tmp_path / "trap").exists()
    assert shared_state.read(str(state))[0] == ""


def test_the_primary_writes_in_each_run_and_that_is_no_change(
    running: Site, module: t.Any, state: pathlib.Path
) -> None:
    module(TWO)
    assert module(TWO, True, state_dir=str(state))["state_mark"] == ""
    assert not (state / shared_state.NAME).exists()
    first = module(TWO, state_dir=str(state))
    assert not first["changed"]
    assert module(TWO, True, state_dir=str(state))["state_mark"] == first["state_mark"]
    assert module(TWO, state_dir=str(state))["state_mark"] not in ("", first["state_mark"])
    # One controller alone.
    assert module(TWO)["state_mark"] == ""


def test_a_backup_with_another_state_is_neither_written_nor_started(
    running: Site, module: t.Any, state: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    running.slurm.given = ""
    own = tmp_path / "own"
    own.mkdir()
    given = {"role": "backup", "state_mark": shared_state.write(str(state))}
    result = module(TWO, state_dir=str(own), **given)
    assert result["failed"] and "does not see the state of ctl1 in " in result["msg"]
    assert running.conf.read_text() == BASE and running.slurm.calls == []
    # The same file system, or nothing to compare: the run does its work.
    name = os.uname().nodename.split(".")[0]
    answer = f"Slurmctld(primary) at x is UP\nSlurmctld(backup) at {name} is UP\n"
    running.slurm._ping = lambda: (0, answer, "")  # type: ignore[attr-defined]
    assert module(TWO, state_dir=str(state), **given)["action"] == "start"
    assert not module(TWO, state_dir=str(own), role="backup").get("failed")


@pytest.mark.parametrize("hosts", [["ctl1"], ["ctl1", "ctl2"]])
def test_the_role_hands_the_text_of_the_primary_to_the_backup(hosts: list[str]) -> None:
    tasks = yaml.safe_load((ROLE / "tasks" / "service.yml").read_text("utf-8"))
    (task,) = (one for one in tasks if "trainwright.slurm.slurmctld_config" in one)
    variables = yaml.safe_load((ROLE / "vars" / "main" / "files.yml").read_text("utf-8"))
    mark = trust_as_template(variables["__slurmctld_state_mark"])
    result = {"__slurmctld_config": {"state_mark": "text"}}
    model = {"controllers": [{"host": host} for host in hosts], "state_dir": "/shared/slurmctld"}
    given = task["trainwright.slurm.slurmctld_config"]
    for done, seen in (({}, ""), (result, "text")):
        known = {"slurm_model": model, "__slurmctld_state_mark": mark, "omit": "nothing"}
        known["hostvars"] = {"ctl1": done, "ctl2": {}}
        templar = Templar(loader=DataLoader(), variables=known)
        assert templar.template(trust_as_template(given["state_mark"])) == seen
        directory = templar.template(trust_as_template(given["state_dir"]))
        assert directory == ("/shared/slurmctld" if len(hosts) == 2 else "nothing")
