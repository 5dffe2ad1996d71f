# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The installer is run alone, within its deadline, and from an archive that leads nowhere else."""

from __future__ import annotations

import fcntl
import io
import os
import subprocess
import tarfile
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import efa, efa_installer


def program(directory: Path, text: str) -> str:
    """The directory of an installer with this text."""
    top = directory / "aws-efa-installer"
    top.mkdir()
    (top / "efa_installer.sh").write_text(f"#!/bin/bash\n{text}\n")
    return str(top)


def start(directory: Path, text: str, seconds: float = 20.0) -> str:
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT)
    try:
        top = program(directory, text)
        return efa_installer.call(top, ["-y"], seconds, lock, dict(os.environ))
    finally:
        os.close(lock)


def test_its_output_and_its_directory(tmp_path: Path) -> None:
    assert start(tmp_path, 'echo "$PWD $*"; echo done >&2').splitlines() == [
        f"{tmp_path}/aws-efa-installer -y",
        "done",
    ]


def test_a_failure_has_the_code_and_the_last_lines(tmp_path: Path) -> None:
    with pytest.raises(efa_installer.Failed, match=r"exit 7: .*line 40 \| Error: no") as caught:
        start(tmp_path, 'for i in $(seq 40); do echo "line $i"; done; echo "Error: no" >&2; exit 7')
    assert caught.value.code == 7 and caught.value.lines[-1] == "Error: no"
    assert "line 1 " not in str(caught.value)


def test_the_cause_of_apt_is_not_cut_off(tmp_path: Path) -> None:
    """The installer goes on after it, with lines of its own."""
    text = 'echo "E: Unable to locate package x" >&2; for i in $(seq 40); do echo "line $i"; done; exit 1'
    with pytest.raises(
        efa_installer.Failed,
        match=r"exit 1: apt-get: Unable to locate package x \| line 29 .* line 40\. R",
    ):
        start(tmp_path, text)


def test_at_the_deadline_everything_that_it_started_ends(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(
        efa_installer.Failed, match="not finished after 1 seconds.*waiting"
    ) as caught:
        start(tmp_path, f"echo waiting; sleep 1234 & echo $! >{tmp_path}/child; wait", 1)
    assert caught.value.code == 124 and time.monotonic() - began < 15
    child = (tmp_path / "child").read_text().strip()
    state = subprocess.run(
        ["ps", "-o", "stat=", child], capture_output=True, text=True, check=False
    )
    assert not state.stdout.strip() or state.stdout.startswith("Z")


def test_the_lock_is_held_as_long_as_the_installer_runs(tmp_path: Path) -> None:
    """Also where the module that started it is gone: the next run waits."""
    path = str(tmp_path / "run" / "lock")
    os.chmod(tmp_path, 0o755)
    with efa_installer.alone(1, path) as lock:
        child = subprocess.Popen(["sleep", "2"], pass_fds=(lock,))
    began = time.monotonic()
    with pytest.raises(efa.EfaError, match="another run"), efa_installer.alone(0.5, path):
        pass
    with efa_installer.alone(10, path):
        assert time.monotonic() - began > 0.5
    child.wait()


def test_a_package_manager_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "lock-frontend"
    path.touch()
    efa_installer.wait_for_dpkg(1, [str(path), str(tmp_path / "missing")])
    text = (
        f"import fcntl, time; f = open('{path}', 'w'); fcntl.lockf(f, fcntl.LOCK_EX);"
        " print('x', flush=True); time.sleep(2)"
    )
    child = subprocess.Popen(["python3", "-c", text], stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline()
    with pytest.raises(efa.EfaError, match="a package manager has held it"):
        efa_installer.wait_for_dpkg(0.6, [str(path)])
    efa_installer.wait_for_dpkg(10, [str(path)])
    child.wait()


def archive(path: Path, change: t.Callable[[tarfile.TarInfo], None] | None = None) -> str:
    """An archive with the program, and one more member."""
    with tarfile.open(path, "w:gz") as packed:
        member = tarfile.TarInfo("aws-efa-installer/efa_installer.sh")
        member.size, member.mode, member.uid = 5, 0o4777, 1234
        packed.addfile(member, io.BytesIO(b"exit\n"))
        more = tarfile.TarInfo("aws-efa-installer/more")
        if change:
            change(more)
        packed.addfile(more)
    return str(path)


def test_an_archive_is_unpacked_as_roots_own(tmp_path: Path) -> None:
    path = archive(tmp_path / "good.tar.gz")
    top = efa_installer.unpack(path, str(tmp_path / "to"))
    info = os.stat(os.path.join(top, "efa_installer.sh"))
    assert info.st_mode & 0o7777 == 0o755 and info.st_uid == os.getuid()
    assert efa_installer.sha256(path) != efa_installer.sha256(os.path.join(top, "more"))


def named(name: str) -> t.Callable[[tarfile.TarInfo], None]:
    return lambda member: setattr(member, "name", name)


def linked(target: str, kind: bytes = tarfile.SYMTYPE) -> t.Callable[[tarfile.TarInfo], None]:
    def change(member: tarfile.TarInfo) -> None:
        member.type, member.linkname = kind, target

    return change


@pytest.mark.parametrize(
    "change",
    [
        named("aws-efa-installer/../../outside"),
        named("/etc/outside"),
        named("elsewhere/file"),
        linked("/etc"),
        linked("../../etc"),
        linked("", tarfile.CHRTYPE),
        linked("", tarfile.FIFOTYPE),
    ],
)
def test_an_archive_that_leads_elsewhere_is_refused(
    tmp_path: Path, change: t.Callable[[tarfile.TarInfo], None]
) -> None:
    path = archive(tmp_path / "evil.tar.gz", change)
    with pytest.raises(efa.EfaError, match="the archive has"):
        efa_installer.unpack(path, str(tmp_path / "to"))


def test_what_is_no_archive_of_the_installer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("<html>")
    with pytest.raises(efa.EfaError, match="is not an archive"):
        efa_installer.unpack(str(tmp_path / "page"), str(tmp_path / "to"))
    with tarfile.open(tmp_path / "empty.tar.gz", "w:gz"):
        pass
    with pytest.raises(efa.EfaError, match="does not have aws-efa-installer"):
        efa_installer.unpack(str(tmp_path / "empty.tar.gz"), str(tmp_path / "to"))


def test_the_directory_is_private_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    (tmp_path / "efa-installer-of-a-killed-run").mkdir()
    with efa_installer.private_directory(str(tmp_path)) as directory:
        assert os.stat(directory).st_mode & 0o777 == 0o700
        assert os.listdir(tmp_path) == [os.path.basename(directory)]
        variables = efa_installer.environment(directory, 77)
        assert "77" in Path(variables["APT_CONFIG"]).read_text()
    assert os.listdir(tmp_path) == []


class Apt:
    """apt-get and dpkg that answer as they are told. going: packages that it would remove; broken: until repaired."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.going: list[str] = []
        self.states = ""
        self.broken = True
        monkeypatch.setattr(efa_installer, "run", self.run)

    def run(
        self, argv: list[str], timeout: float, variables: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        line = " ".join(argv)
        self.calls.append(line)
        if argv[0] == "dpkg-query":
            return subprocess.CompletedProcess(argv, 0, self.states, "")
        if "--remove" in line:
            self.states = ""
        if "--simulate" in line:
            return subprocess.CompletedProcess(
                argv, 0, "".join(f"Remv {one} [1]\n" for one in self.going), ""
            )
        if line.endswith("--fix-broken install"):
            self.broken = False
        return subprocess.CompletedProcess(
            argv, 1 if line == "apt-get check" and self.broken else 0, "", ""
        )

    def changes(self) -> list[str]:
        looks = ("apt-get check", "dpkg-query")
        return [
            line for line in self.calls if "--simulate" not in line and not line.startswith(looks)
        ]


def test_a_repair_removes_packages_of_efa_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    apt = Apt(monkeypatch)
    apt.going = ["libfabric-aws-bin", "site-solver"]
    with pytest.raises(efa.EfaError, match=r"would remove site-solver"):
        efa_installer.repair(10, unfinished=False)
    assert apt.changes() == []
    apt.going = ["libfabric-aws-bin"]
    efa_installer.repair(10, unfinished=False)
    assert len(apt.changes()) == 1 and not apt.broken
    efa_installer.repair(10, unfinished=True)
    assert apt.changes()[-1] == "dpkg --force-confdef --force-confold --configure -a"


def test_a_package_of_efa_that_was_not_unpacked_whole_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No repository has it, and the installer brings it again; one of somebody else is unpacked again."""
    apt = Apt(monkeypatch)
    apt.broken = False
    monkeypatch.setattr(efa_installer.dpkg_repair, "interrupted", lambda: False)
    apt.states = (
        "installed\tok\tbash\tamd64\t5\nhalf-installed\treinstreq\tsite-tool\tamd64\t1-1\n"
        "half-installed\treinstreq\tlibfabric1-aws\tamd64\t2.4.0\n"
    )
    efa_installer.repair(10, unfinished=False)
    configure, again, own, fix, removal = apt.changes()
    assert fix.endswith("--no-remove --fix-broken install")
    assert configure.endswith("--configure -a") and own.endswith("libfabric1-aws:amd64=2.4.0")
    assert again.startswith("apt-get --yes") and again.endswith("install site-tool:amd64=1-1")
    assert "--no-remove" in again and "--force-confold" in again
    assert removal.endswith("--force-remove-reinstreq --force-depends libfabric1-aws:amd64")


def test_nothing_else_is_removed_with_the_distributions_mpi(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apt = Apt(monkeypatch)
    apt.going = ["openmpi-bin", "site-solver"]
    with pytest.raises(efa.EfaError, match="would also remove site-solver"):
        efa_installer.remove_packages("debian", ["openmpi-bin"], ["openmpi-*"])
    assert apt.changes() == []
    apt.going = ["openmpi-bin"]
    assert efa_installer.remove_packages("debian", ["openmpi-bin"], ["openmpi-*"]) == [
        "openmpi-bin"
    ]
    assert len(apt.changes()) == 1


def test_flock_is_what_the_lock_is(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    path = str(tmp_path / "lock")
    with efa_installer.alone(1, path):
        handle = os.open(path, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)
