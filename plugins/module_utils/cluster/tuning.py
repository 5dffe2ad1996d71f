# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a compute node is tuned, by what it has and what the site wants; and what is wrong with that. Pure."""

from __future__ import annotations

import re
import typing as t

from ..hardware.tuning_data import BASE, FAST_MBPS, ROWS
from ..node.sysctl import KEY, plain_key, proc_path
from ..node.tuning import OURS
from .inputs import Inputs, seen

Json = dict[str, t.Any]
#: A problem: the variable, what is wrong, the remedy.
Fault = tuple[str, str, str]

#: Values of node_tuning_profile that are not names of profiles.
AUTO, TAKE, NONE = "auto", "trainwright", "none"
HUGEPAGES = "vm.nr_hugepages"
HUGEPAGE_MIB = 2
#: Most of a node's memory that may be reserved as huge pages: jobs can only have the rest.
MOST_HUGE = 0.75
TRANSPARENT = ("always", "madvise", "never")
_VALUE = re.compile(r"[A-Za-z0-9_.:,/+|%@=-]+([ \t]+[A-Za-z0-9_.:,/+|%@=-]+)*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
GOVERNOR = re.compile(r"[a-z_]{1,30}")
_ARGUMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(=[A-Za-z0-9_.,:;/+@%-]*)?")
#: Of each of these pairs the kernel keeps the one that is written last, and sets the other to 0.
_INSTEAD = {
    "vm.dirty_bytes": "vm.dirty_ratio",
    "vm.dirty_background_bytes": "vm.dirty_background_ratio",
}
#: Arguments that decide what is booted, not how: with a wrong one the node would not come back.
_BOOTS = frozenset("root rootflags rootfstype ro rw init rdinit initrd resume".split())


def has(node: t.Mapping[str, t.Any]) -> set[str]:
    """Return which of CONDITIONS a node meets, by its node_facts."""
    bus = node.get("on_bus") or {}
    found = {"always"}
    if node.get("gpus") or bus.get("gpus"):
        found.add("gpus")
    if node.get("efa") or bus.get("efa"):
        found |= {"efa", "fast_network"}
    if any(int(nic.get("speed_mbps") or 0) >= FAST_MBPS for nic in node.get("nics") or []):
        found.add("fast_network")
    return found


def _ours(node: t.Mapping[str, t.Any]) -> dict[str, str]:
    met = has(node)
    return {row.name: row.value for row in ROWS if row.when in met}


def sysctls(node: t.Mapping[str, t.Any], settings: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the kernel settings of a node by name: ours, with the site's over them."""
    profile = str(settings.get("node_tuning_profile") or NONE)
    if profile == NONE:
        return {}
    values = _ours(node) if profile in (AUTO, TAKE) else {}
    for key, value in (settings.get("node_tuning_sysctl") or {}).items():
        name = plain_key(str(key))
        if value is None:
            values.pop(name, None)
        else:
            values[name] = " ".join(str(value).split())
            values.pop(_INSTEAD.get(name, ""), None)
    pages = int(settings.get("node_tuning_hugepages") or 0)
    if pages:
        values[HUGEPAGES] = str(pages)
    return dict(sorted(values.items()))


def profile_text(settings: t.Mapping[str, t.Any], values: t.Mapping[str, str]) -> str:
    """Return our profile of tuned.

    It repeats the values of the file in sysctl.d, or `tuned-adm verify` would compare with the included profile, which
    has some of them in the section vm since tuned 2.23.
    """
    lines = [
        "# Written by trainwright.slurm (role node_tuning).",
        "[main]",
        "summary=Compute nodes of a Slurm cluster",
        f"include={BASE}",
    ]
    if settings.get("node_tuning_cpu_governor"):
        lines += ["", "[cpu]", f"governor={settings['node_tuning_cpu_governor']}"]
    vm = {key[3:]: value for key, value in values.items() if key.startswith("vm.dirty_")}
    if settings.get("node_tuning_transparent_hugepages"):
        vm["transparent_hugepages"] = str(settings["node_tuning_transparent_hugepages"])
    if vm:
        lines += ["", "[vm]", *(f"{key}={value}" for key, value in vm.items())]
    if values:
        lines += ["", "[sysctl]", *(f"{key}={value}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def plan(node: t.Mapping[str, t.Any], settings: t.Mapping[str, t.Any]) -> Json:
    """Return the options of the module node_tuning for a node."""
    chosen = str(settings.get("node_tuning_profile") or NONE)
    values = sysctls(node, settings)
    ours = chosen in (AUTO, TAKE)
    on = chosen != NONE
    kind = "gpu" if "gpus" in has(node) else "cpu"
    return {
        "state": "present" if on else "absent",
        "profile": f"{OURS}{kind}" if ours else chosen if on else "",
        "profile_text": profile_text(settings, values) if ours else "",
        "replace": chosen != AUTO,
        "sysctl": values,
        "governor": str(settings.get("node_tuning_cpu_governor") or "") if ours else "",
        "transparent_hugepages": str(settings.get("node_tuning_transparent_hugepages") or "")
        if ours
        else "",
        "kernel_arguments": [
            str(item) for item in settings.get("node_tuning_kernel_arguments") or []
        ]
        if on
        else [],
    }


# -- what is wrong -----------------------------------------------------------------------------------
def problems(settings: t.Mapping[str, t.Any]) -> t.Iterator[Fault]:
    """Yield what is wrong with the settings, whichever node they are for."""
    profile = str(settings.get("node_tuning_profile") or "")
    if profile and not _NAME.fullmatch(profile):
        yield (
            "node_tuning_profile",
            f"{profile!r} is not the name of a profile",
            f"write {AUTO}, {TAKE}, {NONE}, or a name that `tuned-adm list` shows",
        )
    elif profile.startswith(OURS):
        yield (
            "node_tuning_profile",
            f"{profile} is one that this collection writes, by what each node has",
            f"write {TAKE}",
        )
    yield from _sysctl_problems(settings)
    yield from _ignored(profile, settings)
    huge = str(settings.get("node_tuning_transparent_hugepages") or "")
    if huge and huge not in TRANSPARENT:
        yield (
            "node_tuning_transparent_hugepages",
            f"{huge!r} is not a mode",
            f"write one of {', '.join(TRANSPARENT)}, or leave it empty",
        )
    governor = str(settings.get("node_tuning_cpu_governor") or "")
    if governor and not GOVERNOR.fullmatch(governor):
        yield (
            "node_tuning_cpu_governor",
            f"{governor!r} is not a governor",
            "write one word, such as performance",
        )
    if int(settings.get("node_tuning_hugepages") or 0) < 0:
        yield "node_tuning_hugepages", "is negative", "write a number of pages of 2 MiB, 0 for none"
    for item in settings.get("node_tuning_kernel_arguments") or []:
        text = str(item)
        if not _ARGUMENT.fullmatch(text):
            yield (
                "node_tuning_kernel_arguments",
                f"{text!r} is not one argument of the kernel",
                "write NAME or NAME=VALUE, each as an item, without spaces and quotes",
            )
        elif text.partition("=")[0] in _BOOTS:
            yield (
                "node_tuning_kernel_arguments",
                f"{text} decides what the node boots, and with a fault there it does not come back",
                "take it out; it belongs into the image of the node",
            )


def _ignored(profile: str, settings: t.Mapping[str, t.Any]) -> t.Iterator[Fault]:
    """Yield settings without an effect, since they are parts of our own profile."""
    if not profile or profile in (AUTO, TAKE):
        return
    names = ["node_tuning_transparent_hugepages"]
    if profile == NONE:
        names += ["node_tuning_sysctl", "node_tuning_hugepages", "node_tuning_kernel_arguments"]
    for name in names:
        if settings.get(name):
            yield (
                name,
                f"has no effect with node_tuning_profile: {profile}",
                f"take it out, or write node_tuning_profile: {TAKE}",
            )


def _sysctl_problems(settings: t.Mapping[str, t.Any]) -> t.Iterator[Fault]:
    ours = {row.name for row in ROWS}
    theirs = {plain_key(str(key)) for key in settings.get("node_base_sysctl") or {}}
    for key, value in (settings.get("node_tuning_sysctl") or {}).items():
        where, name = f"node_tuning_sysctl.{key}", plain_key(str(key))
        if not KEY.fullmatch(str(key)):
            yield where, "is not the name of one kernel setting", "write it as `sysctl -a` does"
        elif name == HUGEPAGES:
            yield where, "has a variable of its own", "set node_tuning_hugepages"
        elif name in theirs:
            yield (
                where,
                "is in node_base_sysctl too, and one of the two values would be lost",
                "change it there",
            )
        elif value is None:
            if name not in ours:
                yield (
                    where,
                    "is null, which removes a setting of this collection, and it is none of them",
                    f"write a value, or one of {', '.join(sorted(ours))}",
                )
        elif isinstance(value, (bool, float, dict, list)) or not _VALUE.fullmatch(
            str(value).strip()
        ):
            yield where, f"{value!r} is not a number or words", "write 0 or 1, a number, or a text"


def host_problems(
    node: t.Mapping[str, t.Any], settings: t.Mapping[str, t.Any]
) -> t.Iterator[Fault]:
    """Yield what is wrong with the settings for one node, by its node_facts."""
    pages = int(settings.get("node_tuning_hugepages") or 0)
    memory = int(node.get("memory_mb") or 0)
    if memory and pages * HUGEPAGE_MIB > memory * MOST_HUGE:
        yield (
            "node_tuning_hugepages",
            f"{pages} pages are {pages * HUGEPAGE_MIB} MiB, and the node has {memory}",
            f"write at most {int(memory * MOST_HUGE / HUGEPAGE_MIB)}: jobs can only have the rest",
        )
    files = node.get("files") or {}
    for key, value in (settings.get("node_tuning_sysctl") or {}).items():
        if value is not None and files.get(proc_path(str(key))) is False:
            yield (
                f"node_tuning_sysctl.{key}",
                f"the kernel of this node ({node.get('kernel') or 'unknown'}) does not have it",
                "correct the name, or take it out",
            )


def tuned(inputs: Inputs) -> dict[str, list[str]]:
    """Return hosts, the compute nodes that have a kernel of their own, and packages, what they need for it."""
    hosts = [
        host
        for host, facts in seen(inputs, "slurm_compute")
        if facts.get("virtualization") != "container"
    ]
    on = (inputs["settings"].get("node_tuning_profile") or NONE) != NONE
    return {"hosts": hosts, "packages": ["tuned"] if on else []}
