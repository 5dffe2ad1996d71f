# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Everything that is known before a job is submitted: its batch script, what has to be there, and why it is refused.

Reads the cluster's state and changes nothing. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import pwd
import stat
import typing as t

from ...containers import image_fit
from ...node import acting
from ...slurm import records
from ...slurm.batch.script import parse as script_of
from ...slurm.batch.submission import for_sbatch
from ...slurm.client.session import Session
from ...slurm.errors import SlurmError
from ..job import plan, profile, render, sweep
from ..job import schema as jobs
from ..lint import context, fit, rules
from ..record import former

View = dict[str, t.Any]
#: Bytes of a batch script that are compared.
_MOST = 1 << 20


def directories(job: jobs.Job) -> dict[str, str]:
    """Return the directories that a job uses, by the key that asks for each."""
    found = {name: getattr(job, name) for name in ("workdir", *jobs.DIRECTORIES)}
    for name in ("output", "error"):
        path = getattr(job, name)
        # Nobody makes entries in /dev, where /dev/null is.
        in_file = path.startswith("/") and not path.startswith("/dev/")
        found[name] = path.rpartition("/")[0] if in_file else ""
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
    if _own(above):
        return (
            f"{user()} cannot make {path}: {above} is {_whose(above)} -> chmod u+rwx {above}, or use another"
            " directory"
        )
    return (
        f"{user()} cannot make {path}: {above} is {_whose(above)}"
        f" -> use a directory of yours such as {_instead(above, path)}, or have an administrator make it (directories"
        " in cluster_mounts)"
    )


def missing(path: str) -> str:
    """Return why a directory of data, which nobody makes, cannot be read; "" where it is there."""
    if os.path.isdir(path):
        return ""
    what = "is not a directory" if os.path.lexists(path) else "does not exist"
    return f"{path} {what} here -> correct the path, or put the data there first"


def closed(path: str, writes: bool) -> str:
    """Return why this user cannot use a directory that is there, with the remedy; "" where that is not so.

    writes: whether the job writes into it, and does not only read there.
    """
    if not path.startswith("/") or not os.path.isdir(path):
        return ""
    if may_write(path) if writes else os.access(path, os.X_OK, effective_ids=True):
        return ""
    said = f"{user()} cannot {'write into' if writes else 'enter'} {path}, which is {_whose(path)}"
    if _own(path):
        return f"{said} -> chmod u+rwx {path}, or use another directory"
    above = os.path.dirname(path.rstrip("/"))
    return (
        f"{said}"
        f" -> use a directory of yours such as {_instead(above, path)}, or ask its owner or an administrator for the"
        " right (chmod, setfacl)"
    )


def _whose(path: str) -> str:
    """Return the owner and the mode of a directory as words."""
    status = os.stat(path)
    try:
        fixed = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        fixed = False
    where = ", on a file system that is read-only here" if fixed else ""
    return f"{user(status.st_uid)}'s ({stat.S_IMODE(status.st_mode):04o}){where}"


def _own(path: str) -> bool:
    """Return whether this user can open a directory with chmod."""
    status = os.stat(path)
    closed = status.st_mode & 0o300 != 0o300
    writable = not os.statvfs(path).f_flag & os.ST_RDONLY
    return user(status.st_uid) == user() and closed and writable


def _instead(above: str, path: str) -> str:
    """Return a path that this user may be able to use in place of one below a directory."""
    open_one = os.path.join(above, "data")
    place = open_one if may_write(open_one) else os.environ.get("HOME", "/home")
    return os.path.join(place, os.path.relpath(path, above))


def refusals(planned: t.Iterable[jobs.Job], files: t.Collection[str] | None = None) -> list[str]:
    """Return the directories of jobs that this user can neither make nor use, a line each.

    files: those that are copied into the workdir. Where that of a key is good, the first bad one of a task is returned.
    """
    found = []
    for job in planned:
        for key, path in directories(job).items():
            inside = (one[key] for one in _elements(job) if one.get(key))
            why = (
                (missing(path) if key == "data" and not job.pre else refusal(path))
                or closed(path, _writes(job, key, files))
                or next((why for one in inside if (why := closed(one, True))), "")
            )
            if why:
                found.append(f"job {job.name}.{key}: {why}")
    return found


def _writes(job: jobs.Job, key: str, files: t.Collection[str] | None) -> bool:
    """Return whether a job, or its submission, writes into the directory of a key."""
    if key != "workdir":
        return key != "data"
    # The batch script is there where there are no logs, and so is the output.
    return bool(files or job.sweep or not job.logs)


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


def changed(
    planned: t.Iterable[jobs.Job],
    known: t.Sequence[records.Job],
    owner: str,
    carried: t.Callable[[int], str] = lambda number: "",
    command: bool = False,
) -> list[str]:
    """Return the jobs whose name one of another description has that waits or runs, a line each.

    known: the jobs that slurmctld knows. owner: the user who would own the new ones. carried: returns the batch script
    of a job as Slurm has it; where it is empty, the one that was written last is compared. command: whether a person
    asks with the command `train`, and not with the playbook.
    """
    found = []
    for job in planned:
        alive = [
            one for one in known if (one.name, one.user) == (job.name, owner) and not one.ended
        ]
        if not alive:
            continue
        text = script(job)
        own = carried(alive[-1].id).rstrip()
        if own == for_sbatch(text).rstrip() if own else _read(script_path(job)) == text:
            continue
        number = alive[-1].array_job_id or alive[-1].id
        found.append(
            f"job {job.name}: {number} of this name is {alive[-1].state} with another description -> choose another"
            f" name, cancel it ({'train cancel' if command else 'scancel'} {number}), or submit it beside that one"
            f" ({'train submit --again' if command else '-e train_again=true'})"
        )
    return found


def carried(transport: t.Any, number: int) -> str:
    """Return the batch script of a job as Slurm has it, "" where it does not give it (slurmrestd never does)."""
    ask = getattr(transport, "batch_script", None)
    try:
        text = str(ask(number)) if ask else ""
    except SlurmError:
        return ""
    return text if text.startswith("#!") else ""


def there(name: str, known: t.Sequence[records.Job], owner: str) -> bool:
    """Return whether a job of a name waits or runs, so that slurm_job does not submit another one."""
    return any(
        (one.name, one.user) == (name, owner)
        and one.state not in records.ENDED
        and "COMPLETING" not in one.flags
        for one in known
    )


def script_path(job: jobs.Job) -> str:
    """Return where the batch script of a job is written."""
    return f"{job.logs or job.workdir or '~'}/{job.name}.sbatch"


def _read(path: str) -> str:
    """Return the text of a file of this user, "" where it cannot be read."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8", opener=acting.regular) as file:
            return file.read(_MOST)
    except (OSError, ValueError):
        return ""


def shown(job: jobs.Job, description: t.Mapping[str, t.Any]) -> View:
    """Return what the module returns of a job. description: with all defaults."""
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
            "tensorboard",
            "array",
        )
    }
    places = [job.workdir, *(one["workdir"] for one in _elements(job) if one["workdir"])]
    image = job.container.image if job.container else ""
    return {
        **plain,
        "workdirs": [place for place in places if place],
        "description": {
            **{key: one for key, one in description.items() if one is not None},
            **(
                {"nodes": job.nodes, "nodelist": job.nodelist}
                if description.get("nodes") == jobs.IDLE
                else {}
            ),
        },
        "script": script_path(job),
        # Others are in a registry, or a container that is there already.
        "image": image if image.endswith(".sqsh") and (image[0] == "/" or "/" not in image) else "",
        "secrets": [{"name": name, "file": file} for name, file in job.secrets],
    }


def _elements(job: jobs.Job) -> list[dict[str, str]]:
    """Return the directories of each task of a sweep, by their keys."""
    own = [
        key for key in sweep.own_keys(job.sweep, job.array) if key in ("workdir", *jobs.DIRECTORIES)
    ]
    return [
        {
            key: os.path.join(getattr(job, key), str(index)) if getattr(job, key) else ""
            for key in own
        }
        for index in range(len(sweep.elements(job.sweep)))
    ]


def _needed(job: jobs.Job) -> set[str]:
    """Return all directories of a job that are made before it is submitted: an empty one of data would hide a typo."""
    inside = (path for one in _elements(job) for path in one.values() if path)
    own = (path for key, path in directories(job).items() if key != "data" or job.pre)
    return {*own, *inside}


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


def work(slurm: Session) -> View:
    """Return what the module train_render returns; its options and its result are documented there."""
    params = slurm.params
    try:
        described = [plan.merged(params["defaults"], one) for one in params["jobs"]]
        site = site_defaults() if params["fit"] else {}
        known: t.Sequence[records.Job] = []
        owner = ""
        planned = plan.descriptions(described, site)
        described = [plan.merged(site, one) for one in described]
        if params["fit"]:
            transport = slurm.using("nodes", "partitions")
            nodes = slurm.call(transport.nodes)
            partitions = slurm.call(transport.partitions)
            planned = [plan.resolve(job, nodes, partitions) for job in planned]
            faults = plan.faults(planned, nodes, partitions, params["together"])
            faults += refusals(planned, params["files"])
            for job in planned:
                faults += former.faults(job)
                text = script(job)
                faults += unmounted(job, text)
                faults += fit.faults(job, text, transport, params["files"])
            if not params["again"]:
                asked, owner = slurm.using("jobs"), transport.user
                known = slurm.call(asked.jobs)
                command = bool(params.get("command"))
                faults += changed(
                    planned, known, owner, lambda number: carried(asked, number), command
                )
            if faults:
                raise jobs.JobError("\n".join(faults))
        return {
            "changed": False,
            "jobs": [
                {**shown(job, t.cast("View", one)), "there": there(job.name, known, owner)}
                for job, one in zip(planned, described)
            ],
            "scripts": {job.name: script(job) for job in planned},
            "directories": sorted({path for job in planned for path in _needed(job)}),
            "images": images(planned),
            "user": user(),
        }
    except jobs.JobError as error:
        raise SlurmError("invalid", str(error)) from error


def site_defaults(config: str = "") -> View:
    """Return the default keys of every description on this cluster, from the file that role slurm_login writes.

    Raises JobError for a file that cannot be read.
    """
    try:
        return dict(image_fit.published(config or image_fit.PUBLISHED).get("defaults") or {})
    except (TypeError, ValueError) as error:
        raise jobs.JobError(str(error)) from None


def script(job: jobs.Job) -> str:
    """Return the batch script of a job."""
    return render.render(job, efa=profile.has_efa(job.machine_type))
