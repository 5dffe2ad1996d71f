# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The mistakes that batch scripts of training carry, each as a rule that finds its lines. Pure.

A rule says nothing where it cannot know. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import typing as t

from ...slurm import values
from ...slurm.batch import shell
from ...slurm.batch.options import SBATCH, SRUN
from ...slurm.batch.request import count_of, gpus_of, nodes_of
from ...slurm.batch.script import Launch, Script, Variable, program
from ..job import environment

#: line, what is wrong and why, and the remedy
Found = t.Iterator[tuple[int, str, str]]


@dataclasses.dataclass(frozen=True)
class Cluster:
    """What is known of the cluster; None is not known, and then nothing is said of it.

    interfaces: names of the network interfaces of its compute nodes. partitions: its partitions.
    default_memory: whether slurm.conf gives jobs without --mem a part of a node's memory.
    directory_exists: tells of an absolute path. workdir: where sbatch will be run. planned: seconds
    that the work takes.
    """

    interfaces: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    default_memory: bool | None = None
    directory_exists: t.Callable[[str], bool] | None = None
    workdir: str = ""
    planned: int | None = None


class Rule(t.NamedTuple):
    """A rule. severity: error where the job fails, does other work than is meant, or loses it; else warning."""

    severity: str
    summary: str
    find: t.Callable[[Script, Cluster], Found]


#: By name, in the order in which docs/job_lint.md has them.
RULES: dict[str, Rule] = {}


def _rule(name: str, severity: str, summary: str) -> t.Callable[[t.Any], t.Any]:
    def add(find: t.Callable[[Script, Cluster], Found]) -> t.Callable[[Script, Cluster], Found]:
        RULES[name] = Rule(severity, summary, find)
        return find

    return add


# -- what several rules ask ------------------------------------------------------------------------
#: Programs that look or measure and do not train.
_LOOKING = frozenset(
    "cat date df dcgmi echo env fi_info free grep hostname id ls lscpu mkdir nproc nvidia-smi rm"
    " sleep true uname uptime".split()
)
#: A task's own number, as srun tells it.
OWN_RANK = re.compile(r"\$\{?(SLURM_(?:PROCID|LOCALID|NODEID))\b")


def _program(launch: Launch) -> str:
    return shell.plain(launch.program[0]).rpartition("/")[2] if launch.program else ""


def _works(script: Script) -> list[Launch]:
    """Launches that do the job's work."""
    return [one for one in script.launches if one.launcher or not _looks(one)]


def _looks(launch: Launch) -> bool:
    if launch.inner:
        return all(program(command) in _LOOKING for command in launch.inner.commands)
    return _program(launch) in _LOOKING


def _seconds(text: str | None) -> int | None:
    try:
        return values.seconds(text) if text else None
    except ValueError:
        return None


def _is_mpi(script: Script) -> bool:
    if any(one.launcher for one in script.launches):
        return False
    return any(
        one.starter == "mpirun" or one.option("mpi") not in (None, "none")
        for one in script.launches
    )


def _errexit(script: Script) -> list[tuple[int, bool]]:
    """Lines from which on a failing command ends the script, or no longer does."""
    found = [(1, True)] if re.match(r"#!\S*\bsh\s+-\w*e", script.lines[0]) else []
    if re.match(r"#!\S*/(?:env\s+)?bash\s+-\w*e", script.lines[0]):
        found = [(1, True)]
    for command in script.commands:
        if command.name != "set" or command.function:
            continue
        words = [word.text for word in command.words[1:]]
        for place, word in enumerate(words):
            named = word in ("-o", "+o") and words[place + 1 : place + 2] == ["errexit"]
            if named or re.fullmatch(r"[-+][a-z]*e[a-z]*", word):
                found.append((command.line, word[0] == "-"))
    return found


def _fails_fast(script: Script, line: int) -> bool:
    states = [on for at, on in _errexit(script) if at <= line]
    return bool(states) and states[-1]


def _pipefail(script: Script) -> bool:
    return any(
        command.name == "set" and any(word.text == "pipefail" for word in command.words)
        for command in script.commands
    )


def _top(script: Script) -> list[shell.Command]:
    return [one for one in script.commands if not one.function and not one.depth]


# -- the file --------------------------------------------------------------------------------------
@_rule("shebang", "error", "the first line does not name the shell, or names it with a comment")
def _shebang(script: Script, cluster: Cluster) -> Found:
    first = script.lines[0]
    if not first.startswith("#!"):
        yield (
            1,
            "the first line is no #! line, and sbatch refuses such a script",
            "begin with #!/bin/bash",
        )
    elif re.search(r"\s#", first):
        yield (
            1,
            "the comment on the #! line goes to the shell as an argument, so that the script does not start",
            "put the comment on a line of its own",
        )


@_rule("dos-line-ends", "error", "lines end as on DOS")
def _dos(script: Script, cluster: Cluster) -> Found:
    if script.dos:
        yield (
            1,
            "lines end with CR LF, and sbatch refuses such a script",
            "convert it: sed -i 's/\\r$//' FILE",
        )


@_rule("comment-in-command", "error", "a comment cuts off the rest of a continued command")
def _comment(script: Script, cluster: Cluster) -> Found:
    for fault in script.faults:
        if fault.kind == "comment":
            yield (
                fault.line,
                "the comment ends the command here: the arguments below are not part of it, and the job may "
                "well exit 0 having done something else",
                "move the comment above the command; nothing may follow a backslash that continues a line",
            )


@_rule("space-after-backslash", "error", "a space after a backslash ends a continued command")
def _space(script: Script, cluster: Cluster) -> Found:
    for fault in script.faults:
        if fault.kind == "space":
            yield (
                fault.line,
                "a space follows the backslash, so the line is not continued and the arguments below are lost",
                "remove the space at the end of the line",
            )


@_rule("open-quote", "error", "a quote is not closed")
def _quote(script: Script, cluster: Cluster) -> Found:
    for fault in script.faults:
        if fault.kind == "quote":
            yield fault.line, "the quote that opens here is never closed", "close it"
            return


# -- directives ------------------------------------------------------------------------------------
@_rule("directive-ignored", "error", "an #SBATCH line that sbatch does not read")
def _ignored(script: Script, cluster: Cluster) -> Found:
    for one in script.unread:
        if one.kind == "late":
            yield (
                one.line,
                f"{one.what} stands after the first command (line {script.body}), where sbatch reads no more",
                "move it above all commands",
            )
        elif one.kind == "indented":
            yield (
                one.line,
                "the line does not begin with #SBATCH, so sbatch takes it for a comment",
                "remove the space before it",
            )
        elif one.kind == "spelling":
            yield (
                one.line,
                f"{one.what} is no directive, so sbatch takes the line for a comment",
                "write #SBATCH in capitals, a space, and the option",
            )


@_rule("directive-wrong", "error", "an #SBATCH line that sbatch refuses")
def _wrong(script: Script, cluster: Cluster) -> Found:
    for one in script.unread:
        if one.kind == "unknown":
            near = difflib.get_close_matches(one.what, SBATCH.known, 1, 0.6)
            remedy = f"--{near[0]} is the nearest" if near else "see man sbatch"
            if one.what in SRUN.known or one.what in SRUN.short:
                remedy = "it is one of srun: give it there"
            dashes = "-" if len(one.what) == 1 else "--"
            yield one.line, f"sbatch has no option {dashes}{one.what}", remedy
        elif one.kind == "value":
            yield one.line, f"--{one.what} has no value", "give it one"
        elif one.kind == "quote":
            yield one.line, "a quote in this line is not closed", "close it"
        elif one.kind == "words":
            yield (
                one.line,
                f"{one.what} is no option, and sbatch reads the line only up to it",
                "write one option with its value, without spaces around =, in each line",
            )
    for directive in script.directives:
        fault = _bad_value(directive.name, directive.value)
        if fault:
            yield (
                directive.line,
                f"--{directive.name}={directive.value}: {fault}",
                _FORMS[directive.name],
            )


_FORMS = {
    "time": "write minutes, H:MM:SS, D-HH or D-HH:MM:SS",
    "mem": "write a number with K, M, G or T, such as 64G; 0 is all of the node",
    "mem-per-cpu": "write a number with K, M, G or T, such as 4G",
    "mem-per-gpu": "write a number with K, M, G or T, such as 100G",
    "nodes": "write a number, or MIN-MAX",
    "ntasks": "write a number",
    "ntasks-per-node": "write a number",
    "cpus-per-task": "write a number",
    "gpus": "write a number, or MODEL:NUMBER",
    "gpus-per-node": "write a number, or MODEL:NUMBER",
    "signal": "write [B:]NAME[@SECONDS], such as B:USR1@300",
}


def _bad_value(name: str, value: str | None) -> str:
    if name not in _FORMS or value is None or "$" in value:
        return ""
    patterns = {
        "nodes": r"\d+[kK]?(-\d+[kK]?)?(:\d+)?|\d+(-\d+)?(,\d+(-\d+)?)+",
        "gpus": r"([\w.-]+:)?\d+(,[\w.-]+:\d+)*",
        "gpus-per-node": r"([\w.-]+:)?\d+(,[\w.-]+:\d+)*",
        "signal": r"([BR]+:)?[A-Za-z0-9]+(@\d+)?",
    }
    try:
        if name == "time":
            values.seconds(value)
        elif name.startswith("mem"):
            values.mebibytes(value)
        elif not re.fullmatch(patterns.get(name, r"\d+"), value):
            return "is not what the option takes"
    except ValueError as error:
        return str(error)
    return ""


@_rule("directive-variable", "error", "a variable in an #SBATCH line, where no shell expands it")
def _variable(script: Script, cluster: Cluster) -> Found:
    for one in script.directives:
        found = re.search(r"\$\{?\w+\}?|\$\(|`|^~", one.value or "")
        if found:
            remedy = "write the path in full" if "/" in (one.value or "") else "write the value"
            yield (
                one.line,
                f"--{one.name}: {found[0]} is not expanded, sbatch takes it as it stands",
                f"{remedy} (%j, %x, %u stand for job number, name and user in file names), or give the option "
                "on the command line",
            )


@_rule("output-directory", "error", "the directory of the job's output is not there")
def _output(script: Script, cluster: Cluster) -> Found:
    chdir = script.value("chdir") or cluster.workdir
    for one in script.directives:
        if one.name not in ("output", "error") or "$" in (one.value or ""):
            continue
        directory = os.path.dirname(one.value or "")
        path = os.path.normpath(os.path.join(chdir, directory)) if directory else ""
        if not path or path == "/dev":
            continue
        made = next(
            (
                command.line
                for command in script.commands
                if command.name == "mkdir"
                and path
                in {os.path.join(chdir, shell.plain(w.text).rstrip("/")) for w in command.words}
            ),
            0,
        )
        lost = "the job fails at once and leaves no output that says why"
        remedy = f"make it before you submit: mkdir -p {path}"
        if re.search(r"%[0-9]*[jJAa]", directory):
            yield (
                one.line,
                f"{directory}: no directory can have the job's number before the job is there; {lost}",
                "put the number into the file's name",
            )
        elif "%" in directory:
            continue
        elif made:
            yield (
                one.line,
                f"{path} is made in line {made}, after Slurm has opened the output in it; without it {lost}",
                remedy,
            )
        elif (
            cluster.directory_exists and os.path.isabs(path) and not cluster.directory_exists(path)
        ):
            yield one.line, f"{path} is not there: {lost}", remedy


@_rule("time-missing", "warning", "no time limit")
def _time(script: Script, cluster: Cluster) -> Found:
    if script.directives and script.value("time") is None:
        yield (
            script.directives[0].line,
            "there is no --time, so the partition's default counts, which may be short, and the job fits no gap",
            "add #SBATCH --time=D-HH:MM:SS",
        )


@_rule("time-short", "error", "the time limit is shorter than the work")
def _short(script: Script, cluster: Cluster) -> Found:
    directive = script.directive("time")
    limit = _seconds(directive.value) if directive else None
    if directive is None or limit is None:
        return
    remedy = (
        "raise --time, or let the job go on in parts: #SBATCH --signal=B:USR1@300 and --requeue, a trap that "
        "has a checkpoint written, and a start from the newest one"
    )
    if cluster.planned and cluster.planned > limit and not _goes_on(script):
        need = values.duration(cluster.planned)
        yield (
            directive.line,
            f"--time={directive.value} ends the job before the {need} that it needs",
            remedy,
        )
    for launch in script.launches:
        match = re.fullmatch(r"(\d+)([smhd]?)", launch.limit)
        if match:
            unit = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
            if int(match[1]) * unit > limit:
                yield (
                    directive.line,
                    f"--time={directive.value} ends the job before the {launch.limit} of timeout in line {launch.line}",
                    "let timeout end before the limit, so that what follows it still runs",
                )


def _goes_on(script: Script) -> bool:
    return script.value("signal") is not None and script.value("requeue") is not None


_LONG = 86400  # seconds after which losing the work hurts


@_rule("no-signal", "warning", "a long job gets no signal before its limit")
def _no_signal(script: Script, cluster: Cluster) -> Found:
    directive = script.directive("time")
    limit = _seconds(directive.value) if directive else None
    if directive and limit and limit > _LONG and script.value("signal") is None:
        yield (
            directive.line,
            f"at the end of {directive.value} the job is killed, and all since its last checkpoint is lost",
            "add #SBATCH --signal=B:USR1@300 and a trap that has a checkpoint written and requeues the job",
        )


@_rule("signal-not-caught", "error", "the signal before the limit kills the script")
def _not_caught(script: Script, cluster: Cluster) -> Found:
    directive = script.directive("signal")
    match = re.match(
        r"[BR]*B[BR]*:(?:SIG)?([A-Za-z0-9]+)", (directive.value or "") if directive else ""
    )
    if not directive or not match:
        return
    name = match[1].upper()
    names = {
        name,
        f"SIG{name}",
        {"10": "USR1", "12": "USR2", "15": "TERM", "2": "INT"}.get(name, name),
    }
    for command in script.commands:
        if command.name == "trap" and names & {shell.plain(w.text).upper() for w in command.words}:
            return
    yield (
        directive.line,
        f"--signal={directive.value} goes to this script, which has no trap for {name} and dies of it",
        f"add a trap for {name}, or leave out B: so that the tasks get it",
    )


@_rule("requeue-truncates", "warning", "a requeued job overwrites its own log")
def _truncates(script: Script, cluster: Cluster) -> Found:
    directive = script.directive("requeue")
    if directive and not (script.value("open-mode") or "").startswith("a"):
        yield (
            directive.line,
            "when the job starts again, its output file is emptied, and why it was requeued is lost",
            "add #SBATCH --open-mode=append",
        )


@_rule("memory-missing", "warning", "no memory asked for on nodes that others may share")
def _memory(script: Script, cluster: Cluster) -> Found:
    if not script.directives or cluster.default_memory:
        return
    asks = ("mem", "mem-per-cpu", "mem-per-gpu", "exclusive")
    if all(script.value(name) is None for name in asks):
        yield (
            script.directives[0].line,
            "without --mem the job takes all memory of its nodes unless slurm.conf has a default, and no other "
            "job fits beside it",
            "add #SBATCH --mem=SIZE (or --mem-per-gpu), or --exclusive where the nodes are meant to be its own",
        )


@_rule("memory-twice", "error", "two ways to ask for memory at once")
def _memory_twice(script: Script, cluster: Cluster) -> Found:
    found = [one for one in script.directives if one.name in ("mem", "mem-per-cpu", "mem-per-gpu")]
    names = sorted({one.name for one in found})
    if len(names) > 1:
        yield (
            found[-1].line,
            f"{' and '.join('--' + name for name in names)} exclude each other",
            "keep one of them",
        )


@_rule("gpus-twice", "error", "GPUs asked for by two options")
def _gpus_twice(script: Script, cluster: Cluster) -> Found:
    gres = script.directive("gres")
    by_gres = gpus_of(gres.value or "") if gres else None
    if gres is None or by_gres is None:
        return
    for name in ("gpus-per-node", "gpus", "gpus-per-task"):
        other = script.directive(name)
        if other:
            yield (
                max(gres.line, other.line),
                f"--gres={gres.value} and --{name}={other.value} both ask for GPUs, and Slurm may grant either or "
                "refuse both",
                "keep --gpus-per-node alone",
            )


@_rule("tasks-disagree", "error", "numbers of nodes and tasks that do not fit")
def _tasks(script: Script, cluster: Cluster) -> Found:
    nodes, total = script.value("nodes"), script.directive("ntasks")
    each = count_of(script.value("ntasks-per-node"))
    if not (nodes or "").isdigit() or total is None or each is None:
        return
    tasks = count_of(total.value)
    if tasks is not None and tasks != int(nodes or 0) * each:
        yield (
            total.line,
            f"--ntasks={tasks} is not {nodes} nodes of {each} tasks; Slurm takes --ntasks-per-node for a limit then",
            "leave out --ntasks",
        )


@_rule("partition-unknown", "error", "a partition that the cluster does not have")
def _partition(script: Script, cluster: Cluster) -> Found:
    directive = script.directive("partition")
    if directive is None or cluster.partitions is None:
        return
    for name in (directive.value or "").split(","):
        if name not in cluster.partitions:
            have = ", ".join(sorted(cluster.partitions))
            yield directive.line, f"the cluster has no partition {name}", f"write one of {have}"


@_rule("container-batch", "error", "the batch script itself runs in the container")
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


# -- ranks and launchers ---------------------------------------------------------------------------
@_rule("rank-in-batch", "error", "the batch step's own rank is given to every task")
def _rank(script: Script, cluster: Cluster) -> Found:
    said = set()
    why = "it is expanded once, in the batch step, where it is 0: every task gets 0"
    for one in script.variables:
        match = OWN_RANK.search(shell.live(one.text))
        if match and one.where != "task" and (one.exported or "RANK" in one.name):
            said.add(one.line)
            yield (
                one.line,
                f"{one.name}=${match[1]}: {why}",
                "leave it out (a container's hook, torchrun and srun tell each task its rank), or set it in what the "
                "tasks run: srun bash -c 'RANK=$SLURM_PROCID ... exec python train.py'",
            )
    for launch in script.launches:
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


@_rule(
    "launcher-per-task", "error", "a launcher of processes is started by several tasks of a node"
)
def _per_task(script: Script, cluster: Cluster) -> Found:
    for launch in script.launches:
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


@_rule("launcher-alone", "error", "a launcher that does not know of the job's other nodes")
def _alone(script: Script, cluster: Cluster) -> Found:
    nodes = nodes_of(script) or 1
    for launch in script.launches:
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


@_rule("port-fixed", "warning", "a port that another job on the node may have")
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


@_rule("cpus-not-passed", "warning", "srun does not take --cpus-per-task from sbatch")
def _cpus(script: Script, cluster: Cluster) -> Found:
    cpus = count_of(script.value("cpus-per-task"))
    if not cpus or cpus < 2 or any(one.name == "SRUN_CPUS_PER_TASK" for one in script.variables):
        return
    for launch in _works(script):
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


@_rule("conda-mpirun", "warning", "conda's mpirun is found before the system's")
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


# -- environment -----------------------------------------------------------------------------------
@_rule("obsolete-variable", "warning", "a variable of NCCL, EFA or PyTorch that should not be set")
def _obsolete(script: Script, cluster: Cluster) -> Found:
    mpi = _is_mpi(script)
    for one in script.variables:
        row = environment.unwanted(one.name, one.value, mpi)
        if row:
            yield one.line, f"{one.name}: {row.why}", row.remedy


@_rule(
    "interface",
    "error",
    "a network interface that the nodes do not have, or in a form that is not taken",
)
def _interface(script: Script, cluster: Cluster) -> Found:
    named = [
        (one.line, one.name, one.value, environment.INTERFACES[one.name])
        for one in script.variables
        if one.name in environment.INTERFACES and not one.live
    ]
    for launch in script.launches:
        for option in launch.options:
            name, _space_, value = (option.value or "").partition(" ")
            if option.name == "mca" and name.endswith("tcp_if_include"):
                named.append((launch.line, f"--mca {name}", value, True))
    for line, name, value, exact in named:
        if exact and value.startswith("^"):
            yield (
                line,
                f"{name}={value}: it takes names of interfaces and no list to leave out",
                "leave it out",
            )
            continue
        have = cluster.interfaces
        if have and "/" not in value and not environment.interface_fits(value, have, exact):
            nccl = name == "NCCL_SOCKET_IFNAME"
            yield (
                line,
                f"{name}={value}: the nodes have no such interface, they have {', '.join(sorted(have))}",
                "write NCCL_SOCKET_IFNAME=^docker,lo,veth" if nccl else "leave it out",
            )


_OLD_NAMES = {
    "SLURM_NODELIST": "SLURM_JOB_NODELIST",
    "SLURM_NNODES": "SLURM_JOB_NUM_NODES",
    "SLURM_JOBID": "SLURM_JOB_ID",
    "SLURM_NPROCS": "SLURM_NTASKS",
}


@_rule("old-name", "warning", "a variable of Slurm by its old name")
def _old(script: Script, cluster: Cluster) -> Found:
    for number, line in enumerate(script.lines, 1):
        if number < script.body or line.lstrip().startswith("#"):
            continue
        for name in dict.fromkeys(re.findall(r"\$\{?(SLURM_[A-Z]+)\b(?!_)", line)):
            if name in _OLD_NAMES:
                yield (
                    number,
                    f"{name} is kept for old scripts alone (sbatch(1)), and steps set it otherwise than jobs",
                    f"write {_OLD_NAMES[name]}",
                )


_SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|SECRET_ACCESS_KEY)$")
_LOOKS_SECRET = re.compile(
    r"hf_\w{20,}|AKIA[0-9A-Z]{16}|gh[pousr]_\w{20,}|glpat-\S{15,}|nvapi-\S{20,}"
)


def is_secret(one: Variable) -> bool:
    """Whether a variable seems to have a secret for its value."""
    literal = not one.live and len(one.value) >= 8 and not one.value.startswith(("/", "~"))
    return literal and bool(_SECRET.search(one.name) or _LOOKS_SECRET.search(one.value))


@_rule("secret", "error", "a secret in the script")
def _secret(script: Script, cluster: Cluster) -> Found:
    for one in script.variables:
        if is_secret(one):
            yield (
                one.line,
                f"{one.name} has a secret for its value, which Slurm keeps with the script and others may read",
                "put it into a file that only you can read (mode 0600), and read it here: "
                f'{one.name}=$(cat "$HOME/.secrets/{one.name.lower()}")',
            )


# -- what comes after ------------------------------------------------------------------------------
@_rule(
    "exit-code-unreachable", "error", "set -e ends the script before it can look at the exit code"
)
def _unreachable(script: Script, cluster: Cluster) -> Found:
    for command in script.commands:
        words = (*command.assignments, *command.words[1:])
        takes = any(re.match(r'\w+="?\$(\?|\{\?\})', word.text) for word in words)
        if (
            takes
            and not command.function
            and command.before != "||"
            and _fails_fast(script, command.line)
        ):
            yield (
                command.line,
                "with set -e the script has ended already when the command before failed: this sees nothing but 0",
                "write `code=0; srun ... || code=$?`, or leave out set -e",
            )


@_rule("monitor-left", "error", "set -e ends the script before it ends what runs in the background")
def _left(script: Script, cluster: Cluster) -> Found:
    works = [one.line for one in _works(script) if one.command.after != "&"]
    if not works or any(command.name == "trap" for command in script.commands):
        return
    started = [c for c in script.commands if c.after == "&" and c.line < works[-1]]
    if not started or not _fails_fast(script, works[-1]):
        return
    for command in _top(script):
        if command.name == "kill" and command.line > works[-1] and command.before != "||":
            yield (
                command.line,
                "with set -e this is not reached when the training fails, and what runs in the background goes on",
                f"trap it where it is started (line {started[0].line}): trap 'kill \"$pid\"' EXIT",
            )
            return


@_rule("monitor-one-node", "warning", "a monitor that sees the first node alone")
def _monitor(script: Script, cluster: Cluster) -> Found:
    nodes = nodes_of(script) or 1
    starters = {id(launch.command) for launch in script.launches}
    for command in script.commands:
        if nodes < 2 or command.name not in ("nvidia-smi", "dcgmi") or id(command) in starters:
            continue
        words = [shell.plain(word.text) for word in command.words]
        repeats = command.depth or command.function or command.after == "&"
        loops = any(re.match(r"-l\b|--loop|-lms|dmon", word) for word in words)
        if repeats or loops:
            yield (
                command.line,
                f"it runs in the batch step, on the first of {nodes} nodes, and sees no other GPU",
                "start it by srun --overlap --ntasks-per-node=1, with $SLURMD_NODENAME in the file's name",
            )
            return


@_rule("background-not-awaited", "error", "steps in the background that nobody waits for")
def _awaited(script: Script, cluster: Cluster) -> Found:
    waits = [command.line for command in script.commands if command.name == "wait"]
    last = max(waits, default=0)
    for launch in _works(script):
        if launch.command.after == "&" and launch.starter and last < launch.command.end_line:
            yield (
                launch.line,
                "the script ends while this runs in the background, and Slurm then kills it",
                "add `wait` at the end",
            )
            return


@_rule("exit-code-lost", "warning", "the job's exit code is not that of the training")
def _lost(script: Script, cluster: Cluster) -> Found:
    top = _top(script)
    works = [one for one in _works(script) if any(one.command is c for c in top)]
    works = [one for one in works if one.command.after != "&" and one.starter]
    if any(fault.kind in ("comment", "space") for fault in script.faults):
        return  # what follows was meant as arguments
    if not works or len({one.line for one in works}) > 1 or _fails_fast(script, works[-1].line):
        return
    launch = works[-1]
    place = [command is launch.command for command in top].index(True)
    after = list(top[place + 1 :])
    joined = launch.command.after
    if joined == "|" and not _pipefail(script):
        yield (
            launch.line,
            "the exit code of a pipe is that of its last part: the job succeeds when the training fails",
            "add `set -o pipefail` above",
        )
        return
    while after and joined in ("|", "&&"):
        joined = after.pop(0).after
    if joined == "||" or not after:
        return
    handled = any(
        command.name in ("exit", "return")
        or "$?" in " ".join(w.text for w in command.words)
        and command.name in ("exit", "test", "[", "if")
        for command in script.commands
        if command.line >= launch.line
    )
    if not handled:
        yield (
            launch.line,
            f"the job's exit code is that of line {after[-1].line}, so a failed training counts as COMPLETED",
            "write `code=$?` after it and `exit $code` at the end",
        )


@_rule("s3-untested", "warning", "the first write to S3 comes after the training")
def _s3(script: Script, cluster: Cluster) -> Found:
    works = [one.line for one in _works(script) if one.command.after != "&"]
    buckets = {one.name for one in script.variables if one.value.startswith("s3://")}
    wrote = False
    for command in script.commands:
        words = [shell.plain(word.text) for word in command.words]
        if words[:1] != ["aws"] and command.name != "aws":
            continue
        verb = words[1:3]
        targets = [word for word in words[3:] if not re.match(r"-.", word)]
        to_s3 = len(targets) > 1 and (
            targets[1].startswith("s3://")
            or any(re.match(rf"\$\{{?{name}\b", targets[1]) for name in buckets)
        )
        writes = verb[:1] == ["s3"] and verb[1:] in (["cp"], ["sync"], ["mv"]) and to_s3
        writes = writes or verb == ["s3api", "put-object"]
        if writes and works and command.line > works[0] and not command.function and not wrote:
            yield (
                command.line,
                "if the nodes may only read the bucket, this is found out when the training is over",
                "write a small object there before the training, and stop if that fails: "
                "`echo test | aws s3 cp - s3://BUCKET/PREFIX/.test || exit 1`",
            )
            return
        wrote = wrote or writes
