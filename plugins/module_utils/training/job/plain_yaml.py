# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads YAML that somebody else wrote: text, numbers, lists and mappings, in a file of limited size and depth.

The document is checked before values are made of it, since a few lines can otherwise become millions of values.
No message has a line of the file, which need not be a description of the caller's. Runs on nodes: Python 3.9, PyYAML.
"""

from __future__ import annotations

import os
import re
import stat
import typing as t

try:
    import yaml
except ImportError:  # of a host that lacks it: read() reports it
    yaml = None  # type: ignore[assignment]

_LARGEST = 256 << 10
_MOST_VALUES = 100_000
_DEEPEST = 20
#: Python needs long for numbers of thousands of digits.
_LONGEST_NUMBER = 40
_TAG = "tag:yaml.org,2002:"
_PLAIN = frozenset(
    f"{_TAG}{name}" for name in ("map", "seq", "str", "int", "float", "bool", "null")
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_NUMBERS = (f"{_TAG}int", f"{_TAG}float")


def read(path: str) -> t.Any:
    """Return the content of a file. Raises OSError, and ValueError with the cause for what is not plain YAML."""
    if yaml is None:
        raise ValueError(
            "this host's Python does not have PyYAML (python3-yaml, on RHEL python3-pyyaml)"
        )
    text = _text(path)
    try:
        loader = yaml.SafeLoader(text)
        try:
            document = loader.get_single_node()
            _check(loader, document)
            return loader.construct_document(document) if document else None
        finally:
            loader.dispose()
    except RecursionError:
        raise ValueError("it is too deep") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ValueError(f"{_line(mark)}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _open(path: str, flags: int) -> int:
    """Open a file as the built-in does; a pipe that nobody writes to does not block."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _text(path: str) -> str:
    with open(path, "rb", opener=_open) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        found = file.read(_LARGEST + 1)
    if len(found) > _LARGEST:
        raise ValueError(f"it is larger than {_LARGEST >> 10} KiB")
    try:
        text = found.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not text in UTF-8") from None
    _check_text(text)
    return text


def _check_text(text: str, where: str = "") -> None:
    found = _CONTROL.search(text)
    if found:
        raise ValueError(f"{where}it has the control character {found[0]!r}")


def _line(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}: " if mark else ""


def _check(loader: yaml.SafeLoader, document: yaml.Node | None) -> None:
    """Raise ValueError for more than plain values; an anchor counts wherever it is used."""
    waiting = [(document, 0)] if document else []
    count = 0
    while waiting:
        node, depth = waiting.pop()
        count += 1
        if depth > _DEEPEST or count > _MOST_VALUES:
            raise ValueError("it is too deep, or has too many values")
        where = _line(node.start_mark)
        if node.tag == f"{_TAG}merge":
            raise ValueError(f"{where}<< merges mappings: write their keys there")
        if node.tag not in _PLAIN:
            kind = node.tag.removeprefix(_TAG) if node.tag.startswith(_TAG) else "tag of its own"
            raise ValueError(f"{where}a {kind} is not a plain value: write it in quotes")
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
            waiting += [(one, depth + 1) for pair in node.value for one in pair]
        elif isinstance(node, yaml.SequenceNode):
            _check_list(node)
            waiting += [(one, depth + 1) for one in node.value]
        else:
            _check_scalar(loader, node, where)


def _check_keys(node: yaml.MappingNode) -> None:
    """Raise ValueError for a key that YAML changes, as `yes` to true, and for one that is there twice."""
    known = set()
    for key, _value in node.value:
        if isinstance(key, yaml.ScalarNode):
            where = _line(key.start_mark)
            if key.tag == f"{_TAG}bool":
                raise ValueError(
                    f"{where}a key that YAML reads as true or false: write it in quotes"
                )
            if (key.tag, key.value) in known:
                raise ValueError(f"{where}a key that is there already: remove one of them")
            known.add((key.tag, key.value))


def _check_list(node: yaml.SequenceNode) -> None:
    """Raise ValueError for `yes`, `on` and the like in a list, where a text is meant as often."""
    for one in node.value:
        if one.tag == f"{_TAG}bool" and one.value not in ("true", "false"):
            raise ValueError(
                f"{_line(one.start_mark)}a text that YAML reads as true or false: write it in quotes,"
                " or write true or false"
            )


def _check_scalar(loader: yaml.SafeLoader, node: yaml.Node, where: str) -> None:
    _check_text(node.value, where)
    if node.tag in _NUMBERS and (":" in node.value or len(node.value) > _LONGEST_NUMBER):
        # YAML 1.1 makes 90 of 1:30.
        raise ValueError(f"{where}a time or a long number: write it in quotes")
    if node.tag != f"{_TAG}str" and node.tag != loader.resolve(
        yaml.ScalarNode, node.value, (True, False)
    ):
        raise ValueError(f"{where}a value does not have the form of its tag: leave the tag out")
    if node.tag in _NUMBERS and str(loader.construct_object(node)) != node.value:
        # YAML 1.1 makes 8 of 010, 16 of 0x10, 1000 of 1_000 and 1.1 of 1.10.
        raise ValueError(
            f"{where}a number that YAML changes, such as 010 (8) or 1.10 (1.1): write it in quotes"
        )
