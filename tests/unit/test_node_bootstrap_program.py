# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The script node-bootstrap: where it takes a bundle from and what it refuses, with substitutes for programs."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.plugin_utils import node_bundle

from tests.unit.images import ROOT

PROGRAM = ROOT / "playbooks" / "files" / "node_bootstrap" / "node-bootstrap"
BUNDLE = "node-bundle-0123456789ab.tar.gz"
RUN = b"""
import os, sys
print("ran", sorted(name for name in os.environ if "ANSIBLE" in name))
sys.exit(os.environ["http_proxy"] == "FAIL")
"""


class Node:
    """A node as root sees it; stat says that everything belongs to root."""

    def __init__(self, root: Path, python: int = 9) -> None:
        self.root = root
        self.state = root / "state"
        self.shared = root / "shared"
        (root / "bin").mkdir()
        self.shared.mkdir()
        self.bundle = self.shared / BUNDLE
        self.bundle.write_bytes(node_bundle.pack([("run.py", RUN), ("packages/x.deb", b"x")]))
        self.sum = hashlib.sha256(self.bundle.read_bytes()).hexdigest()
        self.program("id", "echo ${WHO:-0}")
        self.program("stat", "echo 0 755")
        text = PROGRAM.read_text(encoding="utf-8")
        for old, new in {
            "@bundle@": BUNDLE,
            "@sha256@": self.sum,
            "@minor@": str(python),
            "state=/var/lib/trainwright/bootstrap": f"state={self.state}",
        }.items():
            assert old in text
            text = text.replace(old, new)
        self.script = self.shared / "node-bootstrap"
        self.script.write_text(text, encoding="utf-8")

    def program(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def run(self, *arguments: str, **environment: str) -> tuple[int, str]:
        """Exit code and output."""
        done = subprocess.run(
            ["sh", str(self.script), *arguments],
            env={"PATH": f"{self.root}/bin:/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_bundle_beside_it_runs_without_the_callers_ansible(node: Node) -> None:
    code, said = node.run(ANSIBLE_STRATEGY="evil", ANSIBLE_CONFIG="/evil")
    assert code == 0, said
    assert "ran ['ANSIBLE_CONFIG']" in said and said.endswith(
        "container jobs can run on this node\n"
    )
    assert node.state.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in node.state.iterdir()} == {"lock", node.sum}


def test_what_is_there_needs_no_bundle_and_older_ones_go(node: Node) -> None:
    assert node.run()[0] == 0
    (node.state / ("0" * 64)).mkdir()
    node.bundle.unlink()
    code, said = node.run()
    assert code == 0 and "ran" in said
    assert {path.name for path in node.state.iterdir()} == {"lock", node.sum}


@pytest.mark.parametrize(
    ("program", "address"),
    [("aws", f"s3://bucket/prefix/{BUNDLE}"), ("curl", f"https://example.org/{BUNDLE}")],
)
def test_a_bundle_from_an_address(node: Node, program: str, address: str) -> None:
    node.program(program, f'echo "$@" >{node.root}/called; for last; do :; done; case $last in http*) last=$7 ;; esac; '
                          f'cp {node.bundle} "$last"')  # fmt: skip
    code, said = node.run(address)
    assert code == 0, said
    assert address in (node.root / "called").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", ["", ":/usr/bin", ".:/usr/bin", "/usr/bin:", "/usr/bin::/bin", "bin"]
)
def test_programs_of_the_callers_directory_are_not_run(node: Node, path: str) -> None:
    ran, place = node.root / "ran", node.root / "home"
    (place / "bin").mkdir(parents=True)
    for name in ("id", "readlink", "stat", "mkdir", "aws"):
        for directory in (place, place / "bin"):
            (directory / name).write_text(f"#!/bin/sh\ntouch {ran}\n", encoding="utf-8")
            (directory / name).chmod(0o755)
    command = ["/bin/sh", str(node.script), "s3://bucket/x"]
    subprocess.run(command, env={"PATH": path}, cwd=place, capture_output=True, check=False)
    assert not ran.exists()


def test_a_tree_is_on_the_disk_before_it_has_its_name(node: Node) -> None:
    called = node.root / "called"
    node.program("sync", f'echo "$@" >{called}; ls {node.state} "$2" >>{called}')
    assert node.run()[0] == 0
    words = called.read_text(encoding="utf-8").split()
    assert words[:2] == ["-f", str(Path(node.state, "work", "tree"))] and "run.py" in words
    assert node.sum not in words
    # One that cannot be written does not get it.
    (node.root / "again").mkdir()
    again = Node(node.root / "again")
    again.program("sync", "exit 1")
    assert again.run()[0] == 1 and not (again.state / again.sum).exists()


def test_another_bundle_is_refused_before_it_is_unpacked(node: Node) -> None:
    other = node.root / "other.tar.gz"
    other.write_bytes(node_bundle.pack([("run.py", b"print('evil')")]))
    code, said = node.run(str(other))
    assert code == 1 and "is not the bundle that this script was made with" in said
    assert "evil" not in said and not (node.state / node.sum).exists()


def test_a_bundle_that_is_not_there_is_named(node: Node) -> None:
    code, said = node.run("/none")
    assert code == 1 and "/none: cannot be read -> give the path, or the https:// or s3://" in said


@pytest.mark.parametrize("seen", ["1000 755", "0 775", "0 757", "0 1777"])
def test_a_directory_that_others_can_change_is_refused(node: Node, seen: str) -> None:
    node.program("stat", f"echo {seen}")
    code, said = node.run()
    assert code == 1 and "somebody other than root can change it -> correct its owner" in said


def test_a_user_is_refused(node: Node) -> None:
    code, said = node.run(WHO="1000")
    assert code == 1 and "is not root -> run it as root" in said and not node.state.exists()


def test_a_node_without_a_python_that_is_new_enough(tmp_path: Path) -> None:
    code, said = Node(tmp_path, python=99).run()
    assert code == 1 and "there is no Python 3.99 or later that belongs to root alone" in said


def test_a_run_that_fails_ends_it_and_says_what_that_means(node: Node) -> None:
    code, said = node.run(http_proxy="FAIL")
    assert code == 1 and "their steps are refused on this node, and all other jobs run" in said
