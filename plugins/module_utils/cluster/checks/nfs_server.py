# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Exports of the cluster's own NFS servers: what they contain, who gets them, and whether the host can serve them.

Source of the options and of the forms of a client: exports(5) of nfs-utils.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ...node import file_systems
from ...node.mount_points import shape_problem, system_directory
from ...node.nfs_quota import bytes_of
from ..inputs import Problem, is_host_name, is_true, is_under, label_of, members
from ..nfs import GROUP, exports_of

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..inputs import Check, Inputs

#: Secrets and the state of services.
_PRIVATE = ("/var/lib/munge", "/var/lib/trainwright", "/var/lib/mysql", "/var/lib/nfs")
#: The largest networks: 10.0.0.0/8 is the largest private one, and providers assign /32 of IPv6.
_WIDEST = {4: 8, 6: 32}
_NETGROUP = re.compile(r"@[\w.-]+")
_WILD = re.compile(r"[A-Za-z0-9_.*?-]+")
_OPTION = re.compile(r"[a-z_0-9]+(=[\w./:@+-]+)?")
#: Options that a key of the export decides.
_KEYS = {
    **dict.fromkeys(("rw", "ro"), "read_only"),
    **dict.fromkeys(("root_squash", "no_root_squash"), "no_root_squash"),
    **dict.fromkeys(("mp", "mountpoint"), "mount"),
}
#: Memory is lost with the server; an overlay and another server's files cannot be exported dependably.
_NOT_EXPORTED = ("autofs", "none", "overlay", "ramfs", "tmpfs")


def _each(inputs: Inputs) -> list[tuple[str, str, Mapping[str, t.Any], str]]:
    """Return (host, label, export, path) of each export of each server."""
    return [
        (
            host,
            label_of("nfs_server_exports", index, export, "path"),
            export,
            str(export.get("path") or "").rstrip("/") or "/",
        )
        for host in members(inputs, GROUP)
        for index, export in enumerate(exports_of(inputs, host))
    ]


def servers(inputs: Inputs) -> Iterator[Problem]:
    """A server has something to export, and a kernel that can."""
    for host in members(inputs, GROUP):
        facts = inputs["facts"].get(host)
        if facts is None:
            continue
        if not exports_of(inputs, host):
            yield Problem(
                host,
                "nfs_server_exports",
                f"is empty, and the host is in {GROUP}",
                "list the directories that it exports, or take the host out of the group",
            )
        if (facts.get("file_systems") or {}).get("nfsd") is False:
            yield Problem(
                host,
                f"group {GROUP}",
                f"the kernel {facts.get('kernel')} of this host cannot serve NFS (it does not have nfsd)",
                "run a kernel of the distribution on a machine of its own, not a container, or take the host out of"
                " the group",
            )


def paths(inputs: Inputs) -> Iterator[Problem]:
    """An export is a site's own directory, on a file system that is there."""
    settings = inputs["settings"]
    state, spool = (
        str(settings[name]).rstrip("/") for name in ("slurm_state_save_location", "slurm_spool_dir")
    )
    shared_state = len(members(inputs, "slurm_controller")) > 1
    taken: set[tuple[str, str]] = set()
    for host, label, export, path in _each(inputs):
        shape, row = shape_problem(path), system_directory(path)
        inside = [place for place in (*_PRIVATE, state, spool) if is_under(path, place)]
        if not (shared_state and is_under(state, path) and path != state):
            inside += [place for place in (state,) if is_under(place, path)]
        inside += [place for place in (*_PRIVATE, spool) if is_under(place, path)]
        if shape and path != "/":
            yield Problem(host, f"{label}.path", f"{path!a} {shape.what}", shape.remedy)
        elif row or inside:
            why = (
                f"{row.path} {row.reason}"
                if row
                else f"{inside[0]} has the secrets or the state of a service"
            )
            yield Problem(
                host,
                f"{label}.path",
                f"{path} would be readable on every client, but {why}",
                "export a directory of your own, such as /srv/data",
            )
        elif (host, path) in taken:
            yield Problem(host, label, "is listed twice", "keep one export for each directory")
        else:
            yield from _file_system(inputs, host, label, export, path)
        taken.add((host, path))


def _file_system(
    inputs: Inputs, host: str, label: str, export: Mapping[str, t.Any], path: str
) -> Iterator[Problem]:
    disk = ((inputs["facts"].get(host) or {}).get("disks") or {}).get(path)
    if not disk:
        return
    wanted, found = str(export.get("mount") or ""), str(disk.get("mount") or "")
    kind, where = str(disk.get("fstype") or ""), f"{label}.path"
    row = file_systems.TABLE.get(kind)
    if wanted and (wanted.rstrip("/") or "/") != found:
        yield Problem(
            host,
            f"{label}.mount",
            f"{path} is on the file system at {found}, and nothing is mounted at {wanted}",
            f"mount its disk at {wanted} first, or correct mount",
        )
    elif not wanted and found == "/":
        yield Problem(
            host,
            where,
            f"{path} is on the root file system, which clients could fill; perhaps its disk is not mounted",
            'mount its disk first, or write mount: "/" if it is meant to be there',
        )
    elif kind in _NOT_EXPORTED or (row is not None and row.network):
        yield Problem(
            host,
            where,
            f"{path} is on a file system of the type {kind}, which cannot be exported dependably",
            "export a directory on a local disk with ext4 or xfs",
        )


def clients(inputs: Inputs) -> Iterator[Problem]:
    """An export is for hosts that are named; nothing is writable for everybody."""
    for host, label, export, path in _each(inputs):
        networks: list[t.Any] = []
        writable = not is_true(export.get("read_only", False))
        for client in map(str, export.get("clients") or []):
            network = _network(client)
            if network is not None:
                networks.append(network)
            elif _everybody(client):
                if writable:
                    yield _open_to_all(host, label, path, client)
            elif not (
                is_host_name(client)
                or _NETGROUP.fullmatch(client)
                or (_WILD.fullmatch(client) and set(client) & {"*", "?"})
            ):
                yield Problem(
                    host,
                    f"{label}.clients",
                    f"{client!a} is not a client of exports(5)",
                    "write an address, a network such as 10.1.0.0/16, a host name or @netgroup",
                )
        wide = _wide(networks)
        if wide and writable:
            yield _open_to_all(host, label, path, wide)


def _open_to_all(host: str, label: str, path: str, client: str) -> Problem:
    return Problem(
        host,
        f"{label}.clients",
        f"{client} lets everybody who reaches this host write to {path}",
        "leave clients out, for the hosts of the cluster, name their network, or write read_only: true",
    )


def _network(client: str) -> t.Any:
    try:
        return ipaddress.ip_network(client, strict=False)
    except ValueError:
        return None


def _everybody(client: str) -> bool:
    """Whether a pattern of names matches any name: it does not have a letter or digit of its own."""
    return bool(client) and set(client) <= set("*?.")


def _wide(networks: Sequence[t.Any]) -> str:
    """Return the first network that is wider than a site can be, also as the sum of several."""
    for version, least in _WIDEST.items():
        together = [one for one in networks if one.version == version]
        for network in ipaddress.collapse_addresses(together):
            if network.prefixlen < least:
                return str(network)
    return ""


def options(inputs: Inputs) -> Iterator[Problem]:
    """More options are words of exports(5), and none that a key decides."""
    for host, label, export, _path in _each(inputs):
        for option in map(str, export.get("options") or []):
            name = option.partition("=")[0]
            if name in _KEYS:
                yield Problem(
                    host,
                    f"{label}.options",
                    f"{option} belongs to the key {_KEYS[name]}",
                    f"write {_KEYS[name]} for this export",
                )
            elif not _OPTION.fullmatch(option):
                yield Problem(
                    host,
                    f"{label}.options",
                    f"{option!a} is not one option of exports(5)",
                    "write each option as an entry of its own, such as sec=krb5p",
                )
        mode = str(export.get("mode", "0755"))
        if not re.fullmatch(r"0?[0-7]{3,4}", mode):
            yield Problem(
                host,
                f"{label}.mode",
                f"{mode!r} is not a mode",
                'write it in octal, such as "2775"',
            )


def quotas(inputs: Inputs) -> Iterator[Problem]:
    """A quota is a size, on a file system that has quotas of directories, and does not hold another one."""
    given = [one for one in _each(inputs) if one[2].get("quota")]
    for host, label, export, path in given:
        where, text = f"{label}.quota", str(export["quota"])
        disk = ((inputs["facts"].get(host) or {}).get("disks") or {}).get(path) or {}
        kind, mount = str(disk.get("fstype") or ""), str(disk.get("mount") or "")
        above = [
            other
            for at, *rest, other in given
            if at == host and other != path and is_under(path, other)
        ]
        if bytes_of(text) is None:
            yield Problem(
                host,
                where,
                f"{text!r} is not a size from 1M",
                "write a number with K, M, G, T or P, such as 500G or 10T (powers of 1024)",
            )
        elif kind and kind != "xfs":
            yield Problem(
                host,
                where,
                f"{path} is on {kind}, and quotas of directories are only set on xfs",
                "put it on a disk of its own with xfs, mounted with prjquota, or leave quota out",
            )
        elif kind and disk.get("project_quota") is False:
            yield Problem(
                host,
                where,
                f"the xfs at {mount} is mounted without prjquota, so it does not have quotas of directories",
                f"write prjquota into its options in /etc/fstab, unmount {mount} and mount it again (a remount does not"
                " turn it on)",
            )
        elif above:
            yield Problem(
                host,
                where,
                f"{path} lies in {above[0]}, which has a quota itself, and a file counts for one of them only",
                "keep one of the two quotas",
            )


def versions(inputs: Inputs) -> Iterator[Problem]:
    """The server offers something, in a number of threads that is possible."""
    settings = inputs["settings"]
    if not members(inputs, GROUP):
        return
    if not settings.get("nfs_server_versions"):
        yield Problem(
            GROUP,
            "nfs_server_versions",
            "is empty",
            'write ["4.2"], or the versions of your clients',
        )
    threads = int(settings.get("nfs_server_threads") or 0)
    if not 0 <= threads <= 4096:
        yield Problem(
            GROUP,
            "nfs_server_threads",
            f"is {threads}",
            "write a number up to 4096, or 0 for the default",
        )


def limit_has_servers(inputs: Inputs) -> Iterator[Problem]:
    """A new host mounts nothing from a server that does not know its address yet."""
    record = inputs["record"]
    known = {
        *(record.get("hosts") or {}),
        *(node.get("host") or name for name, node in (record.get("nodes") or {}).items()),
    }
    in_run = inputs["hosts_in_run"]
    new = [
        host for host in in_run if host in members(inputs, "slurm_cluster") and host not in known
    ]
    left_out = [host for host in members(inputs, GROUP) if host not in in_run]
    # The variables of a host that the run leaves out are read too (Inputs.host_vars).
    left_out = [
        host for host in left_out if any(not one.get("clients") for one in exports_of(inputs, host))
    ]
    if record and new and left_out:
        limit = inputs["limit"] or ",".join(in_run)
        yield Problem(
            ", ".join(left_out),
            "--limit",
            f"leaves out this NFS server, which does not export to the new {new[0]} before a run that has both",
            f"{inputs['command']} --limit '{limit},{GROUP}'",
        )


CHECKS: tuple[Check, ...] = (
    servers,
    paths,
    clients,
    options,
    quotas,
    versions,
    limit_has_servers,
)
