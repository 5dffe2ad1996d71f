# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The real apt in a directory of its own, with a repository and installed packages that have nothing in them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

#: Name, version, and what it depends on.
Package = tuple[str, str, str]


def _stanza(package: Package, more: str) -> str:
    name, version, depends = package
    lines = [f"Package: {name}", f"Version: {version}", "Architecture: all"]
    lines += ["Maintainer: x", "Description: x"]
    lines += [f"Depends: {depends}"] if depends else []
    return "\n".join(lines) + f"\n{more}\n"


class ScratchApt:
    """apt below a directory. config: the file that APT_CONFIG names, so that programs that call apt use it too."""

    def __init__(
        self, root: Path, listed: Sequence[Package], installed: Sequence[Package] = ()
    ) -> None:
        self.root = root
        for name in ("etc/preferences.d", "state/lists/partial", "cache/archives/partial", "repo"):
            (root / name).mkdir(parents=True)
        self.preferences = root / "etc" / "preferences.d"
        rest = f"Size: 1\nSHA256: {'0' * 64}\n"
        rows = (_stanza(one, f"Filename: ./{one[0]}_{one[1]}.deb\n{rest}") for one in listed)
        (root / "repo" / "Packages").write_text("".join(rows))
        status = "Status: install ok installed\n"
        (root / "status").write_text("".join(_stanza(one, status) for one in installed))
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
        self.output("apt-get", "update")

    def run(self, tool: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a tool of apt."""
        environment = {**os.environ, "LC_ALL": "C.UTF-8", **variables}
        # Not one that a test has put first in PATH.
        argv = [f"/usr/bin/{tool}", *self.options, *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)

    def output(self, tool: str, *words: str, **variables: str) -> str:
        """Run a tool of apt, and return what it prints."""
        done = self.run(tool, *words, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def installs(self, *words: str, **variables: str) -> dict[str, str]:
        """Return the versions that apt-get would install, by name."""
        said = self.output("apt-get", "--simulate", "--yes", *words, **variables)
        rows = [line.split() for line in said.splitlines() if line.startswith("Inst ")]
        return {row[1]: next(word for word in row if word.startswith("("))[1:] for row in rows}

    def candidate(self, name: str, **variables: str) -> str:
        """Return the version that would be installed where none is named, "" for none."""
        said = self.output("apt-cache", "policy", name, **variables)
        found = next((line for line in said.splitlines() if "Candidate:" in line), ": (none)")
        text = found.split()[-1]
        return "" if text == "(none)" else text
