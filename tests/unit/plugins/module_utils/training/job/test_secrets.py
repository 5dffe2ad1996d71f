# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the file with a job's secrets."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import secrets

HARD = 'a\'b "c" $HOME `id` \\ \n#d'


def test_the_shell_reads_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "1042"
    secrets.write(str(path), secrets.content({"TOKEN": HARD, "B": ""}))
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    script = 'set -a; source "$0"; set +a; exec printenv -0 TOKEN B'
    done = subprocess.run(
        ["bash", "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{HARD}\0\0"
    assert [one.name for one in path.parent.iterdir()] == ["1042"]


def test_it_is_written_again_for_another_value_or_mode(tmp_path: Path) -> None:
    path = tmp_path / "7"
    secrets.write(str(path), "A=1\n")
    assert not secrets.differs(str(path), "A=1\n") and secrets.differs(str(path), "A=2\n")
    path.chmod(0o644)
    assert secrets.differs(str(path), "A=1\n")
    secrets.write(str(path), "A=1\n")
    assert path.stat().st_mode & 0o777 == 0o600


def test_values_come_from_the_vault_or_from_files(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("two\n")
    wanted = [{"name": "A", "file": ""}, {"name": "B", "file": str(file)}]
    assert secrets.values(wanted, {"A": "one"}) == {"A": "one", "B": "two"}
    assert secrets.values(wanted, {"A": "one", "B": "three"})["B"] == "three"


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("", "has no value -> name a file with it .file:.$"),
        ("/nowhere/x", "No such file"),
        ("empty", "is empty"),
    ],
)
def test_a_missing_value_is_said_without_any_value(tmp_path: Path, file: str, said: str) -> None:
    (tmp_path / "empty").write_text("\n")
    path = str(tmp_path / file) if file == "empty" else file
    with pytest.raises(secrets.SecretError, match=said) as caught:
        secrets.values([{"name": "B", "file": ""}, {"name": "A", "file": path}], {"B": "hidden"})
    assert "hidden" not in str(caught.value)


def test_a_pipe_is_not_read_and_a_long_value_not_cut(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(secrets.SecretError, match="pipe: is not a regular file -> "):
        secrets.values([{"name": "A", "file": str(tmp_path / "pipe")}], {})
    (tmp_path / "long").write_text("x" * (2**20 + 1))
    with pytest.raises(secrets.SecretError, match="long has more than 1048576 characters -> "):
        secrets.values([{"name": "A", "file": str(tmp_path / "long")}], {})
    (tmp_path / "long").write_text("x" * 2**20)
    assert len(secrets.values([{"name": "A", "file": str(tmp_path / "long")}], {})["A"]) == 2**20


def test_files_of_jobs_that_are_gone(tmp_path: Path) -> None:
    long_ago = time.time() - 2 * secrets.GRACE
    for name in ("1", "2", "3_4", "5_1", "5_2", "notes"):
        (tmp_path / name).write_text("A=1\n")
        os.utime(tmp_path / name, (long_ago, long_ago))
    (tmp_path / "6").write_text("A=1\n")
    needed = {(2, None), (5, 1)}
    found = secrets.stale(str(tmp_path), lambda *job: job in needed)
    assert found == [str(tmp_path / "1"), str(tmp_path / "3_4"), str(tmp_path / "5_2")]
    assert secrets.stale(str(tmp_path / "none"), lambda *job: False) == []


def test_tasks_of_an_array() -> None:
    assert secrets.tasks("0-3%2") == [0, 1, 2, 3]
    assert secrets.tasks("1,3,10-20:5") == [1, 3, 10, 15, 20]
    with pytest.raises(secrets.SecretError, match="array: 'a-b'"):
        secrets.tasks("a-b")
