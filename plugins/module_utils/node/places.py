# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where Slurm is on a host. Small, since modules that need only this are sent to every host."""

from __future__ import annotations

import glob
import os

PREFIXES = ("/usr", "/opt/slurm", "/usr/local", "/usr/local/slurm", "/opt/slurm/current")


def slurm_places(root: str = "/") -> dict[str, str]:
    """Where Slurm is installed; the places it will have where it is not yet."""

    def exists(path: str) -> bool:
        return os.path.exists(os.path.join(root, path.lstrip("/")))

    def has_slurm(candidate: str) -> bool:
        return any(
            exists(candidate + name)
            for name in ("/sbin/slurmd", "/sbin/slurmctld", "/sbin/slurmdbd", "/bin/sinfo")
        )

    prefix = next((candidate for candidate in PREFIXES if has_slurm(candidate)), "/usr")
    config_dir = "/etc/slurm"
    if prefix != "/usr" and exists(prefix + "/etc") and not exists("/etc/slurm/slurm.conf"):
        config_dir = prefix + "/etc"
    plugin_dir = ""
    for pattern in ("lib/*/slurm-wlm", "lib/*/slurm", "lib64/slurm", "lib/slurm"):
        for path in sorted(glob.glob(os.path.join(root, prefix.lstrip("/"), pattern))):
            if glob.glob(os.path.join(path, "auth_*.so")):
                plugin_dir = plugin_dir or "/" + os.path.relpath(path, root)
    return {
        "prefix": prefix,
        "sbin": prefix + "/sbin",
        "config_dir": config_dir,
        "plugin_dir": plugin_dir,
    }
