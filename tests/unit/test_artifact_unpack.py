# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Role artifact unpacks an archive whole or not at all, also on a full disk."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.unit.test_empty_inventory import ROOT, play

FILES = {"./a.deb": b"a package", "Packages": b"its index", "sub/": b"", "sub/tool": b"a tool"}
#: GNU tar on a full disk: the names are there, what did not fit is missing, and it goes on until the end.
FULL = """#!/bin/sh
{tar} "$@" || exit
case " $* " in
  *" --extract "*)
    find {root} -name Packages -exec truncate --size 0 {{}} +
    echo "tar: Packages: Cannot write: No space left on device" >&2
    exit 2 ;;
esac
"""


WHOLE = {"a.deb": b"a package", "Packages": b"its index", "sub/tool": b"a tool"}
MARKED = {**WHOLE, ".trainwright-unpacked": b"slurm.tar\n"}
#: The index of each host's archive, and what is there when everything is unpacked.
KINDS = {"indexed": ("Packages", WHOLE), "marked": ("", MARKED)}


class Hosts:
    """Hosts that are directories of this machine, with an archive on their control node."""

    def __init__(self, root: Path, *names: str) -> None:
        self.root, self.names, self.archive = root, names, root / "slurm.tar"
        with tarfile.open(self.archive, "w") as packed:
            for name, data in FILES.items():
                member = tarfile.TarInfo(f"top/{name}")
                member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
                member.size, member.mode = len(data), 0o755 if name.endswith("/") else 0o600
                packed.addfile(member, io.BytesIO(data))
        hosts = {
            name: {
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
                "artifact_archive": str(self.archive),
                "artifact_directory": str(self.tree(name)),
                "artifact_index": KINDS[name.partition("_")[0]][0],
            }
            for name in names
        }
        (root / "inventory").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        role = {
            "name": "trainwright.slurm.artifact",
            "tasks_from": "unpack",
            "apply": {"tags": ["of_the_role"]},
        }
        task = {"ansible.builtin.include_role": role, "tags": ["of_the_role"]}
        one = {
            "hosts": "all",
            "gather_facts": False,
            "tasks": [{**task, "vars": {"artifact_strip": 1}}],
        }
        (root / "play.yml").write_text(yaml.safe_dump([one]))

    def tree(self, name: str) -> Path:
        return self.root / "hosts" / name / "packages" / "tree"

    def unpack(self, *more: str) -> tuple[int, str]:
        return play(self.root, str(self.root / "play.yml"), "--tags", "of_the_role", *more)

    def changed(self, *more: str) -> dict[str, bool]:
        """Unpack on all hosts; return where something changed."""
        code, said = self.unpack(*more)
        assert code == 0, said
        found = dict(re.findall(r"(\w+) : ok=\d+ changed=(\d+)", said))
        return {name: found[name] != "0" for name in self.names}

    def content(self, name: str) -> dict[str, bytes]:
        tree = self.tree(name)
        found = (path for path in tree.rglob("*") if path.is_file())
        return {path.relative_to(tree).as_posix(): path.read_bytes() for path in found}

    def is_whole(self, name: str) -> bool:
        """Whether everything is there, and nothing beside it."""
        beside = [*self.tree(name).parent.iterdir()]
        return self.content(name) == KINDS[name.partition("_")[0]][1] and beside == [
            self.tree(name)
        ]


def test_once_and_whole(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path, "indexed", "marked", "indexed_half", "marked_half", "indexed_before")
    for name in ("indexed_half", "marked_half", "indexed_before"):
        hosts.tree(name).mkdir(parents=True)
        (hosts.tree(name) / "older").write_bytes(b"x")
        # Of an earlier release, as a full disk leaves it.
        (hosts.tree(name) / "Packages").write_bytes(b"" if name == "indexed_half" else b"an index")
    interrupted = hosts.tree("marked_half").with_name("tree.marked_half.20260101000000000000.part")
    interrupted.mkdir()
    (interrupted / "rest").write_bytes(b"x")
    os.utime(interrupted, (0, 0))
    # Another run unpacks the same now.
    busy = hosts.tree("indexed_half").with_name("tree.indexed_half.20260101000000000000.part")
    busy.mkdir()
    # A new release does not copy the packages of a thousand hosts again.
    wanted = {name: name != "indexed_before" for name in hosts.names}

    before = os.umask(0o077)  # of hosts that were made safe
    try:
        assert hosts.changed("--check") == wanted
        assert not hosts.tree("indexed").parent.exists()
        assert (hosts.tree("marked_half") / "older").exists()
        assert hosts.changed() == wanted
    finally:
        os.umask(before)
    busy.rmdir()
    assert [name for name in hosts.names if not hosts.is_whole(name)] == ["indexed_before"]
    tree = hosts.tree("indexed")
    assert {path.stat().st_mode & 0o777 for path in (tree, tree / "sub")} == {0o755}
    assert (tree / "a.deb").stat().st_mode & 0o777 == 0o644
    # Neither unpacked again, nor transferred.
    hosts.archive.unlink()
    assert hosts.changed() == dict.fromkeys(hosts.names, False)


def test_a_full_disk_leaves_nothing_that_the_next_run_takes_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = Hosts(tmp_path, *KINDS)
    tools = tmp_path / "bin"
    tools.mkdir()
    script = FULL.format(tar=shutil.which("tar"), root=tmp_path / "hosts")
    for name in ("tar", "gtar"):
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    with monkeypatch.context() as full:
        full.setenv("PATH", f"{tools}:{os.environ['PATH']}")
        code, said = hosts.unpack()
    assert code == 2
    for name in KINDS:
        where = f"{name}: {hosts.archive} could not be unpacked into {hosts.tree(name)}: "
        assert where in said and not [*hosts.tree(name).parent.iterdir()], said
        reason = said.partition(where)[2].partition("-> make room there (df, df -i)")[0]
        assert "No space left on device" in reason and "Explain" not in reason
    assert hosts.changed() == dict.fromkeys(KINDS, True)
    assert all(hosts.is_whole(name) for name in KINDS)


def test_nothing_that_stays_is_unpacked_where_a_file_is_missing() -> None:
    """`creates` is believed where a full disk has left an empty file."""
    for path in [*ROOT.glob("roles/*/tasks/**/*.yml"), *ROOT.glob("playbooks/**/*.yml")]:
        for task in path.read_text(encoding="utf-8").split("- name: "):
            assert "unarchive:" not in task or "creates:" not in task, path
