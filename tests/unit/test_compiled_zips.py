# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Test nodes keep what Python compiles out of zip files: the same code runs, and only that of the same source."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from driver.image import PYTHON_FILES, recipe_for
from driver.machine_image import digest

NODE_PYTHON = Path(__file__).resolve().parents[2] / "molecule" / "driver" / "node_python"
PROGRAM = """
import site, sys
site.addsitedir({node_python!r})  # as Python's start does: by the .pth file
sys.modules["compiled_zips"].DIRECTORY = {directory!r}
sys.path.insert(0, {archive!r})
import sent
print(sent.VALUE)
"""


def imported(directory: Path, value: int) -> str:
    """What a module of a zip file says, in a new process."""
    archive = directory / f"{value}.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("sent.py", f"VALUE = {value}\n")
    program = PROGRAM.format(
        node_python=str(NODE_PYTHON), directory=str(directory / "kept"), archive=str(archive)
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_code_of_a_source_is_kept_and_that_of_another_is_not_taken_for_it(
    tmp_path: Path,
) -> None:
    assert imported(tmp_path, 1) == "1"
    (first,) = (tmp_path / "kept").iterdir()
    assert imported(tmp_path, 2) == "2"
    (second,) = set((tmp_path / "kept").iterdir()) - {first}
    # The kept code is the one that runs.
    second.replace(first)
    assert (imported(tmp_path, 1), imported(tmp_path, 2)) == ("2", "2")


@pytest.mark.parametrize("left", [b"", b"\xe3\x00\x00", b"no code"])
def test_half_a_file_is_compiled_again(tmp_path: Path, left: bytes) -> None:
    imported(tmp_path, 1)
    (kept,) = (tmp_path / "kept").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(left)
    assert imported(tmp_path, 1) == "1"
    assert kept.read_bytes() == whole and [*kept.parent.iterdir()] == [kept]


def test_it_compiles_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file, so no directory")
    assert imported(tmp_path, 1) == "1"


def test_both_images_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {Path(name).name for name in PYTHON_FILES} == {"compiled_zips.py", "compiled_zips.pth"}
    hooks = "\n".join(recipe_for("debian13").hooks)
    assert all(name in hooks for name in PYTHON_FILES)
    before = digest()
    monkeypatch.setitem(PYTHON_FILES, "usr/lib/python3/dist-packages/compiled_zips.py", "other")
    assert digest() != before
