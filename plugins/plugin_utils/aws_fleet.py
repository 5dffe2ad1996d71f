# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Asks AWS for the nodes and file systems of a cluster, in all regions and accounts, for the inventory.

Imported only without a cached answer: boto3 alone takes a third of a second.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Timer

from ansible_collections.amazon.aws.plugins.module_utils.botocore import HAS_BOTO3
from ansible_collections.amazon.aws.plugins.plugin_utils.base import AWSPluginBase

from ..module_utils.aws import answers, ec2_info, fleet, fsx, fsx_mounts, fsx_records, pcs
from ..module_utils.aws.errors import AwsProblem, explained
from ..module_utils.aws.instances import Raw, instances
from ..module_utils.aws.names import some
from ..module_utils.hardware import machine_types
from ..module_utils.hardware.machine_types import MachineType
from .aws_groups import CLUSTER, RESERVED, groups_for

try:
    from botocore.config import Config
except ImportError:
    Config = None

Options = Mapping[str, t.Any]
T = t.TypeVar("T")
U = t.TypeVar("U")

#: Regions and accounts that are asked at the same time, and batches of one call.
_AT_ONCE, _BATCHES_AT_ONCE = 8, 4
#: Seconds after which a person hears which region is slow.
_SLOW = 10


class _Connection(AWSPluginBase):
    """amazon.aws' way from options to clients; credentials of an assumed role replace the options'."""

    ansible_name = "trainwright.slurm.aws"

    def __init__(self, options: Options, credentials: Options | None = None) -> None:
        self._options = dict(options)
        self._credentials = dict(credentials or {})

    def get_options(self) -> Options:
        return self._options

    def fail_aws(self, message: str, exception: Exception | None = None) -> t.NoReturn:
        """Raise boto3's error, for explained; the rest is about options that exclude each other."""
        if exception is not None:
            raise exception
        raise AwsProblem(
            f"{message.rstrip('.')} -> leave either profile (AWS_PROFILE) or access_key, secret_key and session_token "
            "(AWS_ACCESS_KEY_ID ...)"
        )

    def of(self, service: str, region: str) -> t.Any:
        """A client of boto3. Raises AwsProblem."""
        self._options["region"] = region
        with explained(service, "client", region):
            settings = Config(**answers.config(self._options["timeout"]))
            return answers.checked(
                self.client(service, region=region, config=settings, **self._credentials)
            )

    def assume(self, role: str, region: str) -> _Connection:
        """A connection as the role. Raises AwsProblem."""
        client = self.of("sts", region)
        with explained("sts", "AssumeRole", region):
            made = client.assume_role(RoleArn=role, RoleSessionName="trainwright-inventory")
        given = made["Credentials"]
        return _Connection(
            self._options,
            {
                "profile_name": None,
                "aws_access_key_id": given["AccessKeyId"],
                "aws_secret_access_key": given["SecretAccessKey"],
                "aws_session_token": given["SessionToken"],
            },
        )


@dataclass
class _Target:
    """One region of one account; label: how messages call it."""

    region: str
    role: str
    label: str
    connection: _Connection
    raws: list[Raw] = field(default_factory=list)
    clients: dict[str, t.Any] = field(default_factory=dict)

    def of(self, service: str) -> t.Any:
        """A client of boto3, made once; making one takes as long as some calls."""
        if service not in self.clients:
            self.clients[service] = self.connection.of(service, self.region)
        return self.clients[service]


@dataclass
class Fleet:
    """The inventory's data in plain form, for a cache.

    hosts: name, variables, groups and tags of each. variables: of all hosts. failures: what could not
    be asked, in lines for a person; with one, the rest is not the whole. managed: whether a host is of
    ParallelCluster or PCS; own: whether one is of a cluster of ours.
    """

    hosts: list[tuple[str, dict[str, t.Any], list[str], dict[str, str]]] = field(
        default_factory=list
    )
    variables: dict[str, t.Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    managed: bool = False
    own: bool = False


class Asker:
    """Calls AWS once; records failures and continues with the rest."""

    def __init__(self, options: Options, report: Callable[[str], None]) -> None:
        """report: takes a line for a person at once, from any thread."""
        self._options = options
        self._report = report
        self._found = Fleet()
        self._failed: set[str] = set()

    def ask(self) -> Fleet:
        """Return what there is. Raises AwsProblem when nothing at all could be asked."""
        if not HAS_BOTO3:
            raise AwsProblem(
                "boto3 is not installed for the Python of Ansible -> pip install boto3"
            )
        targets = self._targets()
        self._each(targets, self._describe)
        if all(target.label in self._failed for target in targets):
            raise AwsProblem("\n".join(self._found.failures))
        self._empty(targets)
        targets = [target for target in targets if target.raws]
        seen: dict[str, _Target] = {}
        raws = []
        for target in targets:
            for raw in target.raws:
                if seen.setdefault(raw["id"], target) is target:
                    raws.append(raw)
        nodes, warnings = fleet.nodes_of(
            raws,
            {one: target.region for one, target in seen.items()},
            self._options["hostnames"],
            tags_of(self._options),
            self._pcs(targets),
            groups_for,
            {CLUSTER, *RESERVED, *self._options["groups"]},
        )
        self._found.warnings += warnings
        kinds = self._kinds(nodes, seen)
        nodes = [replace(node, kind=kinds.get(node.instance_type)) for node in nodes]
        # Preflight compares machines with them; those of our table it knows.
        rows = {
            name: machine_types.row_of(kind)
            for name, kind in kinds.items()
            if kind != machine_types.find(name)
        }
        if rows:
            self._found.variables["ec2_machine_types"] = rows
        places = self._places(nodes, seen) if self._options["topology"] else {}
        address = self._options["address"]
        for node in nodes:
            place = places.get(node.instance_id)
            if place:
                node = replace(
                    node, network_path=place.network_nodes, block=place.capacity_block_id
                )
            self._found.hosts.append(
                (node.name, fleet.host_vars(node, address), groups_for(node), dict(node.tags))
            )
        self._found.managed = any(node.manager for node in nodes)
        self._found.own = any(node.roles and not node.manager for node in nodes)
        self._remark(nodes)
        self._storage(targets)
        return self._found

    # -- whom to ask ---------------------------------------------------------------------------------------
    def _targets(self) -> list[_Target]:
        regions = list(dict.fromkeys(self._options["regions"]))
        base = _Connection(self._options)
        if not regions:
            found = self._options.get("region") or base.region
            if not found:
                raise AwsProblem(
                    "no region is set -> name one in regions, as in eu-west-1, or set AWS_REGION"
                )
            regions = [found]
        roles = self._options["assume_role_arns"] or [""]
        targets: list[_Target] = []
        for role in roles:
            # us-east-1 answers for each account of the commercial partition.
            first = regions[0] if regions != ["all"] else self._options.get("region") or "us-east-1"
            whose = f" as {role}" if role else ""
            try:
                with self._watched(first + whose):
                    connection = base.assume(role, first) if role else base
                    asked = self._all_regions(connection, first) if regions == ["all"] else regions
            except AwsProblem as problem:
                self._note(first + whose, problem)
                continue
            # A connection of its own for each: boto3's sessions are not made for several threads.
            targets += [
                _Target(
                    region,
                    role,
                    region + whose,
                    _Connection(self._options, connection._credentials),
                )
                for region in asked
            ]
        if not targets:
            raise AwsProblem("\n".join(self._found.failures))
        return targets

    def _all_regions(self, connection: _Connection, region: str) -> list[str]:
        client = connection.of("ec2", region)
        with explained("ec2", "DescribeRegions", region):
            found = sorted(one["RegionName"] for one in client.describe_regions()["Regions"])
        if not found:
            raise AwsProblem(
                f"ec2:DescribeRegions in {region}: EC2 lists no region, and each account has some -> name them in "
                "regions",
                "ec2:DescribeRegions",
                region,
            )
        return found

    # -- asking ----------------------------------------------------------------------------------------------
    def _note(self, label: str, problem: AwsProblem) -> None:
        self._failed.add(label)
        said = str(problem)
        role = label.partition(" as ")[2]
        line = f"{said} (asked as {role})" if role else said
        if line not in self._found.failures:
            self._found.failures.append(line)

    def _each(self, targets: Sequence[_Target], ask: Callable[[_Target], T]) -> list[T]:
        """Ask all targets, several at once; return the answers of those that gave one, in their order."""

        def one(target: _Target) -> tuple[T | None, AwsProblem | None]:
            try:
                with self._watched(target.label):
                    return ask(target), None
            except AwsProblem as problem:
                return None, problem

        answers = []
        for target, (answer, problem) in zip(targets, _at_once(_AT_ONCE, one, targets)):
            if problem:
                self._note(target.label, problem)
            else:
                answers.append(t.cast("T", answer))
        return answers

    @contextmanager
    def _watched(self, label: str) -> Iterator[None]:
        """Report a region that is slow, while it is."""
        line = f"{label}: no answer of AWS for {_SLOW} s, still waiting"
        timer = Timer(_SLOW, self._report, [line])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _empty(self, targets: Sequence[_Target]) -> None:
        """Count a region or role that is named in the options and lacks instances as one that did not answer.

        An answer without instances is a good one, also where it is a mistake: of AWS, of a proxy, or of a tag. With
        none at all, the inventory is empty, which the playbooks refuse.
        """
        filled = any(target.raws for target in targets)
        named = self._options["regions"] != ["all"]
        for kind, option in (("region", "regions"), ("role", "assume_role_arns")):
            answered: dict[str, bool] = {}
            for target in targets:
                name = getattr(target, kind)
                some_there = bool(target.raws) or target.label in self._failed
                answered[name] = answered.get(name, False) or some_there
            for name, there in answered.items():
                if name and filled and not there and (named or kind == "role"):
                    self._found.failures.append(
                        f"ec2:DescribeInstances: the {kind} {name} lacks instances of the cluster -> check the tags "
                        f"and the states there, or remove it from {option}"
                    )

    def _describe(self, target: _Target) -> None:
        filters = filters_of(self._options)
        with explained("ec2", "DescribeInstances", target.region):
            target.raws = list(instances(target.of("ec2"), filters))

    def _pcs(self, targets: Sequence[_Target]) -> dict[str, fleet.PcsCluster]:
        found: dict[str, fleet.PcsCluster] = {}

        def ask(target: _Target) -> None:
            named = {raw["tags"].get("aws:pcs:cluster-id") for raw in target.raws} - {None}
            for name in sorted(named):
                found[name] = pcs.cluster(target.of("pcs"), name)

        self._each(targets, ask)
        return found

    def _kinds(
        self, nodes: Sequence[fleet.Node], seen: Mapping[str, _Target]
    ) -> dict[str, MachineType]:
        site = machine_types.site_types(self._options["machine_types"])
        source = self._options["instance_type_source"]
        found: dict[str, MachineType] = {}
        ask: dict[str, tuple[_Target, list[str]]] = {}
        for node in nodes:
            name = node.instance_type
            if name in found:
                continue
            known = machine_types.find(name, site) if source != "api" or name in site else None
            if known:
                found[name] = known
            elif source != "table":
                target = seen[node.instance_id]
                names = ask.setdefault(target.label, (target, []))[1]
                if name not in names:
                    names.append(name)

        def types(target: _Target) -> list[MachineType]:
            listed, _unknown = ec2_info.types_by_name(target.of("ec2"), ask[target.label][1])
            return listed

        for listed in self._each([target for target, _names in ask.values()], types):
            found.update((kind.name, kind) for kind in listed)
        return found

    def _places(
        self, nodes: Sequence[fleet.Node], seen: Mapping[str, _Target]
    ) -> dict[str, ec2_info.Place]:
        ids: dict[str, list[str]] = {}
        for node in nodes:
            kind = node.kind
            # Types listed without layers do not have a topology; unknown types may have one.
            flat = kind and not kind.network_layers and machine_types.find(node.instance_type)
            if node.state == "running" and not flat:
                ids.setdefault(seen[node.instance_id].label, []).append(node.instance_id)
        found: dict[str, ec2_info.Place] = {}
        silent: dict[str, list[str]] = {}
        ended: set[str] = set()

        def ask(target: _Target) -> None:
            client = target.of("ec2")
            wanted = ids[target.label]
            size = ec2_info.BATCH
            batches = [wanted[start : start + size] for start in range(0, len(wanted), size)]
            answers = _at_once(
                _BATCHES_AT_ONCE, lambda batch: ec2_info.places_of(client, batch), batches
            )
            found.update((place.instance_id, place) for one in answers for place in one.found)
            ended.update(gone for one in answers for gone in one.ended)
            silent[target.label] = [left for one in answers for left in one.silent]

        targets = {target.label: target for target in seen.values()}
        self._each([targets[label] for label in ids], ask)
        self._ended(nodes, targets, silent, ended)
        return found

    def _ended(
        self,
        nodes: Sequence[fleet.Node],
        targets: Mapping[str, _Target],
        silent: Mapping[str, Sequence[str]],
        ended: set[str],
    ) -> None:
        """Name those that ended since they were listed. Of types without a place EC2 is silent anyway."""
        placed = {node.instance_id for node in nodes if node.kind and node.kind.network_layers}
        doubtful = {label: [one for one in ids if one in placed] for label, ids in silent.items()}

        def look(target: _Target) -> None:
            asked = doubtful[target.label]
            ended.update(set(asked) - ec2_info.still_there(target.of("ec2"), asked))

        self._each([targets[label] for label, ids in doubtful.items() if ids], look)
        gone = [f"{node.name} ({node.instance_id})" for node in nodes if node.instance_id in ended]
        if gone:
            self._found.warnings.append(
                f"{some(gone)} ended while the inventory was read -> read it again, with --flush-cache "
                "where it is cached; until then it has them as hosts without a place in the network"
            )

    # -- messages --------------------------------------------------------------------------------------------
    def _remark(self, nodes: Sequence[fleet.Node]) -> None:
        options = self._options
        if not nodes and not self._found.failures:
            asked = ", ".join(
                f"{key}={'|'.join(map(str, value))}" for key, value in filters_of(options).items()
            )
            where = ", ".join(options["regions"]) or "the region"
            self._found.warnings.append(
                f"no instance in {where} matches {asked} -> check the tags, the region and the states"
            )
        elif nodes and options["cluster"] and not any(node.roles for node in nodes):
            self._found.warnings.append(
                f"none of the {len(nodes)} instances has a part in the cluster -> give each the tag "
                f"{options['role_tag']}, with {', '.join(fleet.ROLES)}, several joined by +"
            )
        if self._found.managed and self._found.own:
            mine = some(node.name for node in nodes if node.roles and not node.manager)
            theirs = some(node.name for node in nodes if node.manager)
            self._found.warnings.append(
                f"instances of a cluster of ours ({mine}) and of ParallelCluster or PCS ({theirs}) are in the same "
                "groups -> make an inventory for each, by cluster, parallelcluster or pcs"
            )

    # -- file systems ----------------------------------------------------------------------------------------
    def _storage(self, targets: Sequence[_Target]) -> None:
        wanted = self._options["fsx"]
        cluster = self._options["cluster"]
        if not wanted or (wanted is True and not cluster):
            return
        tag = self._options["cluster_tag"]
        systems: list[fsx_records.FileSystem] = []
        volumes: list[fsx_records.Volume] = []
        links: list[fsx_records.Association] = []
        servers: dict[str, str] = {}

        def ask(target: _Target) -> None:
            client = target.of("fsx")
            # AWS refuses a whole call for one id that is in another region, so all are asked for.
            mine = [
                one
                for one in fsx.file_systems(client)
                if (one.tags.get(tag) == cluster if wanted is True else one.id in wanted)
            ]
            systems.extend(mine)
            lustre = [one.id for one in mine if one.type == "LUSTRE"]
            others = [one.id for one in mine if one.type in ("OPENZFS", "ONTAP")]
            if lustre:
                links.extend(fsx.associations(client, file_system_ids=lustre))
            if others:
                listed = list(fsx.volumes(client, file_system_ids=others))
                volumes.extend(listed)
                machines = {
                    one.storage_virtual_machine_id for one in listed if one.type == "ONTAP"
                } - {""}
                if machines:
                    servers.update(fsx.nfs_names(client, machines))

        self._each(targets, ask)
        found = fsx_mounts.mounts(systems, volumes, links, servers)
        self._found.warnings += found.warnings
        if wanted is not True and not self._found.failures:
            missing = sorted(set(wanted) - {one.id for one in systems})
            if missing:
                # A failure: without its mount, users would write to the disks of the nodes.
                self._found.failures.append(
                    f"fsx: {', '.join(missing)} is in no region and account asked -> check the id and regions"
                )
        if found.mounts:
            self._found.variables["cluster_mounts"] = found.mounts
        if found.data_repositories:
            self._found.variables["cluster_data_repositories"] = found.data_repositories


def _at_once(most: int, ask: Callable[[T], U], things: Sequence[T]) -> list[U]:
    """Ask for each thing, at most so many at once; one alone needs no thread."""
    if len(things) < 2:
        return [ask(one) for one in things]
    with ThreadPoolExecutor(min(most, len(things))) as pool:
        return list(pool.map(ask, things))


def tags_of(options: Options) -> fleet.Tags:
    """The names of tags as the options have them."""
    return fleet.Tags(options["cluster_tag"], options["role_tag"], options["partition_tag"])


def filters_of(options: Options) -> dict[str, list[str]]:
    """The filters of DescribeInstances for the options."""

    def values(given: t.Any) -> list[str]:
        listed: Iterable[t.Any] = given if isinstance(given, list) else [given]
        return [str(one).lower() if isinstance(one, bool) else str(one) for one in listed]

    found = {name: values(given) for name, given in options["filters"].items()}
    for option, tag in (
        ("cluster", options["cluster_tag"]),
        ("parallelcluster", "parallelcluster:cluster-name"),
        ("pcs", "aws:pcs:cluster-id"),
    ):
        if options[option]:
            found[f"tag:{tag}"] = [options[option]]
    found.setdefault("instance-state-name", list(options["states"]))
    return found
