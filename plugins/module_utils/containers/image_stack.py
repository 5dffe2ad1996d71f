# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GPU and EFA software inside an image, read without starting or unpacking it.

An image is a user's file, and its content is whatever a registry had. So unsquashfs writes no file and runs with the
rights of the image's owner, never with root's, within limits of time, memory and output. Only the names of known
libraries and versions of a known form are taken from its answer. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import resource
import select
import subprocess
import time
import typing as t

from ..hardware import stack as stacks
from ..node import efa_manifest, path_owner
from ..node.acting import regular
from ..node.safe_path import UnsafePathError
from .enroot import program
from .image_errors import ImageError
from .image_file import fault_of

#: Seconds for all calls about one image; an image of 20 GB takes well below one.
DEADLINE = 60.0
_LARGEST_LIST, _LARGEST_TEXT, _LARGEST_PACKAGES = 8 << 20, 1 << 20, 32 << 20
#: unsquashfs' own memory, in bytes; its queues are 8 MiB each.
_MEMORY = 4 << 30
_REMEDY = "read it as its owner, or copy it to a directory that only root can write to"

_ENVIRONMENT = "etc/environment"
_PACKAGES = "var/lib/dpkg/status"
_LIBRARIES = ("usr/lib", "usr/lib/*-linux-gnu", "usr/lib64", "usr/local/lib", "usr/local/lib64")
_AMAZON = ("opt/amazon/efa", "opt/amazon/ofi-nccl", "opt/amazon/aws-ofi-nccl", "opt/aws-ofi-nccl")
_PYTHON = ("usr", "usr/local", "opt/*", "opt/conda/envs/*", "root/.local", "venv", "opt/venvs/*")
_IN_PYTHON = (
    "torch/version.py",
    "nvidia/*/lib/lib*.so.*",
    "nvidia_nccl_*.dist-info/METADATA",
    "nvidia_cuda_runtime*.dist-info/METADATA",
)
_MPI = ("opt/amazon/openmpi*", "opt/hpcx/ompi", "usr/local", "usr/local/mpi", "opt/openmpi*")

#: Variables of the image's own configuration, which Enroot writes into /etc/environment; NVIDIA's images have them.
_VERSIONS = {
    "cuda": "CUDA_VERSION",
    "nccl": "NCCL_VERSION",
    "efa": "EFA_VERSION",
    "ofi_nccl": "AWS_OFI_NCCL_VERSION",
    "openmpi": "OPENMPI_VERSION",
    "gdrcopy": "GDRCOPY_VERSION",
    "rdma_core": "RDMACORE_VERSION",
    "pytorch": "PYTORCH_VERSION",
}
#: Debian packages of components; the first that is installed counts.
_DEBIAN = {
    "nccl": ("libnccl2",),
    "libfabric": ("libfabric1-aws", "libfabric-aws-bin", "libfabric1"),
    "ofi_nccl": ("libnccl-ofi", "libnccl-ofi-ngc"),
    "gdrcopy": ("libgdrapi",),
    "rdma_core": ("rdma-core", "libibverbs1"),
    "openmpi": ("openmpi40-aws", "openmpi50-aws", "libopenmpi3t64", "libopenmpi3", "libopenmpi40"),
}
_SHOWN = re.compile(r"(NVIDIA|NCCL|FI|OFI|RDMAV|OMPI|OPAL|UCX|TORCH|GLOO|CUDA)_[A-Z0-9_]+")
_LINE = re.compile(
    r"([-l])[-rwxsStT]{9} \S+\s+(\d{1,19}) \d{4}-\d\d-\d\d \d\d:\d\d squashfs-root/([\w.+/~-]+)(?: -> (\S+))?"
)
_SITE = re.compile(r"(.+/python3[\w.]*/(?:site|dist)-packages)/")


class ImageStack(t.TypedDict):
    """The contents of an image.

    stack: components and versions. pytorch: its version. net, tuner: paths of NCCL's plugins. mpi: directories that
    have one. environment: the image's own variables of NCCL, EFA, MPI and PyTorch. sources: where each version was
    read. notes: what disagrees or could not be read.
    """

    stack: dict[str, str]
    pytorch: str
    net: str
    tuner: str
    mpi: list[str]
    environment: dict[str, str]
    sources: dict[str, str]
    notes: list[str]


class _Reader:
    """Calls of unsquashfs about one image."""

    def __init__(self, path: str, until: float) -> None:
        self.path, self._until = path, until
        try:
            owner = path_owner.owner_of([path], _REMEDY)
            with path_owner.rights_of(owner):
                # The file that was judged is the one that is read, whatever its path leads to by then.
                self._file = open(path, "rb", opener=regular)  # noqa: SIM115 - closed by close()
                fault = fault_of(f"/proc/self/fd/{self._file.fileno()}")
        except UnsafePathError as error:
            raise ImageError("denied", str(error)) from None
        except OSError as error:
            raise ImageError(
                "reference", f"{path}: {error.strerror} -> give the path of a squashfs file"
            ) from None
        if fault:
            self.close()
            raise ImageError("damaged", f"{path}: {fault} -> import it again")
        self._rights: dict[str, t.Any] = {}
        if not os.geteuid():
            user = pwd.getpwnam(owner or "nobody")
            groups = os.getgrouplist(user.pw_name, user.pw_gid) if owner else []
            self._rights = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}
        elif os.getuid() != os.geteuid():
            # Root acts as this user here, and a program would find root's rights in its real user.
            self._rights = {"user": os.geteuid(), "group": os.getegid()}

    def close(self) -> None:
        self._file.close()

    def list(self, patterns: t.Sequence[str]) -> dict[str, tuple[int, str]]:
        """Return the files that match: path, size in bytes, target of a link."""
        text = self._run(["-ll", "--image", *patterns], _LARGEST_LIST)
        found = {}
        for line in text.split("\n"):
            match = _LINE.fullmatch(line)
            if match and ".." not in match[3]:
                found[match[3]] = (int(match[2]), match[4] or "")
        return found

    def text(self, path: str, most: int = _LARGEST_TEXT) -> str:
        """Return the text of a file; "" where it is not there."""
        return self._run(["-no-wildcards", "-cat", "--image", path], most, missing=True)

    def _run(self, words: t.Sequence[str], most: int, missing: bool = False) -> str:
        image = f"/proc/self/fd/{self._file.fileno()}"
        options = ["-no-progress", "-processors", "1", "-da", "8", "-fr", "8"]
        command = [program("unsquashfs"), *options]
        command += [image if word == "--image" else word for word in words]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            pass_fds=[self._file.fileno()],
            preexec_fn=_limit,
            **self._rights,
        )
        try:
            out, errors = self._collected(process, most)
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                t.cast("t.IO[bytes]", pipe).close()
        if process.returncode == 0 or (missing and process.returncode == 2):
            return out
        said = (errors.strip().splitlines() or ["it printed nothing"])[-1]
        if missing and "SYNTAX" in out + errors:
            raise _TooOldError(said)
        if "Permission denied" in errors:
            why = "cannot be read without root's rights"
            raise ImageError("denied", f"{self.path}: {why} -> chmod 0644, or {_REMEDY}")
        raise ImageError("damaged", f"{self.path}: unsquashfs: {said} -> import it again")

    def _collected(self, process: subprocess.Popen[bytes], most: int) -> tuple[str, str]:
        pipes = [t.cast("t.IO[bytes]", process.stdout), t.cast("t.IO[bytes]", process.stderr)]
        got = {pipe: b"" for pipe in pipes}
        while pipes:
            ready = select.select(pipes, [], [], max(0.0, self._until - time.monotonic()))[0]
            if not ready:
                raise ImageError(
                    "failed",
                    f"{self.path}: was not read within {DEADLINE:.0f} s -> check the storage that it is on",
                )
            for pipe in ready:
                chunk = os.read(pipe.fileno(), 65536)
                got[pipe] += chunk
                if not chunk:
                    pipes.remove(pipe)
                if len(got[pipe]) > most:
                    raise ImageError(
                        "damaged",
                        f"{self.path}: has a list or text of versions of more than {most} bytes -> is it an "
                        "image that somebody else made? Build it again",
                    )
        process.wait()
        return tuple(text.decode("utf-8", "replace") for text in got.values())  # type: ignore[return-value]


class _TooOldError(Exception):
    """This unsquashfs cannot print files."""


def _limit() -> None:
    """Bound what a program that reads somebody else's file can take. Runs in the child."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read(path: str) -> ImageStack:
    """Return what an image has inside. Raises ImageError: reference, denied, damaged, missing (unsquashfs), failed."""
    reader = _Reader(path, time.monotonic() + DEADLINE)
    try:
        return _read(reader)
    finally:
        reader.close()


def _read(reader: _Reader) -> ImageStack:
    notes: list[str] = []
    texts: dict[str, str] = {}
    try:
        texts[_ENVIRONMENT] = reader.text(_ENVIRONMENT)
    except _TooOldError:
        notes.append(
            "unsquashfs is older than 4.5 and prints no files, so versions come from file names alone"
        )
    environment = _variables(texts.get(_ENVIRONMENT, ""))
    files = reader.list(_patterns(environment))
    if not notes:
        for name in _to_read(files):
            texts[name] = reader.text(
                name, _LARGEST_PACKAGES if name == _PACKAGES else _LARGEST_TEXT
            )
    found = Found(files, texts, environment)
    return {
        "stack": dict(sorted(found.stack.items())),
        "pytorch": found.pytorch,
        "net": found.one(r".*/libnccl-net(-\w+)?\.so"),
        "tuner": found.one(r".*/libnccl-(ofi-)?tuner(-\w+)?\.so"),
        "mpi": found.mpi(),
        "environment": {key: text for key, text in environment.items() if _SHOWN.fullmatch(key)},
        "sources": dict(sorted(found.sources.items())),
        "notes": notes + found.notes,
    }


def _variables(text: str) -> dict[str, str]:
    """Return NAME=VALUE lines; values of one line of printable text only."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if (
            equals
            and re.fullmatch(r"\w{1,100}", name)
            and value.isprintable()
            and len(value) < 4096
        ):
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            found[name] = value[1:-1] if quoted else value
    return found


def _patterns(environment: t.Mapping[str, str]) -> list[str]:
    """Return what to list; only directories on the way to these are looked at."""
    roots = [environment.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    roots += [
        part[: -len("/bin")]
        for part in environment.get("PATH", "").split(":")
        if part.endswith("/bin")
    ]
    own = [root.strip("/") for root in roots if re.fullmatch(r"(/\w[\w.+-]*){1,12}", root)]
    python = [
        f"{root}/lib*/python3*/{kind}-packages/{name}"
        for root in dict.fromkeys((*_PYTHON, *own[:16]))
        for kind in ("site", "dist")
        for name in _IN_PYTHON
    ]
    plugins = [
        f"{root}/{deep}{name}"
        for root in _AMAZON
        for deep in ("lib*/", "lib*/*-linux-gnu/", "install/lib/")
        for name in ("libnccl-*.so", "libfabric.so*")
    ]
    libraries = [f"{root}/{name}*" for root in _LIBRARIES for name in _NAMES]
    return [
        _PACKAGES,
        efa_manifest.PATH,
        "usr/local/cuda",
        "etc/alternatives/cuda",
        "usr/local/cuda-*/version.json",
        "usr/local/cuda-*/lib64/libcudart.so.*",
        "usr/local/cuda-*/targets/*/lib/libcudart.so.*",
        "usr/local/cuda-*/compat/libcuda.so.*",
        "usr/local/cuda-*/compat/lib*/libcuda.so.*",
        *python,
        *plugins,
        *libraries,
        *(f"{root}/lib*/libmpi.so.*" for root in _MPI),
        *(f"{root}/bin/mpirun" for root in (*_MPI, "usr")),
    ]


_NAMES = ("libnccl.so.", "libnccl-net", "libnccl-ofi-tuner", "libmpi.so.", "libcudart.so.")


def _to_read(files: t.Mapping[str, tuple[int, str]]) -> list[str]:
    """Return the files whose text has a version, the first few of each kind; links are left out."""
    wanted = (
        (re.escape(_PACKAGES), 1),
        (re.escape(efa_manifest.PATH), 1),
        (r"usr/local/cuda-[\w.]+/version\.json", 4),
        (r".+/torch/version\.py", 4),
    )
    return [
        name
        for pattern, most in wanted
        for name in [one for one in files if re.fullmatch(pattern, one) and not files[one][1]][
            :most
        ]
    ]


class Found:
    """Reads the files, their texts and the environment of an image; pure."""

    def __init__(
        self,
        files: t.Mapping[str, tuple[int, str]],
        texts: t.Mapping[str, str],
        environment: t.Mapping[str, str],
    ) -> None:
        self._files, self._texts = files, texts
        self.stack: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.notes: list[str] = []
        self.pytorch = ""
        # PyTorch loads the CUDA and NCCL of its own wheels, whatever the image has besides.
        self._of_python()
        self._of_toolkit()
        self._of_libraries()
        for component, version in efa_manifest.parse(texts.get(efa_manifest.PATH, "")).items():
            self._take(component, version, efa_manifest.PATH)
        self._of_packages()
        for component, name in _VERSIONS.items():
            self._of_variable(component, environment.get(name, ""), name)

    def one(self, pattern: str) -> str:
        """Return the path of the first file of a kind, "" for none."""
        return next((f"/{name}" for name in sorted(self._files) if re.fullmatch(pattern, name)), "")

    def mpi(self) -> list[str]:
        """Return the directories that have an MPI."""
        found = {
            name.partition("/lib")[0] if "/libmpi" in name else name[: -len("/bin/mpirun")]
            for name in self._files
            if re.fullmatch(r".+/libmpi\.so\.[\d.]+|.+/bin/mpirun", name)
        }
        return sorted(f"/{name}" for name in found)

    def _take(self, component: str, version: str, source: str) -> None:
        if stacks.VERSION.fullmatch(version) and component not in self.stack:
            self.stack[component], self.sources[component] = (
                version,
                f"/{source}".replace("//", "/"),
            )

    def _numbered(self, pattern: str) -> list[tuple[tuple[int, ...], str, str]]:
        """Return numbers, version and path of libraries whose name has a version, the highest first."""
        found = []
        for name in self._files:
            match = re.fullmatch(pattern, name)
            if match:
                found.append((stacks.numbers(match[1]), match[1], name))
        return sorted(found, reverse=True)

    def _of_python(self) -> None:
        for name in sorted(self._texts):
            if not name.endswith("/torch/version.py"):
                continue
            text = self._texts[name]
            version = re.search(r"^__version__ = '([^']+)'", text, re.M)
            if version and stacks.VERSION.fullmatch(version[1]) and not self.pytorch:
                self.pytorch, self.sources["pytorch"] = version[1], f"/{name}"
            site = t.cast("re.Match[str]", _SITE.match(name))[1]
            inside = [one for one in self._files if one.startswith(f"{site}/nvidia")]
            cuda = re.search(r"^cuda(?:: [^=\n]+)? = '([^']+)'", text, re.M)
            for one in inside:
                if re.search(r"/libcudart\.so\.\d+", one) and cuda:
                    self._take("cuda", cuda[1], name)
                wheel = re.match(r".+/nvidia_nccl_\w+-(\d[\w.]*)\.dist-info/METADATA", one)
                if wheel:
                    self._take("nccl", wheel[1], one)

    def _of_toolkit(self) -> None:
        chosen = self._files.get("usr/local/cuda", (0, ""))[1]
        if chosen.endswith("alternatives/cuda"):
            chosen = self._files.get("etc/alternatives/cuda", (0, ""))[1]
        directory = "usr/local/" + chosen.rstrip("/").rpartition("/")[2]
        names = [one for one in self._texts if one.endswith("/version.json")]
        names.sort(key=lambda one: (one == f"{directory}/version.json", stacks.numbers(one[15:])))
        for name in reversed(names):
            try:
                told = json.loads(self._texts[name])["cuda"]["version"]
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            self._take("cuda", str(told), name)
        for _key, version, name in self._numbered(
            r"usr/local/cuda-[\w./-]+/libcudart\.so\.(\d+\.\d+)[\d.]*"
        ):
            self._take("cuda", version, name)
        for _key, version, name in self._numbered(
            r"usr/local/cuda-[\w.]+/compat/(?:[\w.]+/)?libcuda\.so\.(\d{3}\.\d+[\d.]*)"
        ):
            self._take("cuda_compat", version, name)

    def _of_libraries(self) -> None:
        # ld.so prefers /usr/local/lib, where builds by hand end.
        for place in (r"usr/local/lib(?:64)?", r"usr/lib(?:64|/[\w-]+)?"):
            for _key, version, name in self._numbered(rf"{place}/libnccl\.so\.(2\.\d+\.\d+[\d.]*)"):
                self._take("nccl", version, name)
        for _key, version, name in self._numbered(
            r"usr/lib[\w/-]*/libcudart\.so\.(\d+\.\d+)[\d.]*"
        ):
            self._take("cuda", version, name)

    def _of_packages(self) -> None:
        installed: dict[str, str] = {}
        for entry in self._texts.get(_PACKAGES, "").split("\n\n"):
            name = re.search(r"^Package: (\S+)$", entry, re.M)
            version = re.search(r"^Version: (\S+)$", entry, re.M)
            if name and version and re.search(r"^Status: \S+ \S+ installed$", entry, re.M):
                installed[name[1]] = version[1]
        for component, names in _DEBIAN.items():
            for package in names:
                plain = re.sub(r"^\d+:|[-+~].*", "", installed.get(package, ""))
                self._take(component, plain, f"{_PACKAGES} ({package})")

    def _of_variable(self, component: str, value: str, name: str) -> None:
        version = value.lstrip("v")
        if not stacks.VERSION.fullmatch(version):
            return
        if component == "pytorch":
            if not self.pytorch:
                self.pytorch, self.sources["pytorch"] = version, f"${name}"
            return
        have = self.stack.get(component, "")
        if not have:
            self.stack[component], self.sources[component] = version, f"${name}"
        elif stacks.numbers(have)[:2] != stacks.numbers(version)[:2]:
            self.notes.append(
                f"{name}={version} of the image, and {self.sources[component]} has {have}, which counts"
            )
