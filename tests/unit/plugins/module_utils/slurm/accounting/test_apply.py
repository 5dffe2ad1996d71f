# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the work of the accounting modules, on a slurmrestd in memory."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import apply
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import rest_accounting
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.session import Session
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.transport import (
    Operation,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Job, Partition
from ansible_collections.trainwright.slurm.plugins.modules import (
    slurm_account,
    slurm_accounting,
    slurm_association,
    slurm_cluster,
    slurm_qos,
    slurm_user,
)

from ..client.fake_slurmrestd import Slurmrestd

MODULES: dict[str, tuple[t.Any, t.Any]] = {
    "slurm_account": (slurm_account, apply.account),
    "slurm_accounting": (slurm_accounting, apply.tree),
    "slurm_association": (slurm_association, apply.association),
    "slurm_cluster": (slurm_cluster, apply.cluster),
    "slurm_qos": (slurm_qos, apply.qos),
    "slurm_user": (slurm_user, apply.user),
}


class Transport:
    """A transport to the slurmrestd in memory."""

    name, version, api = "rest", "24.11.5", "v0.0.42"

    def __init__(self) -> None:
        self.fake = Slurmrestd(42)
        self.failures: list[SlurmError] = []
        self.known_jobs: list[Job] = []
        self.known_partitions: list[Partition] | SlurmError = []
        self.asked_for_partitions = 0

    def accounting_rows(self, kinds: t.Any, cluster: str, columns: t.Any) -> t.Any:
        return rest_accounting.rows(self.fake.get, kinds, cluster, columns, self.api)

    def apply(self, operations: t.Sequence[Operation]) -> None:
        for request in rest_accounting.requests(operations, self.api, self.fake.get):
            if self.failures and len(self.fake.sent) % 2:
                raise self.failures.pop()
            self.fake.send(*request)

    def jobs(self, _job_id: int | None = None) -> list[Job]:
        return self.known_jobs

    def partitions(self) -> list[Partition]:
        self.asked_for_partitions += 1
        if isinstance(self.known_partitions, SlurmError):
            raise self.known_partitions
        return self.known_partitions


@pytest.fixture(name="there")
def fixture_there(monkeypatch: pytest.MonkeyPatch) -> Transport:
    """The transport of every session."""
    transport = Transport()
    monkeypatch.setattr(Session, "_transport", lambda *_: transport)
    return transport


def run(module: str, check: bool = False, **given: t.Any) -> dict[str, t.Any]:
    """Run a module's work with the defaults of its argument spec."""
    spec, work = MODULES[module][0].SPEC, MODULES[module][1]
    params = {name: entry.get("default") for name, entry in spec.items()}
    params.update({"transport": "rest", "controller_timeout": 5, **given})
    return work(Session(module, params, check))


STEPS: list[tuple[str, dict[str, t.Any]]] = [
    ("slurm_qos", {"name": "q", "priority": 5, "flags": ["DenyOnLimit"]}),
    ("slurm_account", {"name": "lab", "description": "x", "options": {"MaxJobs": 4}}),
    ("slurm_account", {"name": "vision", "parent": "lab", "qos": ["q"]}),
    ("slurm_user", {"name": "alice", "accounts": ["lab"], "admin_level": "operator"}),
    ("slurm_association", {"user": "alice", "account": "vision", "options": {"MaxJobs": 2}}),
    ("slurm_association", {"user": "alice", "account": "vision", "partition": "p"}),
    ("slurm_association", {"user": "bob", "account": "vision"}),
    ("slurm_cluster", {"cluster": "demo", "options": {"GrpJobs": 100}}),
    ("slurm_cluster", {"cluster": "hpc2"}),
]


def test_every_module_creates_changes_and_removes(there: Transport) -> None:
    """Check mode reports the same and does nothing; the second run changes nothing."""
    for module, given in STEPS:
        given = given if module == "slurm_cluster" else {**given, "cluster": "demo"}
        planned = run(module, True, **given)
        sent = len(there.fake.sent)
        done = run(module, **given)
        assert planned["changed"] and planned["operations"] == done["operations"], given
        assert len(there.fake.sent) > sent and not done["warnings"], done
        assert json.loads(done["diff"]["after"]), done
        assert not run(module, **given)["changed"], given
    assert there.fake.associations["demo", "vision", "alice", "p"] is not None
    for module, given in reversed(STEPS):
        if module == "slurm_cluster" and given["cluster"] == "demo":
            continue
        keys = ("name", "user", "account", "partition")
        named = {key: given[key] for key in keys if key in given}
        named["cluster"] = given.get("cluster", "demo")
        assert run(module, True, state="absent", **named)["changed"], named
        done = run(module, state="absent", **named)
        assert done["changed"] and done["diff"]["before"] and not done["diff"]["after"], done
        assert not run(module, state="absent", **named)["changed"], named
    assert set(there.fake.accounts) == set() and set(there.fake.qos) == {"normal"}


def test_the_only_cluster_need_not_be_named(there: Transport) -> None:
    """Of several one must be, and a wrong one is said with the nearest."""
    assert run("slurm_account", name="lab")["operations"][0].startswith(
        "add account lab cluster=demo"
    )
    with pytest.raises(SlurmError, match="did you mean demo") as caught:
        run("slurm_account", name="lab", cluster="deno")
    assert caught.value.kind == "unknown"
    there.fake.clusters["hpc"] = {}
    with pytest.raises(SlurmError, match="the accounting has demo, hpc -> set cluster"):
        run("slurm_account", name="lab")


def test_a_failover_in_the_middle_is_made_good(there: Transport) -> None:
    """Finished operations are not repeated, and all are done in the end."""
    there.failures = [SlurmError("database", "gone")]
    result = run(
        "slurm_accounting",
        accounts=[{"name": "lab", "users": ["alice"]}, {"name": "b", "parent": "lab"}],
    )
    assert result["changed"] and not there.failures and not result["warnings"]
    assert ("demo", "lab", "alice", "") in there.fake.associations


def test_bad_input_changes_nothing(there: Transport) -> None:
    """Although the first entries are good."""
    with pytest.raises(SlurmError, match="write MaxJobs"):
        run(
            "slurm_accounting",
            accounts=[{"name": "lab"}, {"name": "b", "options": {"MaxJobbs": 1}}],
        )
    with pytest.raises(SlurmError, match="account nono is neither.* -> add the account"):
        run("slurm_association", user="alice", account="nono")
    assert there.fake.sent == []


def test_the_check_before_there_is_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """site.yml --check on new machines: everything would be made. With owned nothing else."""
    given = {
        "cluster": "demo",
        "accounts": [{"name": "lab"}],
        "owned": {"accounts_below": ["lab"]},
        "controller_timeout": 0,
        "slurm_prefix": "/nonexistent",
        "transport": "cli",
    }
    result = run("slurm_accounting", True, **given)
    assert result["operations"] == ["add cluster demo", "add account lab cluster=demo Parent=root"]
    assert result["warnings"] == []
    with pytest.raises(SlurmError):
        run("slurm_accounting", False, **given)
    down = SlurmError("database", "slurmdbd does not answer")

    def refuse(*_given: t.Any) -> t.NoReturn:
        raise down

    monkeypatch.setattr(Session, "_transport", refuse)
    result = run("slurm_accounting", True, **given)
    assert result["operations"] and "slurmdbd does not answer" in result["warnings"][0]


def test_jobs_hold_an_account(there: Transport) -> None:
    """In check mode too."""
    run("slurm_account", name="lab")
    there.known_jobs = [Job(12, user="x", account="lab", state="PENDING")]
    for check in (True, False):
        with pytest.raises(SlurmError, match="account lab by jobs 12"):
            run("slurm_account", check, name="lab", state="absent")


def test_partitions_hold_a_qos(there: Transport) -> None:
    """Whichever module would remove it, in check mode too; without an answer of slurmctld as well."""
    for name in ("lab-part", "lab-old"):
        run("slurm_qos", name=name)
    calls: list[tuple[str, dict[str, t.Any]]] = [
        ("slurm_accounting", {"owned": {"qos": ["lab-*"]}}),
        ("slurm_qos", {"name": "lab-part", "state": "absent"}),
    ]
    sent = list(there.fake.sent)
    down = SlurmError("down", "slurmctld does not answer")
    answers: list[tuple[list[Partition] | SlurmError, str]] = [
        ([Partition("gpu", qos="lab-part")], "qos lab-part: partition gpu names it"),
        (down, "slurmctld does not answer"),
    ]
    for there.known_partitions, message in answers:
        for module, given in calls:
            for check in (True, False):
                with pytest.raises(SlurmError, match=message):
                    run(module, check, controller_timeout=0, **given)
    assert there.fake.sent == sent
    assert set(there.fake.qos) == {"normal", "lab-part", "lab-old"}
    # The one that no partition names goes.
    there.known_partitions = [Partition("gpu", qos="lab-part")]
    done = run("slurm_accounting", qos=[{"name": "lab-part"}], owned={"qos": ["lab-*"]})
    assert done["operations"] == ["remove qos lab-old"]
    assert set(there.fake.qos) == {"normal", "lab-part"}


def test_partitions_are_read_only_for_owned_qos(there: Transport) -> None:
    """Other removals do not need them."""
    there.known_partitions = SlurmError("down", "slurmctld does not answer")
    run("slurm_account", name="lab")
    run("slurm_account", name="vision", parent="lab")
    given = {"accounts": [{"name": "lab"}], "owned": {"accounts_below": ["lab"]}}
    assert run("slurm_accounting", **given)["changed"]
    assert not run("slurm_accounting", accounts=[{"name": "lab"}])["changed"]
    assert there.asked_for_partitions == 0
