# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From the options of validate_cluster, the inventory and Slurm's answers to what a validation is asked for."""

from __future__ import annotations

import re
import shlex
import typing as t
from collections.abc import Mapping

from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import from_json
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import stack as stacks
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware import stack
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware.machine_types import (
    MachineTypeError,
    site_types,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import values
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import (
    Controller,
    Node,
    Partition,
    Reservation,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import (
    plan as training_plan,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import (
    profile,
    render,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    catalogue,
    inputs,
    plan,
    slurm_state,
    verdicts,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.course import Asked
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.registry import (
    PARSERS,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.script import Frame

Options = Mapping[str, t.Any]
#: The check that finds the programs of a node; its command gets the names of those that checks need.
PROBE = "probe"
#: The variable of a host with the path of its local scratch.
SCRATCH = "node_scratch_path"


def exports(given: t.Any) -> dict[str, str]:
    """Return variables of a mapping, or of `A=1,B=2` as DeepOps writes srun_exports. Raises PlanError."""
    if isinstance(given, Mapping):
        wrong = [name for name, value in given.items() if not catalogue.is_plain(value)]
        if wrong:
            raise plan.PlanError(
                f"validate_exports.{wrong[0]}: is {given[wrong[0]]!r} -> a text or a number"
            )
        pairs = {str(name): str(value) for name, value in given.items()}
    else:
        parts = [part.strip() for part in str(given or "").split(",") if part.strip()]
        # `ALL` is what our steps do anyway.
        pairs = dict(part.split("=", 1) for part in parts if "=" in part and part != "ALL")
        wrong = [part for part in parts if "=" not in part and part != "ALL"]
        if wrong:
            raise plan.PlanError(
                f"srun_exports: {wrong[0]!r} has no value -> NAME=value, with commas in between"
            )
    faults = list(inputs.secrets(pairs, "validate_exports"))
    if faults:
        raise plan.PlanError("\n".join(faults))
    for name in pairs:
        if not catalogue.VARIABLE.fullmatch(name):
            raise plan.PlanError(
                f"srun_exports: {name!r} is not the name of a variable -> letters, digits and _"
            )
    return pairs


def srun_options(given: t.Any) -> dict[str, str | bool]:
    """Return options by their long names, of a mapping or of `--mpi=pmix --label`. Raises PlanError."""
    if isinstance(given, Mapping):
        return _known_to_srun(
            {
                str(name): str(value)
                if catalogue.is_plain(value) and not isinstance(value, bool)
                else value
                for name, value in given.items()
            }
        )
    try:
        words = shlex.split(str(given or ""))
    except ValueError as error:
        raise plan.PlanError(f"validate_srun_options: {error} -> close the quote") from None
    found: dict[str, str | bool] = {}
    for word in words:
        match = re.fullmatch(r"--([a-z][a-z-]*)(?:=(.*))?", word, re.DOTALL)
        if not match:
            raise plan.PlanError(
                f"validate_srun_options: {word!r} -> long options with their value after =, such as --mpi=pmix"
            )
        found[match[1]] = True if match[2] is None else match[2]
    return _known_to_srun(found)


def _known_to_srun(given: dict[str, str | bool]) -> dict[str, str | bool]:
    faults = list(inputs.srun(given, "validate_srun_options"))
    if faults:
        raise plan.PlanError("\n".join(faults))
    return given


def mounts(options: Options) -> tuple[plan.Mount, ...]:
    """Return the shared mounts with the directories in which a user may be able to write."""
    made = []
    for item in options["mounts"]:
        path = str(item.get("path") or "")
        inside = [
            str(one.get("path"))
            for one in item.get("directories") or []
            if isinstance(one, Mapping)
        ]
        home = ["~"] if item.get("purpose") == "home" else []
        places = (*(one for one in inside if "{" not in one), *home, path)
        provisioned = options["storage"].get(path) or {}
        made.append(plan.Mount(path, str(item.get("fstype") or "nfs"), places, provisioned))
    return tuple(made)


def switches(
    options: Options, hosts: Mapping[str, Mapping[str, t.Any]]
) -> dict[str, tuple[str, ...]]:
    """Return the switches above each node: those described, else its slurm_network_path."""
    found: dict[str, tuple[str, ...]] = {}
    for name, variables in hosts.items():
        path = variables.get("slurm_network_path") or []
        if isinstance(path, (list, tuple)) and path and all(path):
            found[name] = tuple(str(one) for one in path)
    for item in options["topology"].get("switches") or []:
        nodes = item.get("nodes") or []
        names = [
            n
            for one in ([nodes] if isinstance(nodes, str) else nodes)
            for n in values.expand(str(one))
        ]
        found.update(dict.fromkeys(names, (str(item.get("name")),)))
    return found


def software(variables: Mapping[str, t.Any]) -> dict[str, tuple[str, str]]:
    """Return the versions of the GPU and EFA software that a host should have: by component, with who says so.

    variables: of the host. As in preflight, software that is present is compared with the release that the inventory
    names, and with none without one. Raises PlanError.
    """
    word = variables.get(stacks.WORD) or stacks.PRESENT
    settings = {name: variables.get(name) for name in stacks.COMPARED}
    if word == stacks.NONE or (word == stacks.PRESENT and not settings["gpu_stack_release"]):
        return {}
    own = settings["gpu_stack_versions"] or {}
    site = settings["gpu_stack_releases"] or {}
    for name, value in (("gpu_stack_versions", own), ("gpu_stack_releases", site)):
        if not isinstance(value, Mapping):
            raise plan.PlanError(f"{name}: is {value!r} -> a mapping, see docs/gpu_stack.md")
    try:
        release, wanted = stacks.versions(settings)
        source = f"release {release}: {stack.releases(site)[release].source}"
    except stack.StackError as error:
        raise plan.PlanError(f"{error} -> see docs/gpu_stack.md") from None
    found = stack.brought_by_efa(wanted.get("efa", ""))
    return found | {
        name: (version, "gpu_stack_versions" if name in own else source)
        for name, version in wanted.items()
    }


def checks(options: Options) -> tuple[list[catalogue.Check], catalogue.Check]:
    """Return the checks, and the probe with the names of all programs that they need. Raises CheckError, PlanError."""
    parsers = {*PARSERS, *verdicts.OWN}
    made = catalogue.load(options["checks"], options["changes"], parsers)
    faults = [
        f"validate_checks.{check.name}.test: is {check.test!r} -> one of {', '.join(slurm_state.TESTS)}"
        for check in made
        if check.kind == "slurm" and check.test not in slurm_state.TESTS
    ]
    if faults:
        raise catalogue.CheckError("\n".join(faults))
    inputs.refuse(options, made)
    made = catalogue.of_names(made, options["only"], options["stages"])
    names = sorted({"mpirun", *(name for check in made for name in check.programs)})
    probe = catalogue.Check(
        PROBE,
        "static",
        "finds the programs of the node",
        command=f'exec python3 "$VALIDATION/probe.py" {" ".join(map(shlex.quote, names))}',
        parser="ours",
        remedy="does the node reach the directory of the validation, and has it python3?",
    )
    return made, probe


def asked(
    options: Options,
    slurm: Mapping[str, t.Any],
    hosts: Mapping[str, Mapping[str, t.Any]],
    run: str,
    directory: str,
    earlier: t.Sequence[str],
    partition: str,
) -> Asked:
    """Return what the validation is asked for.

    slurm: result of slurm_info. hosts: variables of the inventory's hosts. directory: absolute, of all validations.
    earlier: nodes of the run that goes on, () for a new one. Raises CheckError, PlanError.
    """
    made, probe = checks(options)
    nodes = [Node.of(item) for item in slurm["nodes"]]
    reserved = plan.reserved_nodes(
        [Reservation.of(item) for item in slurm.get("reservations") or []],
        options["reservation"],
    )
    wanted = plan.chosen(
        nodes,
        ",".join(earlier) if earlier else options["nodes"],
        partition,
        options["sample"],
        reserved,
    )
    try:
        rows = site_types(options["machine_types"], "slurm_machine_types")
    except MachineTypeError as error:
        raise plan.PlanError(str(error)) from None
    above = switches(options, hosts)
    under_test = tuple(
        plan.Host(
            node.name,
            node.address,
            {
                **plan.declared(node, hosts.get(node.name, {}), rows),
                "versions": software(hosts.get(node.name, {})),
                "scratch": str(hosts.get(node.name, {}).get(SCRATCH) or ""),
            },
            above.get(node.name, ()),
        )
        for node in wanted
    )
    site = plan.Site(
        mounts(options),
        frozenset(options["pyxis"]),
        options["image"],
        tuple(options["buckets"]),
        options["mpi"],
        ngc_image=options["ngc_image"],
        dcgm_level=options["dcgm_level"],
    )
    for check in made:
        # Its description is refused now, not when the other stages have run.
        if check.kind == "training" and check.stage in options["stages"]:
            training(check, under_test[:2], directory, run)
    results = options["node_results"]
    partitions = [Partition.of(item) for item in slurm["partitions"]]
    return Asked(
        checks=tuple(made),
        stages=tuple(catalogue.stages(options["stages"])),
        hosts=under_test,
        site=site,
        slurm=slurm_state.Slurm(
            tuple(wanted),
            tuple(partitions),
            tuple(Controller.of(item) for item in slurm["controllers"]),
            options["wake"],
        ),
        frame=Frame(
            run,
            f"{directory}/programs",
            f"{directory}/{run}",
            exports(options["exports"]),
            srun_options(options["srun_options"]),
            {"site": options["image"], "ngc": options["ngc_image"]},
            (directory,),
            {
                "VALIDATION_MOUNTS": " ".join(one.path for one in site.mounts),
                "VALIDATION_BUCKETS": " ".join(site.buckets),
                "VALIDATION_DCGM_LEVEL": str(site.dcgm_level),
                "VALIDATION_SCRATCH": ":".join(
                    sorted({host.declared["scratch"] for host in under_test} - {""})
                ),
            },
            tuple(options["path"]),
        ),
        probe=probe,
        node_results=None if results is None else tuple(from_json(results)),
        parallel=options["parallel"],
        full=options["full"],
        foreign=options["foreign"],
        training=lambda check, some: training(check, some, directory, run),
    )


def training(check: catalogue.Check, hosts: t.Sequence[plan.Host], directory: str, run: str) -> str:
    """Return the batch script of a training, as train.yml renders it."""
    place = f"{directory}/{run}/{check.name}"
    given = _filled(
        {
            "name": check.name.replace("_", "-"),
            "nodes": len(hosts),
            "time": str(max(1, check.deadline // 60)),
            **check.job,
        },
        {"PROGRAMS": f"{directory}/programs", "RUN": place},
    )
    kind = str(hosts[0].declared.get("machine_type") or "")
    (job,) = training_plan.descriptions([given])
    return render.render(job, efa=profile.has_efa(kind))


def _filled(value: t.Any, names: Mapping[str, str]) -> t.Any:
    """Return a description with the paths that only the run knows in place of {PROGRAMS} and {RUN}."""
    if isinstance(value, Mapping):
        return {key: _filled(one, names) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_filled(one, names) for one in value]
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("{" + name + "}", text)
    return value
