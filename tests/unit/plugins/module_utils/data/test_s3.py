# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Sending to a store over HTTP: checksums on both ends, what is whole stays, faults, and runs that are killed."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import signal
import threading
import time
import types
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.data import s3
from ansible_collections.trainwright.slurm.plugins.module_utils.data import sync as syncing
from ansible_collections.trainwright.slurm.plugins.module_utils.data.manifest import DatasetError
from moto.server import ThreadedMotoServer

from tests.fixtures.aws.s3 import Fault, Request, Store

from .run import PART, SOAK, bucket, client, content, make, many, start, sync


@pytest.fixture
def store() -> t.Iterator[Store]:
    with Store() as made:
        yield made


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "PART", PART)
    monkeypatch.setattr(syncing, "PAUSE", 0.01)
    # Only botocore's retries come at once; the delays that tests put into the store are real.
    at_once = types.SimpleNamespace(sleep=lambda _seconds: None)
    monkeypatch.setattr("botocore.endpoint.time", at_once)


def kept(store: Store) -> dict[str, bytes]:
    """The store's objects below the prefix."""
    return {
        key[len("set/") :]: one.data for key, one in store.bucket.items() if key.startswith("set/")
    }


def sha256(data: bytes) -> str:
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


def test_all_is_sent_with_its_checksum_and_nothing_twice(store: Store, tmp_path: Path) -> None:
    source = many(tmp_path / "set", 40, 2)
    made = sync(source, bucket(store))
    assert kept(store) == content(source)
    assert (len(made.sent), made.whole, made.verified, made.checksums) == (42, 0, 42, "SHA256")
    assert made.bytes_sent == made.size == sum(map(len, content(source).values()))
    kinds = {"crc32" if one.parts else "sha256": one.kind for one in store.bucket.values()}
    assert kinds == {"crc32": "crc32", "sha256": "sha256"}, "the store verified each"
    assert store.count["UploadPart"] == 6 and not store.uploads
    before = store.count.copy()
    again = sync(source, bucket(store))
    assert (again.sent, again.whole, again.bytes_sent, again.verified) == ([], 42, 0, 42)
    assert store.count - before == {"ListObjectsV2": 1}, "the journal knows the rest"
    assert not store.again


def test_without_the_journal_checksums_are_compared_and_nothing_is_sent(
    store: Store, tmp_path: Path
) -> None:
    source = many(tmp_path / "set", 10, 1)
    sync(source, bucket(store))
    before = store.count.copy()
    again = sync(source, bucket(store), tmp_path / "other")
    assert again.sent == [] and again.whole == 11
    assert set(store.count - before) == {"ListObjectsV2", "HeadObject"}
    assert sync(source, bucket(store), tmp_path / "other").whole == 11


def test_objects_of_others_are_recognised_by_their_etag(store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"one": b"1", "parts": os.urandom(12 << 20), "differs": b"x"})
    plain = client(store.url)
    plain.put_object(Bucket="bucket", Key="set/one", Body=b"1")
    plain.put_object(Bucket="bucket", Key="set/differs", Body=b"y")
    upload = plain.create_multipart_upload(Bucket="bucket", Key="set/parts")["UploadId"]
    data = (source / "parts").read_bytes()
    etags = [
        plain.upload_part(
            Bucket="bucket", Key="set/parts", UploadId=upload, PartNumber=n + 1, Body=block
        )["ETag"]
        for n, block in enumerate((data[: 7 << 20], data[7 << 20 :]))
    ]
    parts = [{"PartNumber": n + 1, "ETag": etag} for n, etag in enumerate(etags)]
    plain.complete_multipart_upload(
        Bucket="bucket", Key="set/parts", UploadId=upload, MultipartUpload={"Parts": parts}
    )
    made = sync(source, bucket(store))
    assert made.sent == ["differs"] and made.whole == 2
    assert store.bucket["set/differs"].data == b"x"


def test_what_changed_is_sent_and_what_was_touched_is_compared(
    store: Store, tmp_path: Path
) -> None:
    source = make(tmp_path / "set", {"a": b"1", "b": b"2", "c": b"3"})
    sync(source, bucket(store))
    (source / "a").write_bytes(b"9")
    os.utime(source / "b", ns=(1, 1))
    del store.bucket["set/c"]
    made = sync(source, bucket(store))
    assert made.sent == ["a", "c"] and made.whole == 1
    client(store.url).put_object(Bucket="bucket", Key="set/a", Body=b"8")
    assert sync(source, bucket(store)).sent == ["a"], "somebody changed it there"
    assert kept(store) == content(source)


def test_check_mode_says_the_same_and_does_nothing(store: Store, tmp_path: Path) -> None:
    source = many(tmp_path / "set", 5)
    store.bucket["set/gone"] = store.bucket["set/0/f00000"] = s3_thing(b"")
    foreseen = sync(source, bucket(store), check=True, delete=True)
    assert foreseen.removed == ["gone"] and not (tmp_path / "journal").exists()
    assert set(store.count) == {"ListObjectsV2"} or set(store.count) == {
        "ListObjectsV2",
        "HeadObject",
    }
    done = sync(source, bucket(store), delete=True, confirm=1)
    assert (foreseen.sent, foreseen.removed) == (done.sent, done.removed)


def s3_thing(data: bytes) -> t.Any:
    from tests.fixtures.aws.s3 import Thing

    return Thing(data, hashlib.md5(data).hexdigest())


def test_deletions_want_their_number(store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"a": b"1", "b": b"2", "keep.tmp": b""})
    sync(source, bucket(store))
    store.bucket["set/away.tmp"] = s3_thing(b"x")
    store.bucket["settings"] = s3_thing(b"another prefix")
    (source / "a").unlink()
    (source / "b").write_bytes(b"new")
    kept_extra = sync(source, bucket(store), exclude=["*.tmp"])
    assert kept_extra.extra == ["a"] and "set/a" in store.bucket
    (source / "c").write_bytes(b"3")
    with pytest.raises(
        DatasetError,
        match=r"1 files that .* lacks would be removed \(a, .*nothing was done.*confirm_delete: 1$",
    ):
        sync(source, bucket(store), delete=True, exclude=["*.tmp"])
    assert "set/c" not in store.bucket
    made = sync(source, bucket(store), delete=True, confirm=1, exclude=["*.tmp"])
    assert made.removed == ["a"] and made.extra == [] and made.sent == ["c"]
    assert sorted(store.bucket) == ["set/away.tmp", "set/b", "set/c", "set/keep.tmp", "settings"]


def test_names_of_all_kinds_and_many_pages(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fixtures.aws.s3.PAGE", 3)
    names = ["a b", "ü/é", "a&b<c>", "q?x=1", "per%20cent", "plus+", "~x", "new\nline", "#", "'\""]
    source = make(tmp_path / "set", {name: name.encode() for name in names})
    sync(source, bucket(store))
    assert kept(store) == content(source)
    assert sync(source, bucket(store)).whole == len(names)
    long = make(tmp_path / "long", {"/".join(["x" * 200] * 6): b""})
    with pytest.raises(DatasetError, match="longer than S3's 1024 bytes -> "):
        sync(long, bucket(store))


# -- stores that differ ------------------------------------------------------------------------------------------------
def test_a_store_that_knows_no_sha256_gets_md5(tmp_path: Path) -> None:
    source = many(tmp_path / "set", 10, 2)
    with Store(checksums=False) as store:
        made = sync(source, bucket(store))
        assert made.checksums == "MD5" and kept(store) == content(source)
        assert sync(source, bucket(store)).whole == 12
        assert sync(source, bucket(store), tmp_path / "other").whole == 12
        assert not store.again


def test_a_store_that_refuses_sha256_gets_md5(store: Store, tmp_path: Path) -> None:
    def refuse(request: Request) -> None:
        if any(name.startswith("x-amz-checksum") for name in request.headers):
            raise Fault("NotImplemented", 501)
        assert request.operation != "PutObject" or request.headers["content-md5"]

    for operation in ("PutObject", "CreateMultipartUpload"):
        store.on(operation, refuse)
    source = many(tmp_path / "set", 10, 1)
    made = sync(source, bucket(store))
    assert made.checksums == "MD5" and kept(store) == content(source)


def test_another_implementation_of_s3(tmp_path: Path) -> None:
    """moto; it keeps checksums and does not verify them."""
    source = many(tmp_path / "set", 25, 1)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        location = {"LocationConstraint": "eu-west-1"}
        client(url).create_bucket(Bucket="bucket", CreateBucketConfiguration=location)
        target = s3.Bucket(client(url), "s3://bucket/set", 4)
        assert len(sync(source, target).sent) == 26
        assert sync(source, s3.Bucket(client(url), "s3://bucket/set", 4)).whole == 26
        assert (
            sync(source, s3.Bucket(client(url), "s3://bucket/set", 4), tmp_path / "other").whole
            == 26
        )
    finally:
        server.stop()


# -- what goes wrong ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("what", ["PutObject", "UploadPart"])
def test_bytes_that_are_damaged_on_the_way_are_refused_and_sent_again(
    store: Store, tmp_path: Path, what: str
) -> None:
    def damage(request: Request) -> None:
        request.body = b"X" + request.body[1:]

    store.on(what, damage, times=1)
    source = make(tmp_path / "set", {"f": b"one" if what == "PutObject" else bytes(PART + 1)})
    made = sync(source, bucket(store))
    assert kept(store) == content(source) and made.sent == ["f"]


def test_bytes_that_never_arrive_whole_are_an_error(store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"a": b"1", "b": b"2"})
    store.fail("PutObject", "BadDigest", key="set/a")
    with pytest.raises(DatasetError, match=r"1 files .* 4 times each \(a\) -> "):
        sync(source, bucket(store))
    assert kept(store) == {"b": b"2"}, "the others are sent all the same"


@pytest.mark.parametrize(
    ("operation", "code", "status", "said"),
    [
        ("PutObject", "AccessDenied", 403, "the permission s3:PutObject is missing for"),
        ("ListObjectsV2", "AccessDenied", 403, "the permission s3:ListBucket is missing for"),
        ("HeadObject", "AccessDenied", 403, "the permission s3:GetObject is missing for"),
        ("ListMultipartUploads", "AccessDenied", 403, "the permission s3:ListBucketMultipartUploads is missing"),
        ("UploadPart", "AccessDenied", 403, "the permission s3:PutObject is missing for"),
        ("DeleteObject", "AccessDenied", 403, "the permission s3:DeleteObject is missing for"),
        ("ListObjectsV2", "NoSuchBucket", 404, "there is no such bucket"),
        ("PutObject", "ExpiredToken", 400, "the credentials have expired"),
        ("PutObject", "SignatureDoesNotMatch", 403, "does not accept the credentials"),
        ("PutObject", "SlowDown", 503, "SlowDown"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_permission_and_the_remedy(
    store: Store, tmp_path: Path, operation: str, code: str, status: int, said: str
) -> None:
    source = make(tmp_path / "set", {"a": b"1", "large": bytes(PART + 1)})
    store.bucket["set/a"] = store.bucket["set/away"] = s3_thing(b"2")
    store.fail(operation, code, status)
    with pytest.raises(DatasetError, match="^s3://bucket") as caught:
        sync(source, bucket(store), delete=True, confirm=1)
    assert said in str(caught.value)
    assert caught.value.action == f"s3:{s3._PERMISSION.get(operation, operation)}"


def test_wrong_places_are_refused(store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"a": b"1"})
    with pytest.raises(DatasetError, match="s3://nowhere: there is no such bucket .* -> "):
        sync(source, bucket(store, "s3://nowhere/set"))
    with pytest.raises(DatasetError, match="no place in S3 -> "):
        bucket(store, "s3:/bucket")


def test_an_answer_that_is_lost_costs_a_look(store: Store, tmp_path: Path) -> None:
    """The store keeps the object, the connection breaks, and botocore's own retry must not be the last word."""
    source = many(tmp_path / "set", 20)
    lost = threading.Event()

    def lose(request: Request) -> None:
        store._PutObject(request)
        lost.set()
        raise ConnectionResetError

    store.on("PutObject", lose, times=2, key="set/3/f00003")
    with pytest.raises(DatasetError):
        sync(source, bucket(store))
    assert lost.is_set()
    store.again.clear()
    made = sync(source, bucket(store))
    assert "3/f00003" not in made.sent and not store.again and kept(store) == content(source)


def test_a_file_that_changes_while_it_is_sent_is_sent_again(store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"large": os.urandom(3 * PART), "small": b"1"})

    def grow(_request: Request) -> None:
        with (source / "large").open("ab") as stream:
            stream.write(b"more")

    store.on("UploadPart", grow, times=1)
    made = sync(source, bucket(store, jobs=1), jobs=1)
    assert made.changed == ["large"] and kept(store) == content(source)
    assert made.verified == 2 and not store.uploads


def test_a_file_that_never_rests_is_an_error(store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"large": bytes(2 * PART), "small": b"1"})

    def write(_request: Request) -> None:
        with (source / "large").open("rb+") as stream:
            stream.write(os.urandom(8))

    store.on("UploadPart", write)
    with pytest.raises(
        DatasetError, match=r"changed while they were sent .*\(large\) -> let the source rest"
    ):
        sync(source, bucket(store))
    assert "set/large" not in store.bucket and "set/small" in store.bucket


def test_a_file_that_vanishes_is_said(store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"a": b"1", "b": b"2"})
    store.on("ListObjectsV2", lambda _request: (source / "a").unlink(), times=1)
    made = sync(source, bucket(store))
    assert made.gone == ["a"] and made.sent == ["b"] and made.verified == 1


# -- going on ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("checksums", [True, False])
def test_a_large_file_goes_on_with_the_part_that_is_missing(
    tmp_path: Path, checksums: bool
) -> None:
    source = make(tmp_path / "set", {"large": os.urandom(4 * PART + 10)})
    with Store(checksums=checksums) as store:
        seen = []

        def third(request: Request) -> None:
            seen.append(request.query["partNumber"])
            if len(seen) == 3:
                raise Fault("AccessDenied", 403)

        store.on("UploadPart", third)
        with pytest.raises(DatasetError, match="s3:PutObject"):
            sync(source, bucket(store, jobs=1), jobs=1)
        (upload,) = store.uploads.values()
        there = len(upload.parts)
        assert there >= 2
        made = sync(source, bucket(store))
        assert (
            made.bytes_resumed == there * PART and made.bytes_sent == made.size - made.bytes_resumed
        )
        assert kept(store) == content(source) and not store.again and not store.uploads


def test_an_error_of_one_large_file_ends_the_other_that_is_sent_beside_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path / "set", {"a": os.urandom(20 * PART), "b": os.urandom(2 * PART)})
    before: list[int] = []

    def refuse(_request: Request) -> None:
        before.append(store.count["UploadPart"])
        raise Fault("AccessDenied", 403)

    store.on("UploadPart", refuse, key="set/b")
    store.on("UploadPart", lambda _request: time.sleep(0.5), key="set/a")
    target = bucket(store, jobs=2)

    def starve(handle: t.IO[bytes], size: int) -> bytearray:
        if handle.name.endswith("b") and handle.tell():
            time.sleep(4)  # "a" takes the memory each time that a part gives it back
        return next_of(handle, size)

    next_of = target._next
    monkeypatch.setattr(target, "_next", starve)
    with pytest.raises(DatasetError, match="s3:PutObject"):
        sync(source, target, jobs=2)
    # Two parts of "a" may be on their way when "b" fails, and as many wait behind them.
    assert store.count["UploadPart"] - before[0] < 8 and not store.bucket
    store._rules.clear()
    made = sync(source, bucket(store))
    assert made.bytes_resumed > 0 and kept(store) == content(source) and not store.again


def test_large_files_share_the_memory_of_the_jobs(store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {name: os.urandom(6 * PART + 7) for name in "abc"})
    target = bucket(store, jobs=3)
    sync(source, target, jobs=3)
    assert kept(store) == content(source)
    blocks = [target._memory.get_nowait() for _job in range(4)]
    assert target._memory.empty() and sum(map(len, blocks)) <= 4 * PART


def test_parts_of_another_content_are_sent_over(store: Store, tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"large": os.urandom(3 * PART)})
    plain = client(store.url)
    begun = plain.create_multipart_upload(
        Bucket="bucket", Key="set/large", ChecksumAlgorithm="SHA256"
    )
    for number in (1, 2, 7):
        plain.upload_part(
            Bucket="bucket", Key="set/large", UploadId=begun["UploadId"], PartNumber=number, Body=bytes(PART),
            ChecksumSHA256=sha256(bytes(PART)),
        )  # fmt: skip
    sync(source, bucket(store))
    assert kept(store) == content(source) and not store.uploads


def test_runs_that_are_killed_lose_nothing_and_send_nothing_twice(
    store: Store, tmp_path: Path
) -> None:
    draw = random.Random(None if SOAK else 1)
    source = many(tmp_path / "set", 10_000 if SOAK else 300, 6 if SOAK else 3)
    journal, kills = tmp_path / "journal", 20 if SOAK else 6
    total = len(content(source))
    # Without pauses, a small set would be there before the kill.
    store.on("PutObject", lambda _request: time.sleep(0 if SOAK else 0.02))
    store.on("UploadPart", lambda _request: time.sleep(0.1))
    in_parts = kills // 5 + 1
    for number in range(kills):
        run = start(source, store.url, journal)
        if number < kills - in_parts:
            what, enough = "PutObject", total / (kills - in_parts) * draw.uniform(0.3, 0.9)
        else:
            what, enough = "UploadPart", draw.randint(1, 3)
        enough += store.count[what]
        while run.poll() is None and store.count[what] < enough:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.02))
        assert run.poll() is None, "it ended before it could be killed"
        os.kill(run.pid, signal.SIGKILL)
        run.communicate()
        store.quiet()  # what was on its way arrives, or does not
    run = start(source, store.url, journal)
    printed, _ = run.communicate(timeout=600)
    made = json.loads(printed)
    assert run.returncode == 0 and made["sent"] + made["whole"] == total
    assert kept(store) == content(source), "nothing is lost"
    assert not store.again, "nothing that was whole was sent again"
    assert not store.uploads and set(store.stored.values()) == {1}
    print(f"{kills} kills; the last run sent {made['sent']} of {total} files")
