"""Fingerprints of keys that GnuPG itself made, armored and binary, and files that are no keys."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import openpgp

Made = tuple[str, bytes, bytes]


@pytest.fixture(scope="module", params=["rsa2048", "ed25519"])
def made(request: pytest.FixtureRequest) -> Iterator[Made]:
    with tempfile.TemporaryDirectory() as home:
        gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--passphrase", ""]

        def run(*more: str) -> bytes:
            return subprocess.run(
                [*gpg, *more], check=True, capture_output=True, env=dict(os.environ)
            ).stdout

        run("--quick-gen-key", "packages@example.org", request.param, "sign", "never")
        listed = run("--with-colons", "--list-keys").decode()
        fingerprint = next(
            line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr")
        )
        yield fingerprint, run("--armor", "--export"), run("--export")


def test_an_armored_and_a_binary_key(made: Made) -> None:
    fingerprint, armored, binary = made
    assert openpgp.fingerprints(armored) == [fingerprint]
    assert openpgp.fingerprints(binary) == [fingerprint]
    assert openpgp.fingerprints(armored.replace(b"\n", b"\r\n")) == [fingerprint]


def test_two_keys_are_two(made: Made) -> None:
    fingerprint, armored, _binary = made
    assert openpgp.fingerprints(armored + armored) == [fingerprint, fingerprint]


@pytest.mark.parametrize(
    "data", [b"", b"<html>Not found</html>", b"\xff", b"\x99\xff", b"\xc6\xff\xff"]
)
def test_other_files(data: bytes) -> None:
    with pytest.raises(openpgp.KeyFileError):
        openpgp.fingerprints(data)


def test_a_damaged_key(made: Made) -> None:
    _fingerprint, armored, binary = made
    with pytest.raises(openpgp.KeyFileError):
        openpgp.fingerprints(binary[:40])
    with pytest.raises(openpgp.KeyFileError, match="damaged"):
        openpgp.fingerprints(armored.replace(b"a", b"!"))


def test_a_fingerprint_as_people_write_it() -> None:
    assert openpgp.plain("eb69 3b30\t35cd 5710") == "EB693B3035CD5710"


def test_a_secret_key_beside_the_public_one(made: Made) -> None:
    """A program that checks signatures would take it, and it would have no fingerprint here."""
    _fingerprint, _armored, binary = made
    with pytest.raises(openpgp.KeyFileError):
        openpgp.fingerprints(binary + b"\xc5\x01\x04")


@pytest.mark.parametrize("end", [b"----- \n", b"-----\nVersion: 1\n \n"])
def test_of_a_key_that_apt_would_find_and_we_do_not_nothing_is_written(
    made: Made, end: bytes
) -> None:
    """What is installed are the packets that have the fingerprint, not the file around them."""
    _fingerprint, armored, binary = made
    other = armored.replace(b"-----\n\n", end, 1)
    assert openpgp.binary(other + armored) in (binary, b"")
