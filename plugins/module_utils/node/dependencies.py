# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Dependencies that installed packages have lost, such as by dpkg --force-depends. Pure.

apt-get installs nothing more until they are back. dpkg's own list shows them without opening apt's cache, which costs
more than all else of a run that changes nothing. The forms are those of Debian Policy, chapters 5.6.12 and 7.
"""

from __future__ import annotations

import re
import typing as t
from itertools import zip_longest

#: Format of dpkg-query for Packages. Descriptions and other fields may have line breaks, these do not.
FORM = "${db:Status-Status}\t${Package}\t${Version}\t${Provides}\t${Pre-Depends}, ${Depends}\n"
_ONE = re.compile(r"([a-z0-9][a-z0-9+.-]*)(?::[a-z0-9-]+)?(?:\s*\((<<|<=|=|>=|>>)\s*([^)\s]+)\))?")


class Relation(t.NamedTuple):
    """One alternative of a dependency; operator and version are empty where any version will do."""

    name: str
    operator: str
    version: str


def _order(letter: str) -> int:
    """Return the place of a letter in the order of versions: ~ before the end, letters before other characters."""
    if letter == "~":
        return -1
    if not letter:
        return 0
    return ord(letter) if letter.isalpha() else ord(letter) + 256


def _compare_part(ours: str, theirs: str) -> int:
    """Compare an upstream version or a revision: text and numbers in turn."""
    pairs = zip_longest(
        re.findall(r"(\D*)(\d*)", ours), re.findall(r"(\D*)(\d*)", theirs), fillvalue=("", "")
    )
    for (text, number), (text_there, number_there) in pairs:
        for letter, other in zip_longest(text, text_there, fillvalue=""):
            if _order(letter) != _order(other):
                return -1 if _order(letter) < _order(other) else 1
        if int(number or 0) != int(number_there or 0):
            return -1 if int(number or 0) < int(number_there or 0) else 1
    return 0


def compare(ours: str, theirs: str) -> int:
    """Return -1, 0 or 1 as one version is before, the same as, or after another (deb-version(7))."""

    def split(version: str) -> tuple[str, str, str]:
        epoch, colon, rest = version.partition(":")
        upstream, dash, revision = (rest if colon else version).rpartition("-")
        return (epoch if colon else "0", upstream if dash else revision, revision if dash else "0")

    for one, other in zip(split(ours), split(theirs)):
        found = _compare_part(one, other)
        if found:
            return found
    return 0


def relations(field: str) -> list[list[Relation]]:
    """Return the dependencies of a field, each with its alternatives; one that cannot be read is left out."""
    found = []
    for dependency in field.split(","):
        matches = [_ONE.match(one.strip()) for one in dependency.split("|")]
        if dependency.strip() and all(matches):
            found.append(
                [
                    Relation(one.group(1), one.group(2) or "", one.group(3) or "")
                    for one in matches
                    if one
                ]
            )
    return found


class Packages:
    """Packages that dpkg has whole, from the output of dpkg-query with FORM."""

    def __init__(self, output: str) -> None:
        self.versions: dict[str, list[str]] = {}  # by name, of each architecture
        self.depends: dict[str, str] = {}
        self.provided: set[str] = set()
        for line in output.splitlines():
            status, name, version, provides, depends = (line.split("\t") + [""] * 5)[:5]
            if status != "installed":
                continue
            self.versions.setdefault(name, []).append(version)
            self.depends[name] = depends
            self.provided.update(one.name for row in relations(provides) for one in row)

    def meets(self, wanted: Relation) -> bool:
        """Whether a package is there that dpkg takes for it. One that only provides it counts in any version."""
        if wanted.name in self.provided:
            return True
        accepted = {"<<": (-1,), "<=": (-1, 0), "=": (0,), ">=": (0, 1), ">>": (1,)}
        return any(
            not wanted.operator or compare(version, wanted.version) in accepted[wanted.operator]
            for version in self.versions.get(wanted.name, ())
        )

    def lost(self, names: t.Iterable[str]) -> dict[str, str]:
        """Return what packages, and those that they need, have lost: what apt-get has to install, and who needs it.

        names: packages as apt-get takes them; one that is not there has not lost anything.
        """
        todo = [name.partition("=")[0] for name in names]
        seen = set(todo)
        found: dict[str, str] = {}
        while todo:
            package = todo.pop()
            for row in relations(self.depends.get(package, "")):
                if not any(self.meets(one) for one in row):
                    first = row[0]
                    exact = f"={first.version}" if first.operator == "=" else ""
                    found.setdefault(first.name + exact, package)
                for one in row:
                    if one.name in self.versions and one.name not in seen:
                        seen.add(one.name)
                        todo.append(one.name)
        return found
