# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The accounting modules and accounts.yml on a real slurmdbd, over sacctmgr and over slurmrestd."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ..benchmarks.accounts import ACCOUNTS, USERS, tree
from .conftest import Converged
from .modules import REST_URL, Task, rest_token, run_tasks, transports
from .site import ROOT, SOAK, Run, sample

MODULE = "trainwright.slurm."
PREFIX = "twacc"
#: A thing: its module, what names it, how it is made, how it is changed. In the order of need.
THINGS: tuple[tuple[str, str, dict[str, Any], dict[str, Any], dict[str, Any]], ...] = (
    (
        "qos",
        "slurm_qos",
        {"name": f"{PREFIX}-low"},
        {"priority": 5, "options": {"MaxWall": "90", "MaxTRESPU": "cpu=4,mem=8G"}},
        {"priority": 6, "flags": ["DenyOnLimit"], "options": {"MaxTRESPU": "cpu=2"}},
    ),
    (
        "preempting qos",
        "slurm_qos",
        {"name": f"{PREFIX}-high"},
        {"preempt": [f"{PREFIX}-low"], "flags": ["NoReserve"], "options": {"GraceTime": 30}},
        {"preempt": ["normal"], "options": {"GraceTime": None, "UsageFactor": 2}},
    ),
    (
        "account",
        "slurm_account",
        {"name": PREFIX},
        {"description": "of a test", "fairshare": "3", "options": {"GrpTRES": "cpu=8,mem=16G"}},
        {"description": "still", "organization": "uni", "options": {"GrpTRES": "cpu=9"}},
    ),
    (
        "account below",
        "slurm_account",
        {"name": f"{PREFIX}-sub"},
        {"parent": PREFIX, "qos": ["normal", f"{PREFIX}-low"], "options": {"MaxJobs": 7}},
        {"parent": "root", "qos": ["normal"], "options": {"MaxJobs": None, "MaxWall": "1-0"}},
    ),
    (
        "user",
        "slurm_user",
        {"name": f"{PREFIX}u"},
        {"accounts": [PREFIX], "admin_level": "operator", "options": {"MaxSubmitJobs": 9}},
        {"default_account": "research", "admin_level": "none", "options": {"MaxJobs": 2}},
    ),
    (
        "association",
        "slurm_association",
        {"user": f"{PREFIX}v", "account": PREFIX},
        {"fairshare": "parent", "options": {"MaxJobs": 4}},
        {"fairshare": "2", "qos": ["normal"], "options": {"MaxJobs": 5, "MaxTRES": "cpu=1"}},
    ),
    (
        "association with a partition",
        "slurm_association",
        {"user": f"{PREFIX}v", "account": PREFIX, "partition": "stable"},
        {"options": {"MaxJobs": 4}},
        {"options": {"MaxJobs": None, "GrpTRES": "cpu=3"}},
    ),
    (
        "cluster",
        "slurm_cluster",
        {"name": f"{PREFIX}cluster"},
        {},
        {"options": {"MaxJobs": 50}},
    ),
)
# Objects that slurmrestd of 22.05 cannot change; nor can it remove a cluster (docs/capabilities.md).
NOT_IN_22_05 = ("account", "account below")


def cleaned(site: Converged) -> None:
    """Take out what a run of these tests may have left."""
    shown = site.run(
        "ctl1", "sacctmgr -nP show user format=user; sacctmgr -nP show account format=account"
    )
    names = [name for name in shown.split() if name.startswith(PREFIX)]
    qos = [
        n
        for n in site.run("ctl1", "sacctmgr -nP show qos format=name").split()
        if n.startswith(PREFIX)
    ]
    for kind, listed in (("user", names), ("account", names), ("qos", qos)):
        if listed:
            site.run("ctl1", f"sacctmgr -i delete {kind} {','.join(listed)}", check=False)
    site.run("ctl1", f"sacctmgr -i delete cluster {PREFIX}cluster", check=False)


@pytest.fixture
def clean_site(site: Converged) -> Iterator[Converged]:
    """The site without the things of these tests, before and after."""
    cleaned(site)
    yield site
    cleaned(site)


def cluster_of(site: Converged) -> str:
    return site.run("ctl1", "sacctmgr -nP show cluster format=cluster").splitlines()[0]


#: The options of each transport; token is a variable of the run.
REACHED: dict[str, dict[str, Any]] = {
    "cli": {"transport": "cli"},
    "rest": {"transport": "rest", "rest_url": REST_URL, "rest_token": "{{ token }}"},
}


@pytest.mark.parametrize("transport", ["cli", "rest"])
def test_every_module_creates_changes_and_removes(clean_site: Converged, transport: str) -> None:
    """Check mode is correct, each transport sees the objects of the other, and all can be removed.

    That a change is there afterwards the modules look up themselves; they would warn.
    """
    site, cluster = clean_site, cluster_of(clean_site)
    if transport not in transports(site.os):
        pytest.skip("the other Slurm's; `make soak` runs both on both")
    old = " 22.05" in site.run("ctl1", "sacctmgr --version")
    tasks: list[Task] = []
    expected: dict[str, bool] = {}

    def add(name: str, module: str, given: dict[str, Any], changes: bool, **more: Any) -> None:
        own = {} if module == "slurm_cluster" else {"cluster": cluster}
        tasks.append(
            {"name": name, MODULE + module: {**own, **REACHED[transport], **given}, **more}
        )
        expected[name] = changes

    # Debian 12's sacctmgr takes ten times as long: there one thing a module.
    things = THINGS if SOAK or not old else [thing for thing in THINGS if " " not in thing[0]]
    for what, module, key, made, _changed in things:
        given = {**key, **made}
        add(f"create {what}, check", module, given, True, check_mode=True)
        add(f"create {what}", module, given, True)
        if transport == "cli":
            add(f"create {what} again", module, given, False)
            add(f"create {what} again by rest", module, {**given, **REACHED["rest"]}, False)
    for what, module, key, _made, changed in things:
        if old and transport == "rest" and what in NOT_IN_22_05:
            continue
        add(f"change {what}", module, {**key, **changed}, True, diff=True)
    for what, module, key, _made, _changed in reversed(things):
        by = REACHED["cli"] if old and what == "cluster" else {}
        add(f"remove {what}", module, {**key, "state": "absent", **by}, True)
    results = run_tasks(site, tasks, token=rest_token(site))
    wrong = {
        name: results[name].get("msg") or results[name].get("operations")
        for name in expected
        if results[name].get("failed") or results[name]["changed"] != expected[name]
    }
    assert not wrong, json.dumps(wrong, indent=1)
    left = site.run("ctl1", "sacctmgr -nP show assoc; sacctmgr -nP show qos")
    assert PREFIX not in left
    warned = {name: results[name]["warnings"] for name in expected if results[name].get("warnings")}
    assert not warned, json.dumps(warned, indent=1)
    diff = results["change association"]["diff"]
    where = f"user {PREFIX}v in account {PREFIX}"
    assert json.loads(diff["before"])[where]["MaxJobs"] == "4"
    assert json.loads(diff["after"])[where]["MaxJobs"] == "5"


@pytest.mark.systems("debian13")
def test_errors_name_the_remedy(clean_site: Converged) -> None:
    """Wrong names with the nearest, who may not, a slurmrestd without a token, what is still needed."""
    site, cluster = clean_site, cluster_of(clean_site)
    account, cli = f"{MODULE}slurm_account", {"transport": "cli"}
    tasks: list[Task] = [
        {"name": "made", account: {"name": f"{PREFIX}phys", "cluster": cluster}},
        {"name": "below", account: {"name": f"{PREFIX}sub", "parent": f"{PREFIX}phys"}},
        {"name": "cluster", account: {"name": PREFIX, "cluster": cluster + "x"}},
        {"name": "parent", account: {"name": f"{PREFIX}x", "parent": f"{PREFIX}phyz"}},
        {"name": "option", account: {"name": f"{PREFIX}x", "options": {"MaxJobz": 1}}},
        {"name": "tres", account: {"name": f"{PREFIX}x", "options": {"GrpTRES": "gres/nono=1"}}},
        {"name": "needed", account: {"name": f"{PREFIX}phys", "state": "absent"}},
        {"name": "denied", account: {"name": f"{PREFIX}x", **cli}, "become_user": "alice"},
        {
            "name": "token",
            account: {"name": f"{PREFIX}x", "transport": "rest", "rest_url": REST_URL},
        },
    ]
    results = run_tasks(site, tasks)
    found = {name: (r.get("error"), r.get("msg", "")) for name, r in results.items()}
    assert not results["made"].get("failed") and not results["below"].get("failed"), found
    for name, kind, text in (
        ("cluster", "unknown", f"did you mean {cluster}?"),
        ("parent", "invalid", f"did you mean {PREFIX}phys"),
        ("option", "invalid", "write MaxJobs"),
        ("tres", "invalid", "AccountingStorageTRES"),
        ("needed", "invalid", f"still has account {PREFIX}sub"),
        ("denied", "denied", "-> only root"),
        ("token", "denied", "token"),
    ):
        assert found[name][0] == kind and text in found[name][1], (name, found[name])
        assert " -> " in found[name][1]
    assert f"{PREFIX}x" not in site.run("ctl1", "sacctmgr -nP show account format=account")


@pytest.mark.systems("debian13")
def test_jobs_hold_what_they_run_on(clean_site: Converged) -> None:
    """A user with a job stays, with the job's id in the error."""
    site = clean_site
    site.end_all_jobs()
    job = site.sbatch("sleep 300")
    user = {f"{MODULE}slurm_user": {"name": "alice", "state": "absent"}, "check_mode": True}
    results = run_tasks(site, [{"name": "held", **user}])
    assert results["held"]["failed"] and f"by jobs {job}" in results["held"]["msg"]
    site.run("ctl1", f"scancel {job}")


def play(site: Converged, accounting: dict[str, Any], *arguments: str, rc: int = 0) -> Run:
    """Run accounts.yml with a tree."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "accounts.json"
        path.write_text(json.dumps({"accounting": accounting}))
        return site.play("accounts.yml", "-e", f"@{path}", *arguments, rc=rc)


def accounts_of(site: Converged, root: str) -> dict[str, int]:
    """The accounts below root, each with the number of its users."""
    rows = site.run("ctl1", "sacctmgr -nP show assoc format=account,user").splitlines()
    found: dict[str, int] = {}
    for row in rows:
        account, _bar, user = row.partition("|")
        if account.startswith(root):
            found[account] = found.get(account, 0) + bool(user)
    return found


@pytest.mark.systems("debian13")
def test_a_large_tree_converges_in_one_task(clean_site: Converged) -> None:
    """20 accounts with 100 users (200 and 1,000 in `make soak`): made, unchanged, cut down, removed."""
    site, root = clean_site, f"{PREFIX}t"
    accounts, users = sample(20, ACCOUNTS), sample(100, USERS)
    made = tree(accounts, users, root)
    checked = play(site, made, "--check", "--diff")
    assert f"account {root}-g0" in checked.output and accounts_of(site, root) == {}
    assert len(checked.changed) == 1
    assert len(play(site, made).changed) == 1
    found = accounts_of(site, root)
    assert len(found) == accounts and sum(found.values()) == users + users // 5
    assert play(site, made).changed == set()
    assert play(site, made, "--check").changed == set()
    # Half of the users, and the accounts in which nobody is left, go; what others own stays.
    kept = tree(accounts // 2, users // 2, root)
    assert len(play(site, kept).changed) == 1
    assert len(accounts_of(site, root)) == accounts // 2
    assert play(site, kept).changed == set()
    users_left = site.run("ctl1", "sacctmgr -nP show user format=user").split()
    assert sum(name.startswith(root) for name in users_left) == users // 2
    assert {"alice", "bob", "root"} <= set(users_left)


@pytest.mark.systems("debian12")
def test_the_example_of_the_documentation(clean_site: Converged) -> None:
    """It is applied unchanged; then a wrong file is refused and changes nothing."""
    site = clean_site
    example = (ROOT / "docs" / "examples" / "accounts.yml").read_text()
    for name in ("university", "physics", "chemistry", "uni-", "carol"):
        example = example.replace(name, f"{PREFIX}{name}")
    # Alice and bob are the site's.
    accounting = yaml.safe_load(
        example.replace("alice", f"{PREFIX}a").replace("bob", f"{PREFIX}b")
    )["accounting"]
    assert len(play(site, accounting).changed) == 1
    assert play(site, accounting).changed == set()
    shown = site.run("ctl1", "sacctmgr -nP show assoc wopl format=account,user,maxjobs,share")
    assert f"{PREFIX}physics|{PREFIX}b|20|2" in shown
    before = site.run("ctl1", "sacctmgr -nP show assoc")
    wrong = (
        ({**accounting, "acounts": []}, "has the keys acounts"),
        ({**accounting, "accounts": []}, "accounts is empty"),
        (
            {**accounting, "owned": {"accounts_below": ["root"], "users_of": ["root"], "limit": 0}},
            "things would be removed",
        ),
        ({**accounting, "users": [{"name": "x", "accounts": ["nono"]}]}, "account nono is neither"),
    )
    for given, message in wrong:
        refused = play(site, given, rc=2)
        assert message in " ".join(refused.output.split()), refused.output
    assert site.run("ctl1", "sacctmgr -nP show assoc") == before


@pytest.mark.systems("debian13")
def test_a_slurmdbd_that_is_down_is_said_and_waited_for(clean_site: Converged) -> None:
    """Both transports report it at once without a timeout; with one, the task waits until it is back."""
    site = clean_site
    token = rest_token(site)
    site.run("ctl1", "systemctl stop slurmdbd")
    try:
        qos = f"{MODULE}slurm_qos"
        tasks: list[Task] = [
            {"name": name, qos: {"name": PREFIX, "controller_timeout": 0, **options}}
            for name, options in REACHED.items()
        ]
        results = run_tasks(site, tasks, token=token)
        for name in REACHED:
            assert results[name].get("error") == "database", results[name]
            assert "systemctl status slurmdbd" in results[name]["msg"]
        site.run("ctl1", "systemd-run --on-active=3 systemctl start slurmdbd")
        waits = run_tasks(site, [{"name": "waits", qos: {"name": PREFIX, **REACHED["cli"]}}])
        assert waits["waits"]["changed"], waits
    finally:
        site.run("ctl1", "systemctl start slurmdbd")
