# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes the batch script of a training job, commented, so that it can be read and submitted by hand. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import shlex
import typing as t

from ...slurm.batch import shell
from . import environment, recording, retries, script_end, signals, sweep
from .schema import DIRECTORIES, FIELDS, IDLE, PER_NODE, Container, Job, JobError

#: First of the ports of rendezvous, and how many there are; below the kernel's own (ip_local_port_range).
PORTS = (20000, 10000)
#: File with the secrets of one job, by its number, in the home of its owner.
SECRETS = ".config/trainwright/secrets"
#: Options that define how Accelerate's processes work together; it accepts one of them.
_STRATEGY = re.compile(
    r"--(config[-_]file|cpu|multi[-_]gpu|tpu|use[-_](deepspeed|fsdp|megatron[-_]lm))\b"
)
_PROCESSES = re.compile(r"--(nproc[-_]per[-_]node|num[-_]gpus|num[-_]processes)\b")


def render(job: Job, *, efa: bool = False, secrets_file: str = "") -> str:
    """Return the text of the batch script.

    efa: whether its nodes have EFA. secrets_file: path of the file with `NAME=value` lines of the
    job's secrets, readable for its owner alone; by default one in the owner's home, by the job's number.
    Raises JobError for a job whose number of nodes is not known yet.
    """
    if job.nodes == IDLE:
        raise JobError(
            f"job.nodes: is {IDLE}, which the submission makes a number -> give a number"
        )
    parts = [
        _head(job),
        _strictness(),
        _environment(job, efa),
        "" if job.spare_nodes else _rendezvous(job),
        signals.before_limit(job),
        _secrets(job, secrets_file),
        recording.python() if recording.records(job) or retries.tries(job) else "",
        recording.begin(job),
        script_end.queue(job),
        script_end.finish(job),
        _retries(job),
        _pre(job),
        _gpu_samples(job),
        _training(job, efa),
        script_end.after(job),
    ]
    if retries.tries(job):
        parts.append(retries.program(job))
    parts.append(recording.program(job))
    return "\n\n".join(part for part in parts if part) + "\n"


def directives(job: Job) -> list[tuple[str, str | bool]]:
    """Return the options for sbatch, in the order in which people read them."""
    found: dict[str, str | bool] = {}
    for option, field in FIELDS.items():
        value = getattr(job, field)
        if value not in (None, "", False):
            found[option] = value if value is True else str(value)
    if job.launcher in PER_NODE:
        found["ntasks-per-node"] = "1"
    elif (
        job.tasks_per_node is None
        and job.launcher != "batch"
        and not {"ntasks", "ntasks-per-gpu"} & set(job.sbatch_options)
    ):
        found["ntasks-per-node"] = str(job.gpu_count or 1)
    if job.logs and not job.output:
        found["output"] = f"{job.logs}/%a/%x-%A_%a.out" if job.sweep else f"{job.logs}/%x-%j.out"
    waits = [job.dependency, "singleton" if job.singleton else ""]
    if any(waits):
        found["dependency"] = ",".join(text for text in waits if text)
    if job.signal:
        found["signal"] = f"B:{job.signal.name}@{job.signal.seconds}"
    if job.signal or job.retries:
        found.update({"requeue": True, "open-mode": "append"})
    if job.spare_nodes:
        # A node that fails leaves the job, and the others stay.
        found.update({"nodes": str(int(job.nodes) + job.spare_nodes), "no-kill": True})
    found.update(job.sbatch_options)
    first = (
        "job-name partition account qos reservation nodes nodelist exclude constraint ntasks"
        " ntasks-per-node cpus-per-task gpus gpus-per-node mem exclusive time array dependency chdir"
        " output error"
    ).split()
    names = [name for name in first if name in found]
    names += sorted(set(found) - set(first))
    return [(name, found[name]) for name in names if found[name] is not False]


def _head(job: Job) -> str:
    made = [getattr(job, name) for name in DIRECTORIES if name != "data" and getattr(job, name)]
    lines = [
        "#!/bin/bash",
        f"# Job {job.name}, written by trainwright.slurm from its description; `sbatch FILE` submits it by hand.",
    ]
    if made:
        lines.append(f"# These directories must be there before: {' '.join(made)}")
    for name, value in directives(job):
        text = "" if value is True else f"={_directive(str(value))}"
        lines.append(f"#SBATCH --{name}{text}")
    return "\n".join(lines)


def _directive(value: str) -> str:
    # No value has a double quote or a backslash (texts.py).
    return f'"{value}"' if re.search(r"[\s#']", value) else value


def _strictness() -> str:
    return (
        "# A pipe fails with any of its parts. No `set -e`: the end needs the exit code.\nset -o pipefail\n"
        "# Of `sbatch --export=NONE`: the tasks would not get the environment below.\nunset SLURM_EXPORT_ENV"
    )


def _export(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}"


def _environment(job: Job, efa: bool) -> str:
    lines = [*sweep.export(job.sweep), *_places(job)]
    if _moves_home(job):
        lines.append("train_home=$HOME  # the secrets are there")
    mpi = job.launcher == "mpirun" or "mpi" in job.srun_options
    for one in environment.settings(job.machine_type, efa=efa, mpi=mpi):
        if one.name not in job.environment:
            lines.append(f"{_export(one.name, one.value)}  # {one.why}")
    lines += [f"export {name}={sweep.quoted(value)}" for name, value in job.environment.items()]
    if job.cpus_per_task:
        lines.append(
            'export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"  # srun does not take it from sbatch'
        )
    return _titled("Environment of the tasks", "\n".join(lines))


def _places(job: Job) -> list[str]:
    """Return the lines that export the directories of a job; a task of an array has its own."""
    own = sweep.own_keys(job.sweep, job.array)
    lines, made = [], []
    for name, variable in DIRECTORIES.items():
        path = getattr(job, name)
        if path and name in own:
            lines.append(f'export {variable}={shlex.quote(path)}/"{sweep.TASK}"')
            made.append(f'"${variable}"')
        elif path:
            lines.append(_export(variable, path))
    if made:
        lines.append(f"mkdir -p -- {' '.join(made)}")
    if "workdir" in own and job.workdir:
        place = f'{shlex.quote(job.workdir)}/"{sweep.TASK}"'
        lines.append(f"mkdir -p -- {place} && cd -- {place} || exit 1")
    return lines


def _finds_interface(job: Job) -> bool:
    return _in_bash(job) and "GLOO_SOCKET_IFNAME" not in job.environment


def _in_bash(job: Job) -> bool:
    """Whether each task begins with lines of ours."""
    ranks = "mpi" not in job.srun_options and is_python(job.command)
    return job.launcher in PER_NODE or (job.launcher == "srun" and ranks)


def _rendezvous(job: Job) -> str:
    if job.launcher in ("mpirun", "batch"):
        return ""
    first, count = PORTS
    of = "TRAIN_NODES" if job.spare_nodes else "SLURM_JOB_NODELIST"
    lines = [
        f'MASTER_ADDR=$(scontrol show hostnames "${of}" | head -n 1)',
        f"MASTER_PORT=$(({first} + SLURM_JOB_ID % {count}))",
        "export MASTER_ADDR MASTER_PORT",
    ]
    if _finds_interface(job):
        # Gloo looks up the node's own name otherwise, which /etc/hosts often gives a loopback address.
        lines += [
            "# Gloo wants an interface's name, and nodes have different ones: each takes the one with its address.",
            "TRAIN_INTERFACE='",
            '  address=$(getent hosts "$SLURMD_NODENAME" | cut -d " " -f 1)',
            '  read -r _ name _ < <(ip -o addr show to "$address" 2> /dev/null)',
            "  [[ ${name:-lo} = lo ]] || export GLOO_SOCKET_IFNAME=$name'",
            "export TRAIN_INTERFACE",
        ]
    if job.launcher == "deepspeed":
        lines.append(f"TRAIN_HOSTS=$(scontrol show hostnames \"${of}\" | tr '\\n' ' ')")
        lines.append("export TRAIN_HOSTS")
    return _titled(
        "Where the tasks meet: the first node, a port by the job's number", "\n".join(lines)
    )


def _moves_home(job: Job) -> bool:
    return bool(job.secrets) and "HOME" in job.environment


def _secrets(job: Job, path: str) -> str:
    if not job.secrets:
        return ""
    home = "$train_home" if _moves_home(job) else "$HOME"
    place = shlex.quote(path) if path else f'"{home}/{SECRETS}/{job.number}"'
    names = ", ".join(name for name, _file in job.secrets)
    return _titled(
        f"Secrets ({names}): NAME=value lines of a file of mode 0600, written when the job has its number",
        f"secrets={place}\n"
        'for _ in {1..300}; do [[ -r "$secrets" ]] && break; sleep 1; done\n'
        'if [[ ! -r "$secrets" ]]; then\n'
        '  echo "$secrets: is missing or not readable after 300 s -> submit the job again" >&2\n'
        "  exit 1\n"
        "fi\n"
        "set -a\n"
        'source "$secrets"\n'
        "set +a",
    )


def _retries(job: Job) -> str:
    if retries.tries(job):
        return retries.begin(job)
    if not job.retries:
        return ""
    return _titled(
        f"Slurm starts the job again when a node fails, here at most {job.retries} times",
        "failed=${SLURM_RESTART_COUNT:-0}\n"
        f"if (( failed > {job.retries} )); then\n"
        "  # Preemptions do not count, if Slurm has accounting.\n"
        "  states=$(sacct --duplicates --allocations --noheader --parsable2 --format=State"
        f' --jobs="{job.number}" 2> /dev/null)\n'
        '  [[ $states ]] && failed=$(grep -c NODE_FAIL <<< "$states")\n'
        "fi\n"
        f"if (( failed > {job.retries} )); then\n"
        '  echo "failed nodes have ended this job $failed times'
        f' -> see sacct --duplicates -j {job.number}" >&2\n'
        "  exit 1\nfi",
    )


def _pre(job: Job) -> str:
    if not job.pre:
        return ""
    after = "# Settings of the lines above would end this script with a program that fails.\nset +eu -o pipefail"
    return f"{_titled('Before the training', job.pre)}\n{after}"


def _gpu_samples(job: Job) -> str:
    if not script_end.samples_gpus(job):
        return ""
    query = "timestamp,name,utilization.gpu,memory.used,memory.total,temperature.gpu"
    return _titled(
        f"What the GPUs of each node do, every {job.gpu_samples} s, in a file a node, until the training ends",
        'srun --overlap --job-name=gpu-samples --ntasks-per-node=1 --ntasks="$SLURM_JOB_NUM_NODES" --cpu-bind=none'
        " bash -c '\n"
        "  command -v nvidia-smi > /dev/null || exit 0\n"
        f"  exec nvidia-smi --query-gpu={query} --format=csv,noheader -l {job.gpu_samples} \\\n"
        '    >> "$TRAIN_LOGS/gpu-$SLURMD_NODENAME-$SLURM_JOB_ID.csv"\n'
        "' 2> /dev/null &\n"
        "gpu_samples=$!",
    )


def _training(job: Job, efa: bool) -> str:
    if job.launcher == "batch":
        return _titled("The job", job.command)
    step = "\\\n  ".join(f"{line} " for line in _step(job, efa)).rstrip()
    # Without a training, the signal before the limit is only noted.
    end = ["code=$?", *(["training="] if job.signal else []), *script_end.preempted(job)]
    if not job.signal and not retries.tries(job):
        if retries.finishes(job) and shell.one_program(job.command):
            # In the background, so that a trap is not held up by it.
            return _titled("The training", "\n".join([f"{step} &", 'wait "$!"', *end]))
        return _titled("The training", "\n".join([step, *end]))
    # Bash reports a process that the program had to kill.
    wait = 'wait "$training"' + (" 2> /dev/null" if retries.tries(job) else "")
    run = [
        "# The training, in the background, so that a trap is not held up by it.",
        *(["training="] if job.signal and retries.tries(job) else []),
        f"{step} &",
        "training=$!",
        *(["(( at_limit )) && on_limit"] if job.signal else []),
        *(['tries watch "$training" &', "watch=$!"] if retries.tries(job) else []),
        wait,
        "# A trapped signal ends `wait`, and not the training; the shell keeps its exit code.",
        'while kill -0 "$training" 2> /dev/null; do',
        f"  {wait}",
        "done",
        wait,
        *end,
    ]
    text = (
        retries.loop(job, "\n".join(run), _rendezvous(job))
        if retries.tries(job)
        else "\n".join(run)
    )
    return f'{text}\n[[ $patience ]] && pkill -P "$patience"' if job.signal else text


# -- the step --------------------------------------------------------------------------------------
def _step(job: Job, efa: bool) -> list[str]:
    """Return the command that starts the training, one option a line."""
    if job.launcher == "mpirun":
        names = [one.name for one in environment.settings(job.machine_type, efa=efa, mpi=True)]
        names += [DIRECTORIES[key] for key in DIRECTORIES if getattr(job, key)]
        names += [
            *map(sweep.variable, job.sweep),
            *job.environment,
            *(name for name, _file in job.secrets),
        ]
        each = job.tasks_per_node or job.gpu_count or 1
        return [
            "mpirun",
            f"--map-by ppr:{each}:node",
            *(f"-x {name}" for name in dict.fromkeys(names)),
            *map(sweep.quoted, job.launcher_options),
            *_command(job),
        ]
    # One task that fails ends all; each line of the output names its task.
    chosen: dict[str, str | bool] = {"kill-on-bad-exit": "1", "label": True}
    if retries.tries(job):
        # The remains of an earlier step, on a node that started again, would hold this one up.
        chosen["overlap"] = True
    if job.spare_nodes:
        each = 1 if job.launcher in PER_NODE else job.tasks_per_node or job.gpu_count or 1
        chosen.update(
            {
                "nodes": job.nodes,
                "ntasks": str(int(job.nodes) * each),
                "nodelist": "$TRAIN_NODES",
            }
        )
    if job.launcher in PER_NODE and not job.cpus_per_task:
        # One task a node is bound to one core otherwise, with all its processes.
        chosen["cpu-bind"] = "none"
    if job.launcher in PER_NODE:
        # They find each other on their own.
        chosen["mpi"] = "none"
    chosen.update(container_options(job.container))
    chosen.update(job.srun_options)
    return [
        *srun(chosen),
        *_launcher(job),
        *map(sweep.quoted, job.launcher_options),
        *_command(job),
    ]


def srun(options: t.Mapping[str, str | bool]) -> list[str]:
    """Return srun with options by their long names, a word each; False leaves one out."""
    words = [
        f"--{name}" if value is True else f"--{name}={_option(str(value))}"
        for name, value in options.items()
        if value is not False
    ]
    return ["srun", *words]


def _option(value: str) -> str:
    """Quote a value so that variables of the batch step stay variables."""
    if re.fullmatch(r"[\w@%+=:,./^~-]+", value):
        return value
    return f'"{value}"' if "$" in value else shlex.quote(value)


def container_options(container: Container | None) -> dict[str, str | bool]:
    """Return the options of Pyxis for a container; none without one."""
    if container is None:
        return {}
    found: dict[str, str | bool] = {}
    if container.image:
        found["container-image"] = container.image
    if container.mounts:
        found["container-mounts"] = ",".join(container.mounts)
    if container.workdir:
        found["container-workdir"] = container.workdir
    if container.name:
        found["container-name"] = container.name
    if container.writable is not None:
        found["container-writable" if container.writable else "container-readonly"] = True
    for flag in ("mount_home", "remap_root", "entrypoint"):
        value = getattr(container, flag)
        if value is not None:
            found[f"{'' if value else 'no-'}container-{flag.replace('_', '-')}"] = True
    return found


def _accelerate_strategy(job: Job) -> str:
    """Return the options without which Accelerate starts one process a node that knows nothing of the others.

    --multi_gpu is right on nodes without GPUs too, and is refused for a single process.
    """
    options = " ".join(job.launcher_options)
    several = job.nodes not in ("", "1") or bool(re.search(r"[\[,]", job.nodelist))
    if re.search(r"--use[-_]deepspeed\b", options) and several:
        # Its default reaches the other nodes by pdsh.
        return "" if "multinode" in options else " --deepspeed_multinode_launcher=standard"
    if _STRATEGY.search(options):
        return ""
    own = re.search(r"--num[-_]processes[= ]\s*(\d+)", options)
    processes = int(own[1]) if own else max(job.gpu_count or 1, job.gpus or 1)
    return " --multi_gpu" if processes > 1 or several and not own else ""


def _launcher(job: Job) -> list[str]:
    """Return what srun starts on each node; $SLURM_NODEID and its like are known only there."""
    if not _in_bash(job):
        return []
    nodes = job.nodes if job.spare_nodes else "$SLURM_JOB_NUM_NODES"
    own = not any(_PROCESSES.match(option) for option in job.launcher_options)
    count = str(job.gpu_count) if job.gpu_count else '"${SLURM_GPUS_ON_NODE:-1}"'
    master = '--master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT"'
    first: list[str] = ['eval "$TRAIN_INTERFACE"'] if _finds_interface(job) else []
    if job.signal and job.signal.name in ("USR1", "USR2"):
        # The signal goes to the launcher too, and to programs that have only just begun, and would end them.
        first.append(f'trap "" {job.signal.name}')
    if job.launcher == "torchrun":
        words = f'torchrun --nnodes="{nodes}" --node-rank="$SLURM_NODEID" {master}'
        words += f" --nproc-per-node={count}" if own else ""
    elif job.launcher == "accelerate":
        words = (
            f'accelerate launch --num_machines="{nodes}" --machine_rank="$SLURM_NODEID"'
            ' --main_process_ip="$MASTER_ADDR" --main_process_port="$MASTER_PORT"'
        )
        words += _accelerate_strategy(job)
        if own:
            each = job.gpu_count or "${SLURM_GPUS_ON_NODE:-1}"
            words += f' --num_processes="$(( {nodes.lstrip("$")} * {each} ))"'
    elif job.launcher == "deepspeed":
        slots = job.gpu_count or "${SLURM_GPUS_ON_NODE:-1}"
        first += [
            "hosts=$(mktemp)",
            f'for host in $TRAIN_HOSTS; do echo "$host slots={slots}"; done > "$hosts"',
        ]
        words = (
            'deepspeed --hostfile="$hosts" --no_ssh --node_rank="$SLURM_NODEID"'
            ' --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT"'
        )
    else:
        first.append(
            'export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_NTASKS"'
        )
        words = ""
    # srun drops the unwritten output of a program that fails: the reason should be in the log by then.
    plain = '"$@" || { code=$?; sleep 2; exit "$code"; }'
    lines = [*first, f'exec {words} "$@"' if words else plain]
    script = lines[0] if len(lines) == 1 else "\n    " + "\n    ".join(lines) + "\n  "
    return [f"bash -c '{script}' {job.launcher if words else 'rank'}"]


def is_python(command: str) -> bool:
    """Return whether a command runs Python, so that its tasks are told their ranks."""
    word = command.split()[0] if command.split() else ""
    return bool(re.fullmatch(r"(\S*/)?python[\d.]*|\S+\.py", word))


def _command(job: Job) -> list[str]:
    """The command, with a line for each option where it is long."""
    parsed = shell.parse(job.command)
    plain = len(parsed.commands) == 1 and not parsed.faults and not parsed.commands[0].redirects
    if not plain or len(job.command) < 80 or "#" in job.command or "<<" in job.command:
        return [job.command]
    lines: list[str] = []
    for word in (*parsed.commands[0].assignments, *parsed.commands[0].words):
        new = word.text.startswith("--") or not lines
        lines += [word.text] if new else []
        if not new:
            lines[-1] += f" {word.text}"
    return lines


def _titled(title: str, text: str) -> str:
    return f"# {title}.\n{text}" if text else ""
