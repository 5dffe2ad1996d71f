# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a described job cannot run on this cluster, as far as that is known before. Runs on nodes: Python 3.9."""

from __future__ import annotations

import os
import re
import typing as t

from ...slurm.batch import shell
from ...slurm.batch.script import parse
from ..job.schema import Job
from . import context, environment_fit
from .rules import RULES
from .storage_rules import script_of

#: Rules whose findings refuse a job.
_RULES = ("container-without-pyxis", "job-unknown")


def faults(
    job: Job,
    script: str,
    transport: t.Any = None,
    files: t.Collection[str] | None = None,
    config: str = context.CONFIG,
) -> list[str]:
    """Return why the cluster cannot run a job, a line each.

    script: its batch script. transport: of the Slurm client, to ask for the jobs that it waits for. files: those that
    are copied into its workdir when it is submitted; None where that is not known.
    """
    try:
        known = context.known_job(transport) if transport else None
        cluster = context.cluster(config=config, job_known=known)
    except ValueError as error:
        return [f"job {job.name}: {error}"]
    read = parse(script)
    found = [
        f"job {job.name}: {what} -> {remedy}"
        for name in _RULES
        for _line, what, remedy in RULES[name].find(read, cluster)
    ]
    found += environment_fit.faults(job, cluster.mounts or ())
    return found + unusable_program(job, files)


def unusable_program(job: Job, files: t.Collection[str] | None = None) -> list[str]:
    """Return a line for the script that a job runs where it does not exist on this host, or cannot be run.

    One in a container, or in a place that the job makes first, is not looked for.
    """
    if job.container or job.pre or job.launcher == "batch":
        return []
    commands = shell.parse(job.command).commands
    words = [shell.plain(word.text) for word in commands[0].words] if commands else []
    path = (
        words[0] if words and re.fullmatch(r"[\w./@+ -]+\.(py|sh)", words[0]) else script_of(words)
    )
    if not path or (not os.path.isabs(path) and (files is None or not job.workdir)):
        return []
    whole = os.path.normpath(os.path.join(job.workdir, path))
    copied = {
        os.path.join(job.workdir, os.path.basename(one.rstrip("/"))): one for one in files or ()
    }
    # The file that is copied keeps its mode; one on the control node is not here.
    source = copied.get(whole, whole)
    if os.path.exists(source):
        executed = job.launcher in ("srun", "mpirun") and path == words[0]
        why = _unusable(source, executed)
        return [f"job {job.name}: {why}"] if why else []
    if any(whole == one or whole.startswith(f"{one}/") for one in copied):
        return []
    return [
        f"job {job.name}: {whole} does not exist here, and no file of train_files becomes it"
        " -> correct the path, or copy it with train_files"
    ]


def _unusable(path: str, executed: bool) -> str:
    """Return why this user cannot run a program that is there. executed: as a command, and not by Python."""
    if os.path.isdir(path) and not executed and os.path.isfile(os.path.join(path, "__main__.py")):
        return ""
    if not os.path.isfile(path):
        return f"{path} is not a file -> give the path of a program"
    if not os.access(path, os.R_OK, effective_ids=True):
        return f"{path} cannot be read by you -> ask its owner for the right (chmod, setfacl)"
    if executed and not os.access(path, os.X_OK, effective_ids=True):
        return f"{path} is not executable -> chmod +x {path}, or name the program that runs it: bash {path}"
    return ""
