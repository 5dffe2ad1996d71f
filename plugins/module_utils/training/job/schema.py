# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The description of a training job: its schema as an argument spec, and its checks. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import shlex
import typing as t

from ...slurm import values
from ...slurm.batch.options import SBATCH, SRUN
from ...slurm.errors import ReportedError
from ..retry import classes
from . import endings, sweep, texts
from .typed import Json, options

LAUNCHERS = ("torchrun", "srun", "deepspeed", "accelerate", "mpirun", "batch")
#: Launchers that run once on each node and start that node's processes.
PER_NODE = ("torchrun", "deepspeed", "accelerate")

#: The schema. Each option as in Ansible's argument specs; docs/training_jobs.md explains it.
SPEC: dict[str, Json] = {
    "name": {"type": "str", "required": True},
    "command": {"type": "str"},
    "script": {"type": "str"},
    "arguments": {"type": "list", "elements": "str", "default": []},
    "launcher": {"type": "str", "choices": list(LAUNCHERS), "default": "torchrun"},
    "launcher_options": {"type": "list", "elements": "str", "default": []},
    "nodes": {"type": "str"},
    "gpus": {"type": "int"},
    "gpus_per_node": {"type": "str"},
    "tasks_per_node": {"type": "int"},
    "cpus_per_task": {"type": "int"},
    "nodelist": {"type": "str"},
    "exclude": {"type": "str"},
    "constraint": {"type": "str"},
    "machine_type": {"type": "str"},
    "memory": {"type": "str"},
    "exclusive": {"type": "bool", "default": False},
    "partition": {"type": "str"},
    "account": {"type": "str"},
    "qos": {"type": "str"},
    "reservation": {"type": "str"},
    "time": {"type": "str"},
    "sbatch_options": {"type": "dict", "default": {}},
    "srun_options": {"type": "dict", "default": {}},
    "container": {
        "type": "dict",
        "options": {
            "image": {"type": "str"},
            "source": {"type": "str"},
            "mounts": {"type": "list", "elements": "str", "default": []},
            "workdir": {"type": "str"},
            "name": {"type": "str"},
            "writable": {"type": "bool"},
            "mount_home": {"type": "bool"},
            "remap_root": {"type": "bool"},
            "entrypoint": {"type": "bool"},
        },
    },
    "workdir": {"type": "str"},
    "environment": {"type": "dict", "default": {}},
    "secrets": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "file": {"type": "str", "default": ""},
        },
    },
    "data": {"type": "str"},
    "checkpoints": {"type": "str"},
    "logs": {"type": "str"},
    "results": {"type": "str"},
    "tensorboard": {"type": "str"},
    "output": {"type": "str"},
    "error": {"type": "str"},
    "gpu_samples": {"type": "int", "default": 60},
    "retries": {"type": "int", "default": 0},
    "retry": {
        "type": "dict",
        "default": {},
        "options": {
            **{one.name: {"type": "int"} for one in classes.TABLE},
            "hang_after": {"type": "str"},
            "wait": {"type": "int"},
            "most": {"type": "int"},
        },
    },
    "spare_nodes": {"type": "int", "default": 0},
    "signal": {
        "type": "dict",
        "options": {
            "name": {"type": "str", "default": "USR1"},
            "seconds": {"type": "int", "default": 300},
        },
    },
    "dependency": {"type": "str"},
    "singleton": {"type": "bool", "default": False},
    "array": {"type": "str"},
    "sweep": {"type": "dict", "default": {}},
    "sweep_parallel": {"type": "int"},
    "hooks": {
        "type": "dict",
        "default": {},
        "options": {
            "pre": {"type": "str", "default": ""},
            "post": {"type": "str", "default": ""},
            "always": {"type": "str", "default": ""},
        },
    },
    "notify": {"type": "str"},
}

#: Long option of sbatch -> field of the description with the same value.
FIELDS = {
    "account": "account",
    "array": "array",
    "chdir": "workdir",
    "constraint": "constraint",
    "cpus-per-task": "cpus_per_task",
    "dependency": "dependency",
    "error": "error",
    "exclude": "exclude",
    "exclusive": "exclusive",
    "gpus": "gpus",
    "gpus-per-node": "gpus_per_node",
    "job-name": "name",
    "mem": "memory",
    "nodelist": "nodelist",
    "nodes": "nodes",
    "ntasks-per-node": "tasks_per_node",
    "output": "output",
    "partition": "partition",
    "qos": "qos",
    "reservation": "reservation",
    "time": "time",
}
#: Directories of a job, made before it is submitted, and the variable that passes each to the tasks.
DIRECTORIES = {
    "data": "TRAIN_DATA",
    "checkpoints": "TRAIN_CHECKPOINTS",
    "logs": "TRAIN_LOGS",
    "results": "TRAIN_RESULTS",
    "tensorboard": "TENSORBOARD_LOGDIR",
}
#: In place of a number of nodes: all that are idle when the job is submitted.
IDLE = "idle"
_RANKS = frozenset("RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK".split())
_COUNTS = frozenset("ntasks ntasks-per-gpu ntasks-per-node gpus-per-task".split())  # of tasks
_SHARED = (("exclusive", "user"), ("exclusive", "mcs"))  # the key is for a whole node


class JobError(ReportedError, ValueError):
    """A description that is wrong: one line for each fault, `where: what, why -> remedy`."""


@dataclasses.dataclass(frozen=True)
class Container:
    """A Pyxis container; None in a flag leaves it to the cluster's default."""

    image: str = ""
    source: str = ""
    mounts: tuple[str, ...] = ()
    workdir: str = ""
    name: str = ""
    writable: bool | None = None
    mount_home: bool | None = None
    remap_root: bool | None = None
    entrypoint: bool | None = None


@dataclasses.dataclass(frozen=True)
class Signal:
    """A signal before the time limit; seconds: how long before."""

    name: str
    seconds: int


@dataclasses.dataclass(frozen=True)
class Job:
    """A checked description. Texts are "" and numbers None where nothing is asked; see docs/training_jobs.md."""

    name: str
    command: str
    launcher: str = "torchrun"
    launcher_options: tuple[str, ...] = ()
    nodes: str = ""
    gpus: int | None = None
    gpus_per_node: str = ""
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    nodelist: str = ""
    exclude: str = ""
    constraint: str = ""
    machine_type: str = ""
    memory: str = ""
    exclusive: bool = False
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    time: str = ""
    sbatch_options: t.Mapping[str, str | bool] = dataclasses.field(default_factory=dict)
    srun_options: t.Mapping[str, str | bool] = dataclasses.field(default_factory=dict)
    container: Container | None = None
    workdir: str = ""
    environment: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    secrets: tuple[tuple[str, str], ...] = ()
    data: str = ""
    checkpoints: str = ""
    logs: str = ""
    results: str = ""
    tensorboard: str = ""
    output: str = ""
    error: str = ""
    gpu_samples: int = 60
    retries: int = 0
    retry: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    spare_nodes: int = 0
    signal: Signal | None = None
    dependency: str = ""
    singleton: bool = False
    array: str = ""
    sweep: t.Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    sweep_parallel: int | None = None
    pre: str = ""
    post: str = ""
    always: str = ""
    notify: str = ""

    @property
    def number(self) -> str:
        """The job's number in its script, as Slurm's commands take it.

        One task of an array has the number of the array for its own, and Slurm would act on all tasks. The variables of
        an array are also in the environment of jobs that one of its tasks submits.
        """
        return "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" if self.array else "$SLURM_JOB_ID"

    @property
    def gpu_count(self) -> int | None:
        """GPUs on each node, if the description has their number."""
        match = re.search(r"(\d+)$", self.gpus_per_node)
        return int(match[1]) if match else None


def check(given: object, where: str = "job") -> Job:
    """Return the job that a description asks for.

    given: the description as YAML gives it. where: what to call it in messages. Raises JobError with
    all that is wrong.
    """
    if not isinstance(given, t.Mapping):
        raise JobError(f"{where}: is not a mapping -> write the keys of docs/training_jobs.md")
    faults: list[str] = []
    made = options(given, SPEC, where, faults)
    if not faults:
        _together(made, where, faults)
    if faults:
        raise JobError("\n".join(faults))
    return _job(made)


# -- what must fit together ------------------------------------------------------------------------
def _together(made: Json, where: str, faults: list[str]) -> None:
    def fault(key: str, what: str, remedy: str) -> None:
        faults.append(f"{where}.{key}: {what} -> {remedy}")

    _texts(made, fault)
    if bool(made["command"]) == bool(made["script"]):
        fault("command", "exactly one of command and script says what runs", "give one of them")
    if made["arguments"] and not made["script"]:
        fault("arguments", "are those of script", "write them into command")
    launcher, tasks = made["launcher"], made["tasks_per_node"]
    if launcher in PER_NODE and (tasks or 1) != 1:
        fault(
            "tasks_per_node",
            f"is {tasks}, and {launcher} starts the processes of a node itself",
            "leave it out; launcher_options says how many processes",
        )
    if launcher in ("mpirun", "batch") and made["container"]:
        fault(
            "container",
            f"{launcher} starts its processes outside of it",
            "take launcher: srun with srun_options: {mpi: pmix}, or write the container into the command",
        )
    if launcher in ("srun", "batch") and made["launcher_options"]:
        fault("launcher_options", f"{launcher} takes none", "write them into srun_options")
    _sizes(made, fault)
    _names(made, fault)
    _directories(made, fault)
    _options_of_slurm(made, fault)
    _tasks(made, fault)
    endings.check(made, fault)
    sweep.faults(made, fault)


_Fault = t.Callable[[str, str, str], None]


def _texts(made: Json, fault: _Fault) -> None:
    if not re.fullmatch(r"[\w.@+-]+", made["name"]):
        fault("name", f"is {made['name']!r}", "letters, digits, and . _ - without spaces")
    if re.fullmatch(r"\d+(_\d+)?", made["name"]):
        fault(
            "name",
            f"is {made['name']}, which means the job of that number",
            "begin it with a letter",
        )
    for key, rule in SPEC.items():
        text = rule["type"] == "str" and key not in ("command", "script") and made[key]
        if isinstance(text, str) and not text.strip():
            fault(key, "is empty", "leave it out, or give a value")
    for key, what, remedy in texts.faults(made):
        fault(key, what, remedy)


def _sizes(made: Json, fault: _Fault) -> None:
    if made["nodes"] and not re.fullmatch(rf"[1-9]\d*(-[1-9]\d*)?|{IDLE}", made["nodes"]):
        fault("nodes", f"is {made['nodes']!r}", f"a number, MIN-MAX, or {IDLE}")
    if made["nodes"] == IDLE and (made["nodelist"] or made["gpus"]):
        fault("nodes", "those that are idle are chosen", "leave out nodelist and gpus")
    each = made["gpus_per_node"]
    if each and not re.fullmatch(r"([\w.-]+:)?[1-9]\d*", each):
        fault("gpus_per_node", f"is {each!r}", "a number, or MODEL:NUMBER such as h100:8")
    elif each and made["gpus"]:
        number = int(each.rpartition(":")[2])
        nodes = made["nodes"]
        if made["gpus"] % number:
            fault(
                "gpus", f"{made['gpus']} are not whole nodes of {number}", f"a multiple of {number}"
            )
        elif nodes and nodes != str(made["gpus"] // number):
            fault(
                "gpus",
                f"{made['gpus']} are not {nodes} nodes of {number}",
                "leave out nodes or gpus",
            )
    for key, read in (("time", values.seconds), ("memory", values.mebibytes)):
        if made[key]:
            try:
                read(made[key])
            except ValueError as error:
                fault(key, str(error), "write it as sbatch takes it")
    for key in ("gpus", "tasks_per_node", "cpus_per_task"):
        if made[key] == 0:
            fault(key, "is 0", "leave it out")


def _names(made: Json, fault: _Fault) -> None:
    secrets = [one["name"] for one in made["secrets"]]
    for name, value in made["environment"].items():
        at = f"environment.{name}"
        if not re.fullmatch(r"[A-Za-z_]\w*", str(name), re.ASCII):
            fault(at, "is not a valid variable name", "letters, digits and _")
        if name in _RANKS:
            fault(
                at, "every task would get the same", "leave it out, the launcher sets it for each"
            )
        if name in secrets:
            fault(at, "is among the secrets too", "keep one of them")
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            fault(at, f"is {value!r}, which is not text", "put it in quotes")
    for one in made["secrets"]:
        if not re.fullmatch(r"[A-Za-z_]\w*", one["name"], re.ASCII):
            fault(
                "secrets", f"{one['name']!r} is not a valid variable name", "letters, digits and _"
            )
        if one["file"] and not os.path.isabs(one["file"]):
            fault(
                "secrets", f"the file of {one['name']} is not an absolute path", "write it in full"
            )


def _directories(made: Json, fault: _Fault) -> None:
    for key in (*DIRECTORIES, "workdir"):
        if made[key] and not os.path.isabs(made[key]):
            fault(
                key,
                f"{made[key]} is not an absolute path",
                "write the path on shared storage in full",
            )
    for key in ("output", "error"):
        if made[key] and re.search(r"\$|^~", made[key]):
            fault(
                key,
                "no shell expands variables there",
                "write it in full; %x and %j are name and number",
            )
    container = made["container"] or {"name": "none"}
    if not container.get("image") and not container.get("name"):
        fault("container", "has neither image nor name", "give one of them")
    source, image = container.get("source"), container.get("image") or ""
    if source and not re.fullmatch(r"[A-Za-z0-9][\w.-]*\.sqsh", image):
        fault(
            "container.image",
            f"is {image!r}, and what is imported from {source} gets a name",
            "write NAME.sqsh",
        )
    for mount in container.get("mounts", ()):
        if not re.fullmatch(r"[^\s,:]+(:[^\s,:]+){0,2}", mount):
            fault(
                "container.mounts",
                f"{mount!r} is not a valid mount",
                "write SOURCE:TARGET or SOURCE:TARGET:ro",
            )


def _options_of_slurm(made: Json, fault: _Fault) -> None:
    for key, known in (("sbatch_options", SBATCH), ("srun_options", SRUN)):
        normal = {}
        for name, value in made[key].items():
            option = str(name).lstrip("-").replace("_", "-")
            at = f"{key}.{name}"
            if option not in known.known:
                near = difflib.get_close_matches(option, known.known, 1, 0.6)
                fault(
                    at,
                    "there is no such option",
                    f"did you mean {near[0]}?" if near else "see its man page",
                )
            elif key == "sbatch_options" and option in FIELDS and (option, value) not in _SHARED:
                fault(at, "has a key of its own", f"write {FIELDS[option]}")
            elif not isinstance(value, (str, int)):
                fault(at, f"is {value!r}", "give a text, or true for an option without a value")
            elif value is True and option in known.valued:
                fault(at, "takes a value", "give it one")
            elif not isinstance(value, bool) and option in known.flags:
                fault(at, f"is {value!r}, and the option takes no value", "write true or false")
            elif option in normal:
                fault(at, "is there twice, with - and with _", "keep one of them")
            else:
                normal[option] = value if isinstance(value, bool) else str(value)
        made[key] = normal
    if made["container"] is None:
        return
    for option in made["srun_options"]:
        if option in ("container-image", "container-mounts", "container-workdir", "container-name"):
            fault(f"srun_options.{option}", "has a key in container", "write it there")


def _tasks(made: Json, fault: _Fault) -> None:
    """Refuse several GPUs for tasks whose number follows from nothing; it would be one a node."""
    number, launcher = made["gpus"] or 0, made["launcher"]
    if launcher not in ("srun", "mpirun") or number < 2:
        return
    options = {*made["sbatch_options"], *(made["srun_options"] if launcher == "srun" else ())}
    if not (made["gpus_per_node"] or made["tasks_per_node"] or _COUNTS & options):
        fault(
            "gpus",
            f"is {number}, and {launcher} would start one task on each node, which uses one GPU",
            "give gpus_per_node for a task for each GPU, or tasks_per_node",
        )


def _job(made: Json) -> Job:
    command = sweep.in_command((made["command"] or "").strip())
    if made["script"]:
        program = made["script"]
        if made["sweep"] and made["workdir"]:
            # Each task has a working directory of its own, and the program is in theirs.
            program = os.path.join(made["workdir"], program)
        command = shlex.join([*_interpreter(made), program])
        command = " ".join([command, *map(sweep.quoted, made["arguments"])])
    each = (made["gpus_per_node"] or "").rpartition(":")[2]
    nodes = made["nodes"] or ""
    gpus = made["gpus"]
    if gpus and each:
        nodes, gpus = nodes or str(gpus // int(each)), None
    container = made["container"]
    hooks: Json = {key: (text or "").strip("\n") for key, text in made["hooks"].items()}
    plain: Json = {
        key: made[key] if made[key] is not None or SPEC[key]["type"] == "int" else ""
        for key in SPEC
        if SPEC[key]["type"] in ("str", "int", "bool")
        and key not in ("command", "script", "nodes", "gpus")
    }
    chosen = {str(name): tuple(sweep.texts(one) or ()) for name, one in made["sweep"].items()}
    if chosen:
        plain["array"] = sweep.array(chosen, made["sweep_parallel"])
    return Job(
        **plain,
        **hooks,
        command=command,
        nodes=nodes,
        gpus=gpus,
        launcher_options=tuple(made["launcher_options"]),
        sbatch_options=made["sbatch_options"],
        srun_options=made["srun_options"],
        container=container
        and Container(
            **{
                **{key: value for key, value in container.items() if value is not None},
                "mounts": tuple(container["mounts"]),
            }
        ),
        sweep=chosen,
        retry={key: value for key, value in made["retry"].items() if value is not None},
        environment={str(name): str(value) for name, value in made["environment"].items()},
        secrets=tuple((one["name"], one["file"]) for one in made["secrets"]),
        signal=made["signal"]
        and Signal(made["signal"]["name"].replace("SIG", "", 1), made["signal"]["seconds"]),
    )


def _interpreter(made: Json) -> list[str]:
    """The program for a script that a Python launcher cannot run."""
    if made["launcher"] in PER_NODE:
        return []
    return ["python3"] if made["script"].endswith(".py") else []
