# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A batch job as it is submitted: options of the module as options of sbatch, the script, the directory.

Runs on nodes: Python 3.9; the action plugin knows by TYPED and LISTED which options only submit.
"""

from __future__ import annotations

import os
import pwd
import typing as t

from ...node.acting import regular
from ...node.path_owner import owner_of, rights_of
from ...node.safe_path import UnsafePathError
from .. import values
from ..batch import submission
from ..errors import SlurmError

#: Option of the module -> option of sbatch, where the value is text.
TYPED = {
    "account": "account",
    "array": "array",
    "begin": "begin",
    "comment": "comment",
    "constraint": "constraint",
    "cpus_per_task": "cpus_per_task",
    "dependency": "dependency",
    "error": "error",
    "gpus": "gpus",
    "gpus_per_node": "gpus_per_node",
    "gres": "gres",
    "mail_user": "mail_user",
    "memory": "mem",
    "memory_per_cpu": "mem_per_cpu",
    "memory_per_gpu": "mem_per_gpu",
    "nodes": "nodes",
    "ntasks": "ntasks",
    "ntasks_per_node": "ntasks_per_node",
    "output": "output",
    "partition": "partition",
    "qos": "qos",
    "reservation": "reservation",
    "signal": "signal",
    "time_limit": "time",
    "workdir": "chdir",
}
LISTED = {"exclude": "exclude", "mail_type": "mail_type", "nodelist": "nodelist"}
#: Each option of the module with its default, for callers that do not have its argument spec.
DEFAULTS: dict[str, t.Any] = {
    **dict.fromkeys((*TYPED, "name", "id", "script", "content", "timeout", "requeue")),
    **{name: [] for name in (*LISTED, "arguments")},
    **dict.fromkeys(("force", "lock", "accounting", "exclusive"), False),
    "state": "submitted",
    "fail_on_error": True,
    "tail_lines": 20,
    "environment": {},
    "options": {},
}
# Options of sbatch that this module has another way for.
_ELSEWHERE = {
    "help": "see man sbatch",
    "job_name": "name is the job's name",
    "parsable": "the module reads what sbatch prints itself",
    "test_only": "run the task in check mode",
    "usage": "see man sbatch",
    "wait": "state: completed waits",
    "wrap": "write the command into content",
    **{to: f"it is the module's option {of}" for of, to in {**TYPED, **LISTED}.items()},
}
# Options of sbatch that take a time.
_TIMES = {
    **dict.fromkeys(("delay_boot", "time", "time_min"), "length"),
    **dict.fromkeys(("begin", "deadline"), "point"),
}


def options_of(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the options of sbatch that the module's options ask for. Raises SlurmError."""
    options: dict[str, t.Any] = {"job_name": params["name"]}
    for name, value in (params["options"] or {}).items():
        option = str(name).lstrip("-").replace("-", "_")
        if option in _ELSEWHERE:
            raise SlurmError("invalid", f"options: {name}: -> {_ELSEWHERE[option]}")
        if value is not None and value is not False:
            options[option] = value if value is True else _text(f"options: {name}", option, value)
    for name, option in TYPED.items():
        if params[name] is not None:
            options[option] = _text(name, option, params[name])
    if "chdir" in options:
        options["chdir"] = os.path.expanduser(options["chdir"])
    for name, option in LISTED.items():
        if params[name]:
            options[option] = ",".join(params[name])
    if params["exclusive"]:
        options["exclusive"] = True
    if params["requeue"] is not None:
        options["requeue" if params["requeue"] else "no_requeue"] = True
    if params["environment"]:
        options["environment"] = {str(k): str(v) for k, v in params["environment"].items()}
    if params["arguments"]:
        options["arguments"] = list(params["arguments"])
    return options


def _text(name: str, option: str, value: t.Any) -> str:
    """Return a value as text. Raises SlurmError for a time that YAML has made a number of."""
    read = {"length": values.given_length, "point": values.given_point}
    try:
        return read[_TIMES[option]](value) if option in _TIMES else str(value)
    except ValueError as error:
        raise SlurmError("invalid", f"{name}: {error}") from None


def script_of(params: t.Mapping[str, t.Any], workdir: str) -> str:
    """Return the script; a content without #! is for /bin/sh, as for sbatch --wrap.

    Root reads a file with the rights of the user who controls its path, or a link there would name any file.
    Raises SlurmError: invalid.
    """
    content = params["content"]
    if content is not None:
        return content if content.startswith("#!") else "#!/bin/sh\n" + content
    path = os.path.join(workdir, os.path.expanduser(params["script"]))
    try:
        user = owner_of([path], "run the task as the user of the job, with become_user")
        with rights_of(user), open(path, encoding="utf-8", opener=regular) as file:
            return file.read()
    except UnsafePathError as error:
        raise SlurmError("invalid", str(error)) from None
    except UnicodeDecodeError:
        raise SlurmError(
            "invalid", f"{path}: is not text in UTF-8 -> is it the batch script?"
        ) from None
    except OSError as error:
        raise SlurmError(
            "invalid",
            f"{path}: {error.strerror} -> script is a path on the host that the task runs on, "
            "readable for the user that it runs as; content has the text itself",
        ) from None


def directives_of(script: str) -> dict[str, t.Any] | None:
    """Options of the script's own lines; None where one of them is not understood."""
    try:
        return submission.directives(script)
    except SlurmError:
        return None


def home_of(user: str) -> str:
    """Return the home directory of a user; "" where this host does not know the user."""
    try:
        return pwd.getpwnam(user).pw_dir
    except KeyError:
        return ""


def prepare(params: t.Mapping[str, t.Any], user: str) -> tuple[str, dict[str, t.Any]]:
    """Return script and options of the job of this user, with the directory in which it runs.

    Raises SlurmError: invalid.
    """
    if params["content"] is None and not params["script"]:
        raise SlurmError(
            "invalid",
            f"{user} does not have a job {params['name']} that waits or runs -> give content or script to "
            "submit one, or the id of one that has ended",
        )
    options = options_of(params)
    home = home_of(user)
    script = script_of(params, options.get("chdir") or home)
    directives = directives_of(script)
    # A directory of ours goes before the script's: where its lines are not understood, sbatch decides.
    if "chdir" not in options and directives is not None:
        written = directives.get("chdir")
        if not written and not home:
            raise SlurmError(
                "invalid",
                f"this host does not know the user {user} nor a home directory -> set workdir to a "
                "directory on the compute nodes",
            )
        options["chdir"] = written or home
    return script, options


def shown(script: str, options: t.Mapping[str, t.Any]) -> str:
    """Return what is submitted, for a diff; of the environment only the names."""
    words = submission.arguments({k: v for k, v in options.items() if k != "arguments"})[:-1]
    lines = ["sbatch " + " ".join(words)]
    if options.get("environment"):
        lines.append("environment: " + " ".join(sorted(options["environment"])))
    if options.get("arguments"):
        lines.append("arguments: " + " ".join(map(str, options["arguments"])))
    return "\n".join([*lines, script if script.endswith("\n") else script + "\n"])
