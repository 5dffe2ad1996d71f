# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Users and groups: names and ids, in the variables and on the hosts."""

from __future__ import annotations

import ipaddress
import re
import typing as t
from pathlib import PurePosixPath

from ...node.logins import name_fault
from ...node.mount_points import problem_of, shape_problem
from ...node.terminal import CONTROL
from ...slurm.hostlist import fold
from ..inputs import CLUSTER, Problem, is_true, is_under, label_of, members, seen
from .programs import is_missing

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..inputs import Check, Inputs


#: Users of the services here, and those that every Debian (base-passwd) or Red Hat (setup) has.
RESERVED_USERS = frozenset(
    """
    root slurm munge slurmrestd nobody mysql sshd
    daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc gnats _apt
    adm shutdown halt operator ftp dbus messagebus polkitd chrony _chrony sssd tss rpc
    systemd-network systemd-resolve systemd-timesync systemd-coredump
    """.split()
)


#: Groups whose members read or change what is root's or a service's.
_POWERFUL_GROUPS = frozenset("root shadow disk kmem slurm munge slurmrestd mysql".split())

_CONTROL = re.compile(f"[{CONTROL}]")
_OF_SERVICES = ("/var/lib/mysql", "/var/lib/trainwright", "/var/lib/munge")
#: The types of sshd(8), AUTHORIZED_KEYS FILE FORMAT; options of sshd may be before it.
_PUBLIC_KEY = re.compile(
    r"(\A|\s)(ssh-(rsa|dss|ed25519)|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256))"
    r"(-cert-v01)?(@openssh\.com)?\s+AAAA[A-Za-z0-9+/]*={0,3}(\s|\Z)"
)


def users(inputs: Inputs) -> Iterator[Problem]:
    """Users have valid names and paths, and none shares a name or id with another."""
    settings = inputs["settings"]
    own = (settings["slurm_state_save_location"], settings["slurm_spool_dir"])
    services = [*_OF_SERVICES, *map(str, own)]
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
        if re.search(r"[\s:\x00-\x1f\x7f]", str(user.get("shell") or "")):
            yield Problem(
                CLUSTER,
                f"{label}.shell",
                f"{user['shell']!r} contains characters that a line of /etc/passwd cannot have",
                "write a path without spaces, colons and line ends",
            )
        yield from _home(label, str(user.get("home") or ""), services)
        yield from _keys(label, user.get("ssh_authorized_keys") or [])
    homes: dict[str, str] = {}
    for user in settings.get("cluster_users") or []:
        home = str(user.get("home") or "").rstrip("/")
        if (
            home
            and user.get("state") != "absent"
            and homes.setdefault(home, str(user["name"])) != user["name"]
        ):
            yield Problem(
                CLUSTER,
                f"cluster_users[{user['name']}].home",
                f"{home} is also the home of {homes[home]}",
                "give each user a home of its own",
            )
    gids = _gids_of_services(settings)
    gid_of: dict[str, int] = {}
    for index, group in enumerate(settings.get("cluster_groups") or []):
        gid = int(group["gid"])
        label = label_of("cluster_groups", index, group)
        if not re.fullmatch(r"[a-z_][a-z0-9_.-]{0,31}", str(group["name"])):
            what = f"{str(group['name'])!r} is not a valid group name"
            yield Problem(CLUSTER, label, what, "write up to 32 characters of a-z, 0-9, _ . -")
        if not 100 <= gid < 2**31 or 60000 <= gid < 65536:
            what = f"{gid} is reserved for the system"
            remedy = "write a number from 1000 to 59999, or from 65536 on"
            yield Problem(CLUSTER, f"{label}.gid", what, remedy)
        if gid_of.setdefault(str(group["name"]), gid) != gid:
            yield Problem(CLUSTER, label, "is listed twice", "keep one")
        if gids.setdefault(gid, str(group["name"])) != str(group["name"]):
            label = label_of("cluster_groups", index, group)
            yield Problem(
                CLUSTER,
                f"{label}.gid",
                f"{gid} is also the gid of {gids[gid]}",
                "give each group its own gid",
            )


def _gids_of_services(settings: Mapping[str, t.Any]) -> dict[int, str]:
    """Return the gids that the collection gives to services, with the name of each group."""
    given = {
        "slurm": settings.get("slurm_user_gid"),
        "munge": settings.get("cluster_users_munge_gid"),
        "slurmrestd": settings.get("cluster_users_slurmrestd_gid"),
    }
    return {int(gid): name for name, gid in given.items() if gid}


def _present(settings: Mapping[str, t.Any]) -> list[Mapping[str, t.Any]]:
    """Return the users that the cluster has after the run."""
    return [user for user in settings.get("cluster_users") or [] if user.get("state") != "absent"]


def gids_of_users(inputs: Inputs) -> Iterator[Problem]:
    """No user's own group is root's or that of a service, whose files it would read."""
    services = {0: "root", **_gids_of_services(inputs["settings"])}
    for user in _present(inputs["settings"]):
        if user.get("gid") is None:
            continue
        gid, where = int(user["gid"]), f"cluster_users[{user['name']}].gid"
        remedy = "write the gid of a group of users, or remove it: the user gets a group of its own"
        if gid in services:
            yield Problem(CLUSTER, where, f"{gid} is the gid of {services[gid]}", remedy)
            continue
        for host, facts in seen(inputs):
            holder = (facts.get("gids") or {}).get(str(gid))
            if holder in _POWERFUL_GROUPS:
                what = f"{gid} is the gid of the group {holder} on this host"
                yield Problem(host, where, what, remedy)


def homes_apart(inputs: Inputs) -> Iterator[Problem]:
    """No home is inside another user's, who could move it away or put another in its place."""
    homes = {
        str(user.get("home") or f"/home/{user['name']}").rstrip("/"): str(user["name"])
        for user in _present(inputs["settings"])
    }
    for home, name in homes.items():
        around = next((str(up) for up in PurePosixPath(home).parents if str(up) in homes), "")
        if around:
            yield Problem(
                CLUSTER,
                f"cluster_users[{name}].home",
                f"{home} is in {around}, the home of {homes[around]}",
                "write a directory beside it, such as /home/NAME",
            )


def _home(label: str, home: str, services: Sequence[str]) -> Iterator[Problem]:
    """A home is a directory of the user's own: the role makes it, and gives it to the user."""
    if not home.startswith("/"):
        return
    shape = shape_problem(home)
    taken = next((path for path in services if is_under(home, path)), "")
    if shape or taken or home.rstrip("/") == "/home" or problem_of(home):
        what = (
            f"is in {taken}, which belongs to a service"
            if taken
            else "is a directory of the system"
        )
        yield Problem(
            CLUSTER,
            f"{label}.home",
            f"{home!r} {shape.what if shape else what}",
            shape.remedy if shape else "write a directory of the user's own, such as /home/NAME",
        )


def _keys(label: str, keys: Sequence[t.Any]) -> Iterator[Problem]:
    """Each key is one public key. A message never repeats what may be a private one."""
    for index, key in enumerate(keys):
        text = str(key).strip()
        if "PRIVATE KEY" in text:
            what = "is a private key, which nobody but its owner may have"
            remedy = "write the public key (the file that ends in .pub), and make a new pair"
        elif _CONTROL.search(text):
            what, remedy = "has several lines", "write each key as an entry of its own"
        elif not _PUBLIC_KEY.search(text):
            what = "is not a public SSH key"
            remedy = "write it as in its .pub file: ssh-ed25519 AAAA... NAME"
        else:
            continue
        yield Problem(CLUSTER, f"{label}.ssh_authorized_keys[{index}]", what, remedy)


def shells_and_groups(inputs: Inputs) -> Iterator[Problem]:
    """The shells and groups of the users are there, and the ids of their groups are free."""
    settings = inputs["settings"]
    if settings.get("cluster_users_source", "local") != "local":
        return
    present = _present(settings)
    gids = {str(group["name"]): int(group["gid"]) for group in settings.get("cluster_groups") or []}
    # The gid of a user may be that of a group of the system, such as 100.
    own = {str(user["name"]): int(user["uid"]) for user in present if not user.get("gid")}
    for host, facts in seen(inputs):
        groups, holders = facts.get("groups") or {}, facts.get("gids") or {}
        for name, gid in gids.items():
            there = (groups.get(name) or {}).get("gid")
            if there is not None and int(there) != gid:
                yield Problem(
                    host,
                    f"cluster_groups[{name}].gid",
                    f"is {gid}, but {name} has the gid {there} on this host",
                    f"write {there} if all hosts have that, or choose another name",
                )
        for name, gid in {**own, **gids}.items():
            holder = holders.get(str(gid))
            if holder and holder != name:
                yield Problem(
                    host,
                    f"cluster_groups[{name}].gid" if name in gids else f"cluster_users[{name}].gid",
                    f"{gid} of {name} belongs to the group {holder} on this host",
                    f"choose another gid for {name}, or remove {holder} on the host",
                )
        for user in present:
            label = f"cluster_users[{user['name']}]"
            shell = str(user.get("shell") or "")
            if shell.startswith("/") and is_missing(inputs, facts, shell):
                yield Problem(
                    host,
                    f"{label}.shell",
                    f"{shell} is not on this host",
                    "correct it, or install it with slurm_extra_packages",
                )
            unknown = [
                str(name)
                for name in user.get("groups") or []
                if str(name) not in {**own, **gids} and groups.get(str(name), True) is None
            ]
            # Packages bring groups as well.
            if unknown and (facts.get("slurm") or {}).get("version"):
                yield Problem(
                    host,
                    f"{label}.groups",
                    f"there is no group {', '.join(unknown)}",
                    "add it to cluster_groups, or leave it out",
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


def login_lists(inputs: Inputs) -> Iterator[Problem]:
    """Each entry of the lists of pam_access is one name."""
    for role in ("login_access", "pam_slurm_adopt"):
        for kind in ("users", "groups"):
            variable = f"{role}_allow_{kind}"
            for index, name in enumerate(inputs["settings"].get(variable) or []):
                fault = name_fault(str(name), group=kind == "groups")
                if not fault:
                    continue
                what, remedy = fault
                if str(name).lower() == "all" and role == "login_access":
                    remedy = "to admit all users, write login_access_open: true"
                yield Problem(CLUSTER, f"{variable}[{index}]", what, remedy)


def login_networks(inputs: Inputs) -> Iterator[Problem]:
    """Each entry of login_access_from is an address or a network."""
    for index, text in enumerate(inputs["settings"].get("login_access_from") or []):
        try:
            ipaddress.ip_network(str(text))
        except ValueError as error:
            yield Problem(
                CLUSTER,
                f"login_access_from[{index}]",
                f"is not an address or a network ({error})",
                "write an address such as 203.0.113.7, or a network such as 203.0.113.0/24",
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
        elif not settings.get("login_access_from") and (
            host in open_to_all or is_true(settings.get("login_access_open"))
        ):
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
    gids_of_users,
    homes_apart,
    shells_and_groups,
    ids_on_hosts,
    munge_ids,
    login_lists,
    login_networks,
    own_login,
)
