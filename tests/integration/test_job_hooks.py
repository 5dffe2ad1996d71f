# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Job hooks on a real cluster: handed out or installed, and what a part that fails does to a job and its node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Converged
from .site import poll, sample, tail

RESULTS = "/var/lib/trainwright/results/hooks.json"
PARTS = [
    {
        "name": "probe",
        "kind": "prolog",
        "policy": "drain",
        "text": "#!/bin/sh\n[ ! -e /run/broken ] || { echo no scratch disk; exit 1; }\n",
        "remedy": "mount it",
    },
    {
        "name": "advice",
        "kind": "prolog",
        "policy": "warn",
        "text": "#!/bin/sh\n[ ! -e /run/odd ] || { echo odd; exit 1; }\n",
    },
]
HOOKS: dict[str, Any] = {"job_hooks_parts": PARTS}
TAGS = ("--tags", "job_hooks,slurmctld")


def add_group(site: Converged) -> None:
    """Switch the hooks on for the cluster, as a person does in the inventory."""
    path = Path(site.inventory) / "hosts.yml"
    path.write_text(
        path.read_text() + "        slurm_job_hooks:\n          hosts:\n            c1:\n"
    )


def take_group(site: Converged) -> None:
    path = Path(site.inventory) / "hosts.yml"
    path.write_text(path.read_text().partition("        slurm_job_hooks:")[0])


@pytest.fixture(scope="module")
def hooked(site: Converged) -> Iterator[Converged]:
    """The site with its hooks on; without them afterwards."""
    site.end_all_jobs()
    add_group(site)
    try:
        site.play("site.yml", *TAGS, **HOOKS)
        yield site
    finally:
        take_group(site)
        site.end_all_jobs()
        site.play("site.yml", "--tags", "slurmctld")
        conf = site.run("ctl1", "cat /etc/slurm/slurm.conf; ls /etc/slurm")
        assert "Prolog=" not in conf and "trainwright-prolog" not in conf
        site.wait_job(site.sbatch("true", "-w c1"))


@pytest.fixture
def quiet(hooked: Converged) -> Iterator[Converged]:
    """The site with hooks, all nodes healthy before and after a test."""
    hooked.end_all_jobs()
    yield hooked
    hooked.end_all_jobs()
    for node in ("c1", "c2"):
        hooked.run(node, "rm -f /run/broken /run/odd")
        hooked.run("ctl1", f"scontrol update nodename={node} state=resume", check=False)
        hooked.wait_node(node, "idle")


def computes(site: Converged) -> list[str]:
    return [host for host in site.cluster.hosts if host.startswith("c") and host[1:].isdigit()]


def results(site: Converged, node: str) -> dict[str, Any]:
    return json.loads(site.run(node, f"cat {RESULTS}"))


def verdicts(site: Converged, node: str) -> dict[str, str]:
    return {item["check"]: item["verdict"] for item in results(site, node)["results"]}


def drained(site: Converged) -> str:
    return site.run("ctl1", "sinfo -hR -o '%n %E'")


def test_the_nodes_have_the_programs_and_a_job_of_two_nodes_runs(quiet: Converged) -> None:
    """22.05 has them on its nodes, and named since every node has them; from 23.11 on slurmctld hands them out."""
    site = quiet
    conf = site.run("ctl1", "cat /etc/slurm/slurm.conf")
    old = site.os == "debian12"
    where = "/usr/lib/trainwright/hooks/{}" if old else "trainwright-{}"
    for kind, option in (("prolog", "Prolog"), ("epilog", "Epilog")):
        assert f"\n{option}={where.format(kind)}\n" in conf
    assert "nohold_on_prolog_fail" in conf and "PrologEpilogTimeout=" in conf
    for node in ("c1", "c2"):
        listed = site.run(node, "ls /usr/lib/trainwright/hooks").split()
        assert listed == (["epilog", "prolog"] if old else [])
    job = site.sbatch("srun -N2 hostname", "-N2 -w c1,c2")
    site.wait_job(job)
    for node in ("c1", "c2"):
        poll("the epilog", lambda node=node: "epilog.enroot" in verdicts(site, node), 20)
        assert set(verdicts(site, node).values()) == {"PASS"}
        lines = site.run(node, f"journalctl -t trainwright-hooks -o cat SLURM_JOB_ID={job}")
        assert "prolog probe: PASS in 0." in lines and "epilog job_processes: PASS" in lines
    again = site.play("site.yml", *TAGS, **HOOKS)
    assert not again.changed


@pytest.mark.systems("debian12")
def test_a_drain_part_that_fails_on_one_node_drains_it_and_the_job_runs_elsewhere(
    quiet: Converged,
) -> None:
    site = quiet
    site.run("c1", "touch /run/broken")
    away = ",".join(host for host in computes(site) if host not in ("c1", "c2"))
    options = "-N1 -o /shared/data/hooks-%j.out" + (f" -x {away}" if away else "")
    job = site.sbatch("hostname", options)
    # Slurm chooses the first of the idle nodes.
    poll("c1 to be drained", lambda: "c1" in drained(site), 60)
    drain = results(site, "c1")["hooks"]["drain"]
    assert drain["reason"] == "tw:hook:probe: exit code 1: no scratch disk -> mount it"
    assert (drain["job"], drain["mode"]) == (job, "enforce")
    # The job waits to start elsewhere, is not held, and its user reads why.
    info = poll("the job to be requeued", lambda: requeued(site, job), 30)
    assert "held" not in info["Reason"].lower() and info["Priority"] != "0"
    said = site.as_user("alice", f"cat /shared/data/hooks-{job}.out")
    assert f"c1: this job could not start here: {drain['reason']}" in said
    site.run("ctl1", f"scontrol update jobid={job} StartTime=now+2")
    assert site.wait_job(job, timeout=90)["BatchHost"] == "c2"
    assert "c2" not in drained(site)
    # Repaired: the next job clears the reason.
    site.run("c1", "rm /run/broken")
    site.run("ctl1", "scontrol update nodename=c1 state=resume")
    site.wait_job(site.sbatch("true", "-w c1"))
    assert results(site, "c1")["hooks"]["drain"] == {}


def requeued(site: Converged, job: str) -> dict[str, str] | None:
    info = site.job(job)
    return info if info.get("JobState") == "PENDING" and info.get("Restarts") == "1" else None


@pytest.mark.soak("the unit tests of the hooks' runner have parts that warn")
@pytest.mark.systems("debian12")
def test_a_warn_part_that_fails_is_reported_and_the_job_runs(quiet: Converged) -> None:
    site = quiet
    site.run("c1", "touch /run/odd")
    site.wait_job(site.sbatch("true", "-w c1"))
    assert verdicts(site, "c1")["prolog.advice"] == "WARN"
    assert "c1" not in drained(site)


@pytest.mark.systems("debian12")
def test_the_epilog_of_a_job_leaves_the_users_other_job_alone(quiet: Converged) -> None:
    """Each leaves a process in a session of its own, which Slurm does not find where it has no cgroups."""
    site = quiet
    left = "setsid sleep {} </dev/null >/dev/null 2>&1 & sleep 1; {}"
    long = site.sbatch(left.format("7101", "sleep 600"), "-w c1 -n1 --mem=100")
    site.wait_job(long, ["RUNNING"])
    short = site.sbatch(left.format("7102", "true"), "-w c1 -n1 --mem=100")
    site.wait_job(short)
    poll("the short job's process to end", lambda: not running(site, "sleep 7102"), 20)
    assert running(site, "sleep 7101") and site.job(long)["JobState"] == "RUNNING"
    site.run("ctl1", f"scancel {long}")
    poll("the long job's process to end", lambda: not running(site, "sleep 7101"), 30)


def running(site: Converged, command: str) -> str:
    return site.run("c1", f"pgrep -fx '{command}'", check=False)


@pytest.mark.systems("debian12")
def test_many_short_jobs_drain_nothing_and_none_is_lost(quiet: Converged) -> None:
    site = quiet
    count = sample(20, 500)
    script = (
        f"for i in $(seq {count}); do sbatch --parsable -n1 --mem=50 -o /dev/null --wrap true; done"
    )
    jobs = site.as_user("alice", script).split()
    assert len(jobs) == count and all(job.isdigit() for job in jobs)
    poll("all jobs to end", lambda: not site.run("ctl1", "squeue -h"), 60 + 3 * count, every=1)
    assert drained(site) == ""

    def ended() -> list[str] | None:
        lines = site.run(
            "ctl1", f"sacct -nPX -S now-1days -u alice -o jobid,state -j {','.join(jobs)}"
        )
        states = dict(line.split("|") for line in lines.splitlines())
        return list(states.values()) if len(states) == count else None

    states = poll("sacct to have all jobs", ended, 60)
    assert set(states) == {"COMPLETED"}


@pytest.mark.systems("debian12")
def test_a_script_on_one_node_is_found_by_name_and_does_not_drain_it(quiet: Converged) -> None:
    site = quiet
    # Other tests may have left files of other roles as they are not to be.
    run = site.play("drift.yml", rc=None, **HOOKS)
    assert "hook" not in run.output.partition("Print what differs")[2], tail(run.output, 20)
    path = "/usr/lib/trainwright/hooks/95-all-rootless"
    site.run("c2", f"printf '#!/bin/sh\\nexit 1\\n' >{path}; chmod 755 {path}")
    try:
        site.wait_job(site.sbatch("true", "-w c2"))
        assert drained(site) == ""
        run = site.play("drift.yml", rc=2, **HOOKS)
        assert f"c2: {path}: somebody put it there; no hook runs it" in run.output, tail(
            run.output, 20
        )
        # The directory is owned whole.
        site.play("site.yml", "--limit", "c2,slurm_controller", "--tags", "job_hooks", **HOOKS)
        assert "No such file" in site.run("c2", f"ls {path}", check=False)
    finally:
        site.run("c2", f"rm -f {path}")


@pytest.mark.soak("the unit tests have observe mode, and test_foreign.py both prologs")
@pytest.mark.systems("debian12")
def test_in_observe_mode_and_beside_the_sites_own_prolog(quiet: Converged) -> None:
    site = quiet
    for node in computes(site):
        site.run(
            node,
            "mkdir -p /etc/slurm/prolog.d; cd /etc/slurm/prolog.d;"
            " printf '#!/bin/sh\\n/bin/date +%%s%%N >/run/site-prolog\\n' >10-site; chmod 755 10-site",
        )
    given = {**site.extra_vars.get("slurm_conf", {}), "Prolog": "/etc/slurm/prolog.d/10-site"}
    try:
        more = {"slurm_conf": given, "job_hooks_mode": "observe"}
        run = site.play("site.yml", *TAGS, **{**HOOKS, **more}, rc=None)
        assert "runs before the prolog of role job_hooks" in run.output, tail(run.output, 40)
        assert run.rc == 0, tail(run.output, 40)
        conf = site.run("ctl1", "grep ^Prolog= /etc/slurm/slurm.conf").splitlines()
        assert conf == ["Prolog=/etc/slurm/prolog.d/10-site", "Prolog=trainwright-prolog"]
        site.run("c1", "touch /run/broken; rm -f /run/site-prolog")
        site.wait_job(site.sbatch("true", "-w c1"))
        assert site.run("c1", "cat /run/site-prolog").isdigit()
        assert verdicts(site, "c1")["prolog.probe"] == "FAIL" and drained(site) == ""
        assert results(site, "c1")["hooks"]["drain"]["mode"] == "observe"
        # The site's own is only on one node.
        site.run("c2", "echo '# mine' >>/etc/slurm/prolog.d/10-site")
        run = site.play("drift.yml", rc=2, **HOOKS)
        assert "10-site: differs from that of" in run.output, tail(run.output, 20)
    finally:
        site.run("c1", "rm -f /run/broken")
        site.play("site.yml", *TAGS, **HOOKS)
        for node in computes(site):
            site.run(node, "rm -r /etc/slurm/prolog.d")


@pytest.mark.systems("debian13")
def test_a_task_prolog_and_a_hook_of_slurmctld(quiet: Converged) -> None:
    """TaskProlog is on the nodes; slurmctld runs its own as slurm, and a part of it can requeue without a drain."""
    site = quiet
    task = {"name": "greet", "kind": "task_prolog", "text": "#!/bin/sh\necho export HI=hello\n"}
    gate = {
        "name": "gate",
        "kind": "prolog_slurmctld",
        "policy": "requeue",
        "text": "#!/bin/sh\n[ ! -e /run/closed ]\n",
    }
    try:
        site.play("site.yml", *TAGS, job_hooks_parts=[*PARTS, task, gate])
        assert "hello" in site.as_user("alice", "srun -w c1 printenv HI")
        site.run("ctl1", "touch /run/closed")
        job = site.sbatch("true", "-w c1")
        poll("the job to be requeued", lambda: requeued(site, job), 30)
        site.run(
            "ctl1", f"rm /run/closed; scontrol update jobid={job} StartTime=now+2", check=False
        )
        site.wait_job(job, timeout=150)
        assert drained(site) == ""
        lines = site.run("ctl1", "journalctl -t trainwright-hooks -o cat")
        assert "prolog_slurmctld gate: FAIL" in lines and "prolog_slurmctld gate: PASS" in lines
    finally:
        site.run("ctl1", "rm -f /run/closed")
        site.play("site.yml", *TAGS, **HOOKS)


@pytest.mark.systems("debian12")
def test_an_old_slurm_names_the_programs_once_every_node_has_them(quiet: Converged) -> None:
    site = quiet
    take_group(site)
    site.play("site.yml", "--tags", "slurmctld")
    add_group(site)
    # One node is not in the run.
    run = site.play("site.yml", "--limit", "c1,slurm_controller", *TAGS, **HOOKS)
    assert "c2: not in this run, and without the programs of role job_hooks" in run.output
    assert "Prolog=" not in site.run("ctl1", "cat /etc/slurm/slurm.conf")
    site.wait_job(site.sbatch("true", "-N2"))
    site.play("site.yml", *TAGS, **HOOKS)
    assert "Prolog=/usr/lib/trainwright/hooks/prolog" in site.run(
        "ctl1", "cat /etc/slurm/slurm.conf"
    )
    # Once it is named, a run without all nodes leaves it so.
    site.play("site.yml", "--limit", "c1,slurm_controller", *TAGS, **HOOKS)
    assert "Prolog=/usr/lib/trainwright/hooks/prolog" in site.run(
        "ctl1", "cat /etc/slurm/slurm.conf"
    )
    site.wait_job(site.sbatch("true", "-N2"))
