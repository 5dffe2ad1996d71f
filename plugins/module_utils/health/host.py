# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The node as its checks see it: configuration, files, tools with a deadline, and what earlier cycles remembered.

Runs on nodes: Python 3.9. Places are the host's own, or fixtures that root's file PLACES names.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import stat
import subprocess
import time
import typing as t
from dataclasses import dataclass, field

from ..node.machine import real_uid

CONFIG = "/etc/trainwright/health.json"
#: Root's own file that points at fixtures: {"root": DIRECTORY, "tools": [DIRECTORY]}. Absent on a real node.
PLACES = "/etc/trainwright/health-places.json"
TOOLS = ("/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin", "/opt/slurm/bin")
#: Bytes of a tool's output that are read; one that writes more is ended.
MOST_OUTPUT = 1024 * 1024


class ConfigError(ValueError):
    """A file of configuration that cannot be used: where, why, remedy."""


@dataclass(frozen=True)
class Output:
    """The answer of a tool. problem: "" or why it gave no answer (missing, slow, too long)."""

    code: int = 0
    text: str = ""
    problem: str = ""


@dataclass
class Host:
    """One node. config: what role node_health wrote. memory: plain data that the last cycles left."""

    config: dict[str, t.Any]
    memory: dict[str, t.Any] = field(default_factory=dict)
    root: str = "/"
    tools: tuple[str, ...] = TOOLS
    context: str = "idle"
    #: Data that this cycle leaves for the next one, by name.
    remembered: dict[str, t.Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the node in Slurm."""
        return str(self.config.get("node", ""))

    @property
    def declared(self) -> dict[str, t.Any]:
        """The hardware of its machine type; {} without one."""
        return self.config.get("declared") or {}

    def expected(self, name: str) -> int:
        """Return how many of something are declared, 0 for none."""
        value = self.declared.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def unverified(self, *names: str) -> bool:
        """Whether no source confirms one of these fields of the machine type: a check warns and does not fail."""
        return bool(set(names) & set(self.declared.get("unverified") or ()))

    # -- files -----------------------------------------------------------------------------------
    def path(self, path: str) -> str:
        """Return where a path of the host is."""
        return path if self.root == "/" else os.path.join(self.root, path.lstrip("/"))

    def read(self, path: str) -> str | None:
        """Return the text of a file without blanks around it, None where it cannot be read."""
        try:
            with open(self.path(path), encoding="utf-8", errors="replace") as file:
                return file.read(MOST_OUTPUT).strip()
        except OSError:
            return None

    def entries(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none where it is missing."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Whether a path is there."""
        return os.path.exists(self.path(path))

    def uptime(self) -> float:
        """Seconds since boot."""
        try:
            return float((self.read("/proc/uptime") or "").split()[0])
        except (IndexError, ValueError):
            return 1e9

    def boot_id(self) -> str:
        """Return the kernel's name of this boot."""
        return self.read("/proc/sys/kernel/random/boot_id") or ""

    def has_jobs(self) -> bool:
        """Whether a step of a job runs here, by the title of a slurmstepd of root's: any user can take that title.

        The slurmstepd that keeps the scope of the steps alive has another one (Slurm: cgroup/v2).
        """
        return any(
            (self.read(f"/proc/{pid}/cmdline") or "").startswith("slurmstepd: [")
            and real_uid(self.read(f"/proc/{pid}/status") or "") == 0
            for pid in self.entries("/proc")
            if pid.isdigit()
        )

    # -- tools -----------------------------------------------------------------------------------
    def tool(self, name: str) -> str | None:
        """Return the path of a tool, None where it is not installed."""
        for directory in self.tools:
            path = os.path.join(directory, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        return None

    def run(self, name: str, *arguments: str, timeout: float = 10) -> Output:
        """Run a tool without a shell, in C.UTF-8, and return what it printed on both streams."""
        path = name if os.path.isabs(name) else self.tool(name)
        if path is None:
            return Output(127, "", f"{name} is not installed")
        try:
            process = subprocess.Popen(
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={"PATH": os.pathsep.join(self.tools), "LC_ALL": "C.UTF-8", "TZ": "UTC"},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            return Output(126, "", f"{path}: {error.strerror}")
        return _collect(process, name, timeout)


def _collect(process: subprocess.Popen[bytes], name: str, timeout: float) -> Output:
    """Read a tool to its end, at most for so long and so much."""
    until, data, problem = time.monotonic() + timeout, b"", ""
    if process.stdout is None:
        raise ValueError("the tool was started without a pipe")
    handle = process.stdout.fileno()
    with process.stdout, selectors.DefaultSelector() as waiting:
        waiting.register(handle, selectors.EVENT_READ)
        while True:
            left = until - time.monotonic()
            if left <= 0 or not waiting.select(left):
                problem = f"{name}: did not answer within {timeout:g} s"
                break
            part = os.read(handle, 65536)
            if not part:
                break
            data += part
            if len(data) > MOST_OUTPUT:
                problem = f"{name}: printed more than {MOST_OUTPUT} bytes"
                break
    if problem:
        end_group(process.pid)
    try:
        code = process.wait(max(0.2, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        end_group(process.pid)
        return Output(-1, "", problem or f"{name}: did not end within {timeout:g} s")
    return Output(code, data.decode("utf-8", "replace"), problem)


def end_group(pid: int) -> None:
    """Kill a process that leads its group, and the group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


# -- configuration ---------------------------------------------------------------------------------
def roots_json(path: str) -> dict[str, t.Any]:
    """Return a file of JSON that only root can have written. Raises ConfigError, and OSError for a missing one."""
    with open(path, encoding="utf-8") as file:
        info = os.fstat(file.fileno())
        if info.st_uid != 0 or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigError(
                f"{path}: others than root can write it -> chown root and chmod 0644, and look at what it says"
            )
        try:
            found = json.load(file)
        except ValueError as error:
            raise ConfigError(f"{path}: {error} -> run site.yml, which writes it") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: is not a mapping -> run site.yml, which writes it")
    return found


def this_host(context: str, memory: dict[str, t.Any]) -> Host:
    """Return this node as role node_health configured it. Raises ConfigError."""
    try:
        config = roots_json(CONFIG)
    except OSError as error:
        raise ConfigError(
            f"{CONFIG}: {error.strerror} -> run site.yml with this node in slurm_node_health"
        ) from error
    if not re.fullmatch(r"[\w.-]{1,253}", str(config.get("node", ""))):
        raise ConfigError(f"{CONFIG}: node is not a name -> run site.yml, which writes it")
    host = Host(config, memory, context=context)
    try:
        places = roots_json(PLACES)
    except OSError:
        return host
    host.root = str(places.get("root") or "/")
    host.tools = tuple(str(path) for path in places.get("tools") or ()) or TOOLS
    return host
