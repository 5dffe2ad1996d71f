# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of system_users: plans against made-up accounts, homes and keys on real files."""

from __future__ import annotations

import errno
import getpass
import multiprocessing
import os
import pwd
import shutil
import stat

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import users

ALICE = users.Account("alice", 2001, 2001, "/home/alice", "/bin/bash", frozenset({"research"}))
needs_keygen = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed here"
)


def accounts(**values) -> users.Accounts:
    base = {
        "users": {"alice": ALICE},
        "groups": {"alice": 2001, "research": 5000, "users": 100},
        "local_users": frozenset({"alice"}),
        "local_groups": frozenset({"alice", "research", "users"}),
    }
    return users.Accounts(**{**base, **values})


def user(name="alice", **values) -> dict:
    spec = dict.fromkeys(
        ("uid", "gid", "group", "groups", "home", "shell", "create_home", "ssh_authorized_keys")
    )
    return {**spec, "name": name, "system": False, "ssh_key": False, "state": "present", **values}


def group(name, gid=None, system=False) -> dict:
    return {"name": name, "gid": gid, "system": system}


def plan(have, *specs, groups=(), check=False) -> list[str]:
    """Commands for these users, their groups first."""
    wanted = users.group_specs(list(groups), list(specs), have)
    new = {spec["name"]: spec["gid"] for spec in wanted}
    steps = [step for spec in wanted for step in users.plan_group(spec, have)]
    for spec in specs:
        steps += users.plan_user(spec, have, new, check)
    return [" ".join(step.argv) for step in steps]


def test_nothing_to_do():
    same = user(uid=2001, groups=["research"], home="/home/alice", shell="/bin/bash")
    assert plan(accounts(), same, groups=[group("research", 5000)]) == []


def test_a_new_user_gets_a_group_with_the_same_number():
    assert plan(accounts(), user("bob", uid=2002, groups=["research"])) == [
        "groupadd --gid 2002 bob",
        "useradd --no-create-home --password * --no-user-group --gid bob --home-dir /home/bob "
        "--shell /bin/bash --uid 2002 --groups research bob",
    ]


def test_a_new_service_account():
    assert plan(accounts(), user("slurm", uid=64030, gid=64031, system=True)) == [
        "groupadd --gid 64031 --system slurm",
        "useradd --no-create-home --password * --no-user-group --gid slurm --home-dir /nonexistent "
        "--shell /usr/sbin/nologin --uid 64030 --system slurm",
    ]


@pytest.mark.parametrize("values", [{"gid": 100}, {"group": "users"}])
def test_a_shared_primary_group_is_used_as_it_is(values):
    commands = plan(accounts(), user("bob", uid=2002, **values))
    assert len(commands) == 1
    assert "--gid users" in commands[0]


def test_a_primary_group_of_the_same_call():
    commands = plan(accounts(), user("bob", uid=2002, gid=7000), groups=[group("lab", 7000)])
    assert commands[0] == "groupadd --gid 7000 lab"
    assert "--gid lab" in commands[1]
    assert len(commands) == 2


def test_an_existing_account_changes_only_where_it_is_told_to():
    assert plan(accounts(), user(shell="/bin/zsh")) == ["usermod --shell /bin/zsh alice"]
    assert plan(accounts(), user(groups=[])) == ["usermod --groups  alice"]
    assert plan(accounts(), user()) == []


def test_numbers_never_change_under_processes():
    assert plan(accounts(), user(uid=2009)) == ["usermod --uid 2009 alice"]
    with pytest.raises(users.UsersError, match="pgrep -u 2001"):
        plan(accounts(busy_uids=frozenset({2001})), user(uid=2009))
    with pytest.raises(users.UsersError, match="pgrep -G 5000"):
        plan(accounts(busy_gids=frozenset({5000})), groups=[group("research", 5001)])
    assert plan(accounts(), groups=[group("research", 5001)]) == ["groupmod --gid 5001 research"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (user("bob", uid=2001, group="users"), "uid 2001 belongs to user alice"),
        (user("bob", uid=100), "gid 100 belongs to group users"),
        (user("bob", uid=2002, groups=["nogroup-here"]), "there is no group nogroup-here"),
        (user("bob", uid=2002, group="lab"), "there is no group lab"),
    ],
)
def test_refused_with_a_remedy(spec, message):
    with pytest.raises(users.UsersError, match=message + ".*Remedy"):
        plan(accounts(), spec)


def test_a_supplementary_group_that_a_package_will_bring_is_a_change_in_check_mode():
    assert len(plan(accounts(), user("bob", uid=2002, groups=["docker"]), check=True)) == 2


def test_an_account_of_a_directory_service_is_left_alone():
    directory = accounts(local_users=frozenset())
    assert plan(directory, user(uid=2001)) == []
    assert plan(directory, user(state="absent")) == []
    with pytest.raises(users.UsersError, match="directory service"):
        plan(directory, user(shell="/bin/zsh"))


def test_removal():
    assert plan(accounts(), user(state="absent")) == ["userdel alice"]
    assert plan(accounts(), user("bob", state="absent")) == []
    with pytest.raises(users.UsersError, match="cannot be removed while processes"):
        plan(accounts(busy_uids=frozenset({2001})), user(state="absent"))


def test_this_machine_can_be_read():
    have = users.read_accounts(["root"], [0], [0])
    assert have.users["root"].uid == 0
    assert have.group_of(0) == "root"
    assert os.getuid() in have.busy_uids


def test_check_mode_on_this_machine_is_quiet_for_root():
    spec = user("root", uid=0, home=os.path.expanduser("~root"), create_home=False)
    assert users.ensure([group("root", 0)], [spec], check=True) == []


class TestHome:
    """Homes are made whole or not at all, by whoever comes first."""

    @pytest.fixture
    def skeleton(self, tmp_path):
        (tmp_path / "skel" / ".config").mkdir(parents=True)
        (tmp_path / "skel" / ".bashrc").write_text("x\n")
        return str(tmp_path / "skel")

    def test_made_once(self, tmp_path, skeleton):
        home = tmp_path / "home" / "alice"
        assert users.make_home(str(home), os.getuid(), os.getgid(), skeleton)
        assert (home / ".bashrc").read_text() == "x\n"
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        (home / "work").write_text("mine\n")
        assert not users.make_home(str(home), os.getuid(), os.getgid(), skeleton)
        assert (home / "work").read_text() == "mine\n"
        assert [path.name for path in home.parent.iterdir()] == ["alice"]

    def test_the_slower_node_leaves_nothing_behind(self, tmp_path, skeleton, monkeypatch):
        home = tmp_path / "alice"
        home.mkdir()
        (home / "work").write_text("mine\n")
        monkeypatch.setattr(users.os.path, "lexists", lambda _path: False)
        assert not users.make_home(str(home), os.getuid(), os.getgid(), skeleton)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["alice", "skel"]
        assert (home / "work").exists()

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
    def test_without_room_nothing_is_left_and_the_home_is_named(
        self, tmp_path, skeleton, monkeypatch, code
    ):
        def full(_source, destination, **_given):
            raise OSError(code, os.strerror(code), destination)

        monkeypatch.setattr(shutil, "copyfile", full)
        home = tmp_path / "home" / "alice"
        with pytest.raises(users.UsersError) as caught:
            users.make_home(str(home), os.getuid(), os.getgid(), skeleton)
        assert str(caught.value).startswith(f"{home}: {os.strerror(code)}. Remedy: make room")
        assert "raise the quota" in str(caught.value) and skeleton not in str(caught.value)
        assert not [*home.parent.iterdir()]

    def test_a_file_in_place_of_the_directory_above(self, tmp_path):
        (tmp_path / "home").write_text("")
        for call in (
            lambda: users.is_missing(str(tmp_path / "home" / "alice")),
            lambda: users.make_home(str(tmp_path / "home" / "alice"), os.getuid(), os.getgid()),
        ):
            with pytest.raises(users.UsersError, match="alice: Not a directory. Remedy"):
                call()


def keys(home: str, declared=None, check=False) -> list[str]:
    return users.ensure_keys(home, "alice", True, declared, check)


@needs_keygen
class TestKeys:
    """SSH keys in a home that several nodes share."""

    def test_made_once_and_other_lines_stay(self, tmp_path):
        (tmp_path / ".ssh").mkdir()
        authorized = tmp_path / ".ssh" / "authorized_keys"
        authorized.write_text("ssh-rsa AAAA laptop\n")
        assert len(keys(str(tmp_path), ["ssh-ed25519 BBBB a"], check=True)) == 2
        assert authorized.read_text() == "ssh-rsa AAAA laptop\n"
        assert len(keys(str(tmp_path), ["ssh-ed25519 BBBB a"])) == 2
        assert keys(str(tmp_path), ["ssh-ed25519 BBBB a"]) == []
        assert keys(str(tmp_path), ["ssh-ed25519 BBBB a"], check=True) == []
        lines = authorized.read_text().splitlines()
        assert lines[0] == "ssh-rsa AAAA laptop"
        public = " ".join((tmp_path / ".ssh" / "id_ed25519.pub").read_text().split()[:2])
        assert lines.count(public) == 1
        assert stat.S_IMODE((tmp_path / ".ssh" / "id_ed25519").stat().st_mode) == 0o600

    def test_a_public_half_that_a_power_failure_has_emptied_is_made_again(self, tmp_path):
        """Without it, the user's key would no longer be admitted."""
        keys(str(tmp_path))
        public, authorized = (
            tmp_path / ".ssh" / name for name in ("id_ed25519.pub", "authorized_keys")
        )
        before = authorized.read_text(), public.read_text().split()[:2]
        public.write_text("")
        keys(str(tmp_path))
        assert (authorized.read_text(), public.read_text().split()[:2]) == before

    def test_a_declared_key_that_is_dropped_goes(self, tmp_path):
        keys(str(tmp_path), ["ssh-ed25519 BBBB a", "ssh-ed25519 CCCC b"])
        keys(str(tmp_path), ["ssh-ed25519 CCCC b"])
        text = (tmp_path / ".ssh" / "authorized_keys").read_text()
        assert "BBBB" not in text
        assert "CCCC" in text

    def test_a_call_without_ssh_key_leaves_that_key_admitted(self, tmp_path):
        keys(str(tmp_path))
        before = (tmp_path / ".ssh" / "authorized_keys").read_text()
        assert users.ensure_keys(str(tmp_path), "alice", False, [], False) == []
        assert (tmp_path / ".ssh" / "authorized_keys").read_text() == before

    def test_many_nodes_at_the_same_moment_agree_on_one_key(self, tmp_path):
        context = multiprocessing.get_context("fork")
        nodes = [context.Process(target=keys, args=(str(tmp_path),)) for _ in range(6)]
        for node in nodes:
            node.start()
        for node in nodes:
            node.join()
        assert [node.exitcode for node in nodes] == [0] * 6
        assert sorted(path.name for path in (tmp_path / ".ssh").iterdir()) == [
            "authorized_keys",
            "id_ed25519",
            "id_ed25519.pub",
        ]
        assert keys(str(tmp_path)) == []

    def test_no_home_no_key(self, tmp_path):
        assert keys(str(tmp_path / "missing")) == []


def test_as_user_brings_back_results_and_errors(tmp_path):
    me = (getpass.getuser(), os.getuid(), os.getgid())
    assert users.as_user(*me, lambda: ["done"]) == ["done"]

    def fail():
        raise OSError("disk full")

    with pytest.raises(users.UsersError, match="disk full. Remedy"):
        users.as_user(*me, fail)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give up its rights")
def test_as_user_has_that_users_rights_only(tmp_path):
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0o600)
    with pytest.raises(users.UsersError, match="Permission denied"):
        users.as_user("nobody", 65534, 65534, (tmp_path / "secret").read_text)


class TestQuota:
    """Users whose homes have no room."""

    @pytest.fixture
    def homes(self, tmp_path, monkeypatch):
        """Homes with a directory for keys; those of the names in the returned set have no room."""
        names = ("alice", "bob", *(f"user{number}" for number in range(12)))
        full: set[str] = set()
        fsync = os.fsync

        def quota(handle):
            path = os.readlink(f"/proc/self/fd/{handle}")
            if path.startswith(tuple(f"{tmp_path}/{name}/" for name in full)):
                raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
            fsync(handle)

        def entry(name):
            home = str(tmp_path / name)
            return pwd.struct_passwd((name, "*", os.getuid(), os.getgid(), "", home, "/bin/sh"))

        for name in names:
            (tmp_path / name / ".ssh").mkdir(parents=True)
        found = {name: users.Account(name, 1, 1, str(tmp_path / name), "/bin/sh") for name in names}
        monkeypatch.setattr(os, "fsync", quota)
        monkeypatch.setattr(users.pwd, "getpwnam", entry)
        monkeypatch.setattr(users, "read_accounts", lambda *_names: accounts(users=found))
        return full

    def ensure(self, names):
        specs = [user(name, ssh_authorized_keys=["ssh-ed25519 AAAA a"]) for name in names]
        return users.ensure([], specs, check=False)

    def test_one_user_at_quota_does_not_keep_the_others_from_their_keys(self, homes, tmp_path):
        homes.add("alice")
        with pytest.raises(users.UsersError) as caught:
            self.ensure(["alice", "bob"])
        said = str(caught.value)
        assert len(said.splitlines()) == 1 and said.startswith("user alice on ")
        assert f"{tmp_path}/alice/.ssh/authorized_keys" in said and "raise the quota" in said
        assert "who owns" not in said
        assert "AAAA" in (tmp_path / "bob" / ".ssh" / "authorized_keys").read_text()
        assert not [*(tmp_path / "alice" / ".ssh").iterdir()], "each attempt would leave a file"
        homes.clear()
        assert self.ensure(["alice", "bob"]) == ["write authorized_keys of alice"]

    def test_many_users_are_counted(self, homes):
        names = [f"user{number}" for number in range(12)]
        homes.update(names)
        with pytest.raises(users.UsersError) as caught:
            self.ensure(names)
        lines = str(caught.value).splitlines()
        assert len(lines) == users.MOST_FAULTS + 1 and lines[-1] == "... and 2 more users"

    def test_a_home_with_another_fault_keeps_its_remedy(self):
        assert "who owns the home" in users.remedy("[Errno 30] Read-only file system: '/x'")
        words = 'Saving key "/home/alice/.ssh/x/key" failed: Disk quota exceeded'
        assert "raise the quota" in users.remedy(words)
