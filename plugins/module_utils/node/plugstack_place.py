# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plugstack.conf that Slurm reads on a host, what it includes, and who may change it. Runs on nodes: Python 3.9.

Every reader takes the root of the file system, so that files can replace a machine.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import stat

from . import slurm_places, spank
from .acting import user_name
from .safe_path import UnsafePathError
from .trusted_path import responsible

_INCLUDES = 4


def _below(root: str, path: str) -> str:
    return os.path.join(root, path.lstrip("/"))


def place(conf: str, config_dir: str, root: str = "/") -> str:
    """Return the path of plugstack.conf: PlugStackConfig in slurm.conf, else the file beside slurm.conf.

    conf: slurm.conf with what it includes. On a host without a slurm.conf of its own that is beside the fetched one.
    """
    given = slurm_places.scripts(conf, "PlugStackConfig")
    beside = [config_dir, *map(os.path.dirname, slurm_places.FETCHED)]
    here = next(
        (path for path in beside if os.path.exists(_below(root, f"{path}/slurm.conf"))), config_dir
    )
    return os.path.join(here, given[-1].strip('"') if given else "plugstack.conf")


def _included(path: str, root: str) -> dict[str, list[list[str]]]:
    """Return the words of each line by file, for plugstack.conf and what it includes apart from a host's own part.

    An include is relative to the file that it is in, as in _spank_conf_include of Slurm's src/common/spank.c.
    """
    found: dict[str, list[list[str]]] = {}
    waiting = [path]
    for _step in range(_INCLUDES):
        news = [one for one in waiting if one not in found and one != spank.OWN_FILE]
        found.update(
            {one: [line.split() for line in spank.lines(_below(root, one))] for one in news}
        )
        patterns = [
            os.path.join(os.path.dirname(one), words[1])
            for one in news
            for words in found[one]
            if words[0] == "include" and len(words) > 1
        ]
        waiting = [
            "/" + os.path.relpath(one, root)
            for pattern in patterns
            for one in sorted(glob.glob(_below(root, pattern)))
        ]
    return found


def fault(path: str) -> str:
    """Return why root does not write to plugstack.conf, or to a directory that it includes; "" if it may.

    Its plugins run as root in each job, so nobody but root and Slurm's user may decide where the path leads.
    """
    trusted = {0}
    with contextlib.suppress(KeyError):
        trusted.add(pwd.getpwnam("slurm").pw_uid)
    if os.path.dirname(path) in map(os.path.dirname, slurm_places.FETCHED):
        return f"{path} is a copy of what slurmctld sends"
    try:
        owners = {responsible(path)}
        seen = os.stat(path)
    except UnsafePathError as error:
        return str(error)
    except FileNotFoundError:
        # A link to nothing would be made where it leads.
        return f"{path} leads to a file that does not exist" if os.path.islink(path) else ""
    except OSError as error:
        return f"{path}: {error.strerror}"
    owners.add(seen.st_uid)
    others = sorted(owners - trusted)
    if others:
        return f"{path} leads to what belongs to {user_name(others[0])}"
    if not stat.S_ISREG(seen.st_mode) and not stat.S_ISDIR(seen.st_mode):
        return f"{path} is neither a file nor a directory"
    return ""


def facts(conf: str, config_dir: str, root: str = "/") -> dict[str, object]:
    """Return what node_facts reports of plugstack.conf; its documentation has the meaning of each key."""
    path = place(conf, config_dir, root)
    lines = spank.lines(_below(root, path))
    directory = spank.included_directory(lines, os.path.dirname(path))
    included = _included(path, root)
    loads = [
        words[1]
        for file in included.values()
        for words in file
        if len(words) > 1 and words[0] in ("required", "optional") and "spank_pyxis" in words[1]
    ]
    return {
        "plugstack": lines,
        "plugstack_file": path,
        "plugstack_dir": directory,
        "plugstack_fault": fault(path) or (fault(directory) if directory else ""),
        "plugstack_own": any(
            words[:2] == ["include", spank.OWN_FILE] for file in included.values() for words in file
        ),
        "other_pyxis": [
            one for one in dict.fromkeys(loads) if not one.startswith("/usr/lib/trainwright/")
        ],
    }
