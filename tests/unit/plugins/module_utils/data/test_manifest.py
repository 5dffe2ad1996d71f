# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The contents of a directory, its recorded checksums, and the conclusions from both."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import zlib
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.data import manifest
from ansible_collections.trainwright.slurm.plugins.module_utils.data.journal import (
    Journal,
    Sent,
    look,
    place,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.data.manifest import (
    ChangedError,
    DatasetError,
    Entry,
    There,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.data.plan import plan

from .run import make

NOTE = Sent(Entry(3, 7), "ab" * 32, "etag")


def test_files_are_listed_and_what_is_none_is_named(tmp_path: Path) -> None:
    root = make(
        tmp_path / "set",
        {"a": b"1", "d/ü b": b"22", "d/half.trainwright-part": b"3", "x/c.tmp": b"4"},
    )
    (root / "link").symlink_to("a")
    (root / "lost").symlink_to("nowhere")
    (root / "elsewhere").symlink_to("d")
    (root / "empty").mkdir()
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(root / "socket"))
    found = manifest.scan(str(root), ["*.tmp", "cache/"])
    assert list(found.files) == ["a", "link", "d/ü b"]
    assert found.files["link"] == found.files["a"] == Entry(1, (root / "a").stat().st_mtime_ns)
    assert found.skipped == {
        "elsewhere": "a link to a directory",
        "lost": "a link that leads nowhere",
        "socket": "no regular file",
    }
    assert list(manifest.scan(str(root), ["d", "[!d]*"]).files) == []


def test_what_cannot_be_listed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no such directory on this host -> "):
        manifest.scan(str(tmp_path / "set"))
    (tmp_path / os.fsdecode(b"\xff")).touch()
    with pytest.raises(DatasetError, match="is not in UTF-8, which S3 wants -> "):
        manifest.scan(str(tmp_path))


@pytest.mark.parametrize("size", [0, 1, 2 * manifest.BLOCK, 2 * manifest.BLOCK + 5])
@pytest.mark.parametrize("part", [0, manifest.BLOCK, manifest.BLOCK + 3])
@pytest.mark.parametrize("kind", ["sha256", "crc32", "md5"])
def test_sums_are_those_of_the_parts(tmp_path: Path, size: int, part: int, kind: str) -> None:
    data = os.urandom(size)
    path = make(tmp_path, {"f": data}) / "f"
    entry = Entry(size, path.stat().st_mtime_ns)
    found = manifest.sums(str(path), entry, kind, part)
    parts = [data[at : at + part] for at in range(0, size, part)] if part else []

    def digest(content: bytes) -> bytes:
        if kind == "crc32":
            return zlib.crc32(content).to_bytes(4, "big")
        return hashlib.new(kind, content).digest()

    wanted = digest(b"".join(map(digest, parts)) if part else data)
    sha256 = wanted.hex() if kind == "sha256" else "" if part else hashlib.sha256(data).hexdigest()
    assert found == (sha256, wanted, len(parts))


def test_a_file_that_is_another_now_is_not_summed(tmp_path: Path) -> None:
    path = make(tmp_path, {"f": b"one"}) / "f"
    entry = Entry(3, path.stat().st_mtime_ns)
    for wrong in (Entry(4, entry.mtime_ns), Entry(3, 1)):
        with pytest.raises(ChangedError):
            manifest.sums(str(path), wrong)
    path.unlink()
    with pytest.raises(ChangedError):
        manifest.sums(str(path), entry)


def test_a_journal_has_a_place_for_each_source_and_destination() -> None:
    one = place("/data/set/", "s3://b/set")
    assert one.startswith("/data/.trainwright-sync/set-") and one == place(
        "/data/set", "s3://b/set/"
    )
    assert len({one, place("/data/set", "s3://b/other"), place("/x/set", "s3://b/set")}) == 3
    assert place("/data/set", "/nfs", "/var/lib/sync").startswith("/var/lib/sync/set-")


def test_a_journal_keeps_what_it_is_told(tmp_path: Path) -> None:
    path = str(tmp_path / "state" / "j")
    newer = NOTE._replace(there="newer")
    with Journal(path) as journal:
        assert journal.sent == {}
        journal.add("ü\n", NOTE)
        journal.add("b", NOTE)
        journal.add("b", newer)
        journal.add("c", NOTE)
        journal.forget("c")
        journal.forget("never")
        assert look(path)[0] == journal.sent, "each line is there at once"
    with Journal(path) as journal:
        assert journal.sent == {"ü\n": NOTE, "b": newer}


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_torn_end_costs_its_line_alone(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j"
    with Journal(str(path)) as journal:
        journal.add("a", NOTE)
        journal.add("b", NOTE)
    path.write_bytes(path.read_bytes()[:-cut])
    with Journal(str(path)) as journal:
        assert journal.sent == {"a": NOTE}
        journal.add("c", NOTE)
    assert look(str(path))[0] == {"a": NOTE, "c": NOTE}


@pytest.mark.parametrize(
    "line",
    [
        "null", "[1]", '[1,"a",1]', '[9,"a",1,2,"x","y"]', '{"a":1}', '[1,"a","x",2,"x","y"]', "\0",
    ],
)  # fmt: skip
def test_a_line_that_is_not_ours_is_passed_over(tmp_path: Path, line: str) -> None:
    path = tmp_path / "j"
    path.write_text(f"{line}\n")
    with Journal(str(path)) as journal:
        assert journal.sent == {}
        journal.add("b", NOTE)
    assert look(str(path))[0] == {"b": NOTE}


def test_a_journal_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(str(path)) as journal:
        for number in range(1100):
            journal.add("a", NOTE._replace(there=str(number)))
    with Journal(str(path)) as journal:
        assert journal.sent == {"a": NOTE._replace(there="1099")}
        journal.add("b", NOTE)
    assert len(path.read_bytes().splitlines()) == 2
    assert set(look(str(path))[0]) == {"a", "b"}


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "j")
    with Journal(path), pytest.raises(DatasetError, match="another task sends the same .* -> wait"):
        Journal(path).__enter__()
    with Journal(path):
        pass


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(
        DatasetError, match="state: .* -> .*, or name another directory in `state_dir`"
    ):
        Journal(str(tmp_path / "state" / "j")).__enter__()


def test_the_plan() -> None:
    entry = Entry(3, 7)
    files = {
        name: entry for name in ("new", "same", "touched", "grown", "lost", "elsewhere", "unknown")
    }
    there = {
        "same": There(3, "etag"), "touched": There(3, "etag"), "grown": There(2, "etag"), "elsewhere": There(3, "x"),
        "unknown": There(3, "etag"), "extra": There(1, "etag"),
    }  # fmt: skip
    sent = {name: NOTE for name in ("same", "grown", "lost", "elsewhere", "extra")}
    sent["touched"] = NOTE._replace(entry=Entry(3, 6))
    made = plan(files, there, sent)
    assert made.send == ["new", "grown", "lost"] and made.whole == ["same"]
    assert made.compare == ["touched", "elsewhere", "unknown"] and made.extra == ["extra"]


def test_the_journal_is_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(str(path)) as journal:
        journal.add("a", NOTE)
    assert json.loads(path.read_text()) == [1, "a", 3, 7, "ab" * 32, "etag"]
