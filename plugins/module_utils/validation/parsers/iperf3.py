# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""iperf3: the JSON of -J. Pure.

Format: esnet/iperf. A run that failed has `error`; end.sum_received counts the bytes that arrived, and with UDP
end.sum has the losses.
"""

from __future__ import annotations

from dataclasses import dataclass

from .error import ParseError, shown
from .parsed import Parsed
from .text import amount, json_object, mapping

_TOOL = "iperf3"
_AGAIN = "run the test again; see that the server runs and its port is open"


@dataclass(frozen=True)
class Iperf3(Parsed):
    """A run. bandwidth: GB/s that arrived; seconds: its length; retransmits: None where the system counts none.

    lost: percent of the datagrams, None for TCP. streams: parallel connections.
    """

    bandwidth: float
    seconds: float
    streams: int
    retransmits: int | None
    lost: float | None

    @property
    def figures(self) -> dict[str, float]:
        """Return bandwidth (GB/s), retransmits (a count) and lost_percent."""
        found = {"bandwidth": self.bandwidth}
        if self.retransmits is not None:
            found["retransmits"] = float(self.retransmits)
        if self.lost is not None:
            found["lost_percent"] = self.lost
        return found


def parse(text: str) -> Iperf3:
    """Read the output of one run. Raises ParseError."""
    found = json_object(text, _TOOL)
    if found.get("error"):
        raise ParseError(f"{_TOOL}: {shown(found['error'])}", _AGAIN)
    start = mapping(found.get("start"), f"{_TOOL}: start")
    end = mapping(found.get("end"), f"{_TOOL}: end")
    name = next((key for key in ("sum_received", "sum") if key in end), "")
    if not name:
        raise ParseError(
            f"{_TOOL}: no sum of the bytes that arrived", "it stopped early: " + _AGAIN
        )
    total = mapping(end[name], f"{_TOOL}: end.{name}")
    what = f"{_TOOL}: end.{name}"
    seconds = amount(total.get("seconds"), f"{what}.seconds")
    arrived = amount(total.get("bytes"), f"{what}.bytes")
    rate = amount(total.get("bits_per_second"), f"{what}.bits_per_second") / 8
    if not seconds or not arrived or abs(arrived / seconds - rate) > 0.001 * rate:
        raise ParseError(f"{what}: {arrived:g} bytes in {seconds:g} s at {rate:g} bytes/s", _AGAIN)
    asked = start.get("test_start")
    if (
        isinstance(asked, dict)
        and asked.get("duration")
        and not asked.get("bytes")
        and not asked.get("blocks")
    ):
        duration = amount(asked["duration"], f"{_TOOL}: duration")
        if seconds < duration * 0.9:
            raise ParseError(
                f"{_TOOL}: {seconds:g} s of {duration:g} s", "it stopped early: " + _AGAIN
            )
    sent = end.get("sum_sent")
    again = sent.get("retransmits") if isinstance(sent, dict) else None
    streams = end.get("streams")
    lost = total.get("lost_percent")
    return Iperf3(
        rate / 1e9,
        seconds,
        len(streams) if isinstance(streams, list) else 1,
        None if again is None else int(amount(again, f"{_TOOL}: retransmits")),
        None if lost is None else amount(lost, f"{_TOOL}: lost_percent"),
    )
