# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Services of a live cluster stay on their hosts: a change of a group does not move their data, or stop the old one.

slurm.conf of a controller says where they are, that of a running slurmctld before any other. A new controller does not
have it, and one that was away has an old one, but the nodes have what they got from slurmctld.
"""

from __future__ import annotations

import ipaddress
import typing as t
from collections import Counter

from ...slurm.hostlist import fold
from ..conf import storage_of
from ..inputs import (
    CLUSTER,
    INVENTORY,
    SERVICE_GROUPS,
    Problem,
    fold_hosts,
    given_addresses,
    is_address,
    is_true,
    members,
    name_of,
    node_address,
    seen,
    short_name,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs

GUIDE = "docs/move_services.md"
ALLOWED = "slurm_allow_service_move: true"
_LOCAL = ("localhost", "127.0.0.1", "::1")
#: A host, its facts, and what its slurm.conf says.
Reported = tuple[str, dict[str, t.Any], dict[str, t.Any]]


class Running(t.NamedTuple):
    """Where the services of the running cluster are, and the hosts that report it."""

    controllers: list[str]  # as SlurmctldHost, the primary first
    database: str  # "" where accounting is off
    hosts: list[str]
    by_nodes: bool  # only slurmd and sackd report it


def _state(facts: dict[str, t.Any], *daemons: str) -> bool:
    services = facts.get("services") or {}
    return any(services.get(daemon) == "active" for daemon in daemons)


def _known(inputs: Inputs) -> list[Reported]:
    """Return the hosts that have a slurm.conf, with their facts and what it says; the controllers first, in order."""
    order = members(inputs, "slurm_controller")
    # The slurm.conf of these is that of another cluster.
    elsewhere = {
        host for host, own in inputs["host_vars"].items() if own.get("slurm_login_controllers")
    }
    known = [
        (host, facts, facts.get("service_hosts") or {})
        for host, facts in seen(inputs)
        if host not in elsewhere
    ]
    known = [item for item in known if item[2].get("controllers")]
    return sorted(known, key=lambda item: order.index(item[0]) if item[0] in order else len(order))


def _primary(inputs: Inputs, conf: dict[str, t.Any]) -> str:
    """Return the inventory's name of the primary in a slurm.conf."""
    return short_name(_called(inputs, conf["controllers"][0]))


def _rivals(inputs: Inputs) -> list[tuple[str, str]]:
    """Return (host, its primary) of controllers whose slurmctld run with different primaries.

    Different backups do not matter: one that was away for a while starts with its old slurm.conf, as the standby.
    """
    group = members(inputs, "slurm_controller")
    found = [
        (host, _primary(inputs, conf))
        for host, facts, conf in _known(inputs)
        if host in group and _state(facts, "slurmctld")
    ]
    return found if len({primary for _host, primary in found}) > 1 else []


def _against(inputs: Inputs, nodes: list[Reported], primary: str) -> list[Reported]:
    """Return the nodes that name another primary, the same one, if they are most of all, also of those on record."""
    texts = {conf["controllers"][0] for _host, _facts, conf in nodes}
    named = {text: short_name(_called(inputs, text)) for text in texts}
    counted = Counter(named[conf["controllers"][0]] for _host, _facts, conf in nodes)
    name, count = next(iter(counted.most_common(1)), ("", 0))
    all_nodes = max(len(nodes), len(inputs["record"].get("nodes") or {}))
    if 2 * count <= all_nodes or name == primary:
        return []
    return [item for item in nodes if named[item[2]["controllers"][0]] == name]


def _running(inputs: Inputs) -> Running | None:
    """Return where the services are, None for a new cluster.

    The file of a slurmctld that runs counts most. A controller where it does not may have been away while the cluster
    ran on elsewhere, so its file counts only if most nodes do not contradict it.
    """
    if _rivals(inputs):
        return None  # primaries() refuses that
    group, known = members(inputs, "slurm_controller"), _known(inputs)
    stopped = [item for item in known if item[0] in group and inputs["record"]]
    # Hosts may be, or have been, those of another cluster.
    same = [
        item for item in known if item[2].get("cluster") == inputs["settings"]["slurm_cluster_name"]
    ]
    active = [
        item
        for item in known
        if _state(item[1], "slurmctld") and (item[0] in group or item in same or not stopped)
    ]
    nodes = [item for item in same if _state(item[1], "slurmd", "sackd")]
    against: list[Reported] = []
    if stopped and not active:
        # A slurmd on a controller reads the file of that controller.
        others = [item for item in nodes if item[0] not in group]
        against = _against(inputs, others, _primary(inputs, stopped[0][2]))
    for found in (active[:1], against, stopped[:1], nodes):
        if found:
            first = found[0][2]
            return Running(
                list(first["controllers"]),
                str(first.get("database") or ""),
                [
                    host
                    for host, _facts, conf in found
                    if conf["controllers"] == first["controllers"]
                ],
                found is nodes or found is against,
            )
    return None


def _is_host(inputs: Inputs, host: str, written: str) -> bool:
    """Tell whether a host of the inventory is what slurm.conf names, as NAME, ADDRESS or NAME(ADDRESS)."""
    name, _bracket, address = written.rstrip(")").partition("(")
    facts = inputs["facts"].get(host) or {}
    names = {name_of(inputs, host), short_name(host), str(facts.get("hostname") or "")}
    addresses = {node_address(inputs, host), *given_addresses(inputs, host)}
    addresses |= set(facts.get("addresses") or [])
    words = {short_name(name), name, address} - {""}
    return bool(words & {*names, *addresses, host})


def _called(inputs: Inputs, written: str) -> str:
    """Return the inventory's name of what slurm.conf names; that itself where the inventory does not have it."""
    hosts = members(inputs, "slurm_cluster")
    known = next((host for host in hosts if _is_host(inputs, host, written)), "")
    return known or written.partition("(")[0]


def _remedy(variable: str, old: str) -> str:
    return f"write {old} into the {variable} again, or follow {GUIDE} and then write {ALLOWED}"


def primaries(inputs: Inputs) -> Iterator[Problem]:
    """No two controllers work as the primary; slurm_allow_service_move does not allow it either."""
    rivals = _rivals(inputs)
    if rivals:
        texts = [f"that of {host} has {primary}" for host, primary in rivals]
        yield Problem(
            INVENTORY,
            "group slurm_controller",
            f"slurmctld runs with different primaries: {', '.join(texts)}; each starts jobs on the same nodes",
            "on the host whose slurm.conf is the old one: systemctl stop slurmctld; then run again, with the primary of"
            f" the nodes as the first host ({GUIDE})",
        )


def controllers(inputs: Inputs) -> Iterator[Problem]:
    """The primary stays the primary, and a backup leaves only when it is stopped."""
    running, group = _running(inputs), members(inputs, "slurm_controller")
    if not running or not group or is_true(inputs["settings"]["slurm_allow_service_move"]):
        return
    variable, old = "group slurm_controller", running.controllers
    if len(old) == len(group) == 1 and _state(inputs["facts"].get(group[0]) or {}, "slurmctld"):
        return  # under whatever name its slurm.conf has
    names = [_called(inputs, text) for text in old]
    live = "slurmctld of the running cluster is on " + ", then ".join(names)
    if running.by_nodes:
        live += f" (as {fold_hosts(running.hosts)} reports)"
    remedy = _remedy(variable, ", ".join(names))
    gone = [text for text in old if not any(_is_host(inputs, host, text) for host in group)]
    if old[0] in gone:
        what = f"is {', '.join(group)}, but {live}: it would run on, and its jobs, keys and records would stay there"
        yield Problem(INVENTORY, variable, what, remedy)
    elif gone:
        what = f"is {', '.join(group)}, but {live}: the backup would run on, and take over with the old configuration"
        yield Problem(INVENTORY, variable, what, remedy)
    elif not _is_host(inputs, group[0], old[0]):
        what = f"is {', then '.join(group)}, but {live}: both would run as the primary"
        yield Problem(INVENTORY, variable, what, remedy)
    elif running.by_nodes and group[0] in inputs["facts"] and not inputs["record"]:
        yield Problem(
            group[0],
            "/var/lib/trainwright/record.json",
            f"this host has neither the record nor slurm.conf, but {fold(running.hosts)} run under its slurmctld:"
            " the cluster would start without its jobs, keys and nodes",
            f"restore the host from its backup ({GUIDE}), or, to begin again with new keys and without jobs, write"
            f" {ALLOWED}",
        )


def new_controller(inputs: Inputs) -> Iterator[Problem]:
    """A controller is added, or replaces another, in a run of all hosts: each daemon has to learn of it."""
    group, in_run = members(inputs, "slurm_controller"), set(inputs["hosts_in_run"])
    if not in_run.issuperset(group) or is_true(inputs["settings"]["slurm_allow_service_move"]):
        return  # a run without one of the controllers is refused anyway
    known = inputs["record"].get("hosts") or {}
    new = [
        host
        for host in group
        if host in inputs["facts"]
        and host not in known
        and not _state(inputs["facts"][host], "slurmctld")
        and not (inputs["facts"][host].get("service_hosts") or {}).get("controllers")
    ]
    away = [host for host in members(inputs, *SERVICE_GROUPS) if host not in in_run]
    if new and away:
        yield Problem(
            INVENTORY,
            "--limit",
            f"leaves out {fold_hosts(away)}, and {fold_hosts(new)} is a new controller: the daemons there would not"
            " know it, and have another SlurmctldHost than it",
            f"{inputs['command']}, without --limit (a compute node that is down does not stop it)",
        )


def database(inputs: Inputs) -> Iterator[Problem]:
    """slurmdbd stays where it is, with its database."""
    running, group = _running(inputs), members(inputs, "slurm_database")
    if (
        not running
        or not running.database
        or is_true(inputs["settings"]["slurm_allow_service_move"])
    ):
        return
    variable, old = "group slurm_database", running.database
    if old in _LOCAL:
        old = running.controllers[0]
    name = _called(inputs, old)
    if not group:
        yield Problem(
            INVENTORY,
            variable,
            f"is empty, but slurmdbd of the running cluster is on {name}: accounting and its limits would end, while"
            " slurmdbd and its database run on",
            _remedy(variable, name),
        )
    elif not any(
        _is_host(inputs, host, old) or _state(inputs["facts"].get(host) or {}, "slurmdbd")
        for host in group
    ):
        yield Problem(
            INVENTORY,
            variable,
            f"is {', '.join(group)}, but slurmdbd of the running cluster is on {name}: the new one would start with an"
            " empty database, which slurmctld refuses (CLUSTER ID MISMATCH)",
            _remedy(variable, name),
        )
    else:
        yield from _storage(inputs, group)


def _storage(inputs: Inputs, hosts: list[str]) -> Iterator[Problem]:
    """slurmdbd keeps its server and its database."""
    settings = inputs["settings"]
    own = {str(key).lower(): value for key, value in (settings.get("slurmdbd_conf") or {}).items()}
    host, name = storage_of(settings)
    host, name = str(own.get("storagehost") or host), str(own.get("storageloc") or name)
    external = bool(settings.get("mariadb_external"))
    for where in hosts:
        conf = (inputs["facts"].get(where) or {}).get("service_hosts") or {}
        old_host, old_name = conf.get("storage_host"), conf.get("storage_database")
        if not old_host:
            continue
        moved = old_host.lower() != host.lower() and not {old_host, host} <= set(_LOCAL)
        if not moved and (not old_name or old_name == name):
            continue
        if "storagehost" in own or "storageloc" in own:
            variable = "slurmdbd_conf." + ("StorageHost" if moved else "StorageLoc")
        elif external:
            variable = "mariadb_external." + ("host" if moved else "database")
        else:
            variable = "mariadb_external" if moved else "mariadb_database"
        again = old_host if moved else old_name
        if variable == "mariadb_external.host" and old_host in _LOCAL:
            again = "mariadb_external: {}"
        yield Problem(
            CLUSTER,
            variable,
            f"the records would be in {name} of {host}, but slurmdbd on {where} has them in {old_name} of {old_host}:"
            " it would start with an empty database, which slurmctld refuses (CLUSTER ID MISMATCH)",
            f"write {again} again, or follow {GUIDE} and then write {ALLOWED}",
        )


def _starts_at_boot(inputs: Inputs, host: str, facts: dict[str, t.Any], daemon: str) -> bool:
    """Tell whether a daemon that does not run starts at the next boot, by its unit and its configuration.

    Debian enables the unit with the package, which may be in an image of the site. Without a configuration that has
    this host, slurmctld ends at once, and slurmdbd without its own file.
    """
    if daemon not in (facts.get("services_enabled") or []):
        return False
    conf = facts.get("service_hosts") or {}
    if daemon == "slurmdbd":
        return bool(conf.get("storage_host") or conf.get("storage_database"))
    return any(_is_host(inputs, host, text) for text in conf.get("controllers") or [])


def left_behind(inputs: Inputs) -> Iterator[Problem]:
    """A host that left its group does not run the daemon of that group any more, nor after a boot."""
    reported = " ".join(
        str(problem) for check in (controllers, database) for problem in check(inputs)
    )
    for daemon, group in (("slurmctld", "slurm_controller"), ("slurmdbd", "slurm_database")):
        ours = members(inputs, group)
        for host, facts in seen(inputs):
            if not ours and group == "slurm_controller":
                continue
            if host in ours or f"group {group}" in reported:
                continue
            if _state(facts, daemon):
                what = "runs on this host, which is not in the group"
            elif _starts_at_boot(inputs, host, facts, daemon):
                what = "starts at the next boot of this host, which is not in the group"
            else:
                continue
            yield Problem(
                host,
                f"group {group}",
                f"{daemon} {what}",
                f"put the host into {group}, or stop it there: systemctl disable --now {daemon} ({GUIDE})",
            )


def out_of_sight(inputs: Inputs) -> Iterator[Problem]:
    """A controller that left the group does not answer any more, also where no facts are read.

    By the slurm.conf that still has it, so once. Without slurm_allow_service_move, controllers() refuses it anyway.
    """
    settings, group = inputs["settings"], members(inputs, "slurm_controller")
    if not group or not is_true(settings["slurm_allow_service_move"]):
        return
    ours = {
        address
        for host in group
        for address in (
            node_address(inputs, host),
            *given_addresses(inputs, host),
            *((inputs["facts"].get(host) or {}).get("addresses") or []),
        )
    }
    done = set()
    for host, facts, conf in _known(inputs):
        if conf.get("cluster") != settings["slurm_cluster_name"]:
            continue
        for text, address in (facts.get("controllers_reached") or {}).items():
            name = _called(inputs, text)
            # left_behind() knows more of a host with facts; a name may lead to another host of the group, or to itself.
            if (
                name in done
                or name in group
                or name in inputs["facts"]
                or address in ours
                or not is_address(address)
                or ipaddress.ip_address(address).is_loopback
            ):
                continue
            done.add(name)
            yield Problem(
                INVENTORY,
                "group slurm_controller",
                f"does not have {name} any more, but its slurmctld still answers ({host} reaches {address}): it would"
                " run on with the old configuration",
                f"stop it on {name}: systemctl disable --now slurmctld ({GUIDE})",
            )


CHECKS: tuple[Check, ...] = (
    primaries,
    controllers,
    new_controller,
    database,
    left_behind,
    out_of_sight,
)
