# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lines of fstab, options of mounts, and what mountinfo shows."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import fstab, machine

# As ParallelCluster and an installer of Debian leave it.
FSTAB = """# /etc/fstab: static file system information.
UUID=8e9e3aa0-1d7c-4b71-a1a7-0f0d0ec1a5b3 / ext4 errors=remount-ro 0 1
fs-0123456789abcdef0.fsx.eu-west-1.amazonaws.com@tcp:/abcdefgh /fsx lustre defaults,_netdev,flock,user_xattr 0 0

nas:/old  /home/  nfs  defaults  1 2
nas:/again /home nfs ro 0 0
//nas/a\\040b /with\\040blank cifs ro
"""
# The automount that waits, and one that has been used; recorded from systemd 257.
MOUNTINFO = """22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
550 22 0:459 / /late rw,relatime - autofs systemd-1 rw,fd=36,pgrp=1,timeout=0,minproto=5,maxproto=5,direct,pipe_ino=1
551 22 0:460 / /home rw,relatime - autofs systemd-1 rw,fd=37,pgrp=1,timeout=0,minproto=5,maxproto=5,direct,pipe_ino=2
552 551 0:61 / /home rw,relatime shared:330 - nfs4 nas:/home rw,vers=4.2,rsize=1048576
553 22 0:62 / /a\\040b rw - nfs4 nas:/a\\040b rw
"""

SYSTEMD = "_netdev,x-systemd.automount,x-systemd.mount-timeout=30"
NFS = f"hard,nconnect=8,rsize=1048576,wsize=1048576,{SYSTEMD}"
OPTIONS: list[tuple[str, str, str, str]] = [
    ("nfs", "nas:/home", "defaults", NFS),
    ("nfs4", "nas:/home", "nfsvers=4.2,nconnect=16,_netdev",
     "nfsvers=4.2,nconnect=16,_netdev,hard,rsize=1048576,wsize=1048576,x-systemd.automount,x-systemd.mount-timeout=30"),
    ("nfs4", "nas:/home", "soft,x-systemd.mount-timeout=5,noauto",
     "soft,x-systemd.mount-timeout=5,noauto,nconnect=8,rsize=1048576,wsize=1048576,_netdev"),
    ("nfs4", "nas:/home", "proto=rdma,port=20049",
     f"proto=rdma,port=20049,hard,rsize=1048576,wsize=1048576,{SYSTEMD}"),
    ("nfs4", "fs-1.efs.eu-west-1.amazonaws.com:/", "defaults",
     f"hard,nconnect=8,rsize=1048576,wsize=1048576,nfsvers=4.1,noresvport,{SYSTEMD}"),
    ("nfs4", "fs-1.efs.eu-west-1.amazonaws.com:/", "vers=4.0,resvport",
     f"vers=4.0,resvport,hard,nconnect=8,rsize=1048576,wsize=1048576,{SYSTEMD}"),
    ("lustre", "fs-1.fsx.eu-west-1.amazonaws.com@tcp:/abc", "defaults,relatime,localflock",
     f"relatime,localflock,{SYSTEMD}"),
    ("sitefs", "x", "_netdev", "_netdev,x-systemd.automount,x-systemd.mount-timeout=30"),
    ("sitefs", "x", "defaults", "defaults"),
    ("none", "/srv/home", "bind", "bind"),
    ("xfs", "/dev/sdb", "noatime", "noatime"),
]  # fmt: skip


def test_lines_of_others_are_left_as_they_are() -> None:
    """A form feed and U+2028 in a comment do not make a line of what follows them."""
    others = (
        "# old\x0cnas:/x /x nfs ro 0 0\n# old\u2028nas:/y /y nfs ro 0 0\nnas:/z /z nfs ro 0 0\r\n"
    )
    assert fstab.edit(others, {"/a": "nas:/a /a nfs ro"}) == f"{others}nas:/a /a nfs ro 0 0\n"
    assert [path for path, _type, _options in fstab.entries(others)] == ["/z"]


def test_a_line_of_ours_that_ends_as_on_windows_is_written_again() -> None:
    line = "nas:/a /a nfs ro 0 0"
    assert fstab.edit(f"{line}\r\n", {"/a": "nas:/a /a nfs ro"}) == f"{line}\n"


def test_what_fstab_has_and_is_not_mounted() -> None:
    text = (
        "nas:/late /late nfs defaults 0 0\nnas:/home /home/ nfs4 ro 0 0\nx@tcp:/a /fsx lustre _netdev 0 0\n"
        "nas:/no /no nfs noauto 0 0\n#nas:/old /old nfs ro 0 0\n/dev/sdb /disk xfs defaults 0 0\n/x /y\n"
        "nas:/b /with\\040blank nfs ro 0 0\n"
    )
    assert fstab.unmounted(text, MOUNTINFO) == ["/fsx", "/late"]


@pytest.mark.parametrize(("fstype", "source", "given", "wanted"), OPTIONS)
def test_a_mount_decides_before_its_type(fstype: str, source: str, given: str, wanted: str) -> None:
    assert fstab.options_of(fstype, source, given, 30) == wanted
    # Once written, it stays.
    assert fstab.options_of(fstype, source, wanted, 30) == wanted


def test_without_tuning_only_waiting_is_limited() -> None:
    assert fstab.options_of("nfs", "nas:/home", "defaults", 7, tuning=False) == SYSTEMD.replace(
        "30", "7"
    )


def test_lines_that_are_there_are_changed_and_others_stay() -> None:
    home = fstab.line_of("/home", "nas:/home", "nfs", "hard")
    text = fstab.edit(
        FSTAB, {"/home": home, "/new": fstab.line_of("/new", "nas:/new", "nfs4", "ro")}
    )
    before, after = FSTAB.splitlines(), text.splitlines()
    assert after == [
        *before[:4],
        "nas:/home /home nfs hard 1 2",
        before[6],
        "nas:/new /new nfs4 ro 0 0",
    ]
    assert fstab.edit(text, {"/home": home}) == text


def test_a_line_with_other_blanks_is_the_same() -> None:
    text = "nas:/home\t/home\tnfs\thard\t0\t0\n"
    assert fstab.edit(text, {"/home": "nas:/home /home nfs hard"}) == text


def test_the_last_mount_on_a_path_counts() -> None:
    found = fstab.mounted(MOUNTINFO)
    assert found["/home"][:2] == ("nfs4", "nas:/home") and found["/late"].fstype == "autofs"
    assert found["/a b"].source == "nas:/a b"


@pytest.mark.parametrize(
    ("path", "unit"),
    # As systemd-escape --path --suffix=mount prints them.
    [("/home", "home.mount"), ("/fsx/a-b/c.d/", "fsx-a\\x2db-c.d.mount"), ("/.x", "\\x2ex.mount"),
     ("/données", "donn\\xc3\\xa9es.mount"), ("/a@b+c", "a\\x40b\\x2bc.mount"), ("/", "-.mount")],
)  # fmt: skip
def test_names_of_units(path: str, unit: str) -> None:
    assert fstab.unit_of(path) == unit


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("ro,rw", ("ro", "rw")),
        ("hard,nconnect=8,soft", ("hard", "soft")),
        ("exec,nosuid,noexec", ("exec", "noexec")),
        ("vers=4.1,nfsvers=4.2", ("vers=4.1", "nfsvers=4.2")),
        ("rsize=1048576,rsize=65536", ("rsize=1048576", "rsize=65536")),
        ("relatime,noatime", ("relatime", "noatime")),
        ("nolock,local_lock=all,noatime,nodiratime", None),
        ("nfsvers=4.2,vers=4.2,ro,ro", None),
        ("x-systemd.requires=a,x-systemd.requires=b,_netdev", None),
        ("", None),
    ],
)
def test_options_that_exclude_each_other(options: str, found: tuple[str, str] | None) -> None:
    assert fstab.opposites(options.split(",")) == found


@pytest.mark.parametrize("end", ["\u2028", "\x0c", "\x1e", "\x85"])
def test_a_user_names_a_mount_point_and_not_a_mount(end: str) -> None:
    """The kernel escapes only blanks, tabs, line ends and backslashes in the name of a user's directory."""
    row = "60 22 0:70 / /home/eve/x{} rw,nosuid shared:9 - fuse.sshfs eve rw\n"
    forged = MOUNTINFO + row.format(f"{end}40\u200322\u20030:50\u2003/\u2003/shared")
    assert fstab.mounted(forged).keys() - fstab.mounted(MOUNTINFO).keys() == {
        f"/home/eve/x{end}40\u200322\u20030:50\u2003/\u2003/shared"
    }
    assert fstab.unmounted("nas:/s /shared nfs4 _netdev 0 0\n", forged) == ["/shared"]
    assert fstab.is_bound(forged, "/srv", "/shared") is None
    assert machine.mount_of("/shared/data", forged)["mount"] == "/"


def test_a_mount_without_a_source_keeps_its_options() -> None:
    found = fstab.mounted("60 22 0:70 / /x rw - tmpfs  ro\n")
    assert found == {"/x": fstab.Mount("tmpfs", "", is_read_only=True)}


def test_a_name_is_written_as_fstab_has_it() -> None:
    assert machine.escape_mount("/a b\\c\td\ne") == r"/a\040b\134c\011d\012e"
    assert machine.unescape_mount(machine.escape_mount("/a b\\040")) == "/a b\\040"
