# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Looks at what the inventory gives for units (<role>_unit): systemd starts them without the lines that it cannot read.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import typing as t

from .services import ServicesError, run
from .unit_properties import UNIT_FILES


def check(units: t.Iterable[str], directory: str = UNIT_FILES) -> list[str]:
    """Return the lines of the roles' drop-ins that systemd does not know, for units that are to be started.

    They may be of a newer systemd. units: full names. Raises ServicesError for values that it does not take.
    """
    files = {unit: os.path.join(directory, unit + ".d", "trainwright.conf") for unit in units}
    files = {unit: path for unit, path in files.items() if os.path.exists(path)}
    if not files:
        return []
    try:
        said = run(["systemd-analyze", "verify", "--man=no", *files]).stderr
    except OSError:  # not installed
        return []
    own = tuple(f"{path}:" for path in files.values())
    found = [line for line in said.splitlines() if line.startswith(own) and "gnoring" in line]
    unknown = [line for line in found if "Unknown" in line]
    wrong = [line for line in found if line not in unknown]
    if wrong:
        raise ServicesError(
            "nothing was started; systemd does not take %s. Remedy: correct the value where the inventory has it "
            "(<role>_unit), and run again" % "; ".join(wrong)
        )
    return unknown
