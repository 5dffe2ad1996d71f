# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pyxis' arguments in plugstack.conf, and for which Slurm a plugin was built."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import pyxis
from ansible_collections.trainwright.slurm.plugins.module_utils.node import spank

ROOT = Path(__file__).resolve().parents[5]


def found(version: str, **options: object) -> list[str]:
    return [f"{what}: {why}" for what, why, _remedy in pyxis.problems(version, options)]


def test_the_default_version_is_the_roles() -> None:
    defaults = yaml.safe_load((ROOT / "roles/pyxis/defaults/main.yml").read_text())
    assert defaults["pyxis_version"] == pyxis.VERSION
    assert not found(pyxis.VERSION, **pyxis.DEFAULTS)


def test_arguments_of_the_newest() -> None:
    assert pyxis.arguments("0.24.0", {}) == (
        "runtime_path=/run/pyxis execute_entrypoint=0"
        " container_scope=global sbatch_support=1 use_squashfuse=1"
        " importer=/usr/lib/trainwright/pyxis-importer"
    )


@pytest.mark.parametrize(
    ("version", "there", "missing"),
    [
        ("0.22.0", ["use_squashfuse=1", "importer="], []),
        ("0.21.0", ["importer="], ["use_squashfuse"]),
        ("0.20.0", ["container_scope=global", "sbatch_support=1"], ["importer", "use_squashfuse"]),
    ],
)
def test_defaults_are_those_that_the_version_has(
    version: str, there: list[str], missing: list[str]
) -> None:
    line = pyxis.arguments(version, {})
    assert all(word in line for word in there)
    assert not any(word in line for word in missing)


def test_options_of_a_person_go_before_ours_and_null_takes_one_out() -> None:
    line = pyxis.arguments("0.24.0", {"container_scope": "job", "importer": None})
    assert "container_scope=job" in line and "importer" not in line


@pytest.mark.parametrize(
    ("version", "options", "said"),
    [
        (
            "0.24.0",
            {"use_squashfs": True},
            "pyxis_options.use_squashfs: is not an argument of Pyxis",
        ),
        ("0.21.0", {"use_squashfuse": True}, "pyxis_options.use_squashfuse: came with Pyxis 0.22"),
        ("0.24.0", {"use_squashfuse": "yes"}, "pyxis_options.use_squashfuse: is 'yes'"),
        ("0.24.0", {"container_scope": "user"}, "pyxis_options.container_scope: is 'user'"),
        (
            "0.24.0",
            {"importer": "bin/x"},
            "pyxis_options.importer: 'bin/x' is not an absolute path",
        ),
        ("0.9.0", {}, "pyxis_version: is '0.9.0'"),
        ("latest", {}, "pyxis_version: is 'latest'"),
    ],
)
def test_mistakes_are_named(version: str, options: dict[str, object], said: str) -> None:
    assert found(version, **options)[0].startswith(said)


SOURCE = """
const char plugin_name[] = "pyxis";
const unsigned int other = 7;
const unsigned int plugin_version = %d;
"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not installed")
@pytest.mark.parametrize(
    ("number", "release"), [(0x160508, (22, 5)), (0x180B05, (24, 11)), (0x1A0505, (26, 5))]
)
def test_the_slurm_that_a_plugin_was_built_for(
    tmp_path: Path, number: int, release: tuple[int, int]
) -> None:
    source = tmp_path / "plugin.c"
    source.write_text(SOURCE % number)
    plugin = tmp_path / "plugin.so"
    subprocess.run(["gcc", "-shared", "-fpic", "-o", plugin, source], check=True)
    assert spank.built_for(str(plugin)) == release
    whole = plugin.read_bytes()
    for length in range(0, len(whole), 97):  # a copy that was cut off anywhere
        plugin.write_bytes(whole[:length])
        with contextlib.suppress(ValueError):
            assert spank.built_for(str(plugin)) == release


def test_what_is_no_plugin(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    with pytest.raises(FileNotFoundError):
        spank.built_for(str(path))
    path.write_text("no plugin")
    with pytest.raises(ValueError, match="no 64-bit ELF file"):
        spank.built_for(str(path))
    with pytest.raises(ValueError, match="no SPANK plugin"):
        spank.built_for(shutil.which("true") or "/bin/true")
