# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The collection as people get it: ansible-test sanity, built, installed, documented, parsed.

All of it works on a copy of this repository's files under .cache, because ansible-test wants a
collection to lie at ansible_collections/NAMESPACE/NAME, and because what is ignored is not shipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from driver.layout import Spec, hosts_of, inventory_text

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
CACHE = ROOT / ".cache" / "sanity"
COPY = CACHE / "ansible_collections" / "trainwright" / "slurm"
INSTALLED = CACHE / "installed"
# ansible-test keeps its environments in the home directory; ours keeps the user's own clean.
HOME = CACHE / "home"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

# The targets of tests that do not check everything: ruff and mypy already check the tests.
SANITY: dict[str, list[str]] = {
    "action-plugin-docs": [],
    "ansible-doc": [],
    "changelog": [],
    "compile": [],
    "empty-init": [],
    "ignores": [],
    "import": [],
    "line-endings": [],
    "no-assert": [],
    "no-get-exception": [],
    "no-illegal-filenames": [],
    "no-smart-quotes": [],
    "pep8": ["plugins/"],
    "pylint": ["plugins/"],
    "replace-urlopen": [],
    "runtime-metadata": [],
    "shebang": ["plugins/", "roles/", "molecule/", "docs/", "recipes/images/", ".ci/"],
    "symlinks": [],
    "use-argspec-type-path": [],
    "use-compat-six": [],
    "validate-modules": [],
    "yamllint": ["plugins/"],
}
# docs/testing.md explains why.
LEFT_OUT = {"pslint", "shellcheck"}


def run(*argv: str | Path, cwd: Path = COPY, check: bool = True, **env: str) -> str:
    """Run a program of the environment on the copy and return what it printed."""
    environment = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
        **env,
    }
    done = subprocess.run(
        [str(part) for part in argv],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    output = done.stdout + done.stderr
    assert not check or done.returncode == 0, f"{argv}: exit {done.returncode}:\n{output}"
    return done.stdout


@pytest.fixture(scope="module")
def copy() -> Path:
    """A copy of the files that git knows or would add, at the path that ansible-test wants."""
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.mkdir(parents=True)
    listed = run("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, COPY / name
        if name.startswith(".collections/") or not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    # ansible-test imports what modules take from other collections from beside the copy.
    beside = COPY.parents[1] / "amazon" / "aws"
    if not beside.is_dir():
        spec = importlib.util.find_spec("ansible_collections")
        assert spec and spec.submodule_search_locations
        places = [Path(place) / "amazon" / "aws" for place in spec.submodule_search_locations]
        shutil.copytree(next(place for place in places if place.is_dir()), beside)
    # Without a repository of its own, ansible-test asks the one around it, which ignores .cache.
    run("git", "init", "--quiet")
    return COPY


@pytest.fixture(scope="module")
def home() -> Path:
    """A home directory in which ansible-test finds how to get pip.

    It would download a script from a server of its own; this one takes pip from wherever this
    environment's pip gets its packages, so that a site's mirror is enough.
    """
    spec = importlib.util.find_spec("ansible_test")
    assert spec and spec.origin
    internal = Path(spec.origin).parent / "_internal" / "python_requirements.py"
    wanted = re.search(r"pip='([\d.]+)'", internal.read_text(encoding="utf-8"))
    assert wanted, f"{internal} no longer says which pip it wants"
    cache = HOME / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    script = (
        "import subprocess, sys\n"
        f"pip = [{sys.executable!r}, '-m', 'pip', '--python', sys.executable]\n"
        "quiet = ['-q', '--disable-pip-version-check']\n"
        f"subprocess.check_call([*pip, 'install', *quiet, 'pip=={wanted[1]}'])\n"
    )
    (cache / f"get_pip_{wanted[1].replace('.', '_')}.py").write_text(script, encoding="utf-8")
    # pip's own settings, such as an index of the site, stay in force.
    settings = Path.home() / ".config" / "pip"
    link = HOME / ".config" / "pip"
    if settings.is_dir() and not link.is_symlink():
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(settings)
    return HOME


@pytest.mark.parametrize(
    "test",
    [
        pytest.param(name, marks=pytest.mark.soak("two minutes; ruff and mypy find most of it"))
        if name == "pylint"
        else name
        for name in SANITY
    ],
)
def test_sanity(copy: Path, home: Path, test: str) -> None:
    pip_cache = str(Path.home() / ".cache" / "pip")
    targets = SANITY[test]
    command = ["ansible-test", "sanity", "--python", PYTHON, "--color", "no", "--test", test]
    run(*command, *targets, HOME=str(home), PIP_CACHE_DIR=pip_cache)


def test_every_sanity_test_is_run_or_left_out_on_purpose(copy: Path) -> None:
    listed = set(run("ansible-test", "sanity", "--list-tests", "--color", "no").split())
    assert listed == set(SANITY) | LEFT_OUT


@pytest.fixture(scope="module")
def installed(copy: Path) -> Path:
    """The collection built and installed, as from Galaxy; the path of collections."""
    shutil.rmtree(INSTALLED, ignore_errors=True)
    INSTALLED.mkdir(parents=True)
    run("ansible-galaxy", "collection", "build", "--output-path", INSTALLED)
    (archive,) = INSTALLED.glob("trainwright-slurm-*.tar.gz")
    # Dependencies are not fetched: the control node has them from the PyPI package ansible.
    run("ansible-galaxy", "collection", "install", archive, "--no-deps", "-p", INSTALLED)
    return INSTALLED


def names(kind: str) -> list[str]:
    """FQCNs of the plugins of a kind, from the files; a filter is documented in a .yml or .py."""
    found = {path.stem for path in (ROOT / "plugins" / kind).glob("[a-z]*.py")}
    if kind == "filter":
        found -= {"customise", "fabric", "hostlist"}  # files of several filters
        found |= {path.stem for path in (ROOT / "plugins" / kind).glob("*.yml")}
    return sorted(f"trainwright.slurm.{name}" for name in found)


def documented(kind: str, what: list[str], installed: Path) -> dict[str, dict]:  # type: ignore[type-arg]
    """The output of ansible-doc for plugins or roles, by name."""
    if not what:
        return {}
    collections = {"ANSIBLE_COLLECTIONS_PATH": str(installed)}
    return json.loads(run("ansible-doc", "-t", kind, "--json", *what, cwd=installed, **collections))


@pytest.mark.parametrize(
    ("kind", "directory"),
    [
        ("module", "modules"),
        ("inventory", "inventory"),
        ("callback", "callback"),
        ("filter", "filter"),
    ],
)
def test_every_plugin_is_documented(installed: Path, kind: str, directory: str) -> None:
    found = documented(kind, names(directory), installed)
    assert sorted(found) == names(directory)
    for name, plugin in found.items():
        assert plugin["doc"]["short_description"], name
        assert plugin["doc"].get("version_added"), name
        assert plugin["doc"].get("author"), name
        if kind != "callback":
            assert plugin["examples"], f"{name}: no EXAMPLES"
            assert plugin["return"], f"{name}: no RETURN"


def test_every_action_plugin_has_a_module_that_documents_it() -> None:
    assert set(names("action")) <= set(names("modules"))


def test_every_role_is_documented(installed: Path) -> None:
    roles = sorted(path.parents[1].name for path in ROOT.glob("roles/*/tasks/main.yml"))
    found = documented("role", [f"trainwright.slurm.{role}" for role in roles], installed)
    assert sorted(name.rpartition(".")[2] for name in found) == roles
    for name, role in found.items():
        assert role["entry_points"]["main"]["short_description"], name


def local_inventory(directory: Path) -> Path:
    """An inventory as the local cluster tool writes it, for hosts that do not exist."""
    spec = Spec(controllers=2)
    hosts = hosts_of(spec, "192.0.2.0/24")
    text = inventory_text(spec, hosts, "/dev/null", "/dev/null", "/tmp", "ssh-ed25519 AAAA")
    (directory / "hosts.yml").write_text(text, encoding="utf-8")
    (directory / "group_vars").symlink_to(ROOT / "inventories" / "local" / "group_vars")
    return directory


# That of AWS asks AWS; tests/unit/test_aws.py reads it with a server of its own.
INVENTORIES = sorted({path.name for path in (ROOT / "inventories").iterdir()} - {"aws", "local"})


def parse(installed: Path, source: Path, *playbooks: str) -> None:
    names = [f"trainwright.slurm.{name}" for name in playbooks]
    run(
        *("ansible-playbook", "--syntax-check", "-i", source, *names),
        cwd=installed,
        ANSIBLE_COLLECTIONS_PATH=str(installed),
        ANSIBLE_CALLBACKS_ENABLED="trainwright.slurm.run_summary",
    )


def test_every_playbook_parses(installed: Path, tmp_path: Path) -> None:
    playbooks = sorted(path.stem for path in ROOT.glob("playbooks/*.yml"))
    parse(installed, local_inventory(tmp_path), *playbooks)


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_every_inventory_parses(installed: Path, inventory: str) -> None:
    """With the largest playbook: none is parsed otherwise for another inventory."""
    parse(installed, ROOT / "inventories" / inventory, "site")
