# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Change options and lines of slurm.conf and its like; every other byte stays. Pure.

An existing option is changed in place. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .. import values
from ..errors import SlurmError
from ..hostlist import fold_in_order
from . import syntax

#: Options of slurm.conf where each line counts; for the others, the last one
#: (slurm.conf(5) of 22.05 for SlurmctldHost, of 24.11 for the scripts).
REPEATED = ("SlurmctldHost", "Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld")
#: Passwords: never shown.
SECRET = ("AccountingStoragePass", "JobCompPass", "StoragePass")
#: The module's lists and what begins their lines.
LISTS = {
    "nodes": "NodeName",
    "partitions": "PartitionName",
    "node_sets": "NodeSet",
    "down_nodes": "DownNodes",
    "gres": "gres",
}
#: Two spellings of one option.
_OTHER_SPELLING = {
    "Feature": "Features",
    "Procs": "CPUs",
    "Shared": "OverSubscribe",
    "Files": "File",
}
#: Options of a node line with one value for each node, or one for all.
_BY_NODE = ("NodeAddr", "NodeHostname", "BcastAddr", "Port")
#: The keys that identify a line of gres.conf.
_GRES = ("NodeName", "Name", "Type", "File")


@dataclass(frozen=True)
class Setting:
    """An option of the whole file; values None removes it."""

    name: str
    values: tuple[str, ...] | None


@dataclass(frozen=True)
class Entry:
    """A line that begins with kind=name (of gres.conf: that has the options of _GRES).

    options: what it shall have, None for what it shall not have; others stay.
    """

    kind: str
    name: str
    present: bool
    options: dict[str, str | None]


Change = t.Union[Setting, Entry]


# Options of a partition whose plain number is minutes; those of all other times are seconds, which is
# what YAML makes of an unquoted 1:30:00 as well.
MINUTES = frozenset(("DefaultTime", "MaxTime"))


def invalid(message: str) -> SlurmError:
    return SlurmError("invalid", message)


# -- what is wanted ---------------------------------------------------------------------------


def as_text(name: str, value: object) -> str | None:
    """Return a value as Slurm reads it: lists and dicts with commas; None for null and empty ones.

    In a dict, true is the bare word, and false and null are left out:
    ``{bf_interval: 30, defer: true}`` becomes ``bf_interval=30,defer``.
    """
    if isinstance(value, Mapping):
        words = [
            str(key) if item is True else f"{key}={as_text(name, item)}"
            for key, item in value.items()
            if item is not None and item is not False
        ]
        return ",".join(words) or None
    if isinstance(value, (list, tuple)):
        return ",".join(as_text(name, item) or "" for item in value) or None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in MINUTES:
        try:
            value = None if value is None else values.given_length(value)
        except ValueError as error:
            raise invalid(f"{name} {error}") from None
    text = None if value is None else str(value)
    try:
        syntax.render_value(text or "")
    except syntax.ConfError as error:
        raise invalid(f"{name}: {error} -> remove it from the value") from None
    return text


def _setting(name: str, value: object) -> Setting:
    known = syntax.canonical(name)
    if known in LISTS.values() or known == "Include":
        options = ", ".join(key for key in LISTS if key != "gres")
        raise invalid(f"{known} in settings: it begins a line of several options -> use {options}")
    if known in REPEATED and isinstance(value, (list, tuple)):
        return Setting(known, tuple(as_text(name, item) or "" for item in value) or None)
    text = as_text(name, value)
    return Setting(known, None if text is None else (text,))


def _entry(where: str, given: Mapping[str, object]) -> Entry:
    kind = LISTS[where]
    options: dict[str, str | None] = {}
    names, present = [], True
    for key, value in given.items():
        known = syntax.canonical(key)
        if key == "state":
            if value not in ("present", "absent"):
                raise invalid(
                    f"{where}: state {value!r} is neither present nor absent -> write Slurm's own "
                    "option with a capital, State"
                )
            present = value == "present"
        elif kind != "gres" and (key == "name" or known == kind):
            names.append(as_text(key, value) or "")
        elif known in options:
            raise invalid(f"{where}: {known} is given twice -> give it once")
        else:
            options[known] = as_text(known, value)
    if kind == "gres":
        names = [str(options[key]) for key in ("Name", "NodeName", "File") if options.get(key)][:1]
    if len(names) != 1 or not names[0]:
        need = "Name, NodeName or File" if kind == "gres" else f"one name (or {kind})"
        raise invalid(f"{where}: an entry needs {need} -> give it: {dict(given)}")
    return Entry(kind, names[0], present, options)


def wanted(given: Mapping[str, t.Any], file: str) -> list[Change]:
    """Return the changes that a module's options ask for, in their order.

    given: settings, secret_settings and the lists of LISTS. Raises SlurmError for what makes no
    sense in this file.
    """
    changes: list[Change] = []
    for option in ("settings", "secret_settings"):
        for name, value in (given.get(option) or {}).items():
            setting = _setting(name, value)
            if option == "settings" and setting.name in SECRET:
                raise invalid(f"{setting.name} in settings would be shown -> use secret_settings")
            if any(isinstance(one, Setting) and one.name == setting.name for one in changes):
                raise invalid(f"{setting.name} is given twice -> give it once")
            changes.append(setting)
    for where, kind in LISTS.items():
        entries = given.get(where) or []
        home = "gres.conf" if kind == "gres" else "slurm.conf"
        if entries and file != home:
            raise invalid(f"{where}: {file} cannot have such lines -> give file: {home}")
        changes += [_entry(where, entry) for entry in entries]
    return changes


def unknown(changes: Iterable[Change], version: str, file: str) -> list[tuple[str, str]]:
    """Return (option, reason) of what this Slurm does not read; removing it is always fine."""
    out = []
    for change in changes:
        if isinstance(change, Setting):
            names = [change.name] if change.values is not None else []
            out += syntax.unknown_options(names, version, file)
        elif change.present:
            names = [name for name, value in change.options.items() if value is not None]
            place = file if change.kind == "gres" else change.kind
            out += syntax.unknown_options(names, version, place)
    return out


# -- text -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pair:
    """Key=Value in the text of a line: where the key begins, where the value begins and ends."""

    key: str
    value: str
    start: int
    value_start: int
    value_end: int


def _same(key: str) -> str:
    return _OTHER_SPELLING.get(key, key)


def _equal(value: str | None, wanted_value: str | None) -> bool:
    words = {"yes": ("yes", "true"), "no": ("no", "false")}
    if value is None or wanted_value is None:
        return value is wanted_value
    return value == wanted_value or value.lower() in words.get(wanted_value, ())


def _names(kind: str, text: str) -> list[str]:
    """Return the names that a line is about."""
    if kind not in ("NodeName", "DownNodes") or text.upper() == "DEFAULT":
        return [text.upper() if text.upper() == "DEFAULT" else text]
    try:
        return syntax.expand(text)
    except ValueError:
        return [text]


class Row:
    """A logical line: its options, and its text."""

    def __init__(self, raw: str, number: int, file: str) -> None:
        self.number = number
        self._file = file
        self._read(raw)

    def _read(self, raw: str) -> None:
        self.raw = raw
        line = syntax.logical_lines(raw)[0]
        self.blank = not line.text.strip()
        self.kind, self.names, self.pairs = "", list[str](), list[_Pair]()
        if self.blank or syntax.included(line):
            return
        for match in syntax.matches(line):
            quoted = match.group(3) is not None
            first = match.start(3) - 1 if quoted else match.start(4)
            last = match.end(3) if quoted else match.end(4) - 1
            key, value = syntax.pair(match)
            at = line.places
            place = (at[match.start(1)][0], at[first][0], at[last][1])
            self.pairs.append(_Pair(key, value, *place))
        pairs = [(one.key, one.value) for one in self.pairs]
        self.kind = syntax.line_kind(pairs, self._file) or "option"
        self.names = _names(self.kind, self.get(self.kind) or "")

    def get(self, key: str) -> str | None:
        """Return the last value of an option, None without it."""
        found = [pair.value for pair in self.pairs if _same(pair.key) == _same(key)]
        return found[-1] if found else None

    def set(self, key: str, value: str | None) -> None:
        """Give an option a value, or remove it for None."""
        if _equal(self.get(key), value):
            return
        found = [pair for pair in self.pairs if _same(pair.key) == _same(key)]
        if value is None:
            self._drop(found[-1])
            self.set(key, None)
        elif found:
            pair = found[-1]
            text = syntax.render_value(value)
            self._read(self.raw[: pair.value_start] + text + self.raw[pair.value_end :])
        else:
            end = self.pairs[-1].value_end
            text = " " + syntax.render_line([(key, value)])
            self._read(self.raw[:end] + text + self.raw[end:])

    def _drop(self, pair: _Pair) -> None:
        before = max((one.value_end for one in self.pairs if one.start < pair.start), default=0)
        if "#" in self.raw[before : pair.start]:
            # A comment between two continued lines stays.
            kept = self.raw[before : pair.start].rstrip(" \t")
            before += len(kept)
        self._read(self.raw[:before] + self.raw[pair.value_end :])

    def update(self, options: Mapping[str, str | None]) -> None:
        for key, value in options.items():
            self.set(key, value)

    def satisfies(self, options: Mapping[str, str | None]) -> bool:
        return all(_equal(self.get(key), value) for key, value in options.items())


class File:
    """A configuration file that is being changed."""

    def __init__(self, text: str, file: str = "slurm.conf") -> None:
        """Raises slurm_conf.ConfError for text that Slurm's parser would refuse."""
        syntax.parse(text, file)
        self.file = file
        self._end = "\r\n" if "\r\n" in text else "\n"
        lines = syntax.logical_lines(text)
        self.rows = [Row(line.raw, line.number, file) for line in lines if line.raw]

    @property
    def text(self) -> str:
        return "".join(row.raw for row in self.rows)

    @property
    def shown(self) -> str:
        """The text without passwords."""
        copy = File(self.text, self.file)
        for name in SECRET:
            for row in copy._options(name):
                row.set(name, "(hidden)")
        return copy.text

    def concerns(self, change: Change) -> bool:
        """Whether a line of this file is about what the change is about."""
        if isinstance(change, Setting):
            return bool(self._options(change.name))
        if change.kind == "gres":
            return bool(self._gres(change))
        names = set(_names(change.kind, change.name))
        return any(names & set(row.names) for row in self._of(change.kind))

    def apply(self, change: Change) -> None:
        """Make one change. Raises SlurmError where it is not clear which line is meant."""
        if isinstance(change, Setting):
            self._set(change)
        elif change.kind == "gres":
            found = self._gres(change)
            more = {key: value for key, value in change.options.items() if key not in _GRES}
            self._one(change, found, more if found else change.options)
        else:
            self._line(change)

    # -- options of the whole file ---------------------------------------------------------------
    def _options(self, name: str) -> list[Row]:
        rows = [row for row in self.rows if row.kind == "option"]
        return [row for row in rows if row.pairs[0].key == name]

    def _set(self, setting: Setting) -> None:
        found, values = self._options(setting.name), setting.values or ()
        if values and setting.name not in REPEATED:
            found = found[-1:]
        for row, value in zip(found, values):
            row.set(setting.name, value)
        last = found[-1] if found else None
        for value in values[len(found) :]:
            index = self.rows.index(last) if last else self._place(setting.name)
            last = self._insert(index + 1, [(setting.name, value)])
        surplus = found[len(values) :]
        self.rows = [row for row in self.rows if row not in surplus]

    def _place(self, name: str) -> int:
        """Return the row after which a new option goes: its own comment, else the last option."""
        comment = re.compile(rf"\s*#[\s#]*{re.escape(name)}\s*=", re.IGNORECASE)
        comments = [i for i, row in enumerate(self.rows) if row.blank and comment.match(row.raw)]
        if comments:
            return comments[-1]
        lines = [i for i, row in enumerate(self.rows) if row.kind not in ("", "option")]
        first = lines[0] if lines else len(self.rows)
        options = [i for i, row in enumerate(self.rows) if row.kind == "option"]
        before = [i for i in options if i < first]
        return (before or options or [first - 1])[-1]

    def _insert(self, index: int, pairs: Iterable[tuple[str, object]]) -> Row:
        if index:
            last = self.rows[index - 1]
            # The line before may lack its end, or be continued by what comes next.
            while len(syntax.logical_lines(last.raw + "X=1")) < 2:
                last.raw += self._end
        row = Row(syntax.render_line(pairs) + self._end, 0, self.file)
        self.rows.insert(index, row)
        return row

    # -- lines of several options ----------------------------------------------------------------
    def _of(self, kind: str) -> list[Row]:
        return [row for row in self.rows if row.kind == kind]

    def _append(self, kind: str, pairs: Iterable[tuple[str, object]]) -> Row:
        same = [i for i, row in enumerate(self.rows) if row.kind == kind]
        return self._insert((same[-1] + 1) if same else len(self.rows), pairs)

    def _one(self, entry: Entry, found: Sequence[Row], options: Mapping[str, str | None]) -> None:
        """Make the one row that an entry names as it wants it."""
        if len(found) > 1:
            where = " and ".join(str(row.number) for row in found)
            raise invalid(
                f"{entry.kind}={entry.name} is in lines {where} -> remove all but one by hand"
            )
        if not entry.present:
            self.rows = [row for row in self.rows if row not in found]
        elif found:
            found[0].update(options)
        else:
            name = [] if entry.kind == "gres" else [(entry.kind, entry.name)]
            self._append(entry.kind, [*name, *_given(options)])

    def _gres(self, entry: Entry) -> list[Row]:
        def known_by(get: t.Callable[[str], str | None]) -> list[t.Any]:
            nodes = frozenset(_names("NodeName", get("NodeName") or ""))
            return [nodes, *(get(key) or "" for key in _GRES[1:])]

        by = known_by(entry.options.get)
        return [row for row in self._of("gres") if known_by(row.get) == by]

    def _line(self, entry: Entry) -> None:
        names = set(_names(entry.kind, entry.name))
        exact = [row for row in self._of(entry.kind) if set(row.names) == names]
        touched = [row for row in self._of(entry.kind) if set(row.names) & names]
        if exact or not touched or entry.kind != "NodeName":
            self._one(entry, exact, entry.options)
        elif not entry.present:
            for row in touched:
                self._shrink(row, names)
        elif {name for row in touched for name in row.names} >= names and all(
            row.satisfies(entry.options) for row in touched
        ):
            return
        elif len(touched) > 1 or not (
            set(touched[0].names) < names or set(touched[0].names) > names
        ):
            where = " and ".join(f"{row.number} ({row.get('NodeName')})" for row in touched)
            raise invalid(
                f"nodes {entry.name}: the lines of some of them, {where}, have others too -> give "
                "an entry for the nodes of each line"
            )
        elif set(touched[0].names) < names:
            self._grow(touched[0], entry)
        else:
            self._split(touched[0], names, entry)

    def _by_node(self, row: Row) -> dict[str, list[str]]:
        """Return the options of a row that have a value for each of its nodes."""
        names, out = row.names, {}
        for key in _BY_NODE:
            values = _names("NodeName", row.get(key) or "")
            if len(values) == len(names) > 1:
                out[key] = values
        return out

    def _part(self, row: Row, keep: t.Callable[[str], bool]) -> dict[str, str | None]:
        """Return NodeName and what goes with it for some of the nodes of a row."""
        kept = [index for index, name in enumerate(row.names) if keep(name)]
        lists = {"NodeName": row.names, **self._by_node(row)}
        return {
            key: fold_in_order([values[index] for index in kept]) for key, values in lists.items()
        }

    def _shrink(self, row: Row, names: set[str]) -> None:
        if set(row.names) <= names:
            self.rows.remove(row)
        else:
            row.update(self._part(row, lambda name: name not in names))

    def _grow(self, row: Row, entry: Entry) -> None:
        missing = [key for key in self._by_node(row) if key not in entry.options]
        if missing:
            raise invalid(
                f"nodes {entry.name}: line {row.number} has {missing[0]} for "
                f"{row.get('NodeName')} alone -> give {missing[0]} for all of them"
            )
        row.update({"NodeName": entry.name, **entry.options})

    def _split(self, row: Row, names: set[str], entry: Entry) -> None:
        options = {pair.key: pair.value for pair in row.pairs}
        options.update(t.cast("dict[str, str]", self._part(row, lambda name: name in names)))
        new = self._insert(self.rows.index(row) + 1, options.items())
        new.update({"NodeName": entry.name, **entry.options})
        self._shrink(row, names)


def _given(options: Mapping[str, str | None]) -> list[tuple[str, object]]:
    return [(key, value) for key, value in options.items() if value is not None]


def edit(
    text: str,
    changes: Iterable[Change],
    file: str = "slurm.conf",
    others: Mapping[str, str] | None = None,
) -> str:
    """Return the text with the changes.

    others: path -> text of the files that it includes. They are not changed: it is an error when
    one of them would have to be. Raises slurm_conf.ConfError for text that cannot be read.
    """
    edited = File(text, file)
    included = {path: File(content, file) for path, content in (others or {}).items()}
    for change in changes:
        elsewhere = {path: other for path, other in included.items() if other.concerns(change)}
        for path, other in elsewhere.items():
            before = other.text
            other.apply(change)
            if other.text != before:
                raise invalid(
                    f"{change.name} is in {path}, which this file includes -> run the module "
                    f"with path: {path}"
                )
        if edited.concerns(change) or not elsewhere:
            edited.apply(change)
    return edited.text


def undefined(confs: Sequence[syntax.Conf]) -> dict[str, list[str]]:
    """Return {partition, node set or down nodes: nodes that no NodeName line has}.

    confs: a file and what it includes. The result is empty where none of them defines nodes.
    """
    known = {name for conf in confs for name in conf.nodes}
    if not known:
        return {}
    known |= {pairs["NodeSet"] for conf in confs for pairs in conf.of("NodeSet")}
    out: dict[str, list[str]] = {}
    for kind, key in (("PartitionName", "Nodes"), ("NodeSet", "Nodes"), ("DownNodes", "DownNodes")):
        for pairs in [pairs for conf in confs for pairs in conf.of(kind)]:
            names = _names("NodeName", pairs.get(key, "ALL"))
            lost = [name for name in names if name not in known and name.upper() != "ALL"]
            if lost:
                out[f"{kind}={pairs[kind]}"] = lost
    return out
