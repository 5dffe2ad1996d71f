# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The parsers by name, so that the data of a check can name the one for its tool. Pure."""

from __future__ import annotations

import inspect
import typing as t

from . import (
    dcgmi_diag,
    fi_info,
    fi_pingpong,
    fio,
    ior,
    iperf3,
    mdtest,
    nccl_log,
    nccl_tests,
    nccl_tests_json,
    nvbandwidth,
    nvidia_smi,
    nvidia_topo,
    osu,
    perftest,
    transfer,
)
from .error import ParseError
from .parsed import Parsed

#: By name; each takes the output as it was printed, with its last line break, and raises ParseError alone.
PARSERS: dict[str, t.Callable[..., Parsed]] = {
    "dcgmi_diag": dcgmi_diag.parse,
    "fi_info": fi_info.parse,
    "fi_pingpong": fi_pingpong.parse,
    "fio": fio.parse,
    "ior": ior.parse,
    "iperf3": iperf3.parse,
    "mdtest": mdtest.parse,
    "nccl_log": nccl_log.parse,
    "nccl_tests": nccl_tests.parse,
    "nccl_tests_json": nccl_tests_json.parse,
    "nvbandwidth": nvbandwidth.parse,
    "nvidia_smi": nvidia_smi.parse,
    "nvidia_topo": nvidia_topo.parse,
    "osu": osu.parse,
    "perftest": perftest.parse,
    "transfer": transfer.parse,
}
#: Tools that print no range and no end: whoever ran one knows the largest size that it was asked for.
RANGED = frozenset(
    name for name, parse in PARSERS.items() if "largest" in inspect.signature(parse).parameters
)


def read(name: str, text: str, largest: int | None = None) -> Parsed:
    """Read an output by the parser of a name.

    largest: bytes, the largest size of the command, which every tool with points must have reached; None: not known,
    or the tool does not print sizes. Raises ParseError, also for a name that is not in PARSERS.
    """
    if name not in PARSERS:
        raise ParseError(f"parser {name!r} is not known", f"one of {', '.join(sorted(PARSERS))}")
    if name in RANGED:
        return PARSERS[name](text, largest=largest)
    found = PARSERS[name](text)
    if largest and found.points and found.points[-1].size_bytes < largest:
        raise ParseError(
            f"{name}: ends at {found.points[-1].size_bytes} bytes of {largest}",
            "the run stopped early, or its command asks for less",
        )
    return found
