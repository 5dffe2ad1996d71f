# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One digest of all that decides what a run would leave on a host. Pure.

A host whose digest is the one of its last whole run, and on which nothing differs from what that run left, takes no
part in the rest of the run. So the digest is over more than is needed: one that changes without need costs a walk over
the roles, and one that stays without right would leave a host as it should not be.
"""

from __future__ import annotations

import hashlib
import re
import typing as t

from ..node.drift_paths import AS_LEFT, DRIFTED
from ..node.mounting import is_own
from .digests import digest

if t.TYPE_CHECKING:
    from .inputs import Inputs
    from .schema import Model

#: The variable of the first controller that has the hosts which are left out (hosts_left).
LEFT = "__site_left"
#: A pattern that matches no host.
NOBODY = "slurm_cluster:!slurm_cluster"

#: Groups of hosts with services of the cluster: roles also write into databases and on other hosts there, and not all
#: of it is recorded.
SERVED = ("slurm_controller", "slurm_database", "slurm_rest", "slurm_nfs_server")
#: Groups whose hosts every run walks over, if any host of the cluster takes part.
WALKED = (*SERVED, "slurm_build")
LEFT_OUT = ("slurm_compute", "slurm_login")
#: Groups whose first host does something for all of them.
FIRST = ("slurm_login", "slurm_pyxis")

#: Facts that vary by themselves, or that a run itself makes, so that the look at what it left has them.
FACTS_APART = frozenset(
    {
        *("boot_id", "clock_error_s", "clock_offset_s", "disks", "ports", "reach"),
        *("memory_mb", "tmp_disk_mb", "services", "services_enabled", "service_hosts"),
        *("slurmd_running_conf", "controllers_reached"),
        *("users", "groups", "uids", "gids", "mounts", "unmounted", "login"),
    }
)

#: Parts of the cluster model from which nothing is written on hosts of LEFT_OUT; of nodes, each host has its own.
MODEL_APART = frozenset(
    {
        *("messages", "results", "as_declared"),
        *("drains", "kept_out", "untested", "unlisted", "removed_nodes"),
        *("removed_hosts", "gpus_came", "gpus_to_come", "record", "record_digest"),
        *("node_lines", "node_set_lines", "partition_lines", "gres_lines", "topology"),
        *("nodes", "slurmd_digests", "conf_behind", "scratches"),
        *("tuning", "health_agents_left", "slurmdbd_conf"),
    }
)

#: Parts of the cluster model that say what a run found, and not what is written. A run that writes another record than
#: it has read leaves no host with services out (left_out).
OF_ONE_RUN = frozenset({"messages", "results", "untested", "unlisted", "record_digest"})


def candidates(inputs: Inputs, model: Model) -> list[str]:
    """Return the hosts that may be left out: all that roles leave on them is recorded there, and the look sees it."""
    groups, settings = inputs["groups"], inputs["settings"]
    managed = model["stack"]["hosts"]
    # Packages from elsewhere and NHC come by modules of Ansible, which record nothing; Lustre's module options and the
    # arguments of the kernel wait for a boot, and nobody else asks for it.
    unrecorded = (
        model["install_method"] != "distribution"
        or settings.get("node_health_nhc_conf")
        or settings.get("node_tuning_kernel_arguments")
        or any(mount["fstype"] == "lustre" for mount in model["mounts"])
        # Each host gives its own such directories to their owner, with all that lies below.
        or _owned_below(mount for mount in model["mounts"] if is_own(mount["fstype"]))
        # The first GPUs change what every slurmd is started with.
        or (managed and not model["reconfigure_adds_nodes"])
    )
    if unrecorded:
        return []
    walked = {host for group in WALKED for host in groups.get(group, [])}
    walked.update(entry["host"] for entry in model["kept_out"])
    walked.update(model["conf_behind"])
    walked.update(managed, model["gpus_to_come"])
    # The first of them makes what is on shared storage: homes and keys of users, directories of Enroot.
    walked.update(host for group in FIRST for host in groups.get(group, [])[:1])
    if managed:
        # They name the versions of all nodes, which the run may still change.
        walked.update(groups.get("slurm_login", []))
    members = {*groups.get("slurm_pyxis", [])}
    walked.update(
        host
        for host in members | ({*groups.get("slurm_compute", [])} if members else set())
        if _lacks_pyxis(inputs["facts"].get(host) or {}, host in members)
    )
    found = dict.fromkeys(host for group in LEFT_OUT for host in groups.get(group, []))
    return [
        host
        for host in found
        if host not in walked and _is_recorded(inputs["facts"].get(host) or {})
    ]


def candidates_with_services(inputs: Inputs, model: Model) -> list[str]:
    """Return the hosts with services that may be left out of some plays.

    None where another host takes part in these plays anyway: it may need what they make or read for all.
    """
    groups = inputs["groups"]
    left = set(candidates(inputs, model))
    if (
        _owned_below(model["mounts"])
        or model["kept_out"]
        or model["gpus_to_come"]
        or model["stack"]["hosts"]
    ):
        return []
    served = [host for group in SERVED for host in groups.get(group, [])]
    served += [host for group in FIRST for host in groups.get(group, [])[:1]]
    found = [host for host in dict.fromkeys(served) if host not in left]
    everyone = {*groups.get("slurm_cluster", []), *served}
    if not left or groups.get("slurm_build") or everyone - {*left, *found}:
        return []
    recorded = all(_is_recorded(inputs["facts"].get(host) or {}) for host in found)
    return found if recorded else []


def _owned_below(mounts: t.Iterable[t.Mapping[str, t.Any]]) -> bool:
    """Whether the owner of a directory counts for all files below, which nobody records."""
    return any(one["recursive"] for mount in mounts for one in mount["directories"])


def _lacks_pyxis(facts: t.Mapping[str, t.Any], member: bool) -> bool:
    """Whether something of Pyxis is damaged, which role pyxis sees by the facts alone.

    member: whether the host runs containers; other compute nodes have the plugin alone, which refuses them.
    Such a host is not remembered: its facts are those from before the repair, and the same damage once more would
    look like the state that this run leaves.
    """
    found = facts.get("containers") or {}
    whole = found.get("plugstack") == "pyxis" and found.get("pyxis_built_for")
    lacks = member and found.get("missing_programs")
    return not whole or bool(found.get("pyxis_error") or lacks)


def _is_recorded(facts: t.Mapping[str, t.Any]) -> bool:
    """Whether the system of a host is one of which everything is recorded, and nothing was interrupted there."""
    return facts.get("os", {}).get("like") == "debian" and not facts.get("packages_interrupted")


def wanted(
    inputs: Inputs, model: Model, common: t.Any, variables: t.Mapping[str, t.Any]
) -> dict[str, str]:
    """Return the digest of each host that may be left out.

    common: what counts for all of them, such as the digest of the collection. variables: what the inventory has for
    each host; a host without them is walked over.
    """
    slurm_groups = {
        name: hosts for name, hosts in inputs["groups"].items() if name.startswith("slurm_")
    }
    common = _in_order(common)
    shared = digest(
        [
            common,
            {name: value for name, value in model.items() if name not in MODEL_APART},
            slurm_groups,
        ]
    )
    nodes = {node["host"]: node for node in model["nodes"]}
    scratch = {one["host"]: one for one in model["scratches"]}
    found = {}
    for host in candidates(inputs, model):
        if host not in variables:
            continue
        own = _lasting(inputs["facts"][host])
        parts = [
            host,
            nodes.get(host),
            model["slurmd_digests"].get(host),
            scratch.get(host),
            {**model["tuning"], "hosts": host in model["tuning"]["hosts"]},
        ]
        found[host] = digest([shared, parts, own, _in_order(variables[host])])
    whole = {name: value for name, value in model.items() if name not in OF_ONE_RUN}
    for host in candidates_with_services(inputs, model):
        if host in variables:
            own = _lasting(inputs["facts"][host])
            given = _in_order(variables[host])
            found[host] = digest([common, whole, slurm_groups, host, own, given])
    return found


def asked_of(wanted_there: t.Mapping[str, str], secrets: str) -> dict[str, str]:
    """Return the digest of each host that may be left out, with that of the secrets of the cluster.

    secrets: "" where they are not as left, or will be made: then no host is left out.
    """
    if not secrets:
        return {}
    return {
        host: hashlib.sha256(f"{one}{secrets}".encode()).hexdigest()
        for host, one in wanted_there.items()
    }


def states(
    looks: t.Mapping[str, t.Mapping[str, t.Any]], asked: t.Mapping[str, str]
) -> dict[str, str]:
    """Return the state of each host that differs or was set up for what is wanted there now.

    Drift counts also where something else is wanted: the run may put it back, and nobody else tells.
    """
    found = {}
    for host, one in looks.items():
        as_asked = host in asked and one.get("digest") == asked[host]
        if as_asked or one.get("state") == DRIFTED:
            found[host] = str(one.get("state"))
    return found


def hosts_left(
    groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Mapping[str, t.Any]
) -> list[str]:
    """Return the hosts that this run has left out so far, those with services among them."""
    found = _left(groups, hostvars)
    return [*(found.get("as_left") or []), *(found.get("services_as_left") or [])]


def to_walk(
    pattern: str,
    groups: t.Mapping[str, t.Sequence[str]],
    hostvars: t.Mapping[str, t.Any],
    services: bool = False,
) -> str:
    """Return a pattern without the hosts that are left out.

    services: without those with services, too.
    """
    found = _left(groups, hostvars)
    left = {*(found.get("as_left") or ())}
    if services:
        left.update(found.get("services_as_left") or ())
    if not left:
        return pattern
    hosts: dict[str, None] = {}
    without = {*left}
    for part in [pattern] if pattern in groups.get("all", ()) else re.split("[,:]", pattern):
        name = part.removeprefix("!")
        named = groups.get(name, [name])
        if part.startswith("!"):
            without.update(named)
        else:
            hosts.update(dict.fromkeys(named))
    return ",".join(host for host in hosts if host not in without) or NOBODY


def _left(
    groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Mapping[str, t.Any]
) -> t.Mapping[str, t.Any]:
    first = next(iter(groups.get("slurm_controller") or ()), "")
    return (hostvars[first].get(LEFT) or {}) if first in hostvars else {}


def left_out(
    state: t.Mapping[str, str],
    services: t.Collection[str],
    groups: t.Mapping[str, t.Sequence[str]],
    record_stays: bool,
) -> tuple[list[str], list[str]]:
    """Return the hosts that are as they were left, and those with services.

    services: hosts with services of the cluster, which are left out only where no other host takes part. record_stays:
    whether the record that was read is the one that this run would write; the controllers take part if it is not.
    """
    left = [host for host, one in state.items() if one == AS_LEFT]
    everyone = {host for name in ("slurm_cluster", *SERVED) for host in groups.get(name) or ()}
    nobody = record_stays and everyone <= {*left}
    serving = [host for host in left if host in services] if nobody else []
    return [host for host in left if host not in services], serving


def _in_order(value: t.Any) -> str:
    """Return a digest of variables in which the order of keys in a value counts: roles write lines in that order."""
    if isinstance(value, t.Mapping):
        value = sorted(([name, one] for name, one in value.items()), key=lambda pair: str(pair[0]))
    return digest(value, sort_keys=False)


def _lasting(facts: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the facts of a host without those that vary by themselves."""
    own = {name: value for name, value in facts.items() if name not in FACTS_APART}
    # A running slurmd has fetched slurm.conf and plugstack.conf, which were not there before its first start.
    slurm = facts.get("slurm") or {}
    fetched = ("plugstack", "conf_", "own_conf")
    own["slurm"] = {key: slurm[key] for key in slurm if not key.startswith(fetched)}
    return own
