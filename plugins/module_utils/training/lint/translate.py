# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes the description of a job from a batch script that is there, without what it should not have set. Pure.

A script that starts one training becomes a description of it; one that does more keeps its commands
as they are (launcher batch). Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import typing as t

from ...slurm.batch import shell
from ...slurm.batch.directives import Directive
from ...slurm.batch.options import PYXIS
from ...slurm.batch.request import PROCESSES, RENDEZVOUS, asked, gpus_of, nodes_of, run_by
from ...slurm.batch.script import Launch, Script, Variable, parse
from ..job import environment
from ..job.schema import FIELDS, PER_NODE, JobError
from .environment_rules import is_secret
from .rule import OWN_RANK

Json = dict[str, t.Any]


class Correction(t.NamedTuple):
    """Something of the script that the description does not have, or has otherwise. line: in the script."""

    line: int
    what: str
    why: str


@dataclasses.dataclass(frozen=True)
class Translation:
    """A description, and what was corrected on the way, in the order of lines."""

    job: Json
    corrections: tuple[Correction, ...]


def translate(
    text: str, name: str = "job", interfaces: t.Collection[str] | None = None
) -> Translation:
    """Return the description of the job that a batch script submits.

    name: for a script that does not name its job. interfaces: those of the compute nodes, if they are
    known. Raises JobError where the shell reads the script otherwise than it is meant.
    """
    script = parse(text)
    if script.faults:
        what = {"comment": "a comment", "space": "a space after a backslash", "quote": "a quote"}
        raise JobError(
            "\n".join(
                f"line {one.line}: {what[one.kind]} ends a command early or never, so that what is meant is not "
                "what runs -> correct the script, then translate it"
                for one in script.faults
            )
        )
    return _Translator(script, name, interfaces).run()


def differences(before: str, after: str) -> list[str]:
    """Return in what two batch scripts ask for other resources, or run other commands; [] for nothing."""
    first, second = parse(before), parse(after)
    found = []
    one, two = _requested(first), _requested(second)
    for key in sorted(set(one) | set(two)):
        if one.get(key) != two.get(key):
            found.append(f"--{key}: {one.get(key, 'none')} and {two.get(key, 'none')}")
    ran = [[(run_by(launch), _contained(script, launch)) for launch in script.launches
            if not _only_looks(launch)] for script in (first, second)]  # fmt: skip
    if ran[0] != ran[1]:
        found.append(f"commands: {ran[0]} and {ran[1]}")
    return found


def _only_looks(launch: Launch) -> bool:
    """Whether it is a step beside the work that samples the GPUs."""
    beside = any(option.name == "overlap" for option in launch.options)
    return beside and any("nvidia-smi --query-gpu" in word for word in run_by(launch)[-1])


def _requested(script: Script) -> dict[str, str]:
    found = asked(script)
    if not script.directives and len(script.launches) == 1:
        # Without directives, srun itself asks.
        options = script.launches[0].options
        own = Script(
            **{
                **{f.name: getattr(script, f.name) for f in dataclasses.fields(script)},
                "directives": tuple(
                    Directive(1, o.name, o.value) for o in options if o.name in _ASKS
                ),
            }
        )
        found = asked(own)
    return found


#: Options of srun that ask for resources.
_ASKS = frozenset(FIELDS) - {"chdir", "error", "output", "job-name"} | {"gres", "ntasks"}


def _contained(script: Script, launch: Launch) -> tuple[tuple[str, str], ...]:
    options = {one.name: one.value or "" for one in launch.options if one.name in PYXIS}
    for one in script.directives:
        if one.name in PYXIS and launch.starter == "srun":
            options.setdefault(one.name, one.value or "")
    return tuple(sorted((name, shell.plain(value)) for name, value in options.items()))


class _Translator:
    def __init__(self, script: Script, name: str, interfaces: t.Collection[str] | None) -> None:
        self.script = script
        self.interfaces = interfaces
        self.job: Json = {"name": name}
        self.corrections: list[Correction] = []
        self.container: Json = {}
        self.mpi = any(
            one.starter == "mpirun" or one.option("mpi") for one in script.launches
        ) and not any(one.launcher for one in script.launches)

    def run(self) -> Translation:
        self._directives()
        launch = self._only_launch()
        if launch is None:
            self._whole()
        else:
            self._one(launch)
        order = {key: n for n, key in enumerate(_ORDER)}
        made = {
            key: _number(key, self.job[key])
            for key in sorted(self.job, key=lambda key: order.get(key, 99))
            if self.job[key] not in ("", None, {}, [])
        }
        return Translation(made, tuple(sorted(dict.fromkeys(self.corrections))))

    def _correct(self, line: int, what: str, why: str) -> None:
        self.corrections.append(Correction(line, what, why))

    # -- what is asked for -------------------------------------------------------------------------
    def _directives(self) -> None:
        for one in self.script.directives:
            if one.name in PYXIS:
                self._contain(one.name, one.value)
                self._correct(
                    one.line, f"--{one.name}", "is given to the training, not to the batch script"
                )
            else:
                self._ask(one.name, one.value)

    def _ask(self, name: str, value: str | None) -> None:
        if name == "gres":
            gpus = gpus_of(value or "")
            rest = [item for item in (value or "").split(",") if gpus_of(item) is None]
            if gpus:
                self.job["gpus_per_node"] = gpus
            if rest:
                self.job.setdefault("sbatch_options", {})["gres"] = ",".join(rest)
        elif name == "exclusive" and not value:
            self.job["exclusive"] = True
        elif name == "dependency" and value == "singleton":
            self.job["singleton"] = True
        elif name in ("output", "error") and re.search(r"\$|^~", value or ""):
            directive = self.script.directive(name)
            line = directive.line if directive else 1
            self._correct(
                line, f"--{name}={value}", "is not a path, since no shell expands it there"
            )
        elif name in FIELDS and name != "exclusive":
            self.job[FIELDS[name]] = value
            directory = os.path.dirname(value or "") if name == "output" else ""
            if os.path.isabs(directory) and "%" not in directory and directory != "/dev":
                self.job["logs"] = directory
        else:
            self.job.setdefault("sbatch_options", {})[name] = True if value is None else value
        if name == "requeue" and self.script.value("open-mode") is None:
            self.job["sbatch_options"]["open-mode"] = "append"

    def _contain(self, name: str, value: str | None) -> None:
        short = name.replace("no-", "", 1).replace("container-", "", 1).replace("-", "_")
        if name == "container-mounts":
            self.container["mounts"] = (value or "").split(",")
        elif name in ("container-image", "container-workdir", "container-name"):
            self.container[short] = value
        elif name in ("container-writable", "container-readonly"):
            self.container["writable"] = name == "container-writable"
        elif short in ("mount_home", "remap_root", "entrypoint"):
            self.container[short] = not name.startswith("no-")
        else:
            self.job.setdefault("srun_options", {})[name] = True if value is None else value

    # -- which training ----------------------------------------------------------------------------
    def _only_launch(self) -> Launch | None:
        """The one launch that a description can express; None if the script does more."""
        launches = self.script.launches
        if len(launches) != 1:
            return None
        launch = launches[0]
        command = launch.command
        odd = command.function or command.depth or command.redirects or command.assignments
        joined = command.after in ("|", "&&", "&") or command.before in ("|", "&&", "||")
        prefixed = command.words and command.words[0].start != launch.start
        if odd or joined or prefixed or (not launch.starter and not launch.launcher):
            return None
        if command.after == "||" and not self._keeps_code(launch):
            return None
        if not launch.starter and (nodes_of(self.script) or 1) > 1:
            return None
        if "container-image" not in {o.name for o in launch.options} and self.container:
            return launch if launch.starter == "srun" else None
        return launch

    def _keeps_code(self, launch: Launch) -> bool:
        after = [c for c in self.script.commands if c.start > launch.command.start]
        return bool(after) and bool(re.fullmatch(r'\w+="?\$\?"?', _source(self.script, after[0])))

    # -- a script that does more -------------------------------------------------------------------
    def _whole(self) -> None:
        dropped = self._drop(lambda one: False)
        body = _without(self.script, self.script.commands, dropped)
        self.job["launcher"] = "batch"
        self.job["command"] = body or "true"
        if self.container:
            # The steps inside keep their own; what the whole script had is for each of them.
            options = self.job.setdefault("sbatch_options", {})
            for one in self.script.directives:
                if one.name in PYXIS:
                    options[one.name] = True if one.value is None else one.value
            self.corrections = [c for c in self.corrections if not c.what.startswith("--container")]
            self.job.pop("srun_options", None)
        if "tasks_per_node" not in self.job and "ntasks" not in self.job.get("sbatch_options", {}):
            self.job["tasks_per_node"] = 1

    def _drop(self, moved: t.Callable[[Variable], bool]) -> set[tuple[int, str]]:
        """Find the variables that go, as (line, name)."""
        gone = set()
        for one in self.script.variables:
            row = environment.unwanted(one.name, one.value, self.mpi)
            rank = OWN_RANK.search(shell.live(one.text)) if one.where == "batch" else None
            if row:
                self._correct(one.line, f"{one.name}={one.value}", f"{row.why}: {row.remedy}")
            elif is_secret(one):
                self._correct(
                    one.line,
                    one.name,
                    "is a secret: write it into a file and name that under secrets",
                )
            elif self._no_interface(one):
                self._correct(
                    one.line, f"{one.name}={one.value}", "names no interface of the nodes"
                )
            elif rank and (one.exported or "RANK" in one.name):
                self._correct(
                    one.line,
                    f"{one.name}={one.value}",
                    "is 0 for every task: each gets its own rank",
                )
            elif not moved(one):
                continue
            gone.add((one.line, one.name))
        return gone

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
        if per_node and self.job.get("tasks_per_node") not in (None, "1", 1):
            # More than one launcher a node was requested: its own options define it.
            self.job.update(launcher="srun", launcher_options=[])
            command = self._raw(launch)
            per_node = False
        if per_node:
            self.job.pop("tasks_per_node", None)
        elif "ntasks" not in self.job.get("sbatch_options", {}):
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
                self._contain(one.name, one.value)
            elif one.name == "export":
                if not re.match(r"[\"']?ALL\b", one.value or ""):
                    self._correct(
                        launch.line,
                        f"--export={one.value}",
                        "without ALL it takes everything else from the tasks, PATH as well",
                    )
            elif bare and one.name in _ASKS | {"job-name"}:
                self._ask(one.name, value)
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
        if not launch.launcher or not self._sayable(launch):
            return self._raw(launch)
        self.job["launcher"] = launch.launcher
        kept = []
        for one in launch.launcher_options:
            fixed = one.name in PROCESSES and "$" in (one.value or "")
            if one.name not in RENDEZVOUS and not fixed:
                match = re.match(r"-+[\w-]+", one.text)
                name = match[0] if match else f"--{one.name}"
                kept.append(name if one.value is None else f"{name}={one.value}")
        self.job["launcher_options"] = kept
        if launch.launcher_option("rdzv-endpoint", "master-addr", "main-process-ip") is not None:
            self._correct(
                launch.line, "rendezvous", "is told by the job: first node, port by its number"
            )
        return " ".join(launch.program)

    def _sayable(self, launch: Launch) -> bool:
        """Whether launcher and program can be told apart from what each task works out for itself."""
        if launch.inner is None:
            return True
        if len(launch.inner.commands) > 1:
            return False
        single = launch.word.startswith("'")
        kept = [o.text for o in launch.launcher_options if o.name not in RENDEZVOUS]
        for text in (*kept, *launch.program):
            for match in re.finditer(r"\$\{?\w+\}?", text):
                if single or f"\\{match[0]}" in launch.word:
                    return False
        return True

    def _raw(self, launch: Launch) -> str:
        return self.script.text[launch.at : launch.command.end]

    def _around(self, launch: Launch) -> None:
        """Environment, and what the script does before and after the training."""
        script = self.script
        at = launch.command.start
        counts: dict[str, int] = {}
        for one in script.variables:
            counts[one.name] = counts.get(one.name, 0) + 1
        top = {c.line for c in script.commands if not c.function and not c.depth and not c.before}
        variables: dict[str, str] = {}
        rendered = self.job["launcher"] not in ("mpirun", "batch")

        def moved(one: Variable) -> bool:
            if one.where in ("srun", "mpirun"):
                if one.where == "mpirun" or not one.live:
                    variables[one.name] = one.value
                return False
            if one.where != "batch" or one.line not in top or one.line > launch.line:
                return False
            if rendered and one.name in ("MASTER_ADDR", "MASTER_PORT"):
                if one.value.isdigit():
                    self._correct(
                        one.line,
                        f"{one.name}={one.value}",
                        "a port by the job's number takes its place",
                    )
                return True
            if one.exported and not one.live and counts[one.name] == 1:
                variables[one.name] = one.value
                return True
            return False

        gone = self._drop(moved)
        before = [c for c in script.commands if c.start < at]
        after = [c for c in script.commands if c.start > at]
        before = [c for c in before if not self._is_set(c)]
        keeper = ""
        if launch.command.after == "||":
            keeper = _source(script, after.pop(0)).partition("=")[0]
        variables = {
            name: value
            for name, value in variables.items()
            if not environment.unwanted(name, value, self.mpi)
        }
        bare = re.compile(r"export( (MASTER_ADDR|MASTER_PORT))+")
        if rendered:
            before = [c for c in before if not bare.fullmatch(_source(script, c))]
        pre = _without(script, before, gone)
        self.job["environment"] = variables
        always = _without(script, after, gone)
        always = re.sub(r'(\w+)=("?)\$\?\2', r"\1=\2$TRAIN_EXIT_CODE\2", always, count=1)
        if keeper and always:
            always = f"{keeper}=$TRAIN_EXIT_CODE\n{always}"
        pre = _without_unused(pre, self.job["command"] + always)
        hooks = {"pre": pre, "always": "" if re.fullmatch(r"exit \S+", always) else always}
        self.job["hooks"] = {key: text for key, text in hooks.items() if text}

    def _is_set(self, command: shell.Command) -> bool:
        if command.name != "set" or command.depth or command.function:
            return False
        if re.search(r"\s-\w*e|errexit", _source(self.script, command)):
            self._correct(
                command.line, _source(self.script, command), "the exit code would be lost"
            )
        return True


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


def _without(
    script: Script, commands: t.Sequence[shell.Command], gone: set[tuple[int, str]]
) -> str:
    """Return the lines of these commands as they are written, without the variables that go."""
    if not commands:
        return ""
    lines = script.text.split("\n")
    keep: dict[int, str] = {}
    first, last = commands[0].line, max(c.end_line for c in commands)
    every = {n for c in script.commands for n in range(c.line, c.end_line + 1)}
    wanted = {n for c in commands for n in range(c.line, c.end_line + 1)}
    for number in range(first, last + 1):
        text = lines[number - 1]
        # Text outside commands: brackets, words such as done, here-documents.
        mine = number in wanted or number not in every
        if mine and (number in script.documents or _says(text)):
            keep[number] = text
    # The head of a function before the first command belongs to it.
    for number in range(first - 1, 0, -1):
        if number in every or number in script.documents:
            break
        if _says(lines[number - 1]):
            keep[number] = lines[number - 1]
    # A here-document, `done`, `}` after the last command belong to it.
    for number in range(last + 1, len(lines) + 1):
        if number in every:
            break
        text = lines[number - 1]
        if number in script.documents or _says(text):
            keep[number] = text
    for command in commands:
        words = command.words[1:] if command.words else command.assignments
        names = [m[1] for w in words if (m := shell.ASSIGNMENT.match(w.text))]
        left = [w.text for w in words if not _goes(w, gone)]
        if not names or len(left) == len(words) or (command.words and not _sets(command)):
            continue
        for number in range(command.line, command.end_line + 1):
            keep.pop(number, None)
        if left and not all(text.startswith("-") for text in left):
            head = [command.words[0].text] if command.words else []
            keep[command.line] = " ".join([*head, *left])
    return "\n".join(keep[number] for number in sorted(keep)).strip("\n")


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _sets(command: shell.Command) -> bool:
    return command.name in ("export", "declare", "typeset", "readonly")


def _goes(word: shell.Word, gone: set[tuple[int, str]]) -> bool:
    match = shell.ASSIGNMENT.match(word.text)
    return bool(match) and (word.line, match[1]) in gone if match else False


def _without_unused(pre: str, others: str) -> str:
    """Leave out arrays that held options and that nothing names any more."""
    parsed = shell.parse(pre)
    for command in reversed(parsed.commands):
        words = command.assignments if not command.words else command.words[1:]
        names = [m[1] for w in words if (m := shell.ASSIGNMENT.match(w.text))]
        is_array = any(re.match(r"\w+=\(", w.text) for w in words)
        rest = pre[: command.start] + pre[command.end :] + others
        if is_array and not any(re.search(rf"\b{name}\b", rest) for name in names):
            pre = pre[: command.start] + pre[command.end :]
    return "\n".join(line for line in pre.split("\n") if line.strip())


# -- YAML ------------------------------------------------------------------------------------------
def to_yaml(job: Json) -> str:
    """Return a description as YAML; the library for it is not on every node."""
    return "---\n" + "\n".join(_lines(job, 0)) + "\n"


def _lines(data: t.Mapping[str, t.Any], depth: int) -> t.Iterator[str]:
    pad = "  " * depth
    for key, value in data.items():
        if isinstance(value, t.Mapping) and value:
            yield f"{pad}{key}:"
            yield from _lines(value, depth + 1)
        elif isinstance(value, list) and value:
            yield f"{pad}{key}:"
            yield from (f"{pad}  - {_scalar(one)}" for one in value)
        elif isinstance(value, str) and "\n" in value:
            yield f"{pad}{key}: |2-" if value.startswith(" ") else f"{pad}{key}: |-"
            indent = pad + "  "
            yield from (f"{indent}{line}" if line else "" for line in value.split("\n"))
        else:
            yield f"{pad}{key}: {_scalar(value)}"


def _scalar(value: t.Any) -> str:
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z/][\w./@%+-]*", value)
    words = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
    return value if plain and value.lower() not in words else json.dumps(value, ensure_ascii=False)
