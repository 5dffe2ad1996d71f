# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the accounting over slurmrestd, for each API version."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import plan
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import (
    state as accounting,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    accounting_options,
    cli_accounting,
    rest_accounting,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.transport import (
    Operation,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from hypothesis import given, settings
from hypothesis import strategies as st

from .fake_slurmrestd import Slurmrestd

APIS = range(38, 46)
KINDS = ("cluster", "account", "user", "qos", "assoc")


def read(fake: Slurmrestd, wanted: accounting.Wanted) -> accounting.State:
    columns = accounting.columns(wanted)
    api = f"v0.0.{fake.api}"
    return accounting.State.from_rows(rest_accounting.rows(fake.get, KINDS, "demo", columns, api))


def converge(fake: Slurmrestd, params: t.Mapping[str, t.Any]) -> list[Operation]:
    """Make fake as wanted, and return the operations."""
    wanted = accounting.wanted_from(params)
    operations = plan.plan("demo", wanted, read(fake, wanted)).operations
    for request in rest_accounting.requests(operations, f"v0.0.{fake.api}", fake.get):
        fake.send(*request)
    return operations


WANTED: dict[str, t.Any] = {
    "qos": [
        {
            "name": "high",
            "priority": 100,
            "preempt": ["normal", "low"],
            "flags": ["DenyOnLimit", "NoReserve"],
            "options": {
                "MaxTRESPU": "cpu=10,mem=10G",
                "MaxWall": "1-0",
                "GraceTime": 120,
                "UsageFactor": 2,
                "PreemptMode": "requeue",
                "PreemptExemptTime": "00:10:00",
            },
        },
        {"name": "low", "options": {"MaxJobsPU": 4}},
    ],
    "accounts": [
        {"name": "lab2", "parent": "lab", "fairshare": "parent", "users": ["bob"]},
        {
            "name": "lab",
            "description": "The Lab",
            "fairshare": "10",
            "qos": ["normal", "low"],
            "options": {"GrpTRES": "cpu=64,gres/gpu=4", "GrpWall": 600},
        },
    ],
    "users": [
        {
            "name": "alice",
            "default_account": "lab2",
            "accounts": ["lab"],
            "admin_level": "operator",
            "qos": ["normal", "high"],
            "default_qos": "high",
            "options": {"MaxJobs": 5},
        }
    ],
}


@pytest.mark.parametrize("api", APIS)
def test_a_tree_is_made_and_then_there(api: int) -> None:
    """The second run does nothing; the requests are few."""
    fake = Slurmrestd(api)
    assert converge(fake, WANTED)
    assert converge(fake, WANTED) == []
    assert fake.users == {"root": "Administrator", "alice": "Operator", "bob": "None"}
    assert fake.associations["demo", "lab2", "alice", ""]["is_default"]
    assert fake.associations["demo", "lab", "", ""]["max/tres/total"] == {"cpu": 64, "gres/gpu": 4}
    assert fake.associations["demo", "lab2", "", ""]["shares_raw"] == 0x7FFFFFFF
    assert fake.qos["high"]["limits/max/tres/per/user"] == {"cpu": 10, "mem": 10240}
    assert fake.qos["high"]["limits/max/wall_clock/per/job"] == 1440
    assert fake.qos["high"]["preempt/exempt_time"] == 600
    assert fake.accounts["lab"]["description"] == "The Lab"
    assert fake.accounts["lab2"]["organization"] == "lab2"
    assert len(fake.sent) <= 10, fake.sent


@pytest.mark.parametrize("api", APIS)
def test_a_change_touches_only_what_differs(api: int) -> None:
    """What an update would reset is sent along."""
    fake = Slurmrestd(api)
    converge(fake, WANTED)
    before_qos, before = dict(fake.qos["high"]), dict(fake.associations["demo", "lab", "alice", ""])
    changed = {
        "qos": [{"name": "high", "priority": 7, "options": {"MaxTRESPU": "cpu=12"}}],
        "users": [{"name": "alice", "options": {"MaxJobs": None}, "default_account": "lab"}],
    }
    converge(fake, changed)
    assert fake.qos["high"] == {
        **before_qos,
        "priority": 7,
        "limits/max/tres/per/user": {"cpu": 12},
    }
    after = fake.associations["demo", "lab", "alice", ""]
    assert after == {**before, "max/jobs/active": None, "is_default": True}
    assert converge(fake, changed) == []


@pytest.mark.parametrize("api", range(39, 46))
def test_an_account_keeps_what_is_not_named(api: int) -> None:
    """Coordinators are taken away by an update that does not name them, resources too."""
    fake = Slurmrestd(api)
    converge(fake, WANTED)
    coordinators = [{"name": "alice", "direct": True}]
    fake.accounts["lab"]["coordinators"] = coordinators
    fake.accounts["lab"]["organization"] = "uni"
    converge(fake, {"accounts": [{"name": "lab", "description": "x", "fairshare": "3"}]})
    assert fake.accounts["lab"] == {
        "description": "x",
        "organization": "uni",
        "coordinators": coordinators,
    }
    lab = fake.associations["demo", "lab", "", ""]
    assert (lab["shares_raw"], lab["max/tres/total"]) == (3, {"cpu": 64, "gres/gpu": 4})
    converge(
        fake, {"accounts": [{"name": "lab", "options": {"GrpTRES": "cpu=1", "GrpWall": None}}]}
    )
    assert lab["max/tres/total"] == {"cpu": 1} and lab["max/per/account/wall_clock"] is None


@pytest.mark.parametrize("api", APIS)
def test_owned_things_go(api: int) -> None:
    """Users, accounts and QOS that are not listed."""
    fake = Slurmrestd(api)
    converge(fake, WANTED)
    converge(
        fake,
        {
            "accounts": [{"name": "lab"}],
            "users": [{"name": "alice", "accounts": ["lab"], "qos": ["normal", "high"]}],
            "owned": {"accounts_below": ["lab"], "users_of": ["lab"]},
        },
    )
    assert set(fake.users) == {"root", "alice"} and set(fake.accounts) == {"lab"}
    assert {key[1:3] for key in fake.associations} == {
        *(("root", ""), ("root", "root"), ("lab", ""), ("lab", "alice"))
    }


def test_a_removal_without_a_name_is_no_request() -> None:
    """slurmrestd would remove every association that there is."""
    fake = Slurmrestd(42)
    for operation in (
        Operation("remove", "association", (), {"cluster": "demo", "account": "lab"}),
        Operation("remove", "association", ("alice",), {"cluster": "demo"}),
        Operation("remove", "account", ("",)),
    ):
        with pytest.raises(SlurmError):
            list(rest_accounting.requests([operation], "v0.0.42", fake.get))


def test_many_things_are_few_requests_of_a_bearable_size() -> None:
    """A thousand users are five requests for the users and five for their associations."""
    fake = Slurmrestd(42)
    users = [f"u{number}" for number in range(1000)]
    converge(fake, {"accounts": [{"name": "lab", "users": users}]})
    assert len(fake.associations) == 1003 and len(fake.sent) == 12


def test_what_an_older_slurmrestd_cannot_do_is_said() -> None:
    """With the version that can."""
    fake = Slurmrestd(38)
    with pytest.raises(SlurmError, match=r"GrpTRESMins of qos.* from v0.0.42") as caught:
        converge(fake, {"qos": [{"name": "x", "options": {"GrpTRESMins": "cpu=5"}}]})
    assert caught.value.kind == "impossible"
    converge(fake, WANTED)
    with pytest.raises(SlurmError, match="DefaultQOS: slurmrestd v0.0.38 cannot clear it"):
        converge(fake, {"users": [{"name": "alice", "options": {"DefaultQOS": None}}]})
    converge(fake, {"qos": [{"name": "high", "preempt": []}], "accounts": []})
    assert fake.qos["high"]["preempt/list"] == []
    fake = Slurmrestd(42)
    converge(fake, WANTED)
    with pytest.raises(SlurmError, match="Preempt: slurmrestd v0.0.42 cannot clear it"):
        converge(fake, {"qos": [{"name": "high", "preempt": []}]})
    with pytest.raises(SlurmError, match="QOS: slurmrestd v0.0.42 cannot clear it"):
        converge(fake, {"accounts": [{"name": "lab", "qos": []}]})


# --- the same state from both transports ----------------------------------------------------------
LIMIT = st.none() | st.integers(1, 2**31 - 2)
TRES = st.dictionaries(
    st.sampled_from(["cpu", "mem", "gres/gpu", "gres/gpu:a100", "node"]), st.integers(0, 10**7)
)
FORMS: dict[str, st.SearchStrategy[t.Any]] = {
    "number": LIMIT,
    "minutes": st.none() | st.integers(1, 10**6),
    "seconds": st.none()
    | st.integers(1, 10**6).map(lambda value: f"{value // 60}:{value % 60:02}"),
    "grace": st.none() | st.integers(1, 10**6),
    "float": st.none() | st.integers(1, 1000).map(lambda value: value / 4),
    "tres": TRES,
    "share": st.just("parent") | st.integers(1, 10**6).map(str),
    "flags": st.lists(st.sampled_from(sorted(accounting_options.QOS_FLAGS.values())), unique=True),
    "mode": st.sampled_from(["", "requeue", "cancel", "suspend,gang"]),
    "text": st.text("abcxyz", min_size=1, max_size=10),
}


def option_values(table: t.Sequence[accounting_options.Option]) -> st.SearchStrategy[t.Any]:
    """Some of the options of a table, under any of their names, with values."""
    own = [
        option
        for option in table
        if option.form in FORMS and option.since <= 38 and option.name not in ("Parent",)
    ]

    def drawn(option: accounting_options.Option) -> st.SearchStrategy[tuple[str, t.Any]]:
        names = st.sampled_from((option.name, *option.aliases))
        return st.tuples(names, FORMS[option.form])

    chosen = st.lists(st.sampled_from(own), unique_by=lambda option: option.name, max_size=6)
    return chosen.flatmap(lambda options: st.tuples(*map(drawn, options))).map(dict)


TREES = st.fixed_dictionaries(
    {
        "qos": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from("qrs"), "options": option_values(accounting_options.QOS)}
            ),
            unique_by=lambda entry: entry["name"],
        ),
        "accounts": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from("abcd"),
                    "users": st.lists(st.sampled_from(["u", "v", "w"]), unique=True),
                    "options": option_values(accounting_options.ASSOCIATION),
                }
            ),
            unique_by=lambda entry: entry["name"],
        ),
        "users": st.just([]),
    }
)


def sacctmgr(fake: Slurmrestd, wanted: accounting.Wanted) -> dict[str, str]:
    """What `sacctmgr -nP show` prints of the same state, column by column."""
    columns = accounting.columns(wanted)
    paths = {
        "qos": accounting_options.OPTIONS["qos"],
        "assoc": accounting_options.OPTIONS["association"],
    }

    def time_of(total: int) -> str:
        days, rest = divmod(total, 86400)
        shown = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
        return f"{days}-{shown}" if days else shown

    def shown(option: accounting_options.Option, value: t.Any) -> str:
        if value in (None, [], {}):
            return {"mode": "cluster", "share": "1", "grace": "00:00:00"}.get(option.form, "")
        if option.form == "tres":
            return ",".join(f"{k}={v}{'M' if k == 'mem' else ''}" for k, v in value.items())
        if option.form == "minutes":
            return time_of(value * 60)
        if option.form in ("seconds", "grace"):
            return time_of(value)
        if option.form == "float":
            return f"{value:.6f}"
        if option.form == "flags":
            return ",".join(accounting_options.QOS_FLAGS[flag] for flag in value)
        if option.form == "mode":
            return ",".join(value).lower()
        if option.form == "names":
            return ",".join(value)
        if option.form == "share" and value == 0x7FFFFFFF:
            return "parent"
        return str(value)

    def line(kind: str, own: dict[str, str], kept: t.Mapping[str, t.Any]) -> str:
        cells = []
        for column in columns[kind]:
            if column.lower() in own:
                cells.append(own[column.lower()])
            else:
                option = paths[kind][column.lower()]
                cells.append(shown(option, kept.get(option.path)))
        return "|".join(cells)

    associations = [
        line("assoc", {"account": account, "user": user, "partition": partition}, kept)
        for (_cluster, account, user, partition), kept in fake.associations.items()
    ]
    defaults = {key[2]: key[1] for key, kept in fake.associations.items() if kept.get("is_default")}
    return {
        "cluster": "demo|",
        "account": "\n".join(
            f"{name}|{account['description']}|{account['organization']}"
            for name, account in fake.accounts.items()
        ),
        "user": "\n".join(f"{n}|{defaults.get(n, '')}|{level}" for n, level in fake.users.items()),
        "qos": "\n".join(
            line("qos", {"name": name}, {"description": name, **kept})
            for name, kept in fake.qos.items()
        ),
        "assoc": "\n".join(associations),
    }


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(APIS)), TREES)
def test_rows_of_both_transports_plan_nothing(api: int, params: dict[str, t.Any]) -> None:
    """What was made over slurmrestd is there for slurmrestd, and for sacctmgr."""
    fake = Slurmrestd(api)
    converge(fake, params)
    wanted = accounting.wanted_from(params)
    over_rest = read(fake, wanted)
    columns = accounting.columns(wanted)
    over_cli = accounting.State.from_rows(
        {
            kind: cli_accounting.parse(text, columns[kind])
            for kind, text in sacctmgr(fake, wanted).items()
        }
    )
    for state in (over_rest, over_cli):
        left = plan.plan("demo", wanted, state)
        assert left.operations == [], (left.before, left.after)
