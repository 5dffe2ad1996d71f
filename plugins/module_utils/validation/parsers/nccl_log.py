# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NCCL's own log (NCCL_DEBUG=INFO): the network that the ranks use. Pure.

Lines: NVIDIA/nccl, src/net.cc and transport/net*.cc; aws/aws-ofi-nccl, src/nccl_ofi_net.cpp. On a cluster with EFA a
job that falls back to TCP still works, ten to forty times slower, so the network is a result of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .error import ParseError
from .parsed import Parsed
from .text import LONGEST_LINE, MOST_CHARACTERS, lines

_TOOL = "NCCL's log"
_PROCESS = re.compile(r"([^\s:]{1,255}:[0-9]{1,10}):[0-9]{1,10}")
_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is (\S{1,40}?)(?:,| \(|\s|$)")
_USING = re.compile(r"Using network ([\w ./-]{1,40}?)\s*$")
_VIA = re.compile(r"via NET/([\w .-]{1,40}?)/[0-9]")
_SOCKET = re.compile(r"NET/Socket ?: Using \[?[0-9a-z]")
_IB = re.compile(r"NET/IB ?: Using \[?[0-9a-z]")
_VERSION = re.compile(r"NCCL version ([0-9][0-9.]{1,20})")
#: NCCL's name of a network, and ours.
_NAMES = {
    "socket": "socket",
    "ib": "ib",
    "ibext": "ib",
    "ibext_v8": "ib",
    "aws libfabric": "ofi",
    "libfabric": "ofi",
    "ofi": "ofi",
}


@dataclass(frozen=True)
class NcclLog(Parsed):
    """The networks that the processes of one job report.

    networks: sorted, of all processes: `efa` (or another provider of libfabric), `ib`, `socket`, or NCCL's own name of
    a plugin's. More than one: the processes differ. processes: how many said which network they use. warnings: lines.
    """

    networks: tuple[str, ...]
    processes: int
    version: str
    warnings: tuple[str, ...]

    @property
    def figures(self) -> dict[str, float]:
        """Return processes: how many said which network they use."""
        return {"processes": float(self.processes)}


def parse(text: str) -> NcclLog:
    """Read the output of a job. Raises ParseError where nothing says which network it uses."""
    used: dict[str, set[str]] = {}
    offered: dict[str, set[str]] = {}
    warnings: list[str] = []
    version = ""
    for line in lines(text, _TOOL, MOST_CHARACTERS):
        # Progress bars of training are long lines.
        if "NCCL" not in line or len(line) > LONGEST_LINE:
            continue
        version = version or (_VERSION.search(line) or ["", ""])[1]
        process, level, said = _said(line)
        if not process:
            continue
        if level == "WARN" and len(warnings) < 20:
            warnings.append(said[:200])
        using = _USING.search(said) or _VIA.search(said)
        if using:
            used.setdefault(process, set()).add(_NAMES.get(using[1].lower(), using[1].lower()))
        provider = _PROVIDER.search(said)
        if provider:
            offered.setdefault(process, set()).add(provider[1].lower())
        elif _SOCKET.search(said) or _IB.search(said):
            offered.setdefault(process, set()).add("socket" if _SOCKET.search(said) else "ib")
    networks: set[str] = set()
    for process in sorted(set(used) | set(offered)):
        names = used.get(process) or offered[process]
        providers = offered.get(process, set()) - {"socket", "ib"}
        # "AWS Libfabric" is the plugin; which provider it has selected is in a line of its own.
        networks |= {
            name for one in names for name in (providers or {one} if one == "ofi" else {one})
        }
    if not networks:
        raise ParseError(f"{_TOOL}: no line about the network", "run it with NCCL_DEBUG=INFO")
    return NcclLog(tuple(sorted(networks)), len(set(used) | set(offered)), version, tuple(warnings))


def _said(line: str) -> tuple[str, str, str]:
    """Return the process, the level and the text of a line of NCCL's, "" for another line.

    `host:pid:thread [gpu] NCCL INFO text`; newer versions have the time before it and the function before `NCCL WARN`.
    """
    for level in ("INFO", "WARN"):
        head, found, said = line.partition(f" NCCL {level} ")
        words = head.split() if found else []
        for word, following in zip(words, words[1:]):
            process = _PROCESS.fullmatch(word)
            if process and re.fullmatch(r"\[[0-9]{1,3}\]", following):
                return process[1], level, said
    return "", "", ""
