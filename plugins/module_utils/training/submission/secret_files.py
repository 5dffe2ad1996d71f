# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes the secrets of a submitted job where its batch script reads them, and removes those of jobs that are gone.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ...slurm.client.session import Session
from ...slurm.errors import SlurmError
from ..job import render, secrets

View = dict[str, t.Any]
#: Another way to give a secret to the playbook; `train` refuses one without a file before this.
VAULT = ", or pass it from a vault, as train_secrets.{}"


def work(slurm: Session) -> View:
    """Return what the module train_secrets returns; its options and its result are documented there."""
    params = slurm.params
    directory = str(Path.home() / render.SECRETS)
    try:
        found = secrets.values(params["secrets"], params["given"], VAULT)
        result: View = {"names": list(found), "changed": False, "files": []}
        if params["id"] is None:
            return {**result, "removed": []}
        tasks = [f"_{task}" for task in secrets.tasks(params["array"])] if params["array"] else [""]
    except secrets.SecretError as error:
        raise SlurmError("invalid", str(error)) from None
    transport = slurm.using("jobs")
    live = {job.array_job_id or job.id for job in slurm.call(transport.jobs) if not job.ended}
    gone = secrets.stale(directory, live)
    text = secrets.content(found)
    result["files"] = [os.path.join(directory, f"{params['id']}{task}") for task in tasks]
    outdated = [path for path in result["files"] if secrets.differs(path, text)]
    if not slurm.check:
        for path in outdated:
            secrets.write(path, text)
        for path in gone:
            os.unlink(path)
    return {**result, "changed": bool(outdated or gone), "removed": gone}
