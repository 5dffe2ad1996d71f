# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which packages dpkg has installed, by name and by what they provide. Pure."""

from __future__ import annotations

import re
import typing as t
from fnmatch import fnmatchcase

#: The directory of apt's preferences.
PINS = "/etc/apt/preferences.d"
#: Format of dpkg-query for Installed.
FORM = (
    "${db:Status-Status}\t${Package}\t${Architecture}\t${Version}\t${Provides}\t${db:Status-Want}\n"
)

#: States between none and installed: dpkg(1).
UNFINISHED = (
    "half-installed",
    "unpacked",
    "half-configured",
    "triggers-awaiting",
    "triggers-pending",
)


def spellings(version: str) -> list[str]:
    """Return the versions that apt is to take for one that somebody wrote, as patterns of apt and fnmatch.

    One with a revision is whole. Another takes its revisions and what it is a part of, with a mark between: 550.1 takes
    550.1-1 and 550.1.2-1, and not 550.10-1. apt reads a last * as any rest, so the pattern ends with a question mark.
    """
    if set(version) & set("-*?[/"):
        return [version]
    return [version, f"{version}[-+.]*?"]


class Installed:
    """Installed packages, from the output of dpkg-query with FORM."""

    def __init__(self, output: str) -> None:
        self.versions: dict[str, str] = {}  # by name, and by name:architecture
        self.provided: set[str] = set()
        self.held: set[str] = (
            set()
        )  # by apt-mark hold; this collection pins versions and holds no package
        #: Packages that dpkg has begun with and not finished, as when it was killed.
        self.unfinished: set[str] = set()
        for line in output.splitlines():
            fields = (line.split("\t") + [""] * 6)[:6]
            status, name, architecture, version, provides, want = fields
            if status in UNFINISHED:
                self.unfinished.add(name)
            if status != "installed":
                continue
            self.versions[name] = self.versions[f"{name}:{architecture}"] = version
            if want == "hold":
                self.held.add(name)
            # "libpmix2 (= 5.0.7-1), mpi-default"
            self.provided.update(re.findall(r"(?:^|, )([^\s,]+)", provides))

    def has(self, wanted: str) -> bool:
        """Whether a package is there that apt-get would take for wanted: NAME, NAME=VERSION, both with patterns.

        A name that only another package provides counts, as it does for a dependency (Debian Policy 7.5).
        """
        name, _equals, version = wanted.partition("=")
        if not version and name in self.provided:
            return True
        return any(fnmatchcase(found, version or "*") for found in self.matching(name).values())

    def missing(self, wanted: t.Iterable[str]) -> list[str]:
        """Return those that are not there."""
        return [name for name in wanted if not self.has(name)]

    def matching(self, pattern: str) -> dict[str, str]:
        """Return the versions of the packages that apt-get would take for a name, or a pattern of names."""
        if pattern in self.versions:
            return {pattern: self.versions[pattern]}
        return {
            name: version for name, version in self.versions.items() if fnmatchcase(name, pattern)
        }
