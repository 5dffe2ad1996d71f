# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Users and groups: names and ids, in the variables and on the hosts."""

from __future__ import annotations

import re
import typing as t

from ...slurm.hostlist import fold
from ..inputs import CLUSTER, Problem, is_true, label_of, members, seen

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs


RESERVED_USERS = ("root", "slurm", "munge", "slurmrestd", "nobody", "mysql", "sshd", "daemon")


def users(inputs: Inputs) -> Iterator[Problem]:
    """Users have valid names and paths, and none shares a name or id with another."""
    settings = inputs["settings"]
    names: dict[str, int] = {}
    uids: dict[int, str] = {int(settings["slurm_user_uid"]): "slurm"}
    for index, user in enumerate(settings.get("cluster_users") or []):
        label = label_of("cluster_users", index, user)
        name = str(user["name"])
        if not re.fullmatch(r"[a-z_][a-z0-9_.-]{0,31}", name):
            yield Problem(
                CLUSTER,
                label,
                f"{name!r} is not a valid user name",
                "write up to 32 characters of a-z, 0-9, _ . -",
            )
        if name in RESERVED_USERS:
            yield Problem(CLUSTER, label, "is a system user", "choose another name")
        if name in names:
            yield Problem(CLUSTER, label, "is listed twice", "keep one")
        names[name] = index
        if user.get("uid") is None:
            continue
        uid = int(user["uid"])
        if not 1000 <= uid < 2**31 or 60000 <= uid < 65536:
            yield Problem(
                CLUSTER,
                f"{label}.uid",
                f"{uid} is reserved for the system",
                "write a number from 1000 to 59999, or from 65536 on",
            )
        if uid in uids and uids[uid] != name:
            yield Problem(
                CLUSTER,
                f"{label}.uid",
                f"{uid} is also the uid of {uids[uid]}",
                "give each user its own uid",
            )
        uids.setdefault(uid, name)
        for key in ("home", "shell"):
            if user.get(key) and not str(user[key]).startswith("/"):
                yield Problem(
                    CLUSTER,
                    f"{label}.{key}",
                    f"{user[key]!r} is not an absolute path",
                    "begin it with /",
                )
    gids: dict[int, str] = {}
    for index, group in enumerate(settings.get("cluster_groups") or []):
        gid = int(group["gid"])
        if gids.setdefault(gid, str(group["name"])) != str(group["name"]):
            label = label_of("cluster_groups", index, group)
            yield Problem(
                CLUSTER,
                f"{label}.gid",
                f"{gid} is also the gid of {gids[gid]}",
                "give each group its own gid",
            )


def ids_on_hosts(inputs: Inputs) -> Iterator[Problem]:
    """A name has the same uid on every host, and a uid the same name."""
    settings = inputs["settings"]
    wanted = {"slurm": (int(settings["slurm_user_uid"]), "slurm_user_uid")}
    if settings.get("cluster_users_source", "local") == "local":
        for user in settings.get("cluster_users") or []:
            if user.get("uid") is not None and user.get("state") != "absent":
                wanted[str(user["name"])] = (int(user["uid"]), f"cluster_users[{user['name']}].uid")
    for host, facts in seen(inputs):
        for name, (uid, variable) in wanted.items():
            entry = (facts.get("users") or {}).get(name)
            if entry and int(entry["uid"]) != uid:
                yield Problem(
                    host,
                    variable,
                    f"is {uid}, but {name} has the uid {entry['uid']} on this host",
                    f"write {entry['uid']} if all hosts have that, otherwise run on the host: usermod -u {uid} {name}",
                )
            holder = (facts.get("uids") or {}).get(str(uid))
            if holder and holder != name:
                yield Problem(
                    host,
                    variable,
                    f"{uid} of {name} belongs to {holder} on this host",
                    f"choose another uid for {name}, or remove {holder} on the host",
                )


def munge_ids(inputs: Inputs) -> Iterator[Problem]:
    """The user munge has the same uid on every host that has it."""
    by_uid: dict[int, list[str]] = {}
    for host, facts in seen(inputs):
        entry = (facts.get("users") or {}).get("munge")
        if entry:
            by_uid.setdefault(int(entry["uid"]), []).append(host)
    if len(by_uid) > 1:
        listed = "; ".join(f"{uid} on {fold(hosts)}" for uid, hosts in sorted(by_uid.items()))
        common = max(by_uid, key=lambda uid: len(by_uid[uid]))
        others = [host for uid, hosts in by_uid.items() if uid != common for host in hosts]
        yield Problem(
            fold(others),
            "user munge",
            f"its uid differs between hosts ({listed})",
            f"stop munge on these hosts and run: usermod -u {common} munge && chown -R munge: /etc/munge"
            " /var/lib/munge /var/log/munge",
        )


def own_login(inputs: Inputs) -> Iterator[Problem]:
    """The user who logs in for this run may do so again after it."""
    settings = inputs["settings"]
    allowed = {
        "pam_slurm_adopt": (
            settings.get("pam_slurm_adopt_allow_users"),
            settings.get("pam_slurm_adopt_allow_groups"),
        ),
        "login_access": (
            settings.get("login_access_allow_users"),
            settings.get("login_access_allow_groups"),
        ),
    }
    compute, open_to_all = members(inputs, "slurm_compute"), members(inputs, "slurm_login")
    for host, facts in seen(inputs):
        login, sudoers = facts.get("login") or {}, facts.get("sudoers") or {}
        if host in compute:
            role = "pam_slurm_adopt"
        elif host in open_to_all or is_true(settings.get("login_access_open")):
            continue
        else:
            role = "login_access"
        users = {*(sudoers.get("users") or []), *(allowed[role][0] or [])}
        groups = {*(sudoers.get("groups") or []), *(allowed[role][1] or [])}
        user = str(login.get("user") or "root")
        if user not in {"root", *users} and not groups & set(login.get("groups") or []):
            yield Problem(
                host,
                f"{role}_allow_users",
                f"this run logs in as {user}, who could not log in again after it",
                f"write {role}_allow_users: [{user}], or a rule in sudoers that allows {user} all commands",
            )


CHECKS: tuple[Check, ...] = (
    users,
    ids_on_hosts,
    munge_ids,
    own_login,
)
