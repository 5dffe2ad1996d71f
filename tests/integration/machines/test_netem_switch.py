# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A delay by netem on the network of one node of six: the report names that node, and nothing else.

netem needs a kernel that has it, and six emulated nodes would measure their emulation. So one machine is the switch of
six containers: it bridges what they send each other on the ports that validation measures, and delays at the port of
one of them. Slurm and SSH keep the containers' own network.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from driver import host, machines

from ..site import Nodes, Site
from ..test_validate import NAMES, SWITCHES, report

pytestmark = pytest.mark.soak("a cluster of six and a machine")

NAME = "switch"
#: An address for the machine's side of each node, by which it knows its ports: the kernel may number them in any order.
MACS = {node: f"52:54:00:78:00:{number:02x}" for number, node in enumerate(NAMES, 1)}
#: The device of a node at the switch, the routes over it, and the ports that sockets.py chooses from.
DEVICE, TABLE, PORTS = "sw0", "77", "20000-29999"
#: The search without a bad node takes 3 + 2 x log2(6) rounds at most.
ROUNDS = 3 + 2 * 2.585


def port(node: str) -> str:
    """Shell words that stand for the switch's interface to a node."""
    return f"$(basename $(dirname $(grep -l {MACS[node]} /sys/class/net/eth*/address)))"


def connect(site: Site, node: str, tap: str) -> None:
    """Make a TAP device the way from a node to the others for what validation measures."""
    cluster = site.cluster.local
    asked = host.podman("inspect", "--format={{.State.Pid}}", cluster.container(node))
    host.run(["ip", "link", "set", tap, "netns", asked.stdout.strip(), "name", DEVICE])
    own = cluster.addresses[node]
    others = [cluster.addresses[name] for name in NAMES if name != node]
    lines = [
        f"ip link set {DEVICE} up",
        # What comes in there has the addresses of eth0's network.
        f"sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.{DEVICE}.rp_filter=0",
        *(f"ip route add {address} dev {DEVICE} src {own} table {TABLE}" for address in others),
        # The packets of both sides: of the one that connects, and of the one that listens.
        *(f"ip rule add ipproto tcp {end} {PORTS} lookup {TABLE}" for end in ("dport", "sport")),
    ]
    site.run(node, " && ".join(lines))


@pytest.fixture(scope="module")
def switched() -> Iterator[tuple[Site, machines.Machine]]:
    """A cluster of six compute nodes, and the machine that is their switch."""
    cluster = Nodes("val7")
    made = Site(cluster)
    machines.down(NAME)
    cluster.local.destroy()
    try:
        cluster.local.create(os="debian13", compute=len(NAMES))
        made.play("site.yml")
        # Other clones on this host have such devices too.
        tag = cluster.local.unique.rpartition("-")[2]
        taps = {node: f"tw{tag}-{node}" for node in NAMES}
        switch = machines.up(
            NAME, memory_mb=512, taps={MACS[node]: tap for node, tap in taps.items()}
        )
        switch.run(
            "modprobe -a bridge sch_netem && ip link add br0 type bridge forward_delay 0 && ip link set br0 up"
        )
        for node in NAMES:
            switch.run(f"port={port(node)} && ip link set $port master br0 up")
            connect(made, node, taps[node])
        yield made, switch
    finally:
        # Its devices end with it, wherever they are.
        machines.down(NAME)
        cluster.local.destroy()


@contextmanager
def late(switch: machines.Machine, delays: dict[str, str]) -> Iterator[None]:
    """Nodes that get everything later, by name."""
    try:
        for node, delay in delays.items():
            switch.run(f"tc qdisc add dev {port(node)} root netem delay {delay}")
        yield
    finally:
        for node in delays:
            switch.run(f"tc qdisc del dev {port(node)} root", check=False)


def forwarded(switch: machines.Machine) -> dict[str, int]:
    """Bytes that the switch has sent to each node."""
    return {
        node: int(switch.run(f"cat /sys/class/net/{port(node)}/statistics/tx_bytes").stdout)
        for node in NAMES
    }


@pytest.mark.parametrize(
    "delays",
    [
        # Without a delay, the emulation alone must not have a node named.
        {},
        {"c4": "50ms"},
        # Too little to be seen in the bandwidth.
        {"c5": "10ms"},
    ],
    ids=["healthy", "late", "a little late"],
)
def test_a_late_port_of_the_switch_names_its_node_and_nothing_else(
    switched: tuple[Site, machines.Machine], tmp_path: Path, delays: dict[str, str]
) -> None:
    site, switch = switched
    described = [{"name": name, "nodes": members} for name, members in SWITCHES.items()]
    before = forwarded(switch)
    with late(switch, delays):
        site.play(
            "validate.yml",
            rc=2 if delays else 0,
            validate_stages="pairwise",
            validate_report=str(tmp_path),
            slurm_topology={"plugin": "none", "switches": described},
        )
    # sockets.py sends 16 MiB at least in each direction.
    assert all(sent - before[node] > 16 << 20 for node, sent in forwarded(switch).items())
    search = report(tmp_path)["search"]
    assert (search["bad_nodes"], search["bad_switches"], search["bad_links"]) == (
        list(delays),
        [],
        [],
    )
    assert search["rounds"] <= ROUNDS + 2 * len(delays), search
