# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""SPANK plugins of a host: for which Slurm one was built, and what plugstack.conf names. Runs on nodes: Python 3.9."""

from __future__ import annotations

import os
import re
import struct

# The link that every node has, whatever version of Slurm and Pyxis it runs.
PLUGIN = "/usr/lib/trainwright/spank_pyxis.so"
# A host's own part of plugstack.conf (role pyxis, files/plugstack), and the line that includes it.
OWN_FILE = "/etc/trainwright/plugstack.conf"
INCLUDE = f"include {OWN_FILE}"


def own_part(path: str = OWN_FILE) -> str:
    """Return what a host's own part of plugstack.conf loads: "pyxis", "guard" (without Pyxis), or "" for neither."""
    words = [line.split() for line in lines(path)]
    files = [line[1] for line in words if len(line) > 1 and line[0] in ("required", "optional")]
    for kind in ("pyxis", "guard"):
        if any(re.search(rf"/spank_{kind}\b[^/]*\.so$", file) for file in files):
            return kind
    return ""


def included_directory(conf: list[str], config_dir: str) -> str:
    """Return plugstack.conf.d beside plugstack.conf if that includes all files in it, "" if not.

    conf: the lines of plugstack.conf. A directory that is not there is somebody else's to make, with the rights that
    they want.
    """
    beside = "plugstack.conf.d"
    patterns = [
        f"{place}{beside}/{which}" for place in ("", f"{config_dir}/") for which in ("*", "*.conf")
    ]
    found = any(line.split() == ["include", pattern] for line in conf for pattern in patterns)
    return f"{config_dir}/{beside}" if found and os.path.isdir(f"{config_dir}/{beside}") else ""


def lines(path: str) -> list[str]:
    """Return the lines of a configuration file that are not comments; none of a file that cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            text = handle.read()
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]


def built_for(path: str) -> tuple[int, int]:
    """Return major and minor of the Slurm that a SPANK plugin was built for.

    spank.h puts SLURM_VERSION_NUMBER into the symbol plugin_version, one byte each for major, minor and micro;
    Slurm refuses a plugin whose first two differ from its own. Raises OSError if the file cannot be read and
    ValueError if it is no such plugin. (The file cannot be loaded here: what it calls is in Slurm's programs.)
    """
    with open(path, "rb") as handle:
        data = handle.read()
    value = _elf_symbol(data, b"plugin_version")
    return value >> 16 & 0xFF, value >> 8 & 0xFF


def _elf_symbol(data: bytes, name: bytes) -> int:
    """Return the 32-bit value of an exported variable of a 64-bit little-endian ELF file."""
    try:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no 64-bit ELF file")
        offset, size, count = (
            *struct.unpack_from("<Q", data, 40),
            *struct.unpack_from("<HH", data, 58),
        )
        # name, type, flags, address, offset, size, link
        sections = [
            struct.unpack_from("<IIQQQQI", data, offset + size * index) for index in range(count)
        ]
        for section in sections:
            if section[1] != 11:  # SHT_DYNSYM
                continue
            strings = sections[section[6]][4]
            for at in range(section[4], section[4] + section[5], 24):
                symbol, _info, _other, where, value, _size = struct.unpack_from("<IBBHQQ", data, at)
                end = data.index(b"\0", strings + symbol)
                if data[strings + symbol : end] == name and 0 < where < count:
                    home = sections[where]
                    return int(struct.unpack_from("<I", data, home[4] + value - home[3])[0])
    except (struct.error, IndexError) as error:
        raise ValueError(f"a damaged ELF file: {error}") from error
    raise ValueError(f"no symbol {name.decode()}: no SPANK plugin")
