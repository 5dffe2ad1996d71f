# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A host's knowledge of its cluster for checking a batch script. Runs on nodes: Python 3.9."""

from __future__ import annotations

import json
import os
import re
import subprocess
import typing as t

from ...containers import image_fit, image_stack
from ...containers.image_errors import ImageError
from ...node.terminal import printable
from ...slurm import values
from ...slurm.client import cli
from ...slurm.errors import SlurmError
from ...slurm.releases import major_minor
from .rule import Cluster

#: Written on login nodes by the role slurm_login.
CONFIG = image_fit.PUBLISHED


def cluster(
    *,
    interfaces: t.Sequence[str] = (),
    partitions: t.Sequence[str] = (),
    mounts: t.Sequence[str] = (),
    default_memory: bool | None = None,
    planned: str = "",
    workdir: str = "",
    config: str = CONFIG,
    job_known: t.Callable[[int], bool] | None = None,
) -> Cluster:
    """Return the known values: those given, else those in the host's file, else none.

    planned: a duration as sbatch takes it. workdir: where sbatch will be run; "" where that is not
    known. Raises ValueError for a duration or a file that cannot be read.
    """
    found: dict[str, t.Any] = {}
    try:
        with open(config, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{config}: {error} -> ask an administrator: role slurm_login writes it"
        ) from None
    interfaces = interfaces or found.get("interfaces") or ()
    partitions = partitions or found.get("partitions") or ()
    mounts = mounts or found.get("mounts") or ()
    if default_memory is None:
        default_memory = found.get("default_memory")
    try:
        seconds = values.seconds(planned) if planned else None
    except ValueError as error:
        raise ValueError(f"planned: {error} -> write it as sbatch takes --time") from None
    return Cluster(
        interfaces=frozenset(interfaces) or None,
        partitions=frozenset(partitions) or None,
        mounts=frozenset(mounts) or None,
        default_memory=default_memory,
        directory_exists=os.path.isdir,
        image_faults=_image_faults(image_fit.of(found), workdir),
        workdir=workdir,
        planned=seconds,
        syntax=syntax,
        file_exists=os.path.exists,
        pyxis=found.get("pyxis"),
        job_known=job_known,
        release=_release(),
        has_option=_has_option,
    )


#: Seconds for Slurm's commands to print their version and options, for which they may ask for their configuration.
_SHORT = 5.0


def _release() -> tuple[int, int] | None:
    """Return the release of this host's Slurm; None where it does not have one."""
    try:
        return major_minor(cli.Cli(timeout=_SHORT).version)
    except SlurmError:
        return None


def _has_option(name: str) -> bool | None:
    """Return whether this host's sbatch has an option, as one of a plugin (SPANK); None where it does not say."""
    try:
        shown = cli.Cli(timeout=_SHORT).command("sbatch", "--help")
    except SlurmError:
        return None
    return bool(re.search(rf"(?<![\w-])--{re.escape(name)}(?![\w-])", shown))


#: Seconds for the shell to read a script.
_PATIENCE = 5.0
_SAID = re.compile(r"[^:]*: line (\d+): (.*)")


def syntax(text: str) -> list[tuple[int, str]]:
    """Return what bash refuses in a script: each line and the reason; [] where there is no bash, or no answer in time.

    With -n bash reads commands and runs none. It gets the script on its standard input and an empty environment, in
    which no BASH_ENV names a file to run first.
    """
    try:
        done = subprocess.run(
            ["/bin/bash", "--norc", "--noprofile", "-n"],
            input=text,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env={"LC_ALL": "C"},
            cwd="/",
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = [match for line in done.stderr.split("\n") if (match := _SAID.fullmatch(line))]
    # The line after an error shows its text; a warning is of a here-document that does not end.
    wrong = [
        one
        for one in found
        if one[2].startswith(("syntax error", "unexpected EOF", "warning: here-document"))
    ]
    return [(int(one[1]), printable(one[2].replace("warning: ", "")).rstrip()) for one in wrong[:1]]


def known_job(transport: t.Any) -> t.Callable[[int], bool]:
    """Return whether Slurm knows a job, by its number: as one in the queue, or as one that has ended.

    transport: of the Slurm client. A transport that does not answer knows every job.
    """

    def known(number: int) -> bool:
        try:
            return bool(transport.jobs(number) or transport.ended_jobs(number))
        except SlurmError:
            return True

    return known


def _image_faults(
    known: image_fit.Cluster, workdir: str
) -> t.Callable[[str, str, str], list[tuple[str, str, bool]]] | None:
    if not known.nodes:
        return None

    def faults(image: str, partition: str, nodes: str) -> list[tuple[str, str, bool]]:
        try:
            path = image_fit.file_of(image, workdir)
            inside = image_stack.read(path) if path else None
        except ImageError:
            return []  # the job, or the import, says it better
        return [
            (printable(one.what), one.remedy, one.sure)
            for one in (known.faults(inside, partition, nodes) if inside else ())
        ]

    return faults


def script(path: str, opener: t.Callable[[str, int], int] | None = None) -> str:
    """Return the text of a script with its line ends as they are.

    opener: as of open(). Raises ValueError: what, why and the remedy.
    """
    try:
        with open(path, encoding="utf-8", newline="", opener=opener) as file:
            return file.read()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not text in UTF-8 -> is it the batch script?") from None
    except OSError as error:
        raise ValueError(
            f"{path}: {error.strerror} -> give the path of a batch script that you can read here"
        ) from None
