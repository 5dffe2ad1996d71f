# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where container images come from: registries, Docker and Podman on this host, squashfs files.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import hashlib
import os
import re
import select
import shutil
import socket
import subprocess
import typing as t

from ..node.acting import user_name
from .image_errors import ImageError, free_space, human, no_space
from .image_file import CHUNK, IMAGE, Record, fault_of, read_record, sha256_of

#: Kept images are read often and written once: zstd packs well and unpacks fast.
SQUASH_OPTIONS = "-comp zstd -Xcompression-level 3 -b 1M -exit-on-error"
_DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$", re.M)
_PINNED = re.compile(r"@sha256:[0-9a-f]{64}$")
# docker://[USER@][REGISTRY#|/]IMAGE[:TAG][@DIGEST], as src/docker.sh of Enroot 4.1 reads it.
_REGISTRY = re.compile(
    r"docker://(?:[^@/#\s]+@)?(?:([^/#@\s]+)[/#])?[a-z0-9._/-]+(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?"
)
_DAEMON = re.compile(r"(?:dockerd|podman)://[A-Za-z0-9/._:-]+")

Say = t.Callable[[str], None]


def silent(_line: str) -> None:
    """Say nothing."""


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/bin:/usr/local/bin:/usr/sbin")
    if not found:
        remedy = "role enroot installs it" if name == "enroot" else "install it on this host"
        raise ImageError(
            "missing", f"{name} is not installed on {socket.gethostname()} -> {remedy}"
        )
    return found


def enroot_settings() -> dict[str, str]:
    """Return Enroot's settings as it runs here (ENROOT_TEMP_PATH ...), and version."""
    shown = subprocess.run(
        [program("enroot"), "info"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        text=True,
    ).stdout
    settings = dict(re.findall(r"^\s+(ENROOT_\w+)=(.*)$", shown, re.M))
    version = re.search(r"^Enroot version: (\S+)", shown, re.M)
    return {**settings, "version": version[1] if version else ""}


def _stream(command: t.Sequence[str], tell: t.Callable[[str], None]) -> tuple[int, str]:
    """Run a program; report each of its [INFO] lines, the latest again each second. Return its exit code and output."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C.UTF-8", "ENROOT_SQUASH_OPTIONS": SQUASH_OPTIONS},
    )
    output = b""
    phase = ""
    pipe = t.cast("t.IO[bytes]", process.stdout)
    try:
        while True:
            if select.select([pipe], [], [], 1.0)[0]:
                chunk = os.read(pipe.fileno(), 65536)
                if not chunk:
                    break
                output = (output + chunk)[-65536:]
                for line in output.decode("utf-8", "replace").splitlines():
                    phase = line[7:].strip() if line.startswith("[INFO] ") else phase
            if phase:
                tell(phase)
        return process.wait(), output.decode("utf-8", "replace")
    finally:
        pipe.close()
        if process.poll() is None:
            process.kill()
            process.wait()


def _registry_of(reference: str) -> str:
    match = _REGISTRY.fullmatch(reference)
    found = (match[1] if match else None) or ""
    # Like Enroot: a name without a dot or a port is a namespace of Docker Hub.
    return found if "#" in reference or re.search("[.:]", found) else "registry-1.docker.io"


def _refusal(reference: str, output: str, store: str) -> ImageError:
    """Return what Enroot's output means; its last error is reported where nothing fits."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("[ERROR]", "curl:", "FATAL ERROR"))]
    said = (errors or lines or ["it printed nothing"])[-1].replace("[ERROR] ", "")
    full = re.search("No space left on device|Disk quota exceeded", output)
    if full:
        settings = enroot_settings()
        also = " and ".join(
            settings[name]
            for name in ("ENROOT_CACHE_PATH", "ENROOT_TEMP_PATH")
            if settings.get(name)
        )
        also = f", or in {also}, where Enroot works" if also else ""
        return no_space(store, f"{full[0]} for {reference}, here{also}")
    code = re.search(r"returned error code: (\d+)", output)
    registry = _registry_of(reference)
    if code and code[1] in ("401", "403"):
        settings = enroot_settings()
        place = settings.get("ENROOT_CONFIG_PATH", "~/.config/enroot") + "/.credentials"
        host = registry.rpartition(":")[0] or registry
        login = "USER password PASSWORD"
        match = re.search(r"\.ecr[\w-]*\.([\w-]+)\.amazonaws\.", host)
        if match:
            login = f"AWS password $(aws ecr get-login-password --region {match[1]})"
        return ImageError(
            "credentials",
            f"{reference}: {registry} refuses {user_name(os.geteuid())} ({said}) -> check the name; if "
            f"the image is private, write the line `machine {host} login {login}` into {place}, mode 0600",
        )
    if code and code[1] == "404" or "Invalid image reference" in output:
        return ImageError(
            "reference",
            f"{reference}: {registry} does not have this image ({said}) -> check registry, name and tag; the form "
            "is docker://REGISTRY/NAME:TAG",
        )
    if re.search(r"curl: \((?:5|6|7|28|35|52|56|60)\)|returned error code: (?:429|5\d\d)", output):
        return ImageError(
            "network",
            f"{reference}: {registry} cannot be reached ({said}) -> check the network, the proxy (https_proxy) "
            "and the certificates of this host, then run it again",
        )
    missing = re.search(r"Command not found: (\S+)", output)
    if missing:
        return ImageError("missing", f"enroot needs {missing[1]} -> role enroot installs it")
    return ImageError(
        "failed", f"{reference}: enroot failed: {said} -> see `enroot import` by hand"
    )


class Source:
    """An image somewhere else. key: what was asked for, as far as that is known without reading it."""

    reference: str
    key: str

    def digest(self) -> str:
        """Return the digest that the image has now, sha256:HEX."""
        raise NotImplementedError

    def write(self, digest: str, path: str, store: str, tell: Say) -> tuple[str, str]:
        """Write the image of the digest to a new file; return its SHA-256 and Enroot's version."""
        raise NotImplementedError


class Remote(Source):
    """An image of a registry, or of a Docker daemon or Podman on this host."""

    def __init__(self, reference: str, arch: str) -> None:
        self.reference = reference
        self.key = f"{reference} {arch}".strip()
        self._arch = ["--arch", arch] if arch else []

    def digest(self) -> str:
        if self.reference.startswith("docker://"):
            command = [program("enroot"), "digest", *self._arch, "--", self.reference]
            code, output = _stream(command, silent)
            found = _DIGEST.search(output)
            if code or not found:
                raise _refusal(self.reference, output, os.sep)
            return found[0]
        scheme, image = self.reference.split("://", 1)
        engine = scheme.rstrip("d") if scheme == "dockerd" else scheme
        command = [program(engine), "image", "inspect", "--format", "{{.Id}}", image]
        code, output = _stream(command, silent)
        found = re.search(r"^(?:sha256:)?([0-9a-f]{64})$", output, re.M)
        if code or not found:
            said = (output.strip().splitlines() or ["it printed nothing"])[-1]
            raise ImageError(
                "reference",
                f"{self.reference}: {engine} does not have image {image} ({said}) -> `{engine} pull {image}`, or see "
                f"`{engine} images` of {user_name(os.geteuid())}",
            )
        return f"sha256:{found[1]}"

    def _pinned(self, digest: str) -> str:
        """The reference of this digest, so that a tag that moves in the meantime changes nothing."""
        if self.reference.startswith("docker://"):
            return f"{_PINNED.sub('', self.reference)}@{digest}"
        return f"dockerd://{digest}" if self.reference[0] == "d" else f"podman://{digest[7:]}"

    def write(self, digest: str, path: str, store: str, tell: Say) -> tuple[str, str]:
        def grown(phase: str) -> None:
            try:
                size = os.stat(path).st_size
            except OSError:
                size = 0
            tell(f"{phase} {human(size)}" if size else phase)

        version = enroot_settings()["version"]
        pinned = self._pinned(digest)
        command = [program("enroot"), "import", *self._arch, "--output", path, "--", pinned]
        code, output = _stream(command, grown)
        if code or not os.path.exists(path):
            raise _refusal(self.reference, output, store)
        tell("Computing the checksum of the image...")
        return sha256_of(path), version


class Local(Source):
    """A squashfs file; the name of one in a store has its digest."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        self.reference = path
        try:
            seen = os.stat(self.path)
            fault = fault_of(self.path)
        except OSError as error:
            raise ImageError(
                "reference", f"{path}: {error.strerror} -> give the path of a squashfs file"
            ) from None
        if fault:
            raise ImageError(
                "reference",
                f"{path}: {fault} -> give a squashfs file, made by mksquashfs or enroot",
            )
        self._size = seen.st_size
        self._known: Record = {}
        match = IMAGE.fullmatch(os.path.basename(self.path))
        # Only root or this user could have written another image under this name.
        if match and seen.st_uid in (0, os.geteuid()):
            self._known = read_record(self.path)
        if match and self._known:
            self.key = f"sha256:{match[2]}"
            self.reference = self._known["reference"]
        else:
            self.key = f"{self.path} {seen.st_size} {seen.st_mtime_ns}"

    def digest(self) -> str:
        return self.key if self._known else f"sha256:{sha256_of(self.path)}"

    def write(self, digest: str, path: str, store: str, tell: Say) -> tuple[str, str]:
        free = free_space(store)[0]
        if free < self._size:
            raise no_space(store, f"{self.path} does not fit", self._size)
        wanted = self._known.get("sha256") or digest[7:]
        found = hashlib.sha256()
        done = 0
        with open(self.path, "rb") as old, open(path, "xb") as new:
            while True:
                chunk = old.read(CHUNK)
                if not chunk:
                    break
                found.update(chunk)
                new.write(chunk)
                done += len(chunk)
                tell(f"Copying the image... {human(done)} of {human(self._size)}")
        if found.hexdigest() != wanted:
            raise ImageError(
                "damaged",
                f"{self.path}: what was read does not have the image's checksum -> the file is damaged, or was "
                "written to in the meantime; import it again with force",
            )
        return wanted, self._known.get("enroot", "")


def source_of(reference: str, arch: str = "") -> Source:
    """Return where an image comes from; a name without a scheme means a registry.

    Raises ImageError: reference.
    """
    if reference.startswith(("/", "./", "../", "~")) or (
        "://" not in reference and reference.endswith(".sqsh")
    ):
        return Local(os.path.abspath(os.path.expanduser(reference)))
    full = reference if "://" in reference else f"docker://{reference}"
    if not (_REGISTRY if full.startswith("docker://") else _DAEMON).fullmatch(full):
        raise ImageError(
            "reference",
            f"{reference}: is not an image reference -> write docker://REGISTRY/NAME:TAG (names are in lower "
            "case), dockerd://NAME:TAG, podman://NAME:TAG or the path of a .sqsh file",
        )
    return Remote(full, arch)
