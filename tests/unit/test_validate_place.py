# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""place.py of role validate: a directory of this user alone, also where everybody may write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLACE = Path(__file__).resolve().parents[2] / "roles" / "validate" / "files" / "place.py"


def place(mount: Path) -> tuple[int, str]:
    """Return the exit code and the output."""
    given = {
        "VALIDATION_MOUNT": str(mount),
        "VALIDATION_PLACES": f"/nowhere:{mount}",
        "SLURM_JOB_ID": "7",
    }
    done = subprocess.run(
        [sys.executable, str(PLACE)],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_all_tasks_of_a_job_get_the_same_directory(tmp_path: Path) -> None:
    for _ in range(2):
        assert place(tmp_path) == (0, f"{tmp_path}/validation-7\n")
    assert (tmp_path / "validation-7").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("trap", ["link", "open", "foreign", "file"])
def test_what_somebody_else_has_put_there_is_not_used(tmp_path: Path, trap: str) -> None:
    """The number of the next job is known to everybody, and fio would write through a link."""
    target = tmp_path / "thesis"
    target.mkdir()
    path = tmp_path / "validation-7"
    if trap == "link":
        path.symlink_to(target)
    elif trap == "file":
        path.write_text("")
    else:
        path.mkdir()
        path.chmod(0o777 if trap == "open" else 0o755)
        os.chown(path, *((1234, 1234) if trap == "foreign" else (0, 0)))
    code, said = place(tmp_path)
    assert (
        code and str(path) in said and "/validation-7\n" not in said and not list(target.iterdir())
    )
