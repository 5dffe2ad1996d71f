# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Enroot on this host: its program and its settings. Runs on nodes: Python 3.9."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess

from .image_errors import ImageError

CONFIGURATION = "/etc/enroot/enroot.conf"


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/bin:/usr/local/bin:/usr/sbin")
    if not found:
        remedy = "role enroot installs it" if name == "enroot" else "install it on this host"
        raise ImageError(
            "missing", f"{name} is not installed on {socket.gethostname()} -> {remedy}"
        )
    return found


def enroot_settings() -> dict[str, str]:
    """Return Enroot's settings as it runs here (ENROOT_TEMP_PATH ...), and version."""
    shown = subprocess.run(
        [program("enroot"), "info"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        text=True,
    ).stdout
    settings = dict(re.findall(r"^\s+(ENROOT_\w+)=(.*)$", shown, re.M))
    version = re.search(r"^Enroot version: (\S+)", shown, re.M)
    return {**settings, "version": version[1] if version else ""}


def network_environment() -> dict[str, str]:
    """Return this process' environment with the proxies and certificates that enroot.conf adds for Enroot's curl."""
    try:
        with open(CONFIGURATION, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        text = ""
    names = r"(?:all|no|http|https)_proxy|SSL_CERT_(?:DIR|FILE)"
    found = re.findall(rf"^({names})[ \t=]+(.*?)[ \t]*$", text, re.M)
    return {**dict(found), **os.environ}
