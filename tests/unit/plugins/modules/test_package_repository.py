# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The pins of a repository, in the order in which apt reads them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node.packages import (
    Installed,
    spellings,
)
from ansible_collections.trainwright.slurm.plugins.modules.package_repository import pins_text


def pairs(text: str) -> list[tuple[str, str, str]]:
    """Return the packages, the pin and its priority of each stanza."""
    stanzas = (stanza.splitlines() for stanza in text.split("\n\n")[1:])
    found = [[line.partition(": ")[2] for line in stanza] for stanza in stanzas]
    return [(packages, pin, priority) for packages, pin, priority in found]


class Apt:
    """apt with a repository of its own, which has a package of each version."""

    def __init__(self, root: Path, versions: tuple[str, ...]) -> None:
        self.names = {f"p{number}": text for number, text in enumerate(versions)}
        for name in ("etc/preferences.d", "state/lists/partial", "cache/archives/partial", "repo"):
            (root / name).mkdir(parents=True)
        (root / "status").touch()
        fields = "Architecture: all\nMaintainer: x\nFilename: ./x.deb\nSize: 1\nDescription: x"
        rows = (
            f"Package: {name}\nVersion: {text}\n{fields}\nSHA256: {'0' * 64}\n"
            for name, text in self.names.items()
        )
        (root / "repo" / "Packages").write_text("\n".join(rows))
        (root / "etc" / "sources.list").write_text(f"deb [trusted=yes] file:{root}/repo ./\n")
        places = {
            "Dir::Etc": root / "etc",
            "Dir::State": root / "state",
            "Dir::State::status": root / "status",
            "Dir::Cache": root / "cache",
            "Dir::Etc::sourceparts": "/dev/null",
            "APT::Sandbox::User": "root",
        }
        self.options = [f"-o{name}={value}" for name, value in places.items()]
        assert self.call("apt-get", "update").returncode == 0

    def call(self, tool: str, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [tool, *self.options, *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    def candidates(self) -> set[str]:
        """Return the versions that would be installed where none is named."""
        said = self.call("apt-cache", "policy", *self.names).stdout
        return {line.split()[1] for line in said.splitlines() if "Candidate:" in line} - {"(none)"}

    def installs(self, version: str, wanted: str) -> bool:
        """Tell whether apt-get takes the package of a version for one that is wanted."""
        name = next(name for name, text in self.names.items() if text == version)
        return self.call("apt-get", "--simulate", "install", f"{name}={wanted}").returncode == 0


def test_a_version_is_held_against_all_others() -> None:
    text = pins_text([{"packages": "libnccl2", "version": "2.27-1"}], "https://x.example/y")
    assert pairs(text) == [("libnccl2", "version 2.27-1", "1001"), ("libnccl2", "version *", "-1")]


VERSIONS = ("550.1", "550.1-1", "550.1-1ubuntu1", "550.1+x", "550.1.2-1", "550.10-1", "550.1~rc1-1", "1:550.1-1",
            "550.1a-1")  # fmt: skip


@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt")
@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ("550.1", ("550.1", "550.1-1", "550.1-1ubuntu1", "550.1+x", "550.1.2-1")),
        ("550.1-1", ("550.1-1",)),
        ("1:550.1", ("1:550.1-1",)),
        ("550", tuple(text for text in VERSIONS if not text.startswith("1:"))),
    ],
)
def test_apt_takes_the_version_and_none_that_only_begins_like_it(
    tmp_path: Path, wanted: str, taken: tuple[str, ...]
) -> None:
    """By apt itself: for a pin, for a name with a version, and for what is installed."""
    apt = Apt(tmp_path, VERSIONS)
    pins = pins_text([{"packages": "p*", "version": wanted}], "https://x.example/y")
    (tmp_path / "etc" / "preferences.d" / "pins").write_text(pins)
    assert apt.candidates() == set(taken)
    (tmp_path / "etc" / "preferences.d" / "pins").unlink()
    asked = [text for text in VERSIONS if apt.installs(text, spellings(wanted)[-1])]
    # A name with a version is for packages with revisions.
    assert asked == [text for text in taken if text != wanted or "-" in text]
    listed = "".join(f"installed\tp\tall\t{text}\t\n" for text in asked)
    for line, text in zip(listed.splitlines(), asked):
        assert Installed(line).has(f"p={spellings(wanted)[-1]}"), text


def test_a_repository_is_refused_before_the_version_counts() -> None:
    pin = {"packages": "nvidia-*", "version": "550*", "elsewhere": True}
    first = ("nvidia-*", 'origin "x.example"', "-1")
    assert pairs(pins_text([pin], "https://x.example:8443/y"))[0] == first
    assert pairs(pins_text([{**pin, "version": ""}], "https://x.example/y")) == [first]
    assert pairs(pins_text([pin], "file:///srv/packages"))[0] == ("nvidia-*", 'origin ""', "-1")
