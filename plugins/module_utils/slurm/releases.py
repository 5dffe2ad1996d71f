# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm's releases in their order, and the release of a version. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re

#: All releases in order, the oldest first, with those to come: two that are far apart in it do not work together
#: (https://slurm.schedmd.com/upgrades.html).
ORDER = (
    *("20.11", "21.08", "22.05", "23.02", "23.11", "24.05"),
    *("24.11", "25.05", "25.11", "26.05", "26.11", "27.05"),
)
#: Those that the tables of options, values and capabilities speak of.
KNOWN = ORDER[ORDER.index("22.05") : ORDER.index("26.05") + 1]


def major_minor(version: str) -> tuple[int, int]:
    """Return (24, 11) for Slurm's "24.11.5" and a package's "1:24.11.5-4"; (0, 0) for what begins with no version."""
    match = re.match(r"(?:\d+:)?(\d+)\.(\d+)", version or "")
    return (int(match[1]), int(match[2])) if match else (0, 0)
