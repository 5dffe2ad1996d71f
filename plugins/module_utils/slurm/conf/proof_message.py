# The end of a run whose proof failed: which nodes, slurmd's words, the variable and the remedy.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Say why a step did not run and what to do. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.node.names import some
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import messages

if t.TYPE_CHECKING:
    from .proof import Result

#: Where a site sets what a reason of slurmctld_config begins with.
_VARIABLES = {
    "NodeName": "slurm_node",
    "PartitionName": "slurm_partitions",
    "NodeSet": "slurm_node_sets",
    "plugstack.conf": "slurm_plugstack",
    "cgroup.conf": "slurm_cgroup_conf",
    "gres.conf": "slurm_node",
    "topology.conf": "slurm_topology",
    "topology.yaml": "slurm_topology",
    "job_container.conf": "slurm_job_tmp",
    "JobContainerType": "slurm_job_tmp",
    "TopologyPlugin": "slurm_topology",
    "GresTypes": "slurm_node",
    "AuthType": "slurm_auth_type",
    "CredType": "slurm_auth_type",
    "SlurmctldPort": "slurm_ports",
    "SlurmdPort": "slurm_ports",
    "AccountingStoragePort": "slurm_ports",
    "SrunPortRange": "slurm_srun_port_range",
    "StateSaveLocation": "slurm_state_save_location",
    "SlurmdSpoolDir": "slurm_spool_dir",
    **dict.fromkeys(
        ("HealthCheckProgram", "HealthCheckInterval", "HealthCheckNodeState"),
        "node_health_interval",
    ),
    **dict.fromkeys(("PrologTimeout", "EpilogTimeout", "PrologEpilogTimeout"), "job_hooks_parts"),
}
#: Programs that slurm.conf names for the role job_hooks and for a site alike.
_HOOKS = ("Prolog", "Epilog", "TaskProlog", "PrologSlurmctld", "EpilogSlurmctld")
_HOOK_FAILED = re.compile(
    r"tw:hook:([^:;\s]+)"
    r"|\b(?:task)?(?:prolog|epilog)(?!flags|epilog)\w*[^;,]{0,80}?\b(?:failed|error|status|timed out)",
    re.IGNORECASE,
)


def hook_remedy(words: t.Iterable[str]) -> str:
    """Return what to do about a Prolog or Epilog of a job that failed, "" where none did."""
    found = [match for text in words if (match := _HOOK_FAILED.search(text))]
    if not found:
        return ""
    part = next((match[1] for match in found if match[1]), "")
    which = f"the hook {part}" if part else "the Prolog or Epilog that failed"
    return (
        f"repair {which}, or what it complains of (job_hooks_parts, and slurm_conf.Prolog and Epilog of your own;"
        " with job_hooks_mode: observe no hook of job_hooks fails)"
    )


def variables(reasons: t.Iterable[str]) -> list[str]:
    """Return the variables that set what changed, from the reasons of slurmctld_config."""
    names = []
    for reason in reasons:
        name = re.split(r"[:=]", reason, maxsplit=1)[0].strip()
        if name in _HOOKS:
            names += ["job_hooks_parts", f"slurm_conf.{name}"]
        elif re.fullmatch(r"[A-Za-z]+", name):
            names.append(_VARIABLES.get(name, f"slurm_conf.{name}"))
        elif name in _VARIABLES:
            names.append(_VARIABLES[name])
    return list(dict.fromkeys(names))


def words_of(log: str) -> str:
    """Return why slurmd refused a configuration or ended, from the last lines of its log or journal."""
    # These come from connections that only test whether it listens.
    lines = [line for line in log.splitlines() if "Zero Bytes" not in line]
    begins = [
        number
        for number, line in enumerate(lines)
        if re.search(r"Triggering reconfigure|Starting slurmd|slurmd version", line)
    ]
    # A slurmd that systemd starts again and again writes the same for each start.
    last = [lines[start:end] for start, end in zip(begins, [*begins[1:], len(lines)])] or [lines]
    found = next((part for part in reversed(last) if any("error" in line for line in part)), [])
    return messages.reason([line.removeprefix("slurmd: ") for line in found])


def client_message(
    failed: t.Mapping[str, str],
    back: t.Mapping[str, t.Any] | None,
    still: t.Collection[str],
) -> str:
    """Return the end of a run where no command of Slurm starts on login hosts; failed: their words.

    back: as for message. still: the hosts on which they fail with the old files, too.
    """
    names = some(sorted(failed), 5)
    said = "; ".join(f"{name}: {why}" for name, why in sorted(failed.items())[:3])
    repair = f"install or repair on {names} what it names (packages of Slurm and of its plugins)"
    none = f"no command of Slurm starts on {names}"
    if back is None:
        return f"{none}: {said} -> {repair}, and run again"
    given = " or ".join(variables(back.get("reasons", []))) or "what it names"
    now = "the one of the last proof is back, and they work again"
    if back.get("failed"):
        now = f"slurmctld did not go back to the last proved one ({back.get('msg', '')})"
    elif still:
        neither = "neither with the new configuration nor with the last proved one, which is back"
        return f"{none}, {neither}: {said} -> {repair}, and run again"
    return f"{none} with the new configuration; {now}. {said} -> correct {given}, or {repair}, and run again"


def message(
    failed: t.Mapping[str, str],
    words: t.Mapping[str, str],
    back: t.Mapping[str, t.Any] | None,
    after: Result | None,
) -> str:
    """Return the end of a run whose proof failed.

    words: slurmd's own, by node. back: the result of slurmctld_config, None if there was nothing to go back to.
    """
    alike: dict[str, list[str]] = {}
    for name, why in failed.items():
        said = words.get(name) or next((words[one] for one in words if failed.get(one) == why), "")
        alike.setdefault(f"{why}; slurmd said: {said}" if said else why, []).append(name)
    shown = [f"{some(sorted(names), 5)}: {why}" for why, names in list(alike.items())[:3]]
    said = "; ".join(shown)
    drain = (
        "drain a node that is broken itself (scontrol update nodename=<node> state=drain reason=<why>; remove_nodes"
        " takes out one that is new)"
    )
    hook = hook_remedy([*failed.values(), *words.values()])
    if back is None or after is None:
        named = hook or "correct what slurmd or srun names"
        return (
            f"no step runs on {some(sorted(failed), 5)}, and no other configuration was proved that could come back: "
            f"{said} -> {named}, or {drain}, and run again"
        )
    given = " or ".join(variables(back.get("reasons", []))) or "what slurmd or srun names"
    # A changed setting of slurm.conf is innocent where a hook failed.
    repair = hook or f"correct {given}"
    if back.get("failed"):
        return (
            f"the new configuration does not run a step, and slurmctld did not go back to the last proved one "
            f"({back.get('msg', '')}): {said} -> {repair} and run again"
        )
    if after.proved:
        now = f"runs a step again on {some(sorted(after.proved), 5)}"
    else:
        left = {**after.skipped, **after.failed}
        now = (
            "runs none either ("
            + "; ".join(f"{name}: {why}" for name, why in list(left.items())[:2])
            + ")"
        )
    return (
        f"the new configuration does not run a step on {some(sorted(failed), 5)}; the one of the last proof is back "
        f"and {now}. {said} -> {repair}, or {drain}, and run again"
    )
