# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files of root that a module brings to a state beside its other work: those of files.py with the usual attributes.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t

from . import files

_USUAL = {"owner": "root", "group": "root", "mode": None, "state": "present", "secret": False}


def plan(
    directories: t.Sequence[t.Mapping[str, t.Any]],
    listed: t.Sequence[t.Mapping[str, t.Any]],
    check: bool,
) -> files.Plan:
    """Plan them; each has path, and what differs from the usual attributes. Raises FilesError."""
    usual = {**_USUAL, "create": False}
    return files.plan_all(
        [{**usual, **spec} for spec in directories], [{**usual, **spec} for spec in listed], check
    )
