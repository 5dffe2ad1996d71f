# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of config_files on real files: check mode and the real run must agree."""

from __future__ import annotations

import base64
import errno
import os
import pathlib
import stat

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import file_blocks, files

ME = {"owner": str(os.getuid()), "group": str(os.getgid())}
NOBODY = "no-such-user-here"


def file(path, **values) -> dict:
    spec = dict.fromkeys(("content", "content_b64", "link", "mode", "validate", "block"))
    spec.update(path=str(path), state="present", secret=False, create=False, **ME)
    spec.update(values)
    return spec


def directory(path, **values) -> dict:
    return {"path": str(path), "mode": "0755", "state": "present", **ME, **values}


def converge(directories=(), wanted=()) -> list[str]:
    """Paths changed; asserts that check mode reports the same and that a second run changes nothing."""
    told = [c.path for c in files.plan_all(list(directories), list(wanted), True).changes]
    plan = files.plan_all(list(directories), list(wanted), False)
    for change in plan.changes:
        files.apply(change)
    done = [change.path for change in plan.changes]
    assert told == done
    assert files.plan_all(list(directories), list(wanted), False).changes == []
    return done


def mode_of(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_directories_come_first_and_bring_their_parents(tmp_path):
    target = tmp_path / "a" / "b" / "slurm.conf"
    changed = converge(
        [directory(target.parent, mode="0750")], [file(target, content="x\n", mode="0600")]
    )
    assert changed == [str(target.parent), str(target)]
    assert target.read_text() == "x\n"
    assert (mode_of(target), mode_of(target.parent)) == (0o600, 0o750)


def test_content_mode_and_base64(tmp_path):
    target = tmp_path / "key"
    data = bytes(range(256))
    spec = file(target, content_b64=base64.b64encode(data).decode(), mode="0400")
    assert converge(wanted=[spec]) == [str(target)]
    assert target.read_bytes() == data
    target.chmod(0o644)
    assert converge(wanted=[spec]) == [str(target)]
    assert mode_of(target) == 0o400


def test_default_mode_is_0644(tmp_path):
    converge(wanted=[file(tmp_path / "f", content="x")])
    assert mode_of(tmp_path / "f") == 0o644


def test_a_link_is_replaced_by_a_file_and_back(tmp_path):
    target, other = tmp_path / "f", tmp_path / "other"
    other.write_text("precious\n")
    target.symlink_to(other)
    converge(wanted=[file(target, content="new\n")])
    assert not target.is_symlink()
    assert other.read_text() == "precious\n"
    converge(wanted=[file(target, link="other")])
    assert os.readlink(target) == "other"


def test_absent_removes_files_and_directories(tmp_path):
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "f").write_text("x")
    gone = [directory(tmp_path / "d", state="absent")]
    converge(gone, [file(tmp_path / "f", state="absent"), file(tmp_path / "g", state="absent")])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [420, 0o644, "rw", "9999", "644444"])
def test_a_mode_that_is_not_octal_text_is_refused(tmp_path, mode):
    with pytest.raises(files.FilesError, match="Remedy: quote it"):
        files.plan_all([], [file(tmp_path / "f", content="", mode=mode)], False)


def test_everything_is_refused_before_anything_is_written(tmp_path):
    wanted = [file(tmp_path / "good", content="x"), file(tmp_path / "no" / "f", content="x")]
    with pytest.raises(files.FilesError, match="its directory .* does not exist"):
        files.plan_all([], wanted, False)
    assert list(tmp_path.iterdir()) == []


def test_check_mode_counts_what_is_not_there_yet_as_a_change(tmp_path):
    wanted = [
        file(tmp_path / "no" / "f", content="x"),
        file(tmp_path / "owned", content="x", owner=NOBODY),
        file(tmp_path / "block", content="x", block={"marker": "m"}),
    ]
    assert len(files.plan_all([], wanted, True).changes) == 3
    for spec in wanted:
        with pytest.raises(files.FilesError, match="Remedy"):
            files.plan_all([], [spec], False)


def test_the_home_of_a_user_whom_check_mode_did_not_make():
    """The module has replaced ~USER where the host knows the user."""
    specs = (
        [directory("~nobody-yet/.config", owner="nobody-yet", mode="0700")],
        [file("~nobody-yet/.config/x", content="x", owner="nobody-yet", mode="0600")],
    )
    plan = files.plan_all(*specs, True)
    place = "/home/nobody-yet/.config"
    assert [change.path for change in plan.changes] == [place, f"{place}/x"]
    with pytest.raises(files.FilesError, match="nobody-yet"):
        files.plan_all(*specs, False)


def test_validate_keeps_the_old_file(tmp_path):
    target = tmp_path / "sudoers"
    target.write_text("good\n")
    plan = files.plan_all([], [file(target, content="bad\n", validate="grep -q good %s")], False)
    with pytest.raises(files.FilesError, match="left as it was"):
        files.apply(plan.changes[0])
    assert target.read_text() == "good\n"
    assert [path.name for path in tmp_path.iterdir()] == ["sudoers"]
    converge(wanted=[file(target, content="good 2\n", validate="grep -q good %s")])


def test_a_mount_point_is_written_in_place(tmp_path, monkeypatch):
    target = tmp_path / "hosts"
    target.write_text("old\n")
    inode = target.stat().st_ino

    def busy(*_args, **_kwargs):
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(files.os, "replace", busy)
    converge(wanted=[file(target, content="new\n")])
    assert (target.read_text(), target.stat().st_ino) == ("new\n", inode)
    assert [path.name for path in tmp_path.iterdir()] == ["hosts"]


def test_secret_and_binary_content_stay_out_of_the_diff(tmp_path):
    (tmp_path / "s").write_text("old password\n")
    (tmp_path / "b").write_bytes(b"\xff\x00")
    plan = files.plan_all(
        [],
        [
            file(tmp_path / "s", content="new password\n", secret=True),
            file(tmp_path / "b", content="text\n"),
        ],
        False,
    )
    secret, binary = (change.diff() for change in plan.changes)
    assert "password" not in str(secret)
    assert binary["before"] == "[binary, 2 bytes]\n"


class TestBlock:
    """The marked block in a file that somebody else owns."""

    spec = {"marker": "tw"}

    def test_added_replaced_and_removed(self, tmp_path):
        target = tmp_path / "hosts"
        target.write_text("127.0.0.1 localhost")
        target.chmod(0o640)
        free = {"owner": None, "group": None}
        converge(wanted=[file(target, content="10.0.0.1 a", block=self.spec, **free)])
        assert target.read_text() == ("127.0.0.1 localhost\n# BEGIN tw\n10.0.0.1 a\n# END tw\n")
        target.write_text(target.read_text() + "10.9.9.9 theirs\n")
        target.chmod(0o640)
        converge(wanted=[file(target, content="10.0.0.2 b\n", block=self.spec, **free)])
        assert target.read_text() == (
            "127.0.0.1 localhost\n# BEGIN tw\n10.0.0.2 b\n# END tw\n10.9.9.9 theirs\n"
        )
        assert mode_of(target) == 0o640
        converge(wanted=[file(target, state="absent", block=self.spec, **free)])
        assert target.read_text() == "127.0.0.1 localhost\n10.9.9.9 theirs\n"

    @pytest.mark.parametrize(
        ("place", "expected"),
        [
            ({}, "a1 a2 b BLOCK"),
            ({"insertbefore": "^a"}, "BLOCK a1 a2 b"),
            ({"insertafter": "^a"}, "a1 a2 BLOCK b"),
            ({"insertbefore": "BOF"}, "BLOCK a1 a2 b"),
            ({"insertafter": "EOF"}, "a1 a2 b BLOCK"),
            ({"insertbefore": "^nothing"}, "a1 a2 b BLOCK"),
        ],
    )
    def test_place(self, place, expected):
        text = files.edit_block("a1\na2\nb\n", "x", {"marker": "tw", **place})
        assert text.replace("# BEGIN tw\nx\n# END tw", "BLOCK").split() == expected.split()

    @pytest.mark.parametrize(
        ("text", "place", "expected"),
        [
            ("BLOCK a1 a2 b", {"insertbefore": "^a"}, "BLOCK a1 a2 b"),
            ("a1 BLOCK a2 b", {"insertbefore": "^a"}, "BLOCK a1 a2 b"),
            ("BLOCK a1 a2 b", {"insertafter": "^a"}, "a1 a2 BLOCK b"),
            ("a1 a2 b BLOCK", {"insertafter": "^a"}, "a1 a2 b BLOCK"),
            ("a1 BLOCK a2 b", {"insertbefore": "^nothing"}, "a1 BLOCK a2 b"),
            ("a1 BLOCK a2 b", {"insertbefore": "BOF"}, "a1 BLOCK a2 b"),
            ("a1 BLOCK a2 b", {}, "a1 BLOCK a2 b"),
        ],
    )
    def test_a_block_on_the_wrong_side_is_moved(self, text, place, expected):
        def lines(words):
            return words.replace(" ", "\n").replace("BLOCK", "# BEGIN tw\nx\n# END tw") + "\n"

        spec = {"marker": "tw", **place}
        assert files.edit_block(lines(text), "x", spec) == lines(expected)
        assert files.edit_block(lines(expected), "x", spec) == lines(expected)
        assert files.edit_block(lines(text), None, spec) == "a1\na2\nb\n"
        assert file_blocks.is_in_place(lines(text), spec) == (text == expected)
        assert file_blocks.is_in_place(lines(expected).rstrip("\n"), spec)

    def test_a_link_is_followed(self, tmp_path):
        (tmp_path / "real").write_text("x\n")
        (tmp_path / "link").symlink_to("real")
        converge(wanted=[file(tmp_path / "link", content="y", block=self.spec)])
        assert (tmp_path / "link").is_symlink()
        assert "y" in (tmp_path / "real").read_text()

    def test_a_lost_end_marker_is_refused(self, tmp_path):
        (tmp_path / "f").write_text("# BEGIN tw\nx\n")
        with pytest.raises(files.FilesError, match=f"{tmp_path}/f: has the line.*Remedy"):
            files.plan_all([], [file(tmp_path / "f", content="y", block=self.spec)], False)

    def test_bytes_that_are_no_utf8_survive(self, tmp_path):
        (tmp_path / "f").write_bytes(b"caf\xe9\n")
        converge(wanted=[file(tmp_path / "f", content="y", block=self.spec)])
        assert (tmp_path / "f").read_bytes().startswith(b"caf\xe9\n# BEGIN tw\n")

    def test_create_makes_a_missing_file(self, tmp_path):
        converge(wanted=[file(tmp_path / "f", content="y", block=self.spec, create=True)])
        assert (tmp_path / "f").read_text() == "# BEGIN tw\ny\n# END tw\n"


class TestLarge:
    """Files of any size, as a user can make them without using disk space."""

    @pytest.fixture
    def large(self, tmp_path):
        path = tmp_path / "large"
        path.touch()
        os.truncate(path, 1 << 40)
        return path

    def test_a_block_is_refused_with_a_remedy(self, large):
        spec = file(large, content="x\n", block={"marker": "m"})
        for check in (True, False):
            with pytest.raises(files.FilesError, match="/large: is larger than 8 MiB. Remedy: fin"):
                files.plan_all([], [spec], check)

    def test_its_attributes_are_managed_all_the_same(self, large):
        assert converge(wanted=[file(large, mode="0600")]) == [str(large)]

    @pytest.mark.parametrize("values", [{"content": "x\n"}, {"state": "absent"}])
    def test_it_is_replaced_or_removed_all_the_same(self, large, values):
        plan = files.plan_all([], [file(large, **values)], True)
        assert plan.changes[0].before == "[more than 67108864 bytes]\n"
        assert converge(wanted=[file(large, **values)]) == [str(large)]
