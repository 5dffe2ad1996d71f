# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes the description of a job from a batch script that is there, without what it should not have set. Pure.

A script that starts one training becomes a description of it; one that does more keeps its commands
as they are (launcher batch). Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import os
import re
import typing as t

from ...slurm.batch import shell
from ...slurm.batch.options import PYXIS
from ...slurm.batch.request import (
    PROCESSES,
    RENDEZVOUS,
    gpus_a_node,
    nodes_of,
    processes_of,
)
from ...slurm.batch.script import Launch, Script, Variable, parse
from ..job import environment, render, schema
from ..job.schema import PER_NODE, JobError
from . import around, comparison, expressible
from .environment_rules import is_secret
from .excerpt import Cut, excerpt, monitors, without
from .fields import Correction, Fields
from .rule import OWN_RANK, SHELL

Json = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Translation:
    """A description, and what was corrected on the way, in the order of lines."""

    job: Json
    corrections: tuple[Correction, ...]


def translate(
    text: str,
    name: str = "job",
    interfaces: t.Collection[str] | None = None,
    *,
    workdir: str = "",
    syntax: t.Callable[[str], t.Sequence[tuple[int, str]]] | None = None,
) -> Translation:
    """Return the description of the job that a batch script submits.

    name: for a script that does not name its job. interfaces: those of the compute nodes, if they are
    known. workdir: where sbatch is run, if that is known. syntax: returns what the shell refuses in a script, by line.
    A description that does not ask for the same and run the same keeps the commands (launcher batch) and says why.
    Raises JobError where the shell reads the script otherwise than it is meant, and where even that would not do.
    """
    script = parse(text)
    several = next((one for one in script.unread if one.kind == "hetjob"), None)
    if several:
        raise JobError(
            f"line {several.line}: a heterogeneous job asks for several kinds of nodes, and a description for one "
            "-> keep the script, and submit it by sbatch"
        )
    if script.faults:
        what = {"comment": "a comment", "space": "a space after a backslash", "quote": "a quote"}
        raise JobError(
            "\n".join(
                f"line {one.line}: {what[one.kind]} ends a command early or never, so that what is meant is not "
                "what runs -> correct the script, then translate it"
                for one in script.faults
            )
        )
    if not SHELL.match(script.lines[0]):
        raise JobError(
            f"line 1: {script.lines[0][:40]!r} does not name bash or sh, whose scripts alone can be described "
            "-> name the program that is to run as the command of a description"
        )
    refused = syntax(script.text) if syntax else ()
    if refused:
        line, why = refused[0]
        raise JobError(f"line {line}: {why} -> correct the script, then translate it")
    first = _Translator(script, name, interfaces, workdir)
    made = first.run()
    try:
        faults = first.faults(made, syntax)
    except JobError as error:
        if not first.launch:
            raise
        faults = [str(error).partition("\n")[0]]
    if faults and first.launch:
        second = _Translator(script, name, interfaces, workdir, why=faults[0])
        made = second.run()
        faults = second.faults(made, syntax)
    if faults:
        raise JobError(
            "\n".join(f"the description would differ from the script: {one}" for one in faults)
            + " -> write the description by hand (docs/training_jobs.md)"
        )
    return made


class _Translator(Fields):
    def __init__(
        self,
        script: Script,
        name: str,
        interfaces: t.Collection[str] | None,
        workdir: str,
        why: str = "",
    ) -> None:
        """why: the reason for which it keeps the commands as they are, where it could do otherwise."""
        super().__init__(script, name, workdir)
        self.interfaces = interfaces
        self.why = why
        self.launch: Launch | None = None
        self.gone: set[tuple[int, str]] = set()
        self.cuts: list[Cut] = []
        self.monitors = monitors(script)
        self.mpi = any(
            one.starter == "mpirun" or one.option("mpi") for one in script.launches
        ) and not any(one.launcher for one in script.launches)

    def run(self) -> Translation:
        self._shell()
        for one in self.script.unread:
            self.correct(
                one.line, one.what, "sbatch does not read it as an option here, so it is left out"
            )
        self.directives()
        self.launch = None if self.why else self._only_launch()
        if self.launch:
            self.why = expressible.why_not(self.script, self.launch)
            self.launch = None if self.why else self.launch
        if self.launch is None:
            if self.why:
                self.correct(
                    self.script.body,
                    "launcher: batch",
                    f"as one training it would differ: {self.why}",
                )
            self._whole()
        else:
            self._one(self.launch)
        self.name()
        order = {key: n for n, key in enumerate(_ORDER)}
        made = {
            key: _number(key, self.job[key])
            for key in sorted(self.job, key=lambda key: order.get(key, 99))
            if self.job[key] not in ("", None, {}, [])
        }
        return Translation(made, tuple(sorted(dict.fromkeys(self.corrections))))

    def faults(
        self, made: Translation, syntax: t.Callable[[str], t.Sequence[tuple[int, str]]] | None
    ) -> list[str]:
        """Return in what the description asks for other resources or runs other commands than the script."""
        rendered = render.render(schema.check(made.job))
        said = [re.split(r"[=\s]", one.what)[0] for one in made.corrections]
        if self.workdir and not os.path.isabs(self.script.value("chdir") or ""):
            said.append("--chdir")
        found = [
            fault
            for fault in comparison.between(self.script, parse(rendered))
            if fault.partition(":")[0] not in said
        ]
        found += comparison.lost(
            self.script,
            made.job,
            self.launch,
            self.gone,
            [
                command.start
                for command in self.script.commands
                if any(cut.start <= command.start < cut.end for cut in self.cuts)
            ],
            said,
        )
        return found + [why for _line, why in (syntax(rendered) if syntax else ())]

    def _shell(self) -> None:
        """Report what the shell is told apart from the script: its options, and the script's own arguments."""
        options = SHELL.sub("", self.script.lines[0]).strip()
        if options:
            self.correct(1, options, "is an option of the shell, which starts without it")
        for number, line in enumerate(self.script.lines, 1):
            match = re.search(r"\$\{?[1-9@*]|\$#", shell.live(line))
            functions = any(
                one.function and one.line <= number <= one.end_line for one in self.script.commands
            )
            if (
                match
                and number >= self.script.body
                and not functions
                and not line.lstrip().startswith("#")
            ):
                self.correct(number, match[0], "is empty: train.yml gives a script no arguments")
                return

    # -- which training ----------------------------------------------------------------------------
    def _only_launch(self) -> Launch | None:
        """The one launch that a description can express; None if the script does more."""
        launches = self.script.launches
        if len(launches) != 1:
            return None
        launch = launches[0]
        command = launch.command
        odd = bool(command.function or command.depth or command.groups or command.redirects)
        odd = odd or bool(command.assignments) or self._holds()
        joined = command.after in ("|", "&&", "&") or command.before in ("|", "&&", "||")
        prefixed = command.words and command.words[0].start != launch.start
        if odd or joined or prefixed or (not launch.starter and not launch.launcher):
            return None
        if command.after == "||" and not self._keeps_code(launch):
            return None
        if comparison.expands_quotes(self.script, launch) or self._places(launch):
            return None
        if not launch.starter and (nodes_of(self.script) or 1) > 1:
            return None
        if "container-image" not in {o.name for o in launch.options} and self.container:
            return launch if launch.starter == "srun" else None
        return launch

    def _places(self, launch: Launch) -> bool:
        """Whether mpirun is told where its processes go, which a description says by tasks_per_node alone."""
        if launch.starter != "mpirun":
            return False
        mapped = any(launch.option(name) is not None for name in _MAPPING)
        return mapped or self._numbered()

    def _numbered(self) -> bool:
        """Whether the number of tasks is asked for otherwise than for a node."""
        return bool({"ntasks", "ntasks-per-gpu"} & set(self.job.get("sbatch_options", {})))

    def _holds(self) -> bool:
        """Whether the script does something around its training that hooks cannot: traps, steps beside it."""
        taken = {cut.start for _line, cuts in self.monitors for cut in cuts}
        spans = [cut for _line, cuts in self.monitors for cut in cuts]
        for command in self.script.commands:
            if command.start in taken or any(c.start <= command.start < c.end for c in spans):
                continue
            if command.name in ("trap", "wait") or command.after == "&":
                return True
        return any(one.where in ("srun", "mpirun") and one.live for one in self.script.variables)

    def _keeps_code(self, launch: Launch) -> bool:
        after = [c for c in self.script.commands if c.start > launch.command.start]
        return bool(after) and bool(re.fullmatch(r'\w+="?\$\?"?', _source(self.script, after[0])))

    # -- a script that does more -------------------------------------------------------------------
    def _whole(self) -> None:
        self.gone = self._drop(lambda one: False)
        body = excerpt(self.script, 0, len(self.script.text), self.gone, ())
        self.job["launcher"] = "batch"
        self.job["command"] = around.loose(self.script, body) or "true"
        if self.container:
            # The steps inside keep their own; what the whole script had is for each of them.
            options = self.job.setdefault("sbatch_options", {})
            for one in self.script.directives:
                if one.name in PYXIS:
                    options[one.name] = True if one.value is None else one.value
            self.corrections = [c for c in self.corrections if not c.what.startswith("--container")]
            self.job.pop("srun_options", None)
        if "tasks_per_node" not in self.job and not self._numbered():
            self.job["tasks_per_node"] = 1

    def _drop(self, moved: t.Callable[[Variable], bool]) -> set[tuple[int, str]]:
        """Find the variables that go, as (line, name)."""
        gone = set()
        for one in self.script.variables:
            row = environment.unwanted(one.name, one.value, self.mpi)
            rank = OWN_RANK.search(shell.live(one.text)) if one.where == "batch" else None
            # Variables of a step or a task stay in the words of the command.
            stays = one.where == "task" or (not self.launch and one.where in ("srun", "mpirun"))
            if stays and (row or is_secret(one)):
                why = f"{row.why}: {row.remedy}" if row else "is a secret"
                self.correct(one.line, one.name, f"stays in the command: {why}")
                continue
            if row:
                self.correct(one.line, f"{one.name}={one.value}", f"{row.why}: {row.remedy}")
            elif is_secret(one):
                self.correct(
                    one.line,
                    one.name,
                    "is a secret: write it into a file and name that under secrets",
                )
            elif self._no_interface(one):
                self.correct(one.line, f"{one.name}={one.value}", "names no interface of the nodes")
            elif rank and self._only_rank(one):
                self.correct(
                    one.line,
                    f"{one.name}={one.value}",
                    "is 0 for every task: each gets its own rank",
                )
            elif not moved(one):
                continue
            gone.add((one.line, one.name))
        return gone

    def _only_rank(self, one: Variable) -> bool:
        """Whether a variable is only a task's number, and the tasks get their own without it."""
        if not re.fullmatch(r'"?\$\{?SLURM_\w+\}?"?', one.text):
            return False
        used = re.search(rf"\$\{{?{one.name}\b", self.script.text)
        return one.exported or ("RANK" in one.name and not used)

    def _no_interface(self, one: Variable) -> bool:
        exact = environment.INTERFACES.get(one.name)
        if exact is None or one.live:
            return False
        if exact and one.value.startswith("^"):
            return True
        known = self.interfaces
        return bool(known) and not environment.interface_fits(one.value, known or (), exact)

    # -- one training ------------------------------------------------------------------------------
    def _one(self, launch: Launch) -> None:
        self._step_options(launch)
        command = self._command(launch)
        if self.container:
            self.job["container"] = self.container
        per_node = self.job["launcher"] in PER_NODE
        numbered = self._numbered()
        if per_node and (numbered or self.job.get("tasks_per_node") not in (None, "1", 1)):
            # More than one launcher a node was requested: its own options define it.
            self.job.update(launcher="srun", launcher_options=[])
            command = self._raw(launch)
            per_node = False
        if not launch.starter and not per_node:
            # The batch step has all CPUs of its node, and a step's task one of them.
            self.job.setdefault("srun_options", {}).setdefault("cpu-bind", "none")
        if per_node:
            self.job.pop("tasks_per_node", None)
        elif not numbered:
            self.job.setdefault("tasks_per_node", 1)
        self.job["command"] = command
        self._around(launch)

    def _step_options(self, launch: Launch) -> None:
        if launch.starter != "srun":
            return
        bare = not self.script.directives
        for one in launch.options:
            value = None if one.value is None else shell.plain(one.value)
            if one.name in PYXIS:
                self.contain(one.name, one.value)
            elif one.name == "export":
                if not re.match(r"[\"']?ALL\b", one.value or ""):
                    self.correct(
                        launch.line,
                        f"--export={one.value}",
                        "without ALL it takes everything else from the tasks, PATH as well",
                    )
            elif bare and one.name in comparison.ASKS | {"job-name"}:
                self.ask(one.name, value)
            else:
                self.job.setdefault("srun_options", {})[one.name] = True if value is None else value

    def _command(self, launch: Launch) -> str:
        self.job["launcher"] = "srun" if launch.starter != "mpirun" else "mpirun"
        if launch.starter == "mpirun":
            self.job["launcher_options"] = _words(
                one.text
                for one in launch.options
                if not (one.name == "x" and "=" in (one.value or ""))
            )
            return " ".join(launch.program)
        if not launch.launcher or not expressible.is_sayable(self.script, launch):
            return self._raw(launch)
        self.job["launcher"] = launch.launcher
        kept = []
        for one in launch.launcher_options:
            if one.name not in RENDEZVOUS and one.name not in PROCESSES:
                match = re.match(r"-+[\w-]+", one.text)
                name = match[0] if match else f"--{one.name}"
                kept.append(name if one.value is None else f"{name}={one.value}")
        each = processes_of(self.script, launch)
        if each not in ("gpus", str(gpus_a_node(self.script))):
            nodes = nodes_of(self.script) or 1
            count = int(each) * nodes if launch.launcher == "accelerate" else int(each)
            kept.insert(0, f"--{_PROCESSES[launch.launcher]}={count}")
        self.job["launcher_options"] = kept
        if launch.launcher_option("rdzv-endpoint", "master-addr", "main-process-ip") is not None:
            self.correct(
                launch.line, "rendezvous", "is told by the job: first node, port by its number"
            )
        return " ".join(launch.program)

    def _raw(self, launch: Launch) -> str:
        return self.script.text[launch.at or launch.start : launch.command.end]

    def _around(self, launch: Launch) -> None:
        """Environment, and what the script does before and after the training."""
        script = self.script
        at = launch.command.start
        counts: dict[str, int] = {}
        for one in script.variables:
            counts[one.name] = counts.get(one.name, 0) + 1
        variables: dict[str, str] = {}
        rendered = self.job["launcher"] not in ("mpirun", "batch")

        def moved(one: Variable) -> bool:
            if one.where in ("srun", "mpirun"):
                if one.where == "mpirun" or not one.live:
                    variables[one.name] = one.value
                return False
            if one.where != "batch" or not one.sure or one.line > launch.line:
                return False
            if rendered and one.name in ("MASTER_ADDR", "MASTER_PORT"):
                if one.value.isdigit():
                    self.correct(
                        one.line,
                        f"{one.name}={one.value}",
                        "a port by the job's number takes its place",
                    )
                return True
            single = one.exported and not one.live and counts[one.name] == 1
            if single and around.is_early(script, one):
                variables[one.name] = one.value
                return True
            return False

        self.gone = self._drop(moved)
        before = [c for c in script.commands if c.start < at]
        after = [c for c in script.commands if c.start > at]
        self._cut_monitors()
        self.cuts += [
            without(c) if not around.strictness(c) else Cut(c.start, c.end, around.strictness(c))
            for c in script.commands
            if around.is_set(c)
        ]
        keeper = ""
        start = launch.command.end
        if launch.command.after == "||":
            kept = after.pop(0)
            keeper, start = _source(script, kept).partition("=")[0], kept.end
        variables = {
            name: value
            for name, value in variables.items()
            if not environment.unwanted(name, value, self.mpi)
        }
        bare = re.compile(r"export( (MASTER_ADDR|MASTER_PORT))+")
        if rendered:
            self.cuts += [without(c) for c in before if bare.fullmatch(_source(script, c))]
        pre = excerpt(script, 0, at, self.gone, self.cuts)
        self.job["environment"] = variables
        marks = []
        key = around.key_of(script, at, bool(keeper))
        if after and not keeper and key == "always":
            # The first command after the training asks for its exit code.
            marks = [
                Cut(after[0].start + m.start(), after[0].start + m.end(), "$TRAIN_EXIT_CODE")
                for m in re.finditer(r"\$\?|\$\{\?\}", _source(script, after[0]))
            ]
        if after and re.fullmatch(r"exit \S+", _source(script, after[0])) and len(after) == 1:
            self.cuts.append(without(after[0]))
        always = excerpt(script, start, len(script.text), self.gone, [*self.cuts, *marks])
        if keeper and always:
            always = f"{keeper}=$TRAIN_EXIT_CODE\n{always}"
        elif keeper:
            self.cuts.append(without(kept))
        self.cuts += self._unused(before, pre, self.job["command"] + always)
        pre = excerpt(script, 0, at, self.gone, self.cuts)
        self.job["hooks"] = around.hooks(script, at, pre, always, key)

    def _unused(self, before: t.Iterable[shell.Command], pre: str, others: str) -> list[Cut]:
        """Return the cuts of arrays that held options and that nothing names any more."""
        found = []
        for command in reversed(list(before)):
            words = command.assignments if not command.words else command.words[1:]
            names = [m[1] for w in words if (m := shell.ASSIGNMENT.match(w.text))]
            is_array = any(re.match(r"\w+=\(", w.text) for w in words)
            rest = pre.replace(_source(self.script, command), "") + others
            if is_array and not any(re.search(rf"\b{name}\b", rest) for name in names):
                found.append(without(command))
                pre = rest[: len(rest) - len(others)]
        return found

    def _cut_monitors(self) -> None:
        """Take out the script's own GPU monitors where the job samples the GPUs."""
        if not (self.job.get("logs") and (self.job.get("gpus") or self.job.get("gpus_per_node"))):
            return
        for line, cuts in self.monitors:
            self.cuts += cuts
            self.correct(
                line, "the GPU monitor", "is left out: the job samples the GPUs of each node"
            )


#: Options of mpirun with which it places processes.
_MAPPING = ("map-by", "npernode", "ppr", "pernode", "bynode", "byslot", "rankfile", "rf")
#: The option of each launcher for its processes: on a node, and of all nodes for Accelerate.
_PROCESSES = {
    "torchrun": "nproc_per_node",
    "deepspeed": "num_gpus",
    "accelerate": "num_processes",
}
_ORDER = tuple(
    "name command launcher launcher_options nodes gpus gpus_per_node tasks_per_node cpus_per_task"
    " nodelist exclude constraint memory exclusive partition account qos reservation time"
    " sbatch_options container srun_options workdir environment logs output error singleton dependency"
    " array hooks".split()
)


def _number(key: str, value: t.Any) -> t.Any:
    counts = ("nodes", "gpus", "gpus_per_node", "tasks_per_node", "cpus_per_task")
    return int(value) if key in counts and str(value).isdigit() else value


def _words(texts: t.Iterable[str]) -> list[str]:
    return [word for text in texts for word in text.split(" ")]


def _source(script: Script, command: shell.Command) -> str:
    return script.text[command.start : command.end]
