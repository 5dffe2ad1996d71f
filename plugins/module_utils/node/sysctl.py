# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kernel settings: their names, the files that decide them, and their values now.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import typing as t

from .machine import read

#: The name of one setting.
KEY = re.compile(r"[a-z][a-z0-9_]*([./][A-Za-z0-9_:-]+)+")
#: Where systemd-sysctl looks, the first with a name wins; then by name, the last value wins.
PLACES = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d")
#: sysctl(8) and tuned read it after all of them.
LAST = "/etc/sysctl.conf"


def proc_path(key: str) -> str:
    """Return the file of a sysctl; as sysctl.d reads it, the first separator decides which one separates."""
    first = re.search(r"[./]", key)
    if first and first[0] == ".":
        key = key.translate(str.maketrans("./", "/."))
    return f"/proc/sys/{key}"


def plain_key(key: str) -> str:
    """Return a sysctl in the form with dots."""
    first = re.search(r"[./]", key)
    return key.translate(str.maketrans("./", "/.")) if first and first[0] == "/" else key


def current(key: str) -> str | None:
    """Return the value of a kernel setting with single spaces, None where the kernel does not have it."""
    try:
        with open(proc_path(key), encoding="utf-8", errors="replace") as handle:
            return " ".join(handle.read().split())
    except OSError:
        return None


def files_in_order(root: str = "/") -> list[str]:
    """Return the files of sysctl settings in the order in which they are applied, the last one wins."""
    found: dict[str, str] = {}
    for place in PLACES:
        for path in sorted(glob.glob(os.path.join(root, place.lstrip("/"), "*.conf"))):
            found.setdefault(os.path.basename(path), path)
    last = os.path.join(root, LAST.lstrip("/"))
    return [*(found[name] for name in sorted(found)), *([last] if os.path.exists(last) else [])]


def decided(keys: t.Iterable[str], paths: t.Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return for each setting that a file has: the last file, and its value. Exact names win over patterns."""
    exact: dict[str, tuple[str, str]] = {}
    pattern: dict[str, tuple[str, str]] = {}
    wanted = set(keys)
    for path in paths:
        for line in read(path).splitlines():
            text = line.strip().lstrip("-").strip()
            name, equals, value = text.partition("=")
            if not equals or text.startswith(("#", ";")):
                continue
            name = plain_key(name.strip())
            if name in wanted:
                exact[name] = (path, " ".join(value.split()))
            elif "*" in name:
                for key in fnmatch.filter(wanted, name):
                    pattern[key] = (path, " ".join(value.split()))
    return {**pattern, **exact}


def decided_by(paths: t.Collection[str]) -> dict[str, str]:
    """Return the values of the settings that these files decide, without those of which a later file wins."""
    keys = {
        plain_key(line.strip().lstrip("-").partition("=")[0].strip())
        for path in paths
        for line in read(path).splitlines()
        if "=" in line and not line.strip().startswith(("#", ";"))
    }
    found = decided(keys, files_in_order())
    return {key: value for key, (path, value) in found.items() if path in paths}


def changed_back(wanted: t.Mapping[str, str], took: t.Mapping[str, str]) -> list[str]:
    """Return the settings that the kernel has taken and that somebody has changed. took: as a run left them."""
    return [key for key, value in wanted.items() if took.get(key) == value != current(key)]


def left(wanted: t.Mapping[str, str], took: t.Mapping[str, str]) -> list[dict[str, str]]:
    """Return the settings that a run leaves, items of the manifest.

    A kernel need not take all of them: in a container some are those of the host.
    """
    kept = {key: value for key, value in wanted.items() if value in (current(key), took.get(key))}
    return [{"kind": "sysctl", "name": key, "value": value} for key, value in kept.items()]


def write(key: str, value: str) -> str:
    """Set a kernel setting now; return why it is refused, "" where it is not."""
    try:
        with open(proc_path(key), "w", encoding="utf-8") as handle:
            handle.write(value)
    except OSError as error:
        return error.strerror or str(error)
    return ""
