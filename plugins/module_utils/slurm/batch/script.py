# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads a batch script: its #SBATCH lines, the variables that it sets, and the programs that it launches. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from . import directives, shell
from .directives import Directive, Unread
from .options import SRUN, Option, read, read_launcher

_PREFIXES = frozenset("exec time nohup command env timeout numactl stdbuf setsid nice".split())
#: Options of those prefixes that take a value, by letter or whole.
_PREFIX_VALUED = frozenset(
    "-k -s --kill-after --signal -N -m -C --cpunodebind --membind -n -o -e -i -u".split()
)
STARTERS = frozenset(("srun", "mpirun", "mpiexec"))
_SHELLS = frozenset(("bash", "sh"))


class Variable(t.NamedTuple):
    """A variable that the script sets. text: the value as it is written; value: without quotes.

    live: whether the shell expands something in it. where: batch (the batch step), task (in a
    script for `bash -c`), prefix (before a command), srun or mpirun (--export, -x). sure: whether the script sets it
    in any case; not where a condition, a loop or a function decides.
    """

    name: str
    text: str
    value: str
    line: int
    exported: bool
    live: bool
    where: str
    end_line: int
    sure: bool = True


@dataclasses.dataclass(frozen=True)
class Launch:
    """A program that the script starts, on one node or on all.

    starter: srun, mpirun or "" for the batch step itself. options: the starter's. launcher:
    torchrun, deepspeed, accelerate or "". launcher_options: its own. program: what they run, words as
    written. inner: whether program and launcher are in a script for `bash -c`, in whose text its
    continuations and expansions are those of the tasks. word: the script as it is written.
    limit: the duration given to `timeout`, or "". start, at: where the starter, and where what it
    runs, begin in the text.
    """

    command: shell.Command
    line: int
    starter: str
    options: tuple[Option, ...]
    launcher: str
    launcher_options: tuple[Option, ...]
    program: tuple[str, ...]
    inner: shell.Text | None = None
    word: str = ""
    limit: str = ""
    start: int = 0
    at: int = 0

    def option(self, name: str) -> str | None:
        """Value of an option of the starter; "" for a flag, None without it. The last one counts."""
        return _last(self.options, name)

    def launcher_option(self, *names: str) -> str | None:
        """Value of an option of the launcher, by any of its names."""
        return next(
            (value for name in names if (value := _last(self.launcher_options, name)) is not None),
            None,
        )


def _last(given: t.Iterable[Option], name: str) -> str | None:
    found = [one.value or "" for one in given if one.name == name]
    return found[-1] if found else None


@dataclasses.dataclass(frozen=True)
class Script:
    """A batch script. unread: lines that sbatch does not read as they were meant."""

    text: str
    lines: tuple[str, ...]
    directives: tuple[Directive, ...]
    unread: tuple[Unread, ...]
    commands: tuple[shell.Command, ...]
    faults: tuple[shell.Fault, ...]
    variables: tuple[Variable, ...]
    launches: tuple[Launch, ...]
    #: Line of the first command; one more than there are lines without any.
    body: int
    #: Whether its lines end as those of DOS.
    dos: bool
    #: Lines inside here-documents.
    documents: frozenset[int]

    def directive(self, name: str) -> Directive | None:
        """The directive of a long name; the last one counts."""
        found = [one for one in self.directives if one.name == name]
        return found[-1] if found else None

    def value(self, name: str) -> str | None:
        """Value of a directive; "" for a flag, None without it."""
        found = self.directive(name)
        return None if found is None else found.value or ""


def parse(text: str) -> Script:
    """Read a batch script. It raises nothing: what sbatch or the shell would refuse is in the result."""
    lines = tuple(text.replace("\r\n", "\n").split("\n"))
    parsed = shell.parse("\n".join(lines))
    body = parsed.commands[0].line if parsed.commands else len(lines) + 1
    found = directives.read(lines, parsed.documents)
    faults = list(parsed.faults)
    variables = [one for command in parsed.commands for one in _variables(command, "batch")]
    known = _known(variables)
    launches = tuple(one for command in parsed.commands for one in _launches(command, known))
    for launch in launches:
        for option in launch.options:
            if launch.starter == "srun" and option.name == "export" and option.value:
                variables += _exports(option.value, launch.line)
            if launch.starter == "mpirun" and option.name == "x" and "=" in (option.value or ""):
                name, _equals, value = (option.value or "").partition("=")
                variables.append(
                    Variable(
                        name, value, value, launch.line, True, "$" in value, "mpirun", launch.line
                    )
                )
    for script in {id(launch.inner): launch.inner for launch in launches}.values():
        if script:
            faults += script.faults
            variables += [one for command in script.commands for one in _variables(command, "task")]
    return Script(
        text="\n".join(lines),
        lines=lines,
        directives=found.directives,
        unread=found.unread,
        commands=parsed.commands,
        faults=tuple(faults),
        variables=tuple(variables),
        launches=launches,
        body=body,
        dos="\r\n" in text,
        documents=parsed.documents,
    )


# -- variables -------------------------------------------------------------------------------------
def _variables(command: shell.Command, where: str) -> list[Variable]:
    """The variables that a command sets for those after it, or for itself."""
    found = []
    exporting = command.name in ("export", "declare", "typeset", "readonly")
    if exporting:
        flags = [word.text for word in command.words[1:] if word.text.startswith("-")]
        exported = command.name == "export" or any("x" in flag for flag in flags)
        for word in command.words[1:]:
            found += _assigned(word, exported, where)
    for word in command.assignments:
        prefix = bool(command.words) and where == "batch"
        found += _assigned(word, bool(command.words), "prefix" if prefix else where)
    if command.depth or command.function or command.before in ("&&", "||"):
        found = [one._replace(sure=False) for one in found]
    return found


def _assigned(word: shell.Word, exported: bool, where: str) -> list[Variable]:
    match = shell.ASSIGNMENT.match(word.text)
    if not match:
        return []
    text = word.text[match.end() :]
    alive = shell.live(text)
    is_live = (
        bool(re.search(r"[$`]", alive))
        or alive.startswith(("(", "~"))
        or bool(match[2] or match[3])
    )
    end = word.line + word.text.count("\n")
    return [Variable(match[1], text, shell.plain(text), word.line, exported, is_live, where, end)]


def _exports(value: str, line: int) -> list[Variable]:
    """A variable of `srun --export=ALL,A=1`; the value comes without its outer quotes."""
    found = []
    for item in re.findall(r"(?:[^,\"']|\"[^\"]*\"|'[^']*')+", value):
        name, equals, text = shell.plain(item).partition("=")
        if equals and re.fullmatch(r"\w+", name):
            found.append(Variable(name, text, text, line, True, "$" in text, "srun", line))
    return found


# -- launches --------------------------------------------------------------------------------------
def _known(variables: t.Iterable[Variable]) -> dict[str, str]:
    """Variables that hold options or whole commands, by name; none that is set twice, or perhaps not at all."""
    found: dict[str, str] = {}
    twice = set()
    for one in variables:
        if one.where != "batch":
            continue
        twice |= {one.name} & (set(found) if one.sure else {one.name})
        if one.text.startswith("("):
            found[one.name] = one.text[1:-1]
        elif "$(" not in one.value and "`" not in one.value:
            found[one.name] = one.value
    return {name: text for name, text in found.items() if name not in twice}


def _expand(words: t.Sequence[shell.Word], known: t.Mapping[str, str]) -> list[shell.Word]:
    """Put arrays, and variables of several words, in their places."""
    found: list[shell.Word] = []
    for word in words:
        match = re.fullmatch(r'"?\$\{(\w+)\[@\]\}"?|\$\{?(\w+)\}?', word.text)
        value = known.get(match[1] or match[2]) if match else None
        if value is None or (match and match[2] and not re.search(r"\s", value.strip())):
            found.append(word)
            continue
        for command in shell.parse(value).commands:
            found += [
                one._replace(line=word.line, start=word.start, end=word.end)
                for one in (*command.assignments, *command.words)
            ]
    return found


def _script(word: shell.Word, known: t.Mapping[str, str]) -> shell.Text:
    """Read a script for `bash -c`, with the values that the batch step puts into it."""

    def put(match: re.Match[str]) -> str:
        value = known.get(match[2] or match[3], "")
        return value if re.search(r"\s", value.strip()) else match[0]

    text = word.text
    if text.startswith('"'):
        text = re.sub(r"(?<!\\)(\$)(?:(\w+)|\{(\w+)\})", put, text)
    return shell.parse(shell.inner(text), word.line)


def _launches(command: shell.Command, known: t.Mapping[str, str]) -> list[Launch]:
    every = _expand(command.words, known)
    texts = [word.text for word in every]
    skip, limit = _prefix(texts)
    if skip >= len(texts):
        return []
    name = shell.plain(texts[skip]).rpartition("/")[2]
    base = Launch(
        command, every[skip].line, "", (), "", (), (), limit=limit, start=every[skip].start
    )
    if name not in STARTERS:
        return _with_program(base, every[skip:], known, only_launchers=True)
    words = [shell.plain(text) for text in texts[skip + 1 :]]
    if name == "srun":
        given = read(words, SRUN)
    else:
        given = read_launcher(words, "mpirun")
    begin = skip + 1 + given.taken
    base = dataclasses.replace(
        base,
        starter="srun" if name == "srun" else "mpirun",
        options=given.options,
        at=every[begin].start if begin < len(every) else command.end,
    )
    return _with_program(base, every[begin:], known)


def program(command: shell.Command) -> str:
    """Return the name of what a command runs, without `exec`, `timeout` and their like before it."""
    texts = [word.text for word in command.words]
    skip, _limit = _prefix(texts)
    return shell.plain(texts[skip]).rpartition("/")[2] if skip < len(texts) else ""


def _prefix(texts: t.Sequence[str]) -> tuple[int, str]:
    """Count the words of `timeout 4h`, `env A=1` and their like, and return the time of timeout."""
    place, limit = 0, ""
    while place < len(texts):
        name = shell.plain(texts[place]).rpartition("/")[2]
        if name not in _PREFIXES:
            break
        place += 1
        while place < len(texts) and (
            texts[place].startswith("-") or name == "env" and shell.ASSIGNMENT.match(texts[place])
        ):
            place += 2 if texts[place] in _PREFIX_VALUED else 1
        if name == "timeout" and place < len(texts):
            limit = shell.plain(texts[place])
            place += 1
    return place, limit


def _with_program(
    base: Launch,
    words: t.Sequence[shell.Word],
    known: t.Mapping[str, str],
    only_launchers: bool = False,
) -> list[Launch]:
    """Find the launcher in what a starter runs; in a script for `bash -c`, each of them."""
    texts = [word.text for word in words]
    skip, limit = _prefix(texts)
    base = dataclasses.replace(base, limit=base.limit or limit)
    rest = texts[skip:]
    place = _script_place(rest)
    if place:
        word = words[skip + place]
        script = _script(word, known)
        base = dataclasses.replace(base, inner=script, word=word.text)
        found = _inside(base, script, words[skip + place + 2 :], known)
        if found or only_launchers:
            return found
    launcher, count = _launcher(rest)
    if not launcher:
        return [] if only_launchers else [dataclasses.replace(base, program=tuple(texts))]
    given = read_launcher([shell.plain(text) for text in rest[count:]], launcher)
    program = tuple(rest[count + given.taken :])
    if _last(given.options, "module") is not None:
        program = ("-m", *program)
    return [
        dataclasses.replace(
            base,
            launcher=launcher,
            launcher_options=tuple(one for one in given.options if one.name != "module"),
            program=program,
        )
    ]


def _script_place(texts: t.Sequence[str]) -> int:
    """Return the index of the script of `bash -c SCRIPT` among the words; 0 without one."""
    if not texts or shell.plain(texts[0]).rpartition("/")[2] not in _SHELLS:
        return 0
    for place, text in enumerate(texts[1:-1], 1):
        if re.fullmatch(r"-[a-z]*c", text):
            return place + 1
        if not text.startswith("-"):
            break
    return 0


def _inside(
    base: Launch,
    script: shell.Text,
    arguments: t.Sequence[shell.Word],
    known: t.Mapping[str, str],
) -> list[Launch]:
    """Launchers in a script for `bash -c`; "$@" is replaced by its arguments."""
    found: list[Launch] = []
    for command in script.commands:
        wrapped = any(word.text == '"$@"' for word in command.words)
        words: list[shell.Word] = []
        for word in command.words:
            words += arguments if word.text == '"$@"' else [word]
        texts = [word.text for word in words]
        skip, _limit = _prefix(texts)
        # `exec "$@"` runs the arguments themselves.
        if wrapped and not _launcher(texts[skip:])[0]:
            found.append(dataclasses.replace(base, program=tuple(texts[skip:])))
        else:
            found += _with_program(base, words, known, only_launchers=True)
    return found


def _launcher(texts: t.Sequence[str]) -> tuple[str, int]:
    """Return which launcher the words begin with, and how many of them name it."""
    plain = [shell.plain(text) for text in texts[:3]]
    name = plain[0].rpartition("/")[2] if plain else ""
    if name in ("torchrun", "deepspeed"):
        return name, 1
    if name == "accelerate" and plain[1:2] == ["launch"]:
        return "accelerate", 2
    if re.fullmatch(r"python[\d.]*", name) and plain[1:2] == ["-m"]:
        modules = {
            "torch.distributed.run": "torchrun",
            "torch.distributed.launch": "torchrun",
            "accelerate.commands.launch": "accelerate",
            "deepspeed.launcher.runner": "deepspeed",
        }
        return modules.get(plain[2] if len(plain) > 2 else "", ""), 3
    return "", 0
