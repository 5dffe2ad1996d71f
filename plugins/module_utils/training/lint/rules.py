# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""All rules for batch scripts of training. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

from . import (
    ending_rules,
    environment_rules,
    file_rules,
    image_rules,
    launch_rules,
    request_rules,
    storage_rules,
)
from .rule import Rule

#: By name, in the order in which docs/job_lint.md lists them.
RULES: dict[str, Rule] = {
    one.name: one
    for rules in (
        file_rules,
        storage_rules,
        request_rules,
        launch_rules,
        image_rules,
        environment_rules,
        ending_rules,
    )
    for one in vars(rules).values()
    if isinstance(one, Rule)
}
