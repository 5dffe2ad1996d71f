# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Names and versions that a host's repositories have, for one that they lack. Pure."""

from __future__ import annotations

import re
import typing as t

# apt-get in English, as LC_ALL=C.UTF-8 has it.
_VERSION = re.compile(r"Version '([^']+)' for '([^']+)' was not found")
_NAME = re.compile(
    r"(?:Unable to locate package|Couldn't find any package by (?:glob|regex)) '?([^'\s]+)'?"
)
_CANDIDATE = re.compile(r"Package '?([^'\s]+)'? has no installation candidate")
#: Of so many names or versions, a reader finds the right one.
_MOST = 8


def _listed(found: t.Iterable[str], nothing: str) -> str:
    names = list(dict.fromkeys(found))
    return ", ".join(names[:_MOST]) + (" ..." if names[_MOST:] else "") if names else nothing


def _versions(name: str, ask: t.Callable[..., str]) -> str:
    """Return the versions of a package, newest first."""
    rows = (line.split("|") for line in ask("madison", name).splitlines() if line.count("|") > 1)
    return _listed((row[1].strip() for row in rows), "no version")


def _names(name: str, ask: t.Callable[..., str]) -> str:
    """Return the names that differ from a name in their numbers alone."""
    stem = re.sub(r"[0-9][0-9.+-]*$", "", name)
    if stem == name or not stem.strip("-"):
        return "no package of a name like it"
    found = [
        one for one in ask("pkgnames", stem).split() if re.fullmatch(r"[0-9.+-]+", one[len(stem) :])
    ]
    return _listed(sorted(found, reverse=True), "no package of a name like it")


def remedy(output: str, ask: t.Callable[..., str]) -> str:
    """Return what apt-get did not find, what there is instead, and what to do; "" where it found all.

    output: of apt-get. ask: runs apt-cache with arguments and returns its output.
    """
    said = []
    for version, name in dict.fromkeys(_VERSION.findall(output)):
        said.append(
            f"{name}: no repository of this host gives {version}, known: {_versions(name, ask)}"
        )
    for name in dict.fromkeys(_CANDIDATE.findall(output)):
        said.append(
            f"{name}: no repository of this host may give it (pins), known: {_versions(name, ask)}"
        )
    for name in dict.fromkeys(_NAME.findall(output)):
        said.append(f"{name}: no repository of this host has it, known: {_names(name, ask)}")
    if not said:
        return ""
    return (
        f"({'; '.join(said)}; nothing was installed) -> name one that is known (for the GPU software in"
        " gpu_stack_versions), or the repository that has it, and run this again"
    )
