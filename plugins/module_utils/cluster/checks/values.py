# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Values in Slurm's configuration files: each is read as exactly one value."""

from __future__ import annotations

import re
import typing as t

from ...node.network import LOCAL_NAMES
from ...node.terminal import CONTROL
from ...slurm.conf import pairs, valid
from ...slurm.conf.edit import MINUTES
from ...slurm.conf.value_tables import NEEDED
from ...slurm.values import given_length
from ..inputs import (
    CLUSTER,
    Problem,
    cluster_version,
    declared_nodes,
    is_address,
    is_host_name,
    label_of,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..inputs import Check, Inputs

_CONTROL = re.compile(f"[{CONTROL}]")
_WORD = re.compile(rf"[{CONTROL}\s\"#\\]")
_GROUP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SECRET = re.compile("pass", re.IGNORECASE)
_FILE = re.compile(r"/[A-Za-z0-9/._@+-]+")


def _is_listen_address(text: str) -> bool:
    """Tell whether a port can be written after it, so that slurmrestd reads one socket."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return is_address(bare) or is_host_name(text) or text in LOCAL_NAMES


def _between(least: int, most: int) -> Callable[[str], bool]:
    """Return a test of whole numbers; a role's specification refuses what is none."""
    return lambda text: not re.fullmatch(r"-?\d+", text) or least <= int(text) <= most


#: Variables of other roles that become a part of a line. Not of FROM_OTHER_ROLES: one that needs a fact of its host is
#: left to its role.
_PARTS: dict[str, tuple[Callable[[str], t.Any], str, str]] = {
    "node_base_hidepid_group": (
        _GROUP.fullmatch,
        "is not the name of a group",
        "write the name of one group, such as adm",
    ),
    "node_scratch_timeout": (
        _between(1, 600),
        "is not a number of seconds",
        "write a number from 1 to 600",
    ),
    "shared_storage_deadline": (
        _between(1, 3600),
        "is not a number of seconds",
        "write a number from 1 to 3600",
    ),
    "shared_storage_mount_timeout": (
        _between(1, 600),
        "is not a number of seconds",
        "write a number from 1 to 600",
    ),
    "shared_storage_temporary_days": (
        _between(0, 3650),
        "is not a number of days",
        "write a number from 0, for never, to 3650",
    ),
    "shared_storage_tree_group": (
        lambda text: not text or _GROUP.fullmatch(text),
        "is not the name of a group",
        "write the name of one group, such as research",
    ),
    "slurm_accounts_max_submit_jobs": (
        _between(0, 2**31 - 1),
        "is not a number of jobs",
        "write a number from 0, for no limit, to 2147483647",
    ),
    "slurmrestd_listen_address": (
        _is_listen_address,
        "is neither an address nor a host name",
        "write one address, without a port; 0.0.0.0 is all of the host",
    ),
    "slurmrestd_max_connections": (
        _between(10, 100_000),
        "is not a number of connections",
        "write a number from 10 to 100000",
    ),
    "slurmrestd_socket": (
        _FILE.fullmatch,
        "is not the path of a socket",
        "write an absolute path of letters, digits and ._@+-",
    ),
    "slurmrestd_tls_certificate": (
        lambda text: not text or _FILE.fullmatch(text),
        "is not the path of a file",
        "write an absolute path of letters, digits and ._@+-",
    ),
    "slurmrestd_conf": (
        lambda text: "SLURMRESTD_LISTEN" not in text,
        "sets SLURMRESTD_LISTEN, and the front alone listens for clients",
        "remove it, and use slurmrestd_socket, slurm_rest_port and slurmrestd_listen_address",
    ),
}


def _of(host: str, label: str, given: t.Any, file: str, version: str) -> Iterator[Problem]:
    """Yield the problems of settings by name, which become Key=Value in a file or on a kind of line."""
    for name, value in given.items() if isinstance(given, dict) else ():
        where, shown = f"{label}.{name}", "the value" if _SECRET.search(str(name)) else repr(value)
        text = pairs.text_of(value)
        if not re.fullmatch(r"[A-Za-z0-9_.]+", str(name)):
            yield Problem(host, where, f"{name!r} is not a name of an option", "write one word")
        if isinstance(value, dict) or _CONTROL.search(text) or '"' in pairs.unquoted(text):
            yield Problem(
                host,
                where,
                f"{shown} does not fit on one line",
                "write text without line breaks, control characters and double quotes",
            )
            continue
        if str(name).lower() in {one.lower() for one in MINUTES}:
            try:
                given_length(value)
            except ValueError as error:
                yield Problem(host, where, *str(error).split(" -> ", 1))
                continue
        fault = valid.fault(file, str(name), pairs.unquoted(text), version)
        if value is not None and fault:
            yield Problem(host, where, *fault)


def _removed(given: t.Any) -> Iterator[Problem]:
    """Yield the options of slurm.conf without which a part of the collection does not work, and that are null."""
    needed = {name.lower(): why for name, why in NEEDED.items()}
    for name, value in given.items() if isinstance(given, dict) else ():
        if value is None and str(name).lower() in needed:
            yield Problem(
                CLUSTER,
                f"slurm_conf.{name}",
                f"is null, and {needed[str(name).lower()]}",
                "remove it; words of yours join those of the collection",
            )


def _words(host: str, label: str, given: Mapping[str, t.Any], keys: str) -> Iterator[Problem]:
    """Yield the problems of values that are one word of a line, or a list of such words."""
    for key in keys.split():
        value = given.get(key)
        for text in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(text, str) and _WORD.search(text):
                yield Problem(
                    host,
                    f"{label}.{key}",
                    f"{text!r} is not one word",
                    "write it without blanks, quotes, # and backslashes",
                )


def values(inputs: Inputs) -> Iterator[Problem]:
    """Each value that a site writes stays one value, and times are text."""
    settings, version = inputs["settings"], cluster_version(inputs)
    given, cgroup, database = (
        settings.get("slurm_conf"),
        settings.get("slurm_cgroup_conf"),
        settings.get("slurmdbd_conf"),
    )
    yield from _of(CLUSTER, "slurm_conf", given, "slurm.conf", version)
    yield from _of(CLUSTER, "slurm_cgroup_conf", cgroup, "cgroup.conf", version)
    yield from _of(CLUSTER, "slurmdbd_conf", database, "slurmdbd.conf", version)
    yield from _removed(given)
    for index, spec in enumerate(settings.get("slurm_partitions") or []):
        label = label_of("slurm_partitions", index, spec)
        options = spec.get("options")
        yield from _of(CLUSTER, f"{label}.options", options, "PartitionName", version)
        yield from _words(CLUSTER, label, spec, "nodes node_sets")
    for index, spec in enumerate(settings.get("slurm_node_sets") or []):
        yield from _words(
            CLUSTER, label_of("slurm_node_sets", index, spec), spec, "name nodes feature"
        )
    for host, declared in declared_nodes(inputs):
        options = declared.get("options")
        yield from _of(host, "slurm_node.options", options, "NodeName", version)
        for index, gres in enumerate(declared.get("gres") or []):
            yield from _words(host, f"slurm_node.gres[{index}]", gres, "name type file cores links")
    for index, line in enumerate(settings.get("slurm_plugstack") or []):
        if _CONTROL.search(str(line)):
            yield Problem(
                CLUSTER,
                f"slurm_plugstack[{index}]",
                f"{line!r} does not fit on one line",
                "write each line as an entry of its own, without control characters",
            )
    for name, (is_good, what, remedy) in _PARTS.items():
        if name in settings and not is_good(str(settings[name])):
            yield Problem(CLUSTER, name, f"{settings[name]!r} {what}", remedy)
    password = str((settings.get("mariadb_external") or {}).get("password") or "")
    if _CONTROL.search(password) or '"' in password:
        yield Problem(
            CLUSTER,
            "mariadb_external.password",
            "contains a control character or a double quote, which slurmdbd.conf cannot have",
            "choose another password",
        )


CHECKS: tuple[Check, ...] = (values,)
