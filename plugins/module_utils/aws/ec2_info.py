# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""EC2's data on instance types, places in the network, and reserved and allowed capacity.

Each function takes a client of boto3 and raises AwsProblem for a call that fails. Sources: the API
references of EC2 and Service Quotas; the EC2 User Guide, Amazon EC2 topology, Capacity Reservations,
Capacity Blocks for ML and On-Demand Instance quotas.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import typing as t
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ansible_collections.trainwright.slurm.plugins.module_utils.aws import instances
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import (
    AwsProblem,
    explained,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware import machine_types
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware.machine_types import (
    MachineType,
)

Json = dict[str, t.Any]

#: As many names or ids as one call takes.
BATCH = 100
#: Families with GPUs or Trainium begin like this; EC2 cannot filter by a type's hardware.
ACCELERATED = ("p", "g", "trn")
_INSTANCE_ID = re.compile(r"\bi-[0-9a-f]{8,17}\b")
_LETTERS = re.compile(r"[a-z]+")


#: Remedies for refusals without details, by method of the client.
_REMEDIES = {
    "describe_capacity_reservations": "check the ids of reservations, and that they are of this region",
    "describe_instance_topology": "check instances, placement groups and filters, and that they are of this region",
    "describe_instance_types": "check the names of types",
}


def _pages(client: t.Any, method: str, key: str, **params: t.Any) -> Iterator[Json]:
    """Yield what lies under `key` in all pages of a call. Raises AwsProblem."""
    region = client.meta.region_name
    service = client.meta.service_model.service_name
    operation = client.meta.method_to_api_mapping.get(method)
    if operation is None:
        raise AwsProblem(
            f"{service}.{method}: botocore is too old for it -> pip install --upgrade boto3 botocore",
            region=region,
            code="UnsupportedOperation",
        )
    given = {name: value for name, value in params.items() if value}
    try:
        with explained(service, operation, region):
            for page in client.get_paginator(method).paginate(**given):
                yield from page[key]
    except AwsProblem as problem:
        if method not in _REMEDIES or " -> " in str(problem):
            raise
        said = f"{problem} -> {_REMEDIES[method]}"
        raise AwsProblem(said, problem.action, problem.region, problem.code) from problem


def _filters(**given: Collection[str] | None) -> list[Json]:
    """EC2's form of filters; an underscore means a hyphen, and an empty one is left out."""
    return [
        {"Name": name.replace("_", "-"), "Values": list(values)}
        for name, values in given.items()
        if values
    ]


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    ordered = list(dict.fromkeys(names))
    for start in range(0, len(ordered), BATCH):
        yield ordered[start : start + BATCH]


def _known_of(
    names: list[str], ask: t.Callable[[list[str]], list[Json]], code: str, pattern: re.Pattern[str]
) -> tuple[list[Json], list[str]]:
    """Ask for names; those that AWS refuses as unknown are left out and returned.

    AWS refuses the whole call because of one, and names it in the message; `code` begins the code
    of that error and `pattern` finds names.
    """
    wanted, unknown = list(names), list[str]()
    while wanted:
        try:
            return ask(wanted), unknown
        except AwsProblem as problem:
            named = set(pattern.findall(str(problem))) & set(wanted)
            if not problem.code.startswith(code) or not named:
                raise
            unknown += [name for name in wanted if name in named]
            wanted = [name for name in wanted if name not in named]
    return [], unknown


# -- instance types --------------------------------------------------------------------------------
_TYPE_NAME = re.compile(r"[a-z0-9-]+\.[a-z0-9-]+")


def types_by_name(client: t.Any, names: Iterable[str]) -> tuple[list[MachineType], list[str]]:
    """Return EC2's data on types, and the names that it does not know in this region."""
    found: list[MachineType] = []
    unknown: list[str] = []
    for batch in _batches(names):
        items, refused = _known_of(
            batch,
            lambda some: list(
                _pages(client, "describe_instance_types", "InstanceTypes", InstanceTypes=some)
            ),
            "InvalidInstanceType",
            _TYPE_NAME,
        )
        found += map(machine_types.from_api, items)
        unknown += refused
    return found, unknown


def types_by_family(client: t.Any, families: Collection[str] = ()) -> list[MachineType]:
    """Return the types of families such as p5; without any, those with GPUs or Trainium."""
    patterns = [f"{family}.*" for family in families] or [f"{stem}*" for stem in ACCELERATED]
    items = _pages(
        client,
        "describe_instance_types",
        "InstanceTypes",
        Filters=_filters(instance_type=patterns),
    )
    found = list(map(machine_types.from_api, items))
    return found if families else [one for one in found if one.gpus or one.neuron]


# -- places in the network -------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Place:
    """Where an instance hangs in the network.

    network_nodes: from the top to the leaf; empty where EC2 returns none (the type has none, the
    instance does not run). Their number differs between types, so count from the end.
    """

    instance_id: str
    instance_type: str = ""
    network_nodes: tuple[str, ...] = ()
    zone: str = ""
    zone_id: str = ""
    capacity_block_id: str = ""
    group: str = ""

    @property
    def leaf(self) -> str:
        """The network node that the instance hangs on; empty where it is not known."""
        return self.network_nodes[-1] if self.network_nodes else ""

    def to_json(self) -> Json:
        """Return it as a module does: what is not known is null; with the host variables made of it."""
        plain = {name: value or None for name, value in dataclasses.asdict(self).items()}
        nodes = list(self.network_nodes)
        return {
            **plain,
            "network_nodes": nodes or None,
            "leaf": self.leaf or None,
            "slurm_network_path": nodes,
            "slurm_block": self.capacity_block_id or None,
        }


def place_of(item: Mapping[str, t.Any]) -> Place:
    """Return an item of DescribeInstanceTopology. A path with a gap counts as unknown."""
    nodes = tuple(item.get("NetworkNodes") or ())
    return Place(
        instance_id=item["InstanceId"],
        instance_type=item.get("InstanceType") or "",
        network_nodes=nodes if all(nodes) else (),
        zone=item.get("AvailabilityZone") or "",
        zone_id=item.get("ZoneId") or "",
        capacity_block_id=item.get("CapacityBlockId") or "",
        group=item.get("GroupName") or "",
    )


class Places(t.NamedTuple):
    """Places of instances, ids without a place, and ids that EC2 no longer knows."""

    found: list[Place]
    silent: list[str]
    ended: list[str]


def places_of(client: t.Any, ids: Iterable[str]) -> Places:
    """Return the places of instances; EC2 is silent of types without one, and of what has just ended."""
    answer = Places([], [], [])
    for batch in _batches(ids):
        items, gone = _known_of(
            batch,
            lambda some: list(
                _pages(client, "describe_instance_topology", "Instances", InstanceIds=some)
            ),
            "InvalidInstanceID.NotFound",
            _INSTANCE_ID,
        )
        places = list(map(place_of, items))
        known = {place.instance_id for place in places} | set(gone)
        answer.found.extend(places)
        answer.silent.extend(one for one in batch if one not in known)
        answer.ended.extend(gone)
    return answer


def places_by_id(client: t.Any, ids: Iterable[str]) -> tuple[list[Place], list[str]]:
    """Return the places of instances, and the ids of those that EC2 no longer knows or returns without a place."""
    asked = list(dict.fromkeys(ids))
    found, silent, ended = places_of(client, asked)
    missing = {*silent, *ended}
    return found, [one for one in asked if one in missing]


def still_there(client: t.Any, ids: Iterable[str]) -> set[str]:
    """Return which of these instances start, run, or are stopped."""
    states = ["pending", "running", "stopping", "stopped"]
    found: set[str] = set()
    with explained("ec2", "DescribeInstances", client.meta.region_name):
        for batch in _batches(ids):
            filters = {"instance-id": batch, "instance-state-name": states}
            found.update(one["id"] for one in instances.instances(client, filters))
    return found


def places_by_filter(
    client: t.Any, groups: Sequence[str] = (), filters: Mapping[str, Sequence[str]] | None = None
) -> list[Place]:
    """Return the places of instances in placement groups, or of those that match EC2's filters.

    filters: by EC2's names, which are availability-zone, instance-type, zone-id, zone-name and the
    like; without groups and filters, all instances of the region that have a place.
    """
    made = [{"Name": name, "Values": list(values)} for name, values in (filters or {}).items()]
    items = _pages(
        client,
        "describe_instance_topology",
        "Instances",
        GroupNames=list(groups),
        Filters=made,
        PaginationConfig={"PageSize": BATCH},
    )
    return list(map(place_of, items))


def tree_of(places: Iterable[Place]) -> Json:
    """Return leaves with their path and instances, in the order of their names, and who is in none."""
    leaves: dict[tuple[str, ...], list[str]] = {}
    unknown = []
    for place in places:
        if place.network_nodes:
            leaves.setdefault(place.network_nodes, []).append(place.instance_id)
        else:
            unknown.append(place.instance_id)
    return {
        "leaves": [
            {"leaf": path[-1], "path": list(path), "instances": sorted(ids)}
            for path, ids in sorted(leaves.items())
        ],
        "unknown": sorted(unknown),
    }


# -- capacity --------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Quota:
    """A quota of running on-demand instances, counted in vCPUs; prefixes begin the families it covers."""

    name: str
    code: str
    prefixes: tuple[str, ...]


#: Source of the codes: Service Quotas, quotas of EC2.
QUOTAS = (
    Quota("Running On-Demand P instances", "L-417A185B", ("p",)),
    Quota("Running On-Demand G and VT instances", "L-DB2E81BA", ("g", "gr", "vt")),
    Quota("Running On-Demand Trn instances", "L-2C3B7624", ("trn",)),
)


def _tags(item: Mapping[str, t.Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in item.get("Tags") or []}


def _time(moment: datetime.datetime | None) -> str | None:
    """A time in UTC, as in 2026-11-20T16:00:00Z."""
    if moment is None:
        return None
    return moment.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def reservations(
    client: t.Any,
    ids: Sequence[str] = (),
    instance_types: Sequence[str] = (),
    states: Sequence[str] = (),
) -> list[Json]:
    """Return capacity reservations and capacity blocks as plain data, without what their type has.

    instance_types: may have EC2's wildcards, as in ``p5*``.
    """
    items = _pages(
        client,
        "describe_capacity_reservations",
        "CapacityReservations",
        CapacityReservationIds=list(ids),
        Filters=_filters(instance_type=instance_types, state=states),
    )
    return [
        {
            "id": item["CapacityReservationId"],
            "name": _tags(item).get("Name"),
            "type": "capacity-block"
            if item.get("ReservationType") == "capacity-block"
            else "on-demand",
            "state": item.get("State"),
            "instance_type": item["InstanceType"],
            "zone": item.get("AvailabilityZone"),
            "zone_id": item.get("AvailabilityZoneId"),
            "total": item.get("TotalInstanceCount", 0),
            "available": item.get("AvailableInstanceCount", 0),
            "used": item.get("TotalInstanceCount", 0) - item.get("AvailableInstanceCount", 0),
            "start": _time(item.get("StartDate")),
            "end": _time(item.get("EndDate")),
            "match": item.get("InstanceMatchCriteria"),
            "owner": item.get("OwnerId"),
            "capacity_block_id": item.get("CapacityBlockId"),
            "placement_group_arn": item.get("PlacementGroupArn"),
            "tags": _tags(item),
        }
        for item in items
    ]


def with_gpus(reservation: Json, kind: MachineType | None) -> Json:
    """Return a reservation with what its type has; what is free can be used only while it is active."""
    gpus = kind.gpus if kind else None
    usable = reservation["available"] if reservation["state"] == "active" else 0
    each = gpus.count if gpus else 0 if kind else None
    return {
        **reservation,
        "gpu_model": gpus.model if gpus else None,
        "gpus_per_instance": each,
        "gpus_free": None if each is None else usable * each,
    }


def capacity_blocks(client: t.Any, of: Collection[str] | None = None) -> list[Json]:
    """Return capacity blocks as plain data.

    of: ids of reservations; only blocks that have one of them. None: all.
    """
    return [
        {
            "id": item["CapacityBlockId"],
            "name": _tags(item).get("Name"),
            "state": item.get("State"),
            "ultraserver_type": item.get("UltraserverType") or None,
            "zone": item.get("AvailabilityZone"),
            "zone_id": item.get("AvailabilityZoneId"),
            "start": _time(item.get("StartDate")),
            "end": _time(item.get("EndDate")),
            "reservation_ids": list(item.get("CapacityReservationIds") or []),
            "tags": _tags(item),
        }
        for item in _pages(client, "describe_capacity_blocks", "CapacityBlocks")
        if of is None or set(of) & set(item.get("CapacityReservationIds") or [])
    ]


def running_on_demand(client: t.Any) -> dict[str, int]:
    """Return how many on-demand instances with GPUs or Trainium start or run, by type.

    Spot instances and those in capacity blocks do not count towards the quotas of on-demand ones.
    """
    filters = {
        "instance-type": [f"{prefix}*" for quota in QUOTAS for prefix in quota.prefixes],
        "instance-state-name": ["pending", "running"],
    }
    counts: dict[str, int] = {}
    with explained("ec2", "DescribeInstances", client.meta.region_name):
        for one in instances.instances(client, filters):
            if not one.get("lifecycle"):
                counts[one["type"]] = counts.get(one["type"], 0) + 1
    return counts


def quota_of(instance_type: str) -> Quota | None:
    """Return the quota that an instance type counts towards, if it is one of ours."""
    letters = _LETTERS.match(instance_type)
    found = [quota for quota in QUOTAS if letters and letters[0] in quota.prefixes]
    return found[0] if found else None


def account_of(client: t.Any) -> str:
    """Return the number of the account whose credentials are used; client: of STS."""
    with explained("sts", "GetCallerIdentity", client.meta.region_name):
        return str(client.get_caller_identity()["Account"])


def quota_limit(client: t.Any, quota: Quota) -> int:
    """Return a quota in vCPUs, as it was raised, or as AWS gives it to a new account."""
    given = {"ServiceCode": "ec2", "QuotaCode": quota.code}
    region = client.meta.region_name
    try:
        with explained("service-quotas", "GetServiceQuota", region):
            answer = client.get_service_quota(**given)
    except AwsProblem as problem:
        if problem.code != "NoSuchResourceException":
            raise
        with explained("service-quotas", "GetAWSDefaultServiceQuota", region):
            answer = client.get_aws_default_service_quota(**given)
    return int(answer["Quota"]["Value"])


def quota_use(
    limits: Mapping[str, int | None],
    running: Mapping[str, int] | None,
    reserved: Iterable[Json],
    kinds: Mapping[str, MachineType],
    account: str | None = None,
) -> list[Json]:
    """Return each quota with what is used of it, in vCPUs.

    limits: by code; None where it could not be read. running: by type; None where that could not be
    read. reserved: active on-demand reservations of the region; what nobody uses of those that are the
    account's own counts as used. kinds: by name; without a type's vCPUs, what is used is not known (None).
    """
    idle: dict[str, int] = {}
    for one in reserved:
        own = account is None or one["owner"] in (None, account)
        if own and one["type"] == "on-demand" and one["state"] == "active":
            idle[one["instance_type"]] = idle.get(one["instance_type"], 0) + one["available"]
    rows = []
    for quota in QUOTAS:
        used: int | None = None
        if running is not None:
            counts = [
                (name, number)
                for part in (running, idle)
                for name, number in part.items()
                if number and quota_of(name) == quota
            ]
            if all(name in kinds for name, _number in counts):
                used = sum(kinds[name].vcpus * number for name, number in counts)
        limit = limits.get(quota.code)
        rows.append(
            {
                "name": quota.name,
                "code": quota.code,
                "limit_vcpus": limit,
                "used_vcpus": used,
                "free_vcpus": None if limit is None or used is None else max(limit - used, 0),
            }
        )
    return rows
