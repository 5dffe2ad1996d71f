# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Submits the training jobs of a file as the user who runs this, on a host with the nodes' file systems.

The steps and their order are those of trainwright.slurm.train, which runs the same functions as modules.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import typing as t

from ...containers import image_fit, lookup, named_image
from ...containers.image_errors import ImageError
from ...node import acting, safe_path
from ...slurm.client import alone, job_options, jobs
from ...slurm.client.session import Session
from ...slurm.errors import SlurmError
from ..job import file, plan, secrets
from ..record import batch, document
from ..record import submission as record
from . import prepare, secret_files

View = dict[str, t.Any]
Say = t.Callable[[str], None]

#: Variable of trainwright.slurm.train that a file may not set -> what takes its place here.
OPTIONS = {
    "train_job_file": "name the file on the command line",
    "train_user": "remove it: the jobs are yours",
    "train_secrets": "write `file:` for each of the job's secrets",
    "train_stage": "remove it: administrators copy images to the nodes' disks",
    "train_again": "use --again",
    "train_patterns": "use train watch --pattern",
    "train_stalled_after": "use train watch --stalled-after",
}
#: Images that this host does not have may be on the nodes, as in trainwright.slurm.train.
_FATAL = ("damaged",)
_REMEDIES = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there",
    errno.EISDIR: "remove it, or choose another name",
}


class Plan(t.NamedTuple):
    """The jobs to submit: descriptions with the defaults of their file, files for their workdir.

    files: None where they are not known, since the jobs come from several files. code: directory of the job file.
    """

    jobs: list[t.Any]
    files: list[str] | None
    together: bool
    code: str = ""


def session(module: str, check: bool = False, **params: t.Any) -> Session:
    """Return a conversation with the Slurm of this host, by its own commands.

    module: the one whose capabilities are needed. params: that module's options.
    """
    own = {"transport": "cli", "controller_timeout": 60.0, "slurm_prefix": None, "slurm_conf": None}
    return Session(module, {**own, **params}, check)


def read(path: str) -> Plan:
    """Return what a file asks for. Raises JobError."""
    path = os.path.abspath(os.path.expanduser(path))
    given = file.read(path, OPTIONS)
    defaults = given.get("train_defaults") or {}
    return Plan(
        [plan.merged(defaults, one) for one in file.jobs(given, path)],
        given.get("train_files") or [],
        given.get("train_together", True),
        os.path.dirname(path),
    )


def prepared(asked: Plan, again: bool = True) -> View:
    """Return what the module train_render returns, after every check that needs no change. Raises SlurmError.

    again: as of submit().
    """
    if not os.geteuid():
        raise SlurmError(
            "denied",
            "the jobs would be root's, and Slurm refuses jobs of root (DisableRootJobs) -> run it as their owner",
        )
    made = prepare.work(
        session(
            "slurm_info",
            jobs=asked.jobs,
            defaults={},
            fit=True,
            together=asked.together,
            again=again,
            files=asked.files,
            command=True,
        )
    )
    if asked.files and not all(job["workdir"] for job in made["jobs"]):
        raise SlurmError(
            "invalid",
            "train_files: are copied into the job's workdir, and there is none -> give the jobs a workdir",
        )
    if made["images"]:
        _store()
    for job in made["jobs"]:
        try:
            secrets.values(job["secrets"], {})
        except secrets.SecretError as error:
            raise SlurmError("invalid", f"job {job['name']}: {error}") from None
        _check_image(job, bool(made["images"]))
        if job["secrets"] and (why := secret_files.no_place()):
            raise SlurmError("invalid", f"job {job['name']}: {why}")
    faults = [one for job in made["jobs"] if job["there"] for one in _other_files(job, asked.files)]
    if faults:
        raise SlurmError("invalid", "\n".join(faults))
    return made


def submit(
    asked: Plan, *, again: bool = False, check: bool = False, say: Say = lambda line: None
) -> list[View]:
    """Submit the jobs, and return each as the module slurm_job does, with its script. Raises SlurmError.

    again: also where one of its name waits or runs. check: only ask Slurm whether it would take them.
    say: called with a line for each step that may take long.
    """
    made = prepared(asked, again)
    if check:
        return _submitted(asked, made, again, check, say)
    with alone.alone([job["name"] for job in made["jobs"]], say):
        talk = session("slurm_info")
        transport = talk.using("jobs")
        known = [] if again else talk.call(transport.jobs)
        if any(
            prepare.there(job["name"], known, transport.user) != job["there"]
            for job in made["jobs"]
        ):
            made = prepared(asked, again)  # another submission was faster
        return _submitted(asked, made, again, check, say)


def _submitted(asked: Plan, made: View, again: bool, check: bool, say: Say) -> list[View]:
    """Take the steps of submit() that change something."""
    if not check:
        _import(made["images"], say)
        for job in made["jobs"]:
            _check_image(job, False)
        for path in made["directories"]:
            _write(path, lambda path=path: os.makedirs(path, exist_ok=True))  # type: ignore[misc]
        # A job that is there already uses its files.
        new = [job for job in made["jobs"] if not job["there"]]
        for place in sorted({place for job in new for place in job["workdirs"]}):
            _write(place, lambda place=place: _copy(asked.files or [], place))  # type: ignore[misc]
    found: list[View] = []
    for job in made["jobs"]:
        try:
            found.append(_one(job, made["scripts"][job["name"]], asked.code, again, check, say))
        except SlurmError as error:
            before = ", ".join(f"{one['name']} {one['id']}" for one in found if one["id"])
            if not before:
                raise
            raise SlurmError(
                error.kind, f"{error}\nsubmitted before this: {before} -> train cancel ends them"
            ) from None
    return found


def _one(job: View, text: str, code: str, again: bool, check: bool, say: Say) -> View:
    """Submit a job unless it is there. text: its batch script. code, again, check, say: as above."""
    path = os.path.expanduser(job["script"])
    if not check and not job["there"]:
        _write(path, lambda: _script(path, text))
    params = {
        **job_options.DEFAULTS,
        "name": job["name"],
        "content": text,
        "workdir": job["workdir"] or "~",
        "force": again,
        "tail_lines": 0,
    }
    seen = jobs.work(session("slurm_job", check, **params))
    if job["there"] and seen["changed"] and not check:  # it has ended meanwhile
        _write(path, lambda: _script(path, text))
    if job["secrets"] and seen["id"] is not None and not check:
        _keep_secrets(job, seen["id"])
    noted = ""
    if not check and (seen["changed"] or not _recorded(job, seen["id"])):
        noted = _record(job, seen, path, code, say)
    kept = {key: job[key] for key in ("checkpoints", "tensorboard")}
    return {**seen, "script": path, "text": text, "record": noted, **kept}


def _keep_secrets(job: View, number: int) -> None:
    """Write the secrets of a submitted job. Raises SlurmError."""
    own = {"id": number, "array": job["array"], "secrets": job["secrets"], "given": {}}
    try:
        secret_files.work(session("slurm_info", **own))
    except (OSError, SlurmError) as error:
        why = getattr(error, "strerror", None) or error
        raise SlurmError(
            "invalid",
            f"job {job['name']}: is submitted as {number}, and its secrets cannot be written: {why}"
            f" -> train cancel {number}, and submit it again",
        ) from None


def _recorded(job: View, number: int) -> bool:
    """Return whether the submission of a job has written its record; one that was killed may not have."""
    if record.known(str(number)):
        return True
    place = document.place(job)
    return not place or bool(
        batch.read_own(os.path.join(place, document.name(str(number)))).get("submitted")
    )


def _record(job: View, seen: View, script: str, code: str, say: Say) -> str:
    """Write the record of a run, and return its path; a job without a place for it has none."""
    options = {
        "id": seen["id"],
        "description": job["description"],
        "script": script,
        "code": code,
        "given": {},
    }
    try:
        made = record.work(session("slurm_info", **options))
    except SlurmError as error:
        # The job is submitted; nothing takes that back.
        say(f"job {job['name']}: its record is not complete: {error}")
        return ""
    for one in made["problems"]:
        say(f"record: {one}")
    return str(made["record"])


def _check_image(job: View, may_come: bool) -> None:
    """Refuse an image whose software cannot work on the nodes. may_come: a missing one is imported later."""
    if not job["image"]:
        return
    try:
        faults = image_fit.misfits(job["image"], job["partition"], job["nodelist"])
    except ImageError as error:
        if may_come or error.kind not in _FATAL:
            return
        raise SlurmError("invalid", f"job {job['name']}: {error}") from None
    except ValueError as error:
        raise SlurmError("invalid", str(error)) from None
    if faults:
        raise SlurmError("invalid", "\n".join(f"job {job['name']}: {one}" for one in faults))


def _import(images: t.Sequence[View], say: Say) -> None:
    """Import the images that the cluster does not have into the user's own store. Raises SlurmError."""
    for one in images:
        say(f"image {one['name']}.sqsh: imported from {one['reference']} unless it is there")
        params = {
            **one,
            "state": "present",
            "arch": None,
            "store": "own",
            "refresh": False,
            "force": False,
        }
        try:
            named_image.own(params, _store(), False, say)
        except ImageError as error:
            raise SlurmError("invalid", str(error)) from None


def _store() -> str:
    """Return the directory of the cluster's images. Raises SlurmError on a host that has none."""
    try:
        return lookup.configuration()["store"]
    except ImageError as error:
        raise SlurmError(
            "invalid", f"container.source: no image can be imported here: {error}"
        ) from None


def _write(path: str, step: t.Callable[[], None]) -> None:
    """Take a step that writes a path, or below it. Raises SlurmError."""
    try:
        step()
    except safe_path.UnsafePathError as error:
        raise SlurmError("invalid", str(error)) from None
    except OSError as error:
        # Files are written under a passing name first.
        where = error.filename if os.path.isabs(str(error.filename)) else path
        other = f"use a directory that {prepare.user()} can write to"
        remedy = _REMEDIES.get(error.errno or 0, other)
        raise SlurmError("invalid", f"{where}: {error.strerror} -> {remedy}") from None


def _copy(files: t.Iterable[str], directory: str) -> None:
    """Copy files into a directory, with their modes; those that are there already stay."""
    for source in files:
        target = os.path.join(directory, os.path.basename(source))
        if os.path.realpath(target) == os.path.realpath(source):
            continue
        with open(source, "rb", opener=acting.regular) as stream:
            mode = os.fstat(stream.fileno()).st_mode & 0o777
            with safe_path.replacing(target, mode) as new:
                shutil.copyfileobj(stream, new)


def _other_files(job: View, files: t.Iterable[str] | None) -> list[str]:
    """Return the files for the workdir that a job which is there already has with another content, a line each."""
    found = []
    for source in files or []:
        for place in job["workdirs"]:
            target = os.path.join(place, os.path.basename(source))
            if _content(target) not in (_content(source), None):
                found.append(
                    f"job {job['name']}: {target} differs from {source}, and a job of this name waits or runs with it"
                    " -> choose another name and workdir, or submit it when that job has ended"
                )
    return found


def _content(path: str) -> str | None:
    """Return the digest of a file; None where there is none that can be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb", opener=acting.regular) as stream:
            while block := stream.read(2**20):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()


def _script(path: str, text: str) -> None:
    with safe_path.replacing(path, 0o700) as stream:
        stream.write(text.encode("utf-8"))


def fits(paths: t.Sequence[str]) -> View:
    """Return what train_render returns for the jobs of several files, all of which must be able to run at once.

    Raises JobError, SlurmError.
    """
    asked = [read(path) for path in paths]
    return prepared(
        Plan(
            [job for one in asked for job in one.jobs],
            None,
            all(one.together for one in asked) if len(asked) == 1 else True,
        )
    )
