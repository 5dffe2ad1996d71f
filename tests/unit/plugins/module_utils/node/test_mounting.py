# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plans of mounts and directories, servers that do not answer, and what a tree of directories may not reach."""

from __future__ import annotations

import grp
import os
import pwd
import resource
import stat
import subprocess
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import files, mounting

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to others")
HOME = {"path": "/home", "source": "nas:/home", "fstype": "nfs4", "options": "defaults"}
LINE = (
    "nas:/home /home nfs4 hard,nconnect=8,rsize=1048576,wsize=1048576,_netdev,x-systemd.automount,"
    "x-systemd.mount-timeout=30 0 0\n"
)
WAITS = "550 22 0:459 / /home rw - autofs systemd-1 rw\n"
THERE = "552 550 0:61 / /home rw - nfs4 nas:/home rw\n"
OTHER = "552 550 0:61 / /home rw - nfs4 old:/home rw\n"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the fstab and the mountinfo of a host."""
    monkeypatch.setattr(mounting, "FSTAB", str(tmp_path / "fstab"))
    monkeypatch.setattr(mounting, "MOUNTINFO", str(tmp_path / "mountinfo"))
    (tmp_path / "mountinfo").write_text("")
    return tmp_path


def test_a_new_mount_is_a_line_and_a_mount(host: Path) -> None:
    plan = mounting.plan([HOME], 30, True)
    assert (plan.before, plan.text) == ("", LINE)
    assert plan.changed == [str(host / "fstab"), "/home"] and plan.waiting == []
    assert [one["path"] for one in plan.pending] == ["/home"]
    mounting.write_fstab(plan.text)
    assert (host / "fstab").read_text() == LINE
    assert stat.S_IMODE((host / "fstab").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("mountinfo", "waiting"), [(WAITS, ["/home"]), (WAITS + THERE, []), (THERE, [])]
)
def test_what_is_there_does_not_change(host: Path, mountinfo: str, waiting: list[str]) -> None:
    """Neither is a mount that its automount has not made yet a change."""
    (host / "fstab").write_text(LINE)
    (host / "mountinfo").write_text(mountinfo)
    plan = mounting.plan([HOME], 30, True)
    assert plan.changed == [] == plan.warnings and plan.text == plan.before
    assert plan.waiting == waiting


def test_another_source_is_left_to_its_jobs(host: Path) -> None:
    (host / "fstab").write_text("old:/home /home nfs4 ro 0 0\n")
    (host / "mountinfo").write_text(OTHER)
    plan = mounting.plan([HOME], 30, True)
    assert plan.text == LINE and plan.pending == []
    (warning,) = plan.warnings
    assert "/home is mounted from old:/home, and the inventory has nas:/home" in warning
    assert "drain the host" in warning


def test_a_source_with_a_blank_is_the_one_that_is_mounted(host: Path) -> None:
    """Preflight has people write it as fstab(5) does."""
    (host / "mountinfo").write_text(THERE.replace("nas:/home", r"nas:/old\040home"))
    plan = mounting.plan([{**HOME, "source": r"nas:/old\040home"}], 30, True)
    assert plan.warnings == [] and r"nas:/old\040home /home nfs4" in plan.text


def test_a_mount_that_became_read_only_is_named(host: Path) -> None:
    (host / "fstab").write_text(LINE)
    (host / "mountinfo").write_text(THERE.replace("/home rw", "/home ro"))
    plan = mounting.plan([HOME], 30, True)
    (warning,) = plan.warnings
    assert plan.changed == [] and warning.startswith("/home is mounted read-only, and ")
    assert "mount -o remount,rw /home" in warning
    assert mounting.plan([{**HOME, "options": "ro"}], 30, True).warnings == []


@pytest.mark.parametrize(
    "row", ["40 22 8:17 / /home rw - ext4 /dev/sdb1 rw", "40 22 0:50 / /home rw - tmpfs tmpfs rw"]
)
def test_a_disk_in_the_place_of_storage_is_refused(host: Path, row: str) -> None:
    (host / "mountinfo").write_text(row + "\n")
    with pytest.raises(
        mounting.MountingError, match="is mounted there, and the inventory has nfs"
    ) as said:
        mounting.plan([HOME], 30, True)
    assert "Nothing was changed. Remedy: drain the host, umount /home" in str(said.value)


@pytest.mark.parametrize(
    ("there", "wanted", "warned"),
    [
        ("0:50 / /home rw - lustre 10.0.0.1@tcp:/fsx", "fs-1.fsx.aws.internal@tcp:/fsx", False),
        ("0:50 / /home rw - lustre 10.0.0.1@tcp:/old", "10.0.0.1@tcp:/new", True),
        ("8:1 /srv/a /home rw - ext4 /dev/sda1", "/srv/a", False),
        ("8:1 /srv/b /home rw - ext4 /dev/sda1", "/srv/a", True),
        ("8:1 /srv/a\\040b /home rw - ext4 /dev/sda1", "/srv/a\\040b", False),
    ],
)
def test_another_lustre_or_directory_is_named(
    host: Path, there: str, wanted: str, warned: bool
) -> None:
    (host / "mountinfo").write_text(f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 22 {there} rw\n")
    bind = {"fstype": "none", "options": "bind"} if wanted.startswith("/") else {"fstype": "lustre"}
    plan = mounting.plan([{**HOME, "source": wanted, **bind}], 30, True)
    assert plan.pending == [] and bool(plan.warnings) is warned


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("/home/apps", "bind,_netdev,x-systemd.automount,x-systemd.mount-timeout=30"),
        ("/site/apps", "bind,_netdev,x-systemd.automount,x-systemd.mount-timeout=30"),
        ("/homes/apps", "bind"),
        ("/srv/apps", "bind"),
    ],
)
def test_a_bind_of_storage_with_a_server_does_not_hold_up_boot(
    host: Path, source: str, line: str
) -> None:
    """Else it is one of the host's own disks for systemd: emergency mode when the server is away."""
    (host / "fstab").write_text("nas:/site /site nfs4 _netdev 0 0\n/dev/sdb /srv xfs noatime 0 0\n")
    bind = {"path": "/opt/apps", "source": source, "fstype": "none", "options": "bind"}
    plan = mounting.plan([HOME, bind], 30, True)
    assert plan.text.splitlines()[-1] == f"{source} /opt/apps none {line} 0 0"
    mounting.write_fstab(plan.text)
    assert mounting.plan([HOME, bind], 30, True).text == plan.text


def test_a_helper_that_mounts_by_another_client_is_none(host: Path) -> None:
    row = "40 22 0:50 / /home rw - nfs files.example.org:/home rw\n"
    (host / "mountinfo").write_text(row)
    given = {"source": "files.example.org:/home", "fstype": "aznfs", "options": "_netdev"}
    plan = mounting.plan([{**HOME, **given}], 30, True)
    assert plan.pending == [] == plan.warnings


def test_noauto_is_not_mounted(host: Path) -> None:
    plan = mounting.plan([{**HOME, "options": "noauto"}], 30, True)
    assert plan.pending == [] and plan.changed == [str(host / "fstab")]


class Systemd:
    """systemctl and journalctl of a host on which a mount comes after some attempts, or never."""

    def __init__(self, host: Path, attempts: int | None) -> None:
        self.host = host
        self.attempts = attempts
        self.started: list[list[str]] = []

    def __call__(self, argv: list[str], timeout: float | None = None) -> t.Any:
        told = ""
        if argv[1] == "show":
            told = "\n\n".join("ActiveState=failed\nNeedDaemonReload=no" for _ in argv[4:])
        elif argv[1] == "start":
            self.started.append(argv[3:])
            if self.attempts is not None and len(self.started) >= self.attempts:
                (self.host / "mountinfo").write_text(THERE)
        elif argv[0] == "journalctl":
            told = "Mounting home.mount - /home...\nmount.nfs4: Connection refused\nhome.mount: Failed\n"
        return subprocess.CompletedProcess(argv, 0, told, "")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounting, "_RETRY_S", 0.05)
    monkeypatch.setattr(mounting, "_POLL_S", 0.01)
    monkeypatch.setattr(mounting, "_LATE_S", 0.04)
    monkeypatch.setattr(mounting, "mount_point", lambda path: "")


def test_a_late_mount_is_waited_for(
    host: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd = Systemd(host, attempts=3)
    monkeypatch.setattr(mounting, "run", systemd)
    (pending,) = mounting.plan([HOME], 30, True).pending
    (line,) = mounting.mount_all([pending], 20)
    assert "/home was mounted after 0 s, of at most 20 s" in line
    assert systemd.started == [["home.automount", "home.mount"]] * 3


def test_a_mount_that_does_not_come_is_named_with_the_reason(
    host: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounting, "run", Systemd(host, attempts=None))
    data = {**HOME, "path": "/home/data"}
    with pytest.raises(mounting.MountingError) as raised:
        mounting.mount_all(mounting.plan([HOME, data], 30, True).pending, 0.2)
    message = str(raised.value)
    assert message.startswith(
        "not mounted within 0 s: /home (mount.nfs4: Connection refused); /home/data ("
    )
    assert "No directory was made there" in message and "\n" not in message


def test_what_is_inside_another_mount_waits_for_it(
    host: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd = Systemd(host, attempts=None)
    monkeypatch.setattr(mounting, "run", systemd)
    data = {**HOME, "path": "/home/data"}
    with pytest.raises(mounting.MountingError):
        mounting.mount_all(mounting.plan([HOME, data], 30, True).pending, 0.2)
    assert systemd.started and all("home-data.mount" not in units for units in systemd.started)


def test_a_server_that_hangs_does_not_hang_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "stat"
    program.write_text(
        '#!/bin/sh\ncase "$3" in *hung) exec sleep 60;; *) exec /usr/bin/stat "$@";; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    start = time.monotonic()
    mounting.ask([str(tmp_path)], 20)
    with pytest.raises(mounting.MountingError) as raised:
        mounting.ask(["/fsx/hung", "/no/such", str(tmp_path)], 0.5)
    assert time.monotonic() - start < 10
    message = str(raised.value)
    assert "/fsx/hung (no answer); /no/such (No such file or directory)." in message
    assert str(tmp_path) not in message


# --- before anything is changed ----


@pytest.mark.parametrize(
    ("shown", "reloads"),
    [
        ("LoadState=loaded\nNeedDaemonReload=no", 0),
        ("LoadState=loaded\nNeedDaemonReload=yes", 1),
        # A run was killed after it had written a new line.
        ("LoadState=not-found\nNeedDaemonReload=no", 1),
    ],
)
def test_systemd_reads_what_an_ended_run_has_written(
    monkeypatch: pytest.MonkeyPatch, shown: str, reloads: int
) -> None:
    calls: list[str] = []

    def run(argv: list[str], timeout: float | None = None) -> t.Any:
        calls.append(argv[1])
        return subprocess.CompletedProcess(argv, 0, shown, "")

    monkeypatch.setattr(mounting, "run", run)
    mounting.read_again(["home.mount"], False)
    assert calls.count("daemon-reload") == reloads


def test_an_fstab_that_cannot_be_written_is_an_error_with_a_remedy(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host / "file").write_text("")
    monkeypatch.setattr(mounting, "FSTAB", str(host / "file/fstab"))
    with pytest.raises(
        mounting.MountingError, match="cannot be written, and is as it was: Not a dir"
    ):
        mounting.write_fstab(LINE)


def test_a_mount_point_behind_a_link_is_refused(host: Path) -> None:
    (host / "real").mkdir()
    (host / "link").symlink_to(host / "real")
    new = {**HOME, "path": str(host / "link/home")}
    with pytest.raises(mounting.MountingError) as raised:
        mounting.refuse_links(mounting.plan([new], 30, True))
    assert f"write {host}/real/home as the path of the mount" in str(raised.value)
    mounting.refuse_links(mounting.plan([{**HOME, "path": str(host / "real/home")}], 30, True))


def test_whatever_another_host_has_to_answer_for_is_asked(host: Path) -> None:
    """A bind may be of shared storage, and a type that is not in the table may have a server."""
    mounts = [
        {**HOME, "path": path, "fstype": fstype}
        for path, fstype in (("/home", "nfs4"), ("/b", "none"), ("/f", "fuse.x"), ("/d", "xfs"))
    ]
    assert mounting.may_hang(mounts) == []
    (host / "mountinfo").write_text(
        WAITS
        + "1 1 0:1 / /b rw - ext4 x rw\n1 1 0:1 / /f rw - fuse.x x rw\n1 1 0:1 / /d rw - xfs x rw\n"
    )
    assert mounting.may_hang(mounts) == ["/b", "/f"]


# --- directories --------------------------------------------------------------------------------------------------


def me() -> dict[str, str]:
    return {
        "owner": pwd.getpwuid(os.getuid()).pw_name,
        "group": grp.getgrgid(os.getgid()).gr_name,
    }


def wanted(
    path: Path, mode: str = "0750", recursive: bool = False, **more: t.Any
) -> dict[str, t.Any]:
    given = {
        "path": str(path),
        **me(),
        "mode": mode,
        "recursive": recursive,
        "remove_after_days": 0,
    }
    return {**given, **more}


def test_directories_are_made_once(tmp_path: Path) -> None:
    specs = [wanted(tmp_path / f"model{number}/{name}") for number in range(7) for name in "abcd"]
    assert len(mounting.directories(specs, check=True)) == 28
    assert not list(tmp_path.iterdir())
    assert len(mounting.directories(specs, check=False)) == 28
    assert mounting.directories(specs, check=False) == [] == mounting.directories(specs, check=True)
    assert stat.S_IMODE((tmp_path / "model3/c").stat().st_mode) == 0o750


def test_what_is_below_changes_only_when_asked(tmp_path: Path) -> None:
    top, outside = tmp_path / "top", tmp_path / "outside"
    (top / "sub").mkdir(parents=True)
    outside.mkdir()
    for file in (top / "data", top / "sub/run", outside / "secret", outside / "twice"):
        file.write_text("x")
    (top / "sub/run").chmod(0o700)
    (outside / "secret").chmod(0o600)
    (outside / "twice").chmod(0o600)
    (top / "link").symlink_to(outside / "secret")
    (top / "linked").symlink_to(outside)
    (top / "second").hardlink_to(outside / "twice")
    os.mkfifo(top / "pipe", 0o600)

    def modes() -> dict[str, str]:
        return {
            path.name: oct(stat.S_IMODE(path.lstat().st_mode))[2:]
            for path in (top / "sub", top / "data", top / "sub/run", top / "pipe",
                         outside, outside / "secret", outside / "twice")
        }  # fmt: skip

    mounting.directories([wanted(top, "2775")], check=False)
    before = modes()
    assert before["sub"] == "755" and before["run"] == "700"
    asked = wanted(top, "2775", recursive=True)
    assert mounting.directories([asked], check=True) == [f"{top} (3 below it)"]
    assert modes() == before
    assert mounting.directories([asked], check=False) == [f"{top} (3 below it)"]
    assert modes() == {**before, "sub": "2775", "data": "664", "run": "775"}
    assert mounting.directories([asked], check=False) == []


def test_a_deep_tree_does_not_use_up_open_files(tmp_path: Path) -> None:
    depth, limit = 150, resource.getrlimit(resource.RLIMIT_NOFILE)
    path = tmp_path
    for _level in range(depth):
        path /= "d"
        path.mkdir(mode=0o700)
    (path / "end").write_text("")
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, limit[1]))
    try:
        asked = wanted(tmp_path, "0750", recursive=True)
        assert mounting.below(asked, check=False) == depth + 1
        assert mounting.below(asked, check=False) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_what_cannot_be_changed_is_named_and_the_rest_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "immutable", "z"):
        (tmp_path / name).touch(0o600)
    fixed, change = (tmp_path / "immutable").stat().st_ino, os.fchmod

    def fchmod(handle: int, mode: int) -> None:
        if os.fstat(handle).st_ino == fixed:
            raise PermissionError(1, "Operation not permitted")
        change(handle, mode)

    monkeypatch.setattr(os, "fchmod", fchmod)
    with pytest.raises(mounting.MountingError) as raised:
        mounting.below(wanted(tmp_path, "0640", recursive=True), check=False)
    message = str(raised.value)
    assert "1 files or directories below it kept" in message and "lsattr -R" in message
    assert "'immutable' (Operation not permitted), and 2 were changed" in message


@ROOT_ONLY
def test_root_gives_nothing_away_below_a_link(tmp_path: Path) -> None:
    """Alice replaces a directory of hers by a link to a directory of root's."""
    tmp_path.chmod(0o755)
    hers, roots = tmp_path / "alice", tmp_path / "root"
    hers.mkdir()
    roots.mkdir()
    os.chown(hers, 12345, 12345)
    (hers / "model1").symlink_to(roots)
    os.chown(hers / "model1", 12345, 12345, follow_symlinks=False)
    asked = wanted(hers / "model1/x", "0777", recursive=True, owner="12345", group="12345")
    with pytest.raises(files.FilesError, match="is a symbolic link of"):
        mounting.directories([asked], check=False)
    assert list(roots.iterdir()) == [] and roots.stat().st_uid == 0


@ROOT_ONLY
def test_old_files_are_removed_only_where_no_user_can_lead_elsewhere(tmp_path: Path) -> None:
    """systemd-tmpfiles follows a link on the way to a directory, and its owner can make one at any time."""
    tmp_path.chmod(0o755)
    top = tmp_path / "top"
    top.mkdir(mode=0o755)
    aged = {"remove_after_days": 7, "owner": "12345", "mode": "0755"}
    assert mounting.directories([wanted(top / "tmp", **aged)], check=False)
    hers = [wanted(top / "hers", owner="12345"), wanted(top / "hers/work/tmp", **aged)]
    assert len(mounting.directories(hers, check=True)) == 2
    with pytest.raises(mounting.MountingError) as raised:
        mounting.directories(hers, check=False)
    assert f"others than root can change {top}/hers, so a link" in str(raised.value)


@ROOT_ONLY
def test_a_mount_point_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert mounting.mount_point(str(tmp_path / "a/b")) == ""
    assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755
    (tmp_path / "home/alice").mkdir(parents=True)
    warning = mounting.mount_point(str(tmp_path / "home"))
    assert "has 1 entries, such as alice, that the mount hides" in warning
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o755
