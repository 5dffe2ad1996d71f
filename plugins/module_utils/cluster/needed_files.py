# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Programs and plugins that a site's settings name: which file each is, and the hosts that need it. Pure.

node_facts is asked for these files before types are checked, so values of any type are accepted.
"""

from __future__ import annotations

import re
import typing as t

from ..node import file_systems
from ..slurm.conf import pairs, valid, value_tables
from ..slurm.conf.words import parts_of

if t.TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAMS = {name.lower(): groups for name, groups in value_tables.PROGRAMS.items()}
#: Plugins of SPANK are loaded by slurmd, and by srun, salloc and sbatch.
_SPANK = ("slurm_compute", "slurm_login")
_CONTROLLER = ("slurm_controller",)
_EVERYWHERE = ("slurm_controller", "slurm_compute")
_ON_CONTROLLERS = ("job_submit", "jobcomp", "mcs", "preempt", "priority", "sched", "burst_buffer")
#: Kind of the plugin lua -> its script in the configuration directory of the controllers. The other hosts get
#: cli_filter.lua from there from 23.11 on (fetch_config.c), unless CliFilterParameters names another place.
_SCRIPTS = {
    "burst_buffer": "burst_buffer.lua",
    "cli_filter": "cli_filter.lua",
    "job_submit": "job_submit.lua",
    "jobcomp": "jobcomp.lua",
}
#: Programs that slurmctld hands out from its own directory if they are named without a path; without the file, the
#: first job drains its node.
_HANDED_OUT = ("prolog", "epilog")
_CLI_FILTER_PATH = "cli_filter_lua_path"


#: File systems of a device.
LOCAL = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "iso9660", "squashfs", "vfat", "xfs")


class Needed(t.NamedTuple):
    """A file that must be at one of the paths: its variable, the word that names it, and the groups of its hosts.

    A path that does not begin with / is in Slurm's plugin directory. hint: a similar name.
    """

    variable: str
    word: str
    paths: tuple[str, ...]
    groups: tuple[str, ...]
    hint: str = ""


def plugstack_words(line: object) -> list[str]:
    """Return the words of a line of plugstack.conf, without a comment."""
    return str(line).partition("#")[0].split()


def _plugins(name: str, value: object, directories: list[str], version: str) -> Iterator[Needed]:
    kind = (valid.plugin_of(name) or ("", False))[0]
    groups = _CONTROLLER if kind in _ON_CONTROLLERS else _EVERYWHERE
    for word, file, hint in valid.unknown_plugins(name, pairs.text_of(value), version):
        paths = (f"{file}.so", *(f"{place}/{file}.so" for place in directories)) if file else ()
        yield Needed(f"slurm_conf.{name}", word, paths, groups, hint)


def needed_files(slurm_conf: object, plugstack: object, version: str = "") -> list[Needed]:
    """Return all that the two variables name. version: of Slurm, whose own plugins need no file."""
    found: list[Needed] = []
    given = slurm_conf if isinstance(slurm_conf, dict) else {}
    lower = {str(name).lower(): value for name, value in given.items()}
    directories = [
        place for place in str(lower.get("plugindir") or "").split(":") if place.startswith("/")
    ]
    for name, value in given.items():
        key = str(name).lower()
        if value is None or isinstance(value, dict):
            continue
        if key in _PROGRAMS:
            for path in value if isinstance(value, (list, tuple)) else [value]:
                file, on = str(path), _PROGRAMS[key]
                if file and not file.startswith("/") and key in _HANDED_OUT:
                    file, on = f"/etc/slurm/{file}", _CONTROLLER
                if file.startswith("/"):
                    found.append(Needed(f"slurm_conf.{name}", file, (file,), on))
        elif valid.plugin_of(key):
            found += _plugins(str(name), value, directories, version)
            kind = (valid.plugin_of(key) or ("", False))[0]
            script = _SCRIPTS.get(kind)
            if script and "lua" in re.split(r"[,/\s]", pairs.text_of(value)):
                path = f"/etc/slurm/{script}"
                hosts: tuple[str, ...] = _CONTROLLER
                parameters = pairs.text_of(lower.get("clifilterparameters") or "")
                elsewhere = parts_of(parameters).get(_CLI_FILTER_PATH, "")
                if kind == "cli_filter" and elsewhere.startswith("/"):
                    path, hosts = elsewhere, (*_EVERYWHERE, "slurm_login")
                found.append(Needed(f"slurm_conf.{name}", path, (path,), hosts))
    for index, line in enumerate(plugstack if isinstance(plugstack, (list, tuple)) else []):
        words = tuple(plugstack_words(line))
        if len(words) > 1 and words[0].lower() == "required":
            file = words[1]
            places = () if file.startswith("/") else tuple(f"{at}/{file}" for at in directories)
            found.append(Needed(f"slurm_plugstack[{index}]", file, (file, *places), _SPANK))
    return found


def mount_files(mounts: object) -> list[tuple[int, str, str]]:
    """Return (index, key, path) of what each mount needs on its host: its client, a local source."""
    found = []
    for index, mount in enumerate(mounts if isinstance(mounts, (list, tuple)) else []):
        if not isinstance(mount, dict):
            continue
        kind, source = str(mount.get("fstype") or "nfs"), str(mount.get("source") or "")
        if re.fullmatch(r"[A-Za-z0-9_.-]+", kind):
            found += [(index, "fstype", path) for path in file_systems.paths_of(kind)]
        if kind in (*LOCAL, "none") and re.fullmatch(r"/[^/].*", source):
            found.append((index, "source", source))
    return found
