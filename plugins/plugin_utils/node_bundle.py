# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An archive for nodes without a control node: Ansible, a part of a collection, packages and variables.

Only Ansible's Python files are taken: its dependencies work without their compiled parts, so a bundle runs with any
Python that is new enough, on any architecture. The same input gives the same bytes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import re
import tarfile
import typing as t
from importlib import metadata
from pathlib import Path

from ..module_utils.node import whole_file

#: The distributions of ansible-playbook with local connections, and the package of each.
DISTRIBUTIONS = {
    "ansible-core": "ansible",
    "Jinja2": "jinja2",
    "MarkupSafe": "markupsafe",
    "packaging": "packaging",
    "PyYAML": "yaml",
}
_COMPILED = (".so", ".pyc")

#: A file of a bundle: its path there, and its content.
Entry = tuple[str, bytes]


class BundleError(Exception):
    """A bundle that cannot be made; the message has the place, the cause and the remedy."""


def _verified(path: Path, recorded: metadata.FileHash) -> bytes:
    """Return the content of a file of a distribution. Raises BundleError if it is not what was installed."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror} -> install Ansible again") from error
    digest = hashlib.new(recorded.mode, data).digest()
    if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != recorded.value:
        raise BundleError(
            f"{path}: is not what was installed, by the checksum in its RECORD -> install Ansible again"
        )
    return data


def python_entries(
    distribution: t.Callable[[str], metadata.Distribution] = metadata.distribution,
) -> list[Entry]:
    """Return the files of Ansible and of what it imports, each verified with the checksum of its installation."""
    found: list[Entry] = []
    for name, package in DISTRIBUTIONS.items():
        try:
            files = [file for file in distribution(name).files or [] if file.hash]
        except metadata.PackageNotFoundError:
            files = []
        wanted = [
            file
            for file in files
            if (file.parts[0] == package or file.parts[0].endswith(".dist-info"))
            and file.suffix not in _COMPILED
        ]
        if not any(file.parts[0] == package for file in wanted):
            raise BundleError(
                f"{name}: its installation does not have checksums (RECORD) -> run Ansible from an environment "
                "that pip has made"
            )
        for file in wanted:
            if file.hash:
                path = Path(str(file.locate()))
                found.append((f"python/{file.as_posix()}", _verified(path, file.hash)))
    return found


def lowest_python(requirement: str) -> int:
    """Return the minor version of Python 3 that a distribution's Requires-Python begins with: ">=3.11" is 11."""
    match = re.search(r">=\s*3\.(\d+)", requirement)
    if not match:
        raise BundleError(
            f"Requires-Python {requirement!r}: has no lowest version -> install ansible-core again"
        )
    return int(match[1])


def tree_entries(source: Path, parts: t.Iterable[str], below: str = "") -> list[Entry]:
    """Return files and whole directories of a tree, named relative to it, below a directory of the bundle."""
    found: list[Entry] = []
    for part in parts:
        path = source / part
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        if not path.exists():
            raise BundleError(f"{path}: does not exist -> install the collection again")
        for file in files:
            inner = file.relative_to(source)
            hidden = any(name.startswith(".") or name == "__pycache__" for name in inner.parts)
            if file.is_file() and not hidden and file.suffix not in _COMPILED:
                found.append((f"{below}{inner.as_posix()}", file.read_bytes()))
    return found


def pack(entries: t.Iterable[Entry]) -> bytes:
    """Return a .tar.gz of files that belong to root, the same bytes for the same entries."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in sorted(entries):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uname, member.gname = len(data), 0o644, "root", "root"
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), compresslevel=6, mtime=0)


def keep(path: Path, data: bytes) -> None:
    """Write a bundle whole or not at all, for its owner alone: it has the variables of a site.

    One that is there is compared: it may have been changed, or cut short with the machine's power. Raises BundleError.
    """
    try:
        if path.is_file() and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        whole_file.write(str(path), data)
    except OSError as error:
        raise BundleError(
            f"{path}: {error.strerror} -> {whole_file.room(error)}, or name another directory"
        ) from error
