# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""perftest over RDMA between two machines, as validate.yml's check pair_infiniband runs and judges it.

The adapters are rdma_rxe, the kernel's RDMA over Ethernet in software. Debian's cloud kernel has all that it needs
and not the module itself, so it is compiled from the source of the same version, as dkms would.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .. import repositories
from ..site import tail
from ..test_validate import of, report
from .conftest import Node, play
from .test_dkms import SLOW, Lone, fetch, source

pytestmark = [pytest.mark.soak("a module that emulated machines compile")]

TOOLS = ("perftest", "ibverbs-providers", "rdma-core")
#: The archives of a machine, and their lists, from the root.
APT = "etc/apt/sources.list.d var/lib/apt/lists"
#: The network between the machines is their second one.
ADD = "rdma link add rxe0 type rxe netdev eth1"
DIRECTORY = "drivers/infiniband/sw/rxe"
CHECKS = {
    # As an adapter of software does in an emulated machine; the options are those of the role.
    "pair_infiniband": {
        "needs": [],
        # -u: an emulated processor answers later than after the 67 ms of perftest, and each packet would be sent again.
        "command": 'exec bash "$VALIDATION/pair.sh" ib_write_bw -d rxe0 -a -n 5 -u 20 --report_gbits',
        # The limit of memory that may be locked is that of slurmd, not that of whoever submits: 8 MiB, and it takes 16.
        "srun_options": {"propagate": "NONE"},
        "deadline": 500,
    },
}


def rxe_source(work: Path, release: str) -> Path:
    """Fetch the kernel's source, and return the directory of the module alone: all of it would take an hour there."""
    package = "linux-source-" + ".".join(release.split(".")[:2])
    given = {"APT_CONFIG": str(work / "apt.conf")}
    # The sandbox of apt, user _apt, cannot write into a directory of the tests.
    fetch_it = f"cd {work} && apt-get -q -o APT::Sandbox::User=root download {package}"
    repositories.run("sh", "-c", fetch_it, **given)
    (deb,) = work.glob("linux-source-*.deb")
    repositories.run("dpkg-deb", "--extract", deb, work / "source")
    (archive,) = (work / "source" / "usr" / "src").glob("linux-source-*.tar.xz")
    repositories.run("tar", "-C", work, "--wildcards", "-xf", archive, f"*/{DIRECTORY}")
    (found,) = work.glob(f"linux-source-*/{DIRECTORY}")
    return found


def install(machine: Lone, *packages: str) -> None:
    """Install packages without what they only recommend."""
    apt = "DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends"
    machine.run(f"{apt} {' '.join(packages)}")


@pytest.fixture(scope="module")
def adapters(
    both: dict[str, Node], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Node]]:
    """The machines, each with perftest and an adapter rxe0 on the network between them."""
    work = tmp_path_factory.mktemp("rdma")
    machines = {name: Lone(node.machine, Path(), {}) for name, node in both.items()}
    first = machines["vm1"]
    release = first.run("uname -r")
    # Each has packages that the other lacks: vm1 is a server too.
    directories = {name: fetch(one, work / name, *TOOLS) for name, one in machines.items()}
    module = rxe_source(work / "vm1", release)
    try:
        for name, one in machines.items():
            # Debian's archive is not reachable from there (test_dkms.py).
            one.run(
                f"cd /; tar -cf /root/lists.tar --ignore-failed-read etc/apt/sources.list {APT};"
                f" rm -rf etc/apt/sources.list {APT}; mkdir -p {APT}"
            )
            for directory in directories[name]:
                one.take(directory)
                one.run(source(directory))
            one.run("apt-get -q update")
            install(one, *TOOLS)
        install(first, "dkms", f"linux-headers-{release}")
        first.take(module)
        first.machine.run(
            f"make -j2 -C /lib/modules/{release}/build M=/srv/rxe CONFIG_RDMA_RXE=m modules",
            timeout=4 * SLOW,
        )
        built = first.machine.command("cat", "/srv/rxe/rdma_rxe.ko")
        text = subprocess.run(built, stdout=subprocess.PIPE, timeout=SLOW, check=True).stdout
        for one in machines.values():
            subprocess.run(
                one.machine.command("cat >/root/rdma_rxe.ko"), input=text, timeout=SLOW, check=True
            )
            # Those that the kernel has built in, or this release no longer has, are not there.
            one.run(
                "for name in ib_core ib_uverbs udp_tunnel ip6_udp_tunnel crc32_generic; do modprobe -q $name; done;"
                f" insmod /root/rdma_rxe.ko && {ADD} && rdma link show rxe0/1"
            )
        yield both
    finally:
        for one in machines.values():
            one.run(
                "rdma link delete rxe0; rmmod rdma_rxe; cd /; [ -e root/lists.tar ] || exit 0;"
                f" rm -rf {APT}; tar -xf root/lists.tar; rm root/lists.tar; touch {APT}",
                check=False,
            )


def validated(place: Path, **more: Any) -> tuple[int, str, dict[str, Any]]:
    """Run the check between the machines; return the exit code, the output and the report."""
    given = {
        "validate_user": "alice",
        "validate_directory": "/data/validation",
        "validate_report": str(place),
        "validate_only": ["pair_infiniband"],
        "validate_again": True,
        **more,
    }
    done = play("validate.yml", "-e", json.dumps(given))
    return done.returncode, done.stdout, report(place)


def test_two_machines_are_measured_over_rdma(adapters: dict[str, Node], tmp_path: Path) -> None:
    """In GB/s by the program's table, and not judged: nothing says what these two should reach."""
    code, said, found = validated(tmp_path, validate_checks=CHECKS)
    assert code == 0, tail(said, 60)
    pair, *_again = [one for one in found["measurements"] if one["kind"] == "pair"]
    assert sorted(pair["hosts"]) == sorted(adapters) and pair["unit"] == "GB/s"
    assert 0 < pair["value"] < 10, pair
    assert not of(found, "FAIL", "INCOMPLETE")


def test_a_threshold_judges_what_rdma_reached(adapters: dict[str, Node], tmp_path: Path) -> None:
    for reference, verdict, code in ((1e-6, "PASS", 0), (1000.0, "FAIL", 2)):
        checks = {
            "pair_infiniband": {**CHECKS["pair_infiniband"], "references": {"bandwidth": reference}}
        }
        ended, said, found = validated(tmp_path / verdict, validate_checks=checks)
        assert (ended, found["verdict"]) == (code, verdict), tail(said, 60)


def test_without_an_adapter_it_is_incomplete(adapters: dict[str, Node], tmp_path: Path) -> None:
    """Neither a pass nor a fault of the other machine."""
    adapters["vm2"].run("rdma link delete rxe0")
    try:
        checks = {"pair_infiniband": {**CHECKS["pair_infiniband"], "deadline": 60}}
        code, said, found = validated(tmp_path, validate_checks=checks)
    finally:
        adapters["vm2"].run(ADD)
    assert code == 2 and found["verdict"] == "INCOMPLETE", tail(said, 60)
    assert not of(found, "FAIL", "PASS")
