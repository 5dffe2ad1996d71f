# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Exports that are refused, and those that are not."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import inputs, node_facts

from .cases import Case, assert_refused, each

DATA = {"path": "/srv/data"}
DISK = {"free_mb": 9000, "fstype": "xfs", "mount": "/srv"}


def server(*exports: t.Any, disk: dict[str, t.Any] | None = None, **settings: t.Any) -> t.Any:
    """Return the inputs of a cluster with the NFS server nas1."""
    given = inputs(**settings)
    given["groups"]["slurm_nfs_server"] = ["nas1"]
    given["groups"]["slurm_cluster"] = [*given["groups"]["slurm_cluster"], "nas1"]
    given["hosts_in_run"] = [*given["hosts_in_run"], "nas1"]
    given["facts"]["nas1"] = node_facts("nas1", "10.0.9.9")
    for export in exports:
        path = export["path"].rstrip("/") or "/"
        given["facts"]["nas1"]["disks"][path] = {**DISK, **(disk or {})}
    given["host_vars"]["nas1"] = {"nfs_server_exports": list(exports)}
    return given


def without_nfsd() -> t.Any:
    given = server(DATA)
    given["facts"]["nas1"]["file_systems"] = {"nfsd": False}
    return given


def outside() -> t.Any:
    """Return the inputs of a server that no play would visit."""
    given = server(DATA)
    given["groups"]["slurm_cluster"].remove("nas1")
    return given


def limited(*exports: t.Any) -> t.Any:
    """Return the inputs of a run that adds c2 and leaves the server out."""
    given = server(*exports)
    given["record"] = build_model(inputs(1))["record"]
    given["hosts_in_run"] = ["ctl", "login1", "c1", "c2"]
    given["facts"].pop("nas1")
    given["limit"] = "c2,slurm_controller"
    return given


def to(*clients: str, **more: t.Any) -> t.Any:
    return server({**DATA, "clients": list(clients), **more})


CLIENTS = "nfs_server_exports[/srv/data].clients"
OPTIONS = "nfs_server_exports[/srv/data].options"
QUOTA = "nfs_server_exports[/srv/data].quota"
CASES: list[Case] = [
    *[
        (f"everybody may write: {client}", to(client), "nas1", CLIENTS,
         "lets everybody who reaches this host write to /srv/data", "leave clients out")
        for client in ("*", "0.0.0.0/0", "::/0", "0.0.0.0/0.0.0.0", "*.*", "11.0.0.0/7", "2000::/3")
    ],
    ("everybody in two halves", to("0.0.0.0/1", "128.0.0.0/1"), "nas1", CLIENTS, "0.0.0.0/0 lets", "their network"),
    ("not a client", to("nas 2"), "nas1", CLIENTS, "is not a client of exports(5)", "write an address"),
    ("options in a client", to("10.0.0.1(rw,no_root_squash)"), "nas1", CLIENTS, "is not a client", "an address"),
    *[
        (f"export {path}", server({"path": path}), "nas1", f"nfs_server_exports[{path}].path",
         "would be readable on every client", "a directory of your own")
        for path in ("/", "/etc", "/etc/x/", "/root", "/usr", "/var", "/var/lib", "/var/lib/munge", "/var/lib/mysql/x",
                     "/var/lib/trainwright", "/var/spool/slurmctld", "/var/spool/slurmd/job", "/tmp/x", "/opt")
    ],
    ("parent of the state", server(DATA, slurm_state_save_location="/srv/data/state"), "nas1",
     "nfs_server_exports[/srv/data].path", "/srv/data/state has the secrets or the state", "directory of your own"),
    ("by a detour", server({"path": "/srv/../etc"}), "nas1", "nfs_server_exports[/srv/../etc].path", "contains . or ..",
     "the path itself"),
    ("relative", server({"path": "srv"}), "nas1", "nfs_server_exports[srv].path", "not an absolute path", "begin"),
    ("twice", server(DATA, {"path": "/srv/data/"}), "nas1", "nfs_server_exports[/srv/data/]", "listed twice",
     "keep one"),
    ("without its disk", server(DATA, disk={"mount": "/"}), "nas1", "nfs_server_exports[/srv/data].path",
     "is on the root file system", 'or write mount: "/"'),
    ("on another disk", server({**DATA, "mount": "/srv/data"}), "nas1", "nfs_server_exports[/srv/data].mount",
     "nothing is mounted at /srv/data", "mount its disk"),
    ("memory", server(DATA, disk={"fstype": "tmpfs"}), "nas1", "nfs_server_exports[/srv/data].path", "type tmpfs",
     "ext4 or xfs"),
    ("of another server", server(DATA, disk={"fstype": "nfs4"}), "nas1", "nfs_server_exports[/srv/data].path",
     "type nfs4", "ext4 or xfs"),
    ("option of a key", to(options=["no_root_squash"]), "nas1", OPTIONS, "belongs to the key no_root_squash", "write"),
    ("options in one", to(options=["async,rw"]), "nas1", OPTIONS, "not one option", "entry of its own"),
    ("mode", to(mode="u=rw"), "nas1", "nfs_server_exports[/srv/data].mode", "is not a mode", "octal"),
    ("misspelt key", to(client=[]), "nas1", "nfs_server_exports[/srv/data]", "did you mean clients?", "use path"),
    ("nothing to export", server(), "nas1", "nfs_server_exports", "is empty", "out of the group"),
    ("kernel without nfsd", without_nfsd(), "nas1", "group slurm_nfs_server", "cannot serve NFS", "not a container"),
    ("not in the cluster", outside(), "nas1", "group slurm_nfs_server", "not in slurm_cluster", "a child of"),
    *[
        (f"quota {text!r}", server({**DATA, "quota": text}, disk={"project_quota": True}), "nas1", QUOTA,
         "is not a size", "500G or 10T")
        for text in ("10", "ten", "10 TB", "-1G", "0G", "100K")
    ],
    ("quota on ext4", server({**DATA, "quota": "10T"}, disk={"fstype": "ext4"}), "nas1", QUOTA,
     "/srv/data is on ext4", "xfs, mounted with prjquota"),
    ("quota without its option", server({**DATA, "quota": "10T"}, disk={"project_quota": False}), "nas1", QUOTA,
     "the xfs at /srv is mounted without prjquota", "in /etc/fstab, unmount /srv"),
    ("quota in a quota", server({**DATA, "quota": "10T"}, {"path": "/srv/data/a", "quota": "1T"},
                                disk={"project_quota": True}),
     "nas1", "nfs_server_exports[/srv/data/a].quota", "lies in /srv/data", "keep one"),
    ("no version", server(DATA, nfs_server_versions=[]), "slurm_nfs_server", "nfs_server_versions", "is empty", "4.2"),
    ("threads", server(DATA, nfs_server_threads=-1), "slurm_nfs_server", "nfs_server_threads", "is -1", "up to 4096"),
    ("new node without its server", limited(DATA), "nas1", "--limit", "does not export to the new c2",
     "--limit 'c2,slurm_controller,slurm_nfs_server'"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    assert_refused(case)


@pytest.mark.parametrize(
    "given",
    [
        server(DATA),
        server(
            {**DATA, "quota": "500G"},
            {"path": "/srv/home", "quota": "2T"},
            disk={"project_quota": True},
        ),
        server(DATA, {"path": "/srv/home", "mount": "/srv"}),
        server({**DATA, "mount": "/"}, disk={"mount": "/"}),
        to("10.0.0.0/8", "login1", "@racks", "*.cluster.example.org", "fd00::/32"),
        to("*", read_only=True),
        to("0.0.0.0/0", read_only=True),
        limited({**DATA, "clients": ["10.0.0.0/8"]}),
    ],
)
def test_accepted(given: t.Any) -> None:
    assert [str(problem) for problem in problems(given)] == []


def test_a_server_that_does_not_answer_is_judged_by_its_variables_alone() -> None:
    given = to("*")
    given["facts"].pop("nas1")
    assert ["lets everybody" in str(problem) for problem in problems(given)] == [True]
