# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation site builds without a warning, and its linter finds nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sanity.tree import BIN, ROOT, copy_to, environment, run


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return environment(tmp_path_factory.mktemp("home"), PATH=path)


@pytest.mark.soak("a minute of Sphinx; the linter checks the markup")
def test_the_site_builds(tmp_path: Path, env: dict[str, str]) -> None:
    run(ROOT / "docs" / "docsite" / "build", tmp_path, cwd=ROOT, env=env)
    pages = {page.name for page in (tmp_path / "html").glob("*.html")}
    modules = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")}
    assert {f"{name}_module.html" for name in modules} <= pages
    roles = {path.parents[1].name for path in ROOT.glob("roles/*/tasks/main.yml")}
    assert {f"{name}_role.html" for name in roles} <= pages
    assert (tmp_path / "html" / "docsite" / "start.html").is_file()


def test_the_linter_finds_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    """On a copy: in a clone, it would read .cache and .venv too."""
    clone = copy_to(tmp_path / "slurm")
    command = [BIN / "antsibull-docs", "lint-collection-docs", "--plugin-docs", "."]
    assert run(*command, cwd=clone, env=env).stdout == ""
