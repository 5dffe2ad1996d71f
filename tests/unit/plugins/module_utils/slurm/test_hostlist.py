# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of host lists: folding as slurm.conf takes them."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.hostlist import (
    HostlistError,
    expand,
    fold,
    fold_in_order,
)


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["c1", "c2", "c10"], "c[1-2,10]"),
        (["g02", "g01"], "g[01-02]"),
        (["a", "b1"], "a,b1"),
        (["n1a", "n2a"], "n1a,n2a"),  # Slurm takes a range at the end of a name only
        (["r1-n1", "r1-n2", "r2-n1"], "r1-n[1-2],r2-n1"),
        ([], ""),
    ],
)
def test_fold(names: list[str], folded: str) -> None:
    """Names fold as slurm.conf(5) allows, and expand to the same."""
    assert fold(names) == folded
    assert sorted(expand(folded)) == sorted(names)


@pytest.mark.parametrize(
    ("values", "folded"),
    [
        (["10.0.0.9", "10.0.0.10", "10.0.0.4"], "10.0.0.[9-10],10.0.0.4"),
        (["x", "x2", "x3"], "x,x[2-3]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n1", "n01"], "n1,n01"),
    ],
)
def test_fold_in_order(values: list[str], folded: str) -> None:
    """The n-th value stays the n-th."""
    assert fold_in_order(values) == folded


def test_expand_refuses_nonsense() -> None:
    """A malformed list is an error, not an empty list."""
    with pytest.raises(HostlistError):
        expand("c[1-")
