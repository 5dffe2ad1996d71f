# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The operator's commands: drain.yml, resume.yml, and sll on a login node."""

from __future__ import annotations

import json

import pytest

from .conftest import Converged
from .site import SOAK, poll

pytestmark = pytest.mark.systems("debian12")
HEALTH = "tw:health:gpu_count: 7 of 8 GPUs -> replace it"


def scontrol(site: Converged, node: str) -> str:
    return site.run("ctl1", f"scontrol show node {node} | grep -E 'State=|Reason='")


def test_a_person_drains_nodes_and_gives_them_back(quiet_site: Converged) -> None:
    site = quiet_site
    for wrong, said in (
        (["-e", "nodes=c[1-2]"], "it takes the names and a reason"),
        (["-e", "reason=x"], "it takes the names and a reason"),
        (["-e", "nodes=c9", "-e", "reason=x"], "c9"),
        (["-e", "nodes=c1", "-e", "reason=x", "-e", "drain_wait=soon"], "drain_wait"),
    ):
        refused = site.play("drain.yml", *wrong, rc=2)
        assert said in refused.output, refused.output
    assert "DRAIN" not in scontrol(site, "c1")

    job = site.sbatch("sleep 600", "--nodes=1 --nodelist=c1 --time=20")
    poll("the job to run", lambda: site.job(job)["JobState"] == "RUNNING")
    drained = site.play("drain.yml", "-e", "nodes=c[1-2]", "-e", "reason='rack 4: new switch'")
    assert drained.changed
    assert "c1: MIXED+DRAIN, rack 4: new switch (changed)" in drained.output
    for node in ("c1", "c2"):
        assert "DRAIN" in scontrol(site, node) and "rack 4: new switch" in scontrol(site, node)
    assert site.job(job)["JobState"] == "RUNNING"

    checked = site.play("resume.yml", "-e", "nodes=c[1-2]", "--check")
    assert checked.changed and "DRAIN" in scontrol(site, "c2")
    resumed = site.play("resume.yml", "-e", "nodes=c[1-2]")
    assert resumed.changed
    assert "DRAIN" not in scontrol(site, "c1") and "DRAIN" not in scontrol(site, "c2")
    assert site.job(job)["JobState"] == "RUNNING"


def test_a_drain_of_ours_is_ended_only_on_request(quiet_site: Converged) -> None:
    site = quiet_site
    site.run("ctl1", f"scontrol update nodename=c2 state=drain reason='{HEALTH}'")
    kept = site.play("resume.yml", "-e", "nodes=ALL", rc=2)
    assert f"c2: {HEALTH}" in kept.output, kept.output
    assert "resume_force=true" in kept.output and "DRAIN" in scontrol(site, "c2")
    site.run(
        "ctl1", "scontrol update nodename=c1 state=drain reason='tw:hook:scratch: full -> empty it'"
    )
    assert site.play("resume.yml", "-e", "nodes=c1").changed and "DRAIN" not in scontrol(site, "c1")
    forced = site.play("resume.yml", "-e", "nodes=c2", "-e", "resume_force=true")
    assert forced.changed and "DRAIN" not in scontrol(site, "c2")


def test_sll_shows_the_jobs_of_all_to_an_ordinary_user(quiet_site: Converged) -> None:
    site = quiet_site
    job = site.sbatch("sleep 600", "--nodes=2 --time=20 --job-name=$'a\\e[31mb'")
    poll("the job to run", lambda: site.job(job)["JobState"] == "RUNNING")
    shown = site.as_user("bob", "sll -1 --nodes='c[1-2]'")
    (line,) = [one.split() for one in shown.splitlines() if one.startswith(job)]
    assert line[1] == "alice" and line[4:7] == ["RUNNING", "0", "2"] and line[-1] == "c[1-2]"
    assert "\x1b" not in shown and shown.endswith("1 on 2 nodes with 0 GPUs, 0 waiting")
    (one,) = json.loads(site.as_user("bob", "sll --json -u alice"))
    assert (one["id"], one["nodes"], one["state"]) == (job, 2, "RUNNING")
    assert 0 < one["left"] <= 1200
    assert site.as_user("bob", "sll -1 -u bob").endswith("0 on 0 nodes with 0 GPUs, 0 waiting")
    assert site.as_user("bob", "sll -1 -w 'c[1' 2>&1; echo $?").endswith("2")
    # A terminal gets the list again and again.
    live = site.as_user("bob", "TERM=xterm timeout 3 script -qec 'sll -i 1' /dev/null; true")
    assert live.count(f"\n{job} ") >= 2 or live.count(job) >= 2


def test_in_quarantine_a_drained_node_runs_the_jobs_of_operators_alone(
    quiet_site: Converged,
) -> None:
    site = quiet_site
    reason = "tw:health:quarantine: it has ended -> the agent resumes the node when its checks pass"
    if SOAK:
        refused = site.play("quarantine.yml", nodes="c2", rc=2)
        assert "quarantine: it takes nodes, and users" in refused.output, refused.output
    site.run("ctl1", f"scontrol update nodename=c2 state=drain reason='{HEALTH}'")
    try:
        assert site.play("quarantine.yml", nodes="c2", quarantine_users="alice").changed
        run = "srun --reservation=trainwright_quarantine -w c2 hostname"
        assert site.as_user("alice", run) == "c2"
        assert "Access denied" in site.as_user("bob", run, check=False)
        # Another operator's node comes to it, with its user, and the first one keeps both.
        assert site.play("quarantine.yml", nodes="c1", quarantine_users="bob").changed
        assert site.as_user("alice", run) == "c2"
        assert site.as_user("bob", run.replace("c2", "c1")) == "c1"
        assert site.play("quarantine.yml", nodes="c1", quarantine_end=True).changed
        shown = site.run("ctl1", "scontrol show reservation trainwright_quarantine")
        assert " Nodes=c2 " in shown and reason in scontrol(site, "c1")
        site.run("ctl1", "scontrol update nodename=c1 state=resume")
        assert "DRAIN" not in scontrol(site, "c2")
        assert not site.play("quarantine.yml", nodes="c2", quarantine_users="alice").changed
    finally:
        ended = site.play("quarantine.yml", quarantine_end=True)
    assert ended.changed and reason in scontrol(site, "c2")
    assert "No reservations" in site.run("ctl1", "scontrol show reservation")
    site.run("ctl1", "scontrol update nodename=c2 state=resume")
