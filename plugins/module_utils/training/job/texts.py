# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which texts of a description the batch script can carry, so that each stays one value. Pure.

A line end in an #SBATCH line ends it, and the rest is a command; a double quote begins another option; sbatch expands
nothing there. Options of srun are words of the shell, which expands `$NAME` in them, and would run `$(...)`.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t

from ...node.terminal import CONTROL

#: What is wrong, and the remedy.
Fault = tuple[str, str]

_LONGEST_NAME = 200  # bytes; the file system's 255 without numbers and endings
_LONGEST_PATH = 4000  # bytes; PATH_MAX without the names of files
_DEEPEST = 200  # directories; Python makes them by recursion
_CONTROL = re.compile(f"[{CONTROL}]")
_EXPANSION = re.compile(r"\$[A-Za-z_{(\[]|`")
_NAMES = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})")


def faults(made: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, str, str]]:
    """Yield (key, what, remedy) for each text of a description that the script cannot carry."""
    for key, text in leaves(made):
        carries = _CARRIES.get(key) or _CARRIES.get(re.split(r"[.\[]", key)[0], _path_or_plain)
        for what, remedy in carries(text):
            yield key, what, remedy


def leaves(value: t.Any, key: str = "") -> t.Iterator[tuple[str, str]]:
    """Yield each text with its key, such as container.mounts[0]."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, t.Mapping):
        for name, one in value.items():
            yield from leaves(one, f"{key}.{name}" if key else str(name))
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(value):
            yield from leaves(one, f"{key}[{number}]")


def _plain(text: str) -> t.Iterator[Fault]:
    """Yield why a directive cannot carry a text: control characters, quotes, backslashes, expansions."""
    yield from _characters(text)
    if _EXPANSION.search(text):
        yield "no shell expands variables there", "write the value in full"


def _path_or_plain(text: str) -> t.Iterator[Fault]:
    """Yield the same, and why a text that is a path cannot be one."""
    yield from _plain(text)
    if not text.startswith("/"):
        return
    if _bytes(text) > _LONGEST_PATH or max(map(_bytes, text.split("/"))) > 255:
        yield (
            f"is a path of {_bytes(text)} bytes, which no file system takes",
            f"at most {_LONGEST_PATH} in all, and 255 for a name in it",
        )
    elif text.count("/") > _DEEPEST:
        yield f"is a path of {text.count('/')} directories", f"at most {_DEEPEST}"


def _name(text: str) -> t.Iterator[Fault]:
    """Yield why a text cannot be the name of a job, and of files that begin with it."""
    yield from _plain(text)
    if text.startswith(("-", ".")):
        yield f"is {text!r}, which looks like an option or a hidden file", "begin it with a letter"
    if _bytes(text) > _LONGEST_NAME:
        yield (
            f"has {_bytes(text)} bytes, and its files could not have that name",
            f"at most {_LONGEST_NAME}",
        )


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _option(text: str) -> t.Iterator[Fault]:
    """Yield why an option of srun cannot carry a text, in which `$NAME` is a variable of the batch step."""
    yield from _characters(text)
    if re.search(r"[$`]", _NAMES.sub("", text)):
        yield (
            f"{text!r} would be run or changed by the shell",
            "of the shell's expansions, write $NAME or ${NAME} alone, and compute NAME in hooks.pre",
        )


def _quoted(text: str) -> t.Iterator[Fault]:
    """Yield why a text of one line cannot be a word in single quotes."""
    if _CONTROL.search(text.replace("\t", "")):
        yield _control(text)


def _body(text: str) -> t.Iterator[Fault]:
    """Yield why a script cannot carry lines of shell."""
    if "\0" in text:
        yield "contains a NUL character", "remove it"


def _characters(text: str) -> t.Iterator[Fault]:
    if _CONTROL.search(text):
        yield _control(text)
    if re.search(r'["\\]', text):
        yield (
            f"{text!r} contains a double quote or a backslash",
            "leave it out; values with blanks are quoted for you",
        )


def _control(text: str) -> Fault:
    if not _CONTROL.search(text.rstrip("\n")):
        return (
            "ends with a line break, as a YAML block (`|` or `>`) does",
            "write it in quotes, on the line of its key, or begin the block with `|-`",
        )
    if "\n" in text.strip():
        return "has several lines", "write one line"
    return f"{text!r} contains a control character", "remove it"


#: Key of a description, or its first part -> the rule for its texts; the others are directives and paths.
_CARRIES: dict[str, t.Callable[[str], t.Iterator[Fault]]] = {
    **dict.fromkeys(("command", "arguments", "hooks", "notify"), _body),
    **dict.fromkeys(("launcher_options", "environment", "script", "secrets", "sweep"), _quoted),
    **dict.fromkeys(("srun_options", "container"), _option),
    "container.source": _plain,
    "name": _name,
}
