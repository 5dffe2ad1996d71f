# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A batch job's options as arguments of sbatch, and as what slurmrestd's job/submit takes. Pure.

Options are keyed by the long options of sbatch with underscores (https://slurm.schedmd.com/sbatch.html);
values are text, or True for an option without a value. Two more: environment, a dict, and
arguments, the script's own. The fields of slurmrestd are from its data parsers v0.0.39 to v0.0.45,
and from openapi/v0.0.38/jobs.c of Slurm 22.05. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import datetime
import os
import re
import typing as t

from .. import values
from ..errors import SlurmError
from .directives import lines_of, not_understood, read, without

Options = t.Mapping[str, t.Any]

_OWN = ("environment", "arguments")
# Options that only sbatch itself acts on, while it submits; the job does not have them.
_OF_SBATCH = ("ignore_pbs", "parsable", "quiet", "verbose", "wait")
_NOT_FIELDS = (*_OWN, *_OF_SBATCH, "get_user_env")
#: PATH of a job of slurmrestd; sbatch passes on the PATH of the user who submits.
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

# Option -> field of v0.0.37 and v0.0.38, which takes the text of sbatch as it is.
_OLD_FIELDS = {
    "account": "account",
    "acctg_freq": "account_gather_frequency",
    "array": "array",
    "batch": "batch_features",
    "bb": "burst_buffer",
    "begin": "begin_time",
    "chdir": "current_working_directory",
    "cluster_constraint": "cluster_constraint",
    "comment": "comment",
    "constraint": "constraints",
    "container": "container",
    "core_spec": "core_specification",
    "cores_per_socket": "cores_per_socket",
    "cpu_freq": "cpu_frequency",
    "cpus_per_gpu": "cpus_per_gpu",
    "cpus_per_task": "cpus_per_task",
    "deadline": "deadline",
    "delay_boot": "delay_boot",
    "dependency": "dependency",
    "distribution": "distribution",
    "error": "standard_error",
    "exclude": "exclude_nodes",
    "exclusive": "exclusive",
    "gpu_freq": "gpu_frequency",
    "gpus": "gpus",
    "gpus_per_node": "gpus_per_node",
    "gpus_per_socket": "gpus_per_socket",
    "gpus_per_task": "gpus_per_task",
    "gres": "gres",
    "gres_flags": "gres_flags",
    "hint": "cpu_binding_hint",
    "hold": "hold",
    "input": "standard_input",
    "job_name": "name",
    "kill_on_invalid_dep": "kill_on_invalid_dependency",
    "licenses": "licenses",
    "mail_type": "mail_type",
    "mail_user": "mail_user",
    "mcs_label": "mcs_label",
    "mem": "memory_per_node",
    "mem_per_cpu": "memory_per_cpu",
    "mem_per_gpu": "memory_per_gpu",
    "mincpus": "minimum_cpus_per_node",
    "nice": "nice",
    "no_requeue": "no_requeue",
    "nodelist": "nodelist",
    "nodes": "nodes",
    "ntasks": "tasks",
    "ntasks_per_core": "tasks_per_core",
    "ntasks_per_gpu": "ntasks_per_gpu",
    "ntasks_per_node": "tasks_per_node",
    "ntasks_per_socket": "tasks_per_socket",
    "open_mode": "open_mode",
    "output": "standard_output",
    "oversubscribe": "oversubscribe",
    "partition": "partition",
    "prefer": "prefer",
    "priority": "priority",
    "profile": "profile",
    "qos": "qos",
    "requeue": "requeue",
    "reservation": "reservation",
    "signal": "signal",
    "sockets_per_node": "sockets_per_node",
    "spread_job": "spread_job",
    "thread_spec": "thread_specification",
    "threads_per_core": "threads_per_core",
    "time": "time_limit",
    "time_min": "time_minimum",
    "tmp": "temporary_disk_per_node",
    "use_min_nodes": "minimum_nodes",
    "wait_all_nodes": "wait_all_nodes",
    "wckey": "wckey",
}

# Option -> field of v0.0.39 and later, for those whose value is written the same way.
_TEXTS = {
    "account": "account",
    "acctg_freq": "account_gather_frequency",
    "array": "array",
    "batch": "batch_features",
    "bb": "burst_buffer",
    "chdir": "current_working_directory",
    "cluster_constraint": "cluster_constraint",
    "comment": "comment",
    "constraint": "constraints",
    "container": "container",
    "dependency": "dependency",
    "error": "standard_error",
    "extra": "extra",
    "input": "standard_input",
    "job_name": "name",
    "licenses": "licenses",
    "mail_user": "mail_user",
    "mcs_label": "mcs_label",
    "nodes": "nodes",
    "output": "standard_output",
    "partition": "partition",
    "prefer": "prefer",
    "qos": "qos",
    "reservation": "reservation",
    "wckey": "wckey",
}
_LISTS = {"exclude": "excluded_nodes", "nodelist": "required_nodes"}
_WHOLE = {
    "core_spec": "core_specification",
    "cpus_per_task": "cpus_per_task",
    "mincpus": "minimum_cpus_per_node",
    "nice": "nice",
    "ntasks": "tasks",
    "ntasks_per_core": "tasks_per_core",
    "ntasks_per_gpu": "ntasks_per_tres",
    "ntasks_per_node": "tasks_per_node",
    "ntasks_per_socket": "tasks_per_socket",
    "sockets_per_node": "sockets_per_node",
    "thread_spec": "thread_specification",
    "threads_per_core": "threads_per_core",
}
_BOOLS = {
    "contiguous": "contiguous",
    "hold": "hold",
    "overcommit": "overcommit",
    "reboot": "reboot",
    "requeue": "requeue",
    "wait_all_nodes": "wait_all_nodes",
}
_INVERTED = {"no_kill": "kill_on_node_fail", "no_requeue": "requeue"}
_JOB_FLAGS = {
    "spread_job": "SPREAD_JOB",
    "stepmgr": "STEPMGR_ENABLED",
    "use_min_nodes": "PREFER_MINIMUM_NODE_COUNT",
}
#: Flags that slurmrestd has only from an API on.
_FLAG_SINCE = {"stepmgr": "v0.0.41"}
_MEMORY = {
    "mem": "memory_per_node",
    "mem_per_cpu": "memory_per_cpu",
    "tmp": "temporary_disk_per_node",
}
# GPUs and other generic resources: several options make one list.
_TRES = {
    "cpus_per_gpu": "cpus_per_tres",
    "gpus": "tres_per_job",
    "gpus_per_node": "tres_per_node",
    "gpus_per_socket": "tres_per_socket",
    "gpus_per_task": "tres_per_task",
    "gres": "tres_per_node",
    "mem_per_gpu": "memory_per_tres",
}
_MAIL = {
    "ALL": ["BEGIN", "END", "FAIL", "REQUEUE", "INVALID_DEPENDENCY", "STAGE_OUT"],
    "INVALID_DEPEND": ["INVALID_DEPENDENCY"],
    "NONE": [],
    "TIME_LIMIT": ["TIME=100%"],
    "TIME_LIMIT_50": ["TIME=50%"],
    "TIME_LIMIT_80": ["TIME=80%"],
    "TIME_LIMIT_90": ["TIME=90%"],
}
# Variables that sbatch puts into the job's environment, and slurmrestd does not.
_EXPORTED = {
    "cpus_per_gpu": "SLURM_CPUS_PER_GPU",
    "cpus_per_task": "SLURM_CPUS_PER_TASK",
    "gpus": "SLURM_GPUS",
    "gpus_per_node": "SLURM_GPUS_PER_NODE",
    "gpus_per_socket": "SLURM_GPUS_PER_SOCKET",
    "gpus_per_task": "SLURM_GPUS_PER_TASK",
    "job_name": "SLURM_JOB_NAME",
    "ntasks": "SLURM_NTASKS",
    "ntasks_per_core": "SLURM_NTASKS_PER_CORE",
    "ntasks_per_gpu": "SLURM_NTASKS_PER_GPU",
    "ntasks_per_node": "SLURM_NTASKS_PER_NODE",
    "ntasks_per_socket": "SLURM_NTASKS_PER_SOCKET",
    "threads_per_core": "SLURM_THREADS_PER_CORE",
}


def arguments(options: Options) -> list[str]:
    """Return the arguments of an sbatch that reads the script from its standard input."""
    words = []
    for option, value in sorted(options.items()):
        # With --quiet, sbatch would not print the number of the job.
        if option in (*_OWN, "quiet") or value is None or value is False:
            continue
        name = "--" + option.replace("_", "-")
        words.append(name if value is True else f"{name}={value}")
    # Without a file name sbatch takes no arguments for the script.
    return [*words, "/dev/stdin", *map(str, options.get("arguments") or ())]


def for_sbatch(script: str) -> str:
    """Return the script to hand to an sbatch whose answer is the job's number.

    With --quiet it would not print that number, and with --wait only after the job has ended.
    """
    return script if not_understood(script) else without(script, ("quiet", "wait"))


def environment(options: Options) -> dict[str, str]:
    """Return what is added to the environment of sbatch, and so to the job's."""
    return {str(k): str(v) for k, v in (options.get("environment") or {}).items()}


# Option -> the end of its variable of sbatch(1), where that is not its own name.
_VARIABLES = {
    "array": ("ARRAY_INX",),
    "bb": ("BURST_BUFFER",),
    "cpu_freq": ("CPU_FREQ_REQ",),
    **dict.fromkeys(
        ("mem", "mem_per_cpu", "mem_per_gpu"), ("MEM_PER_NODE", "MEM_PER_CPU", "MEM_PER_GPU")
    ),
    **dict.fromkeys(("requeue", "no_requeue"), ("REQUEUE", "NO_REQUEUE")),
    "switches": ("REQ_SWITCH", "WAIT4SWITCH"),
    "time": ("TIMELIMIT",),
}


def overriding(script: str) -> frozenset[str]:
    """Return the variables of a user's environment that would take the place of the script's own options.

    With SBATCH_WAIT, sbatch would answer only after the job has ended, like one with --wait.
    """
    options = {one.name.replace("-", "_") for one in read(lines_of(script)).directives}
    names = {end for one in options for end in _VARIABLES.get(one, (one.upper(),))}
    return frozenset(f"SBATCH_{end}" for end in (*names, "WAIT"))


def directives(script: str) -> dict[str, t.Any]:
    """Return the options of a script's #SBATCH lines; the last of an option counts.

    sbatch reads them itself; slurmrestd does not. Raises SlurmError: invalid, for a line that sbatch
    would read and that is not understood here.
    """
    wrong = not_understood(script)
    if wrong:
        line = lines_of(script)[wrong.line - 1].strip()
        raise SlurmError("invalid", f"{line}: " + _FAULTS[wrong.kind].format(what=wrong.what))
    return {
        one.name.replace("-", "_"): True if one.value is None else one.value
        for one in read(lines_of(script)).directives
    }


_FAULTS = {
    "hetjob": "{what} begins another part of the job, which slurmrestd is not given here -> submit it with sbatch",
    "quote": "a quote is not closed -> close it in this line of the script",
    "spelling": "this is not an option -> write #SBATCH, a space, and an option with its dashes",
    "unknown": "sbatch does not have the option {what} -> see `man sbatch`",
    "value": "--{what} does not have a value -> give it one",
    "words": "{what} is not an option -> write one option with its value in each line",
}


def body(
    script: str, options: Options, api: str, home: str, version: str = "", user: str = ""
) -> dict[str, t.Any]:
    """Return the document that POST /slurm/<api>/job/submit takes.

    api: v0.0.37 or later. home: also the working directory where the options name none. version: of Slurm
    behind it, such as 23.02.7; releases that serve one API write generic resources differently.
    home and user, where they are known, are HOME and USER of the job, as sbatch would send them.
    Raises SlurmError: impossible for an option without a field, invalid for a value.
    """
    options = {**directives(script), **{k: v for k, v in options.items() if v not in (None, False)}}
    options.setdefault("chdir", home)
    variables = _variables(options, {"HOME": home, "LOGNAME": user, "USER": user})
    for name in ("output", "error", "input"):
        # Paths below the working directory, which is how sbatch sends them.
        if name in options:
            options[name] = os.path.join(options["chdir"], options[name])
    # Nothing of this host's environment goes along anyway.
    if str(options.get("export", "")).upper() in ("ALL", "NIL", "NONE"):
        del options["export"]
    wanted = {k: v for k, v in options.items() if k not in _NOT_FIELDS}
    old = api in ("v0.0.37", "v0.0.38")
    job = _old_job(wanted, api) if old else _job(wanted, api, version)
    if options.get("arguments"):
        if old:
            raise SlurmError(
                "impossible",
                f"arguments: slurmrestd crashes on them with {api} -> pass them in environment, use "
                "transport: cli, or Slurm 23.02 or later",
            )
        # The first is where the name of the script goes.
        job["argv"] = [options["job_name"], *map(str, options["arguments"])]
    job["environment"] = variables if old else [f"{k}={v}" for k, v in variables.items()]
    return {"script": script, "job": job}


def _variables(options: dict[str, t.Any], person: dict[str, str]) -> dict[str, str]:
    """The whole environment of a job that slurmrestd submits."""
    found = {"PATH": DEFAULT_PATH, "SLURM_SUBMIT_DIR": str(options["chdir"])}
    found.update({name: value for name, value in person.items() if value})
    found.update(environment(options))
    found.update({to: str(options[of]) for of, to in _EXPORTED.items() if of in options})
    if options.get("get_user_env"):
        found["SLURM_GET_USER_ENV"] = "1"
    return found


def _no_field(option: str, api: str) -> SlurmError:
    return SlurmError(
        "impossible",
        f"--{option.replace('_', '-')}: slurmrestd's {api} does not have a field for it -> leave it out, or "
        "use transport: cli on a host with sbatch",
    )


def _old_job(options: Options, api: str) -> dict[str, t.Any]:
    job = {}
    for option, value in options.items():
        if option not in _OLD_FIELDS:
            raise _no_field(option, api)
        if option == "exclusive" and value is True:
            value = "exclusive"
        job[_OLD_FIELDS[option]] = value
    return job


def _job(options: Options, api: str, version: str) -> dict[str, t.Any]:
    job: dict[str, t.Any] = {}
    flags: list[str] = []
    # Slurm 23.02 wants gres:gpu:2, later ones gres/gpu:2.
    gres = "gres:" if version.startswith("23.02") else "gres/"
    for option, value in options.items():
        if option in _TEXTS:
            job[_TEXTS[option]] = str(value)
        elif option in _LISTS:
            job[_LISTS[option]] = [str(value)]
        elif option in _WHOLE:
            job[_WHOLE[option]] = _whole(option, value)
        elif option in _BOOLS:
            job[_BOOLS[option]] = str(value).lower() not in ("0", "no", "false")
        elif option in _INVERTED:
            job[_INVERTED[option]] = str(value).lower() in ("off", "no")
        elif option in _JOB_FLAGS and api >= _FLAG_SINCE.get(option, ""):
            flags.append(_JOB_FLAGS[option])
        elif option in _MEMORY:
            amount = _mebibytes(option, value)
            job[_MEMORY[option]] = amount if option == "tmp" else _number(amount)
        elif option in _TRES:
            job.setdefault(_TRES[option], []).append(_tres(option, value, gres, version))
        elif option in ("time", "time_min"):
            job["time_limit" if option == "time" else "time_minimum"] = _number(
                _minutes(option, value)
            )
        elif option in ("begin", "deadline"):
            job["begin_time" if option == "begin" else option] = _moment(option, value, api)
        elif option in _SPECIAL:
            _SPECIAL[option](job, flags, str(value))
        else:
            raise _no_field(option, api)
    for field in set(_TRES.values()) & set(job):
        job[field] = ",".join(job[field])
    if flags:
        job["flags"] = flags
    return job


def _exclusive(job: dict[str, t.Any], flags: list[str], value: str) -> None:
    job["shared"] = ["none" if value in ("True", "exclusive") else value]


def _oversubscribe(job: dict[str, t.Any], flags: list[str], value: str) -> None:
    job["shared"] = ["oversubscribe"]


def _mail_type(job: dict[str, t.Any], flags: list[str], value: str) -> None:
    types = [item.strip().upper() for item in value.split(",") if item.strip()]
    job["mail_type"] = [flag for item in types for flag in _MAIL.get(item, [item])]


def _open_mode(job: dict[str, t.Any], flags: list[str], value: str) -> None:
    job["open_mode"] = ["APPEND" if value[:1] in "aA" else "TRUNCATE"]


def _priority(job: dict[str, t.Any], flags: list[str], value: str) -> None:
    job["priority"] = _number(_whole("priority", value))


def _signal(job: dict[str, t.Any], flags: list[str], value: str) -> None:
    match = re.fullmatch(r"([BR]*):?([A-Za-z0-9]+)(?:@(\d+))?", value)
    if not match:
        raise _refused("signal", value, "[B:]NAME[@SECONDS], such as B:USR1@120")
    job["kill_warning_signal"] = match[2]
    job["kill_warning_delay"] = _number(int(match[3] or 60))
    if match[1]:
        names = {"B": "BATCH_JOB", "R": "RESERVATION_JOB"}
        job["kill_warning_flags"] = [names[letter] for letter in sorted(set(match[1]))]


def _gres_flags(job: dict[str, t.Any], flags: list[str], value: str) -> None:
    names = {"enforce-binding": "GRES_BINDING_ENFORCED", "disable-binding": "GRES_BINDING_DISABLED"}
    if value not in names:
        raise _refused("gres_flags", value, " or ".join(names))
    flags.append(names[value])


def _kill_on_invalid_dep(job: dict[str, t.Any], flags: list[str], value: str) -> None:
    prefix = "NO_" if value.lower() in ("no", "false") else ""
    flags.append(f"{prefix}KILL_INVALID_DEPENDENCY")


def _switches(job: dict[str, t.Any], flags: list[str], value: str) -> None:
    count, _at, wait = value.partition("@")
    job["required_switches"] = _number(_whole("switches", count))
    if wait:
        limit = _minutes("switches", wait)
        job["wait_for_switch"] = 60 * (limit or 0)


_SPECIAL: dict[str, t.Callable[[dict[str, t.Any], list[str], str], None]] = {
    "exclusive": _exclusive,
    "gres_flags": _gres_flags,
    "kill_on_invalid_dep": _kill_on_invalid_dep,
    "mail_type": _mail_type,
    "open_mode": _open_mode,
    "oversubscribe": _oversubscribe,
    "priority": _priority,
    "signal": _signal,
    "switches": _switches,
}


def _refused(option: str, value: t.Any, form: str) -> SlurmError:
    return SlurmError(
        "invalid",
        f"--{option.replace('_', '-')}: {value!r} is not a value that it accepts -> write {form}",
    )


def _whole(option: str, value: t.Any) -> int:
    if option == "nice" and value is True:
        return 100  # what sbatch does with --nice alone
    try:
        return int(str(value))
    except ValueError:
        raise _refused(option, value, "a whole number") from None


def _number(value: int | None) -> dict[str, t.Any]:
    """A number as slurmrestd takes it; None is "no limit"."""
    return {"set": value is not None, "infinite": value is None, "number": value or 0}


def _tres(option: str, value: t.Any, gres: str, version: str) -> str:
    text = str(value)
    if option == "gres":
        names = [item.strip() for item in text.split(",") if item.strip()]
        return ",".join(name if name.startswith(gres) else gres + name for name in names)
    if option == "mem_per_gpu":
        text = str(_mebibytes(option, value))
    if option == "gpus_per_task":
        # From 24.05 a task's resources are written name=count.
        model, _colon, count = text.rpartition(":")
        equals = "=" if not version.startswith(("23.02", "23.11")) else ":"
        return f"{gres}gpu{':' + model if model else ''}{equals}{count}"
    return ",".join(f"{gres}gpu:{item}" for item in text.split(","))


def _minutes(option: str, value: t.Any) -> int | None:
    """Return the minutes of a time, rounded up; None is "no limit"."""
    try:
        seconds = values.seconds(str(value))
    except ValueError:
        form = 'minutes, "H:MM:SS", "D-HH:MM:SS" or UNLIMITED'
        raise _refused(option, value, form) from None
    return None if seconds is None else -(-seconds // 60)


def _mebibytes(option: str, value: t.Any) -> int:
    try:
        size = values.mebibytes(str(value))
    except ValueError:
        size = None
    if size is None:
        raise _refused(option, value, "a number with K, M, G or T behind it, such as 16G")
    return size


def _moment(option: str, value: t.Any, api: str) -> t.Any:
    """A point in time: slurmrestd reads sbatch's forms itself from v0.0.40 on."""
    text = str(value)
    if text.isdigit():
        return _number(int(text)) if api != "v0.0.39" else int(text)
    if api != "v0.0.39":
        return text
    try:
        return int(datetime.datetime.fromisoformat(text).timestamp())
    except ValueError:
        raise _refused(option, value, "YYYY-MM-DDTHH:MM:SS or seconds since 1970") from None
