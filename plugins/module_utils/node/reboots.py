# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a node waits for a reboot: one file a reason. Runs on nodes: Python 3.9.

A role that needs a reboot writes one line to DIRECTORY/<part> and never reboots. /run is empty after a reboot, so no
reason outlives what it asked for.
"""

from __future__ import annotations

import os
import re
import stat

DIRECTORY = "/run/trainwright/reboot-required"
#: Where Debian and Ubuntu say that an upgrade wants one; with .pkgs, the packages.
OF_SYSTEM = "/run/reboot-required"
PART = r"[a-z][a-z0-9_]{0,31}"
#: One line that a reason in Slurm can hold: printable ASCII without quotes, backslash, = and |.
REASON = r"[ !#-&(-<>-\[\]-{}~]{1,120}"
_OTHER = re.compile(r"[^ !#-&(-<>-\[\]-{}~]")
_MOST = 16


def plain(text: str) -> str:
    """Return a text as REASON wants it: its first line that is not empty, other characters as dots."""
    line = next((one.strip() for one in text.splitlines() if one.strip()), "")
    return _OTHER.sub(".", line)[:120].strip()


def _read(path: str) -> str | None:
    """Return the beginning of a regular file. A pipe would wait for its writer, and a link could lead to a secret."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, encoding="utf-8", errors="replace") as file:
            return file.read(4096) if stat.S_ISREG(os.fstat(handle).st_mode) else None
    except OSError:
        return None


def part_of(name: str) -> str:
    """Return the name of a file as PART wants it: a site writes my-kernel or Driver, too. "" for a hidden file."""
    if name.startswith("."):
        return ""
    plain_name = re.sub(r"[^a-z0-9_]", "_", name.lower())
    return (plain_name if plain_name[0].isalpha() else f"part_{plain_name}")[:32]


def reboot_reasons(root: str = "/") -> list[dict[str, str]]:
    """Return the reasons, each C(part) and C(reason): those that roles wrote, then that of the system."""
    directory = os.path.join(root, DIRECTORY.lstrip("/"))
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    found: list[dict[str, str]] = []
    for name in names:
        text = _read(os.path.join(directory, name)) if part_of(name) else None
        if text is not None and len(found) < _MOST:
            found.append({"part": part_of(name), "reason": plain(text) or "no reason given"})
    system = os.path.join(root, OF_SYSTEM.lstrip("/"))
    if _read(system) is not None:
        packages = sorted(set((_read(system + ".pkgs") or "").split()))
        reason = plain(f"upgrade of {', '.join(packages)}") if packages else "an upgrade"
        found.append({"part": "system", "reason": reason})
    return found
