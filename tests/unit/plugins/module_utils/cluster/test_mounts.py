# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of mounts."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.mounts import (
    expand,
    normalise_mounts,
)


def test_mounts() -> None:
    """Mounts are complete, and parents come first."""
    mounts = normalise_mounts(
        [
            {
                "path": "/home/data/",
                "source": "nas:/d",
                "directories": [{"path": "/home/data/x", "mode": "1777"}],
            },
            {
                "path": "/home",
                "source": "nas:/h",
                "fstype": "nfs4",
                "options": ["rw", "hard"],
                "purpose": "home",
            },
        ]
    )
    assert [mount["path"] for mount in mounts] == ["/home", "/home/data"]
    assert mounts[0]["options"] == "rw,hard"
    assert mounts[1]["directories"] == [
        {
            "path": "/home/data/x",
            "owner": "root",
            "group": "root",
            "mode": "1777",
            "recursive": False,
            "remove_after_days": 0,
        }
    ]


def test_28_directories_of_7_models_are_one_line() -> None:
    pattern = "/fsx2/model{1..7}/{checkpoints,outputs,training_logs,tensorboard}"
    (mount,) = normalise_mounts(
        [
            {
                "path": "/fsx2",
                "source": "x@tcp:/fsx2",
                "fstype": "lustre",
                "directories": [{"path": pattern, "group": "research", "mode": "2775"}],
            }
        ]
    )
    paths = [one["path"] for one in mount["directories"]]
    assert len(set(paths)) == 28
    assert paths[0] == "/fsx2/model1/checkpoints" and paths[-1] == "/fsx2/model7/tensorboard"
    assert {(one["group"], one["mode"]) for one in mount["directories"]} == {("research", "2775")}


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("/a", ["/a"]),
        ("/a{1..3}", ["/a1", "/a2", "/a3"]),
        ("/a{08..10}/x", ["/a08/x", "/a09/x", "/a10/x"]),
        ("/{a,b}{1..2}", ["/a1", "/a2", "/b1", "/b2"]),
        ("/a{5..5}", ["/a5"]),
    ],
)
def test_patterns(pattern: str, paths: list[str]) -> None:
    assert expand(pattern) == paths


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("/a{3..1}", "counts down"),
        ("/a{1...3}", "neither a range"),
        ("/a{b}", "neither a range"),
        ("/a{b,,c}", "neither a range"),
        ("/a{", "without its partner"),
        ("/a}", "without its partner"),
        ("/{a,{b,c}}", "without its partner"),
        ("/a{1..999999}", "more than 4096"),
        ("/a{1..100}/{1..100}", "more than 4096"),
        ("/a" + "{1..4}" * 1000, "more than 4096"),
    ],
)
def test_patterns_that_are_wrong(pattern: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        expand(pattern)
