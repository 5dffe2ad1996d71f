# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the accounting planner against what sacctmgr 22.05 and 24.11 print (the same)."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import (
    plan as accounting_plan,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import (
    state as accounting,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import cli_accounting
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit import samples

# sacctmgr -nP show ..., with the columns that the planner asks for.
SHOWN = {
    "cluster": "demo|127.0.0.1\n",
    "account": "lab|the lab|uni\nlab2|lab2|lab\nroot|default root account|root\n",
    "user": "alice|lab|Operator\nalice|lab|Operator\nbob|lab2|None\nroot|root|Administrator\n",
    "qos": "normal|0||||||\nhigh|100|normal|DenyOnLimit|cpu=10,mem=10G|1-00:00:00|00:02:00|4\n",
    "assoc": (
        "root||||1|normal||\n"
        "root|root|||1|normal||\n"
        "lab|||root|10|normal||5\n"
        "lab|alice|||1|high,normal|high|5\n"
        "lab2|||lab|parent|normal||5\n"
        "lab2|alice|||1|high,normal|high|5\n"
        "lab2|bob|||1|normal||5\n"
        "lab2|bob|gpu||1|normal||5\n"
    ),
}
COLUMNS = {
    "cluster": list(accounting.CLUSTER_COLUMNS),
    "account": list(accounting.ACCOUNT_COLUMNS),
    "user": list(accounting.USER_COLUMNS),
    "qos": [
        *accounting.QOS_COLUMNS,
        *("Flags", "GrpTRES", "MaxWall", "GraceTime", "MaxJobsPerUser"),
    ],
    "assoc": [*accounting.ASSOC_COLUMNS, "MaxJobs"],
}
AS_IT_IS: dict[str, t.Any] = {
    "qos": [
        {
            "name": "high",
            "priority": 100,
            "preempt": ["normal"],
            "options": {
                "Flags": "denyonlimit",
                "GrpTRES": {"mem": 10240, "cpu": 10},
                "MaxWall": "1440",
                "GraceTime": 120,
                "MaxJobsPerUser": 4,
            },
        }
    ],
    "accounts": [
        {"name": "lab2", "parent": "lab", "fairshare": "parent", "users": ["bob"]},
        {"name": "lab", "description": "The Lab", "organization": "UNI", "fairshare": "10"},
    ],
    "users": [
        {
            "name": "alice",
            "default_account": "lab",
            "accounts": ["lab2"],
            "admin_level": "operator",
            "qos": ["normal", "high"],
            "default_qos": "high",
        }
    ],
}


@pytest.fixture(name="state")
def fixture_state() -> accounting.State:
    """The accounting that SHOWN describes."""
    return accounting.State.from_rows(
        {kind: cli_accounting.parse(text, COLUMNS[kind]) for kind, text in SHOWN.items()}
    )


def plan(state: accounting.State, **params: t.Any) -> list[list[str]]:
    """Return the planned calls of sacctmgr on cluster demo."""
    planned = accounting_plan.plan("demo", accounting.wanted_from(params), state)
    return [cli_accounting.argv(operation) for operation in planned.operations]


def test_what_is_so_already_needs_no_call(state: accounting.State) -> None:
    """Units, order and letter case do not make a difference where Slurm makes none."""
    assert plan(state, **AS_IT_IS) == []


def test_everything_from_nothing() -> None:
    """Parents come before children; equal things share a call; Preempt comes last."""
    assert plan(accounting.State(), **AS_IT_IS) == [
        ["add", "cluster", "demo"],
        [
            *("add", "qos", "high", "Priority=100", "Flags=denyonlimit"),
            *("GrpTRES=mem=10240,cpu=10", "MaxWall=1440", "GraceTime=120", "MaxJobsPerUser=4"),
        ],
        ["modify", "qos", "where", "name=high", "set", "Preempt=normal"],
        [
            *("add", "account", "lab", "cluster=demo", "Parent=root"),
            *("Description=The Lab", "Organization=UNI", "Fairshare=10"),
        ],
        ["add", "account", "lab2", "cluster=demo", "Parent=lab", "Fairshare=parent"],
        [
            *("add", "user", "alice", "cluster=demo", "account=lab,lab2", "defaultaccount=lab"),
            *("adminlevel=operator", "QOS=normal,high", "DefaultQOS=high"),
        ],
        ["add", "user", "bob", "cluster=demo", "account=lab2", "defaultaccount=lab2"],
    ]


def test_equal_settings_share_a_call(state: accounting.State) -> None:
    """A thousand students in one class are one call."""
    students = [f"s{number}" for number in range(1000)]
    calls = plan(state, accounts=[{"name": "lab2", "users": students}])
    assert calls == [
        ["add", "user", ",".join(students), "cluster=demo", "account=lab2", "defaultaccount=lab2"]
    ]


def test_changes_touch_only_what_differs(state: accounting.State) -> None:
    """A resource that is not wanted any more is cleared; the rest is left alone."""
    calls = plan(
        state,
        qos=[{"name": "high", "priority": 100, "options": {"GrpTRES": "cpu=12", "Flags": ""}}],
        accounts=[{"name": "lab2", "parent": "root", "options": {"MaxJobs": None}}],
        users=[{"name": "alice", "default_account": "lab2", "admin_level": "none"}],
    )
    assert calls == [
        ["modify", "qos", "where", "name=high", "set", "GrpTRES=cpu=12,mem=-1", "Flags=-1"],
        [
            *("modify", "account", "where", "name=lab2", "cluster=demo", "set"),
            *("MaxJobs=-1", "Parent=root"),
        ],
        [
            *("modify", "user", "where", "name=alice", "cluster=demo", "set"),
            *("defaultaccount=lab2", "adminlevel=none"),
        ],
    ]


def test_nothing_is_deleted(state: accounting.State) -> None:
    """Accounts, users and memberships that are not named stay."""
    assert plan(state, users=[{"name": "alice", "accounts": ["lab"]}]) == []
    assert plan(state) == []


def test_an_account_of_another_cluster(state: accounting.State) -> None:
    """It is added to this cluster, and its description is brought up to date."""
    del state.account_assocs["lab2"]
    assert plan(state, accounts=[{"name": "lab2", "description": "new"}]) == [
        ["add", "account", "lab2", "cluster=demo", "Parent=root", "Description=new"],
        ["modify", "account", "where", "name=lab2", "cluster=demo", "set", "Description=new"],
    ]


def test_the_diff_names_each_thing(state: accounting.State) -> None:
    """Before and after hold the changed keys only."""
    wanted = accounting.wanted_from({"qos": [{"name": "high", "priority": 7}]})
    planned = accounting_plan.plan("demo", wanted, state)
    assert planned.before == {"qos high": {"Priority": "100"}}
    assert planned.after == {"qos high": {"Priority": "7"}}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"accounts": [{"name": "Big Lab"}]}, "write big_lab"),
        ({"accounts": [{"name": "x", "parent": "nono"}]}, "its parent nono is neither"),
        (
            {"accounts": [{"name": "x", "parent": "y"}, {"name": "y", "parent": "x"}]},
            "each is below another",
        ),
        ({"accounts": [{"name": "root"}]}, "Slurm's own"),
        ({"accounts": [{"name": "x"}, {"name": "x"}]}, "listed twice"),
        ({"accounts": [{"name": "x", "description": "a|b"}]}, "holds '|'"),
        ({"accounts": [{"name": "x", "fairshare": "1", "options": {"fairshare": 2}}]}, "twice"),
        ({"users": [{"name": "u"}]}, "set default_account or accounts"),
        ({"users": [{"name": "u", "accounts": ["nono"]}]}, "account nono is neither"),
        ({"users": [{"name": "u", "accounts": ["lab"], "qos": ["nono"]}]}, "qos nono is neither"),
        (
            {"users": [{"name": "alice", "qos": ["normal"], "default_qos": "high"}]},
            "default qos high is not one of",
        ),
        # The default is in the database, her own or inherited: sacctmgr would refuse it after other changes.
        (
            {"users": [{"name": "alice", "qos": ["normal"]}]},
            "alice in account lab: the default qos high is not one of its qos normal -> add it there",
        ),
        ({"qos": [{"name": "q", "options": {"MaxWall": "soon"}}]}, "not a value of that option"),
        ({"qos": [{"name": "q", "options": {"Grp TRES": 1}}]}, "not an option of sacctmgr"),
        (
            {"qos": [{"name": "q", "options": {"MaxWall": 3600}}]},
            "MaxWall is the number 3600; YAML",
        ),
        (
            {"qos": [{"name": "q", "options": {"PreemptExemptTime": 600}}]},
            "PreemptExemptTime is the number 600; .* -> write it in quotes",
        ),
        (
            {"accounts": [{"name": "x", "options": {"GrpWall": 3600}}]},
            "account x: GrpWall is the number 3600",
        ),
    ],
)
def test_bad_input_is_refused_with_its_remedy(
    state: accounting.State, params: dict[str, t.Any], message: str
) -> None:
    """Each message names the thing and ends in what to do."""
    with pytest.raises(accounting.AccountingError, match=message) as caught:
        plan(state, **params)
    assert " -> " in str(caught.value)


def test_a_default_qos_that_changes_too_holds_no_list_of_qos(state: accounting.State) -> None:
    assert plan(state, users=[{"name": "alice", "qos": ["normal"], "default_qos": "normal"}])
    account = {"name": "lab", "default_qos": "normal"}
    assert plan(state, accounts=[account], users=[{"name": "alice", "qos": ["normal"]}])
    assert plan(state, users=[{"name": "alice", "default_account": "lab2"}])


def test_seconds_and_no_limit_may_be_numbers(state: accounting.State) -> None:
    options = {"GraceTime": 90, "MaxWall": -1, "GrpWall": None}
    plan(state, qos=[{"name": "q", "options": options}])


@pytest.mark.parametrize(
    ("key", "one", "other"),
    [
        ("GrpTRES", "cpu=10,mem=10G", {"mem": "10240", "cpu": 10}),
        ("GrpTRES", "", -1),
        ("MaxWall", "1-00:00:00", "24:00:00"),
        ("GraceTime", "00:02:00", 120),
        ("GraceTime", "00:00:00", None),
        ("UsageFactor", "1.000000", ""),
        ("UsageFactor", "2.000000", 2),
        ("Priority", "0", None),
        ("PreemptMode", "cluster", ""),
        ("MaxJobs", "", None),
        ("Fairshare", "Parent", "parent"),
        ("Fairshare", "1", None),
        ("qos", "high,normal", ["normal", "high"]),
    ],
)
def test_equal_values_have_one_form(key: str, one: object, other: object) -> None:
    """What sacctmgr shows and what a person writes compare equal."""
    assert accounting.canonical(key, one) == accounting.canonical(key, other)


def test_columns_name_the_given_options_once() -> None:
    """The columns are the planner's own and the options that the caller set."""
    columns = accounting.columns(accounting.wanted_from(AS_IT_IS))
    own = ["Flags", "GrpTRES", "MaxWall", "GraceTime", "MaxJobsPerUser"]
    assert columns["qos"] == [*accounting.QOS_COLUMNS, *own]
    assert columns["assoc"] == list(accounting.ASSOC_COLUMNS)


# --- trees, places and properties -----------------------------------------------------------------
def test_accounts_may_lie_inside_accounts(state: accounting.State) -> None:
    """Their parent is the one around them; users may have settings of their own in an account."""
    tree = [
        {
            "name": "uni",
            "accounts": [
                {
                    "name": "physics",
                    "users": ["alice", {"name": "carol", "options": {"MaxJobs": 4}}],
                    "accounts": [{"name": "optics", "fairshare": 2}],
                }
            ],
        }
    ]
    assert plan(state, accounts=tree) == [
        ["add", "account", "uni", "cluster=demo", "Parent=root"],
        ["add", "account", "physics", "cluster=demo", "Parent=uni"],
        ["add", "account", "optics", "cluster=demo", "Parent=physics", "Fairshare=2"],
        [
            *("add", "user", "carol", "cluster=demo", "account=physics"),
            *("defaultaccount=physics", "MaxJobs=4"),
        ],
        ["add", "user", "alice", "cluster=demo", "account=physics"],
    ]


def test_settings_of_a_place_are_stronger_than_the_user_s(state: accounting.State) -> None:
    """And a partition is a place of its own."""
    accounts = [{"name": "lab", "users": [{"name": "alice", "options": {"maxjobs": 9}}]}]
    accounts.append(
        {"name": "lab2", "users": [{"name": "bob", "partition": "gpu", "fairshare": 3}]}
    )
    users = [{"name": "alice", "options": {"MaxJobs": 7}}]
    assert plan(state, accounts=accounts, users=users) == [
        [
            *("modify", "user", "where", "name=alice", "cluster=demo", "account=lab"),
            *("set", "maxjobs=9"),
        ],
        [
            *("modify", "user", "where", "name=alice", "cluster=demo", "account=lab2"),
            *("set", "MaxJobs=7"),
        ],
        [
            *("modify", "user", "where", "name=bob", "cluster=demo", "account=lab2"),
            *("partition=gpu", "set", "Fairshare=3"),
        ],
    ]


def test_a_new_user_is_made_in_his_default_account_first() -> None:
    """Whatever comes first in the list: sacctmgr takes the first account that it hears of."""
    accounts = [
        {"name": "a", "users": [{"name": "u", "options": {"MaxJobs": 1}}]},
        {"name": "b", "users": ["u"]},
    ]
    users = [{"name": "u", "default_account": "b", "admin_level": "admin"}]
    assert plan(accounting.State(), accounts=accounts, users=users)[-2:] == [
        [
            *("add", "user", "u", "cluster=demo", "account=b", "defaultaccount=b"),
            "adminlevel=admin",
        ],
        ["add", "user", "u", "cluster=demo", "account=a", "MaxJobs=1"],
    ]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"accounts": [{"name": "a", "accounts": [{"nam": "b"}]}]}, "does not have a name"),
        (
            {"accounts": [{"name": "a", "accounts": [{"name": "b", "user": []}]}]},
            "did you mean users",
        ),
        ({"accounts": [{"name": "a", "accounts": "b"}]}, "is not a list"),
        (
            {"accounts": [{"name": "a", "accounts": [{"name": "b", "parent": "c"}]}]},
            "is below a and names the parent c",
        ),
        (
            {"accounts": [{"name": "a", "users": [{"name": "u", "limit": 1}]}]},
            "is not one of its keys",
        ),
        ({"accounts": [{"name": "a", "options": {"MaxJob": 1}}]}, "write MaxJobs"),
        (
            {"qos": [{"name": "a", "options": {"MaxWall": "1", "MaxWallDurationPerJob": "2"}}]},
            "is the same",
        ),
        ({"users": [{"name": "alice", "accounts": ["lap"]}]}, "did you mean lab"),
        ({"qos": [{"name": "a"}, {"name": "a"}]}, "listed twice"),
    ],
)
def test_slips_are_said_with_what_was_meant(
    state: accounting.State, params: dict[str, t.Any], message: str
) -> None:
    """In all levels of a tree."""
    with pytest.raises(accounting.AccountingError, match=message) as caught:
        plan(state, **params)
    assert " -> " in str(caught.value)


NUMBER = st.integers(0, 2**31 - 2)
OPTION_VALUES = st.one_of(
    st.tuples(st.sampled_from(["MaxJobs", "GrpJobs", "Fairshare"]), NUMBER | st.none()),
    st.tuples(st.sampled_from(["MaxWall", "GraceTime", "GrpWall"]), NUMBER | st.none()),
    st.tuples(
        st.sampled_from(["GrpTRES", "MaxTRESPU"]),
        st.dictionaries(st.sampled_from(["cpu", "mem", "gres/gpu", "node"]), NUMBER),
    ),
    st.tuples(
        st.sampled_from(["QOS", "Flags", "Preempt"]),
        st.lists(st.text("abcxyz-_", min_size=1).filter(lambda name: name != "-"), unique=True),
    ),
    st.tuples(st.just("UsageFactor"), st.floats(0, 1000).map(lambda value: round(value, 3))),
)


@settings(max_examples=samples.MANY, deadline=None)
@given(OPTION_VALUES)
def test_what_is_set_is_what_was_wanted(option: tuple[str, t.Any]) -> None:
    """The text for sacctmgr means the value that it was made of."""
    key, value = option
    assert accounting.canonical(key, accounting.to_set(key, value)) == accounting.canonical(
        key, value
    )


@settings(max_examples=samples.MANY, deadline=None)
@given(st.integers(1, 4), st.text("ab|\n", max_size=40))
def test_rows_are_the_lines_with_all_columns(width: int, text: str) -> None:
    """Whatever else sacctmgr prints among them is left out."""
    rows = cli_accounting.parse(text, [f"C{number}" for number in range(width)])
    assert ["|".join(row.values()) for row in rows] == [
        line for line in text.splitlines() if line.count("|") == width - 1
    ]
