# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Services of a live cluster that would move are refused, and what is no move is not."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)

from tests.unit.cluster import inputs

from .cases import MOUNT, Case, assert_refused, each

EXTERNAL = {"host": "db9", "password": "x"}


def running(
    *controllers: str, database: str = "10.0.0.2", active: str = "ctl", **more: t.Any
) -> t.Any:
    """Return the inputs of a cluster whose slurm.conf names these hosts; slurmctld runs on one of them."""
    given = inputs(2, slurm_state_save_location="/shared/state", cluster_mounts=[MOUNT], **more)
    conf = {
        "cluster": "cluster",
        "controllers": list(controllers or ["ctl(10.0.0.2)"]),
        "database": database,
        "storage_host": "",
        "storage_database": "",
    }
    for host, facts in given["facts"].items():
        facts["service_hosts"] = dict(conf)
        daemon = "slurmd" if host.startswith("c") and host != "ctl" else "sackd"
        facts["services"] = {daemon: "active"}
    given["facts"]["ctl"]["services"] = {active and "slurmctld": "active", "slurmdbd": "active"}
    given["facts"]["ctl"]["service_hosts"].update(
        storage_host="localhost", storage_database="slurm_acct_db"
    )
    given["record"] = {"cluster": "cluster", "nodes": {}}
    return given


def group(name: str, *hosts: str, given: t.Any = None) -> t.Any:
    """Return the inputs of a running cluster with other hosts in a group."""
    given = given or running()
    given["groups"][name] = list(hosts)
    return given


def replaced(gone: bool, **facts: t.Any) -> t.Any:
    """Return the inputs where login1 is the controller; the old one is gone, or does something else."""
    given = group("slurm_controller", "login1")
    given["record"] = {}
    given["facts"]["login1"]["service_hosts"] = {}
    if gone:
        for hosts in (*given["groups"].values(), given["hosts_in_run"]):
            if "ctl" in hosts:
                hosts.remove("ctl")
        del given["facts"]["ctl"]
        given["groups"]["slurm_database"] = []
    for host, changes in facts.items():
        given["facts"][host].update(changes)
    return given


def limited(given: t.Any, *hosts: str, known: tuple[str, ...] = ()) -> t.Any:
    """Return the inputs of a run with --limit; known: the hosts on record."""
    given.update(limit=",".join(hosts), hosts_in_run=list(hosts))
    given["facts"] = {host: given["facts"][host] for host in hosts}
    if given["record"]:
        given["record"]["hosts"] = {
            host: {"name": host, "address": "10.0.0.9", "ssh_host_key": ""} for host in known
        }
    return given


def added(**facts: t.Any) -> t.Any:
    """Return the inputs where login1 becomes a backup."""
    given = group("slurm_controller", "ctl", "login1")
    given["facts"]["login1"].update(services={}, service_hosts={}, **facts)
    return given


def reinstalled() -> t.Any:
    given = running()
    given["record"] = {}
    given["facts"]["ctl"].update(service_hosts={}, services={})
    return given


def stopped() -> t.Any:
    """slurmctld of the only controller does not run; its slurm.conf and the record say what it was."""
    return group("slurm_database", "login1", given=running(active=""))


def with_variable(given: t.Any) -> t.Any:
    """Return the inputs with the variable, as -e gives it."""
    given["settings"]["slurm_allow_service_move"] = "true"
    return given


TWO = ("ctl(10.0.0.2)", "login1(10.0.0.3)")
OTHER = ("login1(10.0.0.3)",)


def says(given: t.Any, *controllers: str, of: tuple[str, ...], active: str = "") -> t.Any:
    """Return the inputs in which hosts have another slurm.conf; a daemon runs on them if it is given."""
    for host in of:
        given["facts"][host]["service_hosts"]["controllers"] = list(controllers)
        if active:
            given["facts"][host]["services"] = {active: "active"}
    return given


def returned(active: str = "") -> t.Any:
    """Return the inputs where ctl comes back with its old slurm.conf; the cluster ran on with login1 alone."""
    given = group("slurm_controller", "ctl", "login1", given=running(*TWO, active=active))
    says(given, *OTHER, of=("login1",), active="slurmctld")
    return says(given, *OTHER, of=("c1", "c2"))


def returned_for(new: str, active: str = "") -> t.Any:
    """Return the inputs where ctl is the controller again, and the new one is not in the inventory any more."""
    return says(running(active=active), new, of=("login1", "c1", "c2"))


def only_stopped(*enabled: str) -> t.Any:
    """Return the inputs after login1 was the backup and had slurmdbd, of which it still has the files."""
    given = running()
    given["facts"]["login1"]["service_hosts"].update(
        controllers=list(TWO), storage_host="localhost"
    )
    given["facts"]["login1"]["services_enabled"] = list(enabled)
    given["facts"]["ctl"]["services_enabled"] = ["slurmctld", "slurmdbd"]
    return given


def answering(given: t.Any, text: str, address: str, by: str = "ctl") -> t.Any:
    """Return the inputs of a run with the variable, in which a host reaches a SlurmctldHost at an address."""
    given["facts"][by]["controllers_reached"] = {"ctl(10.0.0.2)": "10.0.0.2", text: address}
    return with_variable(given)


def stale_alone() -> t.Any:
    """Return the inputs of a run with --limit, in which one of many nodes is away behind a former primary."""
    given = limited(
        says(running(active=""), "old(10.0.0.9)", of=("c1",)), "ctl", "c1", known=("ctl",)
    )
    given["record"]["nodes"] = {
        f"c{number}": {"host": f"c{number}", "address": f"10.8.0.{number}"}
        for number in range(1, 9)
    }
    return given


def login_of_another() -> t.Any:
    """Return the inputs where login1 is a client of another cluster, of the same name."""
    given = says(running(), "b1(10.1.0.1)", of=("login1",))
    given["host_vars"]["login1"]["slurm_login_controllers"] = ["b1"]
    return given


def backup_out() -> t.Any:
    """Return the inputs after the backup ctl2 was taken out of the inventory; slurm.conf still has it."""
    return running("ctl(10.0.0.2)", "ctl2(10.0.9.9)")


def with_packages() -> t.Any:
    """Return the inputs where the package of each daemon is on each host."""
    given = running()
    for facts in given["facts"].values():
        facts["services_enabled"] = ["slurmctld", "slurmdbd", "slurmd", "munge"]
    return given


CASES: list[Case] = [
    ("database moved", group("slurm_database", "login1"), "inventory", "group slurm_database",
     "is login1, but slurmdbd of the running cluster is on ctl: the new one would start with an empty database",
     "write ctl into the group slurm_database again, or follow docs/move_services.md"),
    ("database moved while slurmctld is down", stopped(), "inventory", "group slurm_database", "is on ctl",
     "slurm_allow_service_move: true"),
    ("database removed", group("slurm_database"), "inventory", "group slurm_database",
     "is empty, but slurmdbd of the running cluster is on ctl: accounting and its limits would end", "write ctl into"),
    ("database of a host outside the inventory", group("slurm_database", "login1", given=running(database="10.9.9.9")),
     "inventory", "group slurm_database",
     "is on 10.9.9.9", "write 10.9.9.9 into"),
    ("database turned external", running(mariadb_external=EXTERNAL), "cluster", "mariadb_external.host",
     "in slurm_acct_db of db9, but slurmdbd on ctl has them in slurm_acct_db of localhost",
     "write mariadb_external: {} again"),
    ("database renamed", running(mariadb_database="slurm2"), "cluster", "mariadb_database",
     "in slurm2 of localhost, but", "write slurm_acct_db again"),
    ("database by an option", running(slurmdbd_conf={"StorageHost": "db9"}), "cluster",
     "slurmdbd_conf.StorageHost", "in slurm_acct_db of db9", "write localhost again"),
    ("controller replaced", replaced(False), "inventory", "group slurm_controller",
     "is login1, but slurmctld of the running cluster is on ctl: it would run on",
     "write ctl into the group slurm_controller again"),
    ("controller replaced and gone", replaced(True), "inventory", "group slurm_controller",
     "is login1, but slurmctld of the running cluster is on ctl (as c[1-2] reports)", "docs/move_services.md"),
    ("another primary", group("slurm_controller", "login1", "ctl"), "inventory", "group slurm_controller",
     "is login1, then ctl, but slurmctld of the running cluster is on ctl: both would run as the primary",
     "write ctl into"),
    ("controllers swapped", group("slurm_controller", "login1", "ctl", given=running(*TWO)), "inventory",
     "group slurm_controller", "is login1, then ctl, but slurmctld of the running cluster is on ctl, then login1",
     "write ctl, login1 into"),
    ("backup removed", group("slurm_controller", "ctl", given=running(*TWO, active="")), "inventory",
     "group slurm_controller", "the backup would run on, and take over", "write ctl, login1 into"),
    ("controller back as the primary", returned(), "inventory", "group slurm_controller",
     "is ctl, then login1, but slurmctld of the running cluster is on login1: both would run as the primary",
     "write login1 into the group slurm_controller again, or follow docs/move_services.md"),
    ("controller back, and both run", returned("ctl"), "inventory", "group slurm_controller",
     "slurmctld runs with different primaries: that of ctl has ctl, that of login1 has login1",
     "systemctl stop slurmctld"),
    ("both run, and the variable is given", with_variable(returned("ctl")), "inventory", "group slurm_controller",
     "slurmctld runs with different primaries", "with the primary of the nodes as the first host"),
    ("old controller back", returned_for("new(10.0.9.9)"), "inventory", "group slurm_controller",
     "is ctl, but slurmctld of the running cluster is on new (as c[1-2],login1 reports): it would run on",
     "write new into the group slurm_controller again"),
    ("old controller back, and a node with its old slurm.conf", says(returned_for("new"), "ctl(10.0.0.2)", of=("c2",)),
     "inventory", "group slurm_controller", "is on new (as c1,login1 reports)", "write new into"),
    ("controller reinstalled", reinstalled(), "ctl", "/var/lib/trainwright/record.json",
     "has neither the record nor slurm.conf, but c[1-2],login1 run under its slurmctld", "restore the host"),
    ("backup added with a limit", limited(added(), "ctl", "login1", known=("ctl",)), "inventory", "--limit",
     "leaves out c[1-2], and login1 is a new controller: the daemons there would not know it",
     "ansible-playbook trainwright.slurm.site, without --limit"),
    ("controller replaced with a limit", limited(replaced(False), "login1"), "inventory", "--limit",
     "leaves out c[1-2],ctl, and login1 is a new controller", "without --limit"),
    ("slurmctld left behind", group("slurm_controller", "login1", given=running(slurm_allow_service_move=True)),
     "ctl", "group slurm_controller", "slurmctld runs on this host, which is not in the group",
     "systemctl disable --now slurmctld"),
    ("slurmdbd left behind", group("slurm_database", "login1", given=running(slurm_allow_service_move=True)),
     "ctl", "group slurm_database", "slurmdbd runs on this host", "systemctl disable --now slurmdbd"),
    ("slurmctld left behind, and stopped", only_stopped("slurmctld"), "login1", "group slurm_controller",
     "slurmctld starts at the next boot of this host, which is not in the group",
     "systemctl disable --now slurmctld"),
    ("slurmdbd left behind, and stopped", only_stopped("slurmdbd"), "login1", "group slurm_database",
     "slurmdbd starts at the next boot of this host", "systemctl disable --now slurmdbd"),
    ("backup out of the inventory left behind", answering(backup_out(), "ctl2(10.0.9.9)", "10.0.9.9"), "inventory",
     "group slurm_controller", "does not have ctl2 any more, but its slurmctld still answers (ctl reaches 10.0.9.9)",
     "stop it on ctl2: systemctl disable --now slurmctld"),
    ("controller left behind, as another host sees", answering(replaced(True), "ctl(10.0.0.2)", "10.0.0.2", "c1"),
     "inventory", "group slurm_controller", "its slurmctld still answers (c1 reaches 10.0.0.2)", "systemctl disable"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)


@each([case for case in CASES if "left behind" not in case[0] and "and gone" not in case[0]])
def test_it_is_one_problem(case: Case) -> None:
    """The host that would keep the old daemon is not reported a second time."""
    assert len(problems(case[1])) == 1


def allowed(given: t.Any) -> t.Any:
    given = copy.deepcopy(given)
    given["settings"]["slurm_allow_service_move"] = "true"  # as -e gives it
    given["facts"].get("ctl", {})["services"] = {}
    return given


def lost_backup(*groups: str, **more: t.Any) -> t.Any:
    """Return the inputs of two controllers of which the second does not answer, and is in these groups only."""
    given = running(*TWO, **more)
    given["groups"] = {
        name: [host for host in hosts if host != "login1"] + ["login1"] * (name in groups)
        for name, hosts in given["groups"].items()
    }
    given["hosts_in_run"] = given["groups"]["all"]
    del given["facts"]["login1"]
    if not groups:
        del given["host_vars"]["login1"]
    return given


def test_a_backup_that_is_lost_can_be_taken_out() -> None:
    """By the remedy of the problem, word for word; otherwise the run that leaves it out is refused too."""
    (silent,) = problems(lost_backup("all", "slurm_cluster", "slurm_controller"))
    assert (silent.host, silent.variable) == ("login1", "ansible_host")
    assert silent.remedy.endswith(
        "to continue without this backup, switch it off, take it out of slurm_controller, and run: ansible-playbook"
        " trainwright.slurm.site -e slurm_allow_service_move=true (docs/high_availability.md)"
    )
    for groups in ((), ("all", "slurm_cluster")):
        (gone,) = problems(lost_backup(*groups))
        assert "the backup would run on" in gone.what
        assert problems(lost_backup(*groups, slurm_allow_service_move="true")) == []


def test_the_first_controller_is_not_taken_out() -> None:
    given = group("slurm_controller", "login1", "ctl", given=lost_backup("all", "slurm_cluster"))
    (silent,) = [one for one in problems(given) if one.host == "login1"]
    assert "start the host" in silent.remedy and "slurm_allow" not in silent.remedy


def aliased() -> t.Any:
    """slurm.conf of a site's own, with names that the inventory does not have."""
    given = running("slurm-master", database="slurm-db.example.org")
    given["record"] = {}
    return given


def of_others(given: t.Any) -> t.Any:
    """Return the inputs where the other hosts were those of another cluster."""
    for host in ("c1", "c2", "login1"):
        given["facts"][host]["service_hosts"] = {"cluster": "other", "controllers": ["x"]}
    return given


def both(*states: str, conf: tuple[str, ...] = TWO) -> t.Any:
    """Return the inputs of two controllers with these states of slurmctld; the second has this slurm.conf."""
    given = group("slurm_controller", "ctl", "login1", given=running(*TWO))
    says(given, *conf, of=("login1",))
    for host, state in zip(("ctl", "login1"), states):
        given["facts"][host]["services"]["slurmctld"] = state
    return given


LEGAL = [
    both("active", "active"),
    both("inactive", "active"),  # the backup is in charge
    both("failed", "failed"),
    both("active", "inactive"),
    # A backup that was lost is written into the group again; its old slurmctld starts with the host.
    group(
        "slurm_controller",
        "ctl",
        "login1",
        given=says(both("active", "active"), *TWO[:1], of=("ctl", "c1", "c2")),
    ),
    # A backup was added, and slurmctld did not start afterwards: the nodes do not know it yet.
    says(both("failed", "failed"), *TWO[:1], of=("c1", "c2")),
    # A backup that has a slurm.conf from an earlier life.
    both("active", "inactive", conf=OTHER),
    running(active=""),
    # The nodes do not agree, or name the same host in other words.
    says(running(active=""), "new", of=("c1",)),
    says(says(running(active=""), "new", of=("c1",)), "newer", of=("c2",)),
    says(running(active=""), "ctl.example.org", of=("login1", "c1", "c2")),
    says(running(active=""), "10.0.0.2", of=("login1", "c1", "c2")),
    # A backup that was taken out as the guide has it.
    only_stopped("munge"),
    with_variable(backup_out()),
    # Other names and addresses of the controllers, and what a name of this host leads to.
    answering(backup_out(), "slurm-master", "10.0.0.2"),
    answering(backup_out(), "slurm-master", "127.0.1.1"),
    answering(group("slurm_controller", "ctl", "login1", given=running(*TWO)), "head2", "10.0.0.3"),
    answering(
        group("slurm_controller", "ctl", "login1", given=running(*TWO)), *TWO[1:], "10.0.0.3"
    ),
    # An image with all packages of Slurm: the units are enabled, and the daemons end without their configuration.
    with_packages(),
    # Controller and compute node in one, with nodes of another cluster.
    of_others(running(active="")),
]


@pytest.mark.parametrize(
    "given",
    [
        running(),
        running("ctl.example.org"),
        running("ctl", database="localhost"),
        running("ctl", database="ctl"),
        running(database=""),  # accounting comes later
        running(mariadb_external={}, slurmdbd_conf={"StorageHost": "127.0.0.1"}),
        group("slurm_controller", "ctl", "login1"),  # a backup is added
        group("slurm_controller", "ctl", "login1", given=running(*TWO)),
        limited(running(), "ctl", "c1", known=("ctl",)),
        limited(running(), "ctl", "c1"),  # a record of an earlier release
        limited(added(), "ctl", "login1", "c1", "c2", known=("ctl",)),
        limited(added(), "ctl", "login1", known=("ctl", "login1")),
        limited(group("slurm_controller", "ctl", "login1", given=running(*TWO)), "ctl", "login1"),
        limited(aliased(), "ctl", "c1"),
        aliased(),
        of_others(replaced(True)),
        *LEGAL,
        stale_alone(),
        answering(login_of_another(), "b1(10.1.0.1)", "10.1.0.1", by="login1"),
        *(allowed(case[1]) for case in CASES if case[0] in ("database moved", "database removed", "backup removed",
                                                            "controller replaced", "controller replaced and gone",
                                                            "controllers swapped", "controller reinstalled",
                                                            "backup added with a limit")),
    ],
)  # fmt: skip
def test_what_is_allowed(given: t.Any) -> None:
    assert problems(given) == []
