# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The linters, each as one test; their settings lie where their own command line finds them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent

LINTERS = {
    "ruff-check": ["ruff", "check", "--no-cache"],
    "yamllint": ["yamllint", "--strict", "."],
    "mypy": ["mypy", "plugins", "molecule/driver", "docs/generate.py"],
    "ansible-lint": ["ansible-lint", "--offline", "--strict", "--nocolor", "-q"],
}


@pytest.mark.parametrize("linter", LINTERS)
def test_nothing_to_complain_about(linter: str) -> None:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        LINTERS[linter],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(LINTERS[linter])}:\n{done.stdout}{done.stderr}"


def test_ansible_lint_runs_its_strictest_profile_and_skips_nothing() -> None:
    settings = yaml.safe_load((ROOT / ".ansible-lint").read_text(encoding="utf-8"))
    assert settings["profile"] == "production"
    assert not settings.get("skip_list") and not settings.get("warn_list")
    # Names that people have in their inventories outlive the role that defines them; nothing else is ignored.
    ignored = (ROOT / ".ansible-lint-ignore").read_text(encoding="utf-8").splitlines()
    assert [line for line in ignored if not line.startswith("#")] == [
        f"roles/{role}/defaults/main.yml var-naming[no-role-prefix] skip"
        for role in ("cluster", "slurm_packages")
    ]
