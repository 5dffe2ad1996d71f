# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings local groups, users, homes and SSH keys to a wanted state: first plan, then apply.

Homes may be shared by all nodes that run this at the same moment, so everything in them is made
under a name of its own and put in place by one atomic step that only the first can win.
"""

from __future__ import annotations

import contextlib
import glob
import grp
import os
import pwd
import subprocess
from dataclasses import dataclass
from typing import Callable

from .homes import OwnFaultError, SilentError, UsersError, is_missing, make_home
from .ssh_trust import ensure_keys, is_own_fault
from .user_process import as_user

MOST_FAULTS = 10  # users whose fault is in the message
# Homes that may fail to answer before the call ends, since each costs its whole time.
MOST_SILENT = 5


@dataclass(frozen=True)
class Account:
    """A user as it is in the account database."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Accounts:
    """Everything the plan has to know about who exists."""

    users: dict[str, Account]
    groups: dict[str, int]
    local_users: frozenset[str]
    local_groups: frozenset[str]
    busy_uids: frozenset[int] = frozenset()
    busy_gids: frozenset[int] = frozenset()

    def user_of(self, uid: int) -> str | None:
        return next((user.name for user in self.users.values() if user.uid == uid), None)

    def group_of(self, gid: int) -> str | None:
        return next((name for name, number in self.groups.items() if number == gid), None)


@dataclass(frozen=True)
class Step:
    """One thing to do: a command to run, or a function to call."""

    what: str
    argv: tuple[str, ...] = ()
    call: Callable[[], object] | None = None


def read_accounts(names: list[str], uids: list[int], gids: list[int]) -> Accounts:
    """The account databases, directories included for the names and numbers asked for."""
    users = {entry.pw_name: entry for entry in _local("/etc/passwd", _passwd_entry)}
    groups = {entry.gr_name: entry for entry in _local("/etc/group", _group_entry)}
    local_users, local_groups = frozenset(users), frozenset(groups)
    # A directory service is asked by name only: listing it may take minutes.
    for name in names:
        with contextlib.suppress(KeyError):
            users.setdefault(name, pwd.getpwnam(name))
        with contextlib.suppress(KeyError):
            groups.setdefault(name, grp.getgrnam(name))
    for uid in uids:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwuid(uid)
            users.setdefault(entry.pw_name, entry)
    for gid in gids:
        with contextlib.suppress(KeyError):
            group = grp.getgrgid(gid)
            groups.setdefault(group.gr_name, group)
    member_of: dict[str, set[str]] = {}
    for group in groups.values():
        for member in group.gr_mem:
            member_of.setdefault(member, set()).add(group.gr_name)
    busy_uids, busy_gids = _busy()
    return Accounts(
        users={
            name: Account(
                name,
                entry.pw_uid,
                entry.pw_gid,
                entry.pw_dir,
                entry.pw_shell,
                frozenset(member_of.get(name, ())),
            )
            for name, entry in users.items()
        },
        groups={name: entry.gr_gid for name, entry in groups.items()},
        local_users=local_users,
        local_groups=local_groups,
        busy_uids=busy_uids,
        busy_gids=busy_gids,
    )


def _passwd_entry(fields: list[str]) -> pwd.struct_passwd:
    return pwd.struct_passwd(
        (fields[0], fields[1], int(fields[2]), int(fields[3]), fields[4], fields[5], fields[6])
    )


def _group_entry(fields: list[str]) -> grp.struct_group:
    members = [member for member in fields[3].split(",") if member]
    return grp.struct_group((fields[0], fields[1], int(fields[2]), members))


def _local(path: str, make: Callable) -> list:
    entries = []
    with open(path, encoding="utf-8", errors="replace") as handle:
        for line in handle:
            with contextlib.suppress(IndexError, ValueError):  # "+::::::" of NIS and the like
                entries.append(make(line.rstrip("\n").split(":")))
    return entries


def _busy() -> tuple[frozenset[int], frozenset[int]]:
    """Real user and group ids of all processes."""
    uids, gids = set(), set()
    for path in glob.glob("/proc/[0-9]*/status"):
        try:
            with open(path, encoding="utf-8", errors="replace") as handle:
                for line in handle:
                    if line.startswith("Uid:"):
                        uids.add(int(line.split()[1]))
                    elif line.startswith("Gid:"):
                        gids.add(int(line.split()[1]))
                        break
        except OSError:  # it has ended
            continue
    return frozenset(uids), frozenset(gids)


def group_specs(groups: list[dict], users: list[dict], accounts: Accounts) -> list[dict]:
    """The groups asked for, and the primary group of each user who does not name one.

    It is named like the user; its gid is the user's gid, else the uid, else what the system gives.
    """
    specs = [dict(spec) for spec in groups]
    named = {spec["name"] for spec in specs}
    for user in users:
        if user["state"] == "absent" or user["group"] or user["name"] in named:
            continue
        if user["gid"] is not None and accounts.group_of(user["gid"]) not in (None, user["name"]):
            continue  # a shared group that is there, such as users
        if user["gid"] is not None and any(spec["gid"] == user["gid"] for spec in specs):
            continue  # a group of this very list
        gid = user["gid"] if user["gid"] is not None else user["uid"]
        if user["gid"] is None and user["name"] in accounts.users:
            continue  # the creator of this account chose its group
        specs.append({"name": user["name"], "gid": gid, "system": user["system"]})
        named.add(user["name"])
    return specs


def plan_group(spec: dict, accounts: Accounts) -> list[Step]:
    """Steps for one group; raises UsersError for one that cannot be had."""
    name, gid = spec["name"], spec["gid"]
    have = accounts.groups.get(name)
    holder = accounts.group_of(gid) if gid is not None else None
    if holder not in (None, name):
        raise UsersError(
            "group %s: its gid %d belongs to group %s on this host. Remedy: give %s another gid, "
            "or remove %s" % (name, gid, holder, name, holder)
        )
    if have is None:
        argv = ["groupadd"]
        argv += ["--gid", str(gid)] if gid is not None else []
        argv += ["--system"] if spec["system"] else []
        return [Step("make group %s" % name, (*argv, name))]
    if gid is None or have == gid:
        return []
    if name not in accounts.local_groups:
        raise UsersError(
            "group %s: comes from a directory service with gid %d, not %d. Remedy: use the "
            "directory's number" % (name, have, gid)
        )
    if have in accounts.busy_gids:
        raise UsersError(
            "group %s: has gid %d instead of %d, and processes run with it. Remedy: stop them "
            "(`pgrep -G %d -a`), or declare gid %d" % (name, have, gid, have, have)
        )
    what = "change gid of group %s from %d to %d" % (name, have, gid)
    return [Step(what, ("groupmod", "--gid", str(gid), name))]


def plan_user(spec: dict, accounts: Accounts, new_groups: dict[str, int | None], check: bool):
    """Steps for one user's account, without home and keys; raises UsersError."""
    name, uid = spec["name"], spec["uid"]
    have = accounts.users.get(name)
    if spec["state"] == "absent":
        return _plan_absent(name, have, accounts)
    holder = accounts.user_of(uid) if uid is not None else None
    if holder not in (None, name):
        raise UsersError(
            "user %s: its uid %d belongs to user %s on this host. Remedy: give %s another uid, or "
            "remove %s" % (name, uid, holder, name, holder)
        )
    groups = _check_groups(spec, accounts, new_groups, check)
    primary = _primary_group(spec, accounts, new_groups)
    if have is None:
        return [_useradd(spec, primary, groups)]
    argv, what = [], []
    if uid is not None and have.uid != uid:
        if have.uid in accounts.busy_uids:
            raise UsersError(
                "user %s: has uid %d instead of %d, and processes run with it. Remedy: stop them "
                "(`pgrep -u %d -a`), or declare uid %d" % (name, have.uid, uid, have.uid, have.uid)
            )
        argv += ["--uid", str(uid)]
        what.append("uid from %d to %d" % (have.uid, uid))
    if primary is not None:
        gid = new_groups.get(primary, accounts.groups.get(primary))
        if gid is None or gid != have.gid:
            argv += ["--gid", primary]
            what.append("group to %s" % primary)
    if spec["home"] and spec["home"] != have.home:
        argv += ["--home", spec["home"]]
        what.append("home from %s to %s" % (have.home, spec["home"]))
    if spec["shell"] and spec["shell"] != have.shell:
        argv += ["--shell", spec["shell"]]
        what.append("shell from %s to %s" % (have.shell, spec["shell"]))
    if groups is not None and set(groups) - {primary} != set(have.groups) - {primary}:
        argv += ["--groups", ",".join(groups)]
        what.append("groups to %s" % (",".join(groups) or "none"))
    if not argv:
        return []
    if name not in accounts.local_users:
        raise UsersError(
            "user %s: comes from a directory service and differs (%s). Remedy: change it there, or "
            "leave it out here" % (name, ", ".join(what))
        )
    return [Step("change user %s: %s" % (name, ", ".join(what)), ("usermod", *argv, name))]


def _plan_absent(name: str, have: Account | None, accounts: Accounts) -> list[Step]:
    if have is None or name not in accounts.local_users:
        return []
    if have.uid in accounts.busy_uids:
        raise UsersError(
            "user %s: cannot be removed while processes run as this user. Remedy: end them "
            "(`pgrep -u %s -a`) and run again" % (name, name)
        )
    return [Step("remove user %s (the home stays)" % name, ("userdel", name))]


def _check_groups(
    spec: dict, accounts: Accounts, new_groups: dict[str, int | None], check: bool
) -> list[str] | None:
    if spec["groups"] is None:
        return None
    missing = [g for g in spec["groups"] if g not in accounts.groups and g not in new_groups]
    if missing and not check:
        raise UsersError(
            "user %s: there is no group %s. Remedy: add it to `groups`, or install the package "
            "that brings it" % (spec["name"], ", ".join(missing))
        )
    return list(spec["groups"])


def _primary_group(spec: dict, accounts: Accounts, new_groups: dict[str, int | None]) -> str | None:
    """Name of the primary group; None to leave that of an existing account alone."""
    if spec["group"]:
        if spec["group"] not in accounts.groups and spec["group"] not in new_groups:
            raise UsersError(
                "user %s: there is no group %s. Remedy: add it to `groups`"
                % (spec["name"], spec["group"])
            )
        return spec["group"]
    if spec["gid"] is not None:
        for name, gid in new_groups.items():
            if gid == spec["gid"]:
                return name
        return accounts.group_of(spec["gid"])
    return None if spec["name"] in accounts.users else spec["name"]


def home_of(spec: dict, have: Account | None = None) -> str:
    """Home directory that the account has or will have."""
    if spec["home"]:
        return spec["home"]
    if have:
        return have.home
    return "/nonexistent" if spec["system"] else "/home/%s" % spec["name"]


def _useradd(spec: dict, primary: str | None, groups: list[str] | None) -> Step:
    shell = spec["shell"] or ("/usr/sbin/nologin" if spec["system"] else "/bin/bash")
    # "*" can never be entered; "!" (useradd's default) would also lock out SSH keys.
    argv = ["useradd", "--no-create-home", "--password", "*", "--no-user-group"]
    argv += ["--gid", primary or spec["name"], "--home-dir", home_of(spec), "--shell", shell]
    argv += ["--uid", str(spec["uid"])] if spec["uid"] is not None else []
    argv += ["--groups", ",".join(groups)] if groups else []
    argv += ["--system"] if spec["system"] else []
    return Step("make user %s" % spec["name"], (*argv, spec["name"]))


def run_step(step: Step) -> None:
    """Run a planned command; raises UsersError with its words if it fails."""
    env = {**os.environ, "LC_ALL": "C"}
    env["PATH"] = "/usr/sbin:/sbin:" + env.get("PATH", "/usr/bin:/bin")
    done = subprocess.run(step.argv, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        raise UsersError(
            "could not %s: `%s` ended with %d: %s"
            % (step.what, " ".join(step.argv), done.returncode, done.stderr.strip())
        )


def ensure(
    groups: list[dict],
    users: list[dict],
    check: bool,
    begin: Callable[[], None] = lambda: None,
    warn: Callable[[str], None] = lambda _line: None,
) -> list[str]:
    """Bring groups and users to their state; returns what was done, or would be in check mode.

    begin: called before the first change of an account. warn: gets a line for each user whose ~/.ssh or home cannot be
    brought to its state by the user's own doing; that is not an error, or each user could fail every run.
    """
    names = [spec["name"] for spec in [*groups, *users]]
    names += [
        group for spec in users for group in [spec["group"], *(spec["groups"] or [])] if group
    ]
    uids = [spec["uid"] for spec in users if spec["uid"] is not None]
    gids = [spec["gid"] for spec in [*groups, *users] if spec["gid"] is not None]
    accounts = read_accounts(names, uids, [*gids, *uids])
    specs = group_specs(groups, users, accounts)
    new_groups = {spec["name"]: spec["gid"] for spec in specs}
    for name, gid in new_groups.items():
        if gid is None:
            new_groups[name] = accounts.groups.get(name)
    # Freed names and numbers first, so that somebody else can have them in the same call.
    removed = [spec for spec in users if spec["state"] == "absent"]
    steps = [s for spec in removed for s in plan_user(spec, accounts, new_groups, check)]
    gone = {spec["name"] for spec in removed}
    accounts = Accounts(
        {name: user for name, user in accounts.users.items() if name not in gone},
        accounts.groups,
        accounts.local_users,
        accounts.local_groups,
        accounts.busy_uids,
        accounts.busy_gids,
    )
    for spec in specs:
        steps += plan_group(spec, accounts)
    present = [spec for spec in users if spec["state"] == "present"]
    for spec in present:
        steps += plan_user(spec, accounts, new_groups, check)
    done = [step.what for step in steps]
    if not check:
        if steps:
            begin()
        for step in steps:
            run_step(step)
    faults: list[str] = []
    own: list[str] = []
    silent = 0
    for spec in present:
        try:
            done += _ensure_home(spec, accounts.users.get(spec["name"]), check)
        except OwnFaultError as error:
            own.append(_one_line(error))
            silent += isinstance(error, SilentError)
        except UsersError as error:  # the others' homes are made all the same
            faults.append(_one_line(error))
        if silent == MOST_SILENT:
            words = "the homes of %d users do not answer. Remedy: check the server of the homes, and run again"
            faults.append(words % silent)
            break
    for line in _counted(own):
        warn(line)
    if faults:
        raise UsersError("\n".join(_counted(faults)))
    return done


def _one_line(error: UsersError) -> str:
    return " ".join(str(error).split())


def _counted(lines: list[str]) -> list[str]:
    """Return the first lines, and how many more there are."""
    more = len(lines) - MOST_FAULTS
    return lines[:MOST_FAULTS] + (["... and %d more users" % more] if more > 0 else [])


def _ensure_home(spec: dict, have: Account | None, check: bool) -> list[str]:
    name, home, done = spec["name"], home_of(spec, have), []
    create = spec["create_home"] if spec["create_home"] is not None else not spec["system"]
    try:
        missing = create and is_missing(home)
    except OwnFaultError as error:
        raise OwnFaultError("user %s: %s" % (name, error)) from None
    if check and have is None:
        return ["make home %s" % home] if missing else []
    entry = pwd.getpwnam(name)
    if missing and (check or make_home(home, entry.pw_uid, entry.pw_gid)):
        done.append("make home %s" % home)
    if spec["ssh_key"] or spec["ssh_authorized_keys"] is not None:
        declared = spec["ssh_authorized_keys"]
        done += as_user(
            name,
            entry.pw_uid,
            entry.pw_gid,
            lambda: ensure_keys(home, name, spec["ssh_key"], declared, check),
            is_own=lambda error: is_own_fault(error, home),
        )
    return done
