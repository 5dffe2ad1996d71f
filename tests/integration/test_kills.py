# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run that makes a change is killed with all its processes at a random moment.

One run brings the cluster to the state that the change leaves when nothing disturbs it, and the jobs run on.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Converged
from .site import SOAK, sample
from .test_drift import look
from .test_proof import listens

pytestmark = pytest.mark.systems(
    "debian13", only="shared state, and a backup that gets the change later"
)

KEYS = ["{{ local_cluster_ssh_public_key }}"]
USERS = [
    {"name": "alice", "uid": 2001, "ssh_authorized_keys": KEYS},
    {"name": "bob", "uid": 2002, "ssh_authorized_keys": KEYS},
]
TEAM = {"name": "research", "description": "The example account", "users": ["alice", "bob"]}
# A change of everything that a site changes on a live cluster, and the way back.
CHANGED: dict[str, Any] = {
    "slurm_conf": {"KillWait": 41, "PriorityType": "priority/basic"},
    "slurm_partitions": [
        {"name": "stable", "groups": ["slurm_compute"], "default": True},
        # Its QoS is one of the change: slurmctld ends at one that it does not find in the database.
        {
            "name": "late",
            "groups": ["slurm_compute"],
            "options": {"MaxTime": "8:00:00", "QOS": "urgent"},
        },
    ],
    "slurm_qos": [
        {"name": "stable", "priority": 101},
        {"name": "opportunistic", "priority": 10},
        {"name": "urgent", "priority": 500},
    ],
    "cluster_users": [*USERS, {"name": "kim", "uid": 2017, "ssh_authorized_keys": KEYS}],
    "slurm_accounts": [
        {**TEAM, "fairshare": 11},
        {"name": "nightly", "description": "Those who work late", "fairshare": 3, "users": ["kim"]},
    ],
}
BACK: dict[str, Any] = {"cluster_users": [*USERS, {"name": "kim", "uid": 2017, "state": "absent"}]}
# What no run takes back: nothing is removed from accounting, and a home stays.
STAYS = re.compile(r"\b(kim|nightly|urgent)\b")
FORGET = (
    "sacctmgr -iQ delete user name=kim; sacctmgr -iQ delete account name=nightly;"
    " sacctmgr -iQ delete qos name=urgent; rm -rf /home/kim"
)
# `make test` runs the roles that these change; `make soak` the whole of site.yml.
TAGS = () if SOAK else ("--tags", "cluster_users,slurmctld,slurm_accounts")

# Files with their modes, owners and contents, units, and what is left of an installation or of a file being written.
STATE = r"""
cd /
find etc usr/local var/lib/trainwright var/spool/slurmd var/spool/slurmctld shared/slurmctld home -xdev -maxdepth 6 \
    -printf '%p %y %m %u:%g %l\n' 2>/dev/null | grep -vE "$VOLATILE"
find etc usr/local var/lib/trainwright -xdev -type f -print0 | xargs -0 sha256sum | grep -vE "$VOLATILE"
for unit in slurmctld slurmdbd slurmd slurmrestd sackd munge mariadb ssh; do
    echo "unit $unit $(systemctl is-active $unit) $(systemctl is-enabled $unit 2>&1 | head -1)"
done
sed 's/^/group /' etc/group
systemctl --failed --plain --no-legend
dpkg --audit; ls usr/sbin/policy-rc.d 2>/dev/null
true
"""
# Slurm's own state, which changes with every job, and what the tools for accounts leave.
VOLATILE = "|".join(
    [
        r"(shared|var/spool)/slurmctld/",
        r"var/spool/slurmd/",
        # When each slurmd started.
        r"var/lib/trainwright/applied/(proved|before)\.json",
        r"etc/(passwd|group|shadow|gshadow|subuid|subgid)-( |$)",
        r"etc/(passwd|group|shadow|gshadow)\.(lock|org)",
        # Only a whole run keeps the digest, and the calls are counted.
        r"var/lib/trainwright/manifest/\.(wanted|calls) ",
        # Each entry has the number of its call.
        r"^[0-9a-f]{64}  var/lib/trainwright/manifest/",
        # Its lines are compared; a group of the user's own stays with the home.
        r"^[0-9a-f]{64}  etc/g(roup|shadow)$",
        r"home/[^/ ]+/(slurm-|\.bash_history|\.ssh/known_hosts)",
    ]
)
ACCOUNTING = (
    "for what in 'assoc format=Cluster,Account,User,Partition,Share,DefaultQOS,QOS,GrpTRES,MaxJobs'"
    " 'qos format=Name,Priority,MaxWall,Flags,Preempt' 'account format=Account,Descr,Org'"
    " 'user format=User,DefaultAccount,AdminLevel';"
    " do sacctmgr -nP show $what | sort; done"
)
SHOWN = (
    "scontrol show config | grep -E '^(KillWait|PriorityType|MpiDefault|ClusterName|SlurmctldHost)';"
    " scontrol -o show partition | sort; sinfo -hN -o '%N %P' | sort; scontrol ping | grep -o ' is .*'"
)


def state(site: Converged) -> dict[str, str]:
    """All that a run makes, by host; what Slurm and its database hold, in the controller's."""
    seen = {host: site.run(host, f"VOLATILE='{VOLATILE}'; {STATE}") for host in site.cluster.hosts}
    seen["accounting"] = site.run("ctl1", ACCOUNTING)
    seen["slurm"] = site.run("ctl1", SHOWN)
    return seen


def difference(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """The lines that only one of two states has."""
    lines = []
    for where in one.keys() | other.keys():
        first, second = (set(each.get(where, "").splitlines()) for each in (one, other))
        lines += [f"{where}: - {line}" for line in sorted(first - second)]
        lines += [f"{where}: + {line}" for line in sorted(second - first)]
    return lines


def children() -> dict[int, list[int]]:
    """The processes of this machine by their parents."""
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        try:
            text = (entry / "stat").read_text() if entry.name.isdigit() else ""
        except OSError:  # it has ended
            continue
        if text:
            found.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    return found


def kill_tree(process: subprocess.Popen[str]) -> int:
    """Kill a process with all that descends from it, which Ansible's workers do in sessions of their own.

    Each is stopped first, so that none makes another one meanwhile. Returns how many there were.
    """
    tree: list[int] = []
    new = [process.pid]
    while new:
        for pid in new:
            try:
                os.kill(pid, signal.SIGSTOP)
            except ProcessLookupError:
                continue
        tree += new
        by_parent = children()
        new = [pid for parent in tree for pid in by_parent.get(parent, []) if pid not in tree]
    for pid in tree:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate()
    return len(tree)


def killed(site: Converged, playbook: str, seconds: float, *arguments: str, **extra: Any) -> str:
    """Start a run and kill it after some seconds; what became of it."""
    process = site.start_playbook(playbook, *arguments, **extra)
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"killed after {seconds:.1f} s with {kill_tree(process)} processes"
    return f"it had ended with {process.returncode} before {seconds:.1f} s"


def drifted(site: Converged, place: Path) -> set[tuple[str, str]]:
    """What drift.yml finds other than it was left; what a run has not finished is not among it."""
    _run, results = look(site, place, rc=None)
    # The host's own result has the number of things, which a run changes.
    return {
        (one["host"], one["detail"])
        for one in results
        if one["verdict"] == "FAIL" and one["check"] != "as_left"
    }


@pytest.fixture(scope="module")
def undisturbed(
    site: Converged, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """The states before and after the change when nobody disturbs it, how long it takes, and a job that runs."""
    site.end_all_jobs()
    of_others = drifted(site, tmp_path_factory.mktemp("before"))
    before = state(site)
    job = site.sbatch("srun sleep 7200", "-N2")
    site.wait_job(job, ["RUNNING"])
    run = site.play("site.yml", *TAGS, **CHANGED)
    yield {
        "states": [before, state(site)],
        "seconds": run.seconds,
        "job": site.job(job),
        "drifted": of_others,
    }
    site.end_all_jobs()
    site.play("site.yml", *TAGS, **BACK)
    site.run("ctl1", FORGET, check=False)


# With the one at the end of this file `make test` has two.
@pytest.mark.parametrize("attempt", range(sample(1, 20)))
def test_a_change_that_was_killed_is_done_by_the_next_run(
    site: Converged, undisturbed: dict[str, Any], attempt: int, tmp_path: Path
) -> None:
    """The first attempt kills the way back, the second the change itself, and so on; a single one either."""
    seed = int(time.time()) * 100 + attempt
    chance = random.Random(seed)
    target = attempt % 2 if SOAK else chance.randrange(2)
    if target:
        site.run("ctl1", FORGET)
    extra = (BACK, CHANGED)[target]
    moment = chance.uniform(0.1, 0.7) * undisturbed["seconds"]
    what = killed(site, "site.yml", moment, *TAGS, **extra)
    # A manifest that is ahead of its host would say that something is missing there.
    ahead = drifted(site, tmp_path) - undisturbed["drifted"]
    assert not ahead, f"seed {seed}: {what}: {ahead}"
    run = site.play("site.yml", *TAGS, **extra)
    ended = "ended with 0" in what
    what = f"seed {seed}: {what}; the next run made {len(run.changed)} changes"
    print(what)
    # Late on a machine that is less busy than at first.
    assert not (ended and run.changed), f"{what}: {sorted(run.changed)}"
    lines = difference(undisturbed["states"][target], state(site))
    left = [line for line in lines if target or not STAYS.search(line)]
    assert not left, "\n".join([what, *left])
    job = undisturbed["job"]
    now = site.job(job["JobId"])
    for key in ("JobState", "StartTime", "Restarts", "NodeList"):
        assert now[key] == job[key], f"{what}: {now}"


@pytest.mark.soak("a node of its own for each attempt")
@pytest.mark.parametrize("attempt", range(5))
def test_an_addition_and_a_removal_of_a_node_that_were_killed_are_done_by_the_next_run(
    site: Converged, attempt: int
) -> None:
    seed = int(time.time()) * 100 + attempt
    chance = random.Random(seed)
    job = site.sbatch("srun sleep 7200", "-N1 -w c1")
    started = site.wait_job(job, ["RUNNING"])["StartTime"]
    new = site.cluster.add_compute(1)[0]
    try:
        limit = ("--limit", f"{new},slurm_controller")
        what = killed(site, "site.yml", chance.uniform(5, 60), *limit)
        site.play("site.yml", *limit)
        site.wait_node(new, "idle")
        site.wait_job(site.sbatch("srun hostname", f"-N1 -w {new}"))
        site.play("site.yml")
        assert site.play("site.yml").changed == set(), f"seed {seed}: {what}"
        remove = {"nodes": new, "confirm": "yes"}
        what = killed(site, "remove_nodes.yml", chance.uniform(2, 20), **remove)
        site.play("remove_nodes.yml", **remove)
        assert new not in site.run("ctl1", "sinfo -hN -o %N").split(), f"seed {seed}: {what}"
        site.cluster.forget(new)
        site.play("site.yml")
        assert new not in site.run("ctl1", "sinfo -hN -o %N; cat /etc/slurm/slurm.conf")
        assert site.play("site.yml").changed == set(), f"seed {seed}: {what}"
        info = site.job(job)
        assert (info["JobState"], info["StartTime"]) == ("RUNNING", started), f"seed {seed}: {what}"
    finally:
        site.run("ctl1", f"scancel {job}", check=False)
        site.cluster.remove(new)


def killed_before_slurmd_starts(site: Converged, **extra: Any) -> None:
    """Kill a run once the files of slurmd are written, and slurmctld runs with the new configuration."""
    process = site.start_playbook("site.yml", **extra)
    assert process.stdout is not None
    role = False
    for line in process.stdout:
        role = role or "slurmd : Point slurmd at the controllers" in line
        if role and line.startswith("changed: [c1]"):
            break
    else:
        pytest.fail("it ended without a change of slurmd's files on c1")
    kill_tree(process)


def test_the_old_values_return_after_a_killed_run(quiet_site: Converged) -> None:
    """A daemon that had started with the new ones meanwhile kept them: its stamp was that of the old ones."""
    site = quiet_site
    given = {**site.extra_vars.get("slurm_conf", {}), "CommunicationParameters": "EnableIPv6"}
    old = {host: listens(site, host, 6818) for host in ("c1", "c2")}
    unit = {"Service": {"LimitSTACK": "64M"}}
    killed_before_slurmd_starts(site, slurm_conf=given, slurmd_unit=unit)
    for host, daemon in (("c1", "slurmd"), ("login1", "sackd")):
        site.run(host, f"systemctl daemon-reload; systemctl restart {daemon}")
    assert listens(site, "c1", 6818) != old["c1"]
    # One that did not fetch what the others have, such as for a full disk.
    site.run("c2", "echo '# of yesterday' >> /run/slurm/conf/slurm.conf")
    run = site.play("site.yml")
    # c3 as well: it waited for its restart.
    assert "c[2-3]: another slurm.conf than slurmctld has handed out" in run.output
    assert {host: listens(site, host, 6818) for host in old} == old
    limit = site.run("c1", "grep 'Max stack' /proc/$(systemctl show -P MainPID slurmd)/limits")
    assert "unlimited" in limit, limit
    fetched = {
        site.run(host, "sha256sum < /run/slurm/conf/slurm.conf") for host in ("c1", "c2", "login1")
    }
    assert fetched == {site.run("ctl1", "sha256sum < /etc/slurm/slurm.conf")}
    site.wait_job(site.sbatch("srun true", "-N2 -w c1,c2"), timeout=90)
    assert not site.play("site.yml").changed
