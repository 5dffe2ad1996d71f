# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Removes the unpacked containers that Pyxis made for this job and that a killed step has left on the node.

Only those without a name of the user's (pyxis_JOB.STEP): a named container is the user's to keep. Works as the user, in
the user's own directory, and removes nothing that is mounted.
"""

from __future__ import annotations

import os

CONF = "/etc/enroot/enroot.conf"


def run(environment: dict[str, str], options: dict[str, object], conf: str = CONF) -> str:
    """Remove the directories; return the ones that stay."""
    uid, gid = int(environment["SLURM_JOB_UID"]), int(environment["SLURM_JOB_GID"])
    data = data_path(conf)
    if not data or not uid:
        return ""
    # This is a process of its own: it becomes the user before it looks at anything that is the user's.
    if os.geteuid() == 0:
        os.setgroups([gid])
        os.setgid(gid)
        os.setuid(uid)
    return remove_left(f"{data}/user-{uid}", environment["SLURM_JOB_ID"])


def data_path(conf: str) -> str:
    """Return the directory with those of the users, "" where Enroot is not set up by the role enroot."""
    try:
        with open(conf, encoding="utf-8") as handle:
            text = handle.read()
    except OSError:
        return ""
    import re

    found = re.search(r"^ENROOT_DATA_PATH\s+\"?\$\(\S+ (/\S+) ", text, re.MULTILINE)
    return found[1] if found else ""


def remove_left(directory: str, job: str, mounts: str = "/proc/self/mountinfo") -> str:
    """Remove the unnamed containers of a job in the directory of its user."""
    try:
        names = os.listdir(directory)
    except OSError:
        return ""
    prefix = f"pyxis_{job}."
    names = [name for name in names if name.startswith(prefix) and name[len(prefix) :].isdigit()]
    if not names:
        return ""
    # A user names the mount point of a FUSE file system, in any bytes; the kernel escapes blanks and line ends only.
    with open(mounts, encoding="utf-8", errors="surrogateescape", newline="\n") as handle:
        mounted = [line.split(" ")[4] for line in handle]
    stay = []
    for name in names:
        path = f"{directory}/{name}"
        if any(place == path or place.startswith(f"{path}/") for place in mounted):
            stay.append(f"{name} (mounted)")
            continue
        _remove(path)
        if os.path.lexists(path):
            stay.append(name)
    return f"containers of job {job} are left: {', '.join(sorted(stay)[:4])}" if stay else ""


def _remove(path: str) -> None:
    """Remove a tree of the user's, also its directories without write permission, as images have them."""
    import shutil

    for place, directories, _files in os.walk(path):
        for name in directories:
            inner = f"{place}/{name}"
            if not os.path.islink(inner):
                os.chmod(inner, 0o700)
    shutil.rmtree(path, ignore_errors=True)
