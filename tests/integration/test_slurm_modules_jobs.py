"""slurm_job on real clusters, by the commands and by slurmrestd: submit, find, wait, fail, cancel."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from .conftest import Converged
from .modules import REST_URL, Results, rest_token, run_tasks, transports

MODULE = "trainwright.slurm.slurm_job"
SMALL = {"nodes": 1, "memory": "100M", "time_limit": "5"}


def jobs(site: Converged, transport: str, tasks: dict[str, dict[str, Any]]) -> Results:
    """Run tasks of slurm_job as alice; by slurmrestd with her token, from a root on the controller."""
    common: dict[str, Any] = {"transport": transport}
    extra: dict[str, Any] = {"become_user": "alice"}
    host, variables = "login1", {}
    if transport == "rest":
        common |= {"rest_url": REST_URL, "rest_token": "{{ token }}"}
        host, extra, variables = "ctl1", {}, {"token": rest_token(site, "alice")}
    made = []
    for name, task in tasks.items():
        module = {"ansible.builtin.file": task} if "path" in task else None
        options = {key: value for key, value in task.items() if key != "check_mode"}
        checked = {"check_mode": True, "diff": True} if task.get("check_mode") else {}
        made.append(
            {"name": name, **extra, **checked, **(module or {MODULE: {**common, **options}})}
        )
    return run_tasks(site, made, host=host, **variables)


def test_the_life_of_a_job(quiet_site: Converged) -> None:
    """In `make soak` by both transports at the same time, under names of their own."""
    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(life, quiet_site, name) for name in transports(quiet_site.os)]:
            future.result()


def life(site: Converged, transport: str) -> None:
    """Submit, find, wait for, fail and cancel jobs."""
    prefix = f"j-{transport}"
    go = f"/home/alice/{prefix}.go"
    site.run("login1", f"rm -f {go}")
    # It sleeps for so long that a busy machine's next task still finds it; an ended one would be submitted anew.
    one = {
        **SMALL,
        "name": f"{prefix}-one",
        "content": f'#!/bin/bash\necho "began $WORD $1 in $PWD"\nuntil [ -e {go} ]; do sleep 0.1; done\n'
        "sleep 15\nsrun -n1 echo stepped\n",
        "environment": {"WORD": "so, well"},
        "arguments": ["first arg"],
        "output": "%x-%j.out",
    }
    said = "first arg"
    if (transport, site.os) == ("rest", "debian12"):
        # 22.05's slurmrestd dies of arguments.
        refused = jobs(site, transport, {"refused": one})["refused"]
        assert refused["error"] == "impossible" and "23.02" in refused["msg"], refused
        one.pop("arguments")
        said = ""
    bad = {
        **SMALL,
        "name": f"{prefix}-bad",
        "state": "completed",
        "timeout": 60,
        "content": "#!/bin/bash\n#SBATCH --error=j-%j.err\necho fine\necho 'no such data' >&2\nexit 3\n",
    }
    sleeper = {**SMALL, "name": f"{prefix}-sleep", "content": "sleep 300", "comment": "x"}
    done = jobs(
        site,
        transport,
        {
            "tried": {**one, "check_mode": True},
            "submitted": one,
            "again": one,
            "tried again": {**one, "check_mode": True},
            "sleeps": sleeper,
            "another sleeps": {**sleeper, "force": True},
            "go": {"path": go, "state": "touch", "mode": "0644"},
            "completed": {**one, "state": "completed", "timeout": 60, "accounting": True},
            "looked at": {**sleeper, "state": "completed", "timeout": 0},
            "failed": bad,
            "borne": {**bad, "fail_on_error": False},
            "array": {
                **SMALL,
                "name": f"{prefix}-array",
                "array": "1-2",
                "state": "completed",
                "timeout": 60,
                "content": "#!/bin/sh\ntest $SLURM_ARRAY_TASK_ID = 1",
            },
            "cancel tried": {"name": f"{prefix}-sleep", "state": "cancelled", "check_mode": True},
            "cancelled": {"name": f"{prefix}-sleep", "state": "cancelled"},
            "cancelled again": {"name": f"{prefix}-sleep", "state": "cancelled"},
            "no account": {**SMALL, "name": "x", "content": "true", "account": "nobodys"},
            "nowhere": {**SMALL, "name": "x", "content": "true", "partition": "stabel"},
            "no such job": {"id": 4000000, "state": "completed"},
        },
    )
    tried, submitted = done["tried"], done["submitted"]
    assert (tried["changed"], tried["id"]) == (True, None), tried
    assert "began" in tried["diff"]["after"] and "so, well" not in tried["diff"]["after"]
    assert submitted["changed"] and submitted["id"] > 0, submitted
    for name in ("again", "tried again"):
        assert (done[name]["changed"], done[name]["id"]) == (False, submitted["id"]), done[name]

    completed = done["completed"]
    assert not completed["changed"] and completed["id"] == submitted["id"], completed
    assert (completed["state"], completed["exit_code"]) == ("COMPLETED", 0), completed
    assert completed["output_tail"].splitlines() == [
        f"began so, well {said} in /home/alice",
        "stepped",
    ]
    assert completed["stdout"] == f"/home/alice/{prefix}-one-{submitted['id']}.out"
    assert completed["elapsed"] >= 15 and completed["node_count"] == 1 and completed["nodes"]
    assert completed["user"] == "alice" and completed["workdir"] == "/home/alice"
    assert completed["accounting"]["state"] == "COMPLETED", completed["accounting"]
    assert completed["accounting"]["account"] == completed["account"]

    looked = done["looked at"]
    assert looked["id"] == done["another sleeps"]["id"] != done["sleeps"]["id"], looked
    assert not looked["ended"] and not looked.get("failed"), looked
    failed = done["failed"]
    assert failed["failed"] and (failed["state"], failed["exit_code"]) == ("FAILED", 3), failed
    assert failed["output_tail"] == "fine" and failed["stderr_tail"] == "no such data", failed
    assert "failed with exit code 3" in failed["msg"] and "no such data" in failed["msg"]
    assert f"see /home/alice/j-{failed['id']}.err" in failed["msg"]
    assert done["borne"]["changed"] and not done["borne"].get("failed"), done["borne"]
    array = done["array"]
    assert array["failed"] and array["failed_task"] == "2" and len(array["tasks"]) == 2, array

    ids = sorted([done["sleeps"]["id"], done["another sleeps"]["id"]])
    assert done["cancel tried"]["changed"] and done["cancelled"]["cancelled"] == ids
    assert done["cancelled"]["state"] == "CANCELLED" and done["cancelled"]["ended"]
    assert not done["cancelled again"]["changed"]
    account, partition = done["no account"], done["nowhere"]
    assert account["failed"] and "does not have the account nobodys" in account["msg"], account
    assert partition["failed"] and "did you mean stable" in partition["msg"], partition
    assert done["no such job"]["failed"] and "knows a job 4000000" in done["no such job"]["msg"]
    assert f"{prefix}-" not in site.run("ctl1", "squeue -h -o %j")


@pytest.mark.systems("debian12")
def test_check_mode_refuses_what_slurm_would(quiet_site: Converged) -> None:
    done = jobs(
        quiet_site,
        "cli",
        {
            "wrong": {"name": "x", "content": "true", "partition": "stabel", "check_mode": True},
            "too many": {"name": "x", "content": "true", "nodes": 500, "check_mode": True},
            "not a script": {"name": "x", "content": "#!/bin/sh\r\ntrue\r\n", "check_mode": True},
        },
    )
    assert "did you mean stable" in done["wrong"]["msg"]
    assert "nodes 500" in done["too many"]["msg"]
    assert "dos2unix" in done["not a script"]["msg"]
