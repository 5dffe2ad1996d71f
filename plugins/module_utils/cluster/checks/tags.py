# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Refuses --tags that would select nothing, which Ansible ends as a run without a fault. Pure."""

from __future__ import annotations

import difflib
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PHASES = ("install", "configure", "service")
# Ansible's own; never is not here, since no task has it.
SPECIAL = ("all", "always", "tagged", "untagged")
# Roles of site.yml and the group whose hosts they run on.
ROLES = {
    "cluster": "slurm_cluster",
    "slurm_build": "slurm_cluster",
    "cluster_users": "slurm_cluster",
    "slurm_packages": "slurm_cluster",
    "slurm_auth": "slurm_cluster",
    "nfs_server": "slurm_nfs_server",
    "lustre_client": "slurm_cluster",
    "shared_storage": "slurm_cluster",
    "node_base": "slurm_cluster",
    "gpu_stack": "slurm_compute",
    "nccl_tests": "slurm_compute",
    "node_scratch": "slurm_compute",
    "node_tuning": "slurm_compute",
    "login_access": "slurm_cluster",
    "enroot": "slurm_pyxis",
    "pyxis": "slurm_pyxis",
    "oci": "slurm_oci",
    "job_hooks": "slurm_compute",
    "node_health": "slurm_node_health",
    "mariadb": "slurm_database",
    "slurmdbd": "slurm_database",
    "slurmctld": "slurm_controller",
    "slurm_accounts": "slurm_controller",
    "slurmd": "slurm_compute",
    "pam_slurm_adopt": "slurm_compute",
    "slurm_login": "slurm_login",
    "slurmrestd": "slurm_rest",
}


def tag_problems(
    tags: Iterable[str], groups: Mapping[str, Iterable[str]], hosts_in_run: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the tags of a run and the remedy.

    tags: of the command line (context.CLIARGS["tags"]); groups: of the inventory; hosts_in_run: those that
    --limit left.
    """
    known = [*ROLES, *PHASES, *SPECIAL]
    hosts = set(hosts_in_run)
    for tag in filter(None, tags):  # a comma at the end
        if tag not in known:
            near = difflib.get_close_matches(tag, known, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            yield (
                f"no task has the tag {tag!r}",
                f"{hint}tags are the roles ({', '.join(ROLES)}) and {', '.join(PHASES)}",
            )
        elif tag in ROLES and not hosts & set(groups.get(ROLES[tag], ())):
            yield (
                f"{tag} would do nothing: this run has no host of the group {ROLES[tag]}",
                "take the tag out, or add such a host to the inventory or to --limit",
            )


def starts_with_old(
    tags: Iterable[str],
    skipped: Iterable[str],
    roles: Iterable[str] = ("slurmd", "slurm_login"),
) -> bool:
    """Whether a run with these tags may start daemons, and does not set up slurmctld, which has slurm.conf.

    roles: those of the daemons.
    """
    without = {*skipped}
    daemons = {*roles} - without if "service" not in without else set()
    return bool(
        _selected(tags, {*daemons, "service"} if daemons else set())
        and (
            without & {"slurmctld", "configure", "service"}
            or not _selected(tags, {"slurmctld", "configure", "service"})
        )
    )


def _selected(tags: Iterable[str], own: set[str]) -> bool:
    given = {*filter(None, tags)} or {"all"}
    return bool(own) and bool(given & {*own, "all", "tagged"})
