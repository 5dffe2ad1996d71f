# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A stand-in for the jobs of a validation: the checks of role validate, and the logs that healthy nodes would write."""

from __future__ import annotations

import dataclasses
import json
import typing as t
from pathlib import Path

import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import (
    Controller,
    Node,
    Partition,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    catalogue,
    plan,
    slurm_state,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.catalogue import (
    STAGES,
    Check,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.course import (
    Asked,
    Course,
    Ran,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.references import (
    References,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.script import Frame, Work

ROOT = Path(__file__).resolve().parents[5]
RUN = "20261124-120000"
PROGRAMS = {"mpirun": "/usr/bin/mpirun"}
#: What a check printed on one node or group: text and exit code.
Said = tuple[str, int]
#: (check, nodes) -> what it says instead of what healthy nodes say; None: nothing else.
Fault = t.Callable[[Check, tuple[str, ...]], t.Optional[Said]]


def given() -> dict[str, t.Any]:
    """Return the checks of the role as data."""
    found: dict[str, t.Any] = {}
    for stage in STAGES:
        path = ROOT / "roles" / "validate" / "vars" / "main" / f"{stage}.yml"
        found.update(yaml.safe_load(path.read_text(encoding="utf-8"))[f"__validate_{stage}"])
    # Ansible fills it in, by the level.
    found["dcgm"]["deadline"] = 900
    return found


def transfer(bandwidth: float, latency_us: float = 20.0) -> str:
    """Return what sockets.py and mpi.py print. bandwidth: GB/s."""
    sizes = [8, 1 << 20]
    seconds = [latency_us / 1e6, (1 << 20) / bandwidth / 1e9]
    points = [
        {"size_bytes": size, "seconds": time, "factor": 1.0} for size, time in zip(sizes, seconds)
    ]
    return json.dumps(
        {"trainwright": "transfer", "format": 1, "test": "pair", "transport": "tcp", "ranks": 2}
        | {"wrong": 0, "sizes": sizes, "points": points}
    )


def tasks(nodes: t.Sequence[str], cpus: int = 8, gpus: int = 8) -> str:
    """Return what task.sh prints on these nodes."""
    return "\n".join(f"task {node} of {' '.join(nodes)}: cpus={cpus} gpus={gpus}" for node in nodes)


def healthy(check: Check, nodes: tuple[str, ...], programs: t.Mapping[str, str]) -> Said:
    """Return what a check of a healthy cluster prints."""
    if check.name == "probe":
        return json.dumps({"trainwright": 1, "facts": {"programs": programs, "pmix": True}}), 0
    if check.parser == "transfer":
        return transfer(1.0 + 0.001 * len("".join(nodes)) % 0.01), 0
    if check.parser == "tasks":
        return tasks(nodes), 0
    if check.parser == "ours":
        return json.dumps({"trainwright": 1, "figures": {"write": 1.0, "read": 2.0}}), 0
    return {"open_files": "1048576", "mounts": "/shared is mounted"}.get(check.name, "the same"), 0


def log_of(work: Work, fault: Fault, programs: t.Mapping[str, str]) -> str:
    """Return the log of a job that came to its end."""
    lines: list[str] = []
    if work.text:
        return "0: 2 ranks, beginning at step 0\n0: step 50/50 loss 0.010000 samples/s 900.0\n"

    def say(check: Check, nodes: tuple[str, ...]) -> Said:
        return fault(check, nodes) or healthy(check, nodes, programs)

    if work.each:
        lines.append(f"@@{RUN} begin each")
        for number, host in enumerate(work.each.hosts):
            lines.append(f"{number}: @@{RUN} node {host.name}")
            for check, names in work.each.checks:
                if host.name in names:
                    text, code = say(check, (host.name,))
                    lines.append(f"{number}: @@{RUN} check {check.name}")
                    lines += [f"{number}: {line}" for line in text.splitlines()]
                    lines.append(f"{number}: @@{RUN} code {code} 1")
        lines.append(f"@@{RUN} end each 0 2")
    for step in work.steps:
        text, code = say(step.check, tuple(host.name for host in step.hosts))
        lines += [f"@@{RUN} begin {step.name}", text, "", f"@@{RUN} end {step.name} {code} 3"]
    return "\n".join([*lines, f"@@{RUN} done {work.name}"]) + "\n"


def asked(
    names: t.Sequence[str],
    stages: t.Sequence[str] = STAGES,
    nodes: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
    changes: t.Mapping[str, t.Any] | None = None,
    switches: t.Mapping[str, str] | None = None,
    **more: t.Any,
) -> Asked:
    """Return what a validation of these nodes is asked for. nodes: fields of Slurm's record of a node."""
    records = [
        Node(name, "IDLE", partitions=("p",), version="24.11.5", address=name) for name in names
    ]
    records = [dataclasses.replace(one, **(nodes or {}).get(one.name, {})) for one in records]
    above = switches or {}
    hosts = [
        plan.Host(
            one.name,
            one.address,
            plan.declared(one, {}),
            (above[one.name],) if one.name in above else (),
        )
        for one in records
    ]
    probe = Check("probe", "static", "finds programs", command="probe", parser="ours")
    fields: dict[str, t.Any] = {
        "checks": tuple(catalogue.load(given(), changes)),
        "stages": tuple(stages),
        "hosts": tuple(hosts),
        "site": plan.Site(mounts=(plan.Mount("/shared", "none", ("/shared/data", "/shared")),)),
        "slurm": slurm_state.Slurm(
            tuple(records), (Partition("p"),), (Controller("ctl1", up=True),)
        ),
        "frame": Frame(RUN, "/home/alice/validation/programs", f"/home/alice/validation/{RUN}"),
        "probe": probe,
    }
    return Asked(**{**fields, **more})


def drive(
    what: Asked,
    fault: Fault = lambda check, nodes: None,
    programs: t.Mapping[str, str] = PROGRAMS,
    references: References | None = None,
    ran: t.Callable[[Work], Ran | None] = lambda work: None,
) -> tuple[Course, list[Work]]:
    """Run a course to its end; return it with its jobs."""
    course = Course(what, references or References())
    works: list[Work] = []
    rounds = course.run()
    logs: dict[str, Ran] | None = None
    while True:
        try:
            now = next(rounds) if logs is None else rounds.send(logs)
        except StopIteration:
            return course, works
        works += now
        logs = {
            one.name: ran(one) or Ran(log_of(one, fault, programs), id=len(works), seconds=2.0)
            for one in now
        }
