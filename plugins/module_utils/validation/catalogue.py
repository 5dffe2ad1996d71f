# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The checks of a validation as data: their keys, their defaults, what a site changes of them. Pure."""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import typing as t

from ..hardware.stack_data import COMPONENTS
from ..hardware.thresholds import REFERENCE, ThresholdError, is_reference, size_in_bytes

#: The stages in their order; each leaves out the nodes that failed in one before it.
STAGES = ("static", "node", "pairwise", "collective", "storage", "container", "mpi", "training")
#: slurm: judged by what slurmctld says; health: by role node_health; job: steps of a job; pairs: a search over pairs
#: of nodes; training: a job by the description of docs/training_jobs.md.
KINDS = ("slurm", "health", "job", "pairs", "training")
#: srun: a task on each node; pmix: the same with Slurm's PMIx; mpirun: by Open MPI; container: srun with Pyxis.
LAUNCHERS = ("srun", "pmix", "mpirun", "container")
#: Images of a step in a container: site: validate_image; ngc: validate_ngc_image.
IMAGES = ("site", "ngc")
#: Needs of a check, and the words where one is not declared.
NEEDS = {
    "gpus": "no node declares GPUs",
    "several_gpus": "no node declares several GPUs",
    "efa": "no node declares EFA",
    "infiniband": "no node declares InfiniBand",
    "nvlink": "no node declares NVLink",
    "pyxis": "no node has Pyxis: the group slurm_pyxis is empty",
    "mpi": "no node has mpirun, and nothing declares MPI",
    "pmix": "this Slurm does not have the plugin mpi/pmix",
    "mount": "no shared mount is declared",
    "network_storage": "no shared mount is on the network",
    "bucket": "validate_buckets is empty",
    "conda": "no login has an mpirun of conda",
    "dcgm": "validate_dcgm_level is 0",
    "scratch": "no node has a node_scratch_path",
    "ngc_image": "validate_ngc_image is empty",
}
#: Needs that a single node fulfils or not; the others are those of the cluster.
NODE_NEEDS = ("gpus", "several_gpus", "efa", "infiniband", "nvlink", "conda", "scratch")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
#: The name of a variable of the environment.
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VERDICTS = ("FAIL", "WARN")


class CheckError(ValueError):
    """Checks that are not of this form, a line for each fault."""


@dataclasses.dataclass(frozen=True)
class Check:
    """One check.

    nodes: `each` (one result a node), or sizes of the groups that run it together: numbers and `all`. mounts: whether
    it runs on each shared mount. tasks: processes of a node; `gpus` for one a GPU. parser: of validation/parsers, or
    `text` (the whole output) or `ours` (programs of role validate). largest: bytes of its largest message, such as 2G.
    figures: those of the parser that are judged, each with a result of its own; of pairs, the bandwidth and perhaps a
    latency and resent_percent. expect: see expectation.py; without it, figures are judged by references (by figure a
    number, or a test of the table of thresholds), else by their peers. verdict: of a miss. image: of a container, one
    of IMAGES. programs: what its command
    needs on each node; optional: without them on any node it does not apply. unless: checks that make this one
    superfluous where they apply. compare: its first figure is compared with those of the checks of the same word. test:
    of kind slurm, a function of slurm_state.py. deadline: seconds of one step. network: whether NCCL's log in its
    output must name the network that the nodes declare. environment: of its command. srun_options: by their long names.
    job: of kind training, the description.
    """

    name: str
    stage: str
    title: str
    kind: str = "job"
    command: str = ""
    launch: str = "srun"
    image: str = "site"
    nodes: tuple[str | int, ...] = ("each",)
    tasks: str | int = 1
    mounts: bool = False
    parser: str = "text"
    largest: str = ""
    figures: tuple[str, ...] = ()
    unit: str = ""
    expect: t.Any = None
    references: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    verdict: str = "FAIL"
    needs: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    optional: bool = False
    unless: tuple[str, ...] = ()
    compare: str = ""
    test: str = ""
    deadline: int = 60
    network: bool = False
    environment: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    srun_options: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    job: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    remedy: str = ""
    provenance: str = ""

    @property
    def of_each(self) -> bool:
        """Whether every node has a result of its own."""
        return self.nodes == ("each",)

    @property
    def needs_words(self) -> bool:
        """Whether an output without a word says nothing: it differs from no other, and lacks everything."""
        if isinstance(self.expect, t.Mapping):
            return self.parser == "text" and "lacks" in self.expect
        return self.parser == "text"

    @property
    def largest_bytes(self) -> int | None:
        """Return the bytes of its largest message; None where it does not name them."""
        return size_in_bytes(self.largest or None)

    def test_of(self, figure: str) -> str:
        """Return the test of the table of thresholds for a figure; "" where the check has a number of its own.

        Without one in references, it is the check's name, and for figures after the first `name.figure`.
        """
        first = not self.figures or figure == self.figures[0]
        named = self.references.get(figure, self.name if first else f"{self.name}.{figure}")
        return named if isinstance(named, str) else ""

    def unit_of(self, figure: str) -> str:
        """Return the unit of a figure, by its name."""
        return self.unit or next((unit for end, unit in _UNITS if re.search(end, figure)), "")


#: Unit of a figure by its name, as validation/parsers/parsed.py names them.
_UNITS = (
    ("_us$", "us"),
    ("_seconds$", "s"),
    ("_ops$", "ops/s"),
    ("_iops$", "IO/s"),
    ("_percent$", "%"),
    ("^(bandwidth|busbw|algbw)", "GB/s"),
)


def less_is_better(figure: str) -> bool:
    """Whether a figure is a time."""
    return figure.endswith(("_us", "_seconds"))


_FIELDS = {field.name: field for field in dataclasses.fields(Check)}
_LISTS = ("nodes", "figures", "needs", "programs", "unless")
_MAPPINGS = ("environment", "srun_options", "job", "references")
_TEXTS = (
    *("stage", "title", "kind", "command", "launch", "image", "parser", "unit"),
    *("verdict", "compare", "test", "remedy", "provenance"),
)
_CHOICES = {
    "stage": STAGES,
    "kind": KINDS,
    "launch": LAUNCHERS,
    "image": IMAGES,
    "verdict": _VERDICTS,
}


def load(
    given: t.Mapping[str, t.Any],
    changes: t.Mapping[str, t.Any] | None = None,
    parsers: t.Collection[str] = (),
) -> list[Check]:
    """Return the checks in the order of their stages.

    given: those of role validate by name. changes: those of the site: keys that replace, null for a check to leave
    out, a new name for a new check. parsers: names that `parser` may have. Raises CheckError.
    """
    merged: dict[str, dict[str, t.Any]] = {name: dict(keys) for name, keys in given.items()}
    faults: list[str] = []
    for name, keys in (changes or {}).items():
        where = f"validate_checks.{name}"
        if keys is None:
            if name not in merged:
                faults.append(f"{where}: there is no check of this name -> leave it out")
            merged.pop(name, None)
        elif not isinstance(keys, t.Mapping):
            faults.append(f"{where}: is a {type(keys).__name__} -> a mapping of its keys, or null")
        else:
            merged[name] = {**merged.get(name, {}), **keys}
    made = []
    # One that is left out may still be named by others.
    names = {*given, *(changes or {})}
    for name, keys in merged.items():
        where = f"validate_checks.{name}"
        found = list(_faults(name, keys, where, names, parsers))
        faults += found
        if not found:
            made.append(_made(name, keys))
    if faults:
        raise CheckError("\n".join(faults))
    return sorted(made, key=lambda check: STAGES.index(check.stage))


def of_names(
    checks: t.Sequence[Check], names: t.Sequence[str], among: t.Sequence[str]
) -> list[Check]:
    """Return the checks of these names; without names all. among: the stages, () for all. Raises CheckError."""
    known = {check.name: check for check in checks}
    faults = []
    for name in names:
        stage = known[name].stage if name in known else ""
        near = difflib.get_close_matches(name, known, 1)
        if not stage:
            remedy = f"did you mean {near[0]}?" if near else "see --check for all of them"
            faults.append(f"validate_only: there is no check {name} -> {remedy}")
        elif among and stage not in among:
            faults.append(
                f"validate_only: {name} is of stage {stage}, which does not run -> add it"
            )
    if faults:
        raise CheckError("\n".join(faults))
    return [check for check in checks if not names or check.name in names]


def _made(name: str, keys: t.Mapping[str, t.Any]) -> Check:
    values = dict(keys)
    for key in _LISTS:
        if key in values:
            one = values[key]
            values[key] = tuple(one) if isinstance(one, (list, tuple)) else (one,)
    if "environment" in values:
        values["environment"] = {str(key): str(one) for key, one in values["environment"].items()}
    return Check(name=name, **values)


def _faults(
    name: str,
    keys: t.Mapping[str, t.Any],
    where: str,
    names: t.Collection[str],
    parsers: t.Collection[str],
) -> t.Iterator[str]:
    if not _NAME.fullmatch(str(name)):
        yield f"{where}: is not a name -> lower-case letters, digits and _"
    for key in keys:
        if key not in _FIELDS or key == "name":
            yield f"{where}.{key}: no check has such a key -> one of {', '.join(sorted(set(_FIELDS) - {'name'}))}"
    for key in ("stage", "title"):
        if not keys.get(key):
            yield f"{where}.{key}: is missing -> every check has it"
    for key in _TEXTS:
        if key in keys and not isinstance(keys[key], str):
            yield f"{where}.{key}: is a {type(keys[key]).__name__} -> a text"
        elif "\0" in keys.get(key, ""):
            yield f"{where}.{key}: has a NUL, with which no program can be called -> remove it"
    for key in _LISTS[1:]:
        if not all(isinstance(one, str) for one in _list(keys.get(key, ()))):
            yield f"{where}.{key}: is {keys[key]!r} -> a list of texts"
    for key, choices in _CHOICES.items():
        if isinstance(keys.get(key), str) and keys[key] not in choices:
            yield f"{where}.{key}: is {keys[key]!r} -> one of {', '.join(choices)}"
    for key in _MAPPINGS:
        if not isinstance(keys.get(key, {}), t.Mapping):
            yield f"{where}.{key}: is a {type(keys[key]).__name__} -> a mapping"
    environment = keys.get("environment", {})
    for variable, value in environment.items() if isinstance(environment, t.Mapping) else ():
        if not VARIABLE.fullmatch(str(variable)):
            yield f"{where}.environment: {variable!r} is not the name of a variable -> letters, digits and _"
        elif not is_plain(value):
            yield f"{where}.environment.{variable}: is {value!r} -> a text or a number"
    references = keys.get("references", {})
    for figure, value in references.items() if isinstance(references, t.Mapping) else ():
        if not is_reference(value) and not (isinstance(value, str) and value):
            yield f"{where}.references.{figure}: is {value!r} -> {REFERENCE}, or a test of the table"
    for key, known in (("needs", NEEDS), ("unless", names)):
        for one in _list(keys.get(key, ())):
            if isinstance(one, str) and one not in known:
                yield f"{where}.{key}: {one!r} is not known -> one of {', '.join(sorted(known))}"
    deadline = keys.get("deadline", 1)
    if not _whole(deadline):
        yield f"{where}.deadline: is {deadline!r} -> a whole number of seconds, 1 or more"
    tasks = keys.get("tasks", 1)
    if not _whole(tasks) and tasks != "gpus":
        yield f"{where}.tasks: is {tasks!r} -> a number of processes of a node, or gpus"
    yield from _of_nodes(keys, where)
    for key in ("mounts", "network", "optional"):
        if not isinstance(keys.get(key, False), bool):
            yield f"{where}.{key}: is {keys[key]!r} -> true or false"
    try:
        size_in_bytes(keys.get("largest") or None)
    except ThresholdError as error:
        yield f"{where}.largest: {error}"
    yield from expectation_faults(keys.get("expect"), f"{where}.expect")
    parser = keys.get("parser", "text")
    if parsers and isinstance(parser, str) and parser not in parsers:
        yield f"{where}.parser: is {parser!r} -> one of {', '.join(sorted(parsers))}"
    kind = keys.get("kind", "job")
    if kind in ("job", "pairs") and not keys.get("command"):
        yield f"{where}.command: is missing -> the command that a task runs"
    if kind == "training" and not keys.get("job"):
        yield f"{where}.job: is missing -> the description of a training job, docs/training_jobs.md"


#: Forms of `expect` besides `same`, and the types of their value.
EXPECTED = {
    "declared": (str,),
    "version": (str,),
    "is": (str, int, float, bool),
    "least": (int, float),
    "most": (int, float),
    "matches": (str,),
    "lacks": (str,),
}


#: Texts that have nothing in common: what is found in all of them is found everywhere.
_ANYTHING = ("", "\0", "a b", "1.5\n/x")


def expectation_faults(expect: t.Any, where: str) -> t.Iterator[str]:
    """Yield what is wrong with the value of `expect`."""
    if expect in (None, "same"):
        return
    forms = ", ".join(EXPECTED)
    if not isinstance(expect, t.Mapping) or len(expect) != 1 or not EXPECTED.keys() >= set(expect):
        yield f"{where}: is {expect!r} -> same, or a mapping with one of {forms}"
        return
    ((form, value),) = expect.items()
    if not isinstance(value, EXPECTED[form]) or (isinstance(value, bool) and form != "is"):
        yield f"{where}.{form}: is {value!r} -> see docs/validation.md"
    elif form == "version" and value not in COMPONENTS:
        yield f"{where}.version: is {value!r} -> one of {', '.join(COMPONENTS)}"
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{where}.{form}: is {value!r}, with which every value or none passes -> a finite number"
    elif form in ("matches", "lacks"):
        try:
            pattern = re.compile(str(value))
        except re.error as error:
            yield f"{where}.{form}: {value!r} is not a regular expression: {error} -> correct it"
            return
        if all(pattern.search(text) for text in _ANYTHING):
            passes = "every" if form == "matches" else "no"
            what = f"{value!r} is found in every text, so {passes} output passes"
            yield f"{where}.{form}: {what} -> name what to look for"


def _of_nodes(keys: t.Mapping[str, t.Any], where: str) -> t.Iterator[str]:
    nodes = _list(keys.get("nodes", ("each",)))
    wrong = [one for one in nodes if one not in ("each", "all") and not _whole(one)]
    if wrong or not nodes or ("each" in nodes and len(nodes) > 1):
        shown = keys.get("nodes")
        yield f"{where}.nodes: is {shown!r} -> each, or a list of numbers of nodes and all"
    if keys.get("kind") == "pairs" and "nodes" in keys:
        yield f"{where}.nodes: a check of pairs takes two at a time -> leave it out"


def is_plain(value: object) -> bool:
    """Whether a value is a text, a number or a boolean, so that it can be one word of a command."""
    return isinstance(value, (str, int, float))


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _list(value: t.Any) -> t.Sequence[t.Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def stages(given: str | t.Sequence[str] | None) -> list[str]:
    """Return the stages in their order; None: all. Raises CheckError, also where none is left."""
    if given is None:
        return list(STAGES)
    names = given.replace(",", " ").split() if isinstance(given, str) else list(given)
    wrong = [name for name in names if name not in STAGES]
    if wrong:
        raise CheckError(
            f"validate_stages: {', '.join(wrong)}: no such stage -> of {', '.join(STAGES)}"
        )
    if not names:
        raise CheckError(
            f"validate_stages: no stage is left -> one or more of {', '.join(STAGES)}, which --skip-tags does not"
            " leave out"
        )
    return [name for name in STAGES if name in names]
