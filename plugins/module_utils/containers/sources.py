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
import subprocess
import typing as t

from ..node import path_owner
from ..node.acting import regular, user_name
from ..node.safe_path import UnsafePathError
from ..node.trusted_path import responsible
from .enroot import enroot_settings, program
from .image_errors import ImageError, free_space, human, no_space
from .image_file import CHUNK, IMAGE, Record, fault_of, read_record, sha256_of
from .refusals import Disks, refusal
from .registry import REFERENCE

#: Kept images are read often and written once: zstd packs well and unpacks fast.
SQUASH_OPTIONS = "-comp zstd -Xcompression-level 3 -b 1M -exit-on-error"
_DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$", re.M)
_PINNED = re.compile(r"@sha256:[0-9a-f]{64}$")
_DAEMON = re.compile(r"(?:dockerd|podman)://[A-Za-z0-9/._:-]+")

_PAUSE = 0.2

Say = t.Callable[[str], None]


def silent(_line: str) -> None:
    """Say nothing."""


def stream(
    command: t.Sequence[str], tell: Say, look: t.Callable[[], None] = lambda: None, **variables: str
) -> tuple[int, str]:
    """Run a program; return its exit code and output.

    tell: gets each of its [INFO] lines, the latest again and again. look: called as often, and at each output.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C.UTF-8", **variables},
    )
    output = b""
    phase = ""
    pipe = t.cast("t.IO[bytes]", process.stdout)
    try:
        while True:
            look()
            if select.select([pipe], [], [], _PAUSE)[0]:
                look()
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
            code, output = stream(command, silent)
            found = _DIGEST.search(output)
            if code or not found:
                raise refusal(self.reference, output)
            return found[0]
        scheme, image = self.reference.split("://", 1)
        engine = scheme.rstrip("d") if scheme == "dockerd" else scheme
        command = [program(engine), "image", "inspect", "--format", "{{.Id}}", image]
        code, output = stream(command, silent)
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

        settings = enroot_settings()
        disks = Disks(store, settings)
        pinned = self._pinned(digest)
        command = [program("enroot"), "import", *self._arch, "--output", path, "--", pinned]
        code, output = stream(command, grown, disks.look, ENROOT_SQUASH_OPTIONS=SQUASH_OPTIONS)
        if code or not os.path.exists(path):
            raise refusal(self.reference, output, disks)
        tell("Computing the checksum of the image...")
        return sha256_of(path), settings["version"]


def _is_roots(path: str) -> bool:
    """Whether only root decides what a path leads to."""
    try:
        return responsible(path) == 0
    except UnsafePathError:
        return False


class Local(Source):
    """A squashfs file; the name of one in a store has its digest.

    Root reads it with the rights of the user who controls the path, whose link could name any file.
    """

    def __init__(self, path: str) -> None:
        self.reference = path
        try:
            self._owner = path_owner.owner_of(
                [path],
                "copy the file to a directory that only root can write to, or import it as its owner with store=own",
            )
        except UnsafePathError as error:
            raise ImageError("denied", str(error)) from None
        try:
            with path_owner.rights_of(self._owner):
                self.path = os.path.realpath(path)
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
        mine = seen.st_uid in (0, os.geteuid()) and (not self._owner or _is_roots(self.path))
        if match and mine:
            self._known = read_record(self.path)
        if match and self._known:
            self.key = f"sha256:{match[2]}"
            self.reference = self._known["reference"]
        else:
            self.key = f"{self.path} {seen.st_size} {seen.st_mtime_ns}"

    def digest(self) -> str:
        if self._known:
            return self.key
        with path_owner.rights_of(self._owner):
            return f"sha256:{sha256_of(self.path)}"

    def write(self, digest: str, path: str, store: str, tell: Say) -> tuple[str, str]:
        free = free_space(store)[0]
        if free < self._size:
            raise no_space(store, f"{self.path} does not fit", self._size)
        wanted = self._known.get("sha256") or digest[7:]
        found = hashlib.sha256()
        done = 0
        with path_owner.rights_of(self._owner):
            old = open(self.path, "rb", opener=regular)  # noqa: SIM115 - closed below
        with old, open(path, "xb") as new:
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
    if not (REFERENCE if full.startswith("docker://") else _DAEMON).fullmatch(full):
        raise ImageError(
            "reference",
            f"{reference}: is not an image reference -> write docker://REGISTRY/NAME:TAG (names are in lower "
            "case), dockerd://NAME:TAG, podman://NAME:TAG or the path of a .sqsh file",
        )
    return Remote(full, arch)
