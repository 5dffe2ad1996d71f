# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the accounting planner against what sacctmgr 22.05 and 24.11 print (the same)."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils import accounting

# sacctmgr -nP show ..., with the columns that the planner asks for.
SHOWN = {
    "cluster": "demo\n",
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
    "cluster": ["Cluster"],
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
                "MaxWall": 1440,
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
        {kind: accounting.parse(text, COLUMNS[kind]) for kind, text in SHOWN.items()}
    )


def plan(state: accounting.State, **params: t.Any) -> list[list[str]]:
    """Return the planned calls on cluster demo."""
    return accounting.plan("demo", accounting.wanted_from(params), state).calls


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
    planned = accounting.plan("demo", wanted, state)
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
        ({"qos": [{"name": "q", "options": {"MaxWall": "soon"}}]}, "no value of that option"),
        ({"qos": [{"name": "q", "options": {"Grp TRES": 1}}]}, "no option of sacctmgr"),
    ],
)
def test_bad_input_is_refused_with_its_remedy(
    state: accounting.State, params: dict[str, t.Any], message: str
) -> None:
    """Each message names the thing and ends in what to do."""
    with pytest.raises(accounting.AccountingError, match=message) as caught:
        plan(state, **params)
    assert " -> " in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30", 1800), ("10:00", 600), ("01:00:00", 3600), ("1-0", 86400), ("1-02:03:04", 93784)],
)
def test_seconds(text: str, expected: int) -> None:
    """All of Slurm's ways to write a time."""
    assert accounting.seconds(text) == expected


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
        ("qos", "high,normal", ["normal", "high"]),
    ],
)
def test_equal_values_have_one_form(key: str, one: object, other: object) -> None:
    """What sacctmgr shows and what a person writes compare equal."""
    assert accounting.canonical(key, one) == accounting.canonical(key, other)


def test_warnings_among_the_rows_are_skipped() -> None:
    """A line with another number of columns is not a row."""
    assert accounting.parse("sacctmgr: something\na|b\n", ["X", "Y"]) == [{"x": "a", "y": "b"}]


def test_queries_ask_for_the_given_options_once() -> None:
    """The columns are the planner's own and the options that the caller set."""
    wanted = accounting.wanted_from(AS_IT_IS)
    asked = accounting.queries("demo", wanted)
    assert asked["qos"][0][-1].endswith("Preempt,Flags,GrpTRES,MaxWall,GraceTime,MaxJobsPerUser")
    assert asked["assoc"][1] == list(accounting.ASSOC_COLUMNS)
    assert asked["user"][0][:4] == ["show", "user", "withassoc", "where"]
