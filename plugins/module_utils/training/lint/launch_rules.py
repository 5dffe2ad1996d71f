# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mistakes in how programs are launched on several nodes. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import re

from ...slurm.batch import shell
from ...slurm.batch.request import count_of, gpus_a_node, nodes_of, processes_of, value_of
from ...slurm.batch.script import Launch, Script, Variable
from .rule import OWN_RANK, Cluster, Found, rule, working_launches


@rule("container-batch", "error", "the batch script itself runs in the container")
def _container(script: Script, cluster: Cluster) -> Found:
    directive = next((one for one in script.directives if one.name == "container-image"), None)
    if directive is None:
        return
    outside = re.compile(r"(?<![\w./-])(srun|scontrol|sbatch|squeue|sacct|scancel|aws)(?![\w./-])")
    used: dict[str, None] = {}
    for command in script.commands:
        for place, word in enumerate((*command.words, *command.assignments)):
            first = place == 0 and bool(command.words)
            match = outside.search(word.text) if first or "$(" in word.text else None
            if match:
                used[match[1]] = None
    if used:
        yield (
            directive.line,
            f"--container-image here runs this script inside the image, where {', '.join(used)} may be missing",
            "give --container-image to srun instead",
        )


@rule("container-without-pyxis", "error", "a container on a cluster without Pyxis")
def _no_pyxis(script: Script, cluster: Cluster) -> Found:
    if cluster.pyxis is not False:
        return
    lines = [one.line for one in script.directives if one.name == "container-image"]
    lines += [one.line for one in script.launches if one.option("container-image") is not None]
    for line in sorted(set(lines))[:1]:
        yield (
            line,
            "--container-image is an option of Pyxis, which this cluster does not have, so srun refuses it",
            "have an administrator install Pyxis (the group slurm_pyxis), or run without a container",
        )


def _launches(script: Script) -> list[Launch]:
    """Return what runs on the first part of a heterogeneous job, whose request the directives are, or on the job."""
    return [one for one in script.launches if one.option("het-group") in (None, "0")]


# -- ranks and launchers ---------------------------------------------------------------------------
def _is_rank(script: Script, one: Variable, text: str) -> bool:
    """Whether a variable with a task's number is used as that; in a file's name it does no harm."""
    if "RANK" in one.name:
        used = re.search(rf"\$\{{?{one.name}\b", script.text)
        return one.exported or bool(used)
    option = re.search(r"rank[= ]+[\"']?\$\{?SLURM_", text)
    alone = re.fullmatch(r"\s*(\$\(\()?[\s$\w{}*+()-]*", text)
    return one.exported and not _ranks_by_itself(one.text) and bool(option or alone)


def _ranks_by_itself(text: str) -> bool:
    """Whether a launcher numbers its nodes by their rendezvous, and takes no notice of --node_rank."""
    return bool(re.search(r"rdzv[_-]backend[= ]+[\"']?(c10d|etcd)", text))


@rule("rank-in-batch", "error", "the batch step's own rank is given to every task")
def _rank(script: Script, cluster: Cluster) -> Found:
    said = set()
    why = "it is expanded once, in the batch step, where it is 0: every task gets 0"
    for one in script.variables:
        text = shell.live(one.text)
        match = OWN_RANK.search(text)
        if match and one.where != "task" and _is_rank(script, one, text):
            said.add(one.line)
            yield (
                one.line,
                f"{one.name}=${match[1]}: {why}",
                "leave it out (a container's hook, torchrun and srun tell each task its rank), or set it in what the "
                "tasks run: srun bash -c 'RANK=$SLURM_PROCID ... exec python train.py'",
            )
    for launch in script.launches:
        if _ranks_by_itself(script.text[launch.command.start : launch.command.end]):
            continue
        for word in launch.command.words if launch.starter else ():
            for match in OWN_RANK.finditer(shell.live(word.text)):
                line = word.line + word.text.count("\n", 0, match.start())
                if line not in said:
                    said.add(line)
                    yield (
                        line,
                        f"${match[1]}: {why}",
                        f"let the task expand it: write \\${match[1]}, or put the script in single quotes",
                    )


@rule("launcher-per-task", "error", "a launcher of processes is started by several tasks of a node")
def _per_task(script: Script, cluster: Cluster) -> Found:
    for launch in _launches(script):
        if launch.starter != "srun" or not launch.launcher:
            continue
        each = count_of(launch.option("ntasks-per-node"))
        total = count_of(launch.option("ntasks"))
        if each is None and total is None:
            each = count_of(script.value("ntasks-per-node"))
        if each is None or each < 2 or total is not None:
            continue
        yield (
            launch.line,
            f"{launch.launcher} starts the processes of a node, and {each} tasks on each node start it {each} times",
            "give srun --ntasks-per-node=1, or set #SBATCH --ntasks-per-node=1",
        )


@rule("launcher-alone", "error", "a launcher that does not know of the job's other nodes")
def _alone(script: Script, cluster: Cluster) -> Found:
    nodes = nodes_of(script) or 1
    for launch in _launches(script):
        if nodes < 2 or launch.launcher not in ("torchrun", "accelerate"):
            continue
        single = launch.option("nodes") == "1"
        if not launch.starter and not launch.command.function:
            yield (
                launch.line,
                f"{launch.launcher} runs in the batch step, on the first of {nodes} nodes alone",
                f"start it by srun --ntasks-per-node=1 {launch.launcher} ...",
            )
        elif launch.launcher == "torchrun" and launch.starter == "srun" and not single:
            told = launch.launcher_option("nnodes")
            if told is None or launch.launcher_option("standalone") is not None:
                yield (
                    launch.line,
                    f"torchrun is not told of the {nodes} nodes: each trains by itself",
                    'give it --nnodes="$SLURM_JOB_NUM_NODES" and a rendezvous at the first node',
                )


#: Words of a script that may reach other nodes; with any of them, no launcher is missing.
_REACHES = re.compile(
    r"\b(srun|mpirun|mpiexec\S*|ssh|pdsh|clush|pbsdsh|parallel|ibrun|prun|jsrun|aprun|horovodrun|ray|submitit|dask\S*"
    r"|sbatch|salloc|charmrun|deepspeed|colossalai|nextflow|snakemake|sattach|flux|torchx|launcher)\b"
)
_PYTHON = re.compile(r"python[\d.]*$")
#: Programs that may start anything.
_OPAQUE = frozenset(
    "bash sh source . eval exec make singularity apptainer docker podman enroot charliecloud ch-run".split()
)


@rule("nodes-unused", "error", "several nodes, and a program that runs on the first alone")
def _unused(script: Script, cluster: Cluster) -> Found:
    nodes = nodes_of(script) or 1
    code = "\n".join(line for line in script.lines if not line.lstrip().startswith("#"))
    if nodes < 2 or script.launches or _REACHES.search(code):
        return
    works = []
    for command in script.commands:
        first = command.words[0].text if command.words else ""
        local = command.name in _OPAQUE and not re.search(
            r"activate|bashrc|profile|conda|venv|modules",
            " ".join(word.text for word in command.words),
        )
        if local or "$" in first or first.startswith("./"):
            return
        words = [shell.plain(word.text) for word in command.words[1:]]
        if _PYTHON.match(command.name) and any(word.endswith(".py") for word in words):
            works.append(command)
    for command in works[:1]:
        yield (
            command.line,
            f"{command.name} runs in the batch step, on the first of {nodes} nodes; the others stay idle",
            "start it by srun, or ask for one node",
        )


_LOCAL = re.compile(r"(?:localhost|127\.0\.0\.1|::1)(?::.*)?$")


@rule("rendezvous-local", "error", "the nodes of a job are told to meet at localhost")
def _local(script: Script, cluster: Cluster) -> Found:
    nodes = nodes_of(script) or 1
    if nodes < 2:
        return
    why = f"each of the {nodes} nodes waits for the others at itself"
    remedy = 'give the first node: $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
    for launch in _launches(script):
        spans = launch.starter and launch.option("nodes") != "1" and launch.option("ntasks") != "1"
        alone = launch.launcher_option("standalone") is not None or launch.launcher_option(
            "nnodes"
        ) in (None, "1")
        if not launch.launcher or not spans or (launch.launcher == "torchrun" and alone):
            continue
        for name in ("master-addr", "rdzv-endpoint", "main-process-ip"):
            value = launch.launcher_option(name)
            if value and _LOCAL.match(value_of(script, shell.plain(value))):
                yield launch.line, f"--{name.replace('-', '_')}={value}: {why}", remedy
                return
    steps = [
        one
        for one in working_launches(script)
        if one.starter == "srun"
        and one.option("nodes") != "1"
        and one.option("ntasks") != "1"
        and not one.launcher
    ]
    for one in script.variables if steps else ():
        if one.name == "MASTER_ADDR" and _LOCAL.match(one.value) and one.where in ("batch", "srun"):
            yield one.line, f"MASTER_ADDR={one.value}: {why}", remedy
            return


@rule("processes-over-gpus", "error", "more processes on a node than GPUs that the job asks for")
def _over(script: Script, cluster: Cluster) -> Found:
    gpus = gpus_a_node(script)
    if gpus is None or script.value("exclusive") is not None:
        return
    for launch in _launches(script):
        own = any(
            launch.option(name) is not None
            for name in ("gres", "gpus", "gpus-per-node", "gpus-per-task")
        )
        count = processes_of(script, launch)
        cpu = launch.launcher_option("cpu") is not None
        if launch.launcher and count.isdigit() and int(count) > gpus and not own and not cpu:
            yield (
                launch.line,
                f"{launch.launcher} starts {count} processes on a node, and the job asks for {gpus} GPUs there",
                "ask for as many GPUs as processes, or give the launcher the number of the GPUs",
            )
            return


@rule("visible-devices", "warning", "CUDA_VISIBLE_DEVICES is set for the whole script")
def _visible(script: Script, cluster: Cluster) -> Found:
    for one in script.variables:
        if (
            one.name in _DEVICES
            and one.exported
            and one.where == "batch"
            and not one.live
            and one.value
        ):
            yield (
                one.line,
                f"{one.name}={one.value}: Slurm sets it to the job's own GPUs, and numbers of others may not be its",
                "leave it out",
            )


_DEVICES = frozenset(("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"))


@rule("port-fixed", "warning", "a port that another job on the node may have")
def _port(script: Script, cluster: Cluster) -> Found:
    if script.value("exclusive") is not None:
        return
    remedy = "take one by the job's number: MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))"
    for one in script.variables:
        if one.name == "MASTER_PORT" and one.value.isdigit():
            yield (
                one.line,
                f"MASTER_PORT={one.value}: a second job on the same node cannot have it",
                remedy,
            )
    for launch in script.launches:
        ports = (launch.launcher_option("rdzv-endpoint"), launch.launcher_option("master-port"))
        match = next((m for p in ports if p and (m := re.search(r"(?:^|:)(\d{4,5})$", p))), None)
        if match:
            yield (
                launch.line,
                f"port {match[1]}: a second job on the same node cannot have it",
                remedy,
            )


@rule("cpus-not-passed", "warning", "srun does not take --cpus-per-task from sbatch", common=True)
def _cpus(script: Script, cluster: Cluster) -> Found:
    cpus = count_of(script.value("cpus-per-task"))
    if not cpus or cpus < 2 or any(one.name == "SRUN_CPUS_PER_TASK" for one in script.variables):
        return
    for launch in working_launches(script):
        if launch.starter == "srun" and launch.option("cpus-per-task") is None:
            yield (
                launch.line,
                f"since Slurm 22.05 srun does not take --cpus-per-task={cpus} from sbatch: its tasks get 1 CPU each",
                "add `export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK` above",
            )
            return


_CONDA = re.compile(
    r"^(conda|mamba|micromamba) activate|^(source|\.) \S*(conda|mamba)|(^| )PATH=[^ ]*conda"
)
_OTHER_MPI = re.compile(
    r"^(conda|mamba|micromamba) deactivate|^module (load|add) .*mpi|(^| )PATH=[^ ]*mpi"
)


@rule("conda-mpirun", "warning", "conda's mpirun is found before the system's")
def _conda(script: Script, cluster: Cluster) -> Found:
    active = 0
    for command in script.commands:
        said = " ".join(shell.plain(word.text) for word in (*command.words, *command.assignments))
        if _CONDA.search(said):
            active = command.line
        elif _OTHER_MPI.search(said):
            active = 0
        for launch in script.launches:
            if launch.command is command and launch.starter == "mpirun" and active:
                names = ("mpirun", "mpiexec")
                name = [w.text for w in command.words if w.text in names or "/" in w.text][0]
                if "/" not in name:
                    yield (
                        launch.line,
                        f"after line {active} {name} is the one of the conda environment if it has one, which knows "
                        "neither Slurm nor EFA",
                        "write the system's with its path (/opt/amazon/openmpi/bin/mpirun), or use srun --mpi=pmix",
                    )
