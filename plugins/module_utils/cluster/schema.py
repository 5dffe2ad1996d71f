# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The shape of the cluster model; RETURN of plugins/modules/cluster_model.py documents each key."""

from __future__ import annotations

import typing as t

from ..slurm.conf.pairs import Pairs


class Model(t.TypedDict):
    """The cluster model; see RETURN of the module cluster_model for what each key holds."""

    cluster: str
    version: list[int]
    version_string: str
    installed_version: str
    install_method: str
    controllers: list[dict[str, str]]
    database: dict[str, t.Any] | None
    login: list[dict[str, t.Any]]
    rest: list[dict[str, str]]
    hosts: list[dict[str, t.Any]]
    host_keys: list[dict[str, t.Any]]
    ssh_patterns: list[str]
    revoked_keys: dict[str, str]
    prefix: str
    config_dir: str
    sbin: str
    plugin_dir: str
    state_dir: str
    spool_dir: str
    ports: dict[str, int]
    rest_port: int
    auth_type: str
    auth_keys: list[str]
    secrets: dict[str, t.Any]
    slurm_user: dict[str, int]
    sackd: bool
    reconfigure_adds_nodes: bool
    cgroup: dict[str, t.Any]
    nodes: list[dict[str, t.Any]]
    kept_out: list[dict[str, t.Any]]
    untested: list[str]
    drains: list[dict[str, t.Any]]
    as_declared: list[str]
    gpus_to_come: list[str]
    gpus_came: list[str]
    results: list[dict[str, t.Any]]
    unlisted: list[str]
    removed_nodes: list[str]
    removed_hosts: list[str]
    partitions: list[dict[str, t.Any]]
    slurm_conf: Pairs
    slurm_conf_given: dict[str, t.Any]
    node_lines: list[str]
    node_set_lines: list[str]
    partition_lines: list[str]
    gres_lines: list[str]
    topology: dict[str, t.Any]
    cgroup_conf: Pairs
    slurmdbd_conf: Pairs
    plugstack: list[str]
    plugstack_waits: list[str]
    plugstack_before: list[str]
    job_container_conf: Pairs
    oci_conf: Pairs
    job_hooks: dict[str, t.Any]
    health_agents_left: list[str]
    tuning: dict[str, list[str]]
    stack: dict[str, t.Any]
    conf_behind: list[str]
    slurmd_reads: dict[str, t.Any]
    slurmd_digest: str
    slurmd_digests: dict[str, str]
    clients_digest: str
    record: dict[str, t.Any]
    record_digest: str
    mounts: list[dict[str, t.Any]]
    nfs_exports: dict[str, dict[str, t.Any]]
    nfs_homes: list[str]
    scratches: list[dict[str, str]]
    users: list[dict[str, t.Any]]
    groups: list[dict[str, t.Any]]
    messages: list[str]
