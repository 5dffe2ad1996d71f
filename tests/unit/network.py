# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Places of simulated EC2 instances, as DescribeInstanceTopology names them, for the tests of topology."""

from __future__ import annotations

import hashlib

PER_LEAF = 20
LEAVES_PER_MIDDLE = 16
# Of hundred instances: p6-b200, whose places have four layers, and those whose place is null.
FOUR_LAYERS = 20
UNKNOWN = 5


def network_node(*place: int) -> str:
    """Return the name of a network node, which EC2 makes of 17 hexadecimal digits."""
    return "nn-" + hashlib.sha256(repr(place).encode()).hexdigest()[:17]


def instance(number: int) -> str:
    """Return the name of an instance, by its private address."""
    return f"ip-10-{number // 62500}-{number // 250 % 250}-{number % 250 + 4}"


def instances(count: int) -> dict[str, list[str] | None]:
    """Return name -> network nodes: three layers, four layers and unknown places."""
    places: dict[str, list[str] | None] = {}
    for number in range(count):
        # Neighbours in the network do not have neighbouring addresses.
        rank = number * 7919 % count
        kind = rank * 100 // count
        leaf = rank // PER_LEAF
        middle = leaf // LEAVES_PER_MIDDLE
        above = [] if kind < 100 - UNKNOWN - FOUR_LAYERS else [network_node(0, middle // 32, 0)]
        path = [
            *above,
            network_node(1, middle // 8, len(above)),
            network_node(2, middle, len(above)),
            network_node(3, leaf, len(above)),
        ]
        places[instance(number)] = None if kind >= 100 - UNKNOWN else path
    return places
