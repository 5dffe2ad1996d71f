# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why apt-get or dpkg failed, from what they printed: the cause whole and short, and what to do about it. Pure.

Runs on nodes: Python 3.9. The texts are those of apt 2.6 to 3.0 and dpkg 1.21 to 1.22, in C.UTF-8. Those of apt 3.0
may be changed by a site: APT::Output-Version 30, APT::Solver 3.0.
"""

from __future__ import annotations

import re
import typing as t

#: Characters of a cause; a transaction of many packages can have a line for each.
MOST = 1500
_ERROR = re.compile(r"(?:E|Error): (.*)")
_DEPENDENCIES = re.compile(
    r"The following packages have unmet dependencies:|Unsatisfied dependencies:"
)
_HELD = re.compile(r"The following held packages will be changed:|Changing held packages:")
_DPKG = re.compile(r"dpkg(?:-\w+)?: error\b.*")
#: Errors that only say that there is another one.
_EMPTY = re.compile(
    r"Sub-process \S*dpkg returned an error code|Unable to fetch some archives, maybe run apt-get update"
    r"|Some index files failed to download"
)
#: An error whose reason is in the lines before it.
_GENERAL = re.compile(r"you have held broken packages")
#: The proof of solver 3.0, which fills a page; what is missing is in one line of those before it, where there are any.
_PROOF = re.compile(r"Reached two conflicting decisions")
#: Remedies by a pattern of the cause; the first that fits counts.
_REMEDIES = (
    (r"Unmet dependencies\. Try|unmet dependencies\. Try",
     "repair the packages on the host (apt-get --fix-broken install), and run this again"),
    (r"dpkg was interrupted", "run dpkg --configure -a on the host, and run this again"),
    (r"The package (?P<name>\S+) needs to be reinstalled",
     "dpkg --remove --force-remove-reinstreq {name} on the host, and run this again"),
    (r"Could not get lock|Unable to acquire the dpkg frontend lock|Unable to lock",
     "let the other package manager end, and run this again"),
    (r"enough free space|No space left", "free space on the host, and run this again"),
    (r"Held packages were changed", "ask who holds them (apt-mark showhold on the host), and apt-mark unhold them"),
    (r"Version '\S+' for '(?P<name>[^']+)' was not found",
     "name a version that the repositories have (apt-cache madison {name} on the host)"),
    (r"Unable to locate package (?P<name>\S+)|Package '(?P<other>[^']+)' has no installation candidate",
     "correct the name, or the repositories of the host (apt-cache policy {name} there)"),
    (r"is not signed|NO_PUBKEY|EXPKEYSIG", "correct the key of that repository on the host"),
    (r"Failed to fetch|Could not (resolve|connect)|Temporary failure resolving|Hash Sum mismatch",
     "see whether the host reaches the repository (proxy_env), and run this again"),
    (r"trying to overwrite '[^']+', which is also in package (?P<name>\S+)",
     "remove {name}, or the package that brings the file too, and run this again"),
    # The last choice of solver 3.0's proof is the one that it could not make.
    (r"Depends: (?P<name>[^\s:]+)|^Unable to satisfy dependencies\..* Depends (?P<other>[^\s:|]+)",
     "see what keeps {name} back on the host: apt-cache policy {name}, apt-mark showhold, and the pins in"
     " /etc/apt/preferences.d"),
    (r"^dpkg", "look at /var/log/apt/term.log on the host, correct what the package's script says, and run this again"),
)  # fmt: skip


def _joined(lines: t.Iterable[str]) -> str:
    return " ".join(" ".join(lines).split())


def _block(lines: t.Sequence[str], start: int) -> list[str]:
    """Return the indented lines behind one."""
    found = []
    for line in lines[start + 1 :]:
        if not line.startswith(" ") or not line.strip():
            break
        found.append(line)
    return found


def _dependencies(lines: t.Sequence[str]) -> list[str]:
    """Return an entry for each dependency that is missing; the name of a package is in its first line alone."""
    found: list[str] = []
    name = ""
    for line in lines:
        package, colon, rest = line.strip().partition(" : ")
        if colon:
            name = package
        found.append(f"{name} {_joined([rest if colon else line])}")
    return found


def causes(output: str) -> list[str]:
    """Return the errors in an output, the first one of apt first, then what explains it; [] where it has none."""
    lines = output.splitlines()
    errors: list[str] = []
    details: list[str] = []
    for number, line in enumerate(lines):
        error = _ERROR.match(line)
        if error:
            errors.append(_joined([error[1], *_block(lines, number)]).rstrip("."))
        elif _DPKG.match(line):
            details.append(_joined([line, *_block(lines, number)]))
        elif _DEPENDENCIES.match(line):
            details += _dependencies(_block(lines, number))
        elif _HELD.match(line):
            details.append(f"held: {_joined(_block(lines, number))}")
    telling = [error for error in errors if not _EMPTY.search(error)]
    chosen = telling or ([] if details else errors)
    if details and chosen and _PROOF.search(chosen[0]):
        return list(dict.fromkeys([*details, *chosen]))
    return list(dict.fromkeys([*chosen[:1], *details, *chosen[1:]]))


def cause(output: str) -> str:
    """Return why it failed, in one line; the last lines of the output where no line says so."""
    found = causes(output) or [line.strip() for line in output.splitlines() if line.strip()][-4:]
    text, left = "", len(found)
    for one in found:
        if text and len(text) + len(one) > MOST:
            return f"{text}; and {left} more"
        text = f"{text}; {one}" if text else one[:MOST]
        left -= 1
    return text


def remedy(output: str) -> str:
    """Return what to do about the cause of an output."""
    # The first error counts, and what explains it before those behind.
    for one in causes(output):
        for pattern, text in _REMEDIES:
            found = re.search(pattern, one)
            if found and not _GENERAL.search(one):
                names = [name for name in found.groupdict().values() if name]
                return text.format(name=names[0] if names else "")
    return "fix what the package manager says and run this again"


def failure(output: str) -> str:
    """Return the cause with its remedy, as messages of failures have them."""
    return f"{cause(output)} -> {remedy(output)}"
