# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Programs and plugins that the settings name are on the hosts that run them."""

from __future__ import annotations

import typing as t

from ...slurm.conf import pairs
from ..inputs import CLUSTER, Problem, cluster_version, is_under, seen
from ..needed_files import needed_files, plugstack_words

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..inputs import Check, Inputs
    from ..needed_files import Needed

#: Words that begin a line of plugstack.conf (_plugin_stack_parse_line in src/common/spank.c).
_LINES = ("required", "optional", "include")


def comes_with_the_run(inputs: Inputs, path: str) -> bool:
    """Tell whether the site has a role write this file, or mounts where it is."""
    settings = inputs["settings"]
    written = {
        str(entry["path"])
        for name, entries in settings.items()
        if name.endswith("_files") and isinstance(entries, list)
        for entry in entries
        if isinstance(entry, dict) and entry.get("path")
    }
    mounts = [str(mount["path"]).rstrip("/") for mount in settings.get("cluster_mounts") or []]
    return path in written or any(is_under(path, mount) for mount in mounts)


def may_be_packaged(inputs: Inputs, facts: Mapping[str, t.Any], path: str) -> bool:
    """Tell whether a package of the run may bring a program that is not there; none writes below /usr/local."""
    system = path.startswith(("/usr/", "/bin/", "/sbin/")) and not is_under(path, "/usr/local")
    installs = not (facts.get("slurm") or {}).get("version")
    return system and bool(installs or inputs["settings"].get("slurm_extra_packages"))


def is_missing(inputs: Inputs, facts: Mapping[str, t.Any], path: str) -> bool:
    """Tell whether a program of a host is not there, and does not come with the run."""
    there = (facts.get("files") or {}).get(path) is not False
    return not (there or comes_with_the_run(inputs, path) or may_be_packaged(inputs, facts, path))


def _lacks_plugin(inputs: Inputs, facts: Mapping[str, t.Any], item: Needed) -> bool:
    known = facts.get("files") or {}
    directory = str((facts.get("slurm") or {}).get("plugin_dir") or "")
    return not any(
        known.get(path)
        or comes_with_the_run(inputs, path if path.startswith("/") else f"{directory}/{path}")
        for path in item.paths
    )


def programs(inputs: Inputs) -> Iterator[Problem]:
    """Each program and plugin is there, or comes with the run. A plugin of the site's own has its file there."""
    settings, version = inputs["settings"], cluster_version(inputs)
    for item in needed_files(settings.get("slurm_conf"), settings.get("slurm_plugstack"), version):
        if not item.paths:
            what = f"{item.word!r} is not a plugin of Slurm {version}{item.hint}"
            yield Problem(CLUSTER, item.variable, what, "write kind/name, as slurm.conf(5) has it")
            continue
        plugin = not item.word.startswith("/")
        for host, facts in seen(inputs, *item.groups):
            if plugin and _lacks_plugin(inputs, facts, item):
                yield Problem(
                    host,
                    item.variable,
                    f"{item.word!r} is not a plugin of Slurm {version}{item.hint}",
                    "write one of Slurm's plugins; one of your own must be in Slurm's plugin directory before,"
                    f" as {item.paths[0]}",
                )
            elif not plugin and is_missing(inputs, facts, item.word):
                yield Problem(
                    host,
                    item.variable,
                    f"{item.word} is not on this host",
                    "install it first, write it with <role>_files (docs/customise.md), or correct the path",
                )


def plugstack(inputs: Inputs) -> Iterator[Problem]:
    """Each line of plugstack.conf is one that Slurm reads."""
    for index, line in enumerate(inputs["settings"].get("slurm_plugstack") or []):
        words = plugstack_words(line)
        if str(line).rstrip().endswith("\\"):
            yield Problem(
                CLUSTER,
                f"slurm_plugstack[{index}]",
                f"{str(line)!r} ends with a backslash, which would join the next line",
                "remove it, and write each line as an entry of its own",
            )
        if words and (words[0].lower() not in _LINES or len(words) < 2):
            yield Problem(
                CLUSTER,
                f"slurm_plugstack[{index}]",
                f"{str(line)!r} is not a line that Slurm reads",
                "write required or optional and the plugin's file, or include and a file",
            )
        elif words and words[0].lower() == "include" and not words[1].startswith("/"):
            yield Problem(
                CLUSTER,
                f"slurm_plugstack[{index}]",
                f"includes {words[1]}, which nodes without /etc/slurm look for elsewhere",
                "write an absolute path, of a file on every host",
            )


def plugin_directories(inputs: Inputs) -> Iterator[Problem]:
    """PluginDir of a site has Slurm's own directory too: daemons look nowhere else for any plugin."""
    given = inputs["settings"].get("slurm_conf") or {}
    for name, value in given.items():
        if str(name).lower() != "plugindir" or not value:
            continue
        listed = [place.rstrip("/") for place in pairs.unquoted(str(value)).split(":")]
        for host, facts in seen(inputs, "slurm_controller", "slurm_compute", "slurm_login"):
            own = str((facts.get("slurm") or {}).get("plugin_dir") or "").rstrip("/")
            if own and own not in listed:
                yield Problem(
                    host,
                    f"slurm_conf.{name}",
                    f"leaves out {own}, where this host has Slurm's own plugins",
                    f"write {':'.join([own, *listed])}; a SPANK plugin needs no PluginDir, since slurm_plugstack takes"
                    " its path",
                )


CHECKS: tuple[Check, ...] = (programs, plugstack, plugin_directories)
