# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Editing slurm.conf: exactly what is asked for changes, and nothing the second time."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import edit as edits
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import syntax
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit import samples

# What people write: any case, blanks, quotes, comments at the end, continued lines, no line end.
STOCK = [
    "",
    "# a comment",
    "   # MaxJobCount=1 was too little",
    "ClusterName=t",
    "maxjobcount = 500 # few",
    "MaxJobCount=7",
    "SlurmctldHost=a",
    "SlurmctldHost=b(10.0.0.1)   # the other",
    'AuthInfo="a b\\#c"',
    "SchedulerParameters=defer,\\\nbf_interval=3 # both",
    "Prolog=/a",
    "Include more.conf",
    "NodeName=DEFAULT State=UNKNOWN",
    "NodeName=c[1-4] CPUs=4 \\\n   RealMemory=1000   Weight=3 # four",
    "nodename=d[01-03] NodeAddr=10.0.0.[1-3] CPUs=2 \\ # three\n  Feature=x",
    "NodeName=login CPUs=1",
    "PartitionName=batch Nodes=ALL Default=YES \\\n MaxTime=60",
    'PartitionName=gpu Nodes=c1 AllowGroups=a,b  # "some"',
    "NodeSet=fast Feature=x",
    'DownNodes=c3 State=DOWN Reason="it\'s old"',
]
VALUES = ["1", "", "a b", "x\\y", "#1", "a,b=2", "c\\", "é"]
SETTINGS = ["MaxJobCount", "SchedulerParameters", "AuthInfo", "Epilog", "KillWait", "ClusterName"]


def texts(most: int = 8) -> st.SearchStrategy[str]:
    """Files of some of the stock, each at most once, with every way to end a file."""
    base = len(STOCK) + 1

    def build(number: int) -> str:
        digits = [number // base**place % base for place in range(most)]
        lines = [STOCK[digit - 1] for digit in dict.fromkeys(digits) if digit]
        return "\n".join(lines) + ["\n", "", " \\", " \\\n"][number % 4]

    return st.integers(0, base**most - 1).map(build)


def rest(text: str, change: edits.Change) -> list[str]:
    """The lines that a change is not about, without their line ends."""
    rows = [row.raw for row in edits.File(text).rows if not edits.File(row.raw).concerns(change)]
    return [raw.rstrip("\r\n\\ ") for raw in rows if raw.strip("\r\n\\ ")]


@settings(max_examples=samples.MANY, deadline=None)
@given(st.text('A=b \\#"\n\r', max_size=16))
@example("A=1 \\")
@example("A=\\\n")
def test_the_lines_of_a_text_are_the_text(text: str) -> None:
    lines = syntax.logical_lines(text)
    assert "".join(line.raw for line in lines) == text
    for line in lines:
        taken = [line.raw[first:last] for first, last in line.places]
        assert [part[-1] for part in taken] == list(line.text)
        assert all(part == part[-1] or part[0] == "\\" for part in taken)


@settings(max_examples=samples.MANY // 10, deadline=None)
@given(texts())
def test_editing_nothing_changes_nothing(text: str) -> None:
    assert edits.edit(text, []) == text
    same: list[edits.Change] = []
    for name, values in syntax.parse(text).scalars.items():
        same.append(edits.Setting(name, tuple(values if name in edits.REPEATED else values[-1:])))
    for row in edits.File(text).rows:
        if row.kind not in ("", "option"):
            pairs = {pair.key: pair.value for pair in row.pairs}
            same.append(edits.Entry(row.kind, str(pairs.pop(row.kind)), True, {**pairs}))
    assert edits.edit(text, same) == text


@settings(max_examples=samples.MANY // 10, deadline=None)
@given(texts(), st.sampled_from(SETTINGS), st.sampled_from([*VALUES, None]))
@example("Prolog=/a \\", "KillWait", "1")
@example("MaxJobCount=1 \\\n", "KillWait", "1")
def test_exactly_one_option_changes(text: str, name: str, value: str | None) -> None:
    change = edits.Setting(name, None if value is None else (value,))
    before, made = syntax.parse(text), edits.edit(text, [change])
    after = syntax.parse(made)
    wanted = {key: list(values) for key, values in before.scalars.items()}
    if value is None:
        wanted.pop(name, None)
    else:
        wanted[name] = [*wanted.get(name, [""])[:-1], value]
    assert after.scalars == wanted
    assert (after.lines, after.nodes, after.includes) == (
        before.lines,
        before.nodes,
        before.includes,
    )
    assert rest(made, change) == rest(text, change)
    assert edits.edit(made, [change]) == made


@settings(max_examples=samples.MANY // 10, deadline=None)
@given(texts(), st.lists(st.sampled_from(["a", "b(10.0.0.1)", "c", "d"]), unique=True))
def test_an_option_of_several_lines_becomes_the_list(text: str, hosts: list[str]) -> None:
    change = edits.Setting("SlurmctldHost", tuple(hosts) or None)
    made = edits.edit(text, [change])
    assert syntax.parse(made).scalars.get("SlurmctldHost", []) == hosts
    assert rest(made, change) == rest(text, change)
    assert edits.edit(made, [change]) == made


NODES = ["c[1-4]", "c2", "c[2-3]", "c[1-6]", "d02", "d[01-03]", "login", "e[1-2]", "c4,d01"]
OPTIONS: list[dict[str, str | None]] = [
    {},
    {"CPUs": "8"},
    {"RealMemory": "5", "Weight": None},
    {"Features": "y", "Reason": "a b#c"},
    {"NodeAddr": None},
]


@settings(max_examples=samples.MANY // 10, deadline=None)
@given(texts(), st.sampled_from(NODES), st.booleans(), st.sampled_from(OPTIONS))
def test_exactly_the_named_nodes_change(
    text: str, names: str, present: bool, options: dict[str, str | None]
) -> None:
    change = edits.Entry("NodeName", names, present, options)
    named = set(syntax.expand(names))
    before = syntax.parse(text)
    try:
        made = edits.edit(text, [change])
    except SlurmError as error:
        assert " -> " in str(error)
        return
    after = syntax.parse(made)
    assert {k: v for k, v in after.nodes.items() if k not in named} == {
        k: v for k, v in before.nodes.items() if k not in named
    }
    assert (after.scalars, after.includes) == (before.scalars, before.includes)
    assert [line for line in after.lines if line[0] != "NodeName"] == [
        line for line in before.lines if line[0] != "NodeName"
    ]
    assert named & set(after.nodes) == (named if present else set())
    for name in named if present else ():
        old = before.nodes.get(name, {})
        if "Feature" in old and "Features" in options:
            old = {k: v for k, v in old.items() if k != "Feature"} | {"Features": ""}
            after.nodes[name]["Features"] = after.nodes[name].pop("Feature")
        given_now = {key: value for key, value in options.items() if value is not None}
        for key, value in given_now.items():
            assert after.nodes[name][key] == value
        # A line that grows hands what it has to the nodes that it gets.
        if name in before.nodes:
            kept = {k: v for k, v in old.items() if k not in options}
            assert kept == {k: v for k, v in after.nodes[name].items() if k not in options}
    lines = [row.names for row in edits.File(text).rows if row.kind == "NodeName"]
    touched = named.union(*[line for line in lines if named & set(line)])
    about = edits.Entry("NodeName", ",".join(touched), True, {})
    assert rest(made, about) == rest(text, about)
    assert edits.edit(made, [change]) == made


@settings(max_examples=samples.MANY // 10, deadline=None)
@given(
    texts(),
    st.sampled_from([("PartitionName", "batch"), ("PartitionName", "new"), ("NodeSet", "fast")]),
    st.booleans(),
    st.sampled_from(["c[1-2]", "ALL"]),
)
def test_exactly_one_line_changes(
    text: str, what: tuple[str, str], present: bool, nodes: str
) -> None:
    kind, name = what
    change = edits.Entry(kind, name, present, {"Nodes": nodes})
    before, made = syntax.parse(text), edits.edit(text, [change])
    after = syntax.parse(made)

    def lines(conf: syntax.Conf) -> dict[str, dict[str, str]]:
        return {pairs[one]: pairs for one, pairs in conf.lines if one == kind}

    wanted = lines(before)
    wanted.pop(name, None)
    if present:
        wanted[name] = {**lines(before).get(name, {kind: name}), "Nodes": nodes}
    assert lines(after) == wanted
    assert (after.scalars, after.nodes) == (before.scalars, before.nodes)
    assert rest(made, change) == rest(text, change)
    assert edits.edit(made, [change]) == made


# -- where things go ------------------------------------------------------------------------------


def set_in(text: str, name: str, *values: str) -> str:
    return edits.edit(text, [edits.Setting(name, values or None)])


def test_a_new_option_goes_behind_the_comment_that_names_it_or_behind_the_last_option() -> None:
    text = "A=1\n# KillWait=30\nClusterName=t\nNodeName=c1\n"
    assert set_in(text, "KillWait", "9") == text.replace("30\n", "30\nKillWait=9\n")
    assert set_in(text, "MaxJobCount", "9") == text.replace("=t\n", "=t\nMaxJobCount=9\n")
    assert set_in("NodeName=c1", "KillWait", "9") == "KillWait=9\nNodeName=c1"
    assert set_in("# mine\n", "KillWait", "9") == "# mine\nKillWait=9\n"
    assert set_in("", "KillWait", "9") == "KillWait=9\n"


def test_line_ends_are_those_of_the_file() -> None:
    assert set_in("A=1\r\nB=2\r\n", "KillWait", "9") == "A=1\r\nB=2\r\nKillWait=9\r\n"


def test_what_follows_a_value_stays() -> None:
    text = "SchedulerParameters = defer,\\\nbf_interval=3   # both\n"
    assert set_in(text, "SchedulerParameters", "x y") == 'SchedulerParameters = "x y"   # both\n'


def node(text: str, name: str, present: bool = True, **options: str | None) -> str:
    return edits.edit(text, [edits.Entry("NodeName", name, present, options)])


LINE = "NodeName=c[1-4] NodeAddr=10.0.0.[1-4] CPUs=4 # x\n"


def test_a_line_of_nodes_is_divided_for_some_of_them() -> None:
    assert node(LINE, "c[2-3]", CPUs="8") == (
        "NodeName=c1,c4 NodeAddr=10.0.0.1,10.0.0.4 CPUs=4 # x\n"
        "NodeName=c[2-3] NodeAddr=10.0.0.[2-3] CPUs=8\n"
    )
    assert node(LINE, "c[2-3]", CPUs="4") == LINE
    assert node(LINE, "c4", present=False) == LINE.replace("1-4", "1-3")
    assert node(LINE, "c[3-9]", present=False) == LINE.replace("1-4", "1-2")
    assert node(LINE, "c[1-9]", present=False) == ""


def test_a_line_of_nodes_gets_more_of_them() -> None:
    with pytest.raises(SlurmError, match="NodeAddr for c.1-4. alone -> give NodeAddr"):
        node(LINE, "c[1-6]")
    made = node(LINE, "c[1-6]", NodeAddr="10.0.0.[1-6]")
    assert made == LINE.replace("1-4", "1-6")


def test_nodes_of_several_lines_need_an_entry_for_each() -> None:
    text = LINE + "NodeName=d[1-2] CPUs=1\n"
    with pytest.raises(SlurmError, match=r"1 \(c\[1-4\]\) and 2 \(d\[1-2\]\)"):
        node(text, "c4,d1", CPUs="9")
    with pytest.raises(SlurmError, match="is in lines 1 and 2"):
        node(LINE + LINE, "c[1-4]", CPUs="9")


def test_yes_and_true_are_the_same() -> None:
    text = "PartitionName=a Default=YES Hidden=no\n"
    entry = edits.Entry("PartitionName", "a", True, {"Default": "yes", "Hidden": "no"})
    assert edits.edit(text, [entry]) == text


def test_lines_of_gres_conf_are_known_by_what_they_are_for() -> None:
    text = "AutoDetect=off\nNodeName=c[1-2] Name=gpu Type=a File=/dev/x0 # one\nName=mps Count=1\n"
    same = {"name": "gpu", "nodename": "c1,c2", "Type": "a", "File": "/dev/x0", "Cores": "0-3"}
    other = {"Name": "gpu", "NodeName": "c3", "File": "/dev/x0"}
    gone = {"Name": "mps", "state": "absent"}
    changes = edits.wanted({"gres": [same, other, gone]}, "gres.conf")
    assert edits.edit(text, changes, "gres.conf") == (
        "AutoDetect=off\nNodeName=c[1-2] Name=gpu Type=a File=/dev/x0 Cores=0-3 # one\n"
        "Name=gpu NodeName=c3 File=/dev/x0\n"
    )


# -- what is wanted -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (True, "yes"),
        (["a", "b"], "a,b"),
        ({"bf_interval": 30, "defer": True, "off": False, "none": None}, "bf_interval=30,defer"),
        (None, None),
        ([], None),
        ("", ""),
    ],
)
def test_values_become_text(value: object, text: str | None) -> None:
    assert edits.as_text("SchedulerParameters", value) == text


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"settings": {"KillWait": "a\nb"}}, "holds a line end"),
        ({"settings": {"NodeName": "c1"}}, "use nodes"),
        ({"settings": {"StoragePass": "x"}}, "use secret_settings"),
        ({"settings": {"KillWait": 1, "killwait": 2}}, "given twice"),
        ({"nodes": [{"CPUs": 1}]}, "needs one name"),
        ({"nodes": [{"name": "c1", "NodeName": "c2"}]}, "needs one name"),
        ({"nodes": [{"name": "c1", "state": "UNKNOWN"}]}, "with a capital, State"),
        ({"nodes": [{"name": "c1", "CPUs": 1, "cpus": 2}]}, "CPUs is given twice"),
        ({"gres": [{"Name": "gpu"}]}, "give file: gres.conf"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, t.Any], why: str) -> None:
    with pytest.raises(SlurmError, match=why):
        edits.wanted(given, "slurm.conf")


def test_unknown_options_have_their_nearest_names() -> None:
    given = {
        "settings": {"MaxJobCounts": 1, "CertmgrType": "x", "Nonsense": None},
        "partitions": [{"name": "a", "MaxTimes": 1}, {"name": "b", "state": "absent", "X": 1}],
    }
    found = dict(edits.unknown(edits.wanted(given, "slurm.conf"), "23.11", "slurm.conf"))
    assert set(found) == {"MaxJobCounts", "CertmgrType", "MaxTimes"}
    assert "did you mean MaxJobCount" in found["MaxJobCounts"]
    assert "from 24.11 on" in found["CertmgrType"]


def test_what_stands_in_an_included_file_is_refused_with_its_name() -> None:
    others = {"/etc/slurm/more.conf": "KillWait=30\nNodeName=c[1-2] CPUs=1\n"}
    text = "ClusterName=t\nInclude more.conf\n"
    for change in (edits.Setting("KillWait", ("9",)), edits.Entry("NodeName", "c1", False, {})):
        with pytest.raises(SlurmError, match="path: /etc/slurm/more.conf"):
            edits.edit(text, [change], others=others)
    same = [edits.Setting("KillWait", ("30",)), edits.Entry("NodeName", "c2", True, {"CPUs": "1"})]
    assert edits.edit(text, same, others=others) == text
    new = edits.Entry("NodeName", "c3", True, {})
    assert edits.edit(text, [new], others=others) == text + "NodeName=c3\n"


def test_passwords_are_not_shown() -> None:
    file = edits.File('storagepass="a b" # x\nDbdPort=1\n', "slurmdbd.conf")
    assert file.shown == "storagepass=(hidden) # x\nDbdPort=1\n"
    assert "a b" in file.text


def test_a_time_of_a_partition_that_is_a_number_is_refused() -> None:
    for option in ("MaxTime", "maxtime", "DefaultTime"):
        given: dict[str, t.Any] = {"partitions": [{"name": "batch", option: 3600}]}
        with pytest.raises(SlurmError, match="Time is the number 3600; .* -> write it in quotes"):
            edits.wanted(given, "slurm.conf")
    given = {"partitions": [{"name": "batch", "MaxTime": "60", "GraceTime": 90}]}
    assert edits.wanted(given, "slurm.conf")
