# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what is removed from a machine before its disk becomes an image."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import imaging

GOES = (
    "etc/ssh/ssh_host_rsa_key",
    "etc/ssh/ssh_host_ed25519_key-cert.pub",
    "var/lib/cloud/instances/i-1/boot-finished",
    "var/lib/cloud/sem/config_ssh",
    "var/lib/dhcp/dhclient.eth0.leases",
    "var/lib/systemd/random-seed",
    "etc/munge/munge.key",
    "etc/slurm/jwt_hs256.key",
    "opt/site/etc/slurm.key",
    "etc/trainwright/join.key",
    "var/lib/trainwright/secrets/munge_key",
    "var/lib/trainwright/stamps/munge.service",
    "var/lib/trainwright/joined",
    "var/spool/slurmd/cred_state",
    "root/.bash_history",
    "root/.ssh/id_ed25519",
    "root/.aws/credentials",
    "root/.config/containers/auth.json",
    "home/ada/.aws/credentials",
    "home/ada/.config/containers/auth.json",
    "home/ada/.config/enroot/.credentials",
    "home/ada/.docker/config.json",
    "home/ada/.python_history",
    "home/ada/.ssh/known_hosts",
    "var/lib/apt/lists/archive_dists_trixie_InRelease",
    "var/log/journal/0123/system.journal",
    "var/log/syslog.1",
    "var/lib/dbus/machine-id",
    "etc/hostname",
)
EMPTY = ("etc/machine-id", "var/log/slurm/slurmd.log", "var/log/wtmp")
STAYS = (
    "etc/ssh/sshd_config",
    "etc/slurm/plugstack.conf",
    "etc/trainwright/join.json",
    "var/lib/trainwright/image.json",
    "var/lib/cloud/seed/nocloud/user-data",
    "var/lib/apt/lists/lock",
    "home/ada/data",
    "home/ada/.config/other",
    "root/.ssh/authorized_keys",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with all of it."""
    for name in (*GOES, *EMPTY, *STAYS):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("something", encoding="utf-8")
    return tmp_path


def clean(root: Path, authorized_keys: bool = False) -> dict[str, int]:
    found = imaging.find(authorized_keys, "/var/spool/slurmd", "/opt/site/etc", str(root))
    imaging.apply(found)
    return found.counts()


def test_what_two_machines_must_not_share_goes_and_the_rest_stays(root: Path) -> None:
    counts = clean(root)
    assert not [name for name in GOES if (root / name).exists()]
    assert {(root / name).read_text() for name in EMPTY} == {""}
    assert {(root / name).read_text() for name in STAYS} == {"something"}
    assert counts["SSH host keys"] == 2 and counts["machine-id"] == 2
    assert clean(root) == {}


def test_a_search_alone_changes_nothing(root: Path) -> None:
    imaging.find(True, root=str(root))
    assert all((root / name).read_text() == "something" for name in (*GOES, *EMPTY, *STAYS))


def test_keys_of_persons_go_only_when_that_is_asked(root: Path) -> None:
    assert clean(root, authorized_keys=True)["authorized keys"] == 1
    assert not (root / "root/.ssh/authorized_keys").exists()


def test_a_link_of_a_user_leads_nowhere(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither a home that is a link, nor one in the place of what is removed."""
    other = tmp_path_factory.mktemp("other")
    (other / ".bash_history").write_text("kept", encoding="utf-8")
    (other / "id_rsa").write_text("kept", encoding="utf-8")
    (root / "home" / "eve").symlink_to(other)
    (root / "home" / "bob").mkdir()
    (root / "home" / "bob" / ".ssh").symlink_to(other)
    (root / "home" / "ada" / ".bash_history").symlink_to(other / ".bash_history")
    (root / "var/log/link.log").symlink_to(other / "id_rsa")
    (root / "var/log/journal/linked").symlink_to(other)
    clean(root)
    assert sorted(path.name for path in other.iterdir()) == [".bash_history", "id_rsa"]
    assert (other / "id_rsa").read_text() == "kept"
    assert not (root / "home/ada/.bash_history").is_symlink()


def test_a_machine_id_that_is_a_link_stays(root: Path) -> None:
    """Debian's of D-Bus is one to /etc/machine-id."""
    (root / "var/lib/dbus/machine-id").unlink()
    (root / "var/lib/dbus/machine-id").symlink_to("/etc/machine-id")
    clean(root)
    assert (root / "var/lib/dbus/machine-id").is_symlink()


def test_a_new_machine_has_nothing_to_remove(tmp_path: Path) -> None:
    assert imaging.find(True, root=str(tmp_path)).counts() == {}


@pytest.mark.parametrize(
    ("mounts", "counts"),
    [
        ("/dev/sda2 / ext4\n/dev/sda3 /var ext4\n", True),
        ("/dev/sda2 / ext4\n/dev/mapper/vg-log /var xfs\ntmpfs /var/log/journal tmpfs\n", True),
        ("/dev/sda2 / ext4\ntmpfs /var tmpfs\n", False),
        ("/dev/sda3 /var ext4\nserver:/var /var nfs4\n", False),
        ("/dev/sda3 /home ext4\n/dev/sda4 /variable ext4\n", False),
    ],
)
def test_logs_on_a_disk_of_their_own_are_part_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: str, counts: bool
) -> None:
    """A stand-in for a machine whose /var is another file system than its root directory."""
    log = tmp_path / "root" / "var" / "log" / "syslog"
    log.parent.mkdir(parents=True)
    log.write_text("something", encoding="utf-8")
    (tmp_path / "mounts").write_text(mounts, encoding="utf-8")
    real, base = os.lstat, tmp_path / "root"

    def lstat(path: str, *more: object, **options: object) -> os.stat_result:
        inside = str(path).startswith(f"{base}/var") or str(path) in ("/var", "/home", "/variable")
        found = real(path if str(path) != "/variable" else "/var", *more, **options)  # type: ignore[arg-type]
        numbers = list(found)
        numbers[2] = 77 if inside else 1
        return os.stat_result(numbers)

    monkeypatch.setattr(imaging.os, "lstat", lstat)
    found = imaging.find(False, root=str(base), mounts=str(tmp_path / "mounts"))
    assert found.counts() == ({"logs": 1} if counts else {})


def test_a_controller_is_known_by_what_exists_once(tmp_path: Path) -> None:
    assert imaging.of_controller(str(tmp_path)) == ""
    accounts = tmp_path / "var/lib/mysql/slurm_acct_db"
    accounts.mkdir(parents=True)
    assert imaging.of_controller(str(tmp_path)) == "/var/lib/mysql/slurm_acct_db"
