"""Attacks of an ordinary user on root: links where root writes, and names of root's files where root reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Converged
from .modules import run_plays, run_tasks

pytestmark = pytest.mark.systems("debian12")

TEAM = "/shared/security-team"
MINE = "/shared/security-alice"


@pytest.fixture
def places(quiet_site: Converged) -> Iterator[Converged]:
    """The cluster with a directory of alice's on shared storage, and the files of root's that she is after."""
    site = quiet_site
    site.run(
        "ctl1",
        f"install -d -o alice -g alice -m 0755 {TEAM} {MINE} && install -d -o alice {TEAM}/checkpoints",
    )
    site.run("login1", "echo precious > /root/victim")
    yield site
    site.run("ctl1", f"rm -rf {TEAM} {MINE}")
    site.run("login1", "rm -f /root/victim")


def mounts_play(check: bool) -> dict[str, Any]:
    """The call of role shared_storage for a cluster_mounts with these directories."""
    directories = [
        {"path": TEAM, "owner": "alice", "group": "alice", "mode": "0750"},
        {"path": f"{TEAM}/checkpoints", "owner": "alice", "group": "alice", "mode": "0770"},
    ]
    task = {
        "name": "Make the directories",
        "trainwright.slurm.config_files": {"directories": directories},
        "check_mode": check,
    }
    return {"hosts": "ctl1", "gather_facts": False, "become": True, "tasks": [task]}


def test_a_directory_that_becomes_a_link_gives_a_user_nothing(places: Converged) -> None:
    before = places.run("ctl1", "stat -c '%U:%G %a %Z' /etc/security")
    done, _plays = run_plays(places, [mounts_play(check=False)])
    assert done.returncode == 0
    assert places.run("ctl1", f"stat -c '%U %a' {TEAM}/checkpoints") == "alice 770"
    places.as_user("alice", f"rmdir {TEAM}/checkpoints && ln -s /etc/security {TEAM}/checkpoints")
    for check in (True, False):
        done, plays = run_plays(places, [mounts_play(check)])
        assert done.returncode != 0
        message = plays[0]["tasks"][-1]["hosts"]["ctl1"]["msg"]
        assert f"{TEAM}/checkpoints: is a symbolic link of alice" in message, message
        assert "Remedy" in message
    # The time of its last change too: it was not even touched.
    assert places.run("ctl1", "stat -c '%U:%G %a %Z' /etc/security") == before


def test_root_reads_and_writes_as_the_owner_of_a_job(places: Converged) -> None:
    reads = places.sbatch("id", "-J readroot -o /etc/shadow")
    writes = places.sbatch("echo step 1/2 loss 2.5", f"-J writeroot -o {MINE}/log")
    places.wait_job(writes)
    places.wait_job(reads, ("FAILED",))
    places.as_user(
        "alice", f"cd {MINE} && ln -s /root/victim r.html.tmp && ln -s /root/victim r.html"
    )
    found = run_tasks(
        places,
        [
            {
                "name": "read",
                "trainwright.slurm.train_status": {
                    "job": reads,
                    "report": f"{MINE}/shadow.html",
                },
            },
            {
                "name": "tail",
                "trainwright.slurm.slurm_job": {
                    "id": int(reads),
                    "state": "completed",
                    "timeout": 0,
                    "fail_on_error": False,
                },
            },
            {
                "name": "write",
                "trainwright.slurm.train_status": {"job": writes, "report": f"{MINE}/r.html"},
            },
            {
                "name": "elsewhere",
                "trainwright.slurm.train_status": {"job": writes, "report": "/root/r.html"},
            },
        ],
        host="login1",
    )
    secret = places.run("login1", "grep -o '^root:[^:]*:[0-9]*' /etc/shadow")
    assert secret not in str(found)
    assert "Permission denied" in found["read"]["log_problem"]
    assert found["tail"]["id"] == int(reads) and found["tail"]["output_tail"] == ""
    assert found["write"]["progress"]["step"] == 1
    assert (
        found["elsewhere"]["failed"] and "alice, the owner of the job" in found["elsewhere"]["msg"]
    )
    seen = places.run(
        "login1",
        f"grep -c {secret!r} {MINE}/shadow.html; cat /root/victim; test ! -e /root/r.html;"
        f" stat -c '%U %F' {MINE}/r.html {MINE}/shadow.html",
    )
    assert seen.splitlines() == ["0", "precious", "alice regular file", "alice regular file"]
