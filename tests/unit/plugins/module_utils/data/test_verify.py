# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Comparing a directory with a store or another directory; and how far a run says it is."""

from __future__ import annotations

import base64
import os
import time
import typing as t
import zlib
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.data import s3
from ansible_collections.trainwright.slurm.plugins.module_utils.data.directory import Directory
from ansible_collections.trainwright.slurm.plugins.module_utils.data.sync import Progress
from ansible_collections.trainwright.slurm.plugins.module_utils.data.verify import compare

from tests.fixtures.aws.s3 import Store, Thing

from .run import PART, bucket, make, many, sync


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Store]:
    monkeypatch.setattr(s3, "PART", PART)
    with Store() as made:
        yield made


def test_what_is_the_same_is_said_so(store: Store, tmp_path: Path) -> None:
    source = many(tmp_path / "set", 12, 1)
    sync(source, bucket(store))
    found = compare(str(source), bucket(store))
    assert found.same and (found.files, found.checked, found.read_back) == (13, 13, 0)
    assert found.missing == found.extra == [] and found.other == {}


def test_what_differs_is_named(store: Store, tmp_path: Path) -> None:
    source = make(
        tmp_path / "set",
        {name: b"1" for name in ("same", "longer", "content", "lost", "new", "a.tmp")},
    )
    sync(source, bucket(store))
    (source / "longer").write_bytes(b"22")
    (source / "content").write_bytes(b"2")
    del store.bucket["set/lost"], store.bucket["set/a.tmp"]
    store.bucket["set/extra"] = store.bucket["set/b.tmp"] = Thing(b"", "")
    hour = time.time() - 3600
    for path in source.iterdir():
        os.utime(path, (hour, hour) if path.name != "new" else None)
    found = compare(str(source), bucket(store), settle=60, exclude=["*.tmp"])
    assert found.missing == ["lost"] and found.extra == ["extra"] and found.recent == ["new"]
    assert found.other == {"longer": "1 bytes instead of 2", "content": "another content"}
    assert not found.same and found.checked == 2
    with_new = compare(str(source), bucket(store), exclude=["*.tmp"])
    assert with_new.recent == [] and with_new.checked == 3


def test_links_to_directories_elsewhere_are_named(store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"step-1/a": b"1", "link/b": b"2"})
    make(tmp_path / "set-2", {"c": b"3"})
    (source / "latest").symlink_to("step-1")
    (source / "link/run7").symlink_to(tmp_path / "set-2")
    (source / "scratch").symlink_to(tmp_path / "set-2")
    (source / "gone").symlink_to("nowhere")
    sync(source, bucket(store))
    found = compare(str(source), bucket(store), exclude=["scratch"])
    assert found.outside == ["link/run7"] and found.same and found.files == 2


def test_a_damaged_object_is_found_whatever_it_says(store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"plain": b"1", "large": os.urandom(PART + 9)})
    sync(source, bucket(store))
    for thing in store.bucket.values():
        thing.kind, thing.checksum, thing.etag = "", "", "unknown"
    assert compare(str(source), bucket(store)).same, "read, since nothing else is known"
    assert compare(str(source), bucket(store)).read_back == 2
    for thing in store.bucket.values():
        thing.data = b"X" + thing.data[1:]
    assert set(compare(str(source), bucket(store)).other) == {"plain", "large"}


def test_the_etag_of_an_encrypted_object_is_no_reason(store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"a": b"1"})
    store.bucket["set/a"] = Thing(b"1", "0" * 32)
    found = compare(str(source), bucket(store))
    assert found.same and found.read_back == 1


def test_a_checksum_of_the_whole_is_believed(store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"a": b"1"})
    wrong = base64.b64encode(bytes(32)).decode()
    store.bucket["set/a"] = Thing(b"2", "x", "sha256", wrong)
    found = compare(str(source), bucket(store))
    assert list(found.other) == ["a"] and not store.count["GetObject"]


def test_an_object_with_the_crc32_of_its_whole_is_compared_by_it(
    store: Store, tmp_path: Path
) -> None:
    """As the command of AWS leaves large files; its parts may have any size."""
    data = os.urandom(PART + 9)
    source = make(tmp_path / "set", {"a": data, "b": data})
    whole = base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()
    wrong = base64.b64encode(bytes(4)).decode()
    store.bucket["set/a"] = Thing(data, f"{'0' * 32}-3", "crc32", whole, whole=True)
    store.bucket["set/b"] = Thing(data[1:] + b"2", f"{'0' * 32}-3", "crc32", wrong, whole=True)
    found = compare(str(source), bucket(store))
    assert found.same is False and list(found.other) == ["b"] and not store.count["GetObject"]


def test_a_sample_is_drawn(store: Store, tmp_path: Path) -> None:
    source = many(tmp_path / "set", 30)
    sync(source, bucket(store))
    before = store.count["HeadObject"]
    assert compare(str(source), bucket(store), sample=5, seed=1).checked == 5
    assert store.count["HeadObject"] == before + 5
    assert compare(str(source), bucket(store), sample=0).checked == 0
    assert compare(str(source), bucket(store), sample=99).checked == 30


def test_two_directories(tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"a": b"1", "b": b"2"})
    there = make(tmp_path / "nfs", {"a": b"1", "b": b"3"})
    found = compare(str(source), Directory(str(there)))
    assert found.other == {"b": "another content"}
    assert compare(str(source), Directory(str(tmp_path / "none"))).missing == ["a", "b"]


def test_progress_says_how_far_how_fast_and_how_long() -> None:
    said: list[str] = []
    progress = Progress(said.append, 1000, 4_000_000)
    progress.add(250, 1_000_000)
    assert said == [], "not each file"
    assert progress.line(2) == "250 of 1,000 files, 1.0 MB of 4.0 MB, 500.0 kB/s, 6 s left"
    progress._told -= 2
    progress.add(1, 0)
    assert len(said) == 1 and said[0].startswith("251 of 1,000 files, ")
    assert Progress(said.append, 0, 0).line(0) == "0 of 0 files, 0 B of 0 B, 0 B/s"
