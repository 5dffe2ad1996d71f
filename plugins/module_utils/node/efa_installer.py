# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs AWS' installer of EFA: one at a time, in a private directory, within a deadline. Runs on nodes: Python 3.9.

A run that was killed is finished by the next one: the file UNFINISHED says so, and the installer itself holds the lock,
so it is waited for also where the module that started it is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import typing as t
import zlib

from . import apt_errors, dpkg_repair, efa, safe_path
from .services import run

#: Below it, the archive is unpacked. Not /tmp, which others can write and which may be mounted noexec.
ABOVE = "/var/lib/trainwright"
LOCK = "/run/trainwright/efa.lock"
DPKG_LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock")
#: The top directory of the archive, and the program in it.
TOP, PROGRAM = "aws-efa-installer", "efa_installer.sh"
_TAIL = 12


class Failed(efa.EfaError):
    """The installer failed. code: its exit code, 124 at the deadline. lines: the last ones that it printed."""

    def __init__(self, text: str, code: int, lines: t.Sequence[str]) -> None:
        super().__init__(text)
        self.code = code
        self.lines = list(lines)


def sha256(path: str) -> str:
    """Return the checksum of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for part in iter(lambda: handle.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


def _locked(handle: int, call: t.Callable[[int, int], None], seconds: float) -> bool:
    """Take a lock by flock or lockf within so many seconds."""
    end = time.monotonic() + seconds
    while True:
        try:
            call(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.5)
        else:
            return True


@contextlib.contextmanager
def alone(seconds: float, path: str = LOCK) -> t.Iterator[int]:
    """Hold the lock of this module; yield its descriptor, which the installer inherits."""
    with safe_path.directory(os.path.dirname(path), make=0o755):
        pass
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if not _locked(handle, fcntl.flock, seconds):
            raise efa.EfaError(
                f"{path}: another run of the installer of EFA has not ended in {seconds:.0f} seconds. Remedy:"
                " let it end,"
                f" or look what it does (pgrep -af {PROGRAM})"
            )
        yield handle
    finally:
        os.close(handle)


def wait_for_dpkg(seconds: float, paths: t.Sequence[str] = DPKG_LOCKS) -> None:
    """Return when no package manager runs. Raises EfaError after so many seconds."""
    end = time.monotonic() + seconds
    for path in paths:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            if not _locked(handle, fcntl.lockf, max(0.0, end - time.monotonic())):
                raise efa.EfaError(
                    f"{path}: a package manager has held it for {seconds:.0f} seconds. Remedy: let it end, or"
                    " end it (fuser"
                    f" -v {path}); a timer such as unattended-upgrades may have started it"
                )
        finally:
            os.close(handle)


def _members(archive: tarfile.TarFile) -> t.Iterator[tarfile.TarInfo]:
    """Yield what is to be unpacked, as root's. Raises EfaError for anything that would lead elsewhere."""
    for member in archive:
        parts = member.name.split("/")
        outside = member.name.startswith("/") or ".." in parts or parts[0] != TOP
        target = member.linkname.split("/") if member.issym() or member.islnk() else []
        if outside or ".." in target or (target and not target[0]):
            raise efa.EfaError(
                f"the archive has {member.name!r}, which is not below {TOP}/. Remedy: fetch it again, from AWS"
            )
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            raise efa.EfaError(
                f"the archive has {member.name!r}, which is a device or a pipe. Remedy: fetch it again, from AWS"
            )
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mode &= 0o755
        yield member


def unpack(path: str, directory: str) -> str:
    """Unpack the archive, and return the directory of its program."""
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in _members(archive):
                archive.extract(member, directory)
    # KeyError: a hard link to something that the archive does not have.
    except (tarfile.TarError, EOFError, KeyError, zlib.error) as error:
        raise efa.EfaError(
            f"{path}: is not an archive that can be read ({error}). Remedy: fetch it again"
        ) from error
    top = os.path.join(directory, TOP)
    if not os.path.isfile(os.path.join(top, PROGRAM)):
        raise efa.EfaError(
            f"the archive does not have {TOP}/{PROGRAM}. Remedy: give the archive of the installer"
        )
    return top


@contextlib.contextmanager
def private_directory(above: str = ABOVE) -> t.Iterator[str]:
    """Yield a directory that root alone can enter, and remove it, and those of killed runs."""
    with safe_path.directory(above, make=0o755):
        pass
    for path in efa.leftovers(above):
        shutil.rmtree(path, ignore_errors=True)
    directory = tempfile.mkdtemp(prefix="efa-installer-", dir=above)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def environment(directory: str, lock_seconds: int) -> dict[str, str]:
    """Return the environment of the installer: each apt-get in it waits for its lock."""
    apt = os.path.join(directory, "apt.conf")
    with open(apt, "w", encoding="ascii") as handle:
        handle.write(f'DPkg::Lock::Timeout "{lock_seconds}";\n')
    return {
        **os.environ,
        "APT_CONFIG": apt,
        "DEBIAN_FRONTEND": "noninteractive",
        "LC_ALL": "C.UTF-8",
        "NEEDRESTART_MODE": "l",
    }


def _end(child: subprocess.Popen, grace: float = 20.0) -> None:
    """End the installer with all that it has started; dpkg gets the time to end what it does."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        try:
            child.wait(grace)
            break
        except subprocess.TimeoutExpired:
            continue
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def tail(path: str, count: int = _TAIL) -> list[str]:
    """Return the last lines of a file that are not empty."""
    with open(path, "rb") as handle:
        handle.seek(0, os.SEEK_END)
        handle.seek(max(0, handle.tell() - 16384))
        text = handle.read().decode("utf-8", "replace")
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def call(
    top: str, arguments: t.Sequence[str], seconds: float, lock: int, variables: dict[str, str]
) -> str:
    """Run the installer and return the end of what it printed. Raises Failed.

    top: its directory. seconds: the deadline. lock: inherited, so that the lock is held as long as the installer runs.
    """
    log = os.path.join(os.path.dirname(top), "output")
    line = " ".join([PROGRAM, *arguments])
    with open(log, "wb") as output:
        child = subprocess.Popen(
            ["/bin/bash", f"./{PROGRAM}", *arguments],
            cwd=top,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(lock,),
        )
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            _end(child)
            lines = tail(log)
            raise Failed(
                f"{line}: not finished after {seconds:.0f} seconds, and ended: {' | '.join(lines)}. Remedy: run"
                " this again,"
                " which continues; if it needs longer, raise efa_timeout",
                124,
                lines,
            ) from None
    lines = tail(log, 200)
    if code:
        last = lines[-_TAIL:]
        # It goes on after an error of apt-get, whose cause is then far from its own last lines.
        told = apt_errors.causes("\n".join(lines))
        said = [*(f"apt-get: {one}" for one in told if one not in " ".join(last)), *last]
        raise Failed(
            f"{line}: exit {code}: {' | '.join(said)}. Remedy: correct what it says and run this again, which runs the"
            " installer again",
            code,
            last,
        )
    return "\n".join(lines)


def fetch_lists(seconds: float) -> None:
    """Fetch apt's lists of packages. A failure shows in what follows, where they are needed."""
    tool = ["apt-get", "--yes", f"-oDPkg::Lock::Timeout={seconds:.0f}"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        run([*tool, "--quiet", "update"], 600)


def _last(done: subprocess.CompletedProcess) -> str:
    """Return why a program failed, on one line."""
    return apt_errors.cause(done.stdout + done.stderr)


def repair(seconds: float, unfinished: bool) -> None:
    """Bring apt back to where it installs packages, after a run that was killed, or packages that were removed by hand.

    Removes packages of EFA whose dependencies are missing: the installer brings them again. Raises EfaError where other
    packages would be removed.
    """
    fix = ["apt-get", "--yes", "--no-install-recommends", "--fix-broken"]

    def call_dpkg(argv: t.Sequence[str]) -> tuple[int, str]:
        done = run(list(argv), seconds, {"DEBIAN_FRONTEND": "noninteractive"})
        return done.returncode, done.stdout + done.stderr

    # A dpkg that was killed comes first. The installer brings EFA's packages again.
    if unfinished:
        dpkg_repair.configure(call_dpkg, seconds)
    dpkg_repair.take_up(call_dpkg, seconds, replaced=efa.OWN_PACKAGES)
    if run(["apt-get", "check"], 120).returncode == 0:
        return
    plan = run([*fix, "--simulate", "install"], 120)
    going = [line.split()[1] for line in plan.stdout.splitlines() if line.startswith("Remv ")]
    others = sorted(set(going) - set(efa.conflicts(going, efa.OWN_PACKAGES)))
    if plan.returncode or others:
        raise efa.EfaError(
            f"apt-get check fails, and its repair would remove {', '.join(others) or 'something'}:"
            f" {_last(plan)}. Remedy:"
            " repair the packages by hand (apt-get --fix-broken install)"
        )
    done = run([*fix, "install"], seconds)
    if done.returncode:
        raise efa.EfaError(
            f"apt-get --fix-broken install: exit {done.returncode}: {_last(done)}. Remedy: correct that and run"
            " this again"
        )


def remove_packages(family: str, names: t.Sequence[str], patterns: t.Sequence[str]) -> list[str]:
    """Remove the distribution's MPI, and return what was removed.

    Raises EfaError where something else would go with it: that is for a person to decide.
    """
    if family != "debian":
        done = run(["dnf", "--assumeyes", "--noautoremove", "remove", *names], 600)
        if done.returncode:
            raise efa.EfaError(
                f"dnf remove {' '.join(names)}: exit {done.returncode}. Remedy: remove them by hand"
            )
        return list(names)
    done = run(["apt-get", "--simulate", "--yes", "remove", *names], 120)
    going = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("Remv ")]
    others = sorted(set(going) - set(efa.conflicts(going, patterns)))
    if done.returncode or others:
        raise efa.EfaError(
            f"the removal of {', '.join(names)} would also remove {', '.join(others) or 'other packages'}."
            " Remedy: remove"
            f" them by hand (apt-get remove {' '.join(names)})"
        )
    done = run(["apt-get", "--yes", "-oDPkg::Lock::Timeout=300", "remove", *names], 600)
    if done.returncode:
        raise efa.EfaError(
            f"apt-get remove: exit {done.returncode}: {_last(done)}. Remedy: correct that and run this again"
        )
    return going
