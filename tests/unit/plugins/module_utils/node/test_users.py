# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of system_users: plans against made-up accounts, homes and keys on real files."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import stat

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import homes, users

ALICE = users.Account("alice", 2001, 2001, "/home/alice", "/bin/bash", frozenset({"research"}))


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


class TestFaults:
    """One user's fault does not keep the others from their keys, and fails the run only where it is the host's."""

    @pytest.fixture
    def code(self):
        """The error of the homes that have no room."""
        return [errno.EDQUOT]

    @pytest.fixture
    def full(self, tmp_path, monkeypatch, code):
        """Homes with a directory for keys; those of the names in the returned set have no room."""
        names = ("alice", "bob", *(f"user{number}" for number in range(12)))
        full: set[str] = set()
        fsync = os.fsync

        def quota(handle):
            path = os.readlink(f"/proc/self/fd/{handle}")
            if path.startswith(tuple(f"{tmp_path}/{name}/" for name in full)):
                raise OSError(code[0], os.strerror(code[0]))
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

    def ensure(self, names, check=False):
        """What was done, and the warnings."""
        specs = [user(name, ssh_authorized_keys=["ssh-ed25519 AAAA a"]) for name in names]
        warnings: list[str] = []
        return users.ensure([], specs, check, warn=warnings.append), warnings

    def test_a_full_quota_is_a_warning_with_the_file_and_the_remedy(self, full, tmp_path):
        full.add("alice")
        done, (said,) = self.ensure(["alice", "bob"])
        assert done == ["write authorized_keys of bob"]
        assert len(said.splitlines()) == 1 and said.startswith("user alice on ")
        assert f"{tmp_path}/alice/.ssh/authorized_keys" in said and "raise the quota" in said
        assert "who owns" not in said
        assert "AAAA" in (tmp_path / "bob" / ".ssh" / "authorized_keys").read_text()
        assert not [*(tmp_path / "alice" / ".ssh").iterdir()], "each attempt would leave a file"
        full.clear()
        assert self.ensure(["alice", "bob"]) == (["write authorized_keys of alice"], [])

    def test_a_full_disk_is_an_error_after_the_others_homes(self, full, code, tmp_path):
        code[0] = errno.ENOSPC
        full.add("alice")
        with pytest.raises(users.UsersError, match="^user alice on .*/alice/.ssh/auth.*make room"):
            self.ensure(["alice", "bob"])
        assert "AAAA" in (tmp_path / "bob" / ".ssh" / "authorized_keys").read_text()

    def test_many_users_are_counted(self, full, code):
        names = [f"user{number}" for number in range(12)]
        full.update(names)
        lines = self.ensure(names)[1]
        assert len(lines) == users.MOST_FAULTS + 1 and lines[-1] == "... and 2 more users"
        code[0] = errno.ENOSPC
        with pytest.raises(users.UsersError) as caught:
            self.ensure(names)
        lines = str(caught.value).splitlines()
        assert len(lines) == users.MOST_FAULTS + 1 and lines[-1] == "... and 2 more users"

    @pytest.mark.parametrize("check", [True, False])
    def test_a_pipe_for_a_file_of_keys_is_a_warning(self, full, tmp_path, check):
        os.mkfifo(tmp_path / "alice" / ".ssh" / "authorized_keys")
        done, (said,) = self.ensure(["alice", "bob"], check)
        assert done == ["write authorized_keys of bob"]
        assert said.startswith("user alice on ")
        assert f"{tmp_path}/alice/.ssh/authorized_keys" in said
        assert "is not a regular file" in said and "ask the user to move it away" in said

    def test_a_home_that_its_user_has_mounted_is_a_warning(self, full, tmp_path, monkeypatch):
        def lstat(place, name):
            if name == "alice":
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return os.stat(name, dir_fd=place.fd)

        mounts = tmp_path / "mountinfo"
        mounts.write_text(f"40 30 0:50 / {tmp_path}/alice rw - fuse.sshfs host:/ rw,user_id=2001\n")
        monkeypatch.setattr(homes.safe_path.Directory, "lstat", lstat)
        monkeypatch.setattr(homes, "MOUNTINFO", str(mounts))
        done, (said,) = self.ensure(["alice", "bob"])
        assert done == ["write authorized_keys of bob"]
        assert said.startswith(f"user alice: {tmp_path}/alice: is a FUSE file system")
        assert "fusermount -u" in said

    def test_homes_that_do_not_answer_cost_a_limited_time(self, full, monkeypatch):
        asked = []

        def silent(name, *_given, **_values):
            asked.append(name)
            raise homes.SilentError(f"user {name}: the home gave no answer")

        monkeypatch.setattr(users, "as_user", silent)
        names = [f"user{number}" for number in range(12)]
        assert len(self.ensure(names[: users.MOST_SILENT - 1])[1]) == users.MOST_SILENT - 1
        asked.clear()
        with pytest.raises(users.UsersError, match="homes of 5 users do not answer. Remedy: che"):
            self.ensure(names)
        assert asked == names[: users.MOST_SILENT]


def test_a_home_with_another_fault_keeps_its_remedy():
    assert "who owns the home" in homes.remedy("[Errno 30] Read-only file system: '/x'")
    words = 'Saving key "/home/alice/.ssh/x/key" failed: Disk quota exceeded'
    assert "raise the quota" in homes.remedy(words)
