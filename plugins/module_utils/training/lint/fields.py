# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Turns the #SBATCH lines of a batch script into the keys of a description. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import os
import re
import typing as t

from ...slurm.batch.options import PYXIS
from ...slurm.batch.request import gpus_of
from ...slurm.batch.script import Script
from ..job.schema import FIELDS

Json = dict[str, t.Any]


class Correction(t.NamedTuple):
    """Something of the script that the description does not have, or has otherwise. line: in the script."""

    line: int
    what: str
    why: str


class Fields:
    """A description that is being made."""

    def __init__(self, script: Script, name: str, workdir: str) -> None:
        """name: for a script that does not name its job. workdir: where sbatch is run, if that is known."""
        self.script = script
        self.workdir = workdir
        self.job: Json = {"name": name}
        self.corrections: list[Correction] = []
        self.container: Json = {}

    def correct(self, line: int, what: str, why: str) -> None:
        """Note something that the description does not have, or has otherwise."""
        self.corrections.append(Correction(line, what, why))

    def directives(self) -> None:
        """Take over what the #SBATCH lines ask for."""
        if self.workdir and self.script.value("chdir") is None:
            self.job["workdir"] = self.workdir
        for one in self.script.directives:
            if one.name in PYXIS:
                self.contain(one.name, one.value)
                self.correct(
                    one.line, f"--{one.name}", "is given to the training, not to the batch script"
                )
            else:
                self.ask(one.name, one.value)

    def ask(self, name: str, value: str | None) -> None:
        """Take over an option of sbatch."""
        if name == "gres":
            gpus = gpus_of(value or "")
            rest = [item for item in (value or "").split(",") if gpus_of(item) is None]
            if gpus:
                self.job["gpus_per_node"] = gpus
            if rest:
                self.job.setdefault("sbatch_options", {})["gres"] = ",".join(rest)
        elif name == "exclusive" and not value:
            self.job["exclusive"] = True
        elif name == "dependency" and value == "singleton":
            self.job["singleton"] = True
        elif name in ("output", "error") and re.search(r"\$|^~", value or ""):
            directive = self.script.directive(name)
            line = directive.line if directive else 1
            self.correct(
                line, f"--{name}={value}", "is not a path, since no shell expands it there"
            )
        elif name == "chdir" and not os.path.isabs(value or ""):
            self._relative(value or "")
        elif name in FIELDS and name != "exclusive":
            self.job[FIELDS[name]] = value
            directory = os.path.dirname(value or "") if name == "output" else ""
            if os.path.isabs(directory) and "%" not in directory and directory != "/dev":
                self.job["logs"] = directory
        else:
            self.job.setdefault("sbatch_options", {})[name] = True if value is None else value
        if name == "requeue" and self.script.value("open-mode") is None:
            self.job["sbatch_options"]["open-mode"] = "append"

    def name(self) -> None:
        """Give the job a name that a description can have."""
        given = str(self.job["name"])
        self.job["name"] = re.sub(r"[^\w.@+-]+", "-", given).strip("-") or "job"
        if self.job["name"] != given:
            directive = self.script.directive("job-name")
            line = directive.line if directive else 1
            self.correct(line, f"--job-name={given}", f"becomes {self.job['name']}")

    def _relative(self, path: str) -> None:
        """Take a directory that is relative to the one in which sbatch is run."""
        directive = self.script.directive("chdir")
        if self.workdir:
            self.job["workdir"] = os.path.normpath(os.path.join(self.workdir, path))
        else:
            self.correct(
                directive.line if directive else 1,
                f"--chdir={path}",
                "is relative to the directory in which sbatch is run: give it as workdir",
            )

    def contain(self, name: str, value: str | None) -> None:
        """Take over an option of Pyxis."""
        short = name.replace("no-", "", 1).replace("container-", "", 1).replace("-", "_")
        if name == "container-mounts":
            self.container["mounts"] = (value or "").split(",")
        elif name in ("container-image", "container-workdir", "container-name"):
            self.container[short] = value
        elif name in ("container-writable", "container-readonly"):
            self.container["writable"] = name == "container-writable"
        elif short in ("mount_home", "remap_root", "entrypoint"):
            self.container[short] = not name.startswith("no-")
        else:
            self.job.setdefault("srun_options", {})[name] = True if value is None else value
