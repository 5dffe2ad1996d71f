# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of systemctl show. Pure."""

from __future__ import annotations


def parse_show(text: str) -> list[dict[str, str]]:
    """Properties of each unit, in the order in which systemctl show was asked for them."""
    units = []
    for block in text.strip("\n").split("\n\n") if text.strip() else ():
        properties = {}
        for line in block.splitlines():
            key, equals, value = line.partition("=")
            if equals:
                properties[key] = value
        units.append(properties)
    return units
