"""The cluster survives the loss of its primary controller and of its database."""

from __future__ import annotations

import pytest

from .conftest import Converged
from .site import poll


@pytest.mark.systems("debian13")
def test_second_controller_takes_over_and_gives_back(quiet_site: Converged) -> None:
    site = quiet_site
    job = site.sbatch("srun sleep 300", "-N2 -w c1,c2")
    site.wait_job(job, ["RUNNING"])
    start = site.job(job)["StartTime"]
    site.run("ctl1", "systemctl stop slurmctld")
    site.run("ctl2", "scontrol takeover", check=False)
    poll(
        "the backup to answer",
        lambda: (
            "UP"
            in next(
                (
                    line
                    for line in site.run("ctl2", "scontrol ping", check=False).splitlines()
                    if "backup" in line
                ),
                "",
            )
        ),
        60,
    )
    other = site.as_user("alice", "sbatch --parsable -w c3 --wrap hostname")
    poll(
        "a job to run under the backup",
        lambda: "COMPLETED" in site.run("ctl2", f"scontrol show job {other}", check=False),
        40,
    )
    site.run("ctl1", "systemctl start slurmctld")
    poll(
        "the primary to take over again",
        lambda: "UP" in site.run("ctl1", "scontrol ping | grep primary", check=False),
        60,
    )
    info = poll("the job's record", lambda: site.job(job), 30)
    assert (info["JobState"], info["StartTime"]) == ("RUNNING", start)
    assert site.play("site.yml").changed == set()


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
