# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Find slurm.conf, the version that reads it and what it includes; change it and report how to apply the change.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import typing as t
from collections.abc import Callable, Mapping

from ...node import files, slurm_places
from ..client.cli import DIRECTORIES
from ..errors import SlurmError
from . import edit, messages, syntax

FILES = ("slurm.conf", "gres.conf", "cgroup.conf", "slurmdbd.conf")
#: run(argv) -> (exit status, stdout, stderr)
Run = Callable[[list[str]], tuple[int, str, str]]
#: Search path of slurm.conf, after SLURM_CONF; /opt/slurm is that of ParallelCluster.
_CONFIG = ("/etc/slurm", "/opt/slurm/etc", "/usr/local/etc", "/etc/slurm-llnl")
_PROGRAMS = {"slurmdbd.conf": ("slurmdbd",)}
_STEPS = {
    "reconfigure": ("scontrol reconfigure",),
    "restart": ("systemctl restart slurmctld, on each controller",),
}
_NODES = "systemctl restart slurmd, on each node"


def find(params: Mapping[str, t.Any], environment: Mapping[str, str]) -> tuple[str, str]:
    """Return (path, kind of file) of what is to be edited. Raises SlurmError: missing."""
    path, file = params.get("path"), params.get("file")
    if path:
        base = os.path.basename(path)
        file = file or (base if base in FILES else "slurm.conf")
        tried = [path]
    else:
        file = file or "slurm.conf"
        prefix = params.get("slurm_prefix")
        places = [os.path.dirname(environment["SLURM_CONF"])] if "SLURM_CONF" in environment else []
        places += _CONFIG
        if prefix:
            places = [os.path.join(prefix, "etc"), os.path.join(prefix, "etc/slurm")]
        tried = [os.path.join(place, file) for place in places]
        if file == "slurm.conf" and environment.get("SLURM_CONF") and not prefix:
            tried[0] = environment["SLURM_CONF"]
    for candidate in tried:
        if os.path.isfile(candidate):
            return os.path.realpath(candidate), file
    raise SlurmError("missing", f"there is no {' nor '.join(tried)} -> give its path")


def find_program(names: tuple[str, ...], path: str, prefix: str | None) -> str | None:
    """Return the first of the programs, of the installation that the file belongs to."""
    near = os.path.dirname(os.path.dirname(path))
    roots = [prefix] if prefix else ([near] if os.path.isdir(os.path.join(near, "bin")) else [])
    places = [os.path.join(root, part) for root in roots for part in ("sbin", "bin")]
    if not prefix:
        places += [*os.environ.get("PATH", "").split(os.pathsep), *DIRECTORIES]
        places += slurm_places.command_directories()
    for name in names:
        found = shutil.which(name, path=os.pathsep.join(filter(None, places)))
        if found:
            return found
    return None


def find_version(params: Mapping[str, t.Any], file: str, path: str, run: Run) -> str:
    """Return the version whose options are valid. Raises SlurmError: missing."""
    if params.get("version"):
        return str(params["version"])
    names = _PROGRAMS.get(file, ("slurmctld", "scontrol", "slurmd"))
    program = find_program(names, path, params.get("slurm_prefix"))
    said = run([program, "-V"])[1] if program else ""
    match = re.search(r"\d+\.\d+\S*", said)
    if not match:
        raise SlurmError(
            "missing",
            f"there is no {' or '.join(names)} here to ask for the version -> give version, such as "
            "24.11, or slurm_prefix",
        )
    return match[0]


def read(path: str) -> str:
    """Return the text of a file. Raises SlurmError."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as handle:
            return handle.read()
    except OSError as error:
        kind: t.Literal["denied", "invalid"] = (
            "denied" if isinstance(error, PermissionError) else "invalid"
        )
        raise SlurmError(
            kind, f"{path}: {error.strerror} -> run as root, or correct the path"
        ) from error


def includes(path: str, text: str) -> dict[str, str]:
    """Return path -> text of what a file includes, and what that includes."""
    out: dict[str, str] = {}
    cluster = syntax.parse(text).get("ClusterName")
    waiting = [text]
    while waiting:
        for name in syntax.parse(waiting.pop()).includes:
            found = os.path.join(os.path.dirname(path), name.replace("%c", cluster))
            if found not in out:
                out[found] = read(found)
                waiting.append(out[found])
    return out


class Edit:
    """One run of the module: the current file, the wanted one, and how to apply it."""

    def __init__(self, params: Mapping[str, t.Any], run: Run) -> None:
        """Reads only. Raises SlurmError for what cannot be, before anything is written."""
        self.path, self.file = find(params, os.environ)
        self.version = find_version(params, self.file, self.path, run)
        self.old = read(self.path)
        self._params, self._run = params, run
        changes = edit.wanted(params, self.file)
        refused = edit.unknown(changes, self.version, self.file)
        if refused:
            said = "; ".join(f"{name}: {reason}" for name, reason in refused)
            raise SlurmError("unknown", f"{said} -> correct the name, or give the right version")
        try:
            others = includes(self.path, self.old) if self.file == "slurm.conf" else {}
            self.new = edit.edit(self.old, changes, self.file, others)
            self._decide(list(others.values()))
        except syntax.ConfError as error:
            raise SlurmError("invalid", f"{self.path}: {error} -> correct it by hand") from error
        if self.new != self.old and self.file == "slurm.conf" and not others:
            self._check_by_slurm()

    def _decide(self, others: list[str]) -> None:
        old, new = (syntax.parse(text, self.file) for text in (self.old, self.new))
        self.decision = syntax.decide(old, new, self.version, self.file)
        if self.file != "slurm.conf":
            return
        rest = [syntax.parse(text) for text in others]
        before, after = (edit.undefined([conf, *rest]) for conf in (old, new))
        for line, names in after.items():
            lost = [name for name in names if name not in before.get(line, [])]
            if lost:
                raise SlurmError(
                    "invalid",
                    f"{line} names nodes that no NodeName line has: {', '.join(lost)} -> slurmctld "
                    "would not start: give them under nodes, or remove them from the line",
                )

    def _check_by_slurm(self) -> None:
        program = find_program(("scontrol",), self.path, self._params.get("slurm_prefix"))
        said = messages.parser_says(self.new, program, self._run) if program else ""
        if said and not messages.parser_says(self.old, program or "", self._run):
            raise SlurmError(
                "invalid",
                f"nothing was written; Slurm cannot read it so: {said} -> correct the value",
            )

    @property
    def changed(self) -> bool:
        return self.new != self.old

    @property
    def refused(self) -> str:
        """Why a live cluster must not get this change; "" where it may, or was allowed to."""
        said = [r for r in self.decision.reasons if r[3] == "refuse"]
        if not said or self._params.get("allow_refused"):
            return ""
        return (
            "nothing was written; on a live cluster this loses jobs or their records: "
            + "; ".join(f"{name} ({self._why(name, action)})" for name, _o, _n, action in said)
            + " -> stop all jobs, then run again with allow_refused: true"
        )

    def _why(self, name: str, action: str) -> str:
        return syntax.why(name, action, self.version, self.file)

    def result(self) -> dict[str, t.Any]:
        """Return the result of slurm_conf: what changed, what applies it, and why."""
        action = self.decision.action
        if action == "refuse" and not self.refused:
            action = "restart"
        shown = [
            ("(hidden)", "(hidden)") if name in edit.SECRET else (old, new)
            for name, old, new, _action in self.decision.reasons
        ]
        return {
            "changed": self.changed,
            "path": self.path,
            "file": self.file,
            "version": self.version,
            "action": action,
            "slurmd_restart": self.decision.slurmd_restart,
            "reasons": [
                dict(parameter=name, old=old, new=new, action=needed, why=self._why(name, needed))
                for (name, _o, _n, needed), (old, new) in zip(self.decision.reasons, shown)
            ],
            "next_steps": self._steps(action),
        }

    def _steps(self, action: str) -> list[str]:
        if self.file == "slurmdbd.conf":
            return ["systemctl restart slurmdbd"] if action != "none" else []
        steps = list(_STEPS.get(action, ()))
        if self.decision.slurmd_restart and steps:
            steps.append(_NODES)
        elif action == "restart":
            # Only this, or the start of a slurmd, hands the file to the nodes of a configless cluster.
            steps += _STEPS["reconfigure"]
        return steps

    def diff(self) -> dict[str, str]:
        """Return both texts without passwords."""
        before, after = (edit.File(text, self.file).shown for text in (self.old, self.new))
        return dict(before_header=self.path, after_header=self.path, before=before, after=after)

    def write(self) -> None:
        """Put the new file in the place of the old one, with its owner and mode."""
        info = os.stat(self.path)
        data = self.new.encode("utf-8", errors="surrogateescape")
        change = files.Change(self.path, "file", data, uid=info.st_uid, gid=info.st_gid)
        change.mode = stat.S_IMODE(info.st_mode)
        files.apply(change)
