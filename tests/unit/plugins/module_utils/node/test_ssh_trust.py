# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of users' SSH keys, on real files: also on those that a user makes to stop the work for all."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import socket
import stat

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import homes, ssh_trust

needs_keygen = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed here"
)


def keys(home: str, declared=None, check=False) -> list[str]:
    return ssh_trust.ensure_keys(home, "alice", True, declared, check)


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
        assert ssh_trust.ensure_keys(str(tmp_path), "alice", False, [], False) == []
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


def a_pipe(path):
    os.mkfifo(path)


def a_device(path):
    path.symlink_to("/dev/zero")


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def a_file_without_end(path):
    path.touch()
    os.truncate(path, 1 << 40)


def a_directory(path):
    path.mkdir()


@needs_keygen
@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("name", ["authorized_keys", "id_ed25519.pub", "id_ed25519"])
@pytest.mark.parametrize("make", [a_pipe, a_device, a_socket, a_file_without_end, a_directory])
def test_a_trap_is_refused_with_its_path_and_the_remedy(tmp_path, make, name, check):
    keys(str(tmp_path))
    for each in {name, "id_ed25519.pub"}:
        (tmp_path / ".ssh" / each).unlink()
    make(tmp_path / ".ssh" / name)
    with pytest.raises((OSError, homes.UsersError)) as caught:
        keys(str(tmp_path), check=check)
    said = str(caught.value)
    assert str(tmp_path / ".ssh" / name) in said
    assert ssh_trust.is_own_fault(caught.value, str(tmp_path))
    assert "move it away" in homes.remedy(said) or "No such device" in said


@needs_keygen
def test_a_public_half_that_is_not_text_is_refused(tmp_path):
    keys(str(tmp_path))
    (tmp_path / ".ssh" / "id_ed25519.pub").write_bytes(b"\xff\xfe\n")
    with pytest.raises(homes.UsersError, match="id_ed25519.pub: is not UTF-8"):
        keys(str(tmp_path))


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    "make", [a_pipe, lambda path: path.write_text(""), lambda path: path.symlink_to("no")]
)
def test_what_is_not_a_directory_is_refused_in_its_place(tmp_path, make, check):
    make(tmp_path / ".ssh")
    with pytest.raises(homes.UsersError, match="/.ssh: is not a directory"):
        keys(str(tmp_path), check=check)


def test_a_key_that_leads_nowhere_is_not_a_change_in_every_run(tmp_path):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519").symlink_to("missing")
    with pytest.raises(homes.UsersError, match="id_ed25519: is a link that leads nowhere"):
        keys(str(tmp_path))


def test_a_file_of_windows_is_not_changed_for_its_line_ends(tmp_path):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "authorized_keys").write_bytes(b"ssh-rsa AAAA laptop\r\n")
    assert ssh_trust.ensure_keys(str(tmp_path), "alice", False, [], False) == []


def test_keys_of_the_user_stay_where_the_end_of_a_block_was_removed():
    begin, end = "# BEGIN m\n", "# END m\n"
    text = f"{begin}old\nssh-ed25519 AAAA user\n"
    once = ssh_trust.with_block(text, "m", ["new"])
    assert once == f"{text}{begin}new\n{end}"
    assert ssh_trust.with_block(once, "m", ["new"]) == once
    assert ssh_trust.with_block(once, "m", []) == text
    assert ssh_trust.with_block(f"{end}{text}", "m", ["new"]) == f"{end}{once}"


@pytest.mark.parametrize("blank", ["\u2028", "\x0c", "\x1c", "\x85"])
def test_a_comment_of_a_key_keeps_its_characters(blank):
    text = f"ssh-ed25519 AAAA a{blank}b\n"
    assert ssh_trust.with_block(text, "m", []) == text
    assert ssh_trust.with_block(text, "m", ["new"]) == f"{text}# BEGIN m\nnew\n# END m\n"


class TestWhoseFault:
    """A full disk is the host's; a user's own file system or quota is not."""

    @pytest.mark.parametrize(
        ("code", "own"),
        [
            (errno.ENOSPC, False),
            (errno.EROFS, False),
            (errno.EIO, False),
            (errno.EDQUOT, True),
            (errno.EACCES, True),
        ],
    )
    def test_by_its_code_and_by_the_words_of_ssh_keygen(self, tmp_path, code, own):
        (tmp_path / ".ssh").mkdir()
        words = f'Saving key "/home/alice/.ssh/x/key" failed: {os.strerror(code)}'
        for error in (OSError(code, os.strerror(code)), homes.UsersError(words)):
            assert ssh_trust.is_own_fault(error, str(tmp_path)) == own

    def test_a_directory_on_another_file_system(self, tmp_path):
        (tmp_path / ".ssh").symlink_to("/dev/shm")
        assert ssh_trust.is_own_fault(OSError(errno.ENOSPC, ""), str(tmp_path))
