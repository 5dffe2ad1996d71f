# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Sets the frequency governor of all CPUs. A machine without one, such as most virtual ones, is left as it is."""

from __future__ import annotations

import os

BASE = "/sys/devices/system/cpu"


def run(environment: dict[str, str], options: dict[str, object], base: str = BASE) -> str:
    """Return which CPUs do not take the governor in options["value"]."""
    wanted, refused = str(options["value"]), []
    for name in sorted(os.listdir(base)):
        path = f"{base}/{name}/cpufreq/scaling_governor"
        if not name[3:].isdigit() or not os.path.exists(path):
            continue
        with open(path, encoding="ascii") as handle:
            if handle.read().strip() == wanted:
                continue
        try:
            with open(path, "w", encoding="ascii") as handle:
                handle.write(wanted)
        except OSError as error:
            refused.append(f"{name} ({error.strerror})")
    return f"{wanted} is not taken by {', '.join(refused[:4])}" if refused else ""
