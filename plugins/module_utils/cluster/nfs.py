# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The exports of the cluster's own NFS servers, from the variables of each. Pure."""

from __future__ import annotations

import typing as t

from ..node.nfs_quota import bytes_of
from .inputs import Inputs, is_address, is_true, is_under, members

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from .schema import Model

GROUP = "slurm_nfs_server"


def exports_of(inputs: Inputs, host: str) -> list[dict[str, t.Any]]:
    """Return nfs_server_exports of a host of the group."""
    return list((inputs["host_vars"].get(host) or {}).get("nfs_server_exports") or [])


def options_of(export: Mapping[str, t.Any], mount: str) -> list[str]:
    """Return the options of an export. mount: of its file system, without which it is not exported."""
    given = [str(one) for one in export.get("options") or []]
    access = "ro" if is_true(export.get("read_only", False)) else "rw"
    root = "no_root_squash" if is_true(export.get("no_root_squash", False)) else "root_squash"
    options = [access, *([] if "async" in given else ["sync"]), "no_subtree_check", root]
    # After a boot without its disk, the empty directory below is not exported in its place.
    if mount not in ("", "/"):
        options.append(f"mountpoint={mount}")
    return list(dict.fromkeys([*options, *given]))


def add_exports(model: Model, inputs: Inputs) -> None:
    """Add the exports of each server of this run, and report those that trust root of their clients."""
    everybody = sorted(
        {entry["address"] for entry in model["hosts"] if is_address(entry["address"])}
    )
    for host in members(inputs, GROUP):
        facts = inputs["facts"].get(host)
        if facts is None:
            continue
        exports, directories = [], []
        for one in exports_of(inputs, host):
            path = str(one["path"]).rstrip("/")
            mount = str(((facts.get("disks") or {}).get(path) or {}).get("mount") or "")
            clients = [str(client) for client in one.get("clients") or everybody]
            exports.append(
                {
                    "path": path,
                    "clients": clients,
                    "options": options_of(one, mount),
                    "quota": bytes_of(str(one.get("quota") or "")) or 0,
                }
            )
            directories.append(
                {
                    "path": path,
                    "owner": str(one.get("owner", "root")),
                    "group": str(one.get("group", "root")),
                    "mode": str(one.get("mode", "0755")),
                }
            )
            if is_true(one.get("no_root_squash", False)):
                model["messages"].append(
                    f"{host}: {path} is exported with no_root_squash: root of each client is root on its files"
                )
        names: list[str] = next(
            (entry["names"] for entry in model["hosts"] if entry["host"] == host), []
        )
        model["nfs_exports"][host] = {
            "exports": exports,
            "directories": directories,
            "names": sorted({*names, host, *(facts.get("addresses") or [])}),
        }


def server_of(mount: Mapping[str, t.Any], exports: Mapping[str, Mapping[str, t.Any]]) -> str:
    """Return the host of the cluster that exports the source of a mount, "" where it comes from elsewhere.

    exports: nfs_exports of the model.
    """
    server, colon, path = str(mount["source"]).rpartition(":")
    if not colon or str(mount["fstype"]) not in ("nfs", "nfs4"):
        return ""
    name = server.strip("[]").lower()
    for host, served in exports.items():
        ours = any(is_under(path.rstrip("/") or "/", one["path"]) for one in served["exports"])
        if ours and name in served["names"]:
            return host
    return ""


def add_homes(model: Model) -> None:
    """Add the servers of the users' homes: root of a login node may not make them there."""
    homes = [str(user.get("home") or "") for user in model["users"]]
    for mount in model["mounts"]:
        server = server_of(mount, model["nfs_exports"])
        has_homes = any(is_under(home, mount["path"]) for home in homes if home)
        if server and has_homes and server not in model["nfs_homes"]:
            model["nfs_homes"].append(server)
