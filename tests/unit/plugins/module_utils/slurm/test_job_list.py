# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the list of jobs that sll shows."""

from __future__ import annotations

import pytest

from plugins.module_utils.slurm import job_list
from plugins.module_utils.slurm.records import Job

JOBS = [
    Job(
        *(7, "llama", "alice"),
        partition="gpu",
        state="RUNNING",
        nodes="gpu[06-07]",
        node_count=2,
        tres={"gres/gpu": 16, "gres/gpu:h100": 16},
        elapsed=90061,
        time_limit=172800,
    ),
    Job(9, "wait", "bob", partition="gpu,cpu", state="PENDING", reason="Resources", priority=5),
    Job(8, "first", "bob", partition="cpu", state="PENDING", reason="Priority", priority=50),
    Job(5, "done", "alice", partition="gpu", state="COMPLETED", nodes="gpu06", node_count=1),
    Job(
        *(12, "typed", "carol"),
        partition="cpu",
        state="RUNNING",
        nodes="gpu08",
        node_count=1,
        tres={"gres/gpu:a100": 2},
        elapsed=5,
        array_job_id=11,
        array_task="3",
    ),
]


def listed(**asked: object) -> list[str]:
    return [job.name for job in job_list.shown(JOBS, **asked)]  # type: ignore[arg-type]


def test_jobs_on_nodes_come_first_and_those_that_wait_by_priority() -> None:
    assert listed() == ["llama", "typed", "first", "wait"]
    assert "done" in listed(everything=True)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"users": ["alice"]}, ["llama"]),
        ({"partitions": ["cpu"]}, ["typed", "first", "wait"]),
        ({"nodes": ["gpu07"]}, ["llama"]),
        ({"nodes": ["gpu99"]}, []),
        ({"users": ["bob"], "partitions": ["gpu"]}, ["wait"]),
    ],
)
def test_filters_must_all_hold(asked: dict[str, object], names: list[str]) -> None:
    assert listed(**asked) == names


def test_rows_say_what_is_used_and_what_is_left() -> None:
    llama, typed, first, _ = (job_list.row(job) for job in job_list.shown(JOBS))
    assert (llama["gpus"], llama["left"], llama["reason"]) == (16, 82739, "")
    assert (typed["id"], typed["gpus"], typed["left"]) == ("11_3", 2, None)
    assert (first["nodelist"], first["left"], first["reason"]) == ("", None, "Priority")


def test_the_table_is_lined_up_and_ends_with_the_sums() -> None:
    text = job_list.table([job_list.row(job) for job in job_list.shown(JOBS)])
    head, llama, *_, last = text.splitlines()
    assert head.split() == [*job_list.COLUMNS]
    assert llama.split() == [
        *("7", "alice", "llama", "gpu", "RUNNING", "16", "2"),
        *("1-01:01:01", "22:58:59", "gpu[06-07]"),
    ]
    assert last == "2 on 3 nodes with 18 GPUs, 2 waiting"
    ended = job_list.table([job_list.row(job) for job in job_list.shown(JOBS, everything=True)])
    assert "COMPLETED" in ended and ended.splitlines()[-1] == last
    assert "(Priority)" in text and all(
        len(line) <= 40 for line in job_list.table([], 40).splitlines()
    )


def test_what_a_user_names_cannot_reach_the_terminal() -> None:
    nasty = Job(
        1, "a\x1b]0;x\x07\nb\tc" + "n" * 99, "eve", state="RUNNING", nodes="c1", node_count=1
    )
    text = job_list.table([job_list.row(nasty)])
    assert len(text.splitlines()) == 3
    assert "\x1b" not in text and "\\x1b]0;x\\x07\\nb\\tc" in text
