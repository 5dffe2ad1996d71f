# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Root takes on the rights of the user who controls a path, and refuses a path that several users control."""

from __future__ import annotations

import os
import struct
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import path_owner
from ansible_collections.trainwright.slurm.plugins.module_utils.node.safe_path import (
    UnsafePathError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.trusted_path import (
    fault_of_tree,
    responsible,
)

from tests.unit.images import needs_root, open_directory

__all__ = ["open_directory"]  # a fixture
pytestmark = needs_root
NOBODY, DAEMON, UNKNOWN = 65534, 1, 54321


def owned(path: Path, uid: int = NOBODY) -> Path:
    """A directory of a user."""
    path.mkdir()
    os.chown(path, uid, uid)
    return path


def owner(*paths: Path, trees: t.Collection[Path] = ()) -> str:
    return path_owner.owner_of(map(str, paths), "do it otherwise", [str(tree) for tree in trees])


def refused(*paths: Path, trees: t.Collection[Path] = ()) -> str:
    with pytest.raises(UnsafePathError) as caught:
        owner(*paths, trees=trees)
    said = str(caught.value)
    assert said.endswith(" -> do it otherwise") and "\n" not in said
    return said


def test_a_user_controls_what_is_below_the_first_part_of_theirs(open_directory: Path) -> None:
    home = owned(open_directory / "home")
    (home / "link").symlink_to("/etc/shadow")
    (home / "etc").symlink_to("/etc")
    (open_directory / "way").symlink_to("home/link")
    for path in (home, home / "link", home / "etc/shadow", home / "missing/more", home / "../x"):
        assert owner(path) == "nobody"
    assert owner(open_directory / "way") == "nobody", "a link of root to one of a user"


def test_root_controls_the_rest(open_directory: Path) -> None:
    (open_directory / "way").symlink_to("../../etc/passwd")
    (open_directory / "self").symlink_to(open_directory)
    for path in (Path("/"), Path("/etc/../etc/shadow"), open_directory / "missing/more"):
        assert owner(path) == ""
    assert owner(open_directory / "self/way", open_directory / "way/below") == ""


def test_links_in_a_circle_end(open_directory: Path) -> None:
    (open_directory / "a").symlink_to("b")
    (open_directory / "b").symlink_to("a")
    assert f"{open_directory}/a: Too many levels of symbolic links" in refused(open_directory / "a")


@pytest.mark.parametrize(("mode", "group"), [(0o777, 0), (0o775, NOBODY)])
def test_what_several_users_can_change_is_refused(
    open_directory: Path, mode: int, group: int
) -> None:
    shared = open_directory / "shared"
    shared.mkdir()
    os.chown(shared, 0, group)
    shared.chmod(mode)
    assert f"{shared} has the mode {mode:04o}" in refused(shared / "set")
    file = open_directory / "file"
    file.touch()
    os.chown(file, 0, group)
    file.chmod(mode & 0o666)
    assert f"{file} has the mode" in refused(file)


def test_a_sticky_directory(open_directory: Path) -> None:
    """Others cannot replace what is in it, and can put in what is missing, or other names of root's files."""
    open_directory.chmod(0o1777)
    (open_directory / "file").touch()
    (open_directory / "below").mkdir()
    assert owner(open_directory / "file", open_directory / "below/missing") == ""
    assert owner(owned(open_directory / "home")) == "nobody"
    assert "does not exist, and others can write to" in refused(open_directory / "missing")
    (open_directory / "link").symlink_to("/etc/shadow")
    os.link(open_directory / "file", open_directory / "again")
    for name in ("link", "again"):
        assert f"{open_directory / name} is a link in {open_directory}, and others" in refused(
            open_directory / name
        )


def test_two_users_and_one_that_nobody_knows(open_directory: Path) -> None:
    one, other = owned(open_directory / "one"), owned(open_directory / "other", DAEMON)
    said = refused(open_directory, one, other / "new")
    assert f"{one} is controlled by nobody and {other}/new by daemon" in said
    stranger = owned(open_directory / "stranger", UNKNOWN)
    assert "uid 54321, which is not a user of this host" in refused(stranger)


def test_a_tree_of_root_has_to_be_roots_all_the_way(open_directory: Path) -> None:
    tree = open_directory / "set"
    (tree / "a").mkdir(parents=True)
    (tree / "a/inside").symlink_to("../a")
    (tree / "a/nowhere").symlink_to("missing")
    assert owner(tree, trees=[tree]) == ""
    home = owned(open_directory / "home")
    (home / "link").symlink_to("/etc/shadow")
    (tree / "a/way").symlink_to(home / "link")
    assert f"{tree}/a/way leads to what belongs to nobody" in refused(tree, trees=[tree])
    assert fault_of_tree(str(tree)) == "", "what is not read through its links"
    assert owner(tree, home, trees=[tree]) == "nobody", "who may not read it"
    (tree / "a/way").unlink()
    entry = owned(tree / "a/entry")
    assert f"{entry} belongs to nobody" in refused(tree, trees=[tree])


def test_another_user_than_root_acts_as_before(open_directory: Path) -> None:
    home = owned(open_directory / "home", DAEMON)
    try:
        os.seteuid(NOBODY)
        assert owner(home, Path("/etc/shadow"), trees=[home]) == ""
    finally:
        os.seteuid(0)
    assert responsible(str(home)) == DAEMON


def test_rights(open_directory: Path) -> None:
    secret = open_directory / "secret"
    secret.touch(0o600)
    with path_owner.rights_of("nobody"):
        assert (os.geteuid(), os.getegid()) == (NOBODY, NOBODY)
        with pytest.raises(PermissionError):
            secret.read_text()
    with path_owner.rights_of(""):
        assert os.geteuid() == 0 and secret.read_text() == ""


def admit(path: Path, uid: int, rights: int) -> None:
    """Give a user rights by an access list, as `setfacl -m u:UID:rwx` does."""
    everybody = 0xFFFFFFFF
    rows = [
        (1, 7, everybody),
        (2, rights, uid),
        (4, 5, everybody),
        (16, rights | 5, everybody),
        (32, 5, everybody),
    ]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)
    try:
        os.setxattr(path, "system.posix_acl_access", value)
    except OSError as error:
        pytest.skip(f"no access lists on this file system: {error}")


def test_what_an_access_list_opens_is_not_roots(open_directory: Path) -> None:
    """Its group, which is root, has the rights of whoever the list names."""
    team = open_directory / "team"
    team.mkdir(mode=0o755)
    program = team / "check.sh"
    program.touch(mode=0o755)
    admit(program, NOBODY, 5)
    assert responsible(str(program)) == 0
    admit(program, NOBODY, 7)
    assert str(program) in refused(program)
    program.unlink()
    admit(team, NOBODY, 7)
    assert str(team) in refused(team / "check.sh")
    assert str(team) in fault_of_tree(str(team))


def test_what_roots_own_group_may_write_is_roots(open_directory: Path) -> None:
    (open_directory / "site").mkdir()
    (open_directory / "site").chmod(0o775)
    assert responsible(str(open_directory / "site" / "new")) == 0
