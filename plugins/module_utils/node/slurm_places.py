# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where Slurm is on a host, also one that somebody else manages, and what its slurm.conf runs.

Runs on nodes: Python 3.9. Every reader takes the root of the file system, so that files can replace a machine.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import pwd
import re
import subprocess
import typing as t

from .machine import read
from .safe_path import UnsafePathError
from .trusted_path import responsible

#: The usual prefixes; /opt/slurm is that of ParallelCluster and HyperPod.
PREFIXES = ("/usr", "/opt/slurm", "/usr/local", "/usr/local/slurm", "/opt/slurm/current")
#: PCS has several releases on one image, each with a directory of its own for configuration.
PCS = "/opt/aws/pcs/scheduler"
_PCS_CONFIG = "/etc/aws/pcs/scheduler"
#: A file that only a manager of this kind writes, when it sets a host up. Its images have others.
_MANAGERS = {
    "parallelcluster": "/etc/parallelcluster/cfnconfig",
    "hyperpod": "/opt/ml/config/resource_config.json",
}
#: Prefixes that are believed without being given: none below a directory of users.
PREFIX_PATTERN = r"/usr|/opt(?:/(?!\.)[\w.+-]+)+|/usr/local(?:/(?!\.)[\w.+-]+)*"
CONFIG_PATTERN = rf"/etc/slurm|{_PCS_CONFIG}/slurm-[\w.]+|(?:{PREFIX_PATTERN})/etc"
_DAEMONS = ("slurmd", "slurmctld", "slurmdbd", "sackd")
_PROGRAMS = ("sbin/slurmd", "sbin/slurmctld", "sbin/slurmdbd", "sbin/sackd", "bin/sinfo")
_INCLUDES = 4
# The name of an option with its sign.
_NAME = re.compile(r"[\w.]+\s*[-*+/]?=\s*")
#: The copy of what slurmctld has last taken (module slurmctld_config).
ACCEPTED = "/var/lib/trainwright/applied/slurm.conf"
_MOST = 1 << 26
#: Where slurmd and sackd keep what slurmctld sends them.
FETCHED = ("/run/slurm/conf/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf")


def _below(root: str, path: str) -> str:
    return os.path.join(root, path.lstrip("/"))


def _program(process: str) -> str:
    """Return the path of a process's program; "" for one in another view of the file system."""
    try:
        program = os.readlink(os.path.join(process, "exe"))
        return program if os.path.samefile(os.path.join(process, "exe"), program) else ""
    except PermissionError:
        # Only root may read the link of a daemon; the command line has the path that systemd started.
        with contextlib.suppress(OSError), open(os.path.join(process, "cmdline"), "rb") as file:
            return os.fsdecode(file.read().split(b"\0")[0])
    except OSError:
        pass
    return ""


def _only_roots(path: str) -> bool:
    """Whether nobody else than root decides what a path leads to."""
    try:
        return os.path.isfile(path) and responsible(path) == 0
    except (OSError, UnsafePathError):
        return False


def running_prefixes(proc: str = "/proc") -> list[str]:
    """Return the prefixes of the Slurm daemons that run here, those of slurmd first.

    Only of processes of root and of the user slurm, whose program is root's: a user can call a program slurmd.
    """
    users = {0}
    with contextlib.suppress(KeyError):
        users.add(pwd.getpwnam("slurm").pw_uid)
    found = []
    for process in glob.glob(os.path.join(proc, "[0-9]*")):
        try:
            if os.stat(process).st_uid not in users:
                continue
            with open(os.path.join(process, "comm"), encoding="utf-8", errors="replace") as file:
                name = file.read().strip()
        except OSError:
            continue
        if name not in _DAEMONS:
            continue
        program = _program(process)
        directory = os.path.dirname(program)
        if os.path.basename(directory) == "sbin" and _only_roots(program):
            found.append((_DAEMONS.index(name), os.path.dirname(directory)))
    return list(dict.fromkeys(prefix for _order, prefix in sorted(found)))


def _releases(root: str) -> list[str]:
    """Return the prefixes of PCS, the newest release first."""
    found = glob.glob(_below(root, f"{PCS}/slurm-[0-9]*"))
    return sorted((f"{PCS}/{os.path.basename(path)}" for path in found), reverse=True)


def prefixes(root: str = "/", given: str = "") -> list[str]:
    """Return the prefixes that have Slurm, the one to use first.

    The order: a running daemon's, that of a command in PATH, the usual ones, PCS' newest. One that is given is the
    only one.
    """
    here = root == "/"
    running = running_prefixes() if here else []
    named = os.environ.get("PATH", "").split(os.pathsep) if here else []
    path = [os.path.dirname(name) for name in named if os.path.basename(name) in ("bin", "sbin")]
    # /bin is a link to /usr/bin.
    candidates = [given] if given else [*running, *path, *PREFIXES, *_releases(root)]
    return [
        prefix
        for prefix in dict.fromkeys(one.rstrip("/") for one in candidates)
        if (given or re.fullmatch(PREFIX_PATTERN, prefix))
        and any(os.path.exists(_below(root, f"{prefix}/{name}")) for name in _PROGRAMS)
    ]


def command_directories() -> list[str]:
    """Return the directories that may have Slurm's commands here, apart from PATH."""
    return [os.path.join(prefix, part) for prefix in prefixes() for part in ("bin", "sbin")]


def _config_dir(prefix: str, root: str) -> str:
    def exists(path: str) -> bool:
        return os.path.exists(_below(root, path))

    if prefix.startswith(f"{PCS}/"):
        own = f"{_PCS_CONFIG}/{os.path.basename(prefix)}"
        if exists(own):
            return own
    if prefix != "/usr" and exists(prefix + "/etc") and not exists("/etc/slurm/slurm.conf"):
        return prefix + "/etc"
    return "/etc/slurm"


def slurm_places(root: str = "/", given: str = "") -> dict[str, str]:
    """Where Slurm is installed; the places it will have where it is not yet. given: its prefix, "" to look."""
    prefix = next(iter(prefixes(root, given)), given.rstrip("/") or "/usr")
    plugin_dir = ""
    for pattern in ("lib/*/slurm-wlm", "lib/*/slurm", "lib64/slurm", "lib/slurm"):
        for path in sorted(glob.glob(os.path.join(_below(root, prefix), pattern))):
            if glob.glob(os.path.join(path, "auth_*.so")):
                plugin_dir = plugin_dir or "/" + os.path.relpath(path, root)
    return {
        "prefix": prefix,
        "sbin": prefix + "/sbin",
        "config_dir": _config_dir(prefix, root),
        "plugin_dir": plugin_dir,
    }


def manager(prefix: str, root: str = "/") -> str:
    """Return who manages this host's Slurm, "parallelcluster", "pcs" or "hyperpod"; "" if none of them."""
    for name, path in _MANAGERS.items():
        if os.path.exists(_below(root, path)):
            return name
    return "pcs" if prefix.startswith(f"{PCS}/") else ""


def conf_text(path: str, root: str = "/", depth: int = _INCLUDES) -> str:
    """Return a configuration file with the files that it includes; "" for one that cannot be read."""
    lines = []
    for line in read(_below(root, path)).splitlines():
        match = re.match(r"\s*include\s+(\S+)", line, re.IGNORECASE)
        if match and depth:
            name = os.path.join(os.path.dirname(path), match.group(1))
            lines.append(conf_text(name, root, depth - 1))
        else:
            lines.append(line)
    return "\n".join(lines)


def slurm_conf(config_dir: str, root: str = "/") -> str:
    """Return slurm.conf of this host with what it includes: its own, else the one that its daemon fetched."""
    for path in (f"{config_dir}/slurm.conf", *FETCHED):
        text = conf_text(path, root)
        if text:
            return text
    return ""


def own_conf(config_dir: str, root: str = "/") -> str:
    """Return the path of this host's own slurm.conf; "" without one, or where it leads to the fetched one."""
    path = f"{config_dir}/slurm.conf"
    place = _below(root, path)
    if not os.path.lexists(place):
        return ""
    with contextlib.suppress(OSError):
        if os.readlink(place) in FETCHED:
            return ""
    if os.path.realpath(place) in {os.path.realpath(_below(root, one)) for one in FETCHED}:
        return ""
    return path


def is_packaged(path: str) -> bool:
    """Whether a file is as an RPM brings it. Some have a slurm.conf, of a cluster that is nobody's."""
    form = "[%{FILENAMES}\t%{FILEDIGESTS}\n]"
    try:
        told = subprocess.run(
            ["rpm", "-qf", "--qf", form, path], capture_output=True, text=True, check=True
        ).stdout
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read(_MOST)).hexdigest()
    except (OSError, subprocess.CalledProcessError):
        return False
    return f"{path}\t{digest}" in told.splitlines()


def conf_words(text: str) -> list[str]:
    """Return the lines of a slurm.conf without what Slurm does not heed: comments, order, blanks, capitals of names."""
    lines = re.sub(r"(?m)(?<!\\)#.*$", "", text).replace("\\\n", " ").splitlines()
    named = (_NAME.sub(lambda name: "".join(name[0].split()).lower(), line) for line in lines)
    return sorted(" ".join(sorted(line.split())) for line in named if line.strip())


def conf_digests(config_dir: str, root: str = "/") -> dict[str, str]:
    """Return digests of the words of three slurm.conf.

    They are the one that slurmctld last took from a run here, the one in the configuration directory, and the one
    that was fetched from slurmctld.
    """
    return {
        "conf_accepted": _digest_of_first([ACCEPTED], root),
        "conf_written": _digest_of_first([f"{config_dir}/slurm.conf"], root),
        "conf_fetched": _digest_of_first(FETCHED, root),
    }


def _digest_of_first(paths: t.Iterable[str], root: str) -> str:
    """Return the SHA-256 of the words of the first of these files that can be read, "" without one."""
    for path in paths:
        with contextlib.suppress(OSError), open(_below(root, path), "rb") as file:
            text = file.read(_MOST).decode("utf-8", "surrogateescape")
            words = "\n".join(conf_words(text))
            return hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()
    return ""


def scripts(conf: str, name: str) -> list[str]:
    """Return the values of an option with a path in slurm.conf; Prolog and Epilog may have several."""
    pattern = rf"^[ \t]*{name}[ \t]*=[ \t]*([^\s#]+)"
    return re.findall(pattern, conf, re.IGNORECASE | re.MULTILINE)
