# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mounts, and the directories that controllers share and nodes must not."""

from __future__ import annotations

import re
import typing as t

from ...node import file_systems, fstab
from ...node.facts import KNOWN_USERS
from ...node.mount_points import problem_of, shape_problem
from ...node.stack_values import FINGERPRINT
from ...slurm.conf.pairs import text_of
from ..inputs import (
    CLUSTER,
    INVENTORY,
    Problem,
    is_true,
    is_under,
    label_of,
    members,
    nearest,
    seen,
)
from ..mounts import expand
from ..needed_files import mount_files
from ..nfs import exports_of
from ..users import normalise_users

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..inputs import Check, Inputs


#: Purposes of mounts that have a part of the storage policy.
_POLICY = {"checkpoints", "data", "logs", "scratch", "shared"}
LOCAL_FILE_SYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "zfs", "vfat")


def mounts(inputs: Inputs) -> Iterator[Problem]:
    """Mounts are on paths that are not the system's, and each path is mounted once."""
    seen: set[str] = set()
    for index, mount in enumerate(inputs["settings"].get("cluster_mounts") or []):
        label = label_of("cluster_mounts", index, mount, "path")
        path = str(mount.get("path") or "").rstrip("/")
        wrong = problem_of(mount.get("path"))
        if wrong:
            yield Problem(CLUSTER, f"{label}.path", wrong.what, wrong.remedy)
        elif path in seen:
            yield Problem(CLUSTER, label, "is listed twice", "keep one mount for each path")
        seen.add(path)
        yield from _directories(label, path, mount.get("directories") or [])


_MOST_DAYS = 3650


def _directories(label: str, mount: str, given: Sequence[Mapping[str, t.Any]]) -> Iterator[Problem]:
    """Check the directories of a mount, one problem for each pattern."""
    where, seen_paths = f"{label}.directories", set[str]()
    for directory in given:
        pattern = str(directory["path"])
        days = directory.get("remove_after_days")
        if days is not None and not 0 <= int(days) <= _MOST_DAYS:
            yield Problem(
                CLUSTER,
                where,
                f"remove_after_days of {pattern} is {days}, which is not a number of days",
                f"write a number from 0, for never, to {_MOST_DAYS}",
            )
        elif days and pattern.rstrip("/") == mount:
            yield Problem(
                CLUSTER,
                where,
                f"remove_after_days of {pattern} would remove all that is old on the whole mount",
                "name a directory below it that is for temporary files only",
            )
        try:
            paths = expand(pattern)
        except ValueError as error:
            remedy = (
                "write {1..7} for numbers and {a,b} for words, or list the directories one by one"
            )
            yield Problem(CLUSTER, where, f"{pattern!a}: {error}", remedy)
            continue
        for path in paths:
            wrong = shape_problem(path)
            if wrong:
                yield Problem(CLUSTER, where, f"{path!a} {wrong.what}", wrong.remedy)
            elif not is_under(path, mount):
                yield Problem(
                    CLUSTER,
                    where,
                    f"{path} is not under {mount}",
                    "name directories on this mount",
                )
            elif path.rstrip("/") in seen_paths:
                yield Problem(
                    CLUSTER, where, f"{path} is listed twice", "keep one entry for each directory"
                )
            else:
                seen_paths.add(path.rstrip("/"))
                continue
            break


_BLANK = re.compile(r"[\s\x00-\x1f\x7f]")


def words(inputs: Inputs) -> Iterator[Problem]:
    """Source, type and options of a mount are each one word of fstab, and modes are octal."""
    for index, mount in enumerate(inputs["settings"].get("cluster_mounts") or []):
        label = label_of("cluster_mounts", index, mount, "path")
        if str(mount.get("source")).startswith("#"):
            yield Problem(
                CLUSTER,
                f"{label}.source",
                f"{mount['source']!r} would make its line of fstab a comment",
                "write a source that does not begin with #",
            )
        for key in ("source", "fstype", "options"):
            value = mount.get(key)
            for text in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(text, str) and _BLANK.search(text):
                    yield Problem(
                        CLUSTER,
                        f"{label}.{key}",
                        f"{text!r} is not one word of fstab",
                        "write it without blanks and line ends: options with commas, a blank of a name as \\040",
                    )
        for directory in mount.get("directories") or []:
            mode = directory.get("mode", "0755")
            # YAML reads 0777 as 511, which is a mode, too, and not the one that was meant.
            if not isinstance(mode, str) or not re.fullmatch(r"0?[0-7]{3,4}", mode):
                yield Problem(
                    CLUSTER,
                    f"{label}.directories",
                    f"{mode!r} is not a mode of {directory['path']}",
                    'write it in octal and with quotes, such as "0755"',
                )


def options(inputs: Inputs) -> Iterator[Problem]:
    """The options of a mount agree with one another, and it is mounted."""
    for index, mount in enumerate(inputs["settings"].get("cluster_mounts") or []):
        where = f"{label_of('cluster_mounts', index, mount, 'path')}.options"
        given = text_of(mount.get("options") or "").split(",")
        if "noauto" in given:
            yield Problem(
                CLUSTER,
                where,
                "noauto leaves it unmounted, and jobs would find an empty directory",
                "remove noauto: a file system with a server is mounted when it is used, and boot does not wait for it."
                " One that people mount by hand belongs into /etc/fstab, not into cluster_mounts",
            )
        pair = fstab.opposites(given)
        if pair:
            yield Problem(
                CLUSTER,
                where,
                f"{pair[0]} and {pair[1]} exclude each other",
                "keep the one that you mean",
            )


def sources(inputs: Inputs) -> Iterator[Problem]:
    """The type and the source of a mount can be mounted."""
    given = inputs["settings"].get("cluster_mounts") or []
    more = inputs["settings"].get("slurm_extra_packages")
    for index, mount in enumerate(given):
        label, source = label_of("cluster_mounts", index, mount, "path"), str(mount.get("source"))
        if str(mount.get("fstype") or "nfs") in ("nfs", "nfs4") and ":" not in source:
            yield Problem(
                CLUSTER,
                f"{label}.source",
                f"{source!r} does not name a server",
                "write SERVER:/PATH, or fstype: none and options: bind for a directory of the host",
            )
    for index, key, path in mount_files(given):
        label = f"{label_of('cluster_mounts', index, given[index], 'path')}.{key}"
        for host, facts in seen(inputs):
            there = (facts.get("files") or {}).get(path) is not False
            others = [str(mount["path"]) for at, mount in enumerate(given) if at != index]
            if there or any(is_under(path, other.rstrip("/")) for other in others):
                continue
            if key == "source":
                yield Problem(
                    host, label, f"{path} is not on this host", "create it first, or correct it"
                )
            elif (kind := str(given[index].get("fstype") or "nfs")) not in file_systems.TABLE:
                if more:
                    continue
                near = nearest(kind, file_systems.TABLE)
                yield Problem(
                    host,
                    label,
                    f"{kind!r} is not a file system that this host can mount{near}",
                    f"correct it, or install its {path} with slurm_extra_packages",
                )


def clients(inputs: Inputs) -> Iterator[Problem]:
    """Each host has a client for the types of its mounts, or its packages can be installed."""
    more = inputs["settings"].get("slurm_extra_packages")
    adds = bool(inputs["settings"].get("lustre_client_repository"))
    for index, mount in enumerate(inputs["settings"].get("cluster_mounts") or []):
        kind = str(mount.get("fstype") or "nfs")
        if kind not in file_systems.TABLE or more:
            continue
        for host, facts in seen(inputs):
            client = file_systems.client_of(kind, facts, adds)
            if client.fault:
                yield Problem(
                    host,
                    f"{label_of('cluster_mounts', index, mount, 'path')}.fstype",
                    client.fault,
                    client.remedy,
                )


_URL = re.compile(r"(https?|file)://\S+")


def lustre_repository(inputs: Inputs) -> Iterator[Problem]:
    """The parts of the repository of Lustre's client that the site replaces can be used."""
    where = "lustre_client_repository_parts"
    given = inputs["settings"].get("lustre_client_repository_parts") or {}
    if given and not inputs["settings"].get("lustre_client_repository"):
        yield Problem(
            CLUSTER,
            where,
            "replaces parts of a repository that is not used",
            "write lustre_client_repository: fsx, or remove it",
        )
    for key in ("url", "key_url"):
        if given.get(key) is not None and not _URL.fullmatch(str(given[key])):
            yield Problem(CLUSTER, f"{where}.{key}", "is not a URL", "write https://HOST/PATH")
    fingerprint = given.get("key_fingerprint")
    if fingerprint is not None and not FINGERPRINT.fullmatch(str(fingerprint).strip()):
        yield Problem(
            CLUSTER,
            f"{where}.key_fingerprint",
            "is not the 40 hexadecimal digits of a key",
            "write the fingerprint that the publisher prints elsewhere than beside the key",
        )


def tree(inputs: Inputs) -> Iterator[Problem]:
    """The storage policy has a mount to be on."""
    settings = inputs["settings"]
    purposes = {str(mount.get("purpose") or "") for mount in settings.get("cluster_mounts") or []}
    if is_true(settings.get("shared_storage_tree")) and not purposes & _POLICY:
        yield Problem(
            CLUSTER,
            "shared_storage_tree",
            "no mount in cluster_mounts has a purpose of the policy",
            f"write purpose: shared, or {', '.join(sorted(_POLICY - {'shared'}))}, for one of them",
        )


def owners(inputs: Inputs) -> Iterator[Problem]:
    """Owners and groups of directories are declared, or on the hosts."""
    settings = inputs["settings"]
    users, groups = normalise_users(
        settings.get("cluster_users") or [], settings.get("cluster_groups") or []
    )
    local = settings.get("cluster_users_source", "local") == "local"
    # The run makes these.
    services = set(KNOWN_USERS)
    declared = {
        "owner": services
        | ({user["name"] for user in users if user["state"] == "present"} if local else set()),
        "group": services | ({group["name"] for group in groups} if local else set()),
    }

    def unknown(host: str, label: str, key: str, name: t.Any) -> Iterator[Problem]:
        facts = inputs["facts"][host].get(f"{'user' if key == 'owner' else key}s") or {}
        if name and str(name) not in declared[key] and facts.get(str(name), True) is None:
            kind = "user" if key == "owner" else "group"
            yield Problem(
                host,
                label,
                f"there is no {kind} {str(name)!r}",
                f"add it to cluster_{kind}s, make it on every host, or correct {key}",
            )

    for host, _facts in seen(inputs):
        for index, mount in enumerate(settings.get("cluster_mounts") or []):
            label = f"{label_of('cluster_mounts', index, mount, 'path')}.directories"
            for directory in mount.get("directories") or []:
                for key in ("owner", "group"):
                    yield from unknown(host, label, key, directory.get(key))
        for index, export in enumerate(exports_of(inputs, host)):
            label = label_of("nfs_server_exports", index, export, "path")
            for key in ("owner", "group"):
                yield from unknown(host, f"{label}.{key}", key, export.get(key))
        if is_true(settings.get("shared_storage_tree")):
            group = settings.get("shared_storage_tree_group")
            yield from unknown(host, "shared_storage_tree_group", "group", group)


def shared_state(inputs: Inputs) -> Iterator[Problem]:
    """Two controllers share their state, and nodes do not share their spool."""
    settings = inputs["settings"]
    by_length = sorted(
        settings.get("cluster_mounts") or [], key=lambda mount: -len(str(mount["path"]))
    )

    def mount_of(path: str) -> Mapping[str, t.Any] | None:
        return next((mount for mount in by_length if is_under(path, str(mount["path"]))), None)

    state, spool = settings["slurm_state_save_location"], settings["slurm_spool_dir"]
    if len(members(inputs, "slurm_controller")) == 2:
        mount = mount_of(state)
        if mount is None or str(mount.get("fstype")) in LOCAL_FILE_SYSTEMS:
            yield Problem(
                CLUSTER,
                "slurm_state_save_location",
                f"{state} is not on storage that both controllers mount, so the backup would lose all jobs",
                "name a directory under a path of cluster_mounts that is shared",
            )
    mount = mount_of(spool)
    if (
        mount is not None
        and str(mount.get("fstype")) not in LOCAL_FILE_SYSTEMS
        and "%" not in spool
    ):
        yield Problem(
            CLUSTER,
            "slurm_spool_dir",
            f"{spool} is on the shared {mount['path']}, so nodes would overwrite each other's jobs",
            "name a directory on each node's own disk, such as /var/spool/slurmd",
        )


#: Directories of services that run here, by the unit that writes there; the secrets and the record are ours.
_LIVE = (
    ("/var/lib/mysql", "mariadb"),
    ("/var/lib/trainwright", "slurmctld"),
    ("/var/lib/trainwright", "slurmd"),
    ("/var/lib/munge", "munge"),
)


def mounts_over_live_data(inputs: Inputs) -> Iterator[Problem]:
    """A mount that is new hides what is below it, and the service finds nothing there when it next starts."""
    settings = inputs["settings"]
    places = [
        *_LIVE,
        (settings["slurm_state_save_location"], "slurmctld"),
        (settings["slurm_spool_dir"], "slurmd"),
    ]
    for index, mount in enumerate(settings.get("cluster_mounts") or []):
        path = str(mount.get("path") or "").rstrip("/")
        for host, facts in seen(inputs):
            running = (facts.get("slurmd_running_conf") or {}).values()
            for place, unit in places:
                now = str(((facts.get("disks") or {}).get(place) or {}).get("mount") or path)
                used = (place, unit) in _LIVE or place in running
                active = (facts.get("services") or {}).get(unit) == "active"
                if active and used and is_under(place, path) and not is_under(now, path):
                    yield Problem(
                        host,
                        label_of("cluster_mounts", index, mount, "path"),
                        f"would hide {place}, where {unit} of the running cluster has its data",
                        f"stop {unit}, copy its data to the new place and mount it there yourself first, or choose"
                        " another path",
                    )
                    break


def moves_of_a_live_cluster(inputs: Inputs) -> Iterator[Problem]:
    """Settings that would lose running jobs do not change; the name never does, as slurmctld refuses its own state."""
    settings = inputs["settings"]
    allowed = is_true(settings["slurm_allow_state_move"])
    wanted = {
        "ClusterName": ("slurm_cluster_name", settings["slurm_cluster_name"]),
        "StateSaveLocation": ("slurm_state_save_location", settings["slurm_state_save_location"]),
        "SlurmdSpoolDir": ("slurm_spool_dir", settings["slurm_spool_dir"]),
        "AuthType": ("slurm_auth_type", f"auth/{settings['slurm_auth_type']}"),
    }
    running: dict[str, str] = {}
    host_of = INVENTORY
    for host, facts in seen(inputs, "slurm_controller"):
        active = (facts.get("services") or {}).get("slurmctld") == "active"
        if active and facts.get("slurmd_running_conf"):
            running, host_of = facts["slurmd_running_conf"], host
            break
    recorded = str(inputs["record"].get("cluster") or "")
    if recorded and recorded != settings["slurm_cluster_name"] and "ClusterName" not in running:
        running = {**running, "ClusterName": recorded}
    for key, (variable, new) in wanted.items():
        old = running.get(key)
        if allowed and key != "ClusterName":
            continue
        if old and old.rstrip("/") != str(new).rstrip("/"):
            yield Problem(
                host_of,
                variable,
                f"is {new}, but the running cluster has {key}={old}; the change would lose its jobs",
                f"write {old.removeprefix('auth/')} again"
                + (
                    ": the state and the accounting belong to that name"
                    if key == "ClusterName"
                    else ", or drain the cluster and write slurm_allow_state_move: true"
                ),
            )


CHECKS: tuple[Check, ...] = (
    mounts,
    words,
    options,
    sources,
    clients,
    lustre_repository,
    tree,
    owners,
    shared_state,
    mounts_over_live_data,
    moves_of_a_live_cluster,
)
