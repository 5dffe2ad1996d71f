# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The contents of the collection's archive, and the report of Galaxy's importer about it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.sanity.tree import BIN, ROOT, copy_to, environment, run

TOP = {
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "FILES.json",
    "LICENSE",
    "MAINTAINERS",
    "MANIFEST.json",
    "README.md",
    "SECURITY.md",
    "bindep.txt",
    "changelogs",
    "docs",
    "inventories",
    "meta",
    "playbooks",
    "plugins",
    "recipes",
    "requirements.txt",
    "requirements.yml",
    "roles",
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection built from a fresh clone, with what people leave lying there."""
    directory = tmp_path_factory.mktemp("artifact")
    clone = copy_to(directory / "slurm")
    for name in (".venv/bin/python", ".cluster/local/key", "dist/old.tar.gz", "roles/x/.swp"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("", encoding="utf-8")
    command = [BIN / "ansible-galaxy", "collection", "build", "--output-path", directory]
    run(*command, cwd=clone, env=environment(directory))
    (found,) = directory.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def unpacked(archive: Path) -> Path:
    target = archive.parent / "unpacked"
    target.mkdir()
    run("tar", "-xzf", archive, cwd=target, env=environment(target.parent))
    return target


def test_only_what_users_need_is_at_the_top(unpacked: Path) -> None:
    assert {path.name for path in unpacked.iterdir()} == TOP


def test_nothing_hidden_built_or_of_developers_is_inside(unpacked: Path) -> None:
    names = [str(path.relative_to(unpacked)) for path in unpacked.rglob("*")]
    wrong = r"(^|/)(\.|__pycache__|tests?(/|$)|molecule(/|$))|\.(pyc|swp|tar\.gz|lock)$"
    assert not [name for name in names if re.search(wrong, name)]
    assert not {"docs/generate.py", "docs/docsite/conf.py", "docs/docsite/build"} & set(names)


def test_its_pages_link_to_what_is_inside(unpacked: Path) -> None:
    dead = []
    for page in unpacked.rglob("*.md"):
        prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", prose):
            if "://" not in target and not (page.parent / target).exists():
                dead.append(f"{page.relative_to(unpacked)}: {target}")
    assert not dead


def test_requirements_are_the_dependencies() -> None:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    wanted = yaml.safe_load((ROOT / "requirements.yml").read_text(encoding="utf-8"))["collections"]
    assert {one["name"]: one["version"] for one in wanted} == galaxy["dependencies"]


def test_the_changelog_is_written_from_its_data_and_has_this_version(tmp_path: Path) -> None:
    clone = copy_to(tmp_path / "slurm")
    version = yaml.safe_load((clone / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    page = (clone / "CHANGELOG.md").read_text(encoding="utf-8")
    data = yaml.safe_load((clone / "changelogs" / "changelog.yaml").read_text(encoding="utf-8"))
    assert version in data["releases"]
    env = environment(tmp_path, PATH=f"{BIN}:/usr/bin:/bin")
    run(BIN / "antsibull-changelog", "generate", cwd=clone, env=env)
    assert (clone / "CHANGELOG.md").read_text(encoding="utf-8") == page


def test_readme_names_the_archive_that_is_built(archive: Path) -> None:
    assert f" {archive.name}\n" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_execution_environment_names_files_that_are_there(unpacked: Path) -> None:
    text = (unpacked / "meta" / "execution-environment.yml").read_text(encoding="utf-8")
    for name in yaml.safe_load(text)["dependencies"].values():
        assert (unpacked / name).is_file(), name


def test_galaxys_importer_takes_it(archive: Path, tmp_path: Path) -> None:
    """Without amazon.aws, as on Galaxy; ansible-lint is left to tests/lint, which has a stricter profile."""
    settings = {
        "GALAXY_IMPORTER_RUN_ANSIBLE_LINT": "false",
        "GALAXY_IMPORTER_RUN_ANSIBLE_TEST": "false",
        "GALAXY_IMPORTER_REQUIRE_V1_OR_GREATER": "true",
        "ANSIBLE_COLLECTIONS_PATH": str(tmp_path),
        "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false",
        "PATH": f"{BIN}:/usr/bin:/bin",
    }
    env = environment(tmp_path, **settings)
    program = [BIN / "python", "-m", "galaxy_importer.main", "--print-result", archive]
    done = run(*program, cwd=tmp_path, env=env)
    assert "Importer processing completed successfully" in done.stdout, done.stdout[:4000]
    complaints = re.findall(r"^.*(?:WARNING|ERROR|unknown doc_fragment).*$", done.stdout, re.M)
    assert not complaints, complaints
    result, _ = json.JSONDecoder().raw_decode(done.stdout, done.stdout.index("\n{\n") + 1)
    documented = {
        one["content_name"] for one in result["docs_blob"]["contents"] if one["doc_strings"]
    }
    modules = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")}
    assert modules | {"aws"} <= documented
