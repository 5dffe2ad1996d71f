# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of slurm.conf as data: the grammar, the option names, restart or reconfigure."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import releases
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import parameters, syntax
from hypothesis import example, given, settings
from hypothesis import strategies as st

# Anything that Slurm's grammar can hold: no line end and no double quote.
VALUES = st.text(
    st.characters(codec="utf-8", exclude_characters='\n\r"', exclude_categories=("Cc", "Cs", "Zl")),
    max_size=30,
).filter(lambda value: value.splitlines() in ([], [value]))
KEYS = st.sampled_from(parameters.ALWAYS["slurm.conf"]).filter(
    lambda key: key not in ("NodeName", "PartitionName", "NodeSet", "DownNodes", "FrontendName")
)
NAMES = st.from_regex(r"[a-z][a-z-]{0,6}[0-9]{0,4}", fullmatch=True)

BASE = """
ClusterName=t
SlurmctldHost=ctl1
NodeName=c[1-2] CPUs=4 RealMemory=1000
PartitionName=batch Nodes=ALL Default=YES
"""


def decide(before: str, after: str, version: str) -> syntax.Decision:
    return syntax.decide(syntax.parse(before), syntax.parse(after), version)


# -- the grammar --------------------------------------------------------------------------------


@settings(max_examples=300)
@given(st.lists(st.tuples(KEYS, VALUES), max_size=8))
@example([("AuthInfo", "a b\\#c#\\"), ("Epilog", ""), ("Prolog", "\\")])
def test_what_is_rendered_reads_back(pairs):
    wanted: dict[str, list[str]] = {}
    for key, value in pairs:
        wanted.setdefault(key, []).append(value)
    text = "".join(syntax.render_line([pair]) + "\n" for pair in pairs)
    assert syntax.parse(text).scalars == wanted


@settings(max_examples=200)
@given(st.lists(st.tuples(NAMES, VALUES), max_size=5, unique_by=lambda pair: pair[0]))
def test_node_lines_read_back(nodes):
    text = "".join(
        syntax.render_line([("NodeName", name), ("Reason", reason)]) + "\n"
        for name, reason in nodes
    )
    assert syntax.parse(text).nodes == {name: {"Reason": reason} for name, reason in nodes}


@settings(max_examples=200)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_its_line(text):
    try:
        syntax.parse(text)
    except syntax.ConfError as error:
        assert str(error).startswith("line ")


def test_keys_are_case_insensitive_and_comments_end_a_line():
    conf = syntax.parse("slurmctldhost = a(10.0.0.1) # first\nSLURMCTLDHOST=b\n# X=1\n")
    assert conf.scalars == {"SlurmctldHost": ["a(10.0.0.1)", "b"]}
    assert conf.get("SlurmctldHost") == "b"


def test_a_backslash_continues_a_line_and_an_escaped_one_does_not():
    assert syntax.parse("PartitionName=p \\\n Nodes=c1").of("PartitionName") == [
        {"PartitionName": "p", "Nodes": "c1"}
    ]
    conf = syntax.parse("Epilog=a\\\\\nProlog=b")
    assert conf.scalars == {"Epilog": ["a\\"], "Prolog": ["b"]}


def test_defaults_and_lists_of_addresses_reach_each_node():
    conf = syntax.parse(
        "NodeName=DEFAULT CPUs=8\nNodeName=c[01-02],d1 NodeAddr=10.0.0.[1-2],10.0.0.9 Weight=2\n"
    )
    assert conf.nodes["c02"] == {"CPUs": "8", "NodeAddr": "10.0.0.2", "Weight": "2"}
    assert conf.nodes["d1"]["NodeAddr"] == "10.0.0.9"


@pytest.mark.parametrize(
    "text, word",
    [
        ("ClusterName", "not Key=Value"),
        ("AuthInfo=a b", "double quotes"),
        ("AuthInfo=a ClusterName=b", "one line"),
        ("NodeName=c[1-", "brackets"),
        ("NodeName=c[3-1]", "range"),
    ],
)
def test_what_slurm_refuses_is_refused_with_the_line(text, word):
    with pytest.raises(syntax.ConfError, match="line 2.*" + word):
        syntax.parse("\n" + text + "\n")


@pytest.mark.parametrize("value", ['a"b', "a\nb"])
def test_a_value_that_slurm_cannot_read_is_not_written(value):
    with pytest.raises(syntax.ConfError, match="line end or a double quote"):
        syntax.render_value(value)


def test_gres_and_includes():
    conf = syntax.parse("AutoDetect=nvidia\nNodeName=c1 Name=gpu File=/dev/nvidia0", "gres.conf")
    assert conf.scalars == {"AutoDetect": ["nvidia"]}
    assert conf.of("gres") == [{"NodeName": "c1", "Name": "gpu", "File": "/dev/nvidia0"}]
    assert syntax.parse("include more.conf").includes == ["more.conf"]


# -- option names -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, version, file, word",
    [
        ("MetricsType", "24.11", "slurm.conf", "from 25.11 on"),
        ("FrontendName", "25.05", "slurm.conf", "last Slurm to have it is 24.11"),
        ("SlurmctldPrt", "24.11", "slurm.conf", "did you mean SlurmctldPort"),
        ("ConstrainCores", "24.11", "slurm.conf", "belongs to cgroup.conf"),
        ("Topology", "24.11", "NodeName", "from 25.05 on"),
        ("PurgeJobEnvAfter", "24.11", "slurmdbd.conf", "from 26.05 on"),
        ("ConstrainKmemSpace", "24.11", "cgroup.conf", "23.02"),
        ("Gpus", "24.11", "gres.conf", "no release"),
    ],
)
def test_unknown_options_say_which_release_has_them(name, version, file, word):
    [(given_name, reason)] = syntax.unknown_options([name], version, file)
    assert given_name == name
    assert word in reason


@pytest.mark.parametrize("version", releases.KNOWN)
@pytest.mark.parametrize("file", list(parameters.ALWAYS))
def test_known_options_pass_in_any_case(version, file):
    names = [name.upper() for name in parameters.ALWAYS[file]]
    assert syntax.unknown_options(names, version, file) == []


def test_a_release_newer_than_the_table_may_have_more():
    assert syntax.unknown_options(["BrandNew"], "27.05") == []
    assert syntax.unknown_options(["FrontendName"], "27.05")


def test_node_and_partition_lines_are_looked_at():
    conf = syntax.parse("NodeName=c1 Flavor=x\nPartitionName=p Nodez=c1\nExtSensorsFreq=1")
    assert [name for name, _reason in syntax.unknown_in(conf, "24.11")] == ["Flavor", "Nodez"]


def test_the_table_is_consistent():
    for file, some in parameters.SOME.items():
        assert not set(some) & set(parameters.ALWAYS[file])
        for first, last in some.values():
            assert first or last
            assert {first, last} - {None} <= set(releases.KNOWN)
    known = {*parameters.ALWAYS["slurm.conf"], *parameters.SOME["slurm.conf"]}
    assert {row[0] for row in parameters.RESTART} <= known
    actions = {row[3] for row in parameters.RESTART}
    assert actions == {"refuse", "restart_both", "restart_slurmctld", "restart_slurmd"}
    assert all(row[4] for row in parameters.RESTART)


# -- restart or reconfigure ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, old_way, new_way",
    [
        ("SlurmctldTimeout=300", ("reconfigure", False), ("reconfigure", False)),
        ("AccountingStorageEnforce=limits", ("restart", False), ("reconfigure", False)),
        ("GresTypes=gpu", ("restart", True), ("reconfigure", False)),
        ("TaskPlugin=task/affinity", ("reconfigure", True), ("reconfigure", False)),
        ("SlurmdPort=7000", ("restart", True), ("restart", True)),
        ("StateSaveLocation=/x", ("refuse", True), ("refuse", True)),
        ("SchedulerParameters=bf_window=10", ("reconfigure", False), ("reconfigure", False)),
        ("SchedulerParameters=no_backup_scheduling", ("restart", False), ("reconfigure", False)),
        ("NodeName=c3 CPUs=4", ("restart", False), ("reconfigure", False)),
        ("PartitionName=p Nodes=c1", ("reconfigure", False), ("reconfigure", False)),
        ("NodeSet=s Feature=f", ("reconfigure", False), ("reconfigure", False)),
        ("include x.conf", ("reconfigure", False), ("reconfigure", False)),
        ("# said in passing", ("none", False), ("none", False)),
    ],
)
def test_a_change_takes_the_least_that_its_release_needs(change, old_way, new_way):
    for before, after in ((BASE, BASE + change + "\n"), (BASE + change + "\n", BASE)):
        for version, wanted in (
            ("22.05.8", old_way),
            ("23.02", old_way),
            ("23.11", new_way),
            ("24.11", new_way),
            ("26.05", new_way),
        ):
            decision = decide(before, after, version)
            assert (decision.action, decision.slurmd_restart) == wanted, version


@pytest.mark.parametrize(
    "before, after, old_way, new_way",
    [
        ("CPUs=4", "CPUs=8", "restart", "reconfigure"),
        ("RealMemory=1000", "RealMemory=1000 Weight=9", "reconfigure", "reconfigure"),
        ("RealMemory=1000", "RealMemory=1000 Port=7000", "restart", "restart"),
        ("c[1-2]", "c1", "restart", "reconfigure"),
        ("c[1-2]", "c1,c2", "none", "none"),
    ],
)
def test_node_lines_are_compared_node_by_node(before, after, old_way, new_way):
    changed = BASE.replace(before, after)
    assert decide(BASE, changed, "22.05").action == old_way
    assert decide(BASE, changed, "24.11").action == new_way


def test_reasons_name_old_and_new():
    decision = decide(BASE, BASE.replace("CPUs=4", "CPUs=8"), "24.11")
    assert decision.reasons == [
        ("NodeName=c1 CPUs", "4", "8", "reconfigure"),
        ("NodeName=c2 CPUs", "4", "8", "reconfigure"),
    ]


def test_the_strongest_step_wins():
    both = BASE + "SlurmctldTimeout=9\nSlurmctldPort=7000\n"
    assert decide(BASE, both, "24.11").action == "restart"
    assert decide(BASE, both + "SelectType=select/linear\n", "24.11").action == "refuse"


def test_restart_parameters():
    assert {"SlurmdPort", "SlurmdSpoolDir"} <= syntax.restart_parameters("slurmd", "24.11")
    assert "GresTypes" not in syntax.restart_parameters("slurmd", "24.11")
    assert "GresTypes" in syntax.restart_parameters("slurmd", "22.05")
    assert "SlurmdUser" not in syntax.restart_parameters("slurmctld", "24.11")


def test_files_of_slurmctld():
    for name in ("slurm.conf", "gres.conf", "topology.yaml", "plugstack.conf"):
        assert syntax.read_by_slurmctld("/etc/slurm/" + name)
    for name in ("slurmdbd.conf", "record.json"):
        assert not syntax.read_by_slurmctld("/etc/slurm/" + name)
