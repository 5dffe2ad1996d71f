# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How long an inventory of EC2 takes: ours against boto3 alone, amazon.aws.aws_ec2, and hosts that are ready.

All get the same answers, from one server on this machine whose pages are made before. Each figure is the wall time of
a process of its own: ansible-inventory --list, or this file for boto3 alone and for single calls.

    python tests/benchmarks/inventory.py serve 1000 32      a server with 1,000 instances of 32 EFA interfaces
    python tests/benchmarks/inventory.py boto3|topology|fsx COUNT      the calls, where the environment says
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

SIZES = (100, 1000, 5000, 10000)
WIDE = 32
RUNS = 3
REGION = "eu-west-1"
#: aws_ec2 takes a gigabyte for 1,600 instances of 32 interfaces: more than this are left out.
MOST_WIDE_AWS_EC2 = 5000
FILE_SYSTEMS, ASSOCIATIONS = 20, 100

# What `make bench` holds the inventory to: at how many instances, plain or wide, a limit is checked.
LIMIT_FASTER = 5.0  # aws_ec2 / ours cold, at least
LIMIT_COLD = 1.15  # ours cold / (boto3 + ready hosts)
LIMIT_WARM = 1.2  # ours warm / ready hosts
FASTER_AT = ((10000, False),)
COLD_AT = ((10000, False), (5000, True))

OURS = {"plugin": "trainwright.slurm.aws", "regions": [REGION], "cluster": "train"}
OURS |= {"topology": False, "fsx": False}
AWS_EC2 = {
    "plugin": "amazon.aws.aws_ec2",
    "regions": [REGION],
    "filters": {"tag:trainwright:cluster": "train", "instance-state-name": "running"},
    "hostnames": ["tag:Name", "private-dns-name"],
    "compose": {"ansible_host": "private_ip_address"},
    "keyed_groups": [
        {"prefix": "slurm", "key": "tags['trainwright:role']"},
        {"prefix": "partition", "key": "tags['trainwright:partition']"},
        {"prefix": "type", "key": "instance_type"},
        {"prefix": "region", "key": "placement.region"},
        {"prefix": "zone", "key": "placement.availability_zone"},
        {"prefix": "account", "key": "owner_id"},
        {"prefix": "placement", "key": "placement.group_name"},
    ],
}


@dataclass(frozen=True)
class Timing:
    """Seconds at one number of instances; None: not measured. wide: with 32 EFA interfaces each.

    boto3: its paginator alone. aws_ec2: amazon.aws' plugin with the same groups. cold, warm: ours,
    without and with a cached answer. floor: the same hosts, ready. topology: the calls for all of
    them. fsx: the calls for file systems and their associations.
    """

    instances: int
    wide: bool
    boto3: float
    floor: float
    cold: float
    warm: float
    aws_ec2: float | None = None
    topology: float | None = None
    fsx: float | None = None

    @property
    def faster(self) -> float | None:
        """How many times as long aws_ec2 takes."""
        return None if self.aws_ec2 is None else self.aws_ec2 / self.cold

    @property
    def cold_ratio(self) -> float:
        """Ours cold over boto3 and ready hosts."""
        return self.cold / (self.boto3 + self.floor)

    @property
    def warm_ratio(self) -> float:
        """Ours warm over ready hosts."""
        return self.warm / self.floor


#: A row of the table: its label, its value, its limit and whether more is better, and where that is checked.
Row = tuple[str, Callable[[Timing], "float | None"], "float | None", bool, "tuple[Any, ...] | None"]
ROWS: tuple[Row, ...] = (
    ("boto3's paginator alone (s)", lambda one: one.boto3, None, False, None),
    ("amazon.aws.aws_ec2 (s)", lambda one: one.aws_ec2, None, False, None),
    ("trainwright.slurm.aws, cold (s)", lambda one: one.cold, None, False, None),
    ("trainwright.slurm.aws, warm (s)", lambda one: one.warm, None, False, None),
    ("static floor (s)", lambda one: one.floor, None, False, None),
    ("topology calls (s)", lambda one: one.topology, None, False, None),
    ("FSx calls (s)", lambda one: one.fsx, None, False, None),
    ("aws_ec2 / cold", lambda one: one.faster, LIMIT_FASTER, True, FASTER_AT),
    ("cold / (boto3 + floor)", lambda one: one.cold_ratio, LIMIT_COLD, False, COLD_AT),
    ("warm / floor", lambda one: one.warm_ratio, LIMIT_WARM, False, None),
)


def missed(row: Row, timing: Timing) -> bool:
    """Tell whether a figure misses a limit that is checked at this size."""
    _label, value, limit, more, places = row
    found = value(timing)
    if limit is None or found is None:
        return False
    if places is not None and (timing.instances, timing.wide) not in places:
        return False
    return found < limit if more else found > limit


def misses(timings: Sequence[Timing]) -> list[str]:
    """Return a line for each limit that is missed."""
    lines = []
    for timing in timings:
        for row in ROWS:
            if missed(row, timing):
                label, value, limit, more, _places = row
                bound = "at least" if more else "at most"
                lines.append(
                    f"inventory, {_size(timing)}: {label} is {value(timing):.2f}, {bound} {limit:g} is wanted"
                )
    return lines


def render(timings: Sequence[Timing]) -> str:
    """Return the table: a column for each size, "!" where a limit is missed."""
    head = ["inventory of EC2", *map(_size, timings), "limit"]
    lines = [head]
    for row in ROWS:
        label, value, limit, more, _places = row
        cells = []
        for timing in timings:
            found = value(timing)
            mark = " !" if missed(row, timing) else ""
            cells.append("-" if found is None else f"{found:.2f}{mark}")
        bound = "" if limit is None else f"{'>=' if more else '<='} {limit:g}"
        lines.append([label, *cells, bound])
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        ).rstrip()
        for line in lines
    )


def _size(timing: Timing) -> str:
    return f"{timing.instances:,}{' wide' if timing.wide else ''}"


# -- measuring -----------------------------------------------------------------------------------------------------
@contextmanager
def serving(count: int, efa: int) -> Iterator[dict[str, str]]:
    """A server in a process of its own; yields the environment that leads to it."""
    command = [sys.executable, __file__, "serve", str(count), str(efa)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin and server.stdout
    try:
        yield json.loads(server.stdout.readline())
    finally:
        server.stdin.close()
        server.wait()


def _seconds(command: Sequence[str], environment: Mapping[str, str], directory: Path) -> float:
    """Wall seconds of a command. Raises RuntimeError with its output when it fails."""
    with (directory / "output").open("wb") as output, (directory / "errors").open("wb") as errors:
        began = time.monotonic()
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            check=False,
        )
        seconds = time.monotonic() - began
    said = (directory / "errors").read_text(encoding="utf-8")
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {said[-2000:]}")
    return seconds


def measure(count: int, wide: bool, runs: int = RUNS) -> Timing:
    """Time everything at one size: medians of runs, of aws_ec2 one run from a thousand instances on."""
    with serving(count, WIDE if wide else 0) as server, tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        environment = {
            **server,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CALLBACKS_ENABLED": "",
            "ANSIBLE_INVENTORY_PLUGINS": str(ROOT / "tests" / "benchmarks" / "inventory_plugins"),
            "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
            "ANSIBLE_NOCOLOR": "1",
        }

        def timed(commands: Mapping[str, Sequence[str]], times: int = runs) -> list[float]:
            """Medians of each; by turns, so that what else the machine does meets all of them."""
            taken: dict[str, list[float]] = {what: [] for what in commands}
            print(f"inventory, {count:,}{' wide' if wide else ''}: ", end="", flush=True)
            for _ in range(times):
                for what, command in commands.items():
                    taken[what].append(_seconds(command, environment, directory))
            medians = {what: round(statistics.median(all_), 2) for what, all_ in taken.items()}
            print(
                ", ".join(f"{what} {seconds:.2f} s" for what, seconds in medians.items()),
                flush=True,
            )
            return list(medians.values())

        def inventory(file: str, options: Mapping[str, Any]) -> list[str]:
            path = directory / file
            # JSON is YAML, and the fastest to read.
            path.write_text(json.dumps(options), encoding="utf-8")
            return [
                str(Path(sys.executable).with_name("ansible-inventory")),
                "-i",
                str(path),
                "--list",
            ]

        def calls(what: str) -> list[str]:
            return [sys.executable, __file__, what, str(count)]

        cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile"}
        cache["cache_connection"] = str(directory / "cache")
        (boto3,) = timed({"boto3": calls("boto3")})
        (cold,) = timed({"cold": inventory("aws.yml", OURS)})
        warm = inventory("warm.aws.yml", {**OURS, **cache})
        timed({"filling the cache": warm}, 1)
        hosts = directory / "hosts.json"
        hosts.write_text(json.dumps(_cached_hosts(directory / "cache")), encoding="utf-8")
        floor = inventory("floor.yml", {"plugin": "static_floor", "hosts": str(hosts)})
        # A second or two each, of which a ratio is made.
        often = runs if count > 1000 else 3 * runs
        warm_s, floor_s = timed({"warm": warm, "floor": floor}, often)
        aws_ec2 = None
        if not wide or count <= MOST_WIDE_AWS_EC2:
            once = 1 if count >= 1000 else runs
            (aws_ec2,) = timed({"aws_ec2": inventory("aws_ec2.yml", AWS_EC2)}, once)
        topology, fsx = timed({"topology": calls("topology"), "fsx": calls("fsx")})
        return Timing(count, wide, boto3, floor_s, cold, warm_s, aws_ec2, topology, fsx)


def _cached_hosts(directory: Path) -> list[list[Any]]:
    """The hosts that our plugin keeps: name, variables, groups."""
    (path,) = directory.iterdir()
    found = json.loads(path.read_text(encoding="utf-8"))
    # Core wraps what a cache plugin keeps.
    while "fleet" not in found:
        found = json.loads(found["__payload__"])
    return [host[:3] for host in json.loads(found["fleet"])["hosts"]]


# -- the other side ------------------------------------------------------------------------------------------------
def _serve(count: int, efa: int) -> None:
    from tests.fixtures.aws.instances import instance, pages_of, replay
    from tests.fixtures.aws.server import Aws, Call

    network = [f"nn-{number:017x}" for number in range(3)]

    def places(call: Call) -> dict[str, Any]:
        listed = call.params["InstanceIds"]
        return {
            "Instances": [
                {"InstanceId": one, "InstanceType": "p5.48xlarge", "NetworkNodes": network}
                for one in listed
            ]
        }

    with Aws() as aws:
        replay(aws, pages_of([instance(number, efa=efa) for number in range(count)]))
        aws.on("ec2", "DescribeInstanceTopology", places)
        aws.pages("fsx", "DescribeFileSystems", "FileSystems", _file_systems(), size=100)
        aws.pages("fsx", "DescribeDataRepositoryAssociations", "Associations", _links(), size=25)
        print(json.dumps(aws.environment), flush=True)
        sys.stdin.read()


def _file_systems() -> list[dict[str, Any]]:
    return [
        {
            "FileSystemId": f"fs-{number:017x}",
            "FileSystemType": "LUSTRE",
            "Lifecycle": "AVAILABLE",
            "DNSName": f"fs-{number:017x}.fsx.{REGION}.amazonaws.com",
            "LustreConfiguration": {
                "MountName": f"mount{number}",
                "DeploymentType": "PERSISTENT_2",
            },
            "Tags": [{"Key": "trainwright:cluster", "Value": "train"}],
        }
        for number in range(FILE_SYSTEMS)
    ]


def _links() -> list[dict[str, Any]]:
    return [
        {
            "AssociationId": f"dra-{number:017x}",
            "FileSystemId": f"fs-{number % FILE_SYSTEMS:017x}",
            "FileSystemPath": f"/data{number}",
            "DataRepositoryPath": f"s3://bucket/{number}",
            "Lifecycle": "AVAILABLE",
        }
        for number in range(ASSOCIATIONS)
    ]


def _calls(what: str, count: int) -> None:
    """Make the calls of a figure, in this process."""
    import boto3

    client = boto3.client("fsx" if what == "fsx" else "ec2", region_name=REGION)
    if what == "boto3":
        pages = client.get_paginator("describe_instances").paginate(
            PaginationConfig={"PageSize": 1000}
        )
        found = sum(len(one["Instances"]) for page in pages for one in page["Reservations"])
    elif what == "topology":
        from ansible_collections.trainwright.slurm.plugins.module_utils.aws import ec2_info

        places, _missing = ec2_info.places_by_id(client, (f"i-{n:017x}" for n in range(count)))
        found = len(places)
    else:
        from ansible_collections.trainwright.slurm.plugins.module_utils.aws import (
            fsx,
        )

        ids = [one.id for one in fsx.file_systems(client)]
        found, count = len(list(fsx.associations(client, file_system_ids=ids))), ASSOCIATIONS
    assert found == count, f"{found} instead of {count}"


def main() -> None:
    """Be the server, or make the calls of one figure."""
    sys.path[:0] = [str(ROOT), str(ROOT / ".collections")]
    what, count = sys.argv[1], int(sys.argv[2])
    if what == "serve":
        _serve(count, int(sys.argv[3]))
    else:
        _calls(what, count)


if __name__ == "__main__":
    main()
