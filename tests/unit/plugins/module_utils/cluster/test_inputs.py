# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Input of the model and the checks: versions, truth, and only variables that a role declares."""

from __future__ import annotations

import re

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.inputs import (
    FROM_OTHER_ROLES,
    is_true,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.hooks import plan

from tests.unit.cluster import ARGUMENTS, CHECKED_ROLES, ROOT, inputs, specs


@pytest.mark.parametrize(
    ("installed", "candidate", "wanted", "method", "expected"),
    [
        ("24.11.5", "25.05.1", "", "distribution", "24.11"),
        ("", "24.11.5-4", "", "distribution", "24.11"),
        ("", "", "", "distribution", "24.11"),  # the table, before package lists were fetched
        ("", "24.11.5", "25.05.3", "repository", "25.05"),
        ("24.11.5", "", "25.05.3", "repository", "24.11"),
        ("", "24.11.5", "20.11.3", "distribution", "24.11"),  # DeepOps sets what it builds
    ],
)
def test_version(installed: str, candidate: str, wanted: str, method: str, expected: str) -> None:
    """The installed version counts, then the requested one, then the one that would be installed."""
    given = inputs(1, slurm_version=wanted, slurm_install_method=method)
    for facts in given["facts"].values():
        facts["slurm"].update(version=installed, candidate=candidate)
    assert build_model(given)["version_string"] == expected


def test_every_setting_that_is_read_has_a_spec() -> None:
    rooms = ("cluster", "hooks")
    files = [
        path for room in rooms for path in (ROOT / "plugins/module_utils" / room).rglob("*.py")
    ]
    texts = [path.read_text() for path in files]
    found = re.findall(r"""settings"?\]?(?:\.get\(|\[)\s*"(\w+)\"""", "\n".join(texts))
    # The switches of the shipped parts are in a table.
    found += [part.variable for part in plan.SHIPPED.values()]
    foreign = set(found) - set(specs(CHECKED_ROLES[0]))
    assert len(set(found)) > 25 and foreign == set(FROM_OTHER_ROLES)
    assert foreign <= set(ARGUMENTS)


def test_truth_may_come_from_the_command_line() -> None:
    assert is_true("yes") and is_true(True) and is_true("True")
    assert not is_true("no") and not is_true(False) and not is_true("maybe")
