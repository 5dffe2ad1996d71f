# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A Slurm that somebody else manages: the parts of this collection that can be used with it, and why others cannot."""

from __future__ import annotations

import typing as t

from ..checks.result import Verdict
from ..hardware.machine_types import MachineTypeError
from ..node.mount_points import problem_of
from ..node.spank import OWN_FILE
from .inputs import fold_hosts
from .machines import Findings, differences, machine_messages

if t.TYPE_CHECKING:
    from .inputs import Inputs

Facts = t.Mapping[str, t.Any]

GROUP = "slurm_foreign"
#: The managers that node_facts knows, as people call them.
MANAGERS = {
    "parallelcluster": "AWS ParallelCluster",
    "pcs": "AWS PCS",
    "hyperpod": "SageMaker HyperPod",
}
#: Where each has its accounting.
_ACCOUNTING = {
    "parallelcluster": "write Database or ExternalSlurmdbd into SlurmSettings of its configuration",
    "pcs": "switch accounting on in the settings of the cluster",
}

#: For a plugstack.conf that root does not write to. playbooks/containers.yml has the same.
PLUGSTACK_REMEDY = (
    "make it a file of root that nobody else can change, on the first host of slurm_controller"
)


class Parts(t.NamedTuple):
    """The report of preflight: a line for each part, and the problems that end the run."""

    lines: list[str]
    problems: list[str]


def manager_of(facts: t.Iterable[Facts]) -> str:
    """Return the key of the manager in MANAGERS, "" for somebody else."""
    return next((one["slurm"]["manager"] for one in facts if one["slurm"].get("manager")), "")


def common_mounts(nodes: t.Sequence[Facts]) -> list[dict[str, str]]:
    """Return the network file systems that all nodes mount from the same place, as cluster_mounts has them.

    Those in directories of the system are not for jobs: /opt/slurm of ParallelCluster.
    """
    mounts = [{one["path"]: one for one in node.get("mounts") or []} for node in nodes]
    return [
        {**one, "purpose": "home" if path == "/home" or path.startswith("/home/") else "shared"}
        for path, one in (mounts[0].items() if mounts else ())
        if not problem_of(path, tagged=True) and all(other.get(path) == one for other in mounts)
    ]


def _mounts_line(compute: t.Mapping[str, Facts]) -> str:
    found = common_mounts(list(compute.values()))
    shared = [one for one in found if one["purpose"] == "shared"]
    named = ", ".join(f"{one['path']} ({one['fstype']})" for one in found)
    line = f"mounts of all compute nodes that answered: {named or 'none'}"
    if shared:
        return f"{line}; images by name are below {shared[0]['path']}"
    return f"{line} -> for images by name, set enroot_images_path to a directory that they share"


def _problems(facts: t.Mapping[str, Facts]) -> t.Iterator[str]:
    without = [host for host, one in facts.items() if not one["slurm"].get("version")]
    if without:
        yield (
            f"{fold_hosts(without)}: Slurm was not found (looked for a running daemon, in PATH, /usr, /opt/slurm, "
            "/usr/local and /opt/aws/pcs/scheduler) -> set slurm_prefix to the directory with its bin and sbin"
        )
    clusters: dict[str, list[str]] = {}
    for host, one in facts.items():
        name = (one.get("service_hosts") or {}).get("cluster")
        if name:
            clusters.setdefault(name, []).append(host)
    if len(clusters) > 1:
        named = "; ".join(f"{name}: {fold_hosts(hosts)}" for name, hosts in clusters.items())
        yield (
            f"group {GROUP}: its hosts belong to {len(clusters)} clusters ({named}) -> make an inventory for each"
        )


def _lack_of_containers(one: Facts) -> str:
    """Return what a host lacks for container jobs, "" if nothing.

    It needs both: Slurm's plugstack.conf that includes the host's own part, and Pyxis in that part. Without the first,
    PYXIS_CONTAINER_IMAGE is ignored, and the command runs outside of a container.
    """
    slurm = one["slurm"]
    if slurm.get("other_pyxis"):
        return ""
    if not slurm.get("plugstack_own"):
        return "plugstack.conf does not name Pyxis"
    return {
        "pyxis": "",
        "guard": "Pyxis does not fit its Slurm, so these jobs are refused there",
    }.get(one["containers"].get("plugstack") or "", f"{OWN_FILE} does not name Pyxis")


def _container_jobs(facts: t.Mapping[str, Facts], compute: t.Sequence[str], submit: str) -> str:
    """Return why container jobs cannot run, "" if they can."""
    if not compute:
        return "slurm_compute does not have a host that answered"
    lacks: dict[str, list[str]] = {}
    for host in dict.fromkeys([*compute, submit]):
        lack = _lack_of_containers(facts[host])
        if lack:
            lacks.setdefault(lack, []).append(host)
    said = "; ".join(f"{fold_hosts(hosts)}: {lack}" for lack, hosts in lacks.items())
    return f"{said} -> run containers.yml" if said else ""


def _plugstack_fault(facts: t.Mapping[str, Facts], groups: t.Mapping[str, t.Sequence[str]]) -> str:
    """Return why containers.yml does not write to plugstack.conf, "" if it would."""
    host = next(iter(groups.get("slurm_controller") or []), "")
    slurm = facts[host]["slurm"] if host in facts else {}
    fault = slurm.get("plugstack_fault", "")
    return f"{host}: {fault} -> {PLUGSTACK_REMEDY}" if fault else ""


def _machines(
    facts: t.Mapping[str, Facts],
    groups: t.Mapping[str, t.Sequence[str]],
    settings: t.Mapping[str, t.Any],
    host_vars: t.Mapping[str, t.Any],
) -> list[str]:
    """Return the lines about compute nodes that differ from their machine types. Raises MachineTypeError."""
    given = {"settings": settings, "groups": groups, "facts": facts, "host_vars": host_vars}
    results = differences(t.cast("Inputs", given))
    lines = [f"machines: {line}" for line in machine_messages(Findings(results=results))]
    # A type that nobody knows is a fault of the inventory, and no reason to replace a machine.
    if any(one.verdict is Verdict.FAIL and one.check != "machine_type" for one in results):
        after = (
            "; AWS ParallelCluster terminates it then, and starts another one"
            if manager_of(facts.values()) == "parallelcluster"
            else ""
        )
        lines.append(f"machines: nothing was drained -> drain.yml drains a node{after}")
    return lines


def parts(
    facts: t.Mapping[str, Facts],
    groups: t.Mapping[str, t.Sequence[str]],
    submit: str,
    settings: t.Mapping[str, t.Any] | None = None,
    host_vars: t.Mapping[str, t.Any] | None = None,
) -> Parts:
    """Return what can be used with this Slurm.

    facts: those of node_facts by host, without hosts that did not answer. groups: of the inventory. submit: the host
    on which playbooks submit jobs. settings: those about machine types, by their names. host_vars: the variables of
    hosts that name their machine type.
    """
    found = list(_problems(facts))
    if submit not in facts:
        found.append(
            f"{submit or 'group ' + GROUP}: it did not answer, and jobs are submitted there -> start it, or correct "
            "ansible_host and ansible_user; a host in slurm_login takes its place"
        )
    machines: list[str] = []
    try:
        machines = _machines(facts, groups, settings or {}, host_vars or {})
    except MachineTypeError as error:
        found.append(str(error))
    if found:
        return Parts([], found)
    slurm, who = facts[submit]["slurm"], manager_of(facts.values())
    database = next(
        (name for one in facts.values() if (name := one["service_hosts"].get("database"))), ""
    )
    compute = {host: facts[host] for host in groups.get("slurm_compute") or [] if host in facts}
    lines = [
        f"Slurm {slurm['version']} below {slurm['prefix']}, managed by {MANAGERS.get(who, 'somebody else')}; "
        f"its configuration is in {slurm['config_dir']}",
        f"train, train_status, first_job, validate, lint_job, dataset, results: available, on {submit}",
        "drain, resume, support_bundle: available",
    ]
    if database:
        lines.append(f"accounts: available, slurmdbd is on {database}")
    else:
        remedy = _ACCOUNTING.get(who, "set AccountingStorageType in slurm.conf")
        lines.append(f"accounts: not available: this Slurm does not have accounting -> {remedy}")
    lacking = [name for name in ("slurm_pyxis", "slurm_controller") if not (groups.get(name) or [])]
    if lacking:
        lines.append(
            f"containers: not available: {' and '.join(lacking)} without a host -> put the nodes that run and submit "
            "jobs into slurm_pyxis, and the host with plugstack.conf into slurm_controller"
        )
    elif any(one["slurm"].get("other_pyxis") for one in facts.values()):
        lines.append("containers: not needed: plugstack.conf loads a Pyxis of its own")
    elif fault := _plugstack_fault(facts, groups):
        lines.append(f"containers: not available: {fault}")
    else:
        lines.append("containers: available")
    why = _container_jobs(facts, list(compute), submit)
    lines.append(
        f"container_image, container jobs: not available: {why}"
        if why
        else "container_image, container jobs: available"
    )
    lines.append(
        "site, remove_nodes, image, reboot: not available: they would change a Slurm that somebody else manages"
        f" -> change the configuration of {MANAGERS.get(who, 'that Slurm')} instead"
    )
    lines += machines
    lines.append(_mounts_line(compute))
    for name in ("prolog", "epilog"):
        if slurm.get(name):
            lines.append(f"{name.capitalize()}: {', '.join(slurm[name])}; it is left as it is")
    return Parts(lines, found)
