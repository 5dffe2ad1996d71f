# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Shared by the tests of images: a registry, a fake Enroot, and a node with the commands.

The fake has the command line and the output of Enroot 4.1 (src/docker.sh, src/common.sh) and
makes real squashfs files by mksquashfs.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.lookup.node_library import entries
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import store

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "roles/enroot/files"
TAG = "registry.example.org/team/train:main"
SOAK = bool(os.environ.get("TRAINWRIGHT_SOAK"))

needs_mksquashfs = pytest.mark.skipif(
    not shutil.which("mksquashfs"), reason="mksquashfs is not installed (squashfs-tools)"
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

ENROOT = (ROOT / "tests/fixtures/containers/enroot").read_text(encoding="utf-8")


def library_of(*programs: Path) -> dict[str, str]:
    """Return what programs import, as roles install it: each file's path in the library and its text."""
    found = entries(programs, "/", "files")
    return {entry["path"].lstrip("/"): entry["content"] for entry in found}


@pytest.fixture
def open_directory() -> t.Iterator[Path]:
    """A directory that other users may enter, as those of pytest are not."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield Path(path)


class World:
    """A registry and one node; path: its directory, which every user may enter."""

    def __init__(self, path: Path, pause: float = 0.0) -> None:
        self.path = path
        self.registry = path / "registry"
        self.store = path / "images"
        self.staged = path / "scratch"
        self.library = path / "lib"
        self.bin = path / "bin"
        for directory in (self.registry, self.library, self.bin, self.registry / "temp"):
            directory.mkdir()
        (self.registry / "temp").chmod(0o1777)
        (self.registry / "log").touch()
        (self.registry / "log").chmod(0o666)
        self._program("enroot", ENROOT.replace("@pause@", str(pause)))
        config = path / "images.json"
        config.write_text(json.dumps({"store": str(self.store), "staged": str(self.staged)}))
        names = ("image-import", "pyxis-importer")
        written = 0
        for path, text in library_of(*(FILES / name for name in names)).items():
            target = self.library / path
            target.parent.mkdir(parents=True, exist_ok=True)
            written += text.count("/etc/trainwright/images.json")
            target.write_text(
                text.replace("/etc/trainwright/images.json", str(config)), encoding="utf-8"
            )
        assert written == 1
        for name in names:
            text = (FILES / name).read_text(encoding="utf-8")
            assert text.count('"/usr/lib/trainwright"') == 1
            text = text.replace("/usr/lib/trainwright", str(self.library))
            self._program(name, text)

    def _program(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(text.replace("@registry@", str(self.registry)), encoding="utf-8")
        path.chmod(0o755)

    def push(self, image: str, content: bytes) -> str:
        """Point a tag to an image with this content; return its digest."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        root = self.registry / digest
        root.mkdir(exist_ok=True)
        (root / "data").write_bytes(content)
        (self.registry / image.replace("/", "_").replace("#", "_")).write_text(digest)
        return digest

    def calls(self, verb: str) -> list[str]:
        """The calls of the fake Enroot."""
        lines = (self.registry / "log").read_text(encoding="utf-8").splitlines()
        return [line for line in lines if line.startswith(f"{verb} ")]

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a process on the node."""
        return {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.path)}

    def start(self, *command: str, **more: t.Any) -> subprocess.Popen[str]:
        """Start a command of the node in a process group of its own."""
        own = more.pop("environment", {})
        return subprocess.Popen(
            [str(self.bin / command[0]), *command[1:]],
            env={**self.environment, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **more,
        )

    def run(self, *command: str, **more: t.Any) -> subprocess.CompletedProcess[str]:
        """Run a command of the node."""
        process = self.start(*command, **more)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def content_of(image: str | Path) -> bytes:
    """The squashed content; fails on a damaged image."""
    done = subprocess.run(["unsquashfs", "-cat", str(image), "data"], capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def left_over(store: Path) -> list[str]:
    """Files of producers, which nobody who has ended leaves behind."""
    return [
        entry for entry in os.listdir(store / ".images") if entry.startswith((".work", ".link"))
    ]


def present(
    world: World, name: str = "train", reference: str = TAG, **more: t.Any
) -> dict[str, t.Any]:
    """Point a name in the world's store to an image."""
    return store.present(str(world.store), name, reference, **more)
