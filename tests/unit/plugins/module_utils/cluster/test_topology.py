# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the topology: what Slurm is given, and what it is never given."""

from __future__ import annotations

import copy
import random
import time
import typing as t

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.topology import (
    design,
    faults_of,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.topology_files import (
    lines,
    notes,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.topology_parts import (
    Block,
    Place,
    Switch,
    Topology,
    TopologyError,
    path_of,
    slurm_name,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.topology_tree import (
    MOST_SWITCHES,
    from_paths,
    paths_from,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import syntax
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.hostlist import expand

from tests.unit.cluster import inputs, node_facts
from tests.unit.network import instances

OLD, YAML = (24, 11), (25, 5)
# Three layers, four layers as p6-b200 has them, and unknown places.
PATHS: dict[str, t.Any] = {
    "c1": ["nn-a", "nn-b", "nn-c"],
    "c2": ["nn-a", "nn-b", "nn-c"],
    "c10": ["nn-a", "nn-b", "nn-d"],
    "p1": ["nn-0", "nn-1", "nn-2", "nn-3"],
    "u1": None,
    "u2": [],
    "u3": ["nn-a", None, "nn-c"],
}


def placed(paths: dict[str, t.Any]) -> dict[str, Place]:
    """Return the places of nodes with these paths."""
    return {node: Place(path_of(path)) for node, path in paths.items()}


def blocks_of(**sizes: int) -> dict[str, Place]:
    """Return the places of nodes in blocks of these sizes."""
    return {
        f"{name}{i}": Place((), name) for name, count in sizes.items() for i in range(1, count + 1)
    }


def said(error: pytest.ExceptionInfo[TopologyError]) -> str:
    """Return all faults as one text."""
    return str(error.value)


# --- trees --------------------------------------------------------------------------------------


def test_a_node_hangs_on_the_last_switch_of_its_path_below_one_root() -> None:
    made = design({"plugin": "tree"}, placed(PATHS), OLD)
    assert made and lines(made, OLD) == [
        "SwitchName=root Switches=nn-0,nn-a,unplaced",
        "SwitchName=nn-0 Switches=nn-1",
        "SwitchName=nn-1 Switches=nn-2",
        "SwitchName=nn-2 Switches=nn-3",
        "SwitchName=nn-3 Nodes=p1",
        "SwitchName=nn-a Switches=nn-b",
        "SwitchName=nn-b Switches=nn-c,nn-d",
        "SwitchName=nn-c Nodes=c[1-2]",
        "SwitchName=nn-d Nodes=c10",
        "SwitchName=unplaced Nodes=u[1-3]",
    ]
    assert made.unplaced == ("u1", "u2", "u3") and made.left_out == ()
    assert "u[1-3]: place in the network unknown" in " ".join(notes(made, OLD))


def test_nodes_of_unknown_place_are_left_out_when_asked() -> None:
    made = design({"plugin": "tree", "unplaced": ""}, placed(PATHS), OLD)
    assert made and made.left_out == ("u1", "u2", "u3")
    assert not any("u1" in line or "u[" in line for line in lines(made, OLD))
    (note,) = notes(made, OLD)
    assert "u[1-3]" in note and "gives them no job -> set slurm_network_path" in note
    assert "only jobs of one node" in notes(made, (26, 5))[0]


def test_one_top_needs_no_root() -> None:
    tree = from_paths({"c1": ["spine", "leaf1"], "c2": ["spine", "leaf2"]})
    assert [switch.name for switch in tree.switches] == ["spine", "leaf1", "leaf2"]
    assert len(from_paths({"c1": ["leaf1"], "c2": ["leaf2"]}, root="top").switches) == 3


def test_the_order_in_which_nodes_come_changes_nothing() -> None:
    shuffled = list(PATHS.items())
    random.Random(1).shuffle(shuffled)
    assert from_paths(dict(shuffled)) == from_paths(PATHS)


def test_the_lowest_layers_become_one_with_the_switch_above() -> None:
    tree = from_paths({"c1": ["a", "b", "c"], "c2": ["a", "b", "d"], "c3": ["x"]}, merge_lowest=1)
    assert [switch.nodes for switch in tree.switches if switch.name == "b"] == [("c1", "c2")]


@pytest.mark.parametrize(
    ("paths", "what"),
    [
        ({"c1": ["a", "b"], "c2": ["x", "b"]}, "b is below a (c1) and below x (c2)"),
        ({"c1": ["a", "b"], "c2": ["b", "c"]}, "b is below a (c1) and at the top (c2)"),
        ({"c1": ["a", "b"], "c2": ["b", "a"]}, "makes no tree"),
        ({"c1": ["a", "b"], "c2": ["a"]}, "a has nodes (c2) and switches (b)"),
        ({"c1": ["a", "a"]}, "names a switch twice: a > a (c1)"),
        ({"c1": None, "c2": []}, "is known of no compute node"),
        ({}, "is known of no compute node"),
    ],
)
def test_paths_that_make_no_tree_are_refused(paths: dict[str, t.Any], what: str) -> None:
    with pytest.raises(TopologyError) as error:
        from_paths(paths)
    assert what in said(error) and " -> " in said(error)


def test_names_of_the_synthetic_switches_must_be_free() -> None:
    with pytest.raises(TopologyError, match="slurm_topology.root: root is a switch"):
        from_paths({"c1": ["root", "a"], "c2": ["b"]})
    with pytest.raises(TopologyError, match="slurm_topology.unplaced: unplaced is a switch"):
        from_paths({"c1": ["a", "unplaced"], "c2": None})


@pytest.mark.parametrize("name", ["leaf1", "nn-0123456789abcdef0", "0x00fe-1", "rack_3"])
def test_names_that_slurm_reads_stay(name: str) -> None:
    assert slurm_name(name) == name


@pytest.mark.parametrize(
    "name", ["rack 3", "a[1-2]", "a,b", "sw.example.org", "12", "n" * 80, "ä", "-a", "#"]
)
def test_other_names_become_one_that_slurm_reads_and_stay_apart(name: str) -> None:
    mapped = slurm_name(name)
    assert expand(mapped) == [mapped] and len(mapped) < 64 and slurm_name(mapped) == mapped
    assert slurm_name(name) == mapped != slurm_name(name + "!")


# --- a description ------------------------------------------------------------------------------


def test_described_switches_go_before_the_hosts_own_places() -> None:
    spec = {
        "plugin": "tree",
        "switches": [
            {"name": "spine", "switches": "leaf[1-2]"},
            {"name": "leaf1", "nodes": "c[1-2]"},
            {"name": "leaf2", "nodes": ["c3", "c9"]},
        ],
    }
    made = design(
        spec, placed({"c1": ["other"], "c2": None, "c3": None, "c4": ["spine", "leaf2"]}), OLD
    )
    assert made and lines(made, OLD) == [
        "SwitchName=spine Switches=leaf[1-2]",
        "SwitchName=leaf1 Nodes=c[1-2]",
        "SwitchName=leaf2 Nodes=c[3-4]",
    ]


@pytest.mark.parametrize(
    ("switches", "what"),
    [
        ([{"name": "a", "nodes": "c1"}, {"name": "a", "nodes": "c2"}], "is there twice"),
        ([{"name": "a"}], "has neither nodes nor switches"),
        ([{"name": "a", "nodes": "c1", "switches": "b"}, {"name": "b", "nodes": "c2"}], "has nodes and switches"),
        ([{"name": "a", "switches": "b"}], "no switch is called b"),
        ([{"name": "a", "nodes": "c[1-"}], "cannot be read"),
        ([{"name": "a", "nodes": "c1"}, {"name": "b", "nodes": "c1"}], "c1 is on a as well"),
        ([{"name": "a", "switches": "l"}, {"name": "b", "switches": "l"}, {"name": "l", "nodes": "c1"}],
         "l is below a as well"),
        ([{"name": "a", "switches": "b"}, {"name": "b", "switches": "a"}], "going up ends where it began"),
    ],
)  # fmt: skip
def test_descriptions_that_are_no_tree_are_refused(
    switches: list[dict[str, t.Any]], what: str
) -> None:
    with pytest.raises(TopologyError) as error:
        paths_from(switches)
    assert what in said(error)


# --- blocks -------------------------------------------------------------------------------------


def test_blocks_are_written_with_their_sizes() -> None:
    nodes = {"c1": "b10", "c2": "b2", "c3": "b2", "c4": "b10", "x1": ""}
    places = {node: Place((), block) for node, block in nodes.items()}
    made = design({"plugin": "block", "block_sizes": [2, 4]}, places, OLD)
    assert made and lines(made, OLD) == [
        "BlockName=b2 Nodes=c[2-3]",
        "BlockName=b10 Nodes=c[1,4]",
        "BlockSizes=2,4",
    ]
    assert made.left_out == ("x1",)


def test_a_block_below_the_base_size_is_left_out_and_said_before_25_05() -> None:
    nodes = blocks_of(b1=3, b2=2)
    old = design({"plugin": "block", "block_sizes": [3]}, nodes, OLD)
    new = design({"plugin": "block", "block_sizes": [3]}, nodes, YAML)
    assert old and new
    assert [block.name for block in old.blocks] == ["b1"] and old.left_out == ("b21", "b22")
    assert "b2" in notes(old, OLD)[0] and "left out" in notes(old, OLD)[0]
    assert [block.name for block in new.blocks] == ["b1", "b2"] and new.left_out == ()


def test_described_blocks_keep_their_order() -> None:
    spec = {
        "plugin": "block",
        "block_sizes": [1],
        "blocks": [{"name": "z", "nodes": "c1"}, {"name": "a", "nodes": "c2"}],
    }
    made = design(spec, {"c1": Place(), "c2": Place((), "other")}, OLD)
    assert made and [block.name for block in made.blocks] == ["z", "a"]


@pytest.mark.parametrize(
    ("sizes", "what"),
    [
        ([], "is empty; the blocks have 2 to 3 nodes"),
        ([0], "whole numbers of nodes"),
        (["x"], "whole numbers of nodes"),
        ([2, 6], "powers of two"),
        ([4, 2], "powers of two"),
        ([2, 2], "powers of two"),
        ([9], "each block has fewer nodes"),
    ],
)
def test_sizes_that_slurm_stops_at_are_refused(sizes: list[t.Any], what: str) -> None:
    with pytest.raises(TopologyError) as error:
        design({"plugin": "block", "block_sizes": sizes}, blocks_of(b1=2, b2=3), OLD)
    assert what in said(error)


@pytest.mark.parametrize(
    ("blocks", "what"),
    [
        ([{"name": "a", "nodes": "c1"}, {"name": "b", "nodes": "c[1-2]"}], "c1 is in a as well"),
        ([{"name": "a", "nodes": "c1"}, {"name": "a", "nodes": "c2"}], "is there twice"),
        ([{"name": "a", "nodes": ""}], "does not have nodes"),
        ([], "is known of no compute node"),
    ],
)
def test_blocks_that_are_none_are_refused(blocks: list[dict[str, t.Any]], what: str) -> None:
    spec = {"plugin": "block", "block_sizes": [1], "blocks": blocks}
    with pytest.raises(TopologyError) as error:
        design(spec, {"c1": Place(), "c2": Place()}, OLD)
    assert what in said(error)


# --- topology.yaml ------------------------------------------------------------------------------


def test_yaml_has_the_tree_and_the_blocks_for_partitions_to_choose() -> None:
    nodes = {"c1": Place(("s", "l1"), "b1"), "c2": Place(("s", "l2"), "b1")}
    spec = {"plugin": "tree", "block_sizes": [2]}
    made = design(spec, nodes, YAML)
    assert made
    text = lines(made, YAML)
    assert text[0] == "- topology: tree"  # must be the first key (topology.yaml(5))
    assert yaml.safe_load("\n".join(text)) == [
        {
            "topology": "tree",
            "cluster_default": True,
            "tree": {
                "switches": [
                    {"switch": "s", "children": "l[1-2]"},
                    {"switch": "l1", "nodes": "c1"},
                    {"switch": "l2", "nodes": "c2"},
                ]
            },
        },
        {
            "topology": "block",
            "cluster_default": False,
            "block": {"block_sizes": [2], "blocks": [{"block": "b1", "nodes": "c[1-2]"}]},
        },
    ]
    other = design({**spec, "plugin": "block"}, nodes, YAML)
    assert other and lines(other, YAML)[:2] == ["- topology: block", "  cluster_default: true"]
    assert design(spec, nodes, OLD).blocks == ()  # type: ignore[union-attr]


# --- the validator ------------------------------------------------------------------------------

SOUND = (Switch("r", ("a", "b")), Switch("a", nodes=("c1",)), Switch("b", nodes=("c2",)))


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (Topology("tree", SOUND), ""),
        (Topology("block", blocks=(Block("b", ("c1", "c2")),), block_sizes=(2,)), ""),
        (Topology("tree"), "there is no switch"),
        (Topology("tree", SOUND[1:]), "no common switch above"),
        (Topology("tree", (*SOUND, Switch("b", nodes=("c3",)))), "2 switch entries are called b"),
        (Topology("tree", (*SOUND[:2], Switch("b", nodes=("c1",)))), "c1: in more than one switch"),
        (Topology("tree", (*SOUND[:2], Switch("b", nodes=("c9",)))), "c9: in a switch, and no compute node"),
        (Topology("tree", (*SOUND[:2], Switch("b"))), "has neither nodes and switches"),
        (Topology("tree", (*SOUND[:2], Switch("b", ("a",), ("c2",)))), "has both nodes and switches"),
        (Topology("tree", (Switch("r", ("a", "x")), SOUND[1])), "x: below a switch, and not described"),
        (Topology("tree", (Switch("r", ("a",)), SOUND[1], Switch("x", ("y",)), Switch("y", ("x",)))),
         "x, y: going up ends where it began"),
        (Topology("tree", (Switch("r", ("a", "b", "d")), *SOUND[1:], Switch("d", ("a",)))),
         "a: below more than one switch"),
        (Topology("tree", (Switch("a b", nodes=("c1",)),)), "cannot read 'a b'"),
        (Topology("block", block_sizes=(2,)), "there is no block"),
        (Topology("block", blocks=(Block("b", ()),), block_sizes=(2,)), "block b is empty"),
        (Topology("block", blocks=(Block("b", ("c1",)),), block_sizes=(2, 3)), "powers of two"),
    ],
)  # fmt: skip
def test_what_slurm_stops_at_is_found(made: Topology, what: str) -> None:
    found = [fault.what for fault in faults_of(made, ("c1", "c2", "c3"))]
    assert any(what in item for item in found) if what else found == []


def test_more_switches_than_slurm_reads_in_time_are_refused() -> None:
    many = {f"c{i}": ["top", f"leaf{i}"] for i in range(MOST_SWITCHES)}
    with pytest.raises(TopologyError, match="merge_lowest"):
        design({"plugin": "tree"}, placed(many), OLD)
    made = design({"plugin": "tree", "merge_lowest": 1}, placed(many), OLD)
    assert made and len(made.switches) == 1


def test_ten_thousand_instances_take_less_than_two_seconds() -> None:
    places = placed(instances(10_000))
    # Of this process: the machine is shared with others.
    started = time.process_time()
    made = design({"plugin": "tree"}, places, OLD)
    text = lines(made, OLD)  # type: ignore[arg-type]
    assert time.process_time() - started < 2
    assert made and {len(place.path) for place in places.values()} == {0, 3, 4}
    nodes = [name for line in text if "Nodes=" in line for name in expand(line.split("Nodes=")[1])]
    assert sorted(nodes) == sorted(places)
    assert max(map(len, notes(made, OLD))) < 300


# --- in the cluster model -----------------------------------------------------------------------


def cluster(compute: int = 3, **spec: t.Any) -> t.Any:
    """Return inputs in which c1 and c2 are on leaf1, and c3 on leaf2 and in the block b2."""
    given = inputs(compute, slurm_topology={"plugin": "tree", **spec})
    for host, leaf in (("c1", "leaf1"), ("c2", "leaf1"), ("c3", "leaf2")):
        if host in given["host_vars"]:
            given["host_vars"][host] = {
                "slurm_network_path": ["spine", leaf],
                "slurm_block": f"b{leaf[-1]}",
            }
    return given


def test_the_model_has_the_file_and_the_plugin_of_this_slurm() -> None:
    model = build_model(cluster())
    assert model["topology"] == {
        "plugin": "tree",
        "file": "topology.conf",
        "lines": [
            "SwitchName=spine Switches=leaf[1-2]",
            "SwitchName=leaf1 Nodes=c[1-2]",
            "SwitchName=leaf2 Nodes=c3",
        ],
        "managed": True,
        "unplaced": [],
        "left_out": [],
    }
    assert ["TopologyPlugin", "topology/tree"] in model["slurm_conf"]
    given = cluster()
    for facts in given["facts"].values():
        facts["slurm"]["candidate"] = "25.05.3"
    model = build_model(given)
    assert model["topology"]["file"] == "topology.yaml"
    assert not any(key == "TopologyPlugin" for key, _value in model["slurm_conf"])


def test_without_a_plugin_nothing_is_written_and_files_of_others_stay() -> None:
    model = build_model(inputs())
    assert (model["topology"]["plugin"], model["topology"]["file"]) == ("none", "")
    assert model["topology"]["managed"]
    own = build_model(inputs(slurm_conf={"TopologyPlugin": "topology/tree"}))
    assert not own["topology"]["managed"]


def test_a_run_that_sees_one_node_keeps_the_place_of_the_others() -> None:
    record = build_model(cluster())["record"]
    given = cluster()
    given.update(record=record, limit="c1,ctl", hosts_in_run=["c1", "ctl"])
    for key in ("facts", "host_vars"):
        given[key] = {host: given[key][host] for host in ("c1", "ctl")}
    assert problems(given) == []
    assert build_model(given)["topology"] == build_model(cluster())["topology"]


def test_a_record_of_before_is_read() -> None:
    given = cluster()
    given["record"] = build_model(inputs(4))["record"]
    for node in given["record"]["nodes"].values():
        del node["network_path"], node["block"]
    model = build_model(given)
    assert model["topology"]["unplaced"] == ["c4"]


def test_a_removed_node_leaves_the_topology() -> None:
    given = cluster()
    given["record"] = build_model(cluster())["record"]
    given["remove"] = ["c3"]
    assert problems(given) == []
    assert build_model(given)["topology"]["lines"] == [
        "SwitchName=spine Switches=leaf1",
        "SwitchName=leaf1 Nodes=c[1-2]",
    ]


def test_a_removed_node_may_still_be_described() -> None:
    given = cluster(switches=[{"name": "leaf", "nodes": "c[1-3]"}])
    given["record"] = build_model(given)["record"]
    given["remove"] = ["c3"]
    assert problems(given) == []
    assert build_model(given)["topology"]["lines"] == ["SwitchName=leaf Nodes=c[1-2]"]


def test_login_nodes_with_slurmd_are_in_no_switch() -> None:
    given = cluster()
    for host in given["facts"]:
        given["facts"][host] = node_facts(
            host,
            "10.0.0.9",
            slurm={"version": "", "candidate": "22.05.8-4", "config_dir": "/etc/slurm"},
        )
    model = build_model(given)
    assert any(node["client"] for node in model["nodes"])
    assert "login1" not in " ".join(model["topology"]["lines"])


def test_a_changed_path_changes_nothing_but_the_topology_and_the_record() -> None:
    given = cluster()
    before = build_model(given)
    given["host_vars"]["c2"]["slurm_network_path"] = ["spine", "leaf2"]
    after = build_model(given)
    changed = {key for key in after if after[key] != before[key]}  # type: ignore[literal-required]
    assert changed == {"topology", "record", "nodes"}


@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_the_plugin_takes_a_restart_before_23_11_only(version: str) -> None:
    old, new = (syntax.parse(text) for text in ("", "TopologyPlugin=topology/tree\n"))
    decision = syntax.decide(old, new, version)
    restart = version == "22.05"
    assert (decision.action, decision.slurmd_restart) == (
        "restart" if restart else "reconfigure",
        restart,
    )


# --- preflight ----------------------------------------------------------------------------------


def host_var(name: str, value: t.Any) -> t.Any:
    """Return inputs with a variable of c1 changed."""
    given = cluster()
    given["host_vars"]["c1"][name] = value
    return given


def conf(**options: t.Any) -> t.Any:
    """Return inputs with settings of slurm.conf."""
    given = cluster()
    given["settings"]["slurm_conf"] = options
    return given


def on(version: str, **spec: t.Any) -> t.Any:
    """Return inputs of a cluster that runs this Slurm."""
    given = cluster(**spec)
    for facts in given["facts"].values():
        facts["slurm"]["candidate"] = version
    return given


@pytest.mark.parametrize(
    ("given", "variable", "what"),
    [
        (cluster(plugin="ring"), "slurm_topology.plugin", "'ring'"),
        (cluster(plugins="tree"), "slurm_topology", "unknown key plugins"),
        (cluster(switches="leaf1"), "slurm_topology.switches", "'leaf1'"),
        (cluster(switches=[{"nodes": "c1"}]), "slurm_topology.switches[0]", "lacks name"),
        (cluster(switches=[{"name": "a", "node": "c1"}]), "slurm_topology.switches[a]", "did you mean nodes"),
        (cluster(switches=[{"name": "a", "nodes": "c[1-4]"}]), "slurm_topology.switches[a].nodes",
         "no compute node c4"),
        (cluster(switches=[{"name": "a", "nodes": "c[1-"}]), "slurm_topology.switches[a].nodes", "cannot be read"),
        (cluster(blocks=[{"name": "a"}]), "slurm_topology.blocks[a]", "lacks nodes"),
        (cluster(plugin="block"), "slurm_topology.block_sizes", "is empty; the blocks have 1 to 2 nodes"),
        (cluster(root=["a"]), "slurm_topology.root", "['a']"),
        (host_var("slurm_network_path", "leaf1"), "slurm_network_path", "'leaf1'"),
        (inputs(slurm_topology={"plugin": None}), "slurm_topology.plugin", "is None"),
        (host_var("slurm_network_path", ["other", "leaf1"]), "slurm_network_path", "makes no tree"),
        (host_var("slurm_block", ["b"]), "slurm_block", "['b']"),
        (conf(TopologyPlugin="topology/tree"), "slurm_topology.plugin", "slurm_conf sets TopologyPlugin"),
        (on("22.05.8-4", plugin="block", block_sizes=[1]), "slurm_topology.plugin", "block needs Slurm 24.05"),
        (inputs(slurm_topology={"plugin": "tree"}), "slurm_network_path", "is known of no compute node"),
        (inputs(slurm_topology={"plugin": None}), "slurm_topology.plugin", "is None"),
        (inputs(slurm_topology=["tree"]), "slurm_topology", "['tree']"),
    ],
)  # fmt: skip
def test_a_topology_that_cannot_be_is_refused(given: t.Any, variable: str, what: str) -> None:
    found = [problem for problem in problems(given) if problem.variable == variable]
    assert any(what in problem.what for problem in found), problems(given)
    assert all(problem.remedy for problem in found)


@pytest.mark.parametrize(
    "given",
    [
        cluster(),
        cluster(plugin="block", block_sizes=[1]),
        on("25.05.1", plugin="block", block_sizes=[2]),
        inputs(slurm_topology={}),
        inputs(slurm_conf={"TopologyPlugin": "topology/tree"}),
        host_var("slurm_network_path", None),
        host_var("slurm_network_path", [None, None, None]),
    ],
)
def test_what_can_be_is_taken(given: t.Any) -> None:
    before = copy.deepcopy(given)
    assert problems(given) == []
    build_model(given)
    assert given == before


def test_names_one_letter_off_are_found() -> None:
    given = inputs()
    given["variables"] = ["slurm_topolgy", "slurm_network_paths"]
    assert [problem.remedy for problem in problems(given)] == [
        "write slurm_topology, or give a variable of your own another name",
        "write slurm_network_path, or give a variable of your own another name",
    ]
