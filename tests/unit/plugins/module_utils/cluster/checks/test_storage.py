# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mounts and directories that are refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)

from tests.unit.cluster import inputs

from .cases import MOUNT, Case, assert_refused, changed, each, live, setting, two_controllers


def lacking(kind: str, path: str) -> t.Any:
    """Return the inputs with a mount of a type whose helper c1 does not have."""
    given = setting("cluster_mounts", [{**MOUNT, "fstype": kind}])
    given["facts"]["c1"]["files"] = {path: False}
    return given


def without_kernel(kind: str) -> t.Any:
    """Return the inputs with a mount of a type that the kernel of c1 does not have."""
    given = setting("cluster_mounts", [{**MOUNT, "fstype": kind}])
    given["facts"]["c1"]["file_systems"] = {kind: False}
    return given


def on_ubuntu(**settings: t.Any) -> t.Any:
    """Return the inputs with a mount of Lustre on an Ubuntu without its client and the repository of FSx."""
    given = inputs(cluster_mounts=[{**MOUNT, "fstype": "lustre"}], **settings)
    given["facts"]["c1"]["os"] = {"id": "ubuntu", "like": "debian", "version": "24.04"}
    given["facts"]["c1"]["files"] = {
        "/sbin/mount.lustre": False,
        "/etc/apt/sources.list.d/fsxlustreclientrepo.list": False,
    }
    return given


def nobody_has(kind: str, name: str, **settings: t.Any) -> t.Any:
    """Return the inputs with a user or a group that c1 does not have."""
    given = inputs(**settings)
    given["facts"]["c1"][kind][name] = None
    return given


def owned(**owner: str) -> list[dict[str, t.Any]]:
    return [{**MOUNT, "directories": [{"path": "/shared/x", **owner}]}]


CASES: list[Case] = [
    ("group that nobody declares", nobody_has("groups", "lab", cluster_mounts=owned(group="lab")), "c1",
     "cluster_mounts[/shared].directories", "there is no group 'lab'", "add it to cluster_groups"),
    ("owner that nobody declares", nobody_has("users", "ada", cluster_mounts=owned(owner="ada")), "c1",
     "cluster_mounts[/shared].directories", "there is no user 'ada'", "add it to cluster_users"),
    ("group of the tree", nobody_has("groups", "lab", cluster_mounts=[{**MOUNT, "purpose": "shared"}],
                                     shared_storage_tree=True, shared_storage_tree_group="lab"),
     "c1", "shared_storage_tree_group", "there is no group 'lab'", "add it to cluster_groups"),
    ("user of a directory service", nobody_has("users", "ada", cluster_mounts=owned(owner="ada"),
                                               cluster_users=[{"name": "ada", "uid": 2001}],
                                               cluster_users_source="directory"),
     "c1", "cluster_mounts[/shared].directories", "there is no user 'ada'", "make it on every host"),
    ("relative mount", setting("cluster_mounts", [{**MOUNT, "path": "shared"}]), "cluster",
     "cluster_mounts[shared].path", "not an absolute path", "begin it with /"),
    ("mount over the system", setting("cluster_mounts", [{**MOUNT, "path": "/usr/"}]), "cluster",
     "cluster_mounts[/usr/].path", "has the programs of the system", "directory of your own"),
    ("mount by a detour", setting("cluster_mounts", [{**MOUNT, "path": "/shared/../etc"}]), "cluster",
     "cluster_mounts[/shared/../etc].path", "contains . or ..", "the path itself"),
    ("directory by a detour", setting("cluster_mounts", [{**MOUNT, "directories": [{"path": "/shared/../etc"}]}]),
     "cluster", "cluster_mounts[/shared].directories", "'/shared/../etc' contains", "the path itself"),
    ("mount twice", setting("cluster_mounts", [MOUNT, {**MOUNT, "path": "/shared/"}]), "cluster",
     "cluster_mounts[/shared/]", "is listed twice", "keep one mount"),
    ("purpose", setting("cluster_mounts", [{**MOUNT, "purpose": "homes"}]), "cluster",
     "cluster_mounts[/shared].purpose", "did you mean home?", "write one of"),
    ("directory elsewhere", setting("cluster_mounts", [{**MOUNT, "directories": [{"path": "/x"}]}]), "cluster",
     "cluster_mounts[/shared].directories", "/x is not under /shared", "on this mount"),
    ("pattern that is not one", setting("cluster_mounts", [{**MOUNT, "directories": [{"path": "/shared/m{7..1}"}]}]),
     "cluster", "cluster_mounts[/shared].directories", "{7..1} counts down", "write {1..7}"),
    ("pattern of too many", setting("cluster_mounts", [{**MOUNT, "directories": [{"path": "/shared/m{1..1000000}"}]}]),
     "cluster", "cluster_mounts[/shared].directories", "more than 4096 directories", "one by one"),
    # YAML reads 0777 as 511, and mode 0511 would be another one.
    ("mode without quotes", setting("cluster_mounts", [{**MOUNT, "directories": [{"path": "/shared/a", "mode": 511}]}]),
     "cluster", "cluster_mounts[/shared].directories", "511 is not a mode of /shared/a", "with quotes"),
    ("source that is a comment", setting("cluster_mounts", [{**MOUNT, "source": "#nas:/x"}]),
     "cluster", "cluster_mounts[/shared].source", "line of fstab a comment", "does not begin with #"),
    ("ageing of a whole mount", setting("cluster_mounts", [
        {**MOUNT, "directories": [{"path": "/shared/", "remove_after_days": 3}]}]),
     "cluster", "cluster_mounts[/shared].directories", "all that is old on the whole mount", "a directory below it"),
    ("ageing of the future", setting("cluster_mounts", [
        {**MOUNT, "directories": [{"path": "/shared/tmp", "remove_after_days": -1}]}]),
     "cluster", "cluster_mounts[/shared].directories", "-1, which is not a number of days", "from 0, for never"),
    ("tree without a mount", setting("shared_storage_tree", True), "cluster", "shared_storage_tree",
     "has a purpose of the policy", "write purpose: shared"),
    ("directory twice", setting("cluster_mounts", [
        {**MOUNT, "directories": [{"path": "/shared/m{1..7}"}, {"path": "/shared/m3/"}]}]),
     "cluster", "cluster_mounts[/shared].directories", "/shared/m3/ is listed twice", "one entry"),
    ("mount that nobody mounts", setting("cluster_mounts", [{**MOUNT, "options": "hard,noauto"}]), "cluster",
     "cluster_mounts[/shared].options", "noauto leaves it unmounted", "remove noauto"),
    ("read-only and writable", setting("cluster_mounts", [{**MOUNT, "options": ["ro", "hard", "rw"]}]), "cluster",
     "cluster_mounts[/shared].options", "ro and rw exclude each other", "the one that you mean"),
    ("type without a client", lacking("lustre", "/sbin/mount.lustre"), "c1", "cluster_mounts[/shared].fstype",
     "does not have a client for lustre", "use a system that FSx has a Lustre client for"),
    ("client without its repository", on_ubuntu(), "c1", "cluster_mounts[/shared].fstype",
     "the repository that has it is not set up", "write lustre_client_repository: fsx"),
    ("mirror of no repository", inputs(lustre_client_repository_parts={"url": "https://mirror/x"}), "cluster",
     "lustre_client_repository_parts", "is not used", "write lustre_client_repository: fsx"),
    ("mirror without a scheme", on_ubuntu(lustre_client_repository="fsx",
                                          lustre_client_repository_parts={"url": "mirror/x"}), "cluster",
     "lustre_client_repository_parts.url", "is not a URL", "https://"),
    ("short fingerprint", on_ubuntu(lustre_client_repository="fsx",
                                    lustre_client_repository_parts={"key_fingerprint": "83A962E1"}), "cluster",
     "lustre_client_repository_parts.key_fingerprint", "40 hexadecimal", "elsewhere than beside the key"),
    ("repository that nobody knows", inputs(lustre_client_repository="ddn"), "cluster",
     "lustre_client_repository", "ddn", "fsx"),
    ("type that the kernel lacks", without_kernel("nfs"), "c1", "cluster_mounts[/shared].fstype",
     "cannot mount nfs", "run a kernel that has it"),
    ("state not shared", two_controllers(), "cluster", "slurm_state_save_location", "backup would lose",
     "cluster_mounts"),
    ("state on a local mount", two_controllers(slurm_state_save_location="/shared/state",
                                               cluster_mounts=[{**MOUNT, "fstype": "xfs"}]),
     "cluster", "slurm_state_save_location", "not on storage that both", "cluster_mounts"),
    ("spool shared", [setting("cluster_mounts", [MOUNT]), ("slurm_spool_dir", "/shared/spool")], "cluster",
     "slurm_spool_dir", "nodes would overwrite", "own disk"),
    ("state moved", live(StateSaveLocation="/old"), "ctl", "slurm_state_save_location",
     "StateSaveLocation=/old", "slurm_allow_state_move: true"),
    ("spool moved", live(SlurmdSpoolDir="/old"), "ctl", "slurm_spool_dir", "would lose its jobs", "write /old"),
    ("authentication changed", live(AuthType="auth/slurm"), "ctl", "slurm_auth_type", "auth/slurm",
     "write slurm again"),
    ("cluster renamed", changed("record", {"cluster": "old", "nodes": {}}), "inventory", "slurm_cluster_name",
     "ClusterName=old", "write old again"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)


def test_a_type_whose_client_can_be_installed_is_not_refused() -> None:
    """Role slurm_packages installs it; packages that the site names may bring any other."""
    assert problems(lacking("nfs4", "/sbin/mount.nfs4")) == []
    given = lacking("lustre", "/sbin/mount.lustre")
    given["settings"]["slurm_extra_packages"] = ["site-lustre-client"]
    assert problems(given) == []
    mirror = {"url": "https://mirror/ubuntu", "suite": "noble"}
    fsx = on_ubuntu(lustre_client_repository="fsx", lustre_client_repository_parts=mirror)
    assert problems(fsx) == []


@pytest.mark.parametrize(
    "given",
    [
        nobody_has("groups", "lab", cluster_mounts=owned(group="lab"), cluster_groups=[{"name": "lab", "gid": 3001}]),
        nobody_has("users", "ada", cluster_mounts=owned(owner="ada"), cluster_users=[{"name": "ada", "uid": 2001}]),
        nobody_has("groups", "ada", cluster_mounts=owned(group="ada"), cluster_users=[{"name": "ada", "uid": 2001}]),
        nobody_has("users", "slurm", cluster_mounts=owned(owner="slurm", group="3001")),
    ],
)  # fmt: skip
def test_owners_that_the_run_makes_are_accepted(given: t.Any) -> None:
    assert [str(problem) for problem in problems(given)] == []
