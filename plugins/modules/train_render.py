#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks descriptions of training jobs, also against the cluster, and writes their batch scripts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: train_render
short_description: Turn descriptions of training jobs into batch scripts
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Checks the descriptions, and whether the cluster has the nodes for them, and returns a batch script
    for each. It changes nothing; C(trainwright.slurm.train) does the rest.
  - The keys of a description are in C(docs/training_jobs.md).
  - All faults are reported at once, one line each, before anything is submitted.
extends_documentation_fragment: [trainwright.slurm.slurm]
options:
  jobs:
    description: The descriptions. More than one is a plan.
    type: list
    elements: dict
    required: true
  defaults:
    description:
      - Default keys of the descriptions. A mapping in both is merged by its keys. Without them, each
        description is independent.
    type: dict
    default: {}
  fit:
    description:
      - Whether to check that the cluster can run the jobs. Nodes that are down or drained do not
        count; nodes that are busy do, since jobs wait.
      - C(nodes=idle) in a description needs it.
      - It also checks that the user can make the directories of the jobs that are not there yet, and that the cluster
        mounts the storage that the jobs name, where C(/etc/trainwright/jobs.json) lists its mounts.
      - It refuses a container where the cluster does not have Pyxis, a job that waits for one that Slurm does not know,
        and one whose script does not exist.
    type: bool
    default: true
  together:
    description: Whether the jobs must be able to run at the same time.
    type: bool
    default: true
  files:
    description:
      - Files that are copied into the workdir of each job when it is submitted. With this list, a job whose script is
        neither there nor among them is refused. Without it, only absolute paths of scripts are looked up.
    type: list
    elements: str
    version_added: "1.1.0"
attributes:
  check_mode: {support: full, description: It changes nothing.}
  diff_mode: {support: none, description: It changes nothing.}
seealso:
  - module: trainwright.slurm.job_lint
  - module: trainwright.slurm.slurm_job
  - module: trainwright.slurm.train_status
"""

EXAMPLES = r"""
- name: See the batch script of a job
  trainwright.slurm.train_render:
    jobs:
      - name: llama
        command: train.py --epochs 3
        nodes: 2
        memory: 1G
        time: "60"
        logs: /shared/data/logs/llama
  register: llama

- name: Check that two jobs can run at the same time
  trainwright.slurm.train_render:
    defaults: {command: train.py, nodes: 1, memory: 1G, time: "60"}
    jobs:
      - {name: model1, logs: /shared/data/logs/model1}
      - {name: model2, logs: /shared/data/logs/model2}
"""

RETURN = r"""
jobs:
  description: The jobs, in the order of the descriptions.
  returned: always
  type: list
  elements: dict
  contains:
    name: {description: Name of the job., type: str, returned: always, sample: llama}
    nodes: {description: "Number of nodes, as C(sbatch) takes it.", type: str, returned: always, sample: "2"}
    nodelist: {description: Nodes that it names; empty for none., type: str, returned: always}
    partition: {description: Partitions that it names; empty for the default one., type: str, returned: always}
    image: {description: "Image that is a file, by its name or absolute path; else empty.", type: str, returned: always}
    workdir: {description: Working directory; empty for the user's home., type: str, returned: always}
    checkpoints: {description: Directory of its checkpoints; empty for none., type: str, returned: always}
    logs: {description: Directory of its logs; empty for none., type: str, returned: always}
    array: {description: Indices of its tasks; empty for none., type: str, returned: always}
    secrets:
      description: Its secrets, each with C(name) and C(file).
      type: list
      elements: dict
      returned: always
scripts: {description: Text of the batch script of each job by its name., returned: always, type: dict}
directories:
  description: Directories of all jobs that must exist before they are submitted.
  returned: always
  type: list
  elements: str
  sample: [/shared/data/logs/llama]
images:
  description: Images to import, each with C(name), without C(.sqsh), and C(reference).
  returned: always
  type: list
  elements: dict
  sample: [{name: pytorch, reference: "nvcr.io/nvidia/pytorch:25.06-py3"}]
user: {description: "User who runs the module, and would own the jobs.", returned: always, type: str, sample: alice}
error: {description: Kind of the error., returned: failure, type: str, sample: invalid}
"""

import os
import pwd
import stat
import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch.script import (
    parse as script_of,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import session
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import (
    plan,
    profile,
    render,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import schema as jobs
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import context, rules
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import fit as lint_fit

SPEC: dict[str, t.Any] = {
    "jobs": {"type": "list", "elements": "dict", "required": True},
    "defaults": {"type": "dict", "default": {}},
    "fit": {"type": "bool", "default": True},
    "together": {"type": "bool", "default": True},
    "files": {"type": "list", "elements": "str"},
}


def directories(job: jobs.Job) -> dict[str, str]:
    """Return the directories that must be there before a job is submitted, by the key that asks for each."""
    found = {name: getattr(job, name) for name in ("workdir", *jobs.DIRECTORIES)}
    for name in ("output", "error"):
        path = getattr(job, name)
        found[name] = path.rpartition("/")[0] if path.startswith("/") else ""
    return {name: path for name, path in found.items() if path}


def may_write(path: str) -> bool:
    """Return whether this user may make entries in a directory."""
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK, effective_ids=True)


def refusal(path: str) -> str:
    """Return why this user cannot make a directory, with the remedy; nothing where it is there or can be made."""
    if not path.startswith("/") or os.path.isdir(path):
        return ""
    above = path.rstrip("/")
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if may_write(above):
        return ""
    if not os.path.isdir(above):
        return f"{user()} cannot make {path}: {above} is not a directory -> choose another path"
    status = os.stat(above)
    rest = os.path.relpath(path, above)
    open_one = os.path.join(above, "data")
    other = os.path.join(open_one if may_write(open_one) else os.environ.get("HOME", "/home"), rest)
    return (
        f"{user()} cannot make {path}: {above} is {user(status.st_uid)}'s ({stat.S_IMODE(status.st_mode):04o})"
        f" -> use a directory of yours such as {other}, or have an administrator make it (directories in"
        " cluster_mounts)"
    )


def refusals(planned: t.Iterable[jobs.Job]) -> list[str]:
    """Return the directories of jobs that this user cannot make, a line each."""
    return [
        f"job {job.name}.{key}: {why}"
        for job in planned
        for key, path in directories(job).items()
        if (why := refusal(path))
    ]


def unmounted(job: jobs.Job, script: str, config: str = context.CONFIG) -> list[str]:
    """Return the paths of a job on storage that the cluster does not mount, a line each, by its batch script."""
    try:
        cluster = context.cluster(config=config)
    except ValueError as error:
        return [f"job {job.name}: {error}"]
    rule = rules.RULES["mount-missing"]
    return [
        f"job {job.name}: {what} -> {remedy}"
        for _line, what, remedy in rule.find(script_of(script), cluster)
    ]


def shown(job: jobs.Job) -> dict[str, t.Any]:
    """Return what the module returns of a job."""
    plain = {
        name: getattr(job, name)
        for name in (
            "name",
            "nodes",
            "nodelist",
            "partition",
            "workdir",
            "checkpoints",
            "logs",
            "array",
        )
    }
    image = job.container.image if job.container else ""
    return {
        **plain,
        # Others are in a registry, or a container that is there already.
        "image": image if image.endswith(".sqsh") and (image[0] == "/" or "/" not in image) else "",
        "secrets": [{"name": name, "file": file} for name, file in job.secrets],
    }


def images(planned: t.Iterable[jobs.Job]) -> list[dict[str, str]]:
    """Return the images to import."""
    containers = [job.container for job in planned if job.container and job.container.source]
    found = {one.image[: -len(".sqsh")]: one.source for one in containers}
    return [{"name": name, "reference": source} for name, source in found.items()]


def user(uid: int | None = None) -> str:
    """Return the name of a user, by default of the one who runs this, or the uid of one without an entry."""
    uid = os.geteuid() if uid is None else uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def work(slurm: session.Session) -> dict[str, t.Any]:
    """Return the module's result."""
    params = slurm.params
    try:
        planned = plan.descriptions(params["jobs"], params["defaults"])
        if params["fit"]:
            transport = slurm.using("nodes", "partitions")
            nodes = slurm.call(transport.nodes)
            partitions = slurm.call(transport.partitions)
            planned = [plan.resolve(job, nodes, partitions) for job in planned]
            faults = plan.faults(planned, nodes, partitions, params["together"])
            faults += refusals(planned)
            for job in planned:
                script = render.render(job, efa=profile.has_efa(job.machine_type))
                faults += unmounted(job, script)
                faults += lint_fit.faults(job, script, transport, params["files"])
            if faults:
                raise jobs.JobError("\n".join(faults))
        return {
            "changed": False,
            "jobs": [shown(job) for job in planned],
            "scripts": {
                job.name: render.render(job, efa=profile.has_efa(job.machine_type))
                for job in planned
            },
            "directories": sorted({path for job in planned for path in directories(job).values()}),
            "images": images(planned),
            "user": user(),
        }
    except jobs.JobError as error:
        raise SlurmError("invalid", str(error)) from error


def main() -> None:
    """Run the module."""
    # It needs the data that slurm_info reads.
    session.run("slurm_info", SPEC, work)


if __name__ == "__main__":
    main()
