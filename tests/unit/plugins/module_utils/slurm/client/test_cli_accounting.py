# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what sacctmgr is given: arguments, and the lines of its input."""

from __future__ import annotations

import shlex
import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import cli_accounting
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.transport import (
    Operation,
)
from hypothesis import given
from hypothesis import strategies as st


class Sacctmgr:
    """Remembers what it was run with."""

    def __init__(self, says: t.Mapping[str, str] | None = None) -> None:
        self.calls: list[tuple[list[str], str]] = []
        self.says = says or {}

    def __call__(self, arguments: t.Sequence[str], stdin: str) -> str:
        self.calls.append((list(arguments), stdin))
        return self.says.get(arguments[2] if len(arguments) > 2 else "", "")


def test_rows_are_asked_for_once_each_and_parsed() -> None:
    """Associations with their own limits; a line with another number of columns is a warning."""
    run = Sacctmgr({"assoc": "lab|alice|\nsacctmgr: hello\nlab||5\n", "qos": "normal|0\n"})
    columns = {"assoc": ["Account", "User", "MaxJobs"], "qos": ["Name", "Priority"]}
    rows = cli_accounting.rows(run, ("assoc", "qos"), "demo", columns)
    assert rows["assoc"] == [
        {"account": "lab", "user": "alice", "maxjobs": ""},
        {"account": "lab", "user": "", "maxjobs": "5"},
    ]
    assert rows["qos"] == [{"name": "normal", "priority": "0"}]
    assert {" ".join(arguments) for arguments, _stdin in run.calls} == {
        "-nP show assoc wopl where cluster=demo format=Account,User,MaxJobs",
        "-nP show qos format=Name,Priority",
    }


def test_each_kind_of_operation() -> None:
    """The arguments are those of sacctmgr(1)."""
    place = {"cluster": "demo", "account": "lab"}
    wanted = [
        (Operation("add", "cluster", ("demo",)), "add cluster demo"),
        (Operation("add", "qos", ("a", "b"), {}, {"Priority": "5"}), "add qos a,b Priority=5"),
        (
            Operation("modify", "account", ("lab",), {"cluster": "demo"}, {"MaxJobs": "-1"}),
            "modify account where name=lab cluster=demo set MaxJobs=-1",
        ),
        (
            Operation("add", "association", ("al",), {**place, "partition": "p"}),
            "add user al cluster=demo account=lab partition=p",
        ),
        (
            Operation("remove", "association", ("al", "bo"), place),
            "delete user where name=al,bo cluster=demo account=lab",
        ),
        (Operation("remove", "qos", ("a",)), "delete qos where name=a"),
    ]
    for operation, line in wanted:
        assert " ".join(cli_accounting.argv(operation)) == line


def test_all_changes_are_one_process() -> None:
    """In order, spaces in quotes; what its input cannot say gets a process of its own, in its place."""
    run = Sacctmgr()
    cli_accounting.apply(
        run,
        [
            Operation("add", "account", ("a",), {"cluster": "c"}, {"Description": "the lab"}),
            Operation("add", "account", ("b",), {"cluster": "c"}, {"Description": "it's"}),
            Operation("add", "account", ("d",), {"cluster": "c"}, {"QOS": ""}),
            Operation("remove", "account", ("e",)),
        ],
    )
    assert run.calls == [
        (["-i"], 'add account a cluster=c Description="the lab"\n'),
        (["-i", "add", "account", "b", "cluster=c", "Description=it's"], ""),
        (["-i"], "add account d cluster=c QOS=\ndelete account where name=e\n"),
    ]


def test_many_additions_are_one_tree() -> None:
    """In one transaction; what comes before and after stays before and after."""
    run = Sacctmgr()
    where = {"cluster": "c"}
    operations = [
        Operation("add", "cluster", ("c",)),
        Operation("add", "account", ("a", "b"), where, {"Parent": "root", "MaxWall": "1-0:00"}),
        *(
            Operation(
                "add", "user", (f"u{n}",), {**where, "account": "a,b"}, {"defaultaccount": "b"}
            )
            for n in range(9)
        ),
        Operation("add", "association", ("u0",), {**where, "account": "a", "partition": "p"}),
        Operation("remove", "user", ("x",)),
    ]
    cli_accounting.apply(run, operations)
    assert [arguments for arguments, _stdin in run.calls] == [
        ["-i"],
        ["-i", "load", "file=/dev/stdin"],
        ["-i"],
    ]
    tree = run.calls[1][1].splitlines()
    assert tree[:4] == [
        "Cluster - 'c'",
        "Parent - 'root'",
        "Account - 'a':MaxWall='1-0:00'",
        "Account - 'b':MaxWall='1-0:00'",
    ]
    assert tree[4:8] == [
        *("Parent - 'a'", "User - 'u0':defaultaccount='b'"),
        *("Parent - 'b'", "User - 'u0':defaultaccount='b'"),
    ]
    assert tree[-2:] == ["Parent - 'a'", "User - 'u0':Partition='p'"]
    operations[1] = Operation("add", "account", ("a",), where, {"Description": "it's"})
    run = Sacctmgr()
    cli_accounting.apply(run, operations)
    assert [arguments[:2] for arguments, _stdin in run.calls] == [["-i"], ["-i", "add"], ["-i"]]


def test_nothing_is_no_process() -> None:
    """sacctmgr is not started for an empty plan."""
    run = Sacctmgr()
    cli_accounting.apply(run, [])
    assert run.calls == []


@given(
    st.lists(
        st.text("abcdefghijklmnop0123456789", min_size=1, max_size=200), min_size=1, max_size=90
    ),
    st.sampled_from(("add", "modify", "remove")),
    st.text("abc def", max_size=40),
)
def test_lines_are_short_enough_and_lose_no_name(
    names: list[str], verb: str, description: str
) -> None:
    """sacctmgr reads 4,096 bytes a line where it has no readline."""
    run = Sacctmgr()
    settings = {} if verb == "remove" else {"Description": description}
    cli_accounting.apply(run, [Operation(verb, "account", tuple(names), {}, settings)])
    found = []
    for arguments, stdin in run.calls:
        assert arguments == ["-i"]
        for line in stdin.splitlines():
            assert len(line.encode()) < 4096
            words = shlex.split(line)
            found += words[2 if verb == "add" else 3].rpartition("name=")[2].split(",")
            assert verb == "remove" or words[-1] == f"Description={description}"
    assert found == names
