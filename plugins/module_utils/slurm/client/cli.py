# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm's own commands as a transport: scontrol, sbatch, scancel, sacct, sacctmgr.

All run in UTC with fixed formats. Runs on nodes: Python 3.9, standard library only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import typing as t

from ...node.slurm_places import command_directories
from .. import records, values
from ..batch import submission
from ..errors import SlurmError
from ..releases import major_minor
from . import alone, cli_accounting, data, messages, text
from .transport import Operation, this_user

#: Directories that are searched after PATH; root's PATH over SSH has not all of them.
DIRECTORIES = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/slurm/bin")
_TIMEOUT = 60.0  # seconds; slurmctld answers in milliseconds, or is being waited for
_FIXED = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
# Variables that change the output of the commands where a user has set them.
_UNWANTED = ("SLURM_BITSTR_LEN", "SLURM_JSON", "SLURM_YAML", "SACCT_FORMAT", "SACCT_FEDERATION")
_DATABASE = ("sacct", "sacctmgr")
#: The data parser of each release: asked for by name, since DataParserParameters in slurm.conf may
#: change the default. 23.02 has --json too, takes no name with it, and crashes on an unknown job.
JSON_SINCE = (23, 11)
DATA_PARSERS = {
    (23, 11): "v0.0.40",
    (24, 5): "v0.0.41",
    (24, 11): "v0.0.42",
    (25, 5): "v0.0.43",
    (25, 11): "v0.0.44",
    (26, 5): "v0.0.45",
}


def _found(name: str, prefix: str) -> str | None:
    """Return the path of a command: below prefix where it is given, else where it is found."""
    if prefix:
        places = [os.path.join(prefix, "bin"), os.path.join(prefix, "sbin")]
    else:
        places = [*os.environ.get("PATH", "").split(os.pathsep), *DIRECTORIES]
    found = shutil.which(name, path=os.pathsep.join(filter(None, places)))
    if found or prefix:
        return found
    return shutil.which(name, path=os.pathsep.join(command_directories()))


_Parser = t.Callable[[t.Any], t.Any]


class Cli:
    """The commands of one installation."""

    name = "cli"

    def __init__(self, prefix: str = "", slurm_conf: str = "", timeout: float = _TIMEOUT) -> None:
        """prefix: where Slurm is installed, "" to search. slurm_conf: "" leaves it to Slurm."""
        self._prefix = prefix
        self._timeout = timeout
        self._own = {**os.environ, **({"SLURM_CONF": slurm_conf} if slurm_conf else {})}
        for name in _UNWANTED:
            self._own.pop(name, None)
        self._paths: dict[str, str] = {}
        self._no_json: set[str] = set()
        self._version = ""

    @classmethod
    def from_params(cls, params: t.Mapping[str, t.Any]) -> Cli:
        """Return the commands that a module's options name. Raises SlurmError: missing."""
        cli = cls(params.get("slurm_prefix") or "", params.get("slurm_conf") or "")
        cli._path("scontrol")
        return cli

    # -- running ---------------------------------------------------------------------------------
    def _path(self, name: str) -> str:
        if name not in self._paths:
            path = _found(name, self._prefix)
            if path is None:
                where = f"{self._prefix}/bin" if self._prefix else "PATH nor /opt/slurm/bin"
                nor = "not in" if self._prefix else "neither in"
                raise SlurmError(
                    "missing",
                    f"{name} is {nor} {where} -> run this on a host with Slurm's commands, such as a "
                    "controller, give their place with slurm_prefix, or set rest_url and rest_token",
                )
            self._paths[name] = path
        return self._paths[name]

    @property
    def version(self) -> str:
        """Version of the commands; slurmctld's is the same or one above."""
        if not self._version:
            shown = self.command("scontrol", "--version")
            match = re.search(r"\d+\.\d+(\.\d+)?\S*", shown)
            if not match:
                raise SlurmError(
                    "missing",
                    f"scontrol --version prints {messages.said(shown)} and no version -> see what "
                    f"{self._path('scontrol')} is",
                )
            self._version = match[0]
        return self._version

    @property
    def user(self) -> str:
        """Name of the user as whom the commands run."""
        return this_user()

    def command(
        self,
        name: str,
        *arguments: str,
        given: str = "",
        environment: t.Mapping[str, str] | None = None,
        without: t.Collection[str] = (),
        directory: str | None = None,
    ) -> str:
        """Run a command of Slurm and return what it prints.

        given: its standard input. environment: besides the fixed one. without: variables of this process that it does
        not get. directory: where it runs. Raises SlurmError.
        """
        done = self._run(name, arguments, given, environment, without, directory)
        database = name in _DATABASE
        if done.returncode or (database and _database_is_down(done.stderr)):
            raise messages.classify(
                f"{done.stderr} {_without_echo(done.stdout)}",
                messages.shortened([name, *arguments]),
                who=self.user,
                database=database,
            )
        return done.stdout

    def _run(
        self,
        name: str,
        arguments: t.Sequence[str],
        given: str = "",
        environment: t.Mapping[str, str] | None = None,
        without: t.Collection[str] = (),
        directory: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        what = messages.shortened([name, *arguments])
        own = {key: one for key, one in self._environment_of(name).items() if key not in without}
        try:
            return subprocess.run(
                [self._path(name), *arguments],
                input=given,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                timeout=self._timeout,
                env={**own, **(environment or {})},
                cwd=directory,
                pass_fds=alone.handles() if name == "sbatch" else (),
            )
        except subprocess.TimeoutExpired:
            whom = "slurmdbd" if name in _DATABASE else "slurm controller"
            silence = f"Unable to contact {whom}: no answer within {self._timeout:g} s"
            raise messages.classify(silence, what) from None
        except OSError as error:
            raise SlurmError(
                "missing", f"{what}: {error.strerror} -> look at {error.filename or name}"
            ) from error

    def _environment_of(self, name: str) -> dict[str, str]:
        """Return the environment of a command. sbatch hands its own to the job: UTC and C.UTF-8 are not for that."""
        if name != "sbatch":
            return {**self._own, **_FIXED}
        path = self._own.get("PATH", os.defpath)
        # A batch script calls srun, and a login without a shell does not have the profile that names /opt/slurm/bin.
        if shutil.which("srun", path=path) is None:
            path = os.pathsep.join([path, os.path.dirname(self._path(name))])
        return {**self._own, "PATH": path}

    def _show(self, subject: str, *which: str) -> str:
        # Without -o: there each free text ends its line, and nothing in it passes for a field.
        return self.command("scontrol", "-a", "-d", "show", subject, *which)

    def _read(self, subject: str, from_data: _Parser, from_text: _Parser, *which: str) -> t.Any:
        """Return records of scontrol show, from JSON where this Slurm has it and it works."""
        found = self._read_json(subject, from_data, which)
        # While slurmctld is down, the JSON of jobs is an empty list and no error (23.11 to 26.05).
        return found or from_text(self._show(subject, *which))

    def _read_json(self, subject: str, from_data: _Parser, which: t.Sequence[str]) -> t.Any:
        """Return records from JSON; None, and then always, where it does not work."""
        release = major_minor(self.version)
        if release < JSON_SINCE or subject in self._no_json:
            return None
        parser = DATA_PARSERS.get(release)
        option = f"--json={parser}" if parser else "--json"
        try:
            shown = json.loads(self.command("scontrol", "-a", option, "show", subject, *which))
            if not shown.get("errors"):
                return from_data(shown)
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # no JSON, or not the one that is known
        except SlurmError as error:
            if error.passing or error.kind in ("denied", "unknown"):
                raise
        # Packages without the serializer's plugin would refuse it each time.
        self._no_json.add(subject)
        return None

    # -- read ------------------------------------------------------------------------------------
    def nodes(self) -> list[records.Node]:
        """All nodes."""
        return self._read("nodes", data.nodes, text.nodes)

    def jobs(self, job_id: int | None = None) -> list[records.Job]:
        """Jobs that slurmctld knows; [] for an id that it does not know."""
        which = [] if job_id is None else [str(job_id)]
        try:
            return self._read("jobs", data.jobs, text.jobs, *which)
        except SlurmError as error:
            if error.kind == "unknown" and which:
                return []
            raise

    def ended_jobs(self, job_id: int) -> list[records.Job]:
        """The job from the accounting; [] when it does not know it."""
        columns = ",".join(text.SACCT_COLUMNS)
        form = ["-nPX", f"--delimiter={text.SACCT_DELIMITER}", "-o", columns]
        return text.ended_jobs(self.command("sacct", *form, "-j", str(job_id)))

    def partitions(self) -> list[records.Partition]:
        """All partitions, hidden ones too."""
        # JSON has neither Default nor Hidden nor PreemptMode before v0.0.45.
        return text.partitions(self._show("partitions"))

    def reservations(self) -> list[records.Reservation]:
        """All reservations."""
        # JSON lacks the comment.
        return text.reservations(self._show("reservations"))

    def licenses(self) -> list[records.License]:
        """All licences."""
        return text.licenses(self._show("licenses"))

    def controllers(self) -> list[records.Controller]:
        """All controllers, whether up or not."""
        # Not by one ping alone: a slurmctld with much to do may leave one without an answer.
        found = self._ping()
        return found if all(one.up for one in found) else self._ping()

    def _ping(self) -> list[records.Controller]:
        # It ends with 1 when none is up, which is an answer here.
        done = self._run("scontrol", ["ping"])
        if done.returncode and "Slurmctld(" not in done.stdout:
            raise messages.classify(done.stderr + done.stdout, "scontrol ping")
        return text.controllers(done.stdout)

    def configuration(self) -> records.Configuration:
        """The configuration as slurmctld runs it."""
        return text.configuration(self.command("scontrol", "show", "config"))

    def events(self, since: int | None = None) -> list[records.Event]:
        """Events that have not ended, or all since a time (seconds since 1970)."""
        narrowed = [] if since is None else [f"start={values.stamp(since)}"]
        shown = self.command(
            "sacctmgr", "-nP", "show", "event", *narrowed, "format=" + ",".join(text.EVENT_COLUMNS)
        )
        return text.events(shown)

    # -- slurmctld -------------------------------------------------------------------------------
    def update_nodes(self, names: t.Sequence[str], settings: t.Mapping[str, str]) -> None:
        """Change nodes, all in one call."""
        self._change("update", "NodeName", values.compress(names), settings)

    def reboot_nodes(
        self, names: t.Sequence[str], asap: bool, next_state: str, reason: str
    ) -> None:
        """Ask for a reboot of nodes when they are idle."""
        options = ["ASAP"] if asap else []
        options += [f"nextstate={next_state}"] if next_state else []
        options += [f"reason={reason}"] if reason else []
        self.command("scontrol", "reboot", *options, values.compress(names))

    def create_partition(self, name: str, settings: t.Mapping[str, str]) -> None:
        """Make a partition."""
        self._change("create", "PartitionName", name, settings)

    def update_partition(self, name: str, settings: t.Mapping[str, str]) -> None:
        """Change a partition."""
        self._change("update", "PartitionName", name, settings)

    def delete_partition(self, name: str) -> None:
        """Remove a partition."""
        self.command("scontrol", "delete", f"PartitionName={name}")

    def create_reservation(self, name: str, settings: t.Mapping[str, str]) -> None:
        """Make a reservation."""
        self._change("create", "ReservationName", name, settings)

    def update_reservation(self, name: str, settings: t.Mapping[str, str]) -> None:
        """Change a reservation."""
        self._change("update", "ReservationName", name, settings)

    def delete_reservation(self, name: str) -> None:
        """Remove a reservation."""
        self.command("scontrol", "delete", f"ReservationName={name}")

    def _change(self, verb: str, key: str, name: str, settings: t.Mapping[str, str]) -> None:
        pairs = [f"{option}={value}" for option, value in settings.items()]
        self.command("scontrol", verb, f"{key}={name}", *pairs)

    def submit_job(self, script: str, options: t.Mapping[str, t.Any]) -> int:
        """Submit a batch script and return the job's id; 0 when it is only tested."""
        # The directory in which sbatch runs is SLURM_SUBMIT_DIR of the job, and its working directory
        # where neither the options nor the script name one.
        directory = str(options.get("chdir") or os.path.expanduser("~"))
        shown = self.command(
            "sbatch",
            "--parsable",
            *submission.arguments(options),
            given=submission.for_sbatch(script),
            environment=submission.environment(options),
            without=submission.overriding(script),
            directory=directory if os.path.isdir(directory) else None,
        )
        if options.get("test_only"):
            return 0
        match = re.search(r"^(\d+)(?:;|$)", shown, re.M)
        if not match:
            raise SlurmError(
                "invalid", f"sbatch: {messages.said(shown)} -> it printed no job id; see `squeue`"
            )
        return int(match[1])

    def batch_script(self, job_id: int) -> str:
        """Return the batch script of a job of this user that waits or runs, as slurmctld has it."""
        return self.command("scontrol", "write", "batch_script", str(job_id), "-")

    def cancel_job(self, job_id: int, signal: str = "") -> None:
        """Cancel a job, or send it a signal; nothing happens to one that has ended."""
        try:
            self.command("scancel", *([f"--signal={signal}"] if signal else []), str(job_id))
        except SlurmError as error:
            if not messages.has_ended(str(error)):
                raise

    # -- accounting ------------------------------------------------------------------------------
    def accounting_rows(
        self, kinds: t.Sequence[str], cluster: str, columns: t.Mapping[str, t.Sequence[str]]
    ) -> dict[str, list[dict[str, str]]]:
        """Rows of the accounting, as sacctmgr shows them."""
        return cli_accounting.rows(self._sacctmgr, kinds, cluster, columns)

    def apply(self, operations: t.Sequence[Operation]) -> None:
        """Make changes of the accounting, in order."""
        cli_accounting.apply(self._sacctmgr, operations)

    def _sacctmgr(self, arguments: t.Sequence[str], stdin: str = "") -> str:
        return self.command("sacctmgr", *arguments, given=stdin)


def _database_is_down(complaint: str) -> bool:
    # Some versions of sacctmgr print this, no rows, and end with 0.
    return bool(complaint.strip()) and messages.classify(complaint, "").kind == "database"


def _without_echo(shown: str) -> str:
    """The output of sacctmgr, without the commands that it repeats from its standard input."""
    return " ".join(line for line in shown.splitlines() if not line.startswith("sacctmgr: "))
