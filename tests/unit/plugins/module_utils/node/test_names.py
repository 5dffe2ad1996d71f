# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the order of names, and of a few of many in a message."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.module_utils.node.names import natural_key, some


def test_numbers_in_names_count() -> None:
    names = ["r10n1", "r2n10", "c", "r2n9", "c01", "c1", "1"]
    assert sorted(names, key=natural_key) == ["1", "c", "c01", "c1", "r2n9", "r2n10", "r10n1"]


def test_the_rest_is_counted() -> None:
    assert (some([], 2), some(["a", "b"], 2)) == ("", "a, b")
    assert some(["a", "b", "c", "d"], 2) == "a, b and 2 more"
