# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Role artifact brings files to the cache, whole, and believes none that is there by its name alone."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest
import yaml

from tests.unit.test_empty_inventory import play

RIGHT = b"the source"


def test_a_file_that_somebody_put_into_the_cache_is_replaced(tmp_path: Path) -> None:
    checksum = hashlib.sha256(RIGHT).hexdigest()
    source, cache = tmp_path / "source.tar.gz", tmp_path / "cache"
    source.write_bytes(RIGHT)
    cache.mkdir()
    kept = cache / f"{checksum[:12]}-source.tar.gz"
    kept.write_bytes(b"of somebody else")
    item = {"url": source.as_uri(), "cached": kept.name, "sha256": checksum, "source": "a test"}
    task = {
        "ansible.builtin.import_role": {
            "name": "trainwright.slurm.artifact",
            "tasks_from": "fetch",
        },
        "vars": {"artifact_files": [item], "artifact_cache": str(cache)},
    }
    host = {"ansible_connection": "local"}
    (tmp_path / "inventory").write_text(yaml.safe_dump({"all": {"hosts": {"ctl": host}}}))
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}])
    )
    code, said = play(tmp_path, str(tmp_path / "play.yml"))
    assert code == 0, said
    assert kept.read_bytes() == RIGHT
    # One that is right is not fetched again.
    source.unlink()
    code, said = play(tmp_path, str(tmp_path / "play.yml"))
    assert code == 0, said


def test_what_a_host_built_has_its_name_only_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, kept, programs = tmp_path / "built.deb", tmp_path / "kept.deb", tmp_path / "programs"
    built.write_bytes(RIGHT)
    programs.mkdir()
    # The run ends between the copy and its way to the disk.
    (programs / "sync").write_text("#!/bin/sh\necho 'sync: No space left on device' >&2\nexit 1\n")
    (programs / "sync").chmod(0o755)
    task = {
        "ansible.builtin.import_role": {"name": "trainwright.slurm.artifact", "tasks_from": "keep"},
        "vars": {"artifact_built": [{"src": str(built), "dest": str(kept)}]},
    }
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "inventory").write_text(yaml.safe_dump({"all": {"hosts": {"ctl": host}}}))
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}])
    )
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"{programs}:{path}")
    code, said = play(tmp_path, str(tmp_path / "play.yml"))
    assert code == 2, said
    assert "Give them their names" not in said
    assert f"{kept} could not be kept on the control node: " in said
    assert "sync: No space left on device -> correct that on the control node" in said
    assert not list(tmp_path.glob("*.part"))
    assert not kept.exists()
    monkeypatch.setenv("PATH", path)
    code, said = play(tmp_path, str(tmp_path / "play.yml"))
    assert code == 0, said
    assert kept.read_bytes() == RIGHT
    assert not list(tmp_path.glob("*.part"))
