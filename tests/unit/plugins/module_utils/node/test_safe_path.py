# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Root's changes below directories of users: with real links, real owners, and swaps between two steps."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.data.directory import Directory
from ansible_collections.trainwright.slurm.plugins.module_utils.data.journal import Journal
from ansible_collections.trainwright.slurm.plugins.module_utils.data.manifest import (
    DatasetError,
    Entry,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node import files, homes, safe_path
from ansible_collections.trainwright.slurm.plugins.module_utils.node.support import join

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose")

USER = 65534
OTHER = 65533


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory of root's with a secret, that no test may change."""
    path = tmp_path / "etc"
    path.mkdir(mode=0o755)
    (path / "secret").write_text("root's\n")
    (path / "secret").chmod(0o600)
    return path


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A directory of a user's."""
    path = tmp_path / "team"
    path.mkdir(mode=0o750)
    os.chown(path, USER, USER)
    return path


def link(path: Path, target: Path, owner: int = USER) -> None:
    path.symlink_to(target)
    os.chown(path, owner, owner, follow_symlinks=False)


def state(path: Path) -> list[tuple[str, int, int, int]]:
    found = [path, *sorted(path.rglob("*"))]
    infos = [(str(one), one.lstat()) for one in found]
    return [(name, info.st_uid, info.st_gid, info.st_mode) for name, info in infos]


def directory(path: Path, **values: str) -> dict[str, str]:
    defaults = {"owner": str(USER), "group": str(USER), "mode": "0770", "state": "present"}
    return {"path": str(path), **defaults, **values}


def file(path: Path, **values: object) -> dict[str, object]:
    none = dict.fromkeys(("content", "content_b64", "link", "mode", "validate", "block", "owner"))
    return {**none, "group": None, "path": str(path), "state": "present", "secret": False} | {
        "create": False,
        **values,
    }


def apply(directories: list[dict[str, str]], wanted: list[dict[str, object]]) -> None:
    for change in files.plan_all(directories, wanted, False).changes:
        files.apply(change)


# -- which links are followed ----------------------------------------------------------------------
def test_a_link_of_root_in_roots_directories_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to("disk")
    (tmp_path / "again").symlink_to(tmp_path / "data")
    apply([directory(tmp_path / "again" / "a" / "b")], [])
    assert (tmp_path / "disk/a/b").stat().st_uid == USER
    assert stat.S_IMODE((tmp_path / "disk/a").stat().st_mode) == 0o755
    with safe_path.directory("/var/run") as place:
        assert place.path == os.path.realpath("/var/run")


@pytest.mark.parametrize("owner", [USER, 0])
@pytest.mark.parametrize("check", [False, True])
def test_a_link_in_a_users_directory_is_refused(
    team: Path, victim: Path, owner: int, check: bool
) -> None:
    """Even root's own: its maker may have moved it there."""
    link(team / "checkpoints", victim, owner)
    before = state(victim)
    for path in (team / "checkpoints", team / "checkpoints" / "new"):
        with pytest.raises(files.FilesError, match=r"team/checkpoints: is a symbolic link of \w+"):
            files.plan_all([directory(path)], [], check)
    assert state(victim) == before


def test_a_users_link_in_a_sticky_directory_is_refused(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    link(tmp_path / "tmp" / "images", victim)
    with pytest.raises(files.FilesError, match="does not follow it. Remedy"):
        files.plan_all([directory(tmp_path / "tmp" / "images")], [], False)


def test_a_group_that_may_write_makes_a_directory_unsafe(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "shared").mkdir()
    os.chown(tmp_path / "shared", 0, USER)
    (tmp_path / "shared").chmod(0o770)
    link(tmp_path / "shared" / "x", victim, 0)
    with pytest.raises(safe_path.UnsafePathError, match="directory that others can change"):
        safe_path.write(str(tmp_path / "shared" / "x" / "f"), b"")


def test_a_link_that_leads_nowhere_or_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to("unmounted/data")
    with pytest.raises(files.FilesError, match="data: links to .*unmounted, which does not exist"):
        files.plan_all([directory(tmp_path / "data" / "x")], [], False)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(files.FilesError, match="symbolic links"):
        files.plan_all([directory(tmp_path / "loop")], [], False)
    assert not (tmp_path / "unmounted").exists()


def test_dots_go_up_from_the_target_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/b")
    with safe_path.directory(str(tmp_path / "link" / ".." / "b" / ".")) as place:
        assert place.path == str(tmp_path / "a" / "b") and place.firm
    with safe_path.directory("/../..") as place:
        assert place.path == "/"
    for path in ("relative", "", "/etc/..", "/"):
        with pytest.raises(safe_path.UnsafePathError, match="Remedy"):
            safe_path.write(path, b"")


def test_no_descriptor_is_left_open(team: Path, victim: Path) -> None:
    link(team / "x", victim)
    before = len(os.listdir("/proc/self/fd"))
    for path in ("x/y", "absent/y", "y"):
        try:
            safe_path.write(str(team / path), b"")
        except (OSError, safe_path.UnsafePathError):
            continue
    assert len(os.listdir("/proc/self/fd")) == before


# -- a swap between the plan and its change --------------------------------------------------------
def test_a_directory_that_becomes_a_link(team: Path, victim: Path) -> None:
    (team / "checkpoints").mkdir()
    plan = files.plan_all([directory(team / "checkpoints")], [], False)
    (team / "checkpoints").rmdir()
    link(team / "checkpoints", victim)
    before = state(victim)
    with pytest.raises(files.FilesError, match="root does not follow it"):
        files.apply(plan.changes[0])
    assert state(victim) == before


@pytest.mark.parametrize(
    "wanted",
    [
        {"content": "x\n"},
        {"link": "x"},
        {"state": "absent"},
        {"owner": str(USER), "mode": "0777"},
        {"content": "x", "block": {"marker": "m"}},
    ],
    ids=["file", "link", "absent", "attributes", "block"],
)
def test_a_parent_that_becomes_a_link(team: Path, victim: Path, wanted: dict[str, object]) -> None:
    (team / "d").mkdir()
    (team / "d" / "secret").write_text("the user's\n")
    os.chown(team / "d" / "secret", USER, USER)
    plan = files.plan_all([], [file(team / "d" / "secret", **wanted)], False)
    (team / "d").rename(team / "moved")
    link(team / "d", victim)
    before = state(victim)
    with pytest.raises(files.FilesError, match="root does not follow it"):
        files.apply(plan.changes[0])
    assert state(victim) == before and (victim / "secret").read_text() == "root's\n"


def test_a_file_that_becomes_a_link_or_another_name(team: Path, victim: Path) -> None:
    (team / "f").write_text("the user's\n")
    os.chown(team / "f", USER, USER)
    (plan,) = files.plan_all([], [file(team / "f", owner=str(USER), mode="0666")], False).changes
    before = state(victim)
    (team / "f").unlink()
    link(team / "f", victim / "secret")
    with pytest.raises(files.FilesError):
        files.apply(plan)
    (team / "f").unlink()
    os.link(victim / "secret", team / "f")
    with pytest.raises(files.FilesError, match="hard links"):
        files.apply(plan)
    assert state(victim) == before


def test_what_a_user_put_in_the_place_of_a_file_is_replaced(team: Path, victim: Path) -> None:
    link(team / "conf", victim / "secret")
    link(team / "to", victim / "secret")
    apply([], [file(team / "conf", content="new\n"), file(team / "to", link="elsewhere")])
    assert (team / "conf").read_text() == "new\n" and not (team / "conf").is_symlink()
    assert os.readlink(team / "to") == "elsewhere"
    assert (victim / "secret").read_text() == "root's\n"
    assert sorted(path.name for path in team.iterdir()) == ["conf", "to"]


def test_removing_a_tree_removes_links_and_not_their_targets(team: Path, victim: Path) -> None:
    (team / "tree" / "sub").mkdir(parents=True)
    link(team / "tree" / "out", victim)
    apply([directory(team / "tree", state="absent")], [])
    assert not (team / "tree").exists() and (victim / "secret").exists()
    link(team / "tree", victim)
    apply([directory(team / "tree", state="absent")], [])
    assert not (team / "tree").is_symlink() and (victim / "secret").exists()


# -- renamed within a user's directory, without a link ---------------------------------------------
REFUSED = r"belongs to 65533, not to nobody, and root does not change that: .* Remedy: .*`chown` it by hand"


def own(path: Path, owner: int, mode: int = 0o700) -> Path:
    path.mkdir(exist_ok=True)
    os.chown(path, owner, owner)
    path.chmod(mode)
    return path


def swap(team: Path) -> None:
    """The owner of a directory gives two in it each other's names."""
    (team / "b").rename(team / "x")
    (team / "a").rename(team / "b")
    (team / "x").rename(team / "a")


@pytest.fixture
def pair(team: Path) -> list[dict[str, str]]:
    """The entries of a user's directory and another's in the first user's, as a run has made them."""
    team.chmod(0o755)
    wanted = [
        directory(team / "a", mode="0700"),
        directory(team / "b", mode="0700", owner=str(OTHER), group=str(OTHER)),
    ]
    apply(wanted, [])
    (team / "b" / "secret").write_text("the other's\n")
    return wanted


@pytest.mark.parametrize("check", [False, True])
def test_a_directory_that_was_renamed_keeps_its_owner(
    team: Path, pair: list[dict[str, str]], check: bool
) -> None:
    assert files.plan_all(pair, [], check).changes == []
    swap(team)
    before = state(team)
    with pytest.raises(files.FilesError, match=rf"^{team}/a: {REFUSED}") as error:
        files.plan_all(pair, [], check)
    assert f"{team} belongs to nobody" in str(error.value) and state(team) == before


def test_a_directory_that_is_renamed_after_the_plan(team: Path, pair: list[dict[str, str]]) -> None:
    """Also below one of root's: what is above that can be renamed as well."""
    pair[0]["mode"] = "0750"
    (change,) = files.plan_all(pair, [], False).changes
    swap(team)
    before = state(team)
    with pytest.raises(files.FilesError, match=REFUSED):
        files.apply(change)
    assert state(team) == before
    own(team / "roots", 0, 0o755)
    own(team / "roots" / "a", OTHER)
    with pytest.raises(files.FilesError, match=REFUSED):
        files.plan_all([directory(team / "roots" / "a")], [], False)


@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o775])
def test_a_name_that_somebody_took_before_root(tmp_path: Path, mode: int) -> None:
    os.chown(own(tmp_path / "data", 0), 0, USER)
    (tmp_path / "data").chmod(mode)
    own(tmp_path / "data" / "images", OTHER)
    for wanted, check in itertools.product((str(USER), "0"), (False, True)):
        with pytest.raises(files.FilesError, match=rf"belongs to 65533.* has the mode {mode:04o}"):
            files.plan_all([directory(tmp_path / "data" / "images", owner=wanted)], [], check)


def test_a_directory_of_root_goes_to_a_user_only_empty(team: Path) -> None:
    """A run that ended before the owner was set left it so."""
    (team / "a").mkdir(mode=0o700)
    apply([directory(team / "a")], [])
    assert (team / "a").stat().st_uid == USER
    own(team / "roots", 0)
    (team / "roots" / "secret").touch()
    with pytest.raises(files.FilesError, match="roots: belongs to root, not to nobody"):
        files.plan_all([directory(team / "roots")], [], False)
    apply(
        [directory(team / "n" / "e" / "w"), directory(team / "n"), directory(team / "n" / "e")], []
    )
    assert {info[1] for info in state(team / "n")} == {USER}


def test_what_stays_allowed(team: Path, tmp_path: Path) -> None:
    """A new mode or group of an owner's, and a new owner where only root can rename."""
    apply([directory(team / "a", mode="0700")], [])
    (team / "a" / "f").touch()
    apply([directory(team / "a", mode="2770", group=str(OTHER))], [])
    info = (team / "a").stat()
    assert (info.st_uid, info.st_gid, info.st_mode & 0o7777) == (USER, OTHER, 0o2770)
    apply([directory(team, owner=str(OTHER))], [])
    assert team.stat().st_uid == OTHER


def test_a_run_that_opens_the_directory_above(tmp_path: Path) -> None:
    """Check mode says what the run would find: that the one above is a user's by then."""
    own(own(tmp_path / "team", 0, 0o755) / "a", OTHER)
    wanted = [directory(tmp_path / "team"), directory(tmp_path / "team" / "a")]
    for check in (False, True):
        with pytest.raises(files.FilesError, match=f"others can change {tmp_path}/team after"):
            files.plan_all(wanted, [], check)
    apply(wanted[1:], [])
    apply(wanted, [])
    assert {info[1] for info in state(tmp_path / "team")} == {USER}


def test_a_file_that_was_renamed(team: Path) -> None:
    path = team / "f"
    path.write_text("the other's\n")
    os.chown(path, OTHER, OTHER)
    mine = {"owner": str(USER), "mode": "0600"}
    for wanted in (mine, {**mine, "content": "x", "block": {"marker": "m"}}):
        with pytest.raises(files.FilesError, match=f"f: {REFUSED}"):
            files.plan_all([], [file(path, **wanted)], True)
    kept = os.open(path, os.O_RDWR)
    apply([], [file(path, **mine, content="the other's\n")])
    assert os.fstat(kept).st_nlink == 0 and path.stat().st_uid == USER  # it is a new one
    os.close(kept)
    (change,) = files.plan_all([], [file(path, owner=str(USER), mode="0640")], False).changes
    path.unlink()
    path.write_text("the other's\n")
    os.chown(path, OTHER, OTHER)
    with pytest.raises(files.FilesError, match=REFUSED):
        files.apply(change)
    assert (path.stat().st_uid, path.stat().st_mode & 0o777) == (OTHER, 0o644)


@pytest.mark.parametrize("owner", [0, 65533])
def test_a_home_that_is_swapped_while_it_is_made(
    team: Path, owner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has the name by then is neither given away nor removed."""
    secret = own(team / "secrets", owner) / "secret"
    secret.touch()
    os.chown(secret, owner, owner)
    make = os.mkdir

    def swapped(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        make(path, mode, dir_fd=dir_fd)
        if path.startswith(".trainwright-"):
            (team / path).rename(team / "root's")
            (team / "secrets").rename(team / path)

    monkeypatch.setattr(os, "mkdir", swapped)
    with pytest.raises(homes.UsersError, match="bob: is not "):
        homes.make_home(str(team / "bob"), USER, USER)
    (moved,) = team.glob(".trainwright-*")
    assert {info[1] for info in state(moved)} == {owner} and (moved / "secret").exists()
    assert not (team / "bob").exists()


def test_a_home_of_somebody_else_stays(team: Path) -> None:
    own(team / "bob", OTHER)
    assert not homes.make_home(str(team / "bob"), USER, USER)
    assert (team / "bob").stat().st_uid == OTHER


# -- others that write below users' directories ----------------------------------------------------
def test_a_home_below_a_link_of_a_user(team: Path, victim: Path, tmp_path: Path) -> None:
    link(team / "homes", victim)
    before = state(victim)
    for call in (
        lambda: homes.make_home(str(team / "homes" / "bob"), USER, USER),
        lambda: homes.is_missing(str(team / "homes" / "bob")),
    ):
        with pytest.raises(homes.UsersError, match="root does not follow it"):
            call()
    assert state(victim) == before
    (tmp_path / "skel" / "sub").mkdir(parents=True)
    (tmp_path / "skel" / "sub" / "f").write_text("x")
    home = team / "bob"
    assert homes.make_home(str(home), USER, USER, str(tmp_path / "skel"))
    assert {info[1] for info in state(home)} == {USER} and home.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in team.iterdir() if path.name.startswith(".")] == []


def test_a_data_set_goes_nowhere_else(team: Path, victim: Path, tmp_path: Path) -> None:
    source = tmp_path / "secret"
    source.write_text("from the data set\n")
    info = source.stat()
    link(team / "sub", victim)
    before = state(victim)
    target = Directory(str(team))
    with pytest.raises(DatasetError, match="root does not follow it"):
        target.send("sub/secret", str(source), Entry(info.st_size, info.st_mtime_ns), None, print)
    with pytest.raises(DatasetError, match="root does not follow it"):
        target.remove("sub/secret")
    link(team / ".trainwright-sync", victim)
    with pytest.raises(DatasetError, match="root does not follow it"):
        Journal(str(team / ".trainwright-sync" / "x.journal")).__enter__()
    link(team / "x.journal", victim / "secret")
    with pytest.raises(DatasetError):
        Journal(str(team / "x.journal")).__enter__()
    (team / "x.journal").unlink()
    os.link(victim / "secret", team / "x.journal")
    with pytest.raises(DatasetError, match="hard links"):
        Journal(str(team / "x.journal")).__enter__()
    assert state(victim) == before and (victim / "secret").read_text() == "root's\n"


def test_a_support_archive_takes_no_prepared_name(team: Path, victim: Path) -> None:
    path = team / "demo.tar.gz"
    link(team / "demo.tar.gz.part", victim / "secret")
    link(path, victim / "secret")
    made = join.join({}, ["c1"], str(path))
    assert made["missing"] == ["c1"] and made["size"] == path.stat().st_size > 0
    assert path.stat().st_uid == 0 and path.stat().st_mode & 0o777 == 0o600
    assert (victim / "secret").read_text() == "root's\n"


def test_a_file_without_end_does_not_fill_the_memory(team: Path) -> None:
    """It is sparse: its owner needs neither disk space nor quota for it."""
    (team / "large").touch()
    os.truncate(team / "large", safe_path.LARGEST + 1)
    with safe_path.directory(str(team)) as place:
        with pytest.raises(OSError, match="is larger than 64 MiB.*/team/large") as caught:
            place.read("large")
        assert caught.value.errno == errno.EFBIG
        os.truncate(team / "large", 1 << 40)
        assert len(place.read("large", 4096, cut=True)[1]) == 4097
        os.truncate(team / "large", 4096)
        assert len(place.read("large", 4096)[1]) == 4096
