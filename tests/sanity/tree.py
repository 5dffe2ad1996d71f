# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A fresh clone of this repository as it is now: what git knows or would add."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def copy_to(target: Path) -> Path:
    """Copy the files, symbolic links as such, and return the directory."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source = ROOT / name
        if source.is_symlink() or source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    return target


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a person who has just logged in: nothing of Ansible, a home of its own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANSIBLE_", "MOLECULE_", "VIRTUAL_ENV", "PYTHON"))
    }
    path = os.pathsep.join(
        part for part in os.environ["PATH"].split(os.pathsep) if Path(part) != BIN
    )
    return {**kept, "HOME": str(home), "PATH": path, "ANSIBLE_NOCOLOR": "1", **more}


def run(
    *argv: str | Path, cwd: Path, env: dict[str, str], check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program, with its output as one text."""
    done = subprocess.run(
        [str(part) for part in argv],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, f"{argv}: exit {done.returncode}:\n{done.stdout}"
    return done
