# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the model and the checks read are variables of the role that builds the model, or listed."""

from __future__ import annotations

import re

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.inputs import (
    FROM_OTHER_ROLES,
    is_true,
)

from tests.unit.cluster import ARGUMENTS, CHECKED_ROLES, ROOT, specs


def test_every_setting_that_is_read_has_a_spec() -> None:
    texts = [path.read_text() for path in (ROOT / "plugins/module_utils/cluster").rglob("*.py")]
    found = re.findall(r"""settings"?\]?(?:\.get\(|\[)\s*"(\w+)\"""", "\n".join(texts))
    foreign = set(found) - set(specs(CHECKED_ROLES[0]))
    assert len(set(found)) > 25 and foreign == set(FROM_OTHER_ROLES)
    assert foreign <= set(ARGUMENTS)


def test_truth_may_come_from_the_command_line() -> None:
    assert is_true("yes") and is_true(True) and is_true("True")
    assert not is_true("no") and not is_true(False) and not is_true("maybe")
