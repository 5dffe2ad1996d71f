# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds lines of /etc/hosts that count before those of the cluster. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import typing as t

PATH = "/etc/hosts"


def overridden(text: str, block: str) -> list[str]:
    """Return "NAME ADDRESS" for each host of the block to which a line above it gives another address.

    Many systems give their own name a loopback address, which does not count here. The first of several lines decides:
    hosts(5). A daemon that runs has resolved the name already, and would miss its controller at the next boot.
    """
    ours = {(name, _family(address)): address for address, name in _entries(block)}
    above = text.split("\n" + block, maxsplit=1)[0] if "\n" + block in text else ""
    return [
        f"{name} {address}"
        for address, name in _entries(above)
        if ours.get((name, _family(address)), address) != address
        and not address.startswith("127.")
        and address != "::1"
    ]


def _entries(text: str) -> t.Iterator[tuple[str, str]]:
    """Yield (address, name) of each name."""
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            yield address, name.lower()


def _family(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"
