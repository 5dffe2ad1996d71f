# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The answers about images of Debian's docker-registry with TLS, htpasswd and tokens."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import registry
from ansible_collections.trainwright.slurm.plugins.module_utils.containers.image_errors import (
    ImageError,
)

from tests.unit.registry import PASSWORD, USER, RegistryServer, free_port, program

DIGEST = "sha256:" + "0" * 64
GOOD, WRONG = (
    f"machine localhost login {USER} password {PASSWORD}",
    f"machine localhost login {USER} password x",
)
COMMAND = "machine localhost login alice password $(cat @config@/secret)"


@pytest.fixture(scope="module", params=["basic", "bearer"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RegistryServer]:
    if not (program() and shutil.which("curl")):
        pytest.skip("neither docker-registry nor apt-get to fetch it with, or no curl")
    made = RegistryServer(tmp_path_factory.mktemp(request.param), request.param)
    made.push("team/train", "main")
    made.push("team/train", "v1")
    yield made
    made.close()


@pytest.fixture
def asked(server: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Ask for an image with a file of logins; the answer's kind and message."""
    for name in ("CURL_CA_BUNDLE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(server.authority.cert))

    def ask(image: str, line: str = "") -> tuple[str, str]:
        (tmp_path / ".credentials").write_text(line.replace("@config@", str(tmp_path)) + "\n")
        (tmp_path / "secret").write_text(PASSWORD)
        name = registry.parse(f"docker://{server.name}/{image}")
        found = registry.Registry(name, {"ENROOT_CONFIG_PATH": str(tmp_path)}).explain()
        assert found is None or PASSWORD not in str(found)
        return (found.kind, str(found)) if isinstance(found, ImageError) else ("", "")

    return ask


@pytest.mark.parametrize(
    ("line", "image", "kind", "words"),
    [
        ("", "team/train:main", "credentials", "wants a login, and {file} has none for localhost -> check the"),
        ("machine example.org login a password b", "team/train:main", "credentials", "none for localhost"),
        (WRONG, "team/train:main", "credentials", "localhost refuses the login alice of {file} (401) -> correct its"),
        (GOOD, "team/train:mian", "reference", "team/train: has no tag mian -> the nearest are: main"),
        (GOOD, "team/train:zzz9", "reference", "has no tag zzz9 -> there are: main, v1"),
        (GOOD, f"team/train@{DIGEST}", "reference", "has no tag sha256:0000"),
        (GOOD, "team/trian:main", "reference", "does not have this repository -> check registry and name"),
        (GOOD, "team/train:main", "", ""),
        (COMMAND, "team/train:main", "", ""),
        (COMMAND, "team/train:v2", "reference", "has no tag v2 -> the nearest are: v1"),
    ],
)  # fmt: skip
def test_login_tag_and_repository_are_told_apart(asked, tmp_path, line, image, kind, words) -> None:  # type: ignore[no-untyped-def]
    found, message = asked(image, line)
    assert found == kind, message
    assert words.format(file=tmp_path / ".credentials") in message


def test_a_registry_that_is_not_there_or_not_trusted(
    server: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    for port, words in ((server.port, "certificate"), (free_port(), "Could")):
        name = registry.parse(f"docker://localhost:{port}/team/train:main")
        found = registry.Registry(name, {"ENROOT_CONFIG_PATH": str(tmp_path)}).explain()
        assert found and found.kind == "network" and "cannot be reached (curl: (" in str(found)
        assert words in str(found)


def test_a_password_is_in_no_command_line(
    asked,  # type: ignore[no-untyped-def]
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, commands = subprocess.run, []

    def note(command: list[str], **more: object) -> object:
        commands.append(f"{command} {more.get('env')}")
        return run(command, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(registry.subprocess, "run", note)
    asked("team/train:nothing", GOOD)
    assert commands and not any(PASSWORD in command for command in commands)


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("docker://debian", ("", registry.HUB, "library/debian", "latest")),
        ("docker://debian:12", ("", registry.HUB, "library/debian", "12")),
        ("docker://team/train", ("", registry.HUB, "team/train", "latest")),
        ("docker://nvcr.io/nvidia/pytorch:1", ("", "nvcr.io", "nvidia/pytorch", "1")),
        ("docker://me@host#a/b:c", ("me", "host", "a/b", "c")),
        (f"docker://r.example.org:5000/a/b:c@{DIGEST}", ("", "r.example.org:5000", "a/b", DIGEST)),
    ],
)
def test_the_parts_of_a_reference(reference: str, parts: tuple[str, ...]) -> None:
    assert registry.parse(reference) == parts


def test_the_line_of_a_login() -> None:
    host = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
    assert registry.login_line(host).endswith("$(aws ecr get-login-password --region eu-west-1)")
    assert registry.login_line("nvcr.io") == "machine nvcr.io login USER password PASSWORD"
