# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""slurm_info on real clusters: the commands and slurmrestd show the same, filters and errors hold."""

from __future__ import annotations

from typing import Any

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import ENDED

from .conftest import Converged
from .modules import REST_URL, rest_token, run_tasks
from .site import poll

MODULE = "trainwright.slurm.slurm_info"
LISTS = ["nodes", "jobs", "partitions", "reservations", "licenses", "controllers"]
#: Fields that slurmrestd does not return before 26.05 (null or empty).
NOT_SAID = {"default", "hidden", "root_only", "preempt_mode", "over_subscribe", "comment"}
NAMED = {"jobs": "id", "controllers": "host"}


def by_name(subject: str, found: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {record[NAMED.get(subject, "name")]: record for record in found}


def test_what_slurm_shows(quiet_site: Converged) -> None:
    site = quiet_site
    job = site.sbatch("sleep 120", "--job-name='info a=b Comment=x' --time=5 --mem=100M -N1")
    site.wait_job(job, ("RUNNING",))
    site.run(
        "ctl1",
        "scontrol create reservation=info starttime=now+1day duration=60 nodes=c2 users=alice",
    )
    # A job that another test cancelled gets its exit code only when its last process is gone.
    poll("no job to be completing", lambda: not site.run("ctl1", "squeue -h -t CG"), 60)
    rest = {"transport": "rest", "rest_url": REST_URL, "rest_token": "{{ token }}"}
    whole = [*LISTS, "configuration", "events"]
    try:
        done = run_tasks(
            site,
            [
                {"name": "cli", MODULE: {"gather": whole, "events_since": "1-00:00:00"}},
                {"name": "rest", MODULE: {**rest, "gather": LISTS}},
                {"name": "check", MODULE: {"gather": whole}, "check_mode": True, "diff": True},
                {"name": "one job", MODULE: {**rest, "gather": ["jobs"], "jobs": [int(job)]}},
                {
                    "name": "filtered",
                    MODULE: {
                        "gather": ["nodes", "jobs", "reservations"],
                        "nodes": ["c[1-2]"],
                        "users": ["alice"],
                        "states": ["idle", "mixed", "allocated", "running"],
                    },
                },
                {"name": "events by rest", MODULE: {**rest, "gather": ["events"]}},
                {"name": "unknown", MODULE: {**rest, "nodes": ["c[1-2]", "c99"]}},
                {"name": "no such state", MODULE: {"states": ["DRAINN"]}},
            ],
            token=rest_token(site),
        )
    finally:
        site.run("ctl1", f"scancel {job}; scontrol delete reservation=info")
    cli, shown = done["cli"], done["rest"]
    assert (cli["transport"], shown["transport"]) == ("cli", "rest")
    assert cli["version"] == shown["version"] == done["check"]["version"]
    assert not cli["changed"] and not done["check"]["changed"]
    assert set(whole) <= set(done["check"])
    for subject in LISTS:
        before, read = by_name(subject, cli[subject]), by_name(subject, shown[subject])
        after = by_name(subject, done["check"][subject])
        assert read.keys() <= before.keys(), subject
        # Between two reads slurmctld may forget jobs that have ended (MinJobAge), and nothing else.
        gone = [before[name]["state"] for name in before.keys() - after.keys()]
        assert not gone or (subject == "jobs" and set(gone) <= ENDED), (subject, gone)
        # Jobs of other tests still end, uptimes are reported anew: what slurmrestd shows between
        # two reads by the commands is compared where these two agree.
        steady = {name: read[name] for name in before.keys() & read.keys() & after.keys()}
        assert steady or not before, subject
        for name, record in steady.items():
            assert record.keys() == before[name].keys() == after[name].keys()
            for field, value in record.items():
                if field in NOT_SAID and value in (None, ""):
                    continue
                if field != "elapsed" and before[name][field] == after[name][field]:
                    assert value == before[name][field], (subject, name, field)
    assert cli["configuration"]["settings"]["ClusterName"] == "local"
    assert cli["configuration"]["sections"]
    assert any(not event["node"] for event in cli["events"])  # the cluster registered itself

    (running,) = done["one job"]["jobs"]
    assert (running["name"], running["user"]) == ("info a=b Comment=x", "alice")
    assert (running["state"], running["time_limit"], running["exit_code"]) == ("RUNNING", 300, None)
    assert running["id"] in by_name("jobs", done["filtered"]["jobs"])
    assert by_name("nodes", done["filtered"]["nodes"]).keys() <= {"c1", "c2"}
    assert [record["name"] for record in done["filtered"]["reservations"]] == ["info"]

    refused = {name: done[name]["msg"] for name in ("events by rest", "unknown", "no such state")}
    assert all(done[name]["failed"] for name in refused)
    assert "cannot do events" in refused["events by rest"]
    assert "Slurm does not know the node c99 -> write one of: c1" in refused["unknown"]
    assert "not know the state DRAINN (did you mean DRAIN" in refused["no such state"]
