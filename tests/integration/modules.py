# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs tasks of modules on a host of a site, many in one ansible-playbook run, and returns their results."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from .site import ROOT, SOAK, VENV_BIN, Site, tail

# slurmrestd runs on ctl1; the port is set in inventories/local.
REST_SOCKET = "/run/slurmrestd/slurmrestd.socket"
REST_URL = f"unix://{REST_SOCKET}"
REST_PORT_URL = "http://ctl1:6820"
# A slurm.conf whose controller is not there, and whose commands soon give up.
DEAD = "/tmp/trainwright-dead"
MAKE_DEAD = (
    f"mkdir -p {DEAD} && "
    "( grep -vE '^(SlurmctldPort|SlurmctldHost=ctl2|.*Timeout|AccountingStorageType)' "
    "/etc/slurm/slurm.conf; echo SlurmctldPort=1; echo MessageTimeout=2; echo SlurmctldTimeout=2; "
    f"echo AccountingStorageType=accounting_storage/none ) > {DEAD}/slurm.conf"
)
Task = dict[str, Any]
Results = dict[str, dict[str, Any]]


def transports(system: str) -> tuple[str, ...]:
    """How tests reach Slurm: the older by its commands, the newer by slurmrestd; in `make soak` each by both."""
    if SOAK:
        return ("cli", "rest")
    return ("cli",) if system == "debian12" else ("rest",)


def rest_token(site: Site, user: str = "root", lifespan: int = 600) -> str:
    """A token for slurmrestd, good for that many seconds."""
    shown = site.run("ctl1", f"scontrol token username={user} lifespan={lifespan}")
    return shown.partition("=")[2].strip()


def run_plays(
    site: Site,
    plays: Sequence[dict[str, Any]],
    environment: dict[str, str] | None = None,
    **variables: Any,
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Run plays in one ansible-playbook run, and return it with the JSON callback's result of each.

    environment is added to that of the run.
    """
    with tempfile.TemporaryDirectory() as directory:
        playbook = Path(directory) / "plays.yml"
        playbook.write_text(yaml.safe_dump(list(plays), sort_keys=False))
        variables_file = Path(directory) / "variables.json"
        variables_file.write_text(json.dumps(variables))
        variables_file.chmod(0o600)
        done = subprocess.run(
            [
                str(VENV_BIN / "ansible-playbook"),
                *("-i", str(site.inventory), str(playbook), "-e", f"@{variables_file}"),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    start = done.stdout.find("{\n")
    assert start >= 0, f"{done.returncode}:\n{tail(done.stdout + done.stderr, 60)}"
    # A run that fails prints more after it.
    return done, json.JSONDecoder().raw_decode(done.stdout[start:])[0]["plays"]


def run_tasks(
    site: Site,
    tasks: Sequence[Task],
    host: str = "ctl1",
    stop: bool = False,
    strategy: str = "linear",
    **variables: Any,
) -> Results:
    """Run tasks on a host in one play, and return the result of each by its name.

    A task is what YAML would have, with a name of its own. One that fails has "failed" in its
    result and stops the play only if stop is set.
    """
    names = [task["name"] for task in tasks]
    assert len(names) == len(set(names)), "each task needs a name of its own"
    play = {
        "hosts": host,
        "gather_facts": False,
        "become": True,
        "strategy": strategy,
        "tasks": [{"ignore_errors": not stop, **task} for task in tasks],
    }
    done, plays = run_plays(site, [play], **variables)
    results: Results = {}
    for played in plays:
        for task in played["tasks"]:
            if host in task["hosts"]:
                results[task["task"]["name"]] = task["hosts"][host]
    if stop:
        failed = [f"{name}: {r.get('msg')}" for name, r in results.items() if r.get("failed")]
        assert done.returncode == 0, "\n".join(failed) or tail(done.stdout + done.stderr, 60)
    return results
