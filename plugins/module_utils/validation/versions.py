# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads the versions that versions.sh of role validate prints, and what of them does not fit each other. Pure.

The rules and their tables are those of hardware/stack.py. A misfit that cannot work is a fault, one that may is a gap.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..hardware.stack import VERSION, Misfit, host_and_image, node
from ..hardware.stack_data import COMPONENTS
from .parsers.error import ParseError, shown
from .parsers.parsed import Parsed
from .parsers.text import lines

_TOOL = "versions.sh"
_AGAIN = "see the output of the step; run the check again"
#: Parts that a container has from its node; the others are those of its image.
_OF_NODE = ("driver", "efa_driver")
#: A part that an image alone has, besides the components.
_OF_IMAGE = ("cuda_compat",)
#: The word for a plugin that does not say its version.
_UNKNOWN = "unknown"


@dataclass(frozen=True)
class Versions(Parsed):
    """The software of a node or an image, by component."""

    stack: dict[str, str]
    misfits: tuple[Misfit, ...] = ()

    @property
    def figures(self) -> dict[str, float]:
        """Return components: how many there are."""
        return {"components": float(len(self.stack))}

    @property
    def faults(self) -> tuple[str, ...]:
        return tuple(f"{one.what} -> {one.remedy}" for one in self.misfits if one.sure)

    @property
    def gaps(self) -> tuple[str, ...]:
        return tuple(f"{one.what} -> {one.remedy}" for one in self.misfits if not one.sure)

    @property
    def line(self) -> str:
        """Return the versions as one line, such as `cuda 13.2, nccl 2.27.3`."""
        return ", ".join(f"{name} {version}" for name, version in self.stack.items()) or "none"


def of_node(text: str) -> Versions:
    """Read the versions of a node. Raises ParseError, also where no driver of NVIDIA is loaded."""
    found = _read(text)
    if "driver" not in found:
        raise ParseError("no driver of NVIDIA is loaded there", "see lsmod, and role nvidia_driver")
    known = {name: version for name, version in found.items() if version != _UNKNOWN}
    return Versions(found, tuple(node(known)))


def of_image(text: str) -> Versions:
    """Read the versions of an image from inside its container. Raises ParseError."""
    found = _read(text)
    host = {name: found[name] for name in _OF_NODE if name in found}
    image = {name: version for name, version in found.items() if name not in _OF_NODE}
    return Versions(found, tuple(host_and_image(host, image, efa="efa_driver" in host)))


def _read(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    said = [line.split() for line in lines(text, _TOOL) if line.strip()]
    if said[-1:] != [["end"]]:
        raise ParseError(f"{_TOOL}: did not come to its end", _AGAIN)
    for words in said[:-1]:
        # Enroot and Pyxis may print lines about an import before it.
        if words[0] not in COMPONENTS and words[0] not in _OF_IMAGE:
            continue
        if len(words) != 2 or not (words[1] == _UNKNOWN or VERSION.fullmatch(words[1])):
            raise ParseError(f"{_TOOL}: the line {shown(' '.join(words))}", _AGAIN)
        if words[0] in found:
            raise ParseError(f"{_TOOL}: {words[0]} twice", _AGAIN)
        found[words[0]] = words[1]
    return found


#: By the name of a check's `parser`.
PARSERS: dict[str, t.Callable[[str], Versions]] = {
    "node_versions": of_node,
    "image_versions": of_image,
}
