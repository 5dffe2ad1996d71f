# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Exports on a tree of files: nfsd's own in the form that Linux 6.12 gives them."""

from __future__ import annotations

import os
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import nfs_exports

VERSIONS = "-3 +4 -4.0 -4.1 +4.2\n"
STATES = (
    "- 0x00000001ba5f7c65123456780000000a: {{ type: open, access: rw, deny: --, "
    'superblock: "{major:02x}:{minor:02x}:13", filename: "data/x" }}\n'
)


class Server:
    """A server that runs, on a directory of the test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[list[str]] = []
        self.exports = root / "exports.d" / "trainwright.exports"
        self.etab = root / "etab"
        self.kernel = root / "nfsd"
        (self.kernel / "clients" / "5").mkdir(parents=True)
        self.exports.parent.mkdir()
        (self.kernel / "threads").write_text("8\n")
        (self.kernel / "versions").write_text(VERSIONS)
        (self.kernel / "clients/5/info").write_text(
            'clientid: 0x5\naddress: "10.0.0.4:812"\nname: "Linux NFSv4.2 c1"\n'
        )
        (self.kernel / "clients/5/states").write_text("")

    def run(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        self.calls.append(argv)
        lines = nfs_exports.lines_of(self.exports.read_text())
        self.etab.write_text("".join(f"{path}\t10.0.0.4(rw)\n" for path in lines))
        return subprocess.CompletedProcess(argv, 0, "", "")

    def opened(self, path: Path) -> None:
        device = os.stat(path).st_dev
        text = STATES.format(major=os.major(device), minor=os.minor(device))
        (self.kernel / "clients/5/states").write_text(text)

    def apply(self, *exports: t.Any, threads: int = 8) -> nfs_exports.Plan:
        todo = nfs_exports.plan(exports, ["4.2"], threads)
        nfs_exports.apply(todo, exports)
        return todo


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server(tmp_path)
    monkeypatch.setattr(nfs_exports, "FILE", str(made.exports))
    monkeypatch.setattr(nfs_exports, "ETAB", str(made.etab))
    monkeypatch.setattr(nfs_exports, "KERNEL", str(made.kernel))
    others = (str(tmp_path / "exports"), str(made.exports.parent / "*.exports"))
    monkeypatch.setattr(nfs_exports, "OTHERS", others)
    monkeypatch.setattr(nfs_exports, "run", made.run)
    return made


def export(path: t.Any, *clients: str) -> dict[str, t.Any]:
    return {
        "path": str(path),
        "clients": list(clients or ["10.0.0.4"]),
        "options": ["rw", "root_squash"],
    }


def test_a_change_is_exported_once(server: Server) -> None:
    first = server.apply(export("/srv/a"), export("/srv/b", "10.0.0.4", "10.0.0.5"))
    assert first.actions == ["export /srv/a", "export /srv/b"]
    assert server.exports.read_text() == nfs_exports.HEADER + (
        "/srv/a -rw,root_squash 10.0.0.4\n/srv/b -rw,root_squash 10.0.0.4 10.0.0.5\n"
    )
    again = server.apply(export("/srv/a"), export("/srv/b", "10.0.0.4", "10.0.0.5"))
    assert not again.actions and not again.restart and len(server.calls) == 1


def test_a_run_that_died_before_exportfs_goes_on(server: Server) -> None:
    server.apply(export("/srv/a"))
    os.utime(server.etab, ns=(0, 0))
    assert server.apply(export("/srv/a")).actions == ["export again"]
    assert len(server.calls) == 2


def test_what_somebody_changed_by_hand_is_put_right(server: Server) -> None:
    """The rights of the file, and an export that exportfs -u has withdrawn."""
    server.apply(export("/srv/a"), export("/srv/b"))
    server.exports.chmod(0o666)
    todo = server.apply(export("/srv/a"), export("/srv/b"))
    assert todo.actions == [f"write {server.exports}"]
    assert server.exports.stat().st_mode & 0o777 == 0o644
    os.utime(server.exports, ns=(0, 0))
    assert not server.apply(export("/srv/a"), export("/srv/b")).actions
    server.etab.write_text("/srv/a\t10.0.0.4(rw)\n")
    assert server.apply(export("/srv/a"), export("/srv/b")).actions == ["export again"]
    assert "/srv/b" in server.etab.read_text()


def test_an_export_that_nobody_uses_is_withdrawn_and_named(server: Server) -> None:
    server.apply(export("/srv/a"), export(server.root))
    todo = server.apply(export("/srv/a"))
    assert todo.actions == [f"withdraw {server.root}"]
    assert f"{server.root} is not in nfs_server_exports any more and is not" in todo.warnings[0]
    assert str(server.root) not in server.exports.read_text()


def test_an_export_with_open_files_stays_until_they_are_closed(server: Server) -> None:
    server.apply(export("/srv/a"), export(server.root))
    server.opened(server.root)
    kept = server.apply(export("/srv/a"))
    assert not kept.actions and "since 10.0.0.4 has files open" in kept.warnings[0]
    assert f"{server.root} -rw,root_squash 10.0.0.4\n" in server.exports.read_text()
    (server.kernel / "clients/5/states").write_text("")
    assert server.apply(export("/srv/a")).actions == [f"withdraw {server.root}"]


@pytest.mark.parametrize("line", ["/srv/a *(rw,no_root_squash)\n", '"/srv/a/" \\\n c1(rw)\n'])
def test_a_line_of_somebody_else_is_refused_before_any_change(server: Server, line: str) -> None:
    (server.root / "exports").write_text(f"/srv/other c1(ro)\n{line}")
    with pytest.raises(nfs_exports.ExportsError, match="/srv/a in .*/exports. Nothing was changed"):
        server.apply(export("/srv/a"))
    assert not server.exports.exists()
    server.apply(export("/srv/b"))
    assert (server.root / "exports").read_text().endswith(line)


def test_threads_change_at_once_and_versions_ask_for_a_restart(server: Server) -> None:
    server.apply(export("/srv/a"))
    todo = server.apply(export("/srv/a"), threads=32)
    assert todo.actions == ["run 32 threads instead of 8"] and not todo.restart
    assert (server.kernel / "threads").read_text() == "32\n"
    (server.kernel / "versions").write_text("+3 +4 +4.0 +4.1 +4.2\n")
    assert nfs_exports.plan([export("/srv/a")], ["4.2"], 32).restart


def test_a_server_that_is_stopped_is_only_configured(server: Server) -> None:
    (server.kernel / "threads").write_text("0\n")
    todo = server.apply(export("/srv/a"), threads=32)
    assert todo.actions == ["export /srv/a"] and not server.calls and not todo.restart


def test_exports_that_the_server_did_not_take_are_an_error(server: Server) -> None:
    def refuse(argv: list[str]) -> subprocess.CompletedProcess[str]:
        server.etab.write_text("")
        return subprocess.CompletedProcess(argv, 0, "", "exportfs: /srv/a: no such file\n")

    nfs_exports.run = refuse  # the fixture puts it back
    with pytest.raises(nfs_exports.ExportsError, match=r"no such file; not exported: /srv/a"):
        server.apply(export("/srv/a"))


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        (VERSIONS, ["4.2"], []),
        (VERSIONS, ["4.1", "4.2"], ["4.1"]),
        ("+3 +4 +4.0 +4.1 +4.2", ["4.2"], ["3", "4.0", "4.1"]),
        ("+2 +3 +4 +4.1 +4.2", ["3", "4.0", "4.1", "4.2"], []),  # older kernels leave 4.0 out
    ],
)
def test_versions(text: str, wanted: list[str], found: list[str]) -> None:
    assert nfs_exports.other_versions(text, wanted) == found
