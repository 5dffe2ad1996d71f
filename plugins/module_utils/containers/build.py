# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Builds an image from a directory and pushes it to a registry under a tag that does not move.

The image has a label with the digest of its directory and arguments, so that it is known again in the registry: what is
there is not built again, and a tag of another image is refused. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import typing as t

from . import registry
from .enroot import network_environment, program
from .image_errors import ImageError
from .sources import Say, stream

LABEL = "trainwright.source"
ENGINES = ("podman", "docker")
_REFERENCE = re.compile(r"(?:docker://)?([^/@\s#]+)[/#]([a-z0-9._/-]+):([\w][\w.-]{0,127})")


class Built(t.NamedTuple):
    """An image in its registry. reference: with its digest, as enroot_image takes it."""

    changed: bool
    digest: str
    reference: str
    source: str


def source_digest(context: str, file: str, arguments: t.Mapping[str, str]) -> str:
    """Return the digest of all that decides what is built: files, their modes and names, and the arguments.

    Raises ImageError: reference, for a file that is not there or is neither a file, a directory nor a link.
    """
    found = hashlib.sha256()

    def add(*parts: object) -> None:
        for part in parts:
            text = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape")
            found.update(f"{len(text)}:".encode() + text)

    add(file, *(text for pair in sorted(arguments.items()) for text in pair))
    if not os.path.isfile(os.path.join(context, file)):
        raise ImageError(
            "reference", f"{context}: does not have {file} -> name a directory with a Containerfile"
        )
    for place, directories, files in os.walk(context):
        directories.sort()
        for name in sorted((*files, *directories)):
            path = os.path.join(place, name)
            seen = os.lstat(path)
            add(os.path.relpath(path, context), stat.S_IFMT(seen.st_mode), seen.st_mode & 0o111)
            if stat.S_ISLNK(seen.st_mode):
                add(os.readlink(path))
            elif stat.S_ISREG(seen.st_mode):
                with open(path, "rb") as content:
                    add(hashlib.sha256(content.read()).digest())
            elif not stat.S_ISDIR(seen.st_mode):
                raise ImageError("reference", f"{path}: is not a regular file -> remove it")
    return f"sha256:{found.hexdigest()}"


def _engine(wanted: str) -> str:
    if wanted:
        return program(wanted)
    found = next((path for name in ENGINES if (path := shutil.which(name))), "")
    return found or program(ENGINES[0])


def build(
    context: str,
    reference: str,
    *,
    settings: t.Mapping[str, str],
    say: Say,
    file: str = "Containerfile",
    arguments: t.Mapping[str, str] | None = None,
    engine: str = "",
    move: bool = False,
    check: bool = False,
) -> Built:
    """Bring the image of a directory to its place in a registry.

    reference: REGISTRY/NAME:TAG. settings: Enroot's, whose file of logins is used. move: point a tag that is another
    image's to this one. Raises ImageError: reference, moved, credentials, network, missing (a program), failed.
    """
    match = _REFERENCE.fullmatch(reference)
    if not match or not re.search("[.:]", match[1]):
        raise ImageError(
            "reference",
            f"{reference}: is not a place in a registry -> write REGISTRY/NAME:TAG, such as "
            "registry.example.org/team/train:25.06 (names are in lower case)",
        )
    plain = f"{match[1]}/{match[2]}:{match[3]}"
    name = registry.parse(f"docker://{plain}")
    source = source_digest(context, file, arguments or {})
    there = registry.Registry(name, settings).pushed()
    if there and there.labels.get(LABEL) == source:
        return Built(False, there.digest, f"docker://{plain}@{there.digest}", source)
    if there and not move:
        raise ImageError(
            "moved",
            f"{plain}: the registry has another image of this tag, {there.digest}, and jobs that name the tag would "
            "change under their users -> choose another tag, or move it on purpose (move)",
        )
    if check:
        return Built(True, "", f"docker://{plain}", source)
    chosen = _engine(engine)
    with tempfile.TemporaryDirectory(prefix="trainwright-login-") as login:
        variables = _login(login, registry.Registry(name, settings), os.path.join(context, file))
        words = [f"--build-arg={key}={value}" for key, value in sorted((arguments or {}).items())]
        command = [chosen, "build", f"--label={LABEL}={source}", f"--tag={plain}"]
        command += [f"--file={os.path.join(context, file)}", *words, context]
        _run(plain, "build", command, say, variables)
        _run(plain, "push", [chosen, "push", plain], say, variables)
    pushed = registry.Registry(name, settings).pushed()
    if not pushed or pushed.labels.get(LABEL) != source:
        raise ImageError(
            "moved",
            f"{plain}: the registry has another image than the one that was pushed -> run it again",
        )
    return Built(True, pushed.digest, f"docker://{plain}@{pushed.digest}", source)


def _login(directory: str, place: registry.Registry, file: str) -> dict[str, str]:
    """Write the logins that this build needs for the engine alone; return the variables by which it finds them."""
    with open(file, encoding="utf-8", errors="replace") as content:
        text = content.read()
    environment = network_environment()
    logins: dict[str, dict[str, str]] = {}
    for one in registry.logins(place.file):
        key = place.name.registry if one.host == place.name.host else one.host
        if (key == place.name.registry or one.host in text) and key not in logins:
            pair = f"{one.user}:{registry.password_of(one, environment)}"
            logins[key] = {"auth": base64.b64encode(pair.encode()).decode()}
    path = os.path.join(directory, "config.json")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        json.dump({"auths": logins}, out)
    proxies = {key: text for key, text in environment.items() if key not in os.environ}
    return {**proxies, "REGISTRY_AUTH_FILE": path, "DOCKER_CONFIG": directory}


def _run(
    plain: str, step: str, command: list[str], say: Say, variables: t.Mapping[str, str]
) -> None:
    say(f"Running {os.path.basename(command[0])} {step}")
    code, output = stream(command, say, lambda: None, **variables)
    if not code:
        return
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = next(
        (one for one in reversed(lines) if re.match("error", one, re.I)), (lines or [""])[-1]
    )
    if re.search(r"unauthorized|authentication required|denied|\b40[13]\b", output, re.I):
        raise ImageError(
            "credentials",
            f"{plain}: {step} was refused: {said} -> check the registry's login in the file that role enroot "
            "writes (enroot_credentials), and that it may push",
        )
    raise ImageError(
        "failed", f"{plain}: {step} ended with {code}: {said} -> correct it, and run it again"
    )
