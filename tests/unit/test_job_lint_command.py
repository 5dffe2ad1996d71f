# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of job-lint, installed and run as it is on a login node."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.unit.images import library_of

ROOT = Path(__file__).resolve().parents[2]
JOBS = ROOT / "tests" / "fixtures" / "jobs"
ROLE = ROOT / "roles" / "slurm_login"


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """The command with what the role brings, and nothing else of the collection."""
    for name, content in library_of(ROLE / "files" / "job-lint").items():
        target = tmp_path / "lib" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
    text = (ROLE / "files" / "job-lint").read_text(encoding="utf-8")
    assert text.count('"/usr/lib/trainwright"') == 1 and text.count('"/usr/bin/python3"') == 1
    text = text.replace("/usr/lib/trainwright", str(tmp_path / "lib"))
    path = tmp_path / "job-lint"
    path.write_text(text.replace("/usr/bin/python3", sys.executable), encoding="utf-8")
    path.chmod(0o755)
    return path


def run(command: Path, *words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(command), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        **more,  # type: ignore[call-overload]
    )


def test_findings_and_exit_codes(command: Path) -> None:
    wrong = JOBS / "mistakes" / "rank-in-batch.sh"
    done = run(command, JOBS / "clean" / "mpi-srun-pmix.sh", wrong, cwd=str(JOBS / "site"))
    assert done.returncode == 1 and not done.stderr
    first, second = done.stdout.splitlines()
    assert first.endswith("mpi-srun-pmix.sh: nothing to complain about")
    assert re.fullmatch(rf"{wrong}: line 11: error: .+ -> .+ \[rank-in-batch\]", second)
    # Where the script is run, there is no train.py.
    assert "[program-missing]" in run(command, wrong).stdout
    warned = JOBS / "mistakes" / "no-memory.sh"
    assert run(command, warned).returncode == 0 and run(command, "--strict", warned).returncode == 1
    assert run(command, "--planned=2-0", JOBS / "clean" / "mpi-srun-pmix.sh").returncode == 1
    interface = JOBS / "mistakes" / "no-such-interface.sh"
    assert "they have eth1" in run(command, "--interfaces=eth1", interface).stdout
    found = json.loads(run(command, "--json", wrong).stdout)
    assert found[str(wrong)][0]["line"] == 11


def test_a_script_of_somebody_else_does_not_control_the_terminal(
    command: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.sh"
    title = "\x1b]0;OWNED\x07"
    wrong.write_text(
        f"#!/bin/bash\n#SBATCH --nodes={title}x\nexport RANK=$SLURM_PROCID # {title}\nsrun -n 2 a\n"
    )
    for words in ([], ["--all"], ["--translate"]):
        done = run(command, *words, wrong)
        assert "\x1b" not in done.stderr
        assert words == ["--translate"] or "--nodes=\\x1b]0;OWNED\\x07x: is not" in done.stdout
    assert "\x1b" not in run(command, f"--planned={title}", wrong).stderr


def test_errors_are_one_line(command: Path, tmp_path: Path) -> None:
    for words in (["none"], ["--planned=x", str(command)], ["--translate", str(tmp_path)]):
        done = run(command, *words, cwd=str(tmp_path))
        assert done.returncode == 2 and not done.stdout
        assert re.fullmatch(r"job-lint: .+ -> .+\n", done.stderr), done.stderr
    assert run(command).returncode == 2
    unclear = run(command, "--translate", JOBS / "mistakes" / "comment-after-backslash.sh")
    assert unclear.returncode == 2 and "correct the script" in unclear.stderr


def test_translation(command: Path) -> None:
    path = JOBS / "mistakes" / "obsolete-environment.sh"
    done = run(command, "--translate", path)
    assert done.returncode == 0 and "line 14: FI_PROVIDER=efa: " in done.stderr
    assert yaml.safe_load(done.stdout)["launcher"] == "torchrun"
    done = run(command, "--render", "-", input=path.read_text(encoding="utf-8"))
    assert done.stdout.startswith("#!/bin/bash\n# Job train, ") and "FI_PROVIDER" not in done.stdout


def test_common_warnings_share_a_line(command: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    path.write_text("#!/bin/bash\n#SBATCH -N1\nsrun ./a\n", encoding="utf-8")
    said = run(command, path).stdout.splitlines()
    assert (
        len(said) == 1
        and "also, as in many scripts: memory-missing (line 2), time-missing" in said[0]
    )
    assert len(run(command, "--all", path).stdout.splitlines()) == 2


def test_what_the_shell_refuses(command: Path) -> None:
    text = "#!/bin/bash\n#SBATCH -N1 -t 1 --mem=1G\nsrun ./a\nfi\n"
    done = run(command, "-", input=text)
    assert done.returncode == 1 and "line 4: error: syntax error" in done.stdout
    assert run(command, "--translate", "-", input=text).returncode == 2


def test_rules_are_listed(command: Path) -> None:
    assert "rank-in-batch            error" in run(command, "--rules").stdout


def test_it_runs_with_the_oldest_python_of_nodes(command: Path) -> None:
    found = sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9")) + [
        Path(place) / "python3.9"
        for place in os.environ["PATH"].split(os.pathsep)
        if "shims" not in place
    ]
    python = next((path for path in found if path.is_file()), None)
    if python is None:
        pytest.skip("there is no Python 3.9 here")
    text = command.read_text(encoding="utf-8").replace(sys.executable, str(python))
    command.write_text(text, encoding="utf-8")
    every = sorted((JOBS / "clean").glob("*.sh"))
    assert run(command, *every).returncode == 0
    for path in every[::6]:
        assert run(command, "--render", path).returncode == 0, path.name
