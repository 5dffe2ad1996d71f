# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of systemctl show, the files that a unit reads when it starts, and its process."""

from __future__ import annotations

import glob
import os
import re
import time

UNIT_FILES = "/etc/systemd/system"
#: Where a person or a program puts drop-ins, besides packages and systemd's own generators.
_PLACES = (
    *("/etc/systemd/", "/run/systemd/system", "/run/systemd/transient/"),
    "/usr/local/lib/systemd/",
)


def parse_show(text: str) -> list[dict[str, str]]:
    """Properties of each unit, in the order in which systemctl show was asked for them."""
    units = []
    for block in text.strip("\n").split("\n\n") if text.strip() else ():
        properties: dict[str, str] = {}
        for line in block.splitlines():
            key, equals, value = line.partition("=")
            if equals:  # one line for each EnvironmentFile
                properties[key] = f"{properties[key]} {value}" if key in properties else value
        units.append(properties)
    return units


def drop_ins_of(properties: dict[str, str]) -> list[str]:
    """Return the drop-ins of a unit that systemd has read and that neither a package nor a generator brings."""
    paths = properties.get("DropInPaths", "").split()
    return sorted(path for path in paths if path.startswith(_PLACES))


def unit_file_of(properties: dict[str, str]) -> str:
    """Return the file of a unit that systemd has read, "" where a package or a generator brings it."""
    path = properties.get("FragmentPath", "")
    return path if path.startswith(_PLACES) else ""


def environment_files_of(properties: dict[str, str]) -> list[str]:
    """Return the files that a unit takes its environment from, such as /etc/default/slurmctld; they need not exist."""
    return re.findall(r"(/\S*) \(ignore_errors=", properties.get("EnvironmentFiles", ""))


def unread_files(unit: str, properties: dict[str, str], directory: str = UNIT_FILES) -> bool:
    """Whether the administrator's files of a unit are not those that systemd has read.

    systemd itself looks for changed files (NeedDaemonReload), but for a new one only in directories that it knows from
    its last reload. To reload each time would be simpler, and costs more than the rest of a call that changes nothing.
    """
    if properties.get("NeedDaemonReload") == "yes":
        return True
    read = properties.get("DropInPaths", "").split()
    extra = glob.glob(os.path.join(glob.escape(os.path.join(directory, unit + ".d")), "*.conf"))
    own = os.path.join(directory, unit)
    fragment = properties.get("FragmentPath") or own
    return (
        any(path not in read for path in extra)
        or not all(map(os.path.exists, read))
        # A link to another place, or to /dev/null where the unit is masked, is the file itself.
        or (os.path.lexists(own) and os.path.realpath(own) != os.path.realpath(fragment))
    )


def newer_paths(paths: list[str], started: float) -> list[str]:
    """Those of the paths that changed after the service started, patterns of them among these; missing ones did not.

    A time that is still to come, as of a clock that was set back, would be newer than each start.
    """
    newer, now = [], time.time() + 60
    for path in (one for given in paths for one in sorted(glob.glob(given)) or [given]):
        try:
            if started and started < os.stat(path).st_mtime <= now:
                newer.append(path)
        except OSError:
            continue
    return newer


def command_of(pid: str) -> str:
    """Return the arguments of a process, "" where there is none, or where they change while it runs.

    sshd puts its state there, and haproxy the process that it replaces.
    """
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as handle:
            words = handle.read(1 << 16).decode(errors="surrogateescape").split("\0")
    except OSError:
        return ""
    return "\0".join(words) if words[0].startswith("/") and "-sf" not in words else ""
