# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The accounting over sacctmgr: operations as its arguments, its output as rows. Pure but for run.

Runs on nodes: Python 3.9, standard library only.
"""

from __future__ import annotations

import typing as t
from concurrent.futures import ThreadPoolExecutor

from .transport import Operation

#: Runs sacctmgr with arguments and standard input, returns what it prints.
Run = t.Callable[[t.Sequence[str], str], str]
Row = dict[str, str]
# Without readline, sacctmgr reads lines of 4,096 bytes at most, and 128 words in each.
_LONGEST_LINE, _MOST_WORDS = 3900, 120
_MANY = 10  # so many additions in a row are loaded as a tree
_VERBS = {"add": "add", "modify": "modify", "remove": "delete"}


def query(kind: str, cluster: str, columns: t.Sequence[str]) -> list[str]:
    """Return the arguments after -nP that show things of a kind with these columns.

    Limits of associations are their own, not those that their accounts pass on (wopl).
    """
    where = ["where", f"cluster={cluster}"]
    more = {"user": ["withassoc", *where], "assoc": ["wopl", *where]}.get(kind, [])
    return ["show", kind, *more, "format=" + ",".join(columns)]


def parse(text: str, columns: t.Sequence[str]) -> list[Row]:
    """Return a row (lower-case column -> value) for each line of ``sacctmgr -nP ... format=``."""
    rows = []
    for line in text.splitlines():
        values = line.split("|")
        if len(values) != len(columns):
            continue  # a warning that sacctmgr prints among the rows
        rows.append({column.lower(): value for column, value in zip(columns, values)})
    return rows


def rows(
    run: Run,
    kinds: t.Sequence[str],
    cluster: str,
    columns: t.Mapping[str, t.Sequence[str]],
) -> dict[str, list[Row]]:
    """Return the rows of each kind: cluster, account, user, qos, assoc."""

    def shown(kind: str) -> list[Row]:
        return parse(run(["-nP", *query(kind, cluster, columns[kind])], ""), columns[kind])

    # Each spends most of its time waiting for slurmdbd: all at once.
    with ThreadPoolExecutor(max_workers=len(kinds)) as pool:
        return dict(zip(kinds, pool.map(shown, kinds)))


def argv(operation: Operation) -> list[str]:
    """Return the arguments of sacctmgr (after -i) that do the operation."""
    kind = "user" if operation.kind == "association" else operation.kind
    names = ",".join(operation.names)
    where = [f"{key}={value}" for key, value in operation.where.items()]
    settings = [f"{key}={value}" for key, value in operation.settings.items()]
    if operation.verb == "add":
        return ["add", kind, names, *where, *settings]
    arguments = [_VERBS[operation.verb], kind, "where", f"name={names}", *where]
    return [*arguments, "set", *settings] if operation.verb == "modify" else arguments


def _pieces(operation: Operation) -> t.Iterator[list[str]]:
    """Yield the arguments of the operation, for so many names at a time that a line takes them."""
    names: list[str] = []
    room = (
        _LONGEST_LINE
        - sum(len(word) + 3 for word in argv(operation))
        + len(",".join(operation.names))
    )
    left = room
    for name in operation.names:
        if names and left < len(name) + 1:
            yield argv(_with_names(operation, names))
            names, left = [], room
        names.append(name)
        left -= len(name) + 1
    yield argv(_with_names(operation, names))


def _with_names(operation: Operation, names: t.Sequence[str]) -> Operation:
    return Operation(
        operation.verb, operation.kind, tuple(names), operation.where, operation.settings
    )


def _line(arguments: t.Sequence[str]) -> str | None:
    """Return the arguments as a line that sacctmgr reads, None where it could not."""
    words = []
    for word in arguments:
        if any(mark in word for mark in "\"'\\\n"):
            return None
        name, equals, value = word.partition("=")
        quoted = any(letter.isspace() for letter in word)
        words.append(f'{name}{equals}"{value}"' if quoted else word)
    line = " ".join(words)
    return line if len(line) <= _LONGEST_LINE and len(words) <= _MOST_WORDS else None


def _tree(operations: t.Sequence[Operation]) -> str | None:
    """Return the file for ``sacctmgr load`` that adds accounts and users, None where it cannot.

    It takes them all in one transaction: each change by itself costs slurmdbd and slurmctld as
    much as a hundred in one. The file names only what is added, and nothing else is changed.
    """
    clusters = {operation.where.get("cluster", "") for operation in operations}
    lines: list[str] = []
    for operation in operations:
        settings = dict(operation.settings)
        given = [*settings.values(), *operation.names, *operation.where.values()]
        if any(mark in text for text in given for mark in "\"'\\\n"):
            return None
        if operation.kind == "account":
            parents, word = [settings.pop("Parent", "root")], "Account"
        else:
            parents, word = operation.where["account"].split(","), "User"
            if operation.where.get("partition"):
                settings["Partition"] = operation.where["partition"]
        options = "".join(f":{key}='{value}'" for key, value in settings.items())
        for parent in parents:
            lines.append(f"Parent - '{parent}'")
            lines += [f"{word} - '{name}'{options}" for name in operation.names]
    if len(clusters) != 1 or not all(clusters) or max(map(len, lines)) > _LONGEST_LINE:
        return None
    return "\n".join([f"Cluster - '{clusters.pop()}'", *lines]) + "\n"


def apply(run: Run, operations: t.Sequence[Operation]) -> None:
    """Make the changes in order, with as few processes of sacctmgr, and commits, as it allows."""
    lines: list[str] = []
    todo = list(operations)
    while todo:
        adds = next(
            (
                index
                for index, operation in enumerate(todo)
                if operation.verb != "add" or operation.kind in ("cluster", "qos")
            ),
            len(todo),
        )
        tree = _tree(todo[:adds]) if adds >= _MANY else None
        if tree is not None:
            _flush(run, lines)
            run(["-i", "load", "file=/dev/stdin"], tree)
            del todo[:adds]
            continue
        for operation in todo[: max(adds, 1)]:
            _apply_one(run, lines, operation)
        del todo[: max(adds, 1)]
    _flush(run, lines)


def _apply_one(run: Run, lines: list[str], operation: Operation) -> None:
    """Put the operation among the lines, or do it at once if sacctmgr's input format cannot express it."""
    for arguments in _pieces(operation):
        line = _line(arguments)
        if line is None:
            _flush(run, lines)
            run(["-i", *arguments], "")
        else:
            lines.append(line)


def _flush(run: Run, lines: list[str]) -> None:
    if lines:
        run(["-i"], "\n".join(lines) + "\n")
        lines.clear()
