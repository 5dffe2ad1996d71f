# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nobody makes another user's directories of Enroot, and nobody's Enroot uses what somebody else made."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import user_directories

from tests.unit.images import FILES, library_of, needs_root, open_directory

__all__ = ["open_directory"]  # a fixture
pytestmark = needs_root
KINDS = ("run", "data", "cache", "tmp")
ALICE, BOB = 63001, 63002
# What Enroot does at each start (enroot.in of 4.1): it evaluates the values as the user, then makes the directories.
ENROOT = """
set -eu
data=$(eval echo '$({directory} {node}/data {node}/root/data)')
cache=$(eval echo '$({directory} {node}/cache {node}/root/cache)')
run=$(eval echo '$({directory} {node}/run {node}/root/run)')
(umask 077 && mkdir -p "$cache" "$data" "$run")
echo "$cache $data $run"
"""


class Node:
    """A host with the service, its directories and programs; path: its directory, which every user may enter."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.images = path / "images"
        for name in (*KINDS, "images"):
            (path / name).mkdir()
        for name in KINDS:
            (path / "root" / name).mkdir(parents=True)
            (path / "root" / name).chmod(0o700)
        self.sockets = path / "sockets"
        self.library = path / "lib"
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(path)}
        for name, text in library_of(FILES / "enroot-directories").items():
            self._write(
                self.library / name, text.replace("/run/trainwright-enroot", str(self.sockets))
            )
        for name in ("enroot-directory", "enroot-directories"):
            text = (FILES / name).read_text(encoding="utf-8")
            self._write(
                self.library / name, text.replace("/usr/lib/trainwright", str(self.library))
            )
        self.service: subprocess.Popen[bytes] | None = None
        self.journal = path / "journal"

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def start(self) -> None:
        """Start the service, as its unit does."""
        self.sockets.mkdir(exist_ok=True)
        program = str(self.library / "enroot-directories")
        parents = [str(self.path / name) for name in KINDS]
        with self.journal.open("ab") as journal:
            command = [program, "serve", "--images", str(self.images), *parents]
            self.service = subprocess.Popen(command, stderr=journal, env=self.environment)

    def stop(self) -> None:
        if self.service:
            self.service.kill()
            self.service.wait()

    def run(self, uid: int, script: str, **more: t.Any) -> subprocess.CompletedProcess[str]:
        """Run a script as a user."""
        return subprocess.run(
            ["bash", "-c", script],
            user=uid,
            group=uid,
            extra_groups=[],
            cwd=self.path,
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def enroot(self, uid: int) -> subprocess.CompletedProcess[str]:
        """What Enroot does at its start, as a user; its output: cache, data and runtime path."""
        script = ENROOT.format(directory=self.library / "enroot-directory", node=self.path)
        return self.run(uid, script)


@pytest.fixture
def node(open_directory: Path) -> t.Iterator[Node]:
    made = Node(open_directory)
    made.start()
    yield made
    made.stop()


def _seen(path: Path) -> tuple[int, int]:
    found = path.lstat()
    assert stat.S_ISDIR(found.st_mode)
    return found.st_uid, stat.S_IMODE(found.st_mode)


def test_each_user_gets_directories_of_their_own(node: Node) -> None:
    for uid in (ALICE, BOB):
        done = node.enroot(uid)
        assert done.returncode == 0, done.stderr
        expected = [str(node.path / kind / f"user-{uid}") for kind in ("cache", "data", "run")]
        assert done.stdout.split() == expected
        for kind in KINDS:
            assert _seen(node.path / kind / f"user-{uid}") == (uid, 0o700)
    assert {_seen(node.path / kind) for kind in KINDS} == {(0, 0o755)}
    # /run is empty after a reboot.
    shutil.rmtree(node.path / "run" / f"user-{ALICE}")
    assert node.enroot(ALICE).returncode == 0
    assert _seen(node.path / "run" / f"user-{ALICE}") == (ALICE, 0o700)


def test_root_has_its_own_where_no_user_has_any(node: Node) -> None:
    done = node.enroot(0)
    assert done.stdout.split() == [
        str(node.path / "root" / kind) for kind in ("cache", "data", "run")
    ]
    assert not any(
        path.name.startswith("user-") for kind in KINDS for path in (node.path / kind).iterdir()
    )


def test_the_kernel_refuses_to_make_anothers(node: Node) -> None:
    """Enroot's own line, with the paths of bob and of root, as alice."""
    for kind in KINDS:
        for path in (f"{kind}/user-{BOB}", f"{kind}/user-0", f"root/{kind}/docker"):
            done = node.run(ALICE, f'umask 077 && mkdir -p "{node.path}/{path}"')
            assert done.returncode == 1 and "Permission denied" in done.stderr
            assert not (node.path / path).exists()
    assert node.enroot(ALICE).returncode == 0
    moved = node.run(ALICE, f"mv data/user-{ALICE} data/user-{BOB}")
    assert moved.returncode == 1 and not (node.path / "data" / f"user-{BOB}").exists()


def test_root_in_a_namespace_is_still_the_user(node: Node) -> None:
    """Otherwise `unshare -r` would make the directories of root."""
    script = ENROOT.format(directory=node.library / "enroot-directory", node=node.path)
    done = node.run(ALICE, f"unshare -r bash -c '{script.replace(chr(39), chr(34))}'")
    assert done.returncode != 0
    assert not any((node.path / kind / "user-0").exists() for kind in KINDS)
    assert not any(list((node.path / "root" / kind).iterdir()) for kind in KINDS)


@pytest.mark.parametrize("trap", ["directory", "link", "open"])
def test_what_somebody_else_made_before_is_not_used(open_directory: Path, trap: str) -> None:
    """The parents of earlier releases were 1777."""
    node = Node(open_directory)
    for kind in KINDS:
        (node.path / kind).chmod(0o1777)
    theirs = {
        "directory": f"mkdir -m 777 data/user-{BOB}; echo x >data/user-{BOB}/planted",
        "link": f"mkdir -m 777 mine; echo x >mine/planted; ln -s $PWD/mine data/user-{BOB}",
        "open": f"mkdir -m 700 data/user-{BOB}",
    }[trap]
    planter = BOB if trap == "open" else ALICE
    if trap == "link":
        (node.path / "mine").mkdir()
        os.chown(node.path / "mine", ALICE, ALICE)
        theirs = theirs.replace("mkdir -m 777 mine; ", "")
    assert node.run(planter, f"umask 0; {theirs}").returncode == 0
    kept = node.run(BOB, "umask 077; mkdir cache/user-63002; echo layer >cache/user-63002/layer")
    assert kept.returncode == 0
    # Before the parents are closed, and without the service, Enroot ends.
    if trap != "open":
        done = node.enroot(BOB)
        assert done.returncode != 0 and "/dev/null" in done.stderr
    # A run of the role closes them.
    for kind in KINDS:
        (node.path / kind).chmod(0o755)
    node.start()
    try:
        done = node.enroot(BOB)
        assert done.returncode == 0, done.stderr
    finally:
        node.stop()
    own = node.path / "data" / f"user-{BOB}"
    assert _seen(own) == (BOB, 0o700) and list(own.iterdir()) == []
    assert (node.path / "cache" / f"user-{BOB}" / "layer").read_text() == "layer\n", (
        "a user's own stays"
    )
    away = [path for path in (node.path / "data").iterdir() if path.name.startswith("not-used-")]
    journal = node.journal.read_text()
    if trap == "open":
        assert away == [] and journal == ""
    else:
        assert len(away) == 1 and away[0].lstat().st_uid == ALICE
        assert f"{own}: belongs to {ALICE} and is not used; it is {away[0].name} now" in journal


def test_a_directory_that_others_may_enter_is_closed(node: Node) -> None:
    assert node.enroot(ALICE).returncode == 0
    own = node.path / "cache" / f"user-{ALICE}"
    own.chmod(0o777)
    assert node.enroot(ALICE).returncode == 0
    assert _seen(own) == (ALICE, 0o700)


@pytest.mark.parametrize("fault", ["owner", "mode", "gone"])
def test_a_parent_that_is_not_roots_alone_is_refused(node: Node, fault: str) -> None:
    data = node.path / "data"
    if fault == "owner":
        os.chown(data, ALICE, ALICE)
    elif fault == "mode":
        data.chmod(0o1777)
    else:
        data.rmdir()
    done = node.enroot(BOB)
    assert done.returncode != 0 and not (data / f"user-{BOB}").exists()
    why = {
        "owner": f"{data} belongs to {ALICE}",
        "mode": f"{data} has the mode 1777",
        "gone": "No such file",
    }
    assert why[fault] in done.stderr and "-> run site.yml" in done.stderr


def test_the_service_waits_for_nobody(node: Node) -> None:
    """A client that neither sends nor reads, and one that ends, hold nobody up."""
    hold = "import socket, time\nopen = []\n"
    hold += f"for _ in range(200):\n  s = socket.socket(socket.AF_UNIX); s.connect('{node.sockets}/directories')\n"
    hold += "  open.append(s)\nprint('held', flush=True)\ntime.sleep(60)\n"
    assert node.enroot(ALICE).returncode == 0, "it runs"
    with subprocess.Popen(
        ["python3", "-c", hold], user=ALICE, group=ALICE, extra_groups=[], stdout=subprocess.PIPE
    ) as held:
        assert held.stdout and held.stdout.readline() == b"held\n"
        began = time.monotonic()
        done = node.enroot(BOB)
        held.kill()
    assert done.returncode == 0 and time.monotonic() < began + 10, done.stderr


# Each process also ends by itself, should the test be killed.
FLOOD = """
import os, signal, socket, sys
for _ in range(60):
    if not os.fork():
        break
else:
    print("up", flush=True)
signal.alarm(60)
while True:
    with socket.socket(socket.AF_UNIX) as one:
        one.setblocking(False)
        try:
            one.connect(sys.argv[1])
        except BlockingIOError:
            pass
"""


def test_a_flood_of_one_user_does_not_keep_out_the_others(node: Node) -> None:
    """Processes that connect in a loop, and do not wait for an answer, keep the queue of the socket full."""
    assert node.enroot(ALICE).returncode == 0, "it runs"
    with subprocess.Popen(
        ["python3", "-c", FLOOD, str(node.sockets / "directories")],
        user=ALICE,
        group=ALICE,
        extra_groups=[],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as flood:
        try:
            assert flood.stdout and flood.stdout.readline() == b"up\n"
            done = [node.enroot(uid) for uid in range(BOB, BOB + 3)]
        finally:
            os.killpg(flood.pid, signal.SIGKILL)
    assert [one.returncode for one in done] == [0] * 3, [one.stderr for one in done]
    assert _seen(node.path / "data" / f"user-{BOB + 2}") == (BOB + 2, 0o700)
    assert node.journal.read_text() == "", "clients that leave are nothing to report"


def test_a_restart_of_the_service_is_waited_for(node: Node) -> None:
    node.stop()
    waiting = subprocess.Popen(
        [str(node.library / "enroot-directories"), "ask"],
        user=BOB,
        group=BOB,
        extra_groups=[],
        env=node.environment,
    )
    time.sleep(0.5)
    node.start()
    assert waiting.wait(30) == 0
    assert _seen(node.path / "data" / f"user-{BOB}") == (BOB, 0o700)


def test_without_the_service_enroot_ends_and_says_where_to_look(node: Node) -> None:
    node.stop()
    shutil.rmtree(node.sockets)
    done = node.enroot(BOB)
    assert done.returncode != 0 and done.stdout == ""
    assert "systemctl status enroot-directories" in done.stderr
    assert not (node.path / "data" / f"user-{BOB}").exists()


def test_a_users_images(open_directory: Path) -> None:
    """Root makes the directory of a user's images, by the name that this host has for the user."""
    users = open_directory / "users"
    users.mkdir()
    nobody = 65534
    assert user_directories.make_store(str(users), nobody, nobody) == ""
    assert _seen(users / "nobody") == (nobody, 0o755)
    (users / "nobody").chmod(0o700)
    assert user_directories.make_store(str(users), nobody, nobody) == ""
    assert _seen(users / "nobody") == (nobody, 0o700), "the user may close it"
    (users / "nobody").rmdir()
    (users / "nobody").mkdir(0o700)
    assert user_directories.make_store(str(users), nobody, nobody) == ""
    assert _seen(users / "nobody") == (nobody, 0o755), "an earlier call was interrupted"
    assert "does not exist" in user_directories.make_store(str(users), ALICE, ALICE)
    assert "cannot have" in user_directories.make_store(str(users), 0, 0)
    assert os.listdir(users) == ["nobody"]
