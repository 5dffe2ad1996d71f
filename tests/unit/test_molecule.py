# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The Molecule scenarios, as far as they need no container: complete, found by Molecule, and never green on nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
MOLECULE = ROOT / "molecule"
SCENARIOS = sorted(path.parent for path in MOLECULE.glob("*/molecule.yml"))
NO_SCENARIOS = {"driver", "playbooks"}


def ids(path: Path) -> str:
    # Not the name alone: an id that begins with a system is that of a test on its cluster.
    return f"molecule/{path.name}"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def run(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        argv,
        cwd=ROOT,
        env={**os.environ, "PATH": path, "ANSIBLE_NOCOLOR": "1", "NO_COLOR": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def imported(playbook: Path) -> list[Path]:
    """The playbooks that a converge.yml imports, in order, those of scenarios resolved."""
    found = []
    for play in read(playbook):
        if name := play.get("ansible.builtin.import_playbook"):
            path = (playbook.parent / name).resolve()
            found += imported(path) if path.name == "converge.yml" else [path]
    return found


def runs_on(scenario: Path) -> str:
    """The scenario whose containers this one uses: its own, or another's."""
    environment = (read(scenario / "molecule.yml").get("ansible") or {}).get("env") or {}
    return str(environment.get("TRAINWRIGHT_CLUSTER", scenario.name))


def test_every_directory_is_a_scenario() -> None:
    directories = {path.name for path in MOLECULE.iterdir() if path.is_dir()} - NO_SCENARIOS
    assert directories - {"__pycache__"} == {path.name for path in SCENARIOS}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=ids)
def test_scenario_converges_something_and_verifies_it(scenario: Path) -> None:
    first, second = imported(scenario / "converge.yml")[:2]
    assert (first.name, second.name) == ("create.yml", "require_hosts.yml")
    tests = {path.name: path for path in (scenario / "tests").glob("test_*.py")}
    assert f"test_{scenario.name}.py" in tests
    # A scenario may set up further roles; the tests of each are in a file that is named after the role.
    roles = {path.name for path in (MOLECULE.parent / "roles").iterdir()}
    assert {name.removeprefix("test_").removesuffix(".py") for name in tests} <= {
        *roles,
        scenario.name,
    }
    for path in tests.values():
        text = path.read_text(encoding="utf-8")
        assert re.search(r"^def test_\w+\(host: Host", text, re.M)
        assert len(text.splitlines()) <= 60, (
            "a scenario's own tests are short; more goes into tests/"
        )
    cluster = MOLECULE / runs_on(scenario) / "vars" / "cluster.yml"
    assert read(cluster)["cluster"]["os"] in ("debian12", "debian13")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=ids)
def test_scenario_uses_the_containers_of_one_cluster_throughout(scenario: Path) -> None:
    text = (scenario / "molecule.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"\.cluster/(\w+)/", text)) <= {runs_on(scenario)}
    shares = runs_on(scenario) != scenario.name
    assert bool(read(scenario / "molecule.yml").get("shared_state")) == shares
    # Molecule replaces lists, it does not merge them: a list without the inventory has none.
    assert text.count("--extra-vars") <= text.count("--inventory=")


def test_molecule_finds_every_scenario_and_accepts_its_settings(tmp_path: Path) -> None:
    listed = run("molecule", "list", "--format", "plain", ANSIBLE_HOME=str(tmp_path))
    assert listed.returncode == 0, listed.stderr
    assert "Found config file" in listed.stderr and ".config/molecule/config.yml" in listed.stderr
    for scenario in SCENARIOS:
        assert re.search(rf"\b{scenario.name}\b", listed.stdout), listed.stdout


@pytest.mark.parametrize(("inventory", "rc"), [("localhost,", 2), ("bare1,", 0)])
def test_converge_of_no_host_fails_and_says_what_to_do(inventory: str, rc: int) -> None:
    playbook = str(MOLECULE / "playbooks" / "require_hosts.yml")
    environment = {"MOLECULE_SCENARIO_NAME": "mariadb", "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    done = run("ansible-playbook", "-i", inventory, playbook, **environment)
    assert done.returncode == rc, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert ("No hosts to converge" in said) == bool(rc)
    assert ("`molecule create -s mariadb`" in said) == bool(rc)


def test_installed_molecule_is_not_shadowed_by_the_directory() -> None:
    code = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(MOLECULE)!r}]\n"
    code += "import molecule.config, driver.cluster; print(molecule.__file__)"
    done = run(sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).is_relative_to(MOLECULE)


def test_driver_is_run_by_its_path_from_anywhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(MOLECULE / "driver"), "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "add-compute" in done.stdout


def test_targets_that_run_tests_install_what_tests_need() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    rules = re.findall(r"^([a-z-]+):.*\n((?:\t.*\n?)+)", text, re.M)
    needing = [(name, body) for name, body in rules if "PYTEST" in body or "tests/" in body]
    assert {name for name, _ in needing} >= {"test", "unit", "lint", "soak", "bench"}
    assert [name for name, body in needing if "driver/bootstrap --dev" not in body] == []


def test_site_playbook_of_a_clone_is_that_of_the_collection() -> None:
    plays = read(ROOT / "site.yml")
    assert [play["ansible.builtin.import_playbook"] for play in plays] == ["playbooks/site.yml"]
    ignored = read(ROOT / "galaxy.yml")["build_ignore"]
    # A copy of site.yml in the archive would not find the collection's own files.
    assert {"site.yml", "molecule", ".*"} <= set(ignored)


def test_guide_names_every_scenario() -> None:
    text = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    assert [path.name for path in SCENARIOS if f"| `{path.name}` |" not in text] == []
