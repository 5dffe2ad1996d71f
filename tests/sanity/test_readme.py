# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""README's "Use it on real servers", line by line as printed, by a person with an empty home directory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.sanity.tree import BIN, ROOT, copy_to, environment, run

PIP = "pip install --require-hashes -r requirements.lock"
# Installing takes minutes, and `make` installs from the same lock wherever this runs: so the new environment
# gets this one's programs instead. Every other line is run as it is.
INSTEAD_OF_PIP = f'ln -s {BIN}/ansible* "$VIRTUAL_ENV/bin"'
TIMEOUT = {"ANSIBLE_TIMEOUT": "3"}


def blocks() -> list[list[str]]:
    """The lines of each block of commands in that section of README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("\n## Use it on real servers\n")[1].split("\n## ")[0]
    found = re.findall(r"^```bash\n(.*?)^```$", section, re.M | re.S)
    return [block.splitlines() for block in found]


@dataclass
class Control:
    """A control node after the first block of commands."""

    home: Path
    clone: Path
    output: str

    def play(self, line: str, cwd: Path, check: bool = True) -> tuple[int, str]:
        """Type a line of the second block in a new shell with the environment active, as in README."""
        script = f". ~/slurm-venv/bin/activate\n{line}"
        env = environment(self.home, **TIMEOUT)
        done = run("bash", "-ec", script, cwd=cwd, env=env, check=check)
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    home = tmp_path_factory.mktemp("home")
    clone = copy_to(home / "slurm")
    lines = blocks()[0]
    assert lines.count(PIP) == 1, lines
    script = "\n".join(INSTEAD_OF_PIP if line == PIP else line for line in lines)
    done = run("bash", "-exc", script, cwd=clone, env=environment(home))
    yield Control(home, clone, done.stdout)


def test_the_collection_arrives(control: Control) -> None:
    version = re.search(r"^version: (\S+)$", (control.clone / "galaxy.yml").read_text(), re.M)
    assert version
    assert f"trainwright.slurm:{version[1]} was installed successfully" in control.output
    installed = control.home / ".ansible/collections/ansible_collections/trainwright/slurm"
    assert (installed / "playbooks/site.yml").is_file() and not installed.is_symlink()


@pytest.mark.parametrize("line", blocks()[1])
def test_the_playbooks_are_found_from_anywhere(control: Control, line: str) -> None:
    _, output = control.play(f"{line} --syntax-check", Path("/"))
    assert "playbook: " in output, output


def test_the_playbooks_are_found_in_the_clone(control: Control) -> None:
    _, output = control.play(f"{blocks()[1][0]} --syntax-check", control.clone)
    assert "playbook: " in output, output


def test_preflight_runs_up_to_the_hosts_that_do_not_answer(control: Control) -> None:
    """The sample's hosts are addresses for documentation, which answer nobody."""
    code, output = control.play(blocks()[1][0], control.home, check=False)
    assert code != 0 and "PLAY [Read the nodes and refuse bad input]" in output, output
    assert re.search(r"^fatal: \[ctl1\]: UNREACHABLE!", output, re.M), output


def test_the_settings_of_the_guide_end_a_run_with_the_hosts_in_trouble(control: Control) -> None:
    page = (ROOT / "docs" / "real_servers.md").read_text(encoding="utf-8")
    (settings,) = re.findall(r"^```ini\n(.*?)^```", page, re.M | re.S)
    file = control.home / ".ansible.cfg"
    file.write_text(settings, encoding="utf-8")
    try:
        _, output = control.play(blocks()[1][0], control.home, check=False)
    finally:
        file.unlink()
    summary = output.split("PLAY RECAP")[1]
    assert re.search(r"^ *ctl1: .* -> ", summary, re.M), output


def test_an_installed_collection_is_replaced_by_force(control: Control) -> None:
    """README: to update, repeat the build and the install with --force."""
    build, install = (
        next(line for line in blocks()[0] if f"collection {word}" in line)
        for word in ("build", "install")
    )
    control.play(f"{build} --force", control.clone)
    _, output = control.play(f"{install} --force", control.home)
    assert "was installed successfully" in output


def test_readme_sends_nobody_to_a_name_that_nobody_owns() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert not [page.name for page in pages if "github.com/trainwright" in page.read_text()]
