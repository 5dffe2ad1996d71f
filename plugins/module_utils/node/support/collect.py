# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Collects one node's part of a support bundle. Runs on nodes: Python 3.9."""

from __future__ import annotations

import concurrent.futures
import errno
import glob
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import typing as t

from .. import acting, path_owner
from ..safe_path import UnsafePathError
from . import contents

_COMMAND_TIMEOUT = 20  # seconds; a controller that hangs must not hang the bundle
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
_PREFIX = "/opt/slurm"
_REMEDY = "collect a copy in a directory that only root can write to"
_SECRET_FILES = (
    "/var/lib/trainwright/secrets/*",
    "/etc/slurm/*.key",
    "/opt/slurm/etc/*.key",
    "/etc/munge/munge.key",
)
_SETTINGS_WITH_SECRETS = (
    "/etc/slurm/slurmdbd.conf",
    "/etc/slurm/slurm.conf",
    "/opt/slurm/etc/*.conf",
    "/root/.my.cnf",
)


class Bundle:
    """A .tar.gz that is written member by member; every text passes the redaction."""

    def __init__(self, path: str, secrets: t.Iterable[str]) -> None:
        self.secrets = list(secrets)
        self.members: list[str] = []
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._stream = os.fdopen(descriptor, "wb")
        self._tar = tarfile.open(  # noqa: SIM115  (closed by close)
            fileobj=self._stream, mode="w:gz", compresslevel=6
        )

    def add(self, name: str, text: str, mtime: float | None = None) -> None:
        """Add a text under a name."""
        data = contents.redact(text, self.secrets).encode()
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = len(data), 0o600, int(mtime or time.time())
        self._tar.addfile(info, io.BytesIO(data))
        self.members.append(name)

    def close(self) -> None:
        """Finish the file."""
        self._tar.close()
        self._stream.close()


def _log(path: str, flags: int) -> int:
    """Open a log, as the opener of open(): the user of a daemon could put a link to any file of root there."""
    roots = os.path.islink(path) and os.lstat(path).st_uid == 0
    try:
        return acting.regular(path, flags | (0 if roots else os.O_NOFOLLOW))
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        what = f"is a link of {acting.user_name(os.lstat(path).st_uid)} -> {_REMEDY}"
        raise OSError(error.errno, what, path) from None


def _read(path: str, limit: int, opener: t.Callable[[str, int], int] | None = None) -> str:
    """Return the last limit bytes of a file as text. opener: as of open()."""
    with open(path, "rb", opener=opener) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - limit))
        data = stream.read(limit)
    if size > limit:
        # A truncated line could hide the name that marks a secret.
        data = data.partition(b"\n")[2]
    text = data.decode("utf-8", "replace")
    return text if size <= limit else f"[the first {size - limit} bytes are left out]\n{text}"


def _secrets() -> list[str]:
    found: list[str] = []
    for pattern in (*_SECRET_FILES, *_SETTINGS_WITH_SECRETS):
        for path in glob.glob(pattern):
            try:
                text = _read(path, 1 << 16)
            except (OSError, IsADirectoryError):
                continue
            if "�" not in text:  # binary keys do not turn up in logs
                found += contents.secret_values(path, text)
    return found


def _path_of(facts: t.Mapping[str, t.Any]) -> str:
    """Return PATH with the directories of this host's Slurm."""
    prefix = (facts.get("slurm") or {}).get("prefix") or _PREFIX
    return os.pathsep.join([_PATH, f"{prefix}/sbin", f"{prefix}/bin"])


def _run(argv: t.Sequence[str], limit: int, path: str = _PATH) -> tuple[str, str]:
    """Return what a command printed, with a heading, and why it failed ("" when it did not)."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=_COMMAND_TIMEOUT,
            env={"PATH": path, "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0"},
        )
        output, why = done.stdout, "" if done.returncode == 0 else f"exit {done.returncode}"
    except subprocess.TimeoutExpired as error:
        output, why = error.stdout or b"", f"no end within {_COMMAND_TIMEOUT} s"
    except OSError as error:
        output, why = b"", str(error)
    text = output[-limit:].decode("utf-8", "replace")
    head = f"$ {' '.join(argv)}   ({why or 'exit 0'}, {time.monotonic() - began:.1f} s)\n"
    return head + text, why


def _room(path: str) -> int:
    try:
        return shutil.disk_usage(path).free if os.access(path, os.W_OK) else 0
    except OSError:
        return 0


def _place(name: str) -> str:
    """Return a path for the bundle; a node with a full disk is one that needs a bundle."""
    directory = next((d for d in ("/var/tmp", "/run", "/tmp") if _room(d) > 64 << 20), "/run")
    return os.path.join(tempfile.mkdtemp(prefix="trainwright-support.", dir=directory), name)


def _paths(patterns: t.Iterable[str]) -> list[str]:
    found = {path for pattern in patterns for path in glob.glob(pattern)}
    return sorted(path for path in found if os.path.isfile(path))


def collect(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Write the bundle of this node; return its path, its members and what could not be had."""
    path = _place("node.tar.gz")
    limit = int(params["log_mb"]) << 20
    oldest = time.time() - params["days"] * 86400
    bundle, incomplete, left_out = Bundle(path, _secrets()), {}, []
    own = _paths(contents.FILES)
    for name in sorted({*own, *_paths(params["extra_files"])}):
        try:
            # The site may name files of users, who may have made them links to any other file.
            owner = "" if name in own else path_owner.owner_of([name], _REMEDY)
            with path_owner.rights_of(owner):
                if contents.refuse(name) or contents.refuse(os.path.realpath(name)):
                    left_out.append(_described(name))
                    continue
                text, mtime = _read(name, limit), os.path.getmtime(name)
        except (OSError, UnsafePathError) as error:
            incomplete[name] = str(error)
        else:
            bundle.add(contents.member_name(name), text, mtime)
    for name in _paths(contents.LOGS):
        try:
            modified = os.path.getmtime(name)
            # Rotated and compressed logs are older than what is asked for, most often.
            if modified < oldest or name.endswith((".gz", ".xz", ".zst", ".bz2")):
                continue
            bundle.add(contents.member_name(name), _read(name, limit, _log), modified)
        except OSError as error:  # also of a log that was just rotated
            incomplete[name] = str(error)
    places = _path_of(params["facts"])
    chosen = {
        name: argv
        for name, argv in contents.commands(
            params["units"], params["days"], params["cluster"]
        ).items()
        if shutil.which(argv[0], path=places)
    }
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        outputs = pool.map(lambda argv: _run(argv, limit, places), chosen.values())
        for name, (text, why) in zip(chosen, outputs):
            bundle.add(f"commands/{name}.txt", text)
            # systemctl status exits 3 and 4 for units that are stopped or not there.
            if why and name not in ("units", "packages-deb"):
                incomplete[name] = why
    bundle.add("node_facts.json", json.dumps(params["facts"], indent=1, sort_keys=True) + "\n")
    bundle.add("left_out.txt", "".join(left_out))
    bundle.close()
    return {
        "path": path,
        "size": os.path.getsize(path),
        "members": bundle.members,
        "incomplete": incomplete,
    }


#: A user may call a file of any size a key.
_LARGEST_KEY = 1 << 20


def _described(path: str) -> str:
    """Return one line on a file that is left out: enough to see a wrong owner, mode or key."""
    try:
        status = os.stat(path)
        with open(path, "rb") as stream:
            # A short digest of a random key shows whether two nodes have the same key, and nothing else.
            digest = hashlib.sha256(stream.read(_LARGEST_KEY)).hexdigest()[:8]
    except OSError as error:
        return f"{path}: {error}\n"
    a_key = path.endswith((".key", ".jwks")) and 32 <= status.st_size <= _LARGEST_KEY
    same = f" digest {digest}" if a_key else ""
    mode, size = oct(status.st_mode & 0o7777), status.st_size
    return f"{path} mode {mode} owner {status.st_uid}:{status.st_gid} size {size}{same}\n"
