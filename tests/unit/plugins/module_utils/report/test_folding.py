# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Names of hosts for people: ranges, widths of numbers, and names of any form."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.report.folding import (
    folded,
    natural,
)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["gpu0006", "gpu0007", "gpu0008", "gpu0009"], "gpu[0006-0009]"),
        (["c10", "c9", "c1", "c9"], "c[1,9-10]"),
        (["gpu0999", "gpu1000"], "gpu[0999-1000]"),
        (["a01", "a1"], "a01,a1"),
        (["login", "c1"], "c1,login"),
        (["c0", "c1"], "c[0-1]"),
        (["", "a\nb1", "a\nb2"], ",a\nb[1-2]"),
    ],
)  # fmt: skip
def test_names_are_folded(names: list[str], text: str) -> None:
    assert folded(names) == text


def test_natural_order() -> None:
    assert sorted(["c10", "c9", "b", "c1"], key=natural) == ["b", "c1", "c9", "c10"]


def test_a_long_name_does_not_take_long() -> None:
    assert folded(["x" * 10_000, "1" * 10_000]).count("x") == 10_000
