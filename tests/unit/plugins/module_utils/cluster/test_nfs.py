# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Exports in the model, and what each host mounts of them."""

from __future__ import annotations

import typing as t

from ansible_collections.trainwright.slurm.plugins.filter.host_mounts import host_mounts
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from .checks.test_nfs_server import DATA, server

MOUNTS = [
    {"path": "/home", "source": "nas1:/srv/data/home", "fstype": "nfs4", "directories": [{"path": "/home/lab"}]},
    {"path": "/srv/data", "source": "10.0.9.9:/srv/data/", "fstype": "nfs", "options": "ro"},
    {"path": "/far", "source": "filer:/srv/data", "directories": [{"path": "/far/x"}]},
    {"path": "/local", "source": "/dev/sdb", "fstype": "xfs", "directories": [{"path": "/local/x"}]},
]  # fmt: skip


def modelled(*exports: t.Any, **settings: t.Any) -> t.Any:
    return build_model(server(*exports, **settings))


def test_the_default_clients_are_the_hosts_of_the_cluster() -> None:
    model = modelled(DATA)
    (export,) = model["nfs_exports"]["nas1"]["exports"]
    assert export["clients"] == ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.9.9"]
    assert export["options"] == ["rw", "sync", "no_subtree_check", "root_squash", "mountpoint=/srv"]
    assert {"host": "nas1", "address": "10.0.9.9", "names": ["nas1"]} in model["hosts"]
    assert not any("squash" in message for message in model["messages"])


def test_options_and_who_is_told_of_root() -> None:
    trusting = {
        **DATA,
        "no_root_squash": True,
        "read_only": True,
        "options": ["async"],
        "clients": ["login1"],
    }
    model = modelled(trusting)
    (export,) = model["nfs_exports"]["nas1"]["exports"]
    assert export["clients"] == ["login1"]
    assert export["options"] == [
        "ro",
        "no_subtree_check",
        "no_root_squash",
        "mountpoint=/srv",
        "async",
    ]
    assert [
        line
        for line in model["messages"]
        if "nas1: /srv/data is exported with no_root_squash" in line
    ]


def test_the_server_binds_its_own_exports_and_makes_their_directories() -> None:
    model = modelled(DATA, cluster_mounts=MOUNTS)
    of_server, of_first, of_node = (
        {one["path"]: one for one in host_mounts(model["mounts"], model["nfs_exports"], host, first)}
        for host, first in (("nas1", False), ("ctl", True), ("c1", False))
    )  # fmt: skip
    assert (of_server["/home"]["source"], of_server["/home"]["fstype"]) == (
        "/srv/data/home",
        "none",
    )
    assert of_server["/home"]["options"] == "bind"
    assert of_server["/srv/data"]["source"] == "/srv/data"  # which shared_mounts does not mount
    assert of_server["/srv/data"]["options"] == "bind,ro"
    assert of_server["/far"]["source"] == "filer:/srv/data"
    assert of_node["/home"]["source"] == "nas1:/srv/data/home"
    makers = {
        path: [
            name
            for name, mounts in (("server", of_server), ("first", of_first), ("node", of_node))
            if mounts[path]["directories"]
        ]
        for path in ("/home", "/far", "/local")
    }
    assert makers == {"/home": ["server"], "/far": ["first"], "/local": ["server", "first", "node"]}


def test_the_server_of_the_homes_makes_them() -> None:
    users = [{"name": "ada", "uid": 2001}]
    assert modelled(DATA, cluster_mounts=MOUNTS, cluster_users=users)["nfs_homes"] == ["nas1"]
    assert modelled(DATA, cluster_mounts=MOUNTS[1:], cluster_users=users)["nfs_homes"] == []
    assert modelled(DATA, cluster_mounts=MOUNTS)["nfs_homes"] == []
