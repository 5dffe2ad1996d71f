# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A file of somebody else is read soon or refused soon, and no message shows what is in it."""

from __future__ import annotations

import os
import signal
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleLookupError
from ansible_collections.trainwright.slurm.plugins.lookup import job_file
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import plain_yaml

MERGES = "a0: &m0 {x: 1}\n" + "".join(
    f"a{n}: &m{n}\n  <<: [{', '.join([f'*m{n - 1}'] * 30)}]\n" for n in range(1, 11)
)
LISTS = "a0: &m0 [1]\n" + "".join(
    f"a{n}: &m{n} [{', '.join([f'*m{n - 1}'] * 30)}]\n" for n in range(1, 11)
)
SHADOW = "root:$6$salt$hash:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n"


@pytest.fixture(autouse=True)
def _soon() -> t.Iterator[None]:
    """End a test that takes long, also within one call."""

    def end(_signal: int, _frame: object) -> None:
        raise AssertionError("takes more than 30 seconds")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(MERGES, "too many values", id="merges"),
        pytest.param("a: &a {x: 1}\nb:\n  <<: *a", "line 3: << merges mappings", id="merge"),
        pytest.param(LISTS, "too many values", id="lists"),
        pytest.param("[" * 5000, "too deep", id="deep"),
        pytest.param("- " * 5000, "too deep", id="deep block"),
        pytest.param("a: " + "1:" * 100_000 + "1", "line 1: a time or a long number", id="digits"),
        pytest.param("a: 1" + "0" * 5000, "a time or a long number", id="long number"),
        pytest.param("a:\n  b: 1:30", "line 2: a time or a long number", id="time"),
        pytest.param("a: x" + "x" * (256 << 10), "larger than 256 KiB", id="large"),
        pytest.param("a: b\0c", "control character '\\x00'", id="NUL"),
        pytest.param('a:\n  "b\\0c"', "line 2: it has the control character '\\x00'", id="escaped NUL"),
        pytest.param('a: "\\e[2J"', "control character '\\x1b'", id="escape"),
        pytest.param("a: b\x85c", "control character", id="C1"),
        pytest.param("a: \udcff", "not text in UTF-8", id="bytes"),
        pytest.param("a: !!bool maybe", "form of its tag", id="tag"),
        pytest.param("a: !vault x", "a tag of its own", id="own tag"),
        pytest.param("a: !!binary eA==", "line 1: a binary is not a plain value", id="binary"),
        pytest.param("a: 2026-01-01", "line 1: a timestamp is not a plain value", id="date"),
        pytest.param("a: [1\nb: secret", "line 2: ", id="syntax"),
        *(
            pytest.param(f"sweep: {{lr: [{one}]}}", "line 1: a number that YAML changes", id=one)
            for one in ("010", "0x10", "0b11", "1_000", "1.10", "-0", "+1", "1.0e-3", ".5", ".inf")
        ),
        *(
            pytest.param(f"a: [{one}]", "line 1: a text that YAML reads as true or false", id=one)
            for one in ("yes", "no", "on", "Off", "True")
        ),
        pytest.param("sweep:\n  yes: [1]", "line 2: a key that YAML reads as true", id="key yes"),
        pytest.param("a: 1\nb: 2\na: 3", "line 3: a key that is there already", id="twice"),
        pytest.param("a: {x: 1, 'x': 3}", "line 1: a key that is there already", id="twice, quoted"),
        pytest.param("? [a]\n: b", "unhashable", id="key"),
        pytest.param("a\n---\nb", "another document", id="two"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError) as raised:
        plain_yaml.read(str(path))
    assert said in str(raised.value) and "secret" not in str(raised.value)
    with pytest.raises(AnsibleLookupError, match="cannot be read as plain YAML: .* -> correct it"):
        job_file.read(str(path))


@pytest.mark.parametrize("text", ["[[]," * 65_000, "a: &a b\n" * 32_000, '"' + "\\t" * 130_000])
def test_a_large_file_is_refused_soon(text: str, tmp_path: Path) -> None:
    """As large as it may be, of what takes long for each character."""
    (tmp_path / "job.yml").write_text(text)
    with pytest.raises(ValueError):
        plain_yaml.read(str(tmp_path / "job.yml"))


@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_what_is_no_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = {"device": "/dev/zero", "directory": str(tmp_path)}.get(kind, str(tmp_path / "pipe"))
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises((OSError, ValueError), match="not a regular file|Is a directory"):
        plain_yaml.read(path)


def test_what_is_plain_is_read(tmp_path: Path) -> None:
    text = """
train_job: &job
  name: é
  time: "1:30"
  ports: '8080:80'
  script: "a\\tb\\n"
  exclusive: yes
  nodes: 16
  share: [1.5, -3, true, ~, "", 1e-5, !!str 5, "010", "yes", 1e-05]
train_defaults: {image: "a:b", from: *job}
"""
    path = tmp_path / "job.yml"
    path.write_text(text, encoding="utf-8", newline="\r\n")
    assert plain_yaml.read(str(path)) == yaml.safe_load(text)
    path.write_text("")
    assert plain_yaml.read(str(path)) is None


@pytest.mark.parametrize(
    "text", [SHADOW, "PASSWORD: hunter2\n", "[client]\npassword=hunter2\n", "a: 1\n b: hunter2\n"]
)
def test_no_message_shows_another_file(text: str, tmp_path: Path) -> None:
    """The path may come from a form on the web, and the control node reads it as root."""
    path = tmp_path / "job.yml"
    path.write_text(text)
    with pytest.raises(AnsibleLookupError) as raised:
        job_file.read(str(path))
    for secret in ("root", "$6$", "daemon", "hunter2", "PASSWORD", "client"):
        assert secret not in str(raised.value).removeprefix(str(path))


def test_a_foreign_key_is_answered_with_those_that_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "job.yml"
    path.write_text("colour: red\n")
    with pytest.raises(AnsibleLookupError, match="a top-level key cannot come .*train_together"):
        job_file.read(str(path))
