# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compares slurm_node of a compute node with the machine."""

from __future__ import annotations

import math
import re
import typing as t

from ...slurm.hostlist import HostlistError, expand, fold
from ...slurm.releases import major_minor
from ..choices import cgroup_fault
from ..inputs import Problem, cluster_version, declared_nodes, is_true, members, seen
from ..machines import short_hosts

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..inputs import Check, Inputs


def nodes(inputs: Inputs) -> Iterator[Problem]:
    """slurm_node agrees with itself and with the machine."""
    short = short_hosts(inputs)
    for host, declared in declared_nodes(inputs):
        facts = inputs["facts"].get(host)
        for key in ("cpus", "sockets", "cores_per_socket", "threads_per_core", "memory_mb"):
            if declared.get(key) is not None and int(declared[key]) < 1:
                yield Problem(host, f"slurm_node.{key}", f"is {declared[key]}", "write 1 or more")
                return
        parts = [declared.get(key) for key in ("sockets", "cores_per_socket", "threads_per_core")]
        if declared.get("cpus") and all(parts):
            product = math.prod(int(part or 1) for part in parts)
            if product != int(declared["cpus"]):
                yield Problem(
                    host,
                    "slurm_node.cpus",
                    f"is {declared['cpus']}, but sockets x cores x threads are {product}",
                    f"write cpus: {product}, or remove it",
                )
        if (
            facts
            and "memory" not in short.get(host, ())
            and declared.get("memory_mb")
            and int(declared["memory_mb"]) > int(facts["memory_mb"])
        ):
            yield Problem(
                host,
                "slurm_node.memory_mb",
                f"is {declared['memory_mb']}, and the machine has {facts['memory_mb']}",
                "write less, or remove it to use slurm_memory_percent of the memory",
            )
        if int(declared.get("weight") or 0) < 0:
            yield Problem(host, "slurm_node.weight", f"is {declared['weight']}", "write 0 or more")
        yield from _reserved(host, declared, facts)
        for feature in declared.get("features") or []:
            if not re.fullmatch(r"[A-Za-z0-9_.:=+-]+", str(feature)):
                yield Problem(
                    host,
                    "slurm_node.features",
                    f"{feature!r} is not a valid feature",
                    "write one word for each feature",
                )


def _reserved(
    host: str, declared: Mapping[str, t.Any], facts: Mapping[str, t.Any] | None
) -> Iterator[Problem]:
    """Yield what is kept for the system and leaves nothing for jobs, and lists that Slurm does not read."""
    given = _given(declared)
    memory = int(declared.get("memory_mb") or (facts or {}).get("memory_mb") or 0)
    cores = math.prod(
        int(declared.get(key) or (facts or {}).get(key) or 0)
        for key in ("sockets", "cores_per_socket")
    )
    for key, most, unit in (
        ("memspeclimit", memory, "MB of memory"),
        ("corespeccount", cores, "cores"),
    ):
        name, text = given.get(key, ("", ""))
        if text.isdigit() and most and int(text) >= most:
            what = f"is {text}, and the machine has {most} {unit}, so none is left for jobs"
            yield Problem(host, f"slurm_node.options.{name}", what, "write less")
    for key, pattern, remedy in (
        ("cpuspeclist", r"\d+(-\d+)?(,\d+(-\d+)?)*", "write numbers of CPUs: 0-1,8"),
        ("port", r"\d+|\[?\d+-\d+\]?", "write one port"),
    ):
        name, text = given.get(key, ("", ""))
        if name and not re.fullmatch(pattern, text):
            yield Problem(host, f"slurm_node.options.{name}", f"{text!r} cannot be read", remedy)


def _given(declared: Mapping[str, t.Any]) -> dict[str, tuple[str, str]]:
    """Return the options of a node: name in lower case -> (name, text)."""
    options = declared.get("options") or {}
    return {str(key).lower(): (str(key), str(value).strip()) for key, value in options.items()}


def places(inputs: Inputs) -> Iterator[Problem]:
    """The options of a node do not lead Slurm to another machine, or away from one that is there."""
    given_conf = inputs["settings"].get("slurm_conf") or {}
    starts = any(
        str(name).lower() == "resumeprogram" and value for name, value in given_conf.items()
    )
    compute = members(inputs, "slurm_compute")
    for host, declared in declared_nodes(inputs):
        given = _given(declared)
        name, _text = given.get("nodehostname", ("", ""))
        if name:
            what = "is set by this collection, from the name that the host has for itself"
            remedy = "remove it, and change the host's name with hostnamectl"
            yield Problem(host, f"slurm_node.options.{name}", what, remedy)
        name, text = given.get("port", ("", ""))
        if re.fullmatch("0*22", text):
            what = "is 22, where sshd listens, so slurmd could not start"
            remedy = "remove it; slurm_ports.slurmd is the port of all nodes"
            yield Problem(host, f"slurm_node.options.{name}", what, remedy)
        name, text = given.get("state", ("", ""))
        # Nodes that do not exist yet are declared so, and those that a program starts are up now and then.
        later = text.upper() == "FUTURE" or (text.upper() == "CLOUD" and not starts)
        if later and host in compute and host in inputs["facts"]:
            what = f"is {text}, so Slurm would not use this host, which is there"
            remedy = "remove it"
            if text.upper() == "CLOUD":
                remedy += (
                    ", or write the program that starts such nodes (slurm_conf: ResumeProgram)"
                )
            yield Problem(host, f"slurm_node.options.{name}", what, remedy)


def _gres_words(host: str, label: str, item: Mapping[str, t.Any]) -> Iterator[Problem]:
    """Yield the names and types that Slurm reads as something else; blanks are the business of values.py."""
    for key in ("name", "type"):
        text = str(item.get(key) or "")
        if re.search(r"[:,=()]", text):
            yield Problem(
                host,
                f"{label}.{key}",
                f"{text!r} has a character that separates names from counts",
                "write letters, digits, _ . and -",
            )


def generic_resources(inputs: Inputs) -> Iterator[Problem]:
    """The machine has the declared GPUs, and their number is that of their files."""
    later = is_true(inputs["settings"]["slurm_allow_missing_gpus"])
    short = short_hosts(inputs)
    for host, declared in declared_nodes(inputs):
        # A machine that has fewer than its type is kept out, and the others continue.
        facts = None if "gpus" in short.get(host, ()) else inputs["facts"].get(host)
        found = [str(gpu["device"]) for gpu in (facts or {}).get("gpus") or []]
        total = 0
        for index, item in enumerate(declared.get("gres") or []):
            label = f"slurm_node.gres[{index}]"
            name = item.get("name", "gpu")
            yield from _gres_words(host, label, item)
            if item.get("count") is not None and int(item["count"]) < 1:
                yield Problem(host, f"{label}.count", f"is {item['count']}", "write 1 or more")
                continue
            try:
                files = expand(item["file"]) if item.get("file") else []
            except HostlistError as error:
                yield Problem(
                    host, f"{label}.file", f"cannot be read ({error})", "write /dev/nvidia[0-7]"
                )
                continue
            count = int(item.get("count") or len(files) or 1)
            total += count if name == "gpu" else 0
            if files and item.get("count") and len(files) != count:
                yield Problem(
                    host,
                    f"{label}.count",
                    f"is {count}, and file names {len(files)}",
                    "make them agree, or remove count",
                )
            missing = [
                file for file in files if file.startswith("/dev/nvidia") and file not in found
            ]
            if facts and missing and not later:
                yield Problem(
                    host,
                    f"{label}.file",
                    f"{fold(missing)} does not exist (found: {fold(found) or 'none'})",
                    "install the driver, or name the files that exist",
                )
        # Missing files are reported above. In containers a count without devices is for trying things out.
        bare = any(
            not item.get("file")
            for item in declared.get("gres") or []
            if item.get("name", "gpu") == "gpu"
        )
        real = facts and facts.get("virtualization") != "container"
        if real and bare and not found and not later:
            yield Problem(
                host,
                "slurm_node.gres",
                f"declares {total} GPUs, and the machine has none",
                "install the driver first, name the device files of another vendor, or remove gres; while the driver is"
                " still to come: slurm_allow_missing_gpus: true",
            )
        elif facts and total > len(found) and found:
            yield Problem(
                host,
                "slurm_node.gres",
                f"declares {total} GPUs, and the machine has {len(found)}",
                "correct it, or remove gres to use the GPUs that are found",
            )


def confinement(inputs: Inputs) -> Iterator[Problem]:
    """Real nodes confine jobs by cgroups: without, a process that leaves its session outlives its job.

    Containers are for tests, and their host decides about cgroups.
    """
    version = major_minor(cluster_version(inputs))
    given = {str(name).lower() for name in inputs["settings"].get("slurm_conf") or {}}
    real = any(
        facts.get("virtualization") != "container" for _host, facts in seen(inputs, "slurm_compute")
    )
    if version == (0, 0) or not real or "proctracktype" in given:
        return
    # Login hosts run slurmd before 23.11, and all that run it are configured alike.
    groups = ("slurm_compute", "slurm_login") if version < (23, 11) else ("slurm_compute",)
    for host, facts in seen(inputs, *groups):
        fault = cgroup_fault(facts.get("cgroup") or {})
        if version < (22, 5):
            fault = f"Slurm {version[0]}.{version[1]:02d} does not have cgroup/v2"
        if fault:
            yield Problem(
                host,
                "cgroup",
                f"{fault}, so processes could outlive their jobs",
                "boot with systemd.unified_cgroup_hierarchy=1 and Slurm 22.05 or newer, or accept it with"
                " slurm_conf: {ProctrackType: proctrack/linuxproc}",
            )


CHECKS: tuple[Check, ...] = (
    nodes,
    places,
    generic_resources,
    confinement,
)
