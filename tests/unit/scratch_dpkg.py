# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The real dpkg and apt on a root of their own, with packages that are made here and can end dpkg in the middle."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

#: A script of a package that kills dpkg while the file is there.
KILLER = """#!/bin/sh
test ! -e {kill} || kill -9 $PPID
"""


class ScratchDpkg:
    """A root with dpkg's database, a repository, and bin, whose programs work on that root."""

    def __init__(self, base: Path) -> None:
        self.root, self.repository, self.bin = base / "root", base / "repository", base / "bin"
        self.kill = base / "kill"
        below = (
            "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/lib/apt/lists/partial",
            "var/cache/apt/archives/partial", "var/log/apt", "etc/apt/preferences.d", "usr/sbin",
        )  # fmt: skip
        for name in below:
            (self.root / name).mkdir(parents=True)
        for name in ("status", "available"):
            (self.root / "var/lib/dpkg" / name).touch()
        for path in (self.repository, self.bin):
            path.mkdir()
        (self.root / "etc/apt/sources.list").write_text(
            f"deb [trusted=yes] file:{self.repository} ./\n"
        )
        force = "--force-script-chrootless --force-not-root"
        apt = {
            "Dir": self.root,
            "Dir::State::status": self.root / "var/lib/dpkg/status",
            "Dir::Bin::dpkg": self.bin / "dpkg",
            "Dir::Bin::methods": "/usr/lib/apt/methods",
            "APT::Sandbox::User": "root",
        }
        for tool, options in (
            ("dpkg", f"--root={self.root} {force}"),
            ("dpkg-query", f"--admindir={self.root}/var/lib/dpkg"),
            ("apt-get", " ".join(f"-o{name}={value}" for name, value in apt.items())),
        ):
            program = self.bin / tool
            program.write_text(f'#!/bin/sh\nexec /usr/bin/{tool} {options} "$@"\n')
            program.chmod(0o755)

    def package(self, name: str, version: str, depends: str = "", killer: str = "") -> None:
        """Make a package with a file of configuration. killer: its script that may kill dpkg."""
        tree = self.root.parent / "tree" / f"{name}_{version}"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "etc" / name).mkdir(parents=True)
        (tree / "etc" / name / "conf").write_text(f"of version {version}\n")
        control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: x\nDescription: x\n"
        control += f"Depends: {depends}\n" if depends else ""
        (tree / "DEBIAN" / "control").write_text(control)
        (tree / "DEBIAN" / "conffiles").write_text(f"/etc/{name}/conf\n")
        if killer:
            (tree / "DEBIAN" / killer).write_text(KILLER.format(kill=self.kill))
            (tree / "DEBIAN" / killer).chmod(0o755)
        command = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(self.repository)]
        subprocess.run(command, check=True, capture_output=True)

    def index(self) -> None:
        """Let apt see the packages that are there now."""
        stanzas = []
        for path in sorted(self.repository.glob("*.deb")):
            command = ["dpkg-deb", "--field", str(path)]
            fields = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            data = path.read_bytes()
            places = f"Filename: ./{path.name}\nSize: {len(data)}\n"
            stanzas.append(f"{fields}{places}SHA256: {hashlib.sha256(data).hexdigest()}\n")
        (self.repository / "Packages").write_text("\n".join(stanzas))
        self.run("apt-get", "update")

    def run(self, tool: str, *words: str, check: bool = True) -> str:
        """Run apt-get, dpkg or dpkg-query on the root, and return what it prints."""
        environment = {
            **os.environ,
            "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
            "PATH": f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin",
        }
        argv = [str(self.bin / tool), *words]
        done = subprocess.run(
            argv,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done.stdout + done.stderr

    def states(self) -> dict[str, str]:
        """Return by name the state in two or three letters, and the version."""
        form = "${Package} ${db:Status-Abbrev} ${Version}\n"
        rows = (
            line.split()
            for line in self.run("dpkg-query", "-W", "-f", form, check=False).splitlines()
        )
        return {row[0]: " ".join(row[1:]) for row in rows if len(row) == 3}

    def edit(self, name: str) -> Path:
        """Change the file of configuration of a package, as an administrator does."""
        path = self.root / "etc" / name / "conf"
        path.write_text("of the site\n")
        return path
