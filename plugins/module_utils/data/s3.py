# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A bucket of S3 or of any store that speaks it, as a destination: both ends agree on a checksum of each object.

SHA-256 goes with each object, and CRC32 with each part of a large one, where SHA-256 takes longer than the network.
A store that answers with them has verified them; one that does not know these checksums gets MD5, and its ETag is
compared. An object of parts has the checksum of its parts' checksums, or by others' programs that of the whole.

Sources: S3 API reference (PutObject, UploadPart, CompleteMultipartUpload, HeadObject) and S3 user guide, "Checking
object integrity".
"""

from __future__ import annotations

import base64
import collections
import functools
import hashlib
import queue
import re
import threading
import typing as t
from concurrent.futures import Executor, Future
from contextlib import contextmanager

from ..aws.errors import BOTO_ERRORS, code_of, explain
from .journal import Sent
from .manifest import (
    BLOCK,
    ChangedError,
    DatasetError,
    Entry,
    There,
    combine,
    digest,
    entry_of,
    opened,
    read,
    read_into,
    sums,
)

MIB = 1 << 20
#: Files up to this go in one request; parts of larger ones have at least this many bytes.
PART = 16 * MIB
MOST_PARTS = 10_000
LONGEST_KEY = 1024  # bytes

# Operation -> permission, where they are named differently.
_PERMISSION = {
    "ListObjectsV2": "ListBucket", "HeadObject": "GetObject", "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject", "CompleteMultipartUpload": "PutObject", "ListParts": "ListMultipartUploadParts",
    "ListMultipartUploads": "ListBucketMultipartUploads",
}  # fmt: skip
# Errors of stores that refuse a request with checksums.
_UNKNOWN = {
    "NotImplemented",
    "InvalidArgument",
    "InvalidRequest",
    "XNotImplemented",
    "MissingContentMD5",
}
_DAMAGED = {
    "BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody",
    "InvalidPart", "InvalidPartOrder", "NoSuchUpload", "EntityTooSmall",
}  # fmt: skip
_MD5 = re.compile(r"[0-9a-f]{32}")
# A checksum that the store keeps -> its name in requests and answers.
_KEPT = {"SHA256": "ChecksumSHA256", "CRC32": "ChecksumCRC32"}


class DamagedError(Exception):
    """An object did not arrive as it was sent, or its upload is gone: it is sent again."""


def split(url: str) -> tuple[str, str]:
    """Bucket and prefix of a place in S3; the prefix is empty or ends with a slash.

    >>> split("s3://bucket/a/b"), split("s3://bucket")
    (('bucket', 'a/b/'), ('bucket', ''))

    Raises DatasetError.
    """
    match = re.fullmatch(r"s3://([^/]+)(?:/(.*))?", url)
    if not match:
        raise DatasetError(f"{url}: no place in S3 -> write s3://BUCKET/PREFIX")
    prefix = (match[2] or "").strip("/")
    return match[1], f"{prefix}/" if prefix else ""


def part_size(size: int) -> int:
    """Bytes of a part of a file: the same for each run, so that one can continue where another ended.

    >>> part_size(1 << 30) == PART, part_size(1 << 40) // MIB
    (True, 105)
    """
    return max(PART, -(-size // (MOST_PARTS * MIB)) * MIB)


class Bucket:
    """A bucket and a prefix in it.

    Attributes:
        checksums: SHA256 (CRC32 for parts), or MD5 for a store that does not know them.
        resumed: bytes of parts that an earlier run sent.
        read_back: objects that had to be read to compare them.
        may_be_missing: whether a bucket that is not there counts as an empty one.
    """

    def __init__(self, client: t.Any, url: str, jobs: int = 1, sender: t.Any = None) -> None:
        """Take a client of boto3; sender: one for what has its checksum, and needs no signature of its own."""
        self._client, self._sender = client, sender or client
        self.name, self.prefix = split(url)
        self.checksums = "SHA256"
        self.resumed, self.read_back = 0, 0
        self.may_be_missing = False
        self._own: set[str] = set()  # uploads that this run began
        self._fault: DatasetError | None = None  # the first of a part: it ends the run
        # Memory for the parts on their way and the next one, used again and again: fresh pages take time.
        self._memory: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        for _job in range(jobs + 1):
            self._memory.put(bytearray())
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return f"s3://{self.name}/{self.prefix}"

    # -- calls -----------------------------------------------------------------------------------------------------
    @contextmanager
    def _calling(self, operation: str) -> t.Iterator[None]:
        try:
            yield
        except BOTO_ERRORS as error:
            code = code_of(error)
            if code in _DAMAGED:
                raise DamagedError(code) from error
            raise self._problem(error, operation, code) from error

    def _problem(self, error: Exception, operation: str, code: str) -> DatasetError:
        action = _PERMISSION.get(operation, operation)
        if code in ("NoSuchBucket", "404"):
            what = "there is no such bucket for these credentials -> correct the name, or have it made (dataset_bucket)"
            return DatasetError(f"s3://{self.name}: {what}", f"s3:{action}", code)
        if code in ("301", "PermanentRedirect", "AuthorizationHeaderMalformed"):
            what = "the bucket is in another region -> give its region"
            return DatasetError(f"s3://{self.name}: {what}", f"s3:{action}", code)
        response = getattr(error, "response", {})
        if code == "403":  # a HEAD response lacks a body with details
            response["Error"]["Code"] = "AccessDenied"
        problem = explain(error, "s3", action)
        return DatasetError(f"s3://{self.name}: {problem}", problem.action, problem.code)

    def _call(self, operation: str, path: str = "", **params: t.Any) -> dict[str, t.Any]:
        method = re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower()
        if path:
            params["Key"] = self.prefix + path
        with self._calling(operation):
            client = self._sender if "Body" in params else self._client
            answer = getattr(client, method)(Bucket=self.name, **params)
        return t.cast("dict[str, t.Any]", answer)

    def _pages(self, operation: str, **params: t.Any) -> t.Iterator[dict[str, t.Any]]:
        method = {"ListObjectsV2": "list_objects_v2", "ListParts": "list_parts"}.get(
            operation, "list_multipart_uploads"
        )
        with self._calling(operation):
            yield from self._client.get_paginator(method).paginate(Bucket=self.name, **params)

    # -- what is there ---------------------------------------------------------------------------------------------
    def listing(self) -> dict[str, There]:
        """All objects below the prefix by the rest of their key. Raises DatasetError."""
        found = {}
        try:
            for page in self._pages("ListObjectsV2", Prefix=self.prefix):
                for one in page.get("Contents", ()):
                    if not one["Key"].endswith("/"):  # a directory, as FSx and consoles write them
                        tag = one.get("ETag", "").strip('"')
                        found[one["Key"][len(self.prefix) :]] = There(one["Size"], tag)
        except DatasetError as error:
            if error.code != "NoSuchBucket" or not self.may_be_missing:
                raise
        return found

    def refuse(self, files: t.Mapping[str, Entry]) -> None:
        """Raise DatasetError for what can never be sent."""
        for path, entry in files.items():
            if len((self.prefix + path).encode()) > LONGEST_KEY:
                raise DatasetError(
                    f"{path}: the key would be longer than S3's 1024 bytes -> a shorter name or prefix"
                )
            if entry.size > 5 << 40:
                raise DatasetError(
                    f"{path}: it is larger than S3's 5 TiB -> split it, or exclude it"
                )

    def same(self, path: str, local: str, entry: Entry, read_back: bool = False) -> Sent | None:
        """Compare an object with a file of its size; None: it is another.

        Args:
            read_back: read the object where its checksums do not decide. Without it, the result is None.
        Raises:
            ChangedError: the file is not as in `entry`.
            DatasetError: a call failed.
        """
        try:
            head = self._call("HeadObject", path, ChecksumMode="ENABLED")
        except DatasetError as error:
            if error.code != "404":
                raise
            return None  # removed since it was listed
        tag = head.get("ETag", "").strip('"')
        kind = next((one for one, name in _KEPT.items() if head.get(name)), "MD5")
        given, _dash, count = head.get(_KEPT.get(kind, ""), "").partition("-")
        wanted: bytes | None = base64.b64decode(given) if given else None
        text, _dash, parts = tag.partition("-")
        # Some stores leave the number out of the checksum.
        count = count or ("" if head.get("ChecksumType") == "FULL_OBJECT" else parts)
        if not given:
            wanted = bytes.fromhex(text) if _MD5.fullmatch(text) else None
        part = self._part_size(path, entry.size, int(count)) if count.isdigit() else 0
        if wanted is not None and (part or not count):
            found = sums(local, entry, kind.lower(), part)
            if found.combined == wanted and (not part or found.parts == int(count)):
                return Sent(entry, found.sha256, tag)
            if given and not part:
                return None
        # An ETag of an encrypted object is not an MD5; parts may have any size.
        return self._read(path, local, entry, tag) if read_back else None

    def _part_size(self, path: str, size: int, count: int) -> int:
        """Bytes of the first part of an object; 0 if the store does not return it."""
        first = int(self._call("HeadObject", path, PartNumber=1)["ContentLength"])
        if first == size and count > 1:  # the store passes over the number
            first = part_size(size)
        return first if first and -(-size // first) == count else 0

    def _read(self, path: str, local: str, entry: Entry, tag: str) -> Sent | None:
        with self._lock:
            self.read_back += 1
        theirs, own = hashlib.sha256(), sums(local, entry).sha256
        with self._calling("GetObject"):
            body = self._client.get_object(Bucket=self.name, Key=self.prefix + path)["Body"]
            for block in body.iter_chunks(BLOCK):
                theirs.update(block)
        return Sent(entry, own, tag) if theirs.hexdigest() == own else None

    # -- sending ---------------------------------------------------------------------------------------------------
    def send(
        self, path: str, local: str, entry: Entry, pool: Executor, sent: t.Callable[[int], None]
    ) -> Sent:
        """Send a file; `sent` hears of the bytes as they arrive.

        Raises:
            ChangedError: it changed meanwhile, or is gone.
            DamagedError: it did not arrive whole.
            DatasetError: a call failed, or the file cannot be read.
        """
        if self.in_parts(entry):
            return self._send_parts(path, local, entry, pool, sent)
        with opened(local, entry) as handle:
            body = read(handle, entry.size + 1)
            if len(body) != entry.size or entry_of(handle) != entry:
                raise ChangedError(local)
        sha256 = digest("sha256", body)
        answer = self._checked("PutObject", path, body, sha256, self.checksums)
        sent(len(body))
        return Sent(entry, sha256.hex(), answer["ETag"].strip('"'))

    def in_parts(self, entry: Entry) -> bool:
        """Tell whether a file is sent in parts, by all jobs together."""
        return entry.size > PART

    def _checked(
        self,
        operation: str,
        path: str,
        body: bytes | bytearray,
        own: bytes,
        kind: str,
        **params: t.Any,
    ) -> dict[str, t.Any]:
        """Send bytes with their checksum, and see that the store answers with the same. Returns its answer."""
        if kind in _KEPT:
            asked = base64.b64encode(own).decode()
            given = {_KEPT[kind]: asked, "ChecksumAlgorithm": kind}
            try:
                answer = self._call(operation, path, Body=body, **given, **params)
            except DatasetError as error:
                if error.code not in _UNKNOWN or params:
                    raise
                self.checksums = "MD5"
                return self._checked(operation, path, body, own, "MD5", **params)
            told = answer.get(_KEPT[kind])
            if told:
                if told != asked:
                    raise DamagedError(f"{told} instead of {asked}")
                return answer
            if not params:
                self.checksums = "MD5"
            md5 = digest("md5", body)
        else:
            md5 = digest("md5", body)
            asked = base64.b64encode(md5).decode()
            answer = self._call(operation, path, Body=body, ContentMD5=asked, **params)
        if answer["ETag"].strip('"') != md5.hex() and kind in _KEPT:
            # Nothing was verified by the store: send it with what every store verifies.
            return self._checked(operation, path, body, own, "MD5", **params)
        return answer

    def _send_parts(
        self, path: str, local: str, entry: Entry, pool: Executor, sent: t.Callable[[int], None]
    ) -> Sent:
        size = part_size(entry.size)
        upload, kind, known = self._upload(path)
        waiting: collections.deque[Future[tuple[dict[str, t.Any], bytes]]] = collections.deque()
        done: list[tuple[dict[str, t.Any], bytes]] = []
        number = 0
        try:
            with opened(local, entry) as handle:
                while block := self._next(handle, size):
                    number += 1
                    part = (path, upload, number, block, kind, known.get(number), sent)
                    waiting.append(pool.submit(self._send_part, *part))
                    waiting[-1].add_done_callback(functools.partial(self._give_back, block))
                    while waiting and waiting[0].done():
                        done.append(waiting.popleft().result())
                done += [one.result() for one in waiting]
                if entry_of(handle) != entry:
                    raise ChangedError(local)
        finally:
            for one in waiting:
                one.cancel()
        parts = {"Parts": [part for part, _digest in done]}
        answer = self._call("CompleteMultipartUpload", path, UploadId=upload, MultipartUpload=parts)
        own = combine(kind.lower(), (one for _part, one in done))
        tag = answer["ETag"].strip('"')
        told = answer.get(_KEPT[kind], "") if kind in _KEPT else tag
        text = base64.b64encode(own).decode() if kind in _KEPT else own.hex()
        # Each part was verified as it came; the store's checksum of the whole must match if it returns one.
        if (
            told
            and (kind in _KEPT or _MD5.fullmatch(told.partition("-")[0]))
            and told.partition("-")[0] != text
        ):
            raise DamagedError(f"{told} instead of {text}")
        return Sent(entry, own.hex() if kind == "SHA256" else "", tag)

    def _next(self, handle: t.IO[bytes], size: int) -> bytearray:
        """Read the next part of a file as soon as there is memory for it; empty at the end of the file.

        botocore would copy the bytes behind the headers of a request if they were of the type bytes.
        """
        block = self._memory.get()
        try:
            if len(block) != size:
                block = bytearray(size)
            del block[read_into(handle, block) :]
        except BaseException:
            self._memory.put(block)
            raise
        if not block:
            self._memory.put(block)
        return block

    def _give_back(self, block: bytearray, _done: object) -> None:
        self._memory.put(block)

    def _upload(self, path: str) -> tuple[str, str, dict[int, dict[str, t.Any]]]:
        """Find an upload that an earlier run began, or begin one. Returns its id, its checksum, its parts by number."""
        key = self.prefix + path
        begun = [
            one
            for page in self._pages("ListMultipartUploads", Prefix=key)
            for one in page.get("Uploads", ())
            if one["Key"] == key
        ]
        for one in sorted(begun, key=lambda one: one["Initiated"], reverse=True):
            pages = list(self._pages("ListParts", Key=key, UploadId=one["UploadId"]))
            parts = {part["PartNumber"]: part for page in pages for part in page.get("Parts", ())}
            kind = pages[0].get("ChecksumAlgorithm") or "MD5"
            for kept, name in _KEPT.items():
                if kind == "MD5" and any(name in part for part in parts.values()):
                    kind = kept
            # The checksum of the whole is another calculation than that of the parts' checksums.
            if kind in (*_KEPT, "MD5") and pages[0].get("ChecksumType") != "FULL_OBJECT":
                return one["UploadId"], kind, parts
        wanted = {"ChecksumAlgorithm": "CRC32"} if self.checksums != "MD5" else {}
        try:
            answer = self._call("CreateMultipartUpload", path, **wanted)
        except DatasetError as error:
            if error.code not in _UNKNOWN or not wanted:
                raise
            answer = self._call("CreateMultipartUpload", path)
        kind = "CRC32" if answer.get("ChecksumAlgorithm") == "CRC32" else "MD5"
        if kind == "MD5":
            self.checksums = kind
        self._own.add(answer["UploadId"])
        return answer["UploadId"], kind, {}

    def _send_part(
        self, path: str, upload: str, number: int, block: bytearray, kind: str, known: dict[str, t.Any] | None,
        sent: t.Callable[[int], None],
    ) -> tuple[dict[str, t.Any], bytes]:  # fmt: skip
        """Send a part unless it is there. Returns what completes the upload, and the part's own checksum."""
        # Whoever sends the file of the faulty part may be waiting for memory that the other files take.
        if self._fault is not None:
            raise self._fault
        own = digest(kind.lower(), block)
        text = base64.b64encode(own).decode() if kind in _KEPT else own.hex()
        key = _KEPT.get(kind, "ETag")
        part = {"PartNumber": number, "ETag": (known or {}).get("ETag", "")}
        if known and known["Size"] == len(block) and known.get(key, "").strip('"') == text:
            with self._lock:
                self.resumed += 0 if upload in self._own else len(block)
        else:
            try:
                answer = self._checked(
                    "UploadPart", path, block, own, kind, PartNumber=number, UploadId=upload
                )
            except DatasetError as error:
                self._fault = error
                raise
            part["ETag"] = answer["ETag"]
        if kind in _KEPT:
            part[key] = text
        sent(len(block))
        return part, own

    def remove(self, path: str) -> None:
        """Remove an object. Raises DatasetError."""
        self._call("DeleteObject", path)
