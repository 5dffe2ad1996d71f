"""The cluster survives the loss of its primary controller and of its database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from . import power
from .conftest import Converged
from .modules import run_tasks
from .site import SOAK, poll

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
    # As after a first run, in which slurmctld has not written it by itself yet.
    kept = "/shared/slurmctld/assoc_mgr_state"
    site.run("ctl1", f"rm {kept}")
    assert {(host, task.split(" | ")[-1]) for host, task in site.play("site.yml").changed} == {
        ("ctl1", "Make the accounting records as declared")
    }
    site.run("ctl1", f"test -s {kept}")


#: Seconds; with the 120 of a real cluster, each cut would take minutes.
TIMEOUT = 8
# Slurm looks every third of it; the rest is for slurmdbd, which is lost here too, and for a busy machine.
LONGEST = TIMEOUT * 4 / 3 + power.DATABASE_WAIT + 25


@pytest.mark.systems("debian13", only="a second controller")
def test_power_cuts_of_the_controllers_in_turn(quiet_site: Converged) -> None:
    """The primary, which has the database, and the backup lose power in turn, while jobs are submitted."""
    site = quiet_site
    long = site.sbatch("sleep 3000", "-N2 -w c1,c2 --mem=50M")
    site.wait_job(long, ["RUNNING"])
    start, cuts, drained = site.job(long)["StartTime"], [], []
    with power.short_timeout(site, TIMEOUT):
        with power.stream(site) as jobs:
            if SOAK:
                for _ in range(10):
                    cuts.append(power.cut_primary(site, TIMEOUT))
                    power.cut_backup(site)
                    # With every node drained, the rest of the stream would only wait.
                    drained += power.resume(site)
                    print(cuts[-1])
            cuts.append(power.cut_primary(site, TIMEOUT, backup_too=True))
        drained += power.resume(site)
        unsaved, lost = jobs.lost([at for cut in cuts for at in cut.at])
    records = {state: len(found) for state, found in jobs.records().items()}
    print(
        f"{cuts[-1]}; {len(jobs.accepted)} jobs accepted, {unsaved} lost with the cuts, {drained} drained,"
        f" in sacct {records}"
    )
    assert not lost, (lost, jobs.accepted, cuts)
    assert max(cut.takeover for cut in cuts) < LONGEST, cuts
    info = site.job(long)
    assert (info["JobState"], info["StartTime"]) == ("RUNNING", start)
    site.wait_job(site.sbatch("srun hostname", "-w c3"))


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
