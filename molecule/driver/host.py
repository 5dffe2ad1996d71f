# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""This machine: what it offers to containers, and how podman is called on it."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from driver.layout import LocalError

RUN_DIR = Path("/run/trainwright")
NAMESPACE = RUN_DIR / "ns" / "mnt"
_LIMITS = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
_WANTED_LIMIT = 1048576  # podman's own default, which it requires unless configured otherwise
_PID_MAX = Path("/proc/sys/kernel/pid_max")
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
_INOTIFY_PER_CONTAINER = 12  # systemd, journald, logind, dbus and cron; 6 to 9 were counted
_TOOLS = ("podman", "crun", "nsenter", "unshare", "ssh", "ssh-keygen", "ip", "prlimit")


def run(
    argv: Sequence[str | Path],
    check: bool = True,
    input: str | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command and capture its output as text; LocalError when it fails and `check` is set."""
    command = [str(part) for part in argv]
    result = subprocess.run(
        command, input=input, capture_output=True, text=True, timeout=timeout, check=False
    )
    if check and result.returncode:
        said = (result.stderr or result.stdout).strip().splitlines()[-1:]
        raise LocalError(f"`{' '.join(command)}` ended with {result.returncode}: {''.join(said)}")
    return result


def check_host() -> None:
    """Raise LocalError unless this machine and this user can run system containers."""
    if os.geteuid() != 0:
        raise LocalError("system containers need root; run it with sudo (make does so by itself)")
    missing = [tool for tool in _TOOLS if not shutil.which(tool)]
    if missing:
        raise LocalError(f"not installed: {', '.join(missing)}; run make dev first")


def has_pure_cgroup2(mountinfo: str) -> bool:
    """Whether /sys/fs/cgroup is one cgroup2 tree, given the text of /proc/self/mountinfo."""
    kinds = [
        fields[fields.index("-") + 1]
        for fields in map(str.split, mountinfo.splitlines())
        if fields[4] == "/sys/fs/cgroup"
    ]
    return kinds[-1:] == ["cgroup2"]  # the last mount on a path is the visible one


def is_namespace_mounted(mountinfo: str, path: Path) -> bool:
    """Whether a namespace file is pinned at `path`, given the text of /proc/self/mountinfo."""
    return any(
        fields[4] == str(path) and fields[fields.index("-") + 1] == "nsfs"
        for fields in map(str.split, mountinfo.splitlines())
    )


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold this machine's lock `name`, so that two clusters can be built at the same time."""
    RUN_DIR.mkdir(parents=True, exist_ok=True)
    with open(RUN_DIR / f"{name}.lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def prefix() -> list[str]:
    """Prefix of `podman`: nothing, or entering the namespace with a pure cgroup2 view.

    crun refuses hybrid cgroups (v1 and v2 mounted together). The namespace is kept, because
    podman's network namespaces are bind mounts inside it.
    """
    mountinfo = Path("/proc/self/mountinfo")
    if has_pure_cgroup2(mountinfo.read_text(encoding="utf-8")):
        return []
    with locked("ns"):
        if not is_namespace_mounted(mountinfo.read_text(encoding="utf-8"), NAMESPACE):
            _make_namespace()
    return ["nsenter", f"--mount={NAMESPACE}", "--wd=/"]


def _make_namespace() -> None:
    parent = NAMESPACE.parent
    parent.mkdir(parents=True, exist_ok=True)
    # A mount namespace can only be pinned below a private mount.
    run(["mount", "--bind", parent, parent])
    run(["mount", "--make-private", parent])
    NAMESPACE.touch()
    view = "umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup"
    run(["unshare", f"--mount={NAMESPACE}", "--propagation", "private", "sh", "-c", view])


def podman(
    *argv: str | Path,
    check: bool = True,
    input: str | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run podman with absolute paths only: entering the namespace leaves the working directory."""
    return run([*prefix(), "podman", *argv], check=check, input=input, timeout=timeout)


@cache
def ulimit_flags() -> list[str]:
    """--ulimit flags for what this host cannot raise; none where podman's defaults work."""
    flags = []
    for name, number in _LIMITS.items():
        wanted = f"--{name}={_WANTED_LIMIT}:{_WANTED_LIMIT}"
        if run(["prlimit", wanted, "true"], check=False).returncode:
            limit = resource.getrlimit(number)[1]
            if name == "nproc":
                # podman itself goes down to the number of process ids before it starts crun.
                limit = min(limit, int(_PID_MAX.read_text(encoding="utf-8")))
            flags.append(f"--ulimit={name}={limit}:{limit}")
    return flags


def allow_containers(count: int) -> None:
    """Have room for `count` system containers in the kernel's table of inotify instances.

    The default of 128 is used up by about 20; further ones would start without their journal.
    The setting is only ever raised, and is back at its default after the next boot.
    """
    needed = 64 + count * _INOTIFY_PER_CONTAINER
    if int(_INOTIFY.read_text(encoding="utf-8")) >= needed:
        return
    try:
        _INOTIFY.write_text(f"{needed}\n", encoding="utf-8")
    except OSError as error:
        raise LocalError(
            f"{count} containers need fs.inotify.max_user_instances={needed}, which cannot be set "
            f"here ({error.strerror}); use a smaller COMPUTE, or set it by sysctl"
        ) from error
