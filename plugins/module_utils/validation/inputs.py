# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Refuses settings of a validation that would fail, or be ignored, after its last job. Pure."""

from __future__ import annotations

import difflib
import math
import posixpath
import re
import typing as t

from ..containers.image_file import NAME
from ..containers.registry import REFERENCE
from ..hardware.thresholds import ThresholdError, size_in_bytes, table
from ..slurm.batch.options import SRUN, Table
from ..slurm.values import expand
from .catalogue import Check, is_plain
from .plan import Host, PlanError
from .references import in_units_of_figures

Plain = t.Mapping[str, t.Any]
#: The least value of a number.
_LEAST = {"queue_seconds": 1, "parallel": 0}
#: Levels of DCGM's diagnosis.
_LEVELS = range(5)
_BUCKET = re.compile(r"s3://[A-Za-z0-9][A-Za-z0-9.-]*(/[A-Za-z0-9!_.*'()=/-]*)?")
#: Names of variables with secrets, which would be in scripts and reports; those of files with them are not.
_SECRET = re.compile(
    r"(^|_)(SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|CREDENTIALS?)(_(ID|KEY))?$",
    re.IGNORECASE,
)


def refuse(options: Plain, checks: t.Sequence[Check]) -> None:
    """Raise PlanError with a line for each setting that cannot be used. options: of validate_cluster."""
    faults = [
        f"validate_{name}: is {options[name]} -> a whole number of at least {least}"
        for name, least in _LEAST.items()
        if options[name] < least
    ]
    if options["sample"] is not None and not re.fullmatch(r"[0-9]+", options["nodes"]):
        faults.append(
            f"validate_sample: is {options['sample']}, a seed that draws as many nodes as validate_nodes says, and that"
            f" is {options['nodes'] or 'empty'} -> -e validate_nodes={max(1, abs(options['sample']))} draws that many,"
            " or leave validate_sample out"
        )
    if options["dcgm_level"] not in _LEVELS:
        faults.append(
            f"validate_dcgm_level: is {options['dcgm_level']} -> 1 to {_LEVELS[-1]}, or 0 to leave DCGM out"
        )
    faults += share(options["cap"], "node_health_cap_percent")
    for name in ("image", "ngc_image"):
        faults += image(options[name], f"validate_{name}")
    faults += inventory(options["mounts"], options["topology"])
    faults += storage(options["storage"], options["mounts"], checks)
    faults += places(options["buckets"], options["path"])
    faults += rows(options["thresholds"], checks)
    for check in checks:
        where = f"validate_checks.{check.name}"
        faults += srun(check.srun_options, f"{where}.srun_options")
        faults += secrets(check.environment, f"{where}.environment")
    if faults:
        raise PlanError("\n".join(faults))


def share(percent: float | None, where: str) -> t.Iterator[str]:
    """Yield what is wrong with a percentage."""
    if percent is not None and not 0 <= percent <= 100:
        yield f"{where}: is {percent:g} -> percent of the nodes of a partition, from 0 to 100"


def image(given: str, where: str) -> t.Iterator[str]:
    """Yield what is wrong with an image as Pyxis takes it: a file, a name of the cluster's, or one of a registry."""
    if not given:
        return
    # Some write a password into it, as into an address of the web.
    shown = repr(re.sub(r"^(\w+://)?[^/@\s]*:[^/@\s]*@(?!sha256:)", r"\1***@", given))
    if "***@" in shown:
        yield f"{where}: is {shown}, with a password -> write it into ~/.config/enroot/.credentials of validate_user"
    elif not given.isprintable() or given != given.strip():
        yield f"{where}: is {shown}, with blanks at an end, or characters that no name has -> remove them"
    elif given[0] in "~.$":
        why = (
            "which only a shell expands"
            if given[0] in "~$"
            else "and the jobs run in another directory"
        )
        yield f"{where}: is {shown}, {why} -> the absolute path of the file"
    elif given.startswith("/"):
        if not posixpath.basename(given):
            yield f"{where}: is {shown}, a directory -> the absolute path of a squashfs file"
    elif not _of_registry(given):
        yield (
            f"{where}: is {shown} -> the absolute path of a squashfs file, NAME.sqsh of an image of the cluster, or a"
            " name in a registry in small letters, such as nvcr.io#nvidia/pytorch:25.06-py3"
        )


def _of_registry(given: str) -> bool:
    """Whether it is the name of an image: of the cluster, of a registry, or of Docker or Podman on the node."""
    scheme, mark, name = given.rpartition("://")
    if mark and scheme not in ("docker", "dockerd", "podman"):
        return False
    if given.endswith(".sqsh"):
        return not mark and NAME.fullmatch(given) is not None
    match = REFERENCE.fullmatch(f"docker://{name}")
    parts = match[4].split("/") if match else [""]
    return name.isascii() and name[:1] != "-" and all(re.match(r"[a-z0-9]", one) for one in parts)


def storage(given: Plain, mounts: t.Sequence[Plain], checks: t.Sequence[Check]) -> t.Iterator[str]:
    """Yield what is wrong with provisioned throughput by mount."""
    paths = [str(one.get("path") or "") for one in mounts]
    known = list(dict.fromkeys(name for one in checks if one.mounts for name in one.figures))
    for path, figures in given.items():
        where = f"validate_storage.{path}"
        if path not in paths:
            have = f"one of {', '.join(paths)}" if paths else "add the mount there"
            yield f"{where}: cluster_mounts does not have such a path -> {have}"
        if not isinstance(figures, t.Mapping) or not figures:
            yield f"{where}: is {figures!r} -> a mapping such as {{write: 1.2, read: 1.2}}, in GB/s"
            continue
        for name, value in figures.items():
            if name not in known:
                yield f"{where}.{name}: no check measures it -> one of {', '.join(known)}"
            elif not _positive(value):
                yield f"{where}.{name}: is {value!r} -> a number above 0, in GB/s"


def inventory(mounts: t.Sequence[Plain], topology: Plain) -> t.Iterator[str]:
    """Yield what is wrong with mounts and switches of an inventory that this collection does not manage."""
    for index, one in enumerate(mounts):
        where = f"cluster_mounts[{index}]"
        path = one.get("path")
        if not isinstance(path, str) or not path.startswith("/"):
            yield f"{where}.path: is {path!r} -> an absolute path"
        if not isinstance(one.get("directories") or [], (list, tuple)):
            yield f"{where}.directories: is {one['directories']!r} -> a list of mappings, each with a path"
    switches = topology.get("switches") or []
    if not isinstance(switches, (list, tuple)):
        yield f"slurm_topology.switches: is {switches!r} -> a list of mappings, each with a name"
        return
    for index, one in enumerate(switches):
        where = f"slurm_topology.switches[{index}]"
        if not isinstance(one, t.Mapping):
            yield f"{where}: is {one!r} -> a mapping with a name, and nodes or switches"
            continue
        nodes = one.get("nodes") or []
        for name in [nodes] if isinstance(nodes, str) else nodes:
            try:
                expand(str(name))
            except ValueError as error:
                yield f"{where}.nodes: {error} -> names of nodes, or a host list"


def places(buckets: t.Sequence[str], path: t.Sequence[str]) -> t.Iterator[str]:
    """Yield which buckets and which directories of programs are not of their form."""
    for index, bucket in enumerate(buckets):
        if not _BUCKET.fullmatch(bucket):
            # Some write their keys into it, as into an address of another protocol.
            shown = re.sub(r"^(\w+://)?[^/@]*@", r"\1***@", bucket)
            whole = bucket and _BUCKET.fullmatch(f"s3://{bucket}")
            meant = f"write s3://{bucket}" if whole else "s3://BUCKET, or s3://BUCKET/PREFIX"
            yield f"validate_buckets[{index}]: is {shown!r} -> {meant}"
    for index, one in enumerate(path):
        if not one.startswith("/") or ":" in one:
            yield f"validate_path[{index}]: is {one!r} -> the absolute path of a directory"


def secrets(variables: t.Iterable[str], where: str) -> t.Iterator[str]:
    """Yield which variables look like secrets: they would be in scripts, command lines and the report."""
    for name in variables:
        if _SECRET.search(name):
            yield (
                f"{where}: {name} looks like a secret, which would be in scripts and in the report -> put it into a"
                " file of validate_user with mode 0600, such as ~/.aws/credentials, or use the role of the instances"
            )


def _positive(value: t.Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0


def rows(given: t.Sequence[t.Any], checks: t.Sequence[Check]) -> t.Iterator[str]:
    """Yield which rows of the site no check would be compared with. Those of another form are of thresholds.table."""
    try:
        table(given, "validate_thresholds")
    except ThresholdError as error:
        yield str(error)
        return
    judged = [
        (check, figure)
        for check in checks
        if check.expect is None
        for figure in check.figures
        if check.test_of(figure)
    ]
    for index, row in enumerate(given):
        where = f"validate_thresholds[{index}]"
        found = [both for both in judged if both[0].test_of(both[1]) == row["test"]]
        if not found:
            names = sorted({check.test_of(figure) for check, figure in judged})
            near = difflib.get_close_matches(row["test"], names, 1)
            meant = f"did you mean {near[0]}? " if near else ""
            yield f"{where}.test: no check has {row['test']!r} -> {meant}one of {', '.join(names)}"
            continue
        nodes = row.get("nodes", 1)
        for name, count in (("pairs", 2), ("of_each", 1)):
            if nodes != count and all(_kind(check) == name for check, _figure in found):
                yield f"{where}.nodes: is {nodes} -> {count}, as many as {row['test']} runs on"
        units = list(dict.fromkeys(check.unit_of(figure) for check, figure in found))
        if row["reference"] is not None:
            size = size_in_bytes(row.get("size"))
            made = table([row])[row["type"], row["test"], nodes, size]
            if in_units_of_figures(made).unit not in units:
                yield f"{where}.unit: is {made.unit} -> {' or '.join(units)}"


def _kind(check: Check) -> str:
    return "pairs" if check.kind == "pairs" else "of_each" if check.of_each else "groups"


def unused(given: t.Sequence[Plain], hosts: t.Sequence[Host]) -> list[str]:
    """Return a line for each machine type that rows of the site have and no node under test."""
    kinds = {str(host.declared.get("machine_type") or "") for host in hosts} - {""}
    models = {f"gpu:{host.declared.get('gpu_model')}" for host in hosts}
    have = f"they are of {', '.join(sorted(kinds))}" if kinds else "none of them has a type"
    names = dict.fromkeys(row["type"] for row in given if row["type"] not in kinds | models)
    return [
        f"validate_thresholds: no node under test is of type {name}, so its rows are not used: {have}"
        " -> machine_type in slurm_node of the inventory names it"
        for name in names
    ]


def srun(given: Plain, where: str, options: Table = SRUN) -> t.Iterator[str]:
    """Yield what is wrong with options of srun by their long names."""
    for name, value in given.items():
        if not is_plain(value):
            yield f"{where}.{name}: is {value!r} -> a text, a number, or true for an option without a value"
        elif name not in options.known:
            near = difflib.get_close_matches(name, options.known, 1, 0.6)
            remedy = f"did you mean --{near[0]}?" if near else "see srun --help"
            yield f"{where}: srun has no option --{name} -> {remedy}"
        elif value is True and name in options.valued:
            yield f"{where}: --{name} takes a value -> --{name}=VALUE"
        elif not isinstance(value, bool) and name in options.flags:
            yield f"{where}: --{name} takes no value -> --{name}"
