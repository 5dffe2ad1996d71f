# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node's part of a support bundle gives its files' content, and decides nothing else about the archive."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node.support import join

#: A member: its name, what else it says of itself, its content.
Member = tuple[str, dict, bytes]


def packed(members: Iterable[Member]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, facts, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in facts.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


GOOD = packed([("files/etc/slurm/slurm.conf", {}, b"KillWait=30\n")])


def joined(directory: Path, parts: dict[str, bytes]) -> tuple[dict, dict[str, tarfile.TarInfo]]:
    """The result and the members of an archive of these parts."""
    directory.chmod(0o755)
    paths = {}
    for host, content in parts.items():
        paths[host] = str(directory / f"{host}.tar.gz")
        Path(paths[host]).write_bytes(content)
    archive = directory / "all.tar.gz"
    result = join.join(paths, list(parts), str(archive))
    with tarfile.open(archive) as tar:
        members = {member.name: member for member in tar}
        index = tar.extractfile(tar.getmember("all/index.json"))
        assert index is not None and json.load(index)["damaged"] == result["damaged"]
    return result, members


@pytest.mark.parametrize(
    "member",
    [
        ("innocent", {"pax_headers": {"path": ".ssh/../../authorized_keys"}}, b"x"),
        ("innocent", {"pax_headers": {"path": "../../c1/slurm.conf"}}, b"x"),
        ("innocent", {"pax_headers": {"path": "a\nb"}}, b"x"),
        ("link", {"type": tarfile.SYMTYPE, "linkname": "/etc"}, b""),
        ("hard", {"type": tarfile.LNKTYPE, "linkname": "/etc/shadow"}, b""),
        ("device", {"type": tarfile.CHRTYPE}, b""),
        ("sparse", {"pax_headers": {"GNU.sparse.map": "0,1", "GNU.sparse.size": "1099511627776"}}, b"x"),
        ("a/" * 40 + "b", {}, b"x"),
    ],
    ids=["up", "other-host", "newline", "link", "hard-link", "device", "sparse", "deep"],
)  # fmt: skip
def test_odd_members_are_left_out(tmp_path: Path, member: Member) -> None:
    _result, members = joined(tmp_path, {"c1": packed([member, ("good", {}, b"x")])})
    assert set(members) == {"all/index.json", "all/c1/good"}


@pytest.mark.parametrize("name", [".ssh/authorized_keys", "/tmp/absolute"])
def test_a_node_names_no_path_outside_its_directory_and_no_mode_and_owner(
    tmp_path: Path, name: str
) -> None:
    facts = {"pax_headers": {"path": name}, "mode": 0o6755, "uid": 4711, "uname": "alice"}
    _result, members = joined(tmp_path, {"c1": packed([("innocent", facts, b"x")])})
    (written,) = [member for name, member in members.items() if name != "all/index.json"]
    assert written.name == f"all/c1/{name.lstrip('/')}" and "path" not in written.pax_headers
    assert (written.mode, written.uid, written.gid, written.uname) == (0o600, 0, 0, "")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no gzip",
        GOOD[: len(GOOD) // 2],
        gzip.compress(b"no tar" * 200),
        gzip.compress(gzip.decompress(GOOD)[:520]),
    ],
    ids=["empty", "text", "half", "no-tar", "half-tar"],
)
def test_a_damaged_part_is_named_and_the_archive_is_made(tmp_path: Path, content: bytes) -> None:
    result, members = joined(tmp_path, {"c1": content, "c2": GOOD})
    assert list(result["damaged"]) == ["c1"] and result["damaged"]["c1"]
    assert "all/c2/files/etc/slurm/slurm.conf" in members


def test_a_part_that_unpacks_to_more_than_it_may_ends_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(join, "MOST_MEMBERS", 50)
    bomb = packed([("first", {}, b"x"), ("zeros", {}, bytes(2 << 20))])
    many = packed([(f"m{number}", {}, b"") for number in range(100)])
    result, members = joined(tmp_path, {"bomb": bomb, "many": many, "good": GOOD})
    assert "larger" in result["damaged"]["bomb"] and "50 files" in result["damaged"]["many"]
    assert "all/bomb/first" in members and "all/bomb/zeros" not in members
    assert "all/good/files/etc/slurm/slurm.conf" in members
    assert os.stat(tmp_path / "all.tar.gz").st_mode & 0o777 == 0o600
