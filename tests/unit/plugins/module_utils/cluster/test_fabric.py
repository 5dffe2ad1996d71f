# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of topologies from InfiniBand and NVLink, in the form that ibnetdiscover(8) and nvidia-smi print."""

from __future__ import annotations

import hashlib
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.filter.fabric import FilterModule
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.fabric import (
    FabricError,
    nvlink_domain,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.topology_tree import (
    paths_from,
)

FILTERS = FilterModule().filters()
ib_switches, nvlink_blocks = FILTERS["ib_switches"], FILTERS["nvlink_blocks"]


def guid(name: str) -> str:
    """Return a GUID for a name."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def fabric(links: t.Sequence[tuple[str, str]], descriptions: dict[str, str] | None = None) -> str:
    """Return what ibnetdiscover prints of these links: (switch, switch) or (switch, "host device")."""
    switches = sorted({name for link in links for name in link if " " not in name})
    text = "#\n# Topology file: generated on Mon Nov  2 09:00:00 2026\n#\n# Initiated from node x port y\n"
    for switch in switches:
        shown = (descriptions or {}).get(switch, f"MF0;{switch}:MQM8700/U1")
        text += f"\nvendid=0x2c9\ndevid=0xd2f0\nswitchguid=0x{guid(switch)}({guid(switch)})\n"
        text += f'Switch\t41 "S-{guid(switch)}"\t\t# "{shown}" enhanced port 0 lid 3 lmc 0\n'
        for port, link in enumerate([link for link in links if switch in link], 1):
            peer = link[1] if link[0] == switch else link[0]
            if " " in peer:
                text += f'[{port}]\t"H-{guid(peer)}"[1]({guid(peer)}) \t\t# "{peer}" lid 10 4xHDR\n'
            else:
                other = (descriptions or {}).get(peer, f"MF0;{peer}:MQM8700/U1")
                text += f'[{port}]\t"S-{guid(peer)}"[{port}]\t\t# "{other}" lid 2 4xHDR\n'
    for switch, adapter in links:
        if " " in adapter:
            text += f'\nvendid=0x2c9\ncaguid=0x{guid(adapter)}\nCa\t1 "H-{guid(adapter)}"\t\t# "{adapter}"\n'
            text += f'[1]({guid(adapter)}) \t"S-{guid(switch)}"[1]\t\t# lid 10 lmc 0 "MF0;{switch}:X/U1" lid 3 4xHDR\n'
    return text


TWO_LEVELS = [
    ("leaf1", "gpu1 mlx5_0"), ("leaf1", "gpu2 mlx5_0"), ("leaf2", "gpu10 mlx5_0"), ("leaf2", "nas1 mlx5_0"),
    ("leaf1", "spine1"), ("leaf2", "spine1"), ("leaf1", "spine2"), ("leaf2", "spine2"),
]  # fmt: skip


def test_leaves_with_their_hosts() -> None:
    assert ib_switches(fabric(TWO_LEVELS)) == [
        {"name": "leaf1", "nodes": "gpu[1-2]"},
        {"name": "leaf2", "nodes": "gpu10,nas1"},
    ]


def test_only_the_nodes_count() -> None:
    assert ib_switches(fabric(TWO_LEVELS), nodes=["gpu1", "gpu10"]) == [
        {"name": "leaf1", "nodes": "gpu1"},
        {"name": "leaf2", "nodes": "gpu10"},
    ]


def test_rails_are_one_leaf_although_a_link_is_down() -> None:
    links = [
        (f"rail{rail}-su{unit}", f"gpu{unit}{host} mlx5_{rail}")
        for unit in (1, 2)
        for host in (1, 2)
        for rail in (0, 1)
        if (unit, host, rail) != (1, 2, 0)
    ] + [(f"rail{rail}-su{unit}", "spine") for unit in (1, 2) for rail in (0, 1)]
    found = ib_switches(fabric(links))
    assert found == [
        {"name": "rail0-su1", "nodes": "gpu[11-12]"},
        {"name": "rail0-su2", "nodes": "gpu[21-22]"},
    ]


def test_one_device_counts_when_asked() -> None:
    links = [
        ("leaf1", "gpu1 mlx5_0"),
        ("leaf2", "gpu2 mlx5_0"),
        ("store", "gpu1 mlx5_9"),
        ("store", "gpu2 mlx5_9"),
    ]
    assert len(ib_switches(fabric(links))) == 1
    assert [item["name"] for item in ib_switches(fabric(links), device="mlx5_0")] == [
        "leaf1",
        "leaf2",
    ]


def test_pods_get_a_switch_above_their_leaves() -> None:
    links = [(f"leaf{n}", f"gpu{n} mlx5_0") for n in range(1, 5)]
    links += [(f"leaf{n}", f"pod{(n + 1) // 2}") for n in range(1, 5)]
    links += [("pod1", "core"), ("pod2", "core")]
    found = ib_switches(fabric(links))
    assert found[:2] == [
        {"name": "pod1", "switches": "leaf1,leaf2"},
        {"name": "pod2", "switches": "leaf3,leaf4"},
    ]
    assert paths_from(found) == {f"gpu{n}": [f"pod{(n + 1) // 2}", f"leaf{n}"] for n in range(1, 5)}


def test_switches_without_a_name_of_their_own_go_by_their_guid() -> None:
    shown = {"leaf1": "Quantum Mellanox Technologies", "leaf2": "Quantum Mellanox Technologies"}
    names = [item["name"] for item in ib_switches(fabric(TWO_LEVELS, shown))]
    assert names == sorted(f"S-{guid(name)}" for name in ("leaf1", "leaf2"))


@pytest.mark.parametrize(
    ("text", "nodes", "what"),
    [
        ("", None, "there is no line 'Switch"),
        ("Ca : 0x1 ports 1", None, "there is no line 'Switch"),
        (fabric(TWO_LEVELS), ["other"], "no adapter on a switch belongs to one of the nodes"),
        (fabric(TWO_LEVELS), ["c[1-"], "brackets"),
    ],
)
def test_text_that_says_nothing_is_refused(text: str, nodes: t.Any, what: str) -> None:
    with pytest.raises(AnsibleFilterError, match="ib_switches: .*->") as error:
        ib_switches(text, nodes)
    assert what in str(error.value)


def smi(*gpus: tuple[str, str]) -> str:
    """Return the part of nvidia-smi -q with the (cluster, clique) of the GPUs."""
    return "".join(
        f"GPU 0000000{i}:01:00.0\n    Product Name                          : NVIDIA GB200\n    Fabric\n"
        "        State                             : Completed\n        Status                            : Success\n"
        f"        CliqueId                          : {clique}\n        ClusterUUID                       : {cluster}\n"
        for i, (cluster, clique) in enumerate(gpus)
    )


ONE = "8d1e6d2c-5f2e-4f4a-9a53-3c0f8f1d2e4b"
TWO = "0f0e6d2c-5f2e-4f4a-9a53-3c0f8f1d2e4c"


def test_nodes_of_one_clique_are_a_block() -> None:
    texts = {f"gb{i}": smi(*[(ONE if i < 3 else TWO, "32766")] * 4) for i in range(1, 5)}
    texts["hgx1"] = smi(("00000000-0000-0000-0000-000000000000", "0"))
    texts["old1"] = smi(("N/A", "N/A"))
    texts["cpu1"] = ""
    assert nvlink_blocks(texts) == [
        {"name": f"nvl-{TWO}-32766", "nodes": "gb[3-4]"},
        {"name": f"nvl-{ONE}-32766", "nodes": "gb[1-2]"},
    ]


def test_gpus_that_disagree_are_refused_with_the_node() -> None:
    with pytest.raises(FabricError, match="2 NVLink domains"):
        nvlink_domain(smi((ONE, "1"), (ONE, "2")))
    with pytest.raises(AnsibleFilterError, match="nvlink_blocks: gb1: its GPUs"):
        nvlink_blocks({"gb1": smi((ONE, "1"), (TWO, "1"))})


def test_a_list_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="mapping of node names"):
        nvlink_blocks(["text"])
