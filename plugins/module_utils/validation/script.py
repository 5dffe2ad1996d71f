# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes the batch script of one job of a validation: its steps, each with a deadline and between two marks. Pure.

One job has all steps of a round: a pair of nodes or a group of them is a step of srun or mpirun, and what every node
tests for itself is one step over all of them.
"""

from __future__ import annotations

import dataclasses
import shlex
import typing as t

from ..training.job import environment, render
from ..training.job.schema import Container
from .catalogue import Check
from .collect import CUT, FULL, mark
from .plan import Host

#: Seconds that the start and the end of a step may take besides its deadline.
STEP_SECONDS = 15
#: Bytes of a step's output that are kept.
_KEPT = 4_000_000
#: Directories of programs where a frame names none.
_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Variables by which a login profile puts programs or libraries in front of the system's, and those by which a site has
#: sbatch keep the environment from its steps.
_FOREIGN = (
    *("BASH_ENV", "ENV", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME", "PYTHONPATH"),
    *("SLURM_EXPORT_ENV", "SLURM_GET_USER_ENV"),
)


@dataclasses.dataclass(frozen=True)
class Step:
    """A check on a group of nodes, which run it together, or on one mount of theirs.

    name: in the log, without blanks. tasks: processes of a node. variables: of the command, besides the check's.
    """

    name: str
    check: Check
    hosts: tuple[Host, ...]
    tasks: int = 1
    variables: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Each:
    """Checks that each of these nodes runs by itself; of a check those of its hosts."""

    checks: tuple[tuple[Check, tuple[str, ...]], ...]
    hosts: tuple[Host, ...]


@dataclasses.dataclass(frozen=True)
class Work:
    """A job. name: the same in every run of the playbook that continues this validation. text: in place of steps."""

    name: str
    stage: str
    hosts: tuple[Host, ...]
    each: Each | None = None
    steps: tuple[Step, ...] = ()
    parallel: int = 1
    text: str = ""
    seconds: int = 0

    @property
    def count(self) -> int:
        """Return its number of steps."""
        return len(self.steps) + (1 if self.each else 0)

    @property
    def deadline(self) -> int:
        """Return the seconds that it runs at most."""
        if self.seconds:
            return self.seconds
        total = 60
        if self.each:
            total += STEP_SECONDS + sum(check.deadline for check, _hosts in self.each.checks)
        if self.steps:
            longest = max(step.check.deadline for step in self.steps) + STEP_SECONDS
            total += longest * -(-len(self.steps) // max(1, self.parallel))
        return total


def without(work: Work, lost: t.Container[str]) -> Work | None:
    """Return a job without some nodes and the steps that need them; None where nothing is left of it."""
    hosts = tuple(host for host in work.hosts if host.name not in lost)
    if len(hosts) == len(work.hosts):
        return work
    steps = tuple(step for step in work.steps if not any(host.name in lost for host in step.hosts))
    each = None
    if work.each:
        left = [
            (check, tuple(name for name in names if name not in lost))
            for check, names in work.each.checks
        ]
        among = tuple(host for host in work.each.hosts if host.name not in lost)
        each = Each(tuple(one for one in left if one[1]), among) if among else None
    needed = {host.name for step in steps for host in step.hosts}
    needed |= {host.name for host in each.hosts} if each else set()
    if work.text or not needed:
        return None
    hosts = tuple(host for host in hosts if host.name in needed)
    return dataclasses.replace(work, hosts=hosts, steps=steps, each=each)


@dataclasses.dataclass(frozen=True)
class Frame:
    """The settings that all jobs of a run share.

    run: its id. programs, directory: absolute paths on the nodes, of the programs of role validate and of the run.
    exports: variables of all steps. srun_options: of all steps, by their long names. images: of steps in a container,
    by the names of catalogue.IMAGES. mounts: paths that a container gets as they are. variables: for commands, by
    their names. path: directories of programs, in their order, () for those of the system.
    """

    run: str
    programs: str
    directory: str
    exports: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    srun_options: t.Mapping[str, str | bool] = dataclasses.field(default_factory=dict)
    images: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    variables: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    path: tuple[str, ...] = ()


def write(work: Work, frame: Frame) -> str:
    """Return the text of a job's batch script."""
    if work.text:
        return work.text
    parts = [_head(work, frame), _clean(frame), _environment(work, frame), _functions(work, frame)]
    if work.each:
        parts.append(_each(work.each, work, frame))
    if work.steps:
        lines = []
        for step in work.steps:
            lines += [
                f"place\n{_step(step, frame)} &" if work.parallel != 1 else _step(step, frame)
            ]
        parts.append("# The steps.\n" + "\n".join(lines) + "\nwait")
    parts.append(f"echo {shlex.quote(mark(frame.run, 'done ' + work.name))}")
    return "\n\n".join(parts) + "\n"


def _head(work: Work, frame: Frame) -> str:
    return (
        f"#!/bin/bash\n# Job {work.name} of a validation (stage {work.stage}), written by trainwright.slurm.\n"
        f"# `sbatch --nodelist={_listed(work.hosts)} --exclusive FILE` runs it again by hand."
    )


def _clean(frame: Frame) -> str:
    """Return what keeps the environment of whoever submits out of the steps, and shares a secret among them."""
    return "\n".join(
        [
            "# Programs are those of the system: a login profile must not put others in front of them.",
            "there=$PATH",
            'for name in $(compgen -A function); do unset -f "$name"; done',
            f"unset {' '.join(_FOREIGN)}",
            f"export PATH={shlex.quote(':'.join(frame.path) or _SYSTEM)}",
            "# Slurm itself may be somewhere else.",
            "srun=$(command -v srun || PATH=$there command -v srun)",
            "[[ $srun == /* ]] && PATH=$PATH:${srun%/*}",
            "# By it the tasks of a step know each other, whoever else connects: it is in no file and no command line.",
            "VALIDATION_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')",
            "VALIDATION_PORT=$((20000 + 0x${VALIDATION_TOKEN:0:6} % 10000))",
            "export VALIDATION_TOKEN VALIDATION_PORT",
        ]
    )


def _environment(work: Work, frame: Frame) -> str:
    efa = any(host.number("efa") for host in work.hosts)
    kinds = {str(host.declared.get("machine_type") or "") for host in work.hosts}
    mpi = any(
        step.check.launch in ("mpirun", "pmix") or step.check.srun_options.get("mpi") == "pmix"
        for step in work.steps
    )
    lines = [
        f"export VALIDATION={shlex.quote(frame.programs)}",
        *(f"export {name}={shlex.quote(value)}" for name, value in frame.variables.items()),
    ]
    chosen = environment.settings(kinds.pop() if len(kinds) == 1 else "", efa=efa, mpi=mpi)
    lines += [
        f"export {one.name}={shlex.quote(one.value)}  # {one.why}"
        for one in chosen
        if one.name not in frame.exports
    ]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in frame.exports.items()]
    return "# Environment of the steps.\n" + "\n".join(lines)


def _functions(work: Work, frame: Frame) -> str:
    begin, end = mark(frame.run, "begin"), mark(frame.run, "end")
    return "\n".join(
        [
            "work=$(mktemp -d) || exit",
            "trap 'rm -rf \"$work\"' EXIT",
            "",
            "# Runs a step until its deadline, and prints its output between two marks once it has ended.",
            "step() {",
            "  local name=$1 deadline=$2 output code cut= begin=$SECONDS",
            "  shift 2",
            '  output=$(mktemp -p "$work") || output=$work/none',
            '  timeout --kill-after=10 "$deadline" "$@" > "$output" 2>&1 < /dev/null',
            "  code=$?",
            "  {",
            "    flock 9",
            f'    echo "{begin} $name"',
            f'    head -c {_KEPT} "$output"',
            f'    (( $(stat -c %s "$output") > {_KEPT} )) && cut=" {CUT}"',
            # Whoever prints into a full file system is not told in every case.
            f'    echo room 2> /dev/null > "$work/room" || cut=" {FULL}"',
            f"    printf '\\n%s\\n' \"{end} $name $code $((SECONDS - begin))$cut\"",
            '  } 9> "$work/lock"',
            '  rm -f "$output"',
            "}",
            "",
            "# Waits until another step may start.",
            "place() {",
            f"  while (( $(jobs -rp | wc -l) >= {max(1, work.parallel)} )); do wait -n; done",
            "}",
        ]
    )


def _each(each: Each, work: Work, frame: Frame) -> str:
    path = f"{frame.directory}/{work.name}.each"
    names = [host.name for host in each.hosts]
    lines = [
        f'echo "{mark(frame.run, "node")} $SLURMD_NODENAME"',
        "check() {",
        "  local code begin=$SECONDS",
        f'  echo "{mark(frame.run, "check")} $1"',
        '  timeout --kill-after=5 "$2" bash -c "$3" 2>&1 < /dev/null',
        "  code=$?",
        f"  printf '\\n%s\\n' \"{mark(frame.run, 'code')} $code $((SECONDS - begin))\"",
        "}",
    ]
    for check, hosts in each.checks:
        call = f"check {check.name} {check.deadline} {shlex.quote(_command(check, {}))}"
        if set(hosts) != set(names):
            call = f'case " {" ".join(hosts)} " in *" $SLURMD_NODENAME "*) {call} ;; esac'
        lines.append(call)
    seconds = STEP_SECONDS + sum(check.deadline for check, _hosts in each.checks)
    body = "\n".join([*lines, "exit 0"])
    options = _options("srun", each.hosts, 1, frame) | {"label": True, "kill-on-bad-exit": "0"}
    return (
        "# What every node tests for itself.\n"
        f"cat > {shlex.quote(path)} <<'@@each'\n{body}\n@@each\n"
        f"step each {seconds} {' '.join(render.srun(options))} bash {shlex.quote(path)}"
    )


def _step(step: Step, frame: Frame) -> str:
    check = step.check
    variables = {
        "VALIDATION_NODES": " ".join(host.name for host in step.hosts),
        # By name: Slurm numbers the tasks in an order of its own.
        "VALIDATION_SERVER": step.hosts[0].name,
        "VALIDATION_ADDRESS": step.hosts[0].address or step.hosts[0].name,
        **step.variables,
    }
    command = shlex.quote(_command(check, variables))
    if check.launch == "mpirun":
        places = ",".join(f"{host.name}:{step.tasks}" for host in step.hosts)
        names = ["PATH", "VALIDATION", *frame.variables, *frame.exports]
        words = ["mpirun", f"--host {places}", f"--map-by ppr:{step.tasks}:node", "--bind-to none"]
        words += [f"-x {name}" for name in dict.fromkeys(names)]
    else:
        mount = step.variables.get("VALIDATION_MOUNT")
        inside = dataclasses.replace(frame, mounts=(*frame.mounts, *([mount] if mount else [])))
        options = _options(check.launch, step.hosts, step.tasks, inside, check.image)
        words = render.srun({**options, **check.srun_options})
    # An image may be without bash.
    shell = "sh" if check.launch == "container" else "bash"
    return f"step {step.name} {check.deadline} {' '.join(words)} {shell} -c {command}"


def _options(
    launch: str, hosts: t.Sequence[Host], tasks: int, frame: Frame, image: str = "site"
) -> dict[str, str | bool]:
    """Return the options of srun for a step over these nodes; those of the site come last."""
    chosen: dict[str, str | bool] = {
        "nodes": str(len(hosts)),
        "ntasks": str(len(hosts) * tasks),
        "ntasks-per-node": str(tasks),
        "nodelist": _listed(hosts),
        # A step that was ended may still hold its CPUs.
        "overlap": True,
        "kill-on-bad-exit": "1",
        "cpu-bind": "none",
        "mpi": "pmix" if launch == "pmix" else "none",
    }
    if launch == "container":
        container = Container(
            image=frame.images.get(image, ""), mounts=tuple(f"{one}:{one}" for one in frame.mounts)
        )
        chosen.update(render.container_options(container))
    return chosen | dict(frame.srun_options)


def _command(check: Check, variables: t.Mapping[str, str]) -> str:
    given = {**variables, **check.environment}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in given.items()]
    return "\n".join([*lines, check.command.strip()])


def _listed(hosts: t.Iterable[Host]) -> str:
    # Not folded: srun reads both, and a name in brackets would need quotes.
    return ",".join(host.name for host in hosts)
