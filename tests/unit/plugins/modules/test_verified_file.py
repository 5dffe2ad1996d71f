# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A file of the cache exists only if it was verified."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.modules import verified_file

CONTENT = b"the archive"
SUM = hashlib.sha256(CONTENT).hexdigest()
KEY = "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC"


class Cache:
    """A place that has the file, and the cache."""

    def __init__(self, directory: Path) -> None:
        self.place = directory / "place"
        self.place.mkdir()
        for name, content in (("file", CONTENT), ("file.sig", b"signature"), ("key", b"key")):
            (self.place / name).write_bytes(content)
        self.dest = directory / "cache" / "named"

    def url(self, name: str) -> str:
        return (self.place / name).as_uri()

    def run(self, check: bool = False, **given: t.Any) -> dict[str, t.Any]:
        options = {"url": self.url("file"), "dest": str(self.dest), "_ansible_check_mode": check}
        results: list[dict[str, t.Any]] = []

        def end(_self: object, **result: t.Any) -> t.NoReturn:
            results.append(result)
            raise SystemExit

        def fail(_self: object, msg: str, **result: t.Any) -> t.NoReturn:
            end(_self, failed=True, msg=msg, **result)

        with (
            patch_module_args({**options, **given}),
            pytest.MonkeyPatch.context() as patch,
            pytest.raises(SystemExit),
        ):
            patch.setattr(verified_file.AnsibleModule, "exit_json", end)
            patch.setattr(verified_file.AnsibleModule, "fail_json", fail)
            verified_file.main()
        return results[0]

    def signed(self) -> dict[str, str]:
        return {
            "signature_url": self.url("file.sig"),
            "key_url": self.url("key"),
            "fingerprint": KEY,
        }

    def left(self) -> list[str]:
        return sorted(path.name for path in self.dest.parent.glob("*") if path.suffix != ".lock")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fingerprints that were asked for, of signatures that are good."""
    asked: list[str] = []

    def verify(_path: str, _signature: str, _key: str, fingerprint: str) -> None:
        asked.append(fingerprint)

    monkeypatch.setattr(verified_file.signature, "verify", verify)
    return asked


def test_by_its_checksum(cache: Cache, verified: list[str]) -> None:
    result = cache.run(sha256=SUM.upper())
    assert result == {"changed": False, "sha256": SUM, "verified": ["checksum"]}
    assert cache.dest.read_bytes() == CONTENT and cache.left() == ["named"] and not verified
    (cache.place / "file").unlink()
    assert cache.run(sha256=SUM)["verified"] == ["checksum"], "it is not fetched again"


def test_by_its_signature_and_by_both(cache: Cache, verified: list[str]) -> None:
    assert cache.run(**cache.signed())["verified"] == ["signature"]
    assert cache.left() == ["named", "named.key", "named.sig"]
    cache.dest.unlink()
    assert cache.run(sha256=SUM, **cache.signed())["verified"] == ["checksum", "signature"]
    assert verified == [KEY, KEY]


def test_a_file_that_somebody_put_there_is_refused(cache: Cache) -> None:
    cache.dest.parent.mkdir()
    cache.dest.write_bytes(b"of somebody else")
    result = cache.run(sha256=SUM)
    assert result["failed"] and result["msg"].startswith(f"{cache.dest}: has the SHA-256")
    assert "somebody changed it or put it there" in result["msg"]
    assert cache.dest.read_bytes() == b"of somebody else", "it stays for a person to look at"


def test_a_signed_file_that_was_changed_is_refused(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verify(path: str, signed: str, key: str, _fingerprint: str) -> None:
        pair = Path(signed).read_bytes(), Path(key).read_bytes()
        if Path(path).read_bytes() != CONTENT or pair != (b"signature", b"key"):
            raise verified_file.signature.SignatureError("it does not have the content")

    monkeypatch.setattr(verified_file.signature, "verify", verify)
    assert cache.run(**cache.signed())["verified"] == ["signature"]
    for path in cache.place.iterdir():
        path.unlink()
    assert cache.run(**cache.signed())["verified"] == ["signature"], "without the network"
    for suffix in ("", ".sig", ".key"):
        changed = Path(f"{cache.dest}{suffix}")
        before = changed.read_bytes()
        changed.write_bytes(b"changed since")
        result = cache.run(**cache.signed())
        assert result["failed"] and result["msg"].startswith(f"{cache.dest}: it does not have")
        changed.write_bytes(before)


def test_a_signature_that_is_not_beside_an_old_file_is_fetched(
    cache: Cache, verified: list[str]
) -> None:
    cache.dest.parent.mkdir()
    cache.dest.write_bytes(CONTENT)
    (cache.place / "file").unlink()
    assert cache.run(**cache.signed())["verified"] == ["signature"] and verified == [KEY]
    assert cache.left() == ["named", "named.key", "named.sig"]


def test_another_checksum_leaves_nothing(cache: Cache) -> None:
    result = cache.run(sha256="0" * 64)
    assert result["failed"] and SUM in result["msg"] and cache.left() == []


def test_a_bad_signature_leaves_nothing(cache: Cache) -> None:
    """Of GnuPG itself: the key is none."""
    result = cache.run(**cache.signed())
    assert result["failed"] and "public key" in result["msg"] and cache.left() == []


@pytest.mark.parametrize("left_out", ["signature_url", "fingerprint"])
def test_neither_is_refused_before_anything_is_fetched(cache: Cache, left_out: str) -> None:
    given = {key: value for key, value in cache.signed().items() if key != left_out}
    result = cache.run(**given)
    assert "neither a checksum nor a signature" in result["msg"]
    assert not cache.dest.parent.exists()


def test_a_file_that_does_not_exist(cache: Cache) -> None:
    (cache.place / "file").unlink()
    result = cache.run(sha256=SUM)
    assert "No such file" in result["msg"] and "artifact_mirror" in result["msg"]
    assert cache.left() == []


def test_a_server_that_comes_back(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [OSError("connection refused"), OSError("timed out")]
    open_url = verified_file.open_url

    def unsteady(url: str, timeout: int) -> t.Any:
        if answers:
            raise answers.pop()
        return open_url(cache.url("file"), timeout=timeout)

    monkeypatch.setattr(verified_file, "open_url", unsteady)
    monkeypatch.setattr(verified_file.time, "sleep", lambda _seconds: None)
    assert cache.run(url="https://example.org/file", sha256=SUM)["verified"] == ["checksum"]


class Full(io.BytesIO):
    """A file on a full disk, whose error does not have a name."""

    fault = errno.ENOSPC

    def write(self, _data: t.Any) -> int:
        raise OSError(self.fault, os.strerror(self.fault))


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_cache_is_not_blamed_on_the_server(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    asked: list[str] = []
    open_url = verified_file.open_url

    def counted(url: str, timeout: int) -> t.Any:
        asked.append(url)
        return open_url(cache.url("file"), timeout=timeout)

    def full(path: str, mode: str = "r", **given: t.Any) -> t.Any:
        return Full() if mode == "wb" else open(path, mode, **given)

    monkeypatch.setattr(Full, "fault", fault)
    monkeypatch.setattr(verified_file, "open_url", counted)
    monkeypatch.setattr(verified_file, "open", full, raising=False)
    monkeypatch.setattr(verified_file.time, "sleep", lambda _seconds: None)
    result = cache.run(url="https://example.org/file", sha256=SUM)
    assert len(asked) == 1, "another attempt does not make room"
    assert result["msg"].startswith(f"{cache.dest.parent}: ") and "make room" in result["msg"]
    assert "artifact_cache" in result["msg"] and "example.org" not in result["msg"]
    assert os.strerror(fault) in result["msg"] and cache.left() == []


@pytest.mark.parametrize("step", ["makedirs", "mkdtemp", "lock"])
def test_a_cache_that_cannot_be_written_is_named(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def refused(*_given: t.Any, **_more: t.Any) -> t.NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if step == "lock":
        cache.dest.parent.mkdir()
        Path(f"{cache.dest}.lock").mkdir()
    else:
        place = verified_file.os if step == "makedirs" else verified_file.tempfile
        monkeypatch.setattr(place, step, refused)
    result = cache.run(sha256=SUM)
    assert result["failed"] and result["msg"].startswith(f"{cache.dest.parent}: ")
    assert "artifact_cache" in result["msg"]
    assert cache.left() == []


def test_check_mode_fetches_nothing(cache: Cache) -> None:
    assert cache.run(check=True, sha256=SUM)["changed"] is False
    assert not cache.dest.parent.exists()
