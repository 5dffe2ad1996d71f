# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of systemctl show, and the process that it names."""

from __future__ import annotations

#: Where a person or a program puts drop-ins, besides packages and systemd's own generators.
_PLACES = (
    *("/etc/systemd/", "/run/systemd/system", "/run/systemd/transient/"),
    "/usr/local/lib/systemd/",
)


def parse_show(text: str) -> list[dict[str, str]]:
    """Properties of each unit, in the order in which systemctl show was asked for them."""
    units = []
    for block in text.strip("\n").split("\n\n") if text.strip() else ():
        properties = {}
        for line in block.splitlines():
            key, equals, value = line.partition("=")
            if equals:
                properties[key] = value
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
