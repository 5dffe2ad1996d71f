# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what differs between two records."""

from __future__ import annotations

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.training.record import (
    batch,
    comparison,
    document,
)

CODE: dict[str, t.Any] = {
    "directory": "/c", "repository": "/c", "commit": "a" * 40, "branch": "main", "remote": "", "diff": "",
    "diff_sha256": "", "diff_cut": False, "untracked": [], "left_out": 0, "script": "", "script_sha256": "",
    "problem": "",
}  # fmt: skip


def record(number: str = "1", **parts: t.Any) -> dict[str, t.Any]:
    given = {"schema": batch.SCHEMA_NAME, "job": {"id": number, "name": "train"}, **parts}
    found = document.checked(given, "x")
    assert all(found[key] is not None for key in parts), "the test's own record fits the schema"
    return found


def lines(first: dict[str, t.Any], second: dict[str, t.Any]) -> list[str]:
    return list(map(comparison.line, comparison.differences(first, second)))


def test_the_number_of_a_job_is_no_difference() -> None:
    described = {"arguments": ["--lr", "0.1"], "nodes": 2}
    assert lines(record("1", description=described), record("2", description=described)) == []
    assert lines(record(), record()) == []


def test_each_difference_is_a_line() -> None:
    packages = {"environment": "/v", "python": "3.11", "packages": {"torch": "2.5"}, "problem": ""}
    first = record(
        description={"arguments": ["--lr", "0.1"], "hooks": {"pre": "a\nb"}},
        code={**CODE, "diff": "diff --git a/t.py b/t.py\n+1\ndiff --git a/same.py b/same.py\n+1\n"},
        packages=packages,
        attempts=[{"class": "node"}, {"class": "node"}],
        metrics={"step": 9, "total": 9, "loss": 1.5, "samples_per_second": None, "seconds_per_step": None,
                 "learning_rate": None},
    )  # fmt: skip
    second = record(
        "2",
        description={"arguments": ["--lr", "0.2"], "nodes": 2},
        code={**CODE, "commit": "b" * 40, "diff": "diff --git a/t.py b/t.py\n+2\ndiff --git a/same.py b/same.py\n+1\n"},
        packages={**packages, "packages": {"torch": "2.6", "numpy": "2.0"}},
    )  # fmt: skip
    found = lines(first, second)
    assert found[:4] == [
        "description arguments: --lr 0.1 -> --lr 0.2",
        "description hooks.pre: a b -> (none)",
        "description nodes: (none) -> 2",
        f"code commit: {'a' * 12} -> {'b' * 12}",
    ]
    assert found[4].startswith("code diff of t.py: ")
    assert found[5:] == [
        "packages torch: 2.5 -> 2.6",
        "packages numpy: (none) -> 2.0",
        "attempts node: 2 failed -> (none)",
        "metrics step: 9 -> (none)",
        "metrics total: 9 -> (none)",
        "metrics loss: 1.5 -> (none)",
    ]


def test_a_long_list_of_one_record_is_one_line() -> None:
    packages = {
        "environment": "/v", "python": "3", "packages": {f"p{n}": "1" for n in range(100)}, "problem": "",
    }  # fmt: skip
    assert lines(record(), record(packages=packages)) == ["packages: (none) -> 102 entries"]
    long = lines(record(description={"command": "x" * 5000}), record(description={"command": "y"}))
    assert len(long[0]) < 300
