# Read, write and compare slurm.conf and its like; decide how a change is applied.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""slurm.conf as data: parser, renderer, option names by version, restart or reconfigure.

The grammar is that of src/common/parse_config.c of Slurm: a comment begins at a ``#`` that no
backslash escapes, a backslash at the end of a line continues it, a value is one word or is in
double quotes, keys are case-insensitive. Pure: no I/O. Runs on nodes with Python 3.9+.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import parameters as data
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.releases import (
    KNOWN,
    major_minor,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.values import expand

_PAIR = re.compile(r'\s*([A-Za-z0-9_.]+)\s*([-*+/]?)=\s*(?:"([^"]*)"|(\S+))(?=\s|$)')
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*$", re.IGNORECASE)

#: Keys that begin a line with several pairs.
_LINES = {
    "nodename": "NodeName",
    "partitionname": "PartitionName",
    "nodeset": "NodeSet",
    "downnodes": "DownNodes",
    "frontendname": "FrontendName",
    "poweraction": "PowerAction",
}
#: Suffixes of the files in the configuration directory that slurmctld reads, and hands to slurmd
#: in configless mode (configless_slurm.html).
_READ_BY_SLURMCTLD = (".conf", ".yaml", ".lua")
#: Names of hooks there, which slurmctld hands to the nodes from 23.11 on.
_HOOKS = ("trainwright-prolog", "trainwright-epilog")


class ConfError(ValueError):
    """Text that Slurm's parser would refuse; the message has the place and the cause."""


@dataclass
class Conf:
    """One configuration file.

    scalars: canonical key -> its values, in the order of the file (SlurmctldHost may repeat).
    nodes: node name -> {option: value}, host lists expanded; DEFAULT lines applied.
    lines: (kind, {key: value}) of every line with several pairs, as written.
    """

    scalars: dict[str, list[str]] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    lines: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)

    def get(self, key: str, default: str = "") -> str:
        """Return the last value of a scalar, which is the one that counts."""
        values = self.scalars.get(canonical(key))
        return values[-1] if values else default

    def of(self, kind: str) -> list[dict[str, str]]:
        """Return the lines of one kind: NodeName, PartitionName, NodeSet, DownNodes."""
        return [pairs for name, pairs in self.lines if name == kind]


@dataclass
class Decision:
    """How a change is applied.

    action: none, reconfigure, restart or refuse, for slurmctld.
    slurmd_restart: whether every slurmd must be restarted as well.
    reasons: (parameter, old value, new value, action) of each difference.
    """

    action: str = "none"
    slurmd_restart: bool = False
    reasons: list[tuple[str, str, str, str]] = field(default_factory=list)


# -- names ------------------------------------------------------------------------------------


def _key_names() -> dict[str, str]:
    names: dict[str, str] = {}
    for kind in reversed(list(data.ALWAYS)):
        for name in (*data.ALWAYS[kind], *data.SOME.get(kind, {})):
            names[name.lower()] = name
    return names


_NAMES = _key_names()


def canonical(key: str) -> str:
    """Return the usual spelling of an option name; an unknown one is returned as it is."""
    return _NAMES.get(key.lower(), key)


def _lifetime(name: str, file: str) -> tuple[str | None, str | None] | None:
    """Return (first, last) release of an option, or None for one that no release has."""
    if name in data.ALWAYS[file]:
        return (None, None)
    return data.SOME.get(file, {}).get(name)


def unknown_options(
    names: Iterable[str], version: str, file: str = "slurm.conf"
) -> list[tuple[str, str]]:
    """Return (name, reason) of each name that Slurm `version` does not read in `file`.

    `file` is slurm.conf, cgroup.conf, gres.conf or slurmdbd.conf, or a kind of line of
    slurm.conf: NodeName, PartitionName, NodeSet, DownNodes. A release newer than the table may
    have options that the table lacks: nothing but what was removed is reported for it.
    """
    wanted = major_minor(version)
    newer = wanted > major_minor(KNOWN[-1])
    spelling = {name.lower(): name for name in (*data.ALWAYS[file], *data.SOME.get(file, {}))}
    out = []
    for given in names:
        name = spelling.get(given.lower())
        if name is None:
            if newer:
                continue
            close = difflib.get_close_matches(given.lower(), list(spelling), 3, 0.7)
            hints = [_with_lifetime(spelling[item], file) for item in close]
            elsewhere = [
                other
                for other in data.ALWAYS
                if other != file
                and given.lower()
                in {item.lower() for item in (*data.ALWAYS[other], *data.SOME.get(other, {}))}
            ]
            reason = f"no release of Slurm from {KNOWN[0]} on has it in {file}"
            if elsewhere:
                reason += f"; it belongs to {' or '.join(elsewhere)}"
            elif hints:
                reason += f"; did you mean {' or '.join(hints)}?"
            out.append((given, reason))
            continue
        first, last = _lifetime(name, file) or (None, None)
        if first and wanted < major_minor(first):
            out.append((given, f"Slurm has it from {first} on; this cluster runs {version}"))
        elif last and wanted > major_minor(last):
            out.append((given, f"the last Slurm to have it is {last}; this cluster runs {version}"))
    return out


def _with_lifetime(name: str, file: str) -> str:
    first, last = _lifetime(name, file) or (None, None)
    if first:
        return f"{name} (from {first})"
    return f"{name} (until {last})" if last else name


def unknown_in(conf: Conf, version: str, file: str = "slurm.conf") -> list[tuple[str, str]]:
    """Return the unknown options of a whole file, those of its node and partition lines too."""
    out = unknown_options(conf.scalars, version, file)
    for kind, pairs in conf.lines:
        if file == "gres.conf":
            out += unknown_options(pairs, version, file)
        elif kind in data.ALWAYS:
            out += unknown_options([key for key in pairs if key != kind], version, kind)
    return sorted(set(out))


# -- text -------------------------------------------------------------------------------------


def _strip_comment(line: str) -> str:
    escaped = False
    for position, char in enumerate(line):
        if char == "#" and not escaped:
            return line[:position]
        escaped = char == "\\" and not escaped
    return line


@dataclass(frozen=True)
class Line:
    """A line as Slurm reads it, with the physical lines that it comes from.

    text: without comments, continuations and escapes. raw: all of its text, line ends included.
    places: (first, after last) of each character of text in raw.
    """

    number: int
    text: str
    raw: str
    places: list[tuple[int, int]]


def logical_lines(text: str) -> list[Line]:
    """Return the lines; their raws, joined, are the text."""
    out: list[Line] = []
    number, begin, position = 0, 0, 0
    buffer: list[tuple[str, int]] = []

    def end(after: int) -> None:
        chars, places, escaped = [], [], -1
        for char, place in buffer:
            if escaped < 0 and char == "\\":
                escaped = place
                continue
            chars.append(char)
            places.append((place if escaped < 0 else escaped, place + 1))
            escaped = -1
        out.append(Line(number, "".join(chars), text[begin:after], places))
        buffer.clear()

    for current, raw in enumerate(text.split("\n"), 1):
        line = _strip_comment(raw.rstrip("\r"))
        stripped = line.rstrip()
        if not number:
            number, begin = current, position
        # An even number of backslashes are escaped backslashes, not a continuation.
        continued = (len(stripped) - len(stripped.rstrip("\\"))) % 2
        taken = stripped[:-1] if continued else line
        buffer += [(char, position - begin + index) for index, char in enumerate(taken)]
        position += len(raw) + 1
        if not continued:
            end(position)
            number = 0
    if number:
        end(len(text))
    return out


def matches(line: Line) -> list[re.Match[str]]:
    """Return a match for each Key=Value of a line: key, operator, value in quotes, bare value.

    Raises ConfError for anything else.
    """
    out, position, text = [], 0, line.text
    while text[position:].strip():
        match = _PAIR.match(text, position)
        if not match:
            raise ConfError(
                f"line {line.number}: {text[position:].strip()!r} is not Key=Value; a value with a "
                "blank in it must be in double quotes"
            )
        out.append(match)
        position = match.end()
    return out


def pair(match: re.Match[str]) -> tuple[str, str]:
    """Return (canonical key, value) of one of the matches."""
    key, operator, quoted, word = match.groups()
    return canonical(key) + operator, quoted if quoted is not None else word


def line_kind(pairs: list[tuple[str, str]], file: str) -> str:
    """Return what a line is: NodeName, PartitionName ..., gres, or "" for a single option."""
    if file == "gres.conf" and (len(pairs) > 1 or pairs[0][0] in ("Name", "NodeName")):
        return "gres"
    return _LINES.get(pairs[0][0].lower(), "") if file in ("slurm.conf", "gres.conf") else ""


def included(line: Line) -> str:
    """Return the file that an Include line names, "" for any other line."""
    match = _INCLUDE.match(line.text)
    return match.group(1) if match else ""


def parse(text: str, file: str = "slurm.conf") -> Conf:
    """Return the file as data.

    In gres.conf every line with a Name or NodeName is a line of pairs. Raises ConfError for what
    Slurm's parser would refuse: a line that is not Key=Value, or two scalars in one line.
    """
    conf = Conf()
    defaults: dict[str, str] = {}
    for line in logical_lines(text):
        if not line.text.strip():
            continue
        include = included(line)
        if include:
            conf.includes.append(include)
            continue
        pairs = [pair(match) for match in matches(line)]
        kind = line_kind(pairs, file)
        if kind:
            conf.lines.append((kind, dict(pairs)))
            if kind == "NodeName":
                _add_nodes(conf, dict(pairs), defaults, line.number)
            continue
        if len(pairs) > 1:
            raise ConfError(
                f"line {line.number}: {pairs[0][0]} and {pairs[1][0]} are in one line; give each "
                "option a line of its own"
            )
        conf.scalars.setdefault(pairs[0][0], []).append(pairs[0][1])
    return conf


def _add_nodes(conf: Conf, pairs: dict[str, str], defaults: dict[str, str], number: int) -> None:
    names = pairs.pop("NodeName")
    if names.upper() == "DEFAULT":
        defaults.update(pairs)
        return
    try:
        expanded = expand(names)
    except ValueError as error:
        raise ConfError(f"line {number}: NodeName={names}: {error}") from error
    lists = {}
    for key in ("NodeAddr", "NodeHostname", "Port"):
        values = expand(pairs[key]) if key in pairs else []
        if len(values) == len(expanded):
            lists[key] = values
    for index, name in enumerate(expanded):
        conf.nodes[name] = {
            **defaults,
            **pairs,
            **{key: values[index] for key, values in lists.items()},
        }


def render_value(value: object) -> str:
    """Return a value as it has to be written; raises ConfError for one that cannot be."""
    text = str(value)
    if isinstance(value, bool):
        text = "yes" if value else "no"
    if "\n" in text or "\r" in text or '"' in text:
        raise ConfError(
            f"{text!r} holds a line end or a double quote, which Slurm cannot read -> leave it out"
        )
    escaped = text.replace("\\", "\\\\").replace("#", "\\#")
    return f'"{escaped}"' if not text or re.search(r"\s", text) else escaped


def render_line(pairs: Iterable[tuple[str, object]]) -> str:
    """Return ``NodeName=c1 CPUs=4 ...`` without a line end."""
    return " ".join(f"{key}={render_value(value)}" for key, value in pairs)


# -- restart or reconfigure -------------------------------------------------------------------


def _holds(first: str | None, before: str | None, version: tuple[int, int]) -> bool:
    return not (first and version < major_minor(first)) and not (
        before and version >= major_minor(before)
    )


def parameter_actions(version: str, file: str = "slurm.conf") -> dict[str, tuple[str, str]]:
    """Return {parameter: (action, source)} of parameters that need more than a reconfigure."""
    wanted = major_minor(version)
    return {
        name: (action, source)
        for name, first, before, action, source in data.RESTART_OTHER.get(file, data.RESTART)
        if _holds(first, before, wanted)
    }


def restart_parameters(daemon: str, version: str) -> set[str]:
    """Return the scalars of slurm.conf whose change needs `daemon` (slurmd, slurmctld) restarted.

    A change that is refused on a live cluster restarts both daemons once it is allowed.
    """
    return {
        name
        for name, (action, _source) in parameter_actions(version).items()
        if action in ("restart_both", "restart_" + daemon, "refuse")
    }


def _node_kind(option: str) -> str:
    return "text" if option in data.NODE_TEXT else "Port" if option == "Port" else "hardware"


def _node_action(kind: str, version: tuple[int, int]) -> str:
    for name, first, before, action, _source in data.NODES:
        if name == kind and _holds(first, before, version):
            return action
    return "reconfigure"


def _scalar_differences(
    old: Conf, new: Conf, version: str, file: str
) -> list[tuple[str, str, str, str]]:
    actions = parameter_actions(version, file)
    otherwise = "restart_slurmdbd" if file == "slurmdbd.conf" else "reconfigure"
    out = []
    for name in sorted({*old.scalars, *new.scalars}):
        before = old.scalars.get(name, [])
        after = new.scalars.get(name, [])
        if before == after:
            continue
        action = actions.get(name, (otherwise, ""))[0]
        for parameter, setting, first, until, wanted, _source in data.RESTART_SETTINGS:
            if (file, parameter) == ("slurm.conf", name) and _holds(
                first, until, major_minor(version)
            ):
                was, now = (setting in ",".join(v).split(",") for v in (before, after))
                action = wanted if was != now else action
        out.append((name, ",".join(before), ",".join(after), action))
    return out


def _node_differences(old: Conf, new: Conf, version: str) -> list[tuple[str, str, str, str]]:
    wanted = major_minor(version)
    out = []
    for name in sorted({*old.nodes, *new.nodes}):
        before, after = old.nodes.get(name), new.nodes.get(name)
        if before is None or after is None:
            state = ("absent", "present") if before is None else ("present", "absent")
            out.append((f"NodeName={name}", *state, _node_action("nodes", wanted)))
            continue
        for key in sorted({*before, *after}):
            if before.get(key) == after.get(key):
                continue
            difference = (before.get(key, ""), after.get(key, ""))
            action = _node_action(_node_kind(key), wanted)
            out.append((f"NodeName={name} {key}", *difference, action))
    return out


def _gres_differences(old: Conf, new: Conf, version: str) -> list[tuple[str, str, str, str]]:
    """Options of gres.conf that need more than a reconfigure, where lines for the same differ."""

    def values(conf: Conf, key: str) -> dict[str, str]:
        out: dict[str, list[str]] = {}
        for pairs in conf.of("gres"):
            name = f"{pairs.get('NodeName', '')} {pairs.get('Name', '')}".strip()
            out.setdefault(name, []).append(pairs.get(key, ""))
        return {name: ",".join(sorted(filter(None, found))) for name, found in out.items()}

    out = []
    for key, (action, _source) in parameter_actions(version, "gres.conf").items():
        before, after = values(old, key), values(new, key)
        for name in sorted({*before} & {*after}):
            if before[name] != after[name]:
                out.append((f"{name} {key}", before[name], after[name], action))
    return out


def _line_differences(old: Conf, new: Conf) -> list[tuple[str, str, str, str]]:
    def keyed(conf: Conf) -> dict[str, str]:
        out: dict[str, str] = {}
        for kind, pairs in conf.lines:
            if kind != "NodeName":
                name = pairs.get(kind, pairs.get("Name", ""))
                key = f"{kind}={name}"
                rest = sorted((k, v) for k, v in pairs.items() if k != kind)
                out[key] = (out[key] + "; " if key in out else "") + render_line(rest)
        return out

    before, after = keyed(old), keyed(new)
    return [
        (key, before.get(key, "absent"), after.get(key, "absent"), "reconfigure")
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]


def why(parameter: str, action: str, version: str, file: str = "slurm.conf") -> str:
    """Return the source of one of the reasons of decide()."""
    name, _space, option = parameter.rpartition(" ")
    rows = data.RESTART_OTHER.get(file, data.RESTART)
    if parameter.startswith("NodeName="):
        rows, option = data.NODES, _node_kind(option) if name else "nodes"
    elif file == "slurm.conf":
        rows += tuple((row[0], *row[2:]) for row in data.RESTART_SETTINGS)
    for found, first, before, wanted, source in rows:
        if (found, wanted) == (option, action) and _holds(first, before, major_minor(version)):
            return source
    return {
        "restart_slurmdbd": "slurmdbd reads its file when it starts; slurmctld keeps for it what "
        "happens meanwhile",
        "reconfigure": f"{file}(5): a reconfigure is enough unless noted otherwise",
    }.get(action, "")


def decide(old: Conf, new: Conf, version: str, file: str = "slurm.conf") -> Decision:
    """Return how to bring a running cluster from `old` to `new`.

    For slurmdbd.conf the action is one on slurmdbd.
    """
    decision = Decision()
    decision.reasons = (
        _scalar_differences(old, new, version, file)
        + _node_differences(old, new, version)
        + _gres_differences(old, new, version)
        + _line_differences(old, new)
    )
    if old.includes != new.includes:
        change = (" ".join(old.includes), " ".join(new.includes))
        decision.reasons.append(("Include", *change, "reconfigure"))
    actions = {reason[3] for reason in decision.reasons}
    if "refuse" in actions:
        decision.action = "refuse"
    elif actions & {"restart_both", "restart_slurmctld", "restart_slurmdbd"}:
        decision.action = "restart"
    elif actions:
        # slurmctld reads every parameter, also one that only slurmd must be restarted for.
        decision.action = "reconfigure"
    decision.slurmd_restart = bool(actions & {"restart_both", "restart_slurmd", "refuse"})
    return decision


def read_by_slurmctld(path: str) -> bool:
    """Whether slurmctld reads a file of its configuration directory, by the file's name.

    slurmdbd.conf is another daemon's. job_submit.lua is read again at every submission, but one that cannot be read
    shows only at the next start of slurmctld, or at a reconfigure.
    """
    name = path.rsplit("/", 1)[-1]
    return name in _HOOKS or (name.endswith(_READ_BY_SLURMCTLD) and name != "slurmdbd.conf")


def meaning(text: str, path: str = "") -> list[str]:
    """Return the lines of any configuration file without comments and blank lines; of a program all lines.

    path: of the file. In Lua a # is the length of something, and no comment.
    """
    if path.endswith(".lua"):
        return [text] if text else []
    if text.startswith("#!"):
        return text.splitlines()
    return [" ".join(line.text.split()) for line in logical_lines(text) if line.text.strip()]
