# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what is taken out of the accounting, and of what never is."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import (
    plan as accounting_plan,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import (
    removals,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import (
    state as accounting,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import cli_accounting
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Job, Partition
from hypothesis import given
from hypothesis import strategies as st

# uni -> physics -> optics, uni -> chemistry; `other` is a sibling of uni.
SHOWN = {
    "cluster": "demo|10.0.0.1\n",
    "account": "root|root|root\nuni|uni|uni\nphysics|p|u\noptics|o|u\nchemistry|c|u\nother|o|o\n",
    "user": "root|root|Administrator\nalice|physics|None\nbob|other|None\ncarol|optics|Operator\n",
    "qos": "normal|0||\nuni-a|1||\nuni-b|1|uni-a|\n",
    "assoc": (
        "root||||1||\nroot|root|||1||\n"
        "uni|||root|1|normal,uni-a|\nphysics|||uni|1||\noptics|||physics|1||\n"
        "chemistry|||uni|1||\nother|||root|1||\n"
        "physics|alice|||1||\noptics|alice|||1||\nother|bob|||1||\nchemistry|bob|||1||\n"
        "optics|carol|||1||\n"
    ),
}
ALL = ("uni", "physics", "optics", "chemistry", "other")


def state_of(shown: t.Mapping[str, str] = SHOWN) -> accounting.State:
    """The accounting that the rows describe."""
    columns = {
        "cluster": accounting.CLUSTER_COLUMNS,
        "account": accounting.ACCOUNT_COLUMNS,
        "user": accounting.USER_COLUMNS,
        "qos": [*accounting.QOS_COLUMNS, "Flags"],
        "assoc": accounting.ASSOC_COLUMNS,
    }
    return accounting.State.from_rows(
        {kind: cli_accounting.parse(text, columns[kind]) for kind, text in shown.items()}
    )


def plan(
    jobs: t.Sequence[Job] = (), partitions: t.Sequence[Partition] = (), **params: t.Any
) -> list[str]:
    """Return the calls of sacctmgr."""
    wanted = accounting.wanted_from(params)
    planned = accounting_plan.plan("demo", wanted, state_of(), jobs, partitions)
    return [" ".join(cli_accounting.argv(operation)) for operation in planned.operations]


TREE: list[dict[str, t.Any]] = [
    {
        "name": "uni",
        "accounts": [{"name": "physics", "users": ["alice"]}],
    }
]


def test_without_owned_nothing_is_removed() -> None:
    """Whatever the list leaves out."""
    assert plan(accounts=TREE) == []
    assert plan() == []


def test_accounts_below_an_owned_one_go() -> None:
    """Children first, with the associations in them; a user who has another account gets it first."""
    assert plan(accounts=TREE, owned={"accounts_below": ["uni"]}) == [
        "delete user where name=alice,carol cluster=demo account=optics",
        "delete user where name=bob cluster=demo account=chemistry",
        "delete account where name=optics,chemistry",
    ]


def test_users_of_an_owned_account_go() -> None:
    """In it and below it; users left without any are removed, unless they have an admin level."""
    assert plan(accounts=TREE, owned={"users_of": ["uni"]}) == [
        "delete user where name=alice,carol cluster=demo account=optics",
        "delete user where name=bob cluster=demo account=chemistry",
    ]
    assert plan(accounts=[{"name": "other"}], owned={"users_of": ["other", "chemistry"]}) == [
        "delete user where name=bob"
    ]


def test_a_default_account_that_goes_is_replaced_before() -> None:
    """By one that the user keeps."""
    accounts = [{"name": "optics", "users": ["alice"]}]
    assert plan(accounts=accounts, owned={"users_of": ["physics"]}) == [
        "modify user where name=alice cluster=demo set defaultaccount=optics",
        "delete user where name=alice cluster=demo account=physics",
        "delete user where name=carol cluster=demo account=optics",
    ]
    assert plan(accounts=[{"name": "other"}], owned={"users_of": ["other"]}) == [
        "modify user where name=bob cluster=demo set defaultaccount=chemistry",
        "delete user where name=bob cluster=demo account=other",
    ]


def test_a_second_cluster_keeps_what_it_has() -> None:
    """Then only what is of this cluster goes."""
    state = state_of({**SHOWN, "cluster": "demo|\nhpc|\n"})
    wanted = accounting.wanted_from({"accounts": TREE, "owned": {"accounts_below": ["uni"]}})
    last = accounting_plan.plan("demo", wanted, state).operations[-1]
    assert cli_accounting.argv(last)[-1] == "cluster=demo"


def test_qos_by_pattern() -> None:
    """Those that nothing needs any more, and never normal."""
    qos = [{"name": "uni-b", "preempt": []}]
    accounts = [{"name": "uni", "qos": ["normal"]}]
    assert plan(qos=qos, accounts=accounts, owned={"qos": ["uni-*"]}) == [
        "modify qos where name=uni-b set Preempt=",
        "modify account where name=uni cluster=demo set QOS=normal",
        "delete qos where name=uni-a",
    ]
    with pytest.raises(SlurmError, match="qos uni-a by account uni"):
        plan(owned={"qos": ["*"]})


@pytest.mark.parametrize(
    "partition",
    [
        Partition("gpu", qos="uni-b"),
        Partition("gpu", qos="Uni-B"),  # as slurm.conf has it: to Slurm it is the same
        Partition("gpu", allow_qos=("normal", "uni-b")),
        Partition("gpu", deny_qos=("uni-b",)),
    ],
    ids=lambda partition: f"{partition.qos}{partition.allow_qos}{partition.deny_qos}",
)
def test_a_partition_holds_its_qos(partition: Partition) -> None:
    """A slurmctld that starts ends at a partition without it: as one QOS, and as one of the owned."""
    message = "qos uni-b: partition gpu names it, and slurmctld would not start without -> remove"
    other = Partition("cpu", qos="normal")
    with pytest.raises(SlurmError, match=message):
        plan(partitions=[other, partition], owned={"qos": ["uni-b"]})
    with pytest.raises(SlurmError, match=message):
        removals.without_qos("demo", "uni-b", state_of(), [], [other, partition])
    assert plan(partitions=[other], owned={"qos": ["uni-b"]}) == ["delete qos where name=uni-b"]
    # It stays where the list names it.
    assert plan(partitions=[partition], qos=[{"name": "uni-b"}], owned={"qos": ["uni-b"]}) == []


def test_each_qos_of_partitions_is_named() -> None:
    """With all partitions that name it."""
    partitions = [Partition(name, allow_qos=("uni-a", "uni-b")) for name in ("gpu", "cpu")]
    with pytest.raises(SlurmError) as caught:
        removals.Removals(qos=["uni-a", "uni-b"]).check_partitions(partitions)
    assert str(caught.value).startswith(
        "qos uni-a: partition cpu, gpu names it; qos uni-b: partition cpu, gpu names it, and "
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"accounts": TREE, "owned": {"accounts_below": ["unni"]}}, "did you mean uni"),
        ({"owned": {"accounts_below": ["uni"]}}, "accounts is empty"),
        ({"owned": {"users_of": ["uni"]}}, "accounts is empty"),
        (
            {"accounts": TREE, "owned": {"accounts_below": ["root"], "limit": 4}},
            "6 things would be removed",
        ),
        (
            {"accounts": [{"name": "optics"}], "owned": {"accounts_below": ["uni"]}},
            "account optics stays below it",
        ),
        (
            {
                "accounts": TREE,
                "users": [{"name": "carol", "accounts": ["optics"]}],
                "owned": {"accounts_below": ["uni"]},
            },
            "user carol: account optics is owned and not in the list",
        ),
    ],
)
def test_mistakes_remove_nothing(params: dict[str, t.Any], message: str) -> None:
    """Each message names the thing and ends in what to do."""
    with pytest.raises(SlurmError, match=message) as caught:
        plan(**params)
    assert " -> " in str(caught.value)


def test_jobs_hold_what_they_run_on() -> None:
    """With their ids; jobs that have ended do not."""
    job = Job(7, user="alice", account="optics", state="PENDING")
    with pytest.raises(SlurmError, match="user alice in account optics by jobs 7"):
        plan([job], accounts=TREE, owned={"accounts_below": ["uni"]})
    ended = Job(7, user="alice", account="optics", state="COMPLETED")
    assert plan([ended], accounts=TREE, owned={"accounts_below": ["uni"]})


@given(st.sets(st.sampled_from(ALL)), st.sets(st.sampled_from(ALL)), st.sets(st.sampled_from(ALL)))
def test_nothing_outside_the_owned_is_touched(
    listed: set[str], below: set[str], users_of: set[str]
) -> None:
    """Whatever is listed and owned: each removal lies in what is owned, and root stays."""
    state = state_of()
    params = {
        "accounts": [{"name": name} for name in sorted(listed)],
        "owned": {"accounts_below": sorted(below), "users_of": sorted(users_of)},
    }
    try:
        gone = removals.owned_removals(accounting.wanted_from(params), state)
    except SlurmError:
        return
    own = {name for root in below for name in state.below(root)}
    cleaned = own | users_of | {name for root in users_of for name in state.below(root)}
    assert set(gone.accounts) <= own - listed
    assert "root" not in gone.places and "root" not in gone.users
    for user, places in gone.places.items():
        assert {account for account, _partition in places} <= cleaned
        assert user not in gone.users or places == set(state.places[user])


# --- one thing ------------------------------------------------------------------------------------
def calls(planned: accounting.Plan) -> list[str]:
    return [" ".join(cli_accounting.argv(operation)) for operation in planned.operations]


def test_one_account() -> None:
    """An empty one goes, one that is not there needs nothing, a needed one is refused."""
    state = state_of()
    state.places["alice"].clear()
    without = removals.without_account
    assert calls(without("demo", "nono", state, [])) == []
    del state.places["carol"]
    assert calls(without("demo", "optics", state, [])) == ["delete account where name=optics"]
    with pytest.raises(SlurmError, match="account physics: still has account optics"):
        without("demo", "physics", state, [])
    with pytest.raises(SlurmError, match="still has user bob"):
        without("demo", "chemistry", state, [])
    with pytest.raises(SlurmError, match="by jobs 3"):
        without("demo", "optics", state, [Job(3, user="x", account="optics", state="RUNNING")])
    with pytest.raises(SlurmError, match="Slurm's own"):
        without("demo", "root", state, [])


def test_one_user() -> None:
    """With all his places; not while he has jobs."""
    without = removals.without_user
    assert calls(without("demo", "Bob", state_of(), [])) == ["delete user where name=bob"]
    assert calls(without("demo", "nono", state_of(), [])) == []
    with pytest.raises(SlurmError, match="by jobs 4"):
        without("demo", "bob", state_of(), [Job(4, user="bob", account="other", state="RUNNING")])
    with pytest.raises(SlurmError, match="Slurm's own"):
        without("demo", "root", state_of(), [])


def test_one_place() -> None:
    """Out of one account; the default account only when it is the last one."""
    without = removals.without_place
    assert calls(without("demo", "alice", ("optics", ""), state_of(), [])) == [
        "delete user where name=alice cluster=demo account=optics"
    ]
    assert calls(without("demo", "alice", ("chemistry", ""), state_of(), [])) == []
    with pytest.raises(SlurmError, match="physics is the default account"):
        without("demo", "alice", ("physics", ""), state_of(), [])
    assert calls(without("demo", "carol", ("optics", ""), state_of(), [])) == [
        "delete user where name=carol cluster=demo account=optics"
    ]
    shown = {**SHOWN, "assoc": SHOWN["assoc"] + "physics|alice|gpu||1||\n"}
    assert calls(without("demo", "alice", ("physics", "gpu"), state_of(shown), [])) == [
        "delete user where name=alice cluster=demo account=physics partition=gpu"
    ]


def test_one_qos() -> None:
    """Refused while an account, another QOS, a partition or a job names it."""
    without = removals.without_qos
    assert calls(without("demo", "uni-b", state_of(), [], [])) == ["delete qos where name=uni-b"]
    assert calls(without("demo", "nono", state_of(), [], [])) == []
    with pytest.raises(SlurmError, match="qos uni-a by account uni, qos uni-b"):
        without("demo", "uni-a", state_of(), [], [])
    with pytest.raises(SlurmError, match="partition gpu names it"):
        without("demo", "uni-b", state_of(), [], [Partition("gpu", allow_qos=("uni-b",))])
    with pytest.raises(SlurmError, match="qos uni-b by jobs 5"):
        without("demo", "uni-b", state_of(), [Job(5, qos="uni-b", state="RUNNING")], [])
    with pytest.raises(SlurmError, match="Slurm's own"):
        without("demo", "normal", state_of(), [], [])


def test_one_cluster() -> None:
    """Only an empty one without a slurmctld."""
    without = removals.without_cluster
    with pytest.raises(SlurmError, match="its slurmctld on 10.0.0.1"):
        without("demo", state_of())
    with pytest.raises(SlurmError, match="still has account chemistry"):
        without("demo", state_of({**SHOWN, "cluster": "demo|\n"}))
    empty = state_of({**SHOWN, "cluster": "demo|\n", "assoc": "root||||1||\nroot|root|||1||\n"})
    assert calls(without("demo", empty)) == ["delete cluster where name=demo"]
    assert calls(without("nono", empty)) == []
