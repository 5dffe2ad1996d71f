# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""fi_info of libfabric: the providers and domains of a node. Pure.

Format: ofiwg/libfabric, util/info.c. libfabric 2 lists a device twice, once for each fabric, and a device has an
endpoint of each type, so devices are counted by their domains.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .error import ParseError, shown
from .parsed import Parsed
from .text import ended

_TOOL = "fi_info"
_KEYS = ("provider", "fabric", "domain", "version", "type", "protocol")
_PAIR = re.compile(r"\s*(provider|fabric|domain|version|type|protocol): (\S.{0,200}?)\s*")
_TYPES = (
    "FI_EP_RDM",
    "FI_EP_DGRAM",
    "FI_EP_MSG",
    "FI_EP_SOCK_STREAM",
    "FI_EP_SOCK_DGRAM",
    "FI_EP_UNSPEC",
)


class Endpoint(t.NamedTuple):
    """One entry, as printed."""

    provider: str
    fabric: str
    domain: str
    version: str
    type: str
    protocol: str


@dataclass(frozen=True)
class FiInfo(Parsed):
    """endpoints: as listed."""

    endpoints: tuple[Endpoint, ...]

    def domains(self, provider: str, kind: str = "FI_EP_RDM") -> tuple[str, ...]:
        """Return the domains of a provider that have a type of endpoint: one for each device."""
        return tuple(
            sorted({e.domain for e in self.endpoints if e.provider == provider and e.type == kind})
        )

    @property
    def figures(self) -> dict[str, float]:
        """Return the devices of each provider that have reliable datagrams: `efa` and so on."""
        providers = sorted({endpoint.provider for endpoint in self.endpoints})
        return {name: float(len(self.domains(name))) for name in providers}


def parse(text: str) -> FiInfo:
    """Read standard output, with its last line break. Raises ParseError."""
    entries: list[dict[str, str]] = []
    for line in ended(text, _TOOL):
        if not line.strip() or line.startswith("#"):
            continue
        if re.match(r"\s*fi_getinfo", line):
            raise ParseError(
                f"{_TOOL}: {shown(line.strip())}",
                "no device of this provider: see lsmod, and the driver",
            )
        found = _PAIR.fullmatch(line)
        if not found:
            raise ParseError(f"{_TOOL}: the line {shown(line)}", "run fi_info without -v")
        if found[1] == "provider":
            entries.append({})
        if not entries or found[1] in entries[-1]:
            raise ParseError(f"{_TOOL}: {found[1]} without its provider", "run it again")
        entries[-1][found[1]] = found[2]
    if not entries:
        raise ParseError(f"{_TOOL}: no provider", "see its errors")
    for entry in entries:
        if (
            set(entry) != set(_KEYS)
            or entry["type"] not in _TYPES
            or not re.fullmatch(r"[0-9.]+", entry["version"])
        ):
            raise ParseError(
                f"{_TOOL}: the entry of {shown(entry.get('domain', '?'))} is not whole",
                "run it again",
            )
    return FiInfo(tuple(Endpoint(*(entry[key] for key in _KEYS)) for entry in entries))
