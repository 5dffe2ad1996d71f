# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The digest of the files that a service loads changes with each of them, and only with them."""

from __future__ import annotations

import os
import pathlib
import re
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import loaded


@pytest.fixture
def host(tmp_path: pathlib.Path) -> t.Callable[[], str]:
    """A host with a plugin directory and its own part of plugstack.conf; called, its digest."""
    plugins, own = tmp_path / "lib/slurm", tmp_path / "plugstack.conf"
    plugins.mkdir(parents=True)
    for path in (plugins / "auth_munge.so", plugins / "spank_site.so", tmp_path / "lib/libpmix.so"):
        path.write_text("library")
    (tmp_path / "spank_pyxis.so").symlink_to(tmp_path / "spank_pyxis-1.so")
    (tmp_path / "spank_pyxis-1.so").write_text("library")
    own.write_text(f"# {tmp_path}/not.so\nrequired {tmp_path}/spank_pyxis.so a=b\ninclude {own}\n")
    lines = [f"include {own}", "optional spank_site.so", "include relative.conf", "required"]
    patterns = ["*", "../libpmix.so*", f"{tmp_path}/none/*"]
    return lambda: loaded.digest(patterns, lines, str(plugins))


def test_it_changes_with_each_file(host: t.Callable[[], str], tmp_path: pathlib.Path) -> None:
    seen = [host()]
    assert re.fullmatch("[0-9a-f]{16}", seen[0]) and host() == seen[0]
    for name in ("lib/slurm/auth_munge.so", "lib/libpmix.so", "spank_pyxis-1.so", "plugstack.conf"):
        with (tmp_path / name).open("a") as handle:
            handle.write("#")
        seen.append(host())
    os.utime(tmp_path / "lib/slurm/auth_munge.so", ns=(5, 5))
    seen.append(host())
    (tmp_path / "spank_pyxis-1.so").unlink()
    seen.append(host())
    (tmp_path / "lib/slurm/mpi_pmix.so").write_text("")
    seen.append(host())
    assert len(set(seen)) == len(seen)
    (tmp_path / "not.so").write_text("")
    assert host() == seen[-1]


def test_plugins_are_those_of_the_files_that_plugstack_includes(tmp_path: pathlib.Path) -> None:
    own = tmp_path / "own.conf"
    own.write_text("required /opt/a.so x\n")
    found = loaded.named([f"include {tmp_path}/*.conf", "optional b.so"], "/lib/slurm")
    assert found == {str(own), "/opt/a.so", "/lib/slurm/b.so"}
    assert re.fullmatch("[0-9a-f]{16}", loaded.digest(["*.none"], [], ""))
