# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Programs on hosts get all that they import, and an import that cannot work there is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.trainwright.slurm.plugins.lookup.node_library import closure, entries

ROOT = Path(__file__).resolve().parents[4]
PROGRAMS = sorted(
    path
    for path in ROOT.glob("roles/*/files/*")
    if path.is_file() and "node_tools" in path.read_text(encoding="utf-8")
)


def library(place: Path, **texts: str) -> Path:
    """Write a library; a__b is the module b of the package a."""
    for name, text in texts.items():
        path = place / "library" / f"{name.replace('__init', '/_init').replace('__', '/')}.py"
        path = path.with_name(path.name.replace("_init.py", "__init__.py"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return place / "library"


def program(place: Path, text: str) -> Path:
    path = place / "program"
    path.write_text(
        f'#!/bin/sh\n"exec" "/usr/bin/python3" "-IS" "$0" "$@"\n{text}\n', encoding="utf-8"
    )
    return path


def test_imports_are_followed_with_their_packages(tmp_path: Path) -> None:
    place = library(
        tmp_path,
        a__init="",
        a__one='"""From here\nimport nothing\n"""\nimport json\nfrom . import (\n    two,\n)\nfrom ..b.c import deep',
        a__two="def f():\n    from ..b import late\n",
        a__unused="",
        b__late="from .late import X",
        b__c__init='"""A package."""',
        b__c__deep="",
    )
    found = closure([program(tmp_path, "from node_tools.a import one")], place)
    assert found == [
        "a/__init__.py",
        "a/one.py",
        "a/two.py",
        "b/c/__init__.py",
        "b/c/deep.py",
        "b/late.py",
    ]
    assert closure([program(tmp_path, "from node_tools.b.late import X")], place) == ["b/late.py"]
    assert closure([program(tmp_path, "import node_tools.b.late")], place) == ["b/late.py"]
    assert closure([program(tmp_path, "import os")], place) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from node_tools.a import three", "does not have three"),
        ("from node_tools.c import one", "there is no module c"),
        ("from node_tools.a import up", "a/up.py: the import of ...a leads out of the library"),
        ("from node_tools.a import yaml_user", "a/yaml_user.py: imports yaml"),
        ("from node_tools.a import yaml_late", "a/yaml_late.py: imports yaml"),
        ("from node_tools.a import ansible_user", "imports ansible.module_utils.basic"),
        ("from . import one", "leads out of the library"),
        ("import (", "give the path of a Python program"),
    ],
)
def test_what_cannot_work_on_a_host_is_refused(tmp_path: Path, text: str, said: str) -> None:
    place = library(
        tmp_path,
        a__one="",
        a__up="from ...a import one",
        a__yaml_user="import yaml",
        a__yaml_late="def f():\n    import yaml\n",
        a__ansible_user="from ansible.module_utils.basic import AnsibleModule",
        a__optional="try:\n    import yaml\nexcept ImportError:\n    yaml = None",
    )
    assert closure([program(tmp_path, "from node_tools.a import optional")], place)
    with pytest.raises(AnsibleLookupError) as raised:
        closure([program(tmp_path, text)], place)
    assert said in str(raised.value) and " -> " in str(raised.value)


def test_entries_are_those_of_config_files(tmp_path: Path) -> None:
    path = str(program(tmp_path, "from node_tools.slurm.batch import script"))
    files = entries([path], "/opt/x", "files")
    names = [entry["path"] for entry in files]
    assert "/opt/x/node_tools/slurm/batch/script.py" in names
    assert all(set(entry) == {"path", "mode", "content"} for entry in files)
    directories = [entry["path"] for entry in entries([path], "/opt/x", "directories")]
    assert directories[:3] == ["/opt/x", "/opt/x/node_tools", "/opt/x/node_tools/slurm"]
    assert {str(Path(name).parent) for name in names} <= set(directories)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_each_program_loads_with_its_library_alone(tmp_path: Path, path: Path) -> None:
    for entry in entries([path], str(tmp_path), "files"):
        target = Path(entry["path"])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(entry["content"], encoding="utf-8")
    imports = [
        line.strip()
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip().startswith("from node_tools")
    ]
    code = "\n".join([f"import sys; sys.path.insert(0, {str(tmp_path)!r})", *imports])
    done = subprocess.run([sys.executable, "-IS", "-c", code], capture_output=True, text=True)
    assert imports and done.returncode == 0, done.stderr


def test_the_programs_of_the_roles_are_known() -> None:
    assert {"job-lint", "image-import", "pyxis-importer"} <= {path.name for path in PROGRAMS}
