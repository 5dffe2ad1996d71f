# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether Slurm can read a value of its configuration files: numbers, times, words, plugins. Pure.

value_tables.py has the options; one that is not there may have any value.
"""

from __future__ import annotations

import difflib
import re
import typing as t

from ..releases import KNOWN, major_minor
from . import value_tables as data

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: What is wrong with a value, and the remedy.
Fault = tuple[str, str]

_TYPE_OF = {name.lower(): kind for kind, names in data.TYPES.items() for name in names.split()}
_TYPE_IN_SLURMDBD = {
    name.lower(): kind for kind, names in data.TYPES_OF_SLURMDBD.items() for name in names.split()
}
_PATHS = set(data.PATHS.lower().split())
_RANGES = {name.lower(): limits for name, limits in data.RANGES.items()}
_TRES_NAMES, _TRES_WEIGHTS = data.TRES_NAMES.lower().split(), data.TRES_WEIGHTS.lower().split()
_TRES_KIND = re.compile(rf"({'|'.join(data.TRES_KINDS)})/[^/\s=]+", re.IGNORECASE)
_PURGE = re.compile(r"\d+(m(o(n(t(hs?)?)?)?)?|h(o(u(rs?)?)?)?|d(a(ys?)?)?)?", re.IGNORECASE)
_LARGEST = {"uint16": 2**16 - 1, "uint32": 2**32 - 1, "uint64": 2**64 - 1}
_BOOLEANS = ("yes", "up", "true", "1", "no", "down", "false", "0")
_NO_LIMIT = ("unlimited", "infinite")
_CHOICES = {(file, name.lower()): row for (file, name), row in data.CHOICES.items()}
_PLUGIN_OPTIONS = {name.lower(): row for name, row in data.PLUGIN_OPTIONS.items()}
_TIME = re.compile(r"-1|\d+|\d+:\d+(:\d+)?|\d+-\d+(:\d+){0,2}")


def in_release(table: str, version: str) -> list[str]:
    """Return the words of a table that a Slurm has; all of them for a version that is not known."""
    wanted = major_minor(version)
    words = []
    for entry in table.split():
        word, _colon, lifetime = entry.partition(":")
        first, _dash, last = lifetime.partition("-")
        known = wanted != (0, 0)
        if known and first and wanted < major_minor(first):
            continue
        if known and last and wanted > major_minor(last):
            continue
        words.append(word)
    return words


def is_newer(version: str) -> bool:
    """Tell whether a Slurm is newer than the tables, and may have words and plugins that they lack."""
    return major_minor(version) > major_minor(KNOWN[-1])


def _number(kind: str, text: str) -> Fault | None:
    """Slurm reads decimal, 0x and octal numbers; K is a suffix of uint64 only (parse_value.c)."""
    remedy = "write a number" if kind == "float" else f"write a whole number up to {_LARGEST[kind]}"
    if text.lower() in _NO_LIMIT:
        return None
    if kind == "float":
        number = re.fullmatch(r"\d+(\.\d*)?|\.\d+", text)
        return None if number else (f"{text!r} is not a number", remedy)
    match = re.fullmatch(r"(0x[0-9a-f]+|\d+)(k?)", text.lower())
    if not match or (match[2] and kind != "uint64"):
        return f"{text!r} is not a whole number from 0 on", remedy
    if int(match[1], 16 if match[1].startswith("0x") else 10) > _LARGEST[kind]:
        return f"{text} is more than {_LARGEST[kind]}", remedy
    return None


def _nearest(word: str, known: Iterable[str]) -> str:
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(by_lower), 1, 0.6)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""


def _choice(file: str, name: str, text: str, version: str) -> Fault | None:
    table, how = _CHOICES[file, name]
    known = in_release(table, version)
    words = [part.strip() for part in text.split(",")] if how == "words" else [text]
    for word in words:
        plain = re.sub(r":\d+\Z", "", word) if how == "number" else word
        if plain.lower() not in {item.lower() for item in known}:
            remedy = f"write one of {', '.join(known)}"
            if word in ("NO", "YES"):
                remedy += ", in quotes: YAML reads on and off without them as true and false"
            return f"{word!r} is not one of Slurm's words{_nearest(word, known)}", remedy
    return None


def is_resource(name: str) -> bool:
    """Tell whether this is the name of a trackable resource."""
    return name.lower() in data.TRES or bool(_TRES_KIND.fullmatch(name))


def resource_fault(name: str) -> Fault | None:
    """Return why Slurm does not count a resource of this name, None if it may."""
    if is_resource(name):
        return None
    close = _nearest(name, (*data.TRES, "gres/gpu"))
    return (
        f"{name!r} is not a resource of Slurm{close}",
        f"write one of {', '.join(data.TRES)}, gres/NAME or license/NAME",
    )


def _resources(text: str, weights: bool) -> Fault | None:
    for part in filter(None, (item.strip() for item in text.split(","))):
        name, equals, weight = part.partition("=")
        wrong = resource_fault(name)
        if wrong:
            return wrong
        if weights and not re.fullmatch(
            r"-?(\d+\.?\d*|\.\d+)([KMGTPE]B?)?", weight.strip(), re.IGNORECASE
        ):
            return (
                f"{part!r} is not a resource with its weight",
                "write CPU=1.0,Mem=0.25G,GRES/gpu=4",
            )
        if equals and not weights:
            return f"{part!r} is not the name of a resource", "write names without a count"
    return None


def _in_slurmdbd(key: str, text: str) -> Fault | None:
    kind = _TYPE_IN_SLURMDBD.get(key)
    if kind == "purge" and not _PURGE.fullmatch(text):
        return (
            f"{text!r} is not an age that slurmdbd reads",
            "write a number of hours, days or months: 24months",
        )
    if kind == "path":
        return _absolute(text)
    return _of_type(kind, text) if kind and kind != "purge" else None


def _absolute(text: str) -> Fault | None:
    return (
        None if text.startswith("/") else (f"{text!r} is not an absolute path", "begin it with /")
    )


def fault(file: str, name: str, text: str, version: str) -> Fault | None:
    """Return why Slurm cannot read the value of an option; None if it can. Plugins are for plugin_faults.

    file: slurm.conf, cgroup.conf, slurmdbd.conf, PartitionName or NodeName.
    """
    key = name.lower()
    if file == "PartitionName" and key in {item.lower() for item in data.TEXT_IN_PARTITIONS}:
        return None
    if (file, key) in _CHOICES and not is_newer(version):
        return _choice(file, key, text, version)
    if file == "slurmdbd.conf":
        return _in_slurmdbd(key, text)
    if key in _TRES_NAMES or key in _TRES_WEIGHTS:
        return _resources(text, key in _TRES_WEIGHTS)
    if key in _PATHS and file == "slurm.conf" and text.lower() not in ("", "none"):
        return _absolute(text)
    wrong = _of_type(_TYPE_OF.get(key), text)
    least, most = _RANGES.get(key, (0, 0))
    if not wrong and key in _RANGES and text.isdigit() and not least <= int(text) <= most:
        return f"{text} is not within its limits", f"write a number from {least} to {most}"
    return wrong


def _of_type(kind: str | None, text: str) -> Fault | None:
    if kind == "boolean":
        if text.lower() not in _BOOLEANS:
            return f"{text!r} is neither yes nor no", "write yes or no"
    elif kind == "time":
        if text.lower() not in _NO_LIMIT and not _TIME.fullmatch(text):
            return (
                f"{text!r} is not a time that Slurm reads",
                'write minutes, "hours:minutes:seconds", "days-hours" or UNLIMITED',
            )
    elif kind:
        return _number(kind, text)
    return None


def plugin_of(name: str) -> tuple[str, bool] | None:
    """Return (kind of plugin, whether it takes several) of an option that names plugins, None of others."""
    return _PLUGIN_OPTIONS.get(name.lower())


def unknown_plugins(name: str, text: str, version: str) -> Iterator[tuple[str, str, str]]:
    """Yield (word, file name without .so, hint) of each plugin in a value that this Slurm does not bring.

    The file name is "" where the word is not the name of a plugin of this kind at all.
    """
    kind, several = plugin_of(name) or ("", False)
    known = in_release(data.PLUGINS[kind], version)
    if is_newer(version):
        return
    for word in filter(None, (part.strip() for part in (text.split(",") if several else [text]))):
        given, _slash, plugin = word.rpartition("/")
        if kind == "mpi":  # pmix_v4 is the plugin pmix, built for that version
            plugin = re.sub(r"\Apmix_v\d+\Z", "pmix", plugin)
        if (given == kind or (not given and kind in data.SHORT)) and plugin in known:
            continue
        if not given and plugin == "none" and "none" in known:
            continue
        usable = given in (kind, "") and re.fullmatch(r"[A-Za-z0-9_]+", plugin)
        file = f"{kind}_{plugin}" if usable and (given or kind in data.SHORT) else ""
        close = difflib.get_close_matches(plugin.lower(), known, 1, 0.6)
        spelt = f"{kind}/" if kind not in data.SHORT else ""
        hint = f"; did you mean {spelt}{close[0]}?" if close else ""
        yield word, file, hint
