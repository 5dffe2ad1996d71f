# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`make test` has the tests of virtual machines where there is room for them, and `make soak` has them everywhere."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from tests.integration.machines import conftest


@pytest.mark.parametrize(
    ("processors", "accelerator", "keep", "left_out"),
    [
        (2, "tcg", False, True),
        (conftest.PROCESSORS, "tcg", False, False),
        (2, "kvm", False, False),
        (2, "tcg", True, False),
    ],
)
def test_machines_are_left_out_only_where_they_have_no_room(
    monkeypatch: pytest.MonkeyPatch, processors: int, accelerator: str, keep: bool, left_out: bool
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(processors)))
    monkeypatch.setattr(conftest.machines, "accelerator", lambda: accelerator)
    monkeypatch.setattr(conftest, "KEEP", keep)
    marks: dict[str, list[pytest.MarkDecorator]] = {"machine": [], "other": []}
    items = [
        SimpleNamespace(
            path=place / "test_one.py",
            get_closest_marker=lambda _name: None,
            add_marker=marks[name].append,
        )
        for name, place in (("machine", conftest.HERE), ("other", conftest.HERE.parent))
    ]
    conftest.pytest_collection_modifyitems(items)  # type: ignore[arg-type]
    assert [mark.name for mark in marks["machine"]] == (["soak"] if left_out else [])
    assert not marks["other"]
