# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A detached signature, with keys of GnuPG that are made here."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import signature

AWS = "4E90 91BC BB97 A96B 26B1 5E59 A054 80B1 DD2D 3CCC"


class Key:
    """A key, its public part in a file, and what it signs."""

    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700)
        self.tool = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
        self.call("--quick-gen-key", f"{home.name}@example.org", "rsa2048", "sign", "never")
        self.public = home / "key.asc"
        self.call("--armor", "--output", str(self.public), "--export")
        listed = self.call("--with-colons", "--fingerprint")
        self.fingerprint = next(
            line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:")
        )

    def call(self, *argv: str) -> str:
        done = subprocess.run([*self.tool, *argv], check=True, capture_output=True, text=True)
        return done.stdout

    def sign(self, path: Path) -> Path:
        self.call("--yes", "--output", f"{path}.sig", "--detach-sign", str(path))
        return Path(f"{path}.sig")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Key, Key]]:
    directory = tmp_path_factory.mktemp("keys")
    made = Key(directory / "ours"), Key(directory / "theirs")
    yield made
    for key in made:
        subprocess.run(["gpgconf", "--homedir", key.tool[2], "--kill", "gpg-agent"], check=False)


def check(path: Path, signed: Path, key: Path, fingerprint: str) -> str:
    """The reason of a refusal; empty for a good signature."""
    try:
        signature.verify(str(path), str(signed), str(key), fingerprint)
    except signature.SignatureError as error:
        return str(error)
    return ""


def test_a_good_signature_of_the_key(keys: tuple[Key, Key], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("content")
    ours, theirs = keys
    signed = ours.sign(path)
    spaced = " ".join(ours.fingerprint[at : at + 4].lower() for at in range(0, 40, 4))
    assert check(path, signed, ours.public, spaced) == ""
    assert f"and not {theirs.fingerprint}" in check(path, signed, ours.public, theirs.fingerprint)
    path.write_text("other content")
    assert "does not have the content" in check(path, signed, ours.public, ours.fingerprint)


def test_a_signature_of_another_key_in_the_same_file(keys: tuple[Key, Key], tmp_path: Path) -> None:
    """Whoever can add a key to the file on the server signs nothing with it."""
    path, both = tmp_path / "file", tmp_path / "both.asc"
    path.write_text("content")
    ours, theirs = keys
    both.write_text(ours.public.read_text() + theirs.public.read_text())
    signed = theirs.sign(path)
    assert f"the key {theirs.fingerprint}" in check(path, signed, both, ours.fingerprint)
    assert "another key" in check(path, signed, ours.public, ours.fingerprint)


def test_what_is_no_signature_or_no_key(keys: tuple[Key, Key], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("content")
    ours, _theirs = keys
    page = tmp_path / "page"
    page.write_text("<html>not found</html>")
    assert "that GnuPG can read" in check(path, page, ours.public, ours.fingerprint)
    assert "does not take it as a public key" in check(path, page, page, ours.fingerprint)


@pytest.mark.parametrize("short", ["DD2D3CCC", "", "0xA05480B1DD2D3CCC", AWS + "0"])
def test_only_a_whole_fingerprint_is_taken(short: str) -> None:
    with pytest.raises(signature.SignatureError, match="fingerprint"):
        signature.plain(short)
    assert signature.plain(AWS) == AWS.replace(" ", "")


@pytest.mark.parametrize("word", ["EXPSIG", "EXPKEYSIG", "REVKEYSIG"])
def test_a_signature_that_was_good_once(word: str) -> None:
    """GnuPG prints VALIDSIG beside these, and may end with 0."""
    wanted = signature.plain(AWS)
    lines = f"[GNUPG:] {word} A05480B1DD2D3CCC x\n[GNUPG:] VALIDSIG {wanted} 2020-07-29 1 0 4 0 1 8 00 {wanted}\n"
    assert signature.judge(lines, wanted) == signature.FAULTS[word]
    assert signature.judge(lines.replace(word, "GOODSIG"), wanted) == ""
