"""The cluster survives the loss of its primary controller and of its database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from .conftest import Converged
from .modules import run_tasks
from .site import poll

#: A client that asks too early sleeps for a minute.
ASKED = "timeout 2 squeue -h >/dev/null && echo answers"


@pytest.mark.systems("debian13", only="a second controller")
def test_second_controller_takes_over_and_gives_back(quiet_site: Converged) -> None:
    """Jobs continue and start, the module that waits for one survives it, and site.yml finds nothing to do."""
    site = quiet_site
    job = site.sbatch("srun sleep 300", "-N2 -w c1,c2")
    site.wait_job(job, ["RUNNING"])
    start = site.job(job)["StartTime"]
    waiting = {
        "name": "j-failover",
        "nodes": 1,
        "memory": "100M",
        "time_limit": "5",
        "content": "echo began; sleep 25; echo over",
        "state": "completed",
        "timeout": 150,
        "transport": "cli",
    }
    task = {"name": "waits", "trainwright.slurm.slurm_job": waiting, "become_user": "alice"}
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(run_tasks, site, [task], host="login1")
        try:
            poll("the job", lambda: "R" in site.run("ctl1", "squeue -h -n j-failover -o %t"), 40)
            site.run("ctl1", "systemctl stop slurmctld")
            site.run("ctl2", "scontrol takeover", check=False)
            # Only the backup is left to answer.
            poll(
                "the backup to answer",
                lambda: "answers" in site.run("ctl2", ASKED, check=False),
                60,
            )
            assert "UP" in next(
                line
                for line in site.run("ctl2", "scontrol ping", check=False).splitlines()
                if "backup" in line
            )
            other = site.as_user("alice", "sbatch --parsable -w c3 --wrap hostname")
            poll(
                "a job to run under the backup",
                lambda: "COMPLETED" in site.run("ctl2", f"scontrol show job {other}", check=False),
                40,
            )
            waited = waits.result()["waits"]
        finally:
            site.run("ctl1", "systemctl start slurmctld")
    poll(
        "the primary to take over again",
        lambda: (
            "UP" in site.run("ctl1", "scontrol ping | grep primary", check=False)
            and "answers" in site.run("ctl1", ASKED, check=False)
        ),
        60,
    )
    assert not waited.get("failed") and waited["state"] == "COMPLETED", waited
    assert waited["changed"] and waited["output_tail"].splitlines() == ["began", "over"]
    info = poll("the job's record", lambda: site.job(job), 30)
    assert (info["JobState"], info["StartTime"]) == ("RUNNING", start)
    assert site.play("site.yml").changed == set()


@pytest.mark.systems("debian12")
def test_jobs_that_end_while_the_database_is_down_are_in_sacct(quiet_site: Converged) -> None:
    site = quiet_site
    jobs = [site.sbatch("sleep 4", f"-N1 -n1 --mem=100 -J outage{i}") for i in range(6)]
    site.run("ctl1", "systemctl stop mariadb")
    try:
        jobs += [site.sbatch("true", f"-N1 -n1 --mem=100 -J during{i}") for i in range(6)]
        for job in jobs:
            site.wait_job(job, timeout=90)
    finally:
        site.run("ctl1", "systemctl start mariadb")
    for job in jobs:
        poll(
            f"job {job} in sacct",
            lambda job=job: (
                site.run("ctl1", f"sacct -nPX -j {job} -o State", check=False) == "COMPLETED"
            ),
            120,
            1,
        )
