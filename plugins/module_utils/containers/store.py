# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Container images by name on shared storage: kept by digest, linked by name, removed when no job can use them.

A store is a directory that belongs to one user, and only that user writes in it:

    NAME.sqsh                   relative link to the image of that name
    .images/sha256-HEX.sqsh     an image; never changed or replaced (imported again: sha256-HEX.2.sqsh)
    .images/sha256-HEX.json     what it was imported from, its size, the SHA-256 of the file
    .images/sha256-HEX.unlinked its time is when a collection first found no link to the image
    .images/.lock-HEX           lock of the one that produces it, with a line on how far that is
    .images/.work-HEX-...       what a producer writes; renamed when it is whole

In the cluster's own store, the sticky directory users/ takes one such store for each user.

Runs on nodes: Python 3.9, standard library only, nothing of Ansible. Role enroot copies this file
for the commands image-import and pyxis-importer.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pwd
import re
import select
import shutil
import socket
import stat
import subprocess
import time
import typing as t

CONFIG = "/etc/trainwright/images.json"
#: Kept images are read often and written once: zstd packs well and unpacks fast.
SQUASH_OPTIONS = "-comp zstd -Xcompression-level 3 -b 1M -exit-on-error"
#: Seconds that the clocks of storage, controller and this host may differ.
SLACK = 600

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_IMAGE = re.compile(r"(sha256-([0-9a-f]{64})(?:\.(\d+))?)\.sqsh")
_DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$", re.M)
_PINNED = re.compile(r"@sha256:[0-9a-f]{64}$")
# docker://[USER@][REGISTRY#|/]IMAGE[:TAG][@DIGEST], as src/docker.sh of Enroot 4.1 reads it.
_REGISTRY = re.compile(
    r"docker://(?:[^@/#\s]+@)?(?:([^/#@\s]+)[/#])?[a-z0-9._/-]+(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?"
)
_DAEMON = re.compile(r"(?:dockerd|podman)://[A-Za-z0-9/._:-]+")
_CHUNK = 4 << 20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0

Say = t.Callable[[str], None]
Record = dict[str, t.Any]


class ImageError(RuntimeError):
    """What went wrong, why, and what to do, in one line.

    kind: reference (no such image), credentials, network, space, missing (a program), denied,
    damaged, name (taken or impossible), unknown (no image of that name), failed.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def silent(_line: str) -> None:
    """Say nothing."""


def human(size: float) -> str:
    """Return a number of bytes as people read it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def user_name(uid: int) -> str:
    """Return the name of a user, or its number where this host does not know it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def fault_of(path: str) -> str:
    """Return what is wrong with a squashfs file, "" when it is whole.

    The superblock has the magic in its first bytes and the length of the filesystem at byte 40
    (fs/squashfs/squashfs_fs.h of Linux); mksquashfs writes it last.
    """
    with open(path, "rb") as file:
        head = file.read(96)
        size = os.fstat(file.fileno()).st_size
    if len(head) < 96 or head[:4] != b"hsqs":
        return "is no squashfs file"
    used = int.from_bytes(head[40:48], "little")
    return f"ends after {size} of {used} bytes" if size < used else ""


def _from_os(error: OSError, path: str) -> ImageError:
    """Return what an error of the system means for a store."""
    where = error.filename or path
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _no_space(path, error.strerror or "No space left on device")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ImageError(
            "denied",
            f"{where}: {error.strerror} for {user_name(os.geteuid())} -> run this as the owner of the "
            "store, on a host that mounts it for writing",
        )
    return ImageError("failed", f"{where}: {error.strerror} -> look at the storage below {path}")


def _free(path: str) -> tuple[int, int]:
    seen = os.statvfs(path)
    return seen.f_bavail * seen.f_frsize, seen.f_blocks * seen.f_frsize


def _no_space(path: str, why: str, needed: int | None = None) -> ImageError:
    free, size = _free(path)
    need = f", and {human(needed)} are needed" if needed else ""
    return ImageError(
        "space",
        f"{path}: {why}; {human(free)} of {human(size)} are free there{need} -> remove images that "
        "nobody needs and collect (enroot_image: collect), raise the quota, or take a larger storage",
    )


# -- where images come from ------------------------------------------------------------------------
def _program(name: str) -> str:
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
        [_program("enroot"), "info"],
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
    """Run a program; tell each of its [INFO] lines, the latest again each second. Return its end and output."""
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
    # As Enroot does: without a dot or a port it is a namespace of Docker Hub.
    return found if "#" in reference or re.search("[.:]", found) else "registry-1.docker.io"


def _refusal(reference: str, output: str, store: str) -> ImageError:
    """Return what Enroot's output means; its last error is what is said where nothing fits."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("[ERROR]", "curl:", "FATAL ERROR"))]
    said = (errors or lines or ["it says nothing"])[-1].replace("[ERROR] ", "")
    full = re.search("No space left on device|Disk quota exceeded", output)
    if full:
        settings = enroot_settings()
        also = " and ".join(
            settings[name]
            for name in ("ENROOT_CACHE_PATH", "ENROOT_TEMP_PATH")
            if settings.get(name)
        )
        also = f", or in {also}, where Enroot works" if also else ""
        return _no_space(store, f"{full[0]} for {reference}, here{also}")
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
            f"{reference}: {registry} has no such image ({said}) -> check registry, name and tag; the form "
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
    """An image somewhere else. key: what is asked for, as far as this is known without a look."""

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
            command = [_program("enroot"), "digest", *self._arch, "--", self.reference]
            code, output = _stream(command, silent)
            found = _DIGEST.search(output)
            if code or not found:
                raise _refusal(self.reference, output, os.sep)
            return found[0]
        scheme, image = self.reference.split("://", 1)
        engine = scheme.rstrip("d") if scheme == "dockerd" else scheme
        command = [_program(engine), "image", "inspect", "--format", "{{.Id}}", image]
        code, output = _stream(command, silent)
        found = re.search(r"^(?:sha256:)?([0-9a-f]{64})$", output, re.M)
        if code or not found:
            said = (output.strip().splitlines() or ["it says nothing"])[-1]
            raise ImageError(
                "reference",
                f"{self.reference}: {engine} has no image {image} ({said}) -> `{engine} pull {image}`, or see "
                f"`{engine} images` of {user_name(os.geteuid())}",
            )
        return f"sha256:{found[1]}"

    def _pinned(self, digest: str) -> str:
        """The reference of this digest, so that a tag that moves meanwhile changes nothing."""
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
        command = [_program("enroot"), "import", *self._arch, "--output", path, "--", pinned]
        code, output = _stream(command, grown)
        if code or not os.path.exists(path):
            raise _refusal(self.reference, output, store)
        tell("Computing the checksum of the image...")
        return _sha256(path), version


class Local(Source):
    """A squashfs file; of one in a store, the digest is known by its name there."""

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
        match = _IMAGE.fullmatch(os.path.basename(self.path))
        # Who could write another image under this name is root or whoever runs this.
        if match and seen.st_uid in (0, os.geteuid()):
            self._known = read_record(self.path)
        if match and self._known:
            self.key = f"sha256:{match[2]}"
            self.reference = self._known["reference"]
        else:
            self.key = f"{self.path} {seen.st_size} {seen.st_mtime_ns}"

    def digest(self) -> str:
        return self.key if self._known else f"sha256:{_sha256(self.path)}"

    def write(self, digest: str, path: str, store: str, tell: Say) -> tuple[str, str]:
        free = _free(store)[0]
        if free < self._size:
            raise _no_space(store, f"{self.path} does not fit", self._size)
        wanted = self._known.get("sha256") or digest[7:]
        found = hashlib.sha256()
        done = 0
        with open(self.path, "rb") as old, open(path, "xb") as new:
            while True:
                chunk = old.read(_CHUNK)
                if not chunk:
                    break
                found.update(chunk)
                new.write(chunk)
                done += len(chunk)
                tell(f"Copying the image... {human(done)} of {human(self._size)}")
        if found.hexdigest() != wanted:
            raise ImageError(
                "damaged",
                f"{self.path}: what was read has another checksum than the image had -> it is damaged, or was "
                "written to meanwhile; import it again with force",
            )
        return wanted, self._known.get("enroot", "")


def _sha256(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK), b""):
            found.update(chunk)
    return found.hexdigest()


def source_of(reference: str, arch: str = "") -> Source:
    """Return where an image comes from; a name without a scheme is one of a registry.

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
            f"{reference}: is no reference of an image -> write docker://REGISTRY/NAME:TAG (names are in lower "
            "case), dockerd://NAME:TAG, podman://NAME:TAG or the path of a .sqsh file",
        )
    return Remote(full, arch)


# -- the store -------------------------------------------------------------------------------------
def read_record(image: str) -> Record:
    """Return the record beside an image; {} where there is none that fits the file."""
    path = image[: -len("sqsh")] + "json"
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return {}
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        fits = record["size"] == os.stat(image).st_size and bool(record["reference"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return record if fits else {}


class Image(t.NamedTuple):
    """An image in a store. record: see Store._produce; {} where the image is not whole."""

    path: str
    digest: str
    record: Record

    @property
    def size(self) -> int:
        """Bytes on disk; 0 where the file is gone."""
        try:
            return os.stat(self.path).st_size
        except OSError:
            return 0

    def shown(self, name: str) -> str:
        """Return a line for a diff."""
        size = human(self.size)
        return f"{name}.sqsh: {self.digest} from {self.record.get('reference', '?')}, {size}\n"


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unlink(path: str) -> bool:
    """Remove a file if it is there; return whether it was."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


class Store:
    """One directory of images; its layout is at the top of this file."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.images = os.path.join(self.path, ".images")

    # -- what is there -----------------------------------------------------------------------------
    def link(self, name: str) -> str:
        """Return the path of a name."""
        return os.path.join(self.path, f"{name}.sqsh")

    def names(self) -> dict[str, str]:
        """Return each name and the path of its image, whether that is there or not."""
        found = {}
        with contextlib.suppress(OSError):
            for entry in os.listdir(self.path):
                link = os.path.join(self.path, entry)
                if entry.endswith(".sqsh") and os.path.islink(link):
                    target = os.path.join(self.path, os.readlink(link))
                    found[entry[: -len(".sqsh")]] = os.path.normpath(target)
        return found

    def _image(self, path: str) -> Image | None:
        match = _IMAGE.fullmatch(os.path.basename(path))
        if not match or os.path.dirname(path) != self.images:
            return None
        record: Record = {}
        with contextlib.suppress(OSError):
            # A user may have put anything there, and a pipe would be waited for.
            if stat.S_ISREG(os.lstat(path).st_mode) and not fault_of(path):
                record = read_record(path)
        return Image(path, f"sha256:{match[2]}", record)

    def target(self, name: str) -> Image | None:
        """Return the image that a name stands for. Raises ImageError: name, where it is no link of ours."""
        link = self.link(name)
        if not os.path.lexists(link):
            return None
        path = self.names().get(name)
        found = self._image(path) if path else None
        if found is None:
            raise ImageError(
                "name",
                f"{link}: is no link of this store to an image -> move it away, or take another name",
            )
        return found

    def all_images(self) -> list[Image]:
        """Return every image, damaged ones too."""
        try:
            entries = sorted(os.listdir(self.images))
        except FileNotFoundError:
            return []
        found = (self._image(os.path.join(self.images, entry)) for entry in entries)
        return [image for image in found if image]

    def find(self, digest: str) -> Image | None:
        """Return the latest whole image of a digest."""
        whole = [image for image in self.all_images() if image.digest == digest and image.record]
        return max(whole, key=lambda image: image.record["created"], default=None)

    # -- locks -------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def locked(self, what: str, say: Say = silent, wait: bool = True) -> t.Iterator[Say | None]:
        """Hold a lock of the store; the kernel gives it back when its holder dies.

        Yields what writes a line of progress into the lock's file, where others read it, and says it
        as well; None where another holds the lock and wait is False.
        """
        path = os.path.join(self.images, f".lock-{what}")
        handle = self._lock(path, say, wait)
        if handle is None:
            yield None
            return
        who = f"{socket.gethostname()} process {os.getpid()}"

        last = ("", 0.0)

        def tell(line: str) -> None:
            nonlocal last
            phase, now = line.partition("...")[0], time.monotonic()
            if phase == last[0] and now < last[1] + 1:
                return
            last = (phase, now)
            with contextlib.suppress(OSError):  # a full disk must not hide the error that tells so
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{who}: {line}\n".encode(), 0)
            say(line)

        try:
            yield tell
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, 0)
            os.close(handle)

    @staticmethod
    def _lock(path: str, say: Say, wait: bool) -> int | None:
        pause = _FIRST_PAUSE
        said = holder = ""
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A collection may have removed the file that was opened here; its lock is nobody's.
                if os.path.exists(path) and os.path.samestat(os.fstat(handle), os.stat(path)):
                    return handle
                os.close(handle)
                continue
            except OSError as error:
                holder = os.pread(handle, 4096, 0).decode("utf-8", "replace").strip()
                os.close(handle)
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise ImageError(
                        "failed",
                        f"{path}: {error.strerror} -> the storage must know file locks: NFS 4, or Lustre "
                        "mounted with -o flock",
                    ) from None
            if not wait:
                return None
            line = f"Waiting for {holder or 'another process'}"
            if line != said:
                say(line)
                said = line
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    # -- changes -----------------------------------------------------------------------------------
    def prepare(self) -> None:
        """Make the store where it is missing. Raises ImageError: denied, where it is another user's."""
        for path in (self.path, self.images):
            if not os.path.isdir(path):
                os.makedirs(path, exist_ok=True)
                os.chmod(path, 0o755)
            owner = os.lstat(path).st_uid
            if owner != os.geteuid() or os.path.islink(self.images):
                whose = user_name(owner)
                raise ImageError(
                    "denied",
                    f"{path}: belongs to {whose}, not to {user_name(os.geteuid())} -> run this as {whose}, or take "
                    "a store of your own",
                )

    def obtain(self, source: Source, digest: str, name: str, force: bool, say: Say) -> bool:
        """Bring the image of a digest here and link the name to it; return whether it was produced.

        One process produces; others wait and find it made.
        """
        asked = time.time()
        with self.locked(digest[7:], say) as tell:
            image = self.find(digest)
            if image and force and image.record["created"] < asked:
                image = None
            made = image is None
            if image is None:
                image = self._produce(source, digest, tell or say)
            elif source.key not in image.record["keys"]:
                self._write_record(
                    image.path, {**image.record, "keys": [*image.record["keys"], source.key]}
                )
            self.set_link(name, image)
        return made

    def _produce(self, source: Source, digest: str, tell: Say) -> Image:
        """Write an image aside and rename it when it is whole. Called by the holder of its lock."""
        hexed = digest[7:]
        for left in os.listdir(self.images):
            # Only a producer that is dead can have left it.
            if left.startswith(f".work-{hexed}-"):
                _unlink(os.path.join(self.images, left))
        work = os.path.join(self.images, f".work-{hexed}-{socket.gethostname()}-{os.getpid()}.sqsh")
        tell(f"Importing {source.reference}")
        try:
            sha256, enroot = source.write(digest, work, self.path, tell)
            fault = fault_of(work)
            if fault:
                raise ImageError(
                    "damaged",
                    f"{source.reference}: what was written {fault} -> import it again; see the free space of "
                    f"{self.path}",
                )
            os.chmod(work, 0o644)
            _sync(work)
            record = {
                "reference": source.reference,
                "keys": [source.key],
                "digest": digest,
                "size": os.stat(work).st_size,
                "sha256": sha256,
                "created": time.time(),
                "enroot": enroot,
            }
            path = self._new_path(hexed)
            self._write_record(path, record)
            os.rename(work, path)
            _sync(self.images)
        finally:
            _unlink(work)
        return Image(path, digest, record)

    def _new_path(self, hexed: str) -> str:
        """A name that no image has had: one may be in use, and its file must not go or change."""
        path = os.path.join(self.images, f"sha256-{hexed}.sqsh")
        generation = 1
        while os.path.lexists(path):
            generation += 1
            path = os.path.join(self.images, f"sha256-{hexed}.{generation}.sqsh")
        return path

    def _write_record(self, image: str, record: Record) -> None:
        work = os.path.join(
            self.images, f".work-{record['digest'][7:]}-{socket.gethostname()}-{os.getpid()}.json"
        )
        try:
            with open(work, "w", encoding="utf-8") as file:
                json.dump(record, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(work, 0o644)
            os.rename(work, image[: -len("sqsh")] + "json")
        finally:
            _unlink(work)

    def set_link(self, name: str, image: Image | None) -> None:
        """Let a name stand for an image, in one step; None removes it."""
        link = self.link(name)
        with self.locked("links"):
            before = self.names().get(name)
            # The time without a link begins anew for both.
            for path in (before, image.path if image else None):
                if path and os.path.dirname(path) == self.images:
                    _unlink(path[: -len("sqsh")] + "unlinked")
            if image is None:
                _unlink(link)
            elif before != image.path:
                work = os.path.join(self.images, ".link")
                _unlink(work)
                os.symlink(os.path.relpath(image.path, self.path), work)
                os.rename(work, link)
            _sync(self.path)


def _checked_name(name: str) -> str:
    bare = name[: -len(".sqsh")] if name.endswith(".sqsh") else name
    if not NAME.fullmatch(bare):
        raise ImageError(
            "name",
            f"{name}: is no name of an image -> use letters, digits, dots, _ and -, beginning with a letter or digit",
        )
    return bare


def _result(store: Store, name: str, before: Image | None, after: Image | None) -> Record:
    return {
        "name": name,
        "link": store.link(name),
        "image": after.path if after else "",
        "digest": after.digest if after else "",
        "size": after.size if after else 0,
        "reference": after.record.get("reference", "") if after else "",
        "changed": (before and before.path) != (after and after.path),
        "diff": {
            "before": before.shown(name) if before else "",
            "after": after.shown(name) if after else "",
        },
        "produced": False,
    }


def present(
    path: str,
    name: str,
    reference: str,
    *,
    arch: str = "",
    refresh: bool = False,
    force: bool = False,
    check: bool = False,
    say: Say = silent,
) -> Record:
    """Let a name in the store stand for the image of a reference, and return what it is now.

    refresh: look again for what the reference stands for. force: import it even if it is there.
    Raises ImageError.
    """
    store = Store(path)
    name = _checked_name(name)
    try:
        before = store.target(name)
        source = source_of(reference, arch)
        whole = bool(before and before.record)
        if before and whole and not (refresh or force) and source.key in before.record["keys"]:
            return _result(store, name, before, before)
        digest = source.digest()
        same = bool(before and whole and before.digest == digest and not force)
        found = None if force else store.find(digest)
        if check:
            after = (before if same else found) or Image(
                "", digest, {"reference": source.reference}
            )
            return {**_result(store, name, before, after), "progress": _progress(store, digest)}
        store.prepare()
        produced = store.obtain(source, digest, name, force, say)
        result = _result(store, name, before, store.target(name))
        # An image that was damaged is another one now, even if the name of its file is not.
        return {**result, "changed": result["changed"] or not same, "produced": produced}
    except OSError as error:
        raise _from_os(error, store.path) from error


def _progress(store: Store, digest: str) -> str:
    return os.path.join(store.images, f".lock-{digest[7:]}")


def absent(path: str, name: str, *, check: bool = False) -> Record:
    """Remove a name; its image stays until a collection finds that no job can use it."""
    store = Store(path)
    name = _checked_name(name)
    try:
        before = store.target(name)
        if before and not check:
            store.prepare()
            store.set_link(name, None)
    except OSError as error:
        raise _from_os(error, store.path) from error
    return _result(store, name, before, None)


# -- collection ------------------------------------------------------------------------------------
@contextlib.contextmanager
def _as_owner(path: str) -> t.Iterator[bool]:
    """Act as the owner of a store, who may lay any trap there; yield False where that cannot be."""
    owner = os.lstat(path)
    if owner.st_uid == os.geteuid():
        yield True
    elif os.geteuid():
        yield False
    else:
        groups, group = os.getgroups(), os.getegid()
        os.setgroups([])
        os.setegid(owner.st_gid)
        os.seteuid(owner.st_uid)
        try:
            yield True
        finally:
            os.seteuid(0)
            os.setegid(group)
            os.setgroups(groups)


def stores(path: str) -> list[Store]:
    """Return the store and those of its users."""
    users = os.path.join(path, "users")
    try:
        entries = sorted(os.scandir(users), key=lambda entry: entry.name)
    except OSError:
        entries = []
    own = [Store(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return [Store(path), *own]


class _Idle(t.NamedTuple):
    """An image without a link; since: when that was first seen."""

    store: Store
    image: Image
    size: int
    since: float


def _nothing() -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def _linked(every: t.Iterable[Store]) -> set[str]:
    return {os.path.realpath(path) for store in every for path in store.names().values()}


def _sweep(store: Store) -> None:
    """Remove what producers that died have left."""
    for entry in os.listdir(store.images):
        match = re.match(r"(?:\.work-|sha256-)([0-9a-f]{64})", entry)
        path = os.path.join(store.images, entry)
        whole = re.sub(r"\.\w+$", ".sqsh", path)
        if not match or not entry.startswith(".work-") and os.path.exists(whole):
            continue
        with store.locked(match[1], wait=False) as tell:
            if tell and (entry.startswith(".work-") or not os.path.exists(whole)):
                _unlink(path)


def _idle(store: Store, linked: set[str], now: float, check: bool) -> list[_Idle]:
    """Images of a store without a link, and since when; one that is new here is marked."""
    found = []
    for image in store.all_images():
        mark = image.path[: -len("sqsh")] + "unlinked"
        if os.path.realpath(image.path) in linked:
            if not check:
                _unlink(mark)
            continue
        try:
            since = os.stat(mark).st_mtime
        except FileNotFoundError:
            since = now
            if not check:
                with open(mark, "x", encoding="utf-8"):
                    os.utime(mark, (now, now))
        found.append(_Idle(store, image, image.size, since))
    return found


def _remove(idle: _Idle) -> bool:
    """Remove an image, unless it got a link or a producer meanwhile."""
    store, image = idle.store, idle.image
    hexed = image.digest[7:]
    with contextlib.ExitStack() as locks:
        # None waits here: a user could hold the lock of his store for ever.
        free = all(locks.enter_context(store.locked(what, wait=False)) for what in ("links", hexed))
        if not free or os.path.realpath(image.path) in _linked([store]):
            return False
        _unlink(image.path)
        for end in ("json", "unlinked"):
            _unlink(image.path[: -len("sqsh")] + end)
        if not any(other.digest == image.digest for other in store.all_images()):
            _unlink(os.path.join(store.images, f".lock-{hexed}"))
    return True


def collect(
    path: str,
    *,
    jobs_since: float,
    max_age: float | None = None,
    max_size: int | None = None,
    min_age: float = 86400,
    check: bool = False,
) -> Record:
    """Remove images of the store, and of its users' stores, that no job can use.

    A job comes to an image by a link. So an image that had no link before the oldest of the jobs
    that run now started is used by none of them, whether they take it by name or by path, from the
    job's own script or from a step, and later ones do not find it either.

    jobs_since: when the oldest job that runs now started; without one, when that was asked.
    max_age: remove what has had no link for so many seconds. max_size: remove, the longest without
    a link first, until all images take at most so many bytes. min_age: never before so many
    seconds without a link.
    """
    now = time.time()
    total = 0
    idle: list[_Idle] = []
    skipped = []
    every = stores(path)
    try:
        linked = _linked(every)
        for store in every:
            if not os.path.isdir(store.images) or os.path.islink(store.images):
                continue
            with _as_owner(store.path) as may:
                total += sum(image.size for image in store.all_images())
                if check and may:
                    idle += _idle(store, linked, now, check)
                    continue
                with store.locked("links", wait=False) if may else _nothing() as tell:
                    if not tell:
                        skipped.append(store.path)
                        continue
                    _sweep(store)
                    idle += _idle(store, linked | _linked([store]), now, check)
        removed, spared = [], []
        for entry in sorted(idle, key=lambda entry: entry.since):
            age = now - entry.since
            old = max_age is not None and age >= max_age
            over = max_size is not None and total > max_size
            if not old and not over:
                continue
            why = ""
            if age < min_age:
                why = f"without a link for {age / 3600:.1f} h only"
            elif entry.since + SLACK > jobs_since:
                began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(jobs_since))
                why = f"a job that has run since {began} may use it"
            elif not check:
                with _as_owner(entry.store.path) as may:
                    why = "" if may and _remove(entry) else "it is being imported or linked now"
            shown = {"image": entry.image.path, "size": entry.size}
            if why:
                spared.append({**shown, "why": why})
            else:
                removed.append(shown)
                total -= entry.size
    except OSError as error:
        raise _from_os(error, path) from error
    return {
        "removed": removed,
        "spared": spared,
        "skipped": skipped,
        "freed": sum(entry["size"] for entry in removed),
        "size": total,
        "jobs_since": int(jobs_since),
    }


# -- names on nodes --------------------------------------------------------------------------------
def configuration(path: str = CONFIG) -> dict[str, str]:
    """Return where the images of this cluster are: store (shared) and staged (local to the node)."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        return {name: str(found[name]) for name in ("store", "staged")}
    except (OSError, ValueError, TypeError) as error:
        fault = str(error)
    except KeyError as error:
        fault = f"has no {error}"
    raise ImageError("missing", f"{path}: {fault} -> role enroot writes it on every host")


def user_store(shared: str) -> Store:
    """Return the store of the user who runs this, in the cluster's."""
    return Store(os.path.join(shared, "users", user_name(os.geteuid())))


def prepare_user_store(shared: str) -> Store:
    """Return the user's store, made if need be. Raises ImageError: denied, where the cluster has none."""
    users = os.path.join(shared, "users")
    if not os.path.isdir(users):
        raise ImageError(
            "denied",
            f"{users}: is not there, so users have no images of their own here -> ask the administrator for it, "
            "mode 1777 (role enroot makes it)",
        )
    store = user_store(shared)
    try:
        store.prepare()
    except OSError as error:
        raise _from_os(error, store.path) from error
    return store


def lookup(config: t.Mapping[str, str], name: str) -> str:
    """Return the image that a name stands for on this node: the user's own, the staged, the shared one.

    A staged image that is another one than the shared is left alone, so that all nodes of a job run
    the same. Raises ImageError: unknown.
    """
    own, shared = user_store(config["store"]), Store(config["store"])
    staged = Store(config["staged"])
    places = [own, staged, shared]
    with contextlib.suppress(OSError):
        # In a sticky directory anyone may have made it.
        if os.lstat(own.path).st_uid != os.geteuid():
            places.remove(own)
    found: dict[Store, str] = {}
    for place in places:
        with contextlib.suppress(OSError):
            link = os.readlink(place.link(name))
            found[place] = os.path.normpath(os.path.join(place.path, link))
    if not found:
        raise _unknown(name, places)
    chosen = found.get(own) or found.get(shared) or found[staged]
    local = found.get(staged, "")
    if own not in found and _digest_in(local) == _digest_in(chosen) and os.path.exists(local):
        chosen = local
    if not os.access(chosen, os.R_OK):
        raise ImageError(
            "damaged",
            f"{name}.sqsh stands for {chosen}, which cannot be read here -> is the storage mounted? Else import "
            "it again",
        )
    return chosen


def _digest_in(path: str) -> str:
    match = _IMAGE.fullmatch(os.path.basename(path))
    return match[2] if match else path


def _unknown(name: str, places: t.Sequence[Store]) -> ImageError:
    import difflib  # slow to load, and a job that finds its image does not need it

    names = sorted({known for place in places for known in place.names()})
    near = difflib.get_close_matches(name, names, 3, 0.5)
    have = ", ".join(f"{known}.sqsh" for known in near or names[:10]) or "none yet"
    return ImageError(
        "unknown",
        f"no image {name}.sqsh -> {'the nearest names' if near else 'there'} are: {have}; "
        f"`image-import REFERENCE {name}` on a login node makes it",
    )
