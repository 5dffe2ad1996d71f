# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The course of a validation: which jobs run next, and what their logs say, until the last stage is over. Pure.

course = Course(asked, references)
jobs = course.run()                     # a generator
works = next(jobs)                      # run them; `jobs.send(logs)` returns the next ones
The same logs give the same course, so a run that was interrupted goes on by handing in the logs that are there.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..checks.result import Result, Verdict
from . import collect, measurement, pairing, plan, slurm_state, verdicts
from .catalogue import Check
from .document import Measurement
from .expectation import CLUSTER, line
from .plan import Host, Reach
from .references import References
from .script import Each, Frame, Step, Work
from .search import Search as PairSearch
from .verdicts import Place

#: Stages whose failures keep a node out of the later ones.
GATES = ("static", "node", "pairwise")


@dataclasses.dataclass(frozen=True)
class Ran:
    """The end of a job.

    log: its output. why: one line, where it did not come to its end, or not on all nodes. lost: why it ran without some
    of its nodes, by their names.
    """

    log: str = ""
    why: str = ""
    id: int | None = None
    seconds: float = 0.0
    lost: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Asked:
    """The subject of a validation, and its manner.

    checks: all of them, in order. hosts: the nodes under test. probe: the check that finds the programs of a node.
    node_results: of role node_health, None where it was not asked. parallel: steps of a job at the same time, 0 for
    all that do not share a node. full: every pair is tested. training: renders a description of a job for some nodes.
    """

    checks: tuple[Check, ...]
    stages: tuple[str, ...]
    hosts: tuple[Host, ...]
    site: plan.Site
    slurm: slurm_state.Slurm
    frame: Frame
    probe: Check
    node_results: tuple[Result, ...] | None = None
    parallel: int = 0
    full: bool = False
    foreign: bool = False
    training: t.Callable[[Check, t.Sequence[Host]], str] | None = None


@dataclasses.dataclass
class StageRun:
    """A stage that ran: its jobs, and the seconds that they took."""

    name: str
    jobs: list[int] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    works: int = 0
    failed: bool = False


Jobs = t.Generator[list[Work], dict[str, Ran], None]


def tally(results: t.Sequence[Result]) -> str:
    """Return how many results have which verdict, in words; those with a value and no reference are not judged."""
    words = [
        "not judged"
        if one.verdict is Verdict.NOT_APPLICABLE and one.value is not None
        else str(one.verdict)
        for one in results
    ]
    order = [*map(str, Verdict), "not judged"]
    shown = [f"{words.count(word)} {word}" for word in order if word in words]
    return ", ".join(shown) or "nothing to test"


class Course:
    """A validation on its way. Its results, measurements and searches grow with the logs that run() is sent."""

    def __init__(self, asked: Asked, references: References) -> None:
        self.asked, self.references = asked, references
        self.hosts = list(asked.hosts)
        self.site = asked.site
        self.results: list[Result] = []
        self.measurements: list[Measurement] = []
        self.searches: list[measurement.Outcome] = []
        self.stages: list[StageRun] = []
        #: Why a node is left out of the stages to come.
        self.out: dict[str, str] = {}
        #: Lines for the screen, which whoever prints them removes.
        self.said: list[str] = []
        self._best: dict[str, float] = {}
        self._missed: dict[str, list[str]] = {}

    # -- the stages --------------------------------------------------------------------------------
    def run(self) -> Jobs:
        """Yield the jobs that may run at the same time; each is answered by name."""
        for node in self.asked.slurm.nodes:
            if why := plan.unusable(node, self.asked.slurm.wake):
                self.out[node.name] = why.partition(" -> ")[0]
                self.results.append(slurm_state.state("node_state", node, self.asked.slurm.wake))
        yield from self._probe()
        if self.results and "static" not in self.asked.stages:
            self.said.append(f"before the first stage: {tally(self.results)}")
        for stage in self.asked.stages:
            if stage not in [one.name for one in self.stages]:
                self.stages.append(StageRun(stage))
            # The states of the nodes, and the checks that ran with the probe, are of static.
            begun = 0 if stage == "static" else len(self.results)
            if stage != "static":
                self._leave_out(stage)
                if not self._able():
                    self.said.append(f"{stage}: no node is left to test")
                    continue
            yield from self._stage(stage)
            self.results += verdicts.compared(stage, self._checks(stage), self._best)
            self._gate(stage)
            self.said.append(f"{stage}: {tally(self.results[begun:])}")
        for host, stages in self._missed.items():
            self.results.append(
                Result(
                    host,
                    "left_out",
                    Verdict.INCOMPLETE,
                    detail=line(f"left out of {', '.join(stages)}: {self.out[host]}"),
                    remedy="repair the node, then run these stages again",
                )
            )

    def _checks(self, stage: str) -> list[Check]:
        return [check for check in self.asked.checks if check.stage == stage]

    def _able(self) -> list[Host]:
        return [host for host in self.hosts if host.name not in self.out]

    def _leave_out(self, stage: str) -> None:
        for host in self.out:
            self._missed.setdefault(host, []).append(stage)

    def _gate(self, stage: str) -> None:
        if stage not in GATES:
            return
        names = {host.name for host in self.hosts}
        for one in self.results:
            if one.verdict is Verdict.FAIL and one.host in names and one.host not in self.out:
                self.out[one.host] = f"it failed {one.check}"
                self.said.append(
                    f"{stage}: {one.host} is left out of the later stages: it failed {one.check}"
                )

    def _ask(
        self, stage: str, works: list[Work]
    ) -> t.Generator[list[Work], dict[str, Ran], dict[str, Ran]]:
        """Yield jobs and return how they ended, after noting them in their stage."""
        if not works:
            return {}
        run = next((one for one in self.stages if one.name == stage), None)
        if run is None:
            run = StageRun(stage)
            self.stages.append(run)
        ran = yield works
        run.works += len(works)
        run.seconds += max((one.seconds for one in ran.values()), default=0.0)
        run.jobs += [one.id for one in ran.values() if one.id is not None]
        run.failed = run.failed or any(one.why for one in ran.values())
        for host, why in (both for one in ran.values() for both in one.lost.items()):
            if host not in self.out:
                self.out[host] = line(why)
                self.results.append(slurm_state.lost(host, why))
        return ran

    # -- the probe and the checks of each node -----------------------------------------------------
    def _probe(self) -> Jobs:
        """Find the programs of the nodes, in one job with the checks of stage static that each node runs."""
        able = self._able()
        if not able:
            return
        static = [
            check
            for check in (self._checks("static") if "static" in self.asked.stages else [])
            if check.kind == "job" and check.of_each and check.launch == "srun"
        ]
        probe = self.asked.probe
        reaches = {
            check.name: plan.reach(dataclasses.replace(check, programs=()), able, self.site)
            for check in static
        }
        chosen = [
            (check, tuple(host.name for host in reaches[check.name].hosts)) for check in static
        ]
        checks = [(probe, tuple(host.name for host in able)), *(one for one in chosen if one[1])]
        work = Work(
            self._name("static", 1), "static", tuple(able), each=Each(tuple(checks), tuple(able))
        )
        ran = yield from self._ask("static", [work])
        outputs = self._of_each(work, ran[work.name])
        seen = []
        for host in self.hosts:
            reading = verdicts.read(
                probe, outputs.get(host.name, {}).get(probe.name), ran[work.name].why
            )
            facts = getattr(reading.parsed, "facts", {})
            programs = facts.get("programs")
            if host.name not in self.out and reading.why:
                self.results.append(
                    verdicts.unread(probe, Place((host,), self._log(work)), reading)
                )
                self.out[host.name] = "its probe did not answer"
            if isinstance(programs, dict):
                known = {str(name): str(path) for name, path in programs.items() if path}
                login = str(facts.get("login_mpirun") or "")
                host = dataclasses.replace(host, programs=known, login_mpirun=login)
                if self.asked.foreign and facts.get("pyxis") is True:
                    self.site = dataclasses.replace(self.site, pyxis=self.site.pyxis | {host.name})
                if isinstance(facts.get("pmix"), bool) and self.site.pmix is not False:
                    self.site = dataclasses.replace(self.site, pmix=facts["pmix"])
            seen.append(host)
        self.hosts = seen
        able = self._able()
        for check in static:
            # Now the programs of the nodes are known.
            reached = plan.reach(check, able, self.site)
            self._not_there(check, reached)
            self._judge_each(check, reached.hosts, work, ran[work.name], outputs)

    def _of_each(self, work: Work, ran: Ran) -> dict[str, dict[str, collect.Output]]:
        checks = {check.name: names for check, names in work.each.checks} if work.each else {}
        return collect.each(ran.log, self.asked.frame.run, checks)

    def _judge_each(
        self,
        check: Check,
        hosts: t.Sequence[Host],
        work: Work,
        ran: Ran,
        outputs: t.Mapping[str, t.Mapping[str, collect.Output]],
    ) -> None:
        places = {
            host.name: self._place(work, (host,)) for host in hosts if host.name not in self.out
        }
        readings = {
            name: verdicts.read(check, outputs.get(name, {}).get(check.name), ran.why)
            for name in places
        }
        self._judge(check, places, readings)

    # -- a stage -----------------------------------------------------------------------------------
    def _stage(self, stage: str) -> Jobs:
        able = self._able()
        reaches: dict[str, Reach] = {}
        for check in self._checks(stage):
            if (
                stage == "static"
                and check.kind == "job"
                and check.of_each
                and check.launch == "srun"
            ):
                continue  # with the probe
            if check.kind == "slurm":
                self.results += slurm_state.TESTS[check.test](check, self._slurm(check))
            elif check.kind == "health":
                self._health(check)
            else:
                reached = plan.reach(check, able, self.site)
                other = [
                    name for name in check.unless if reaches.get(name, Reach(reason="-")).hosts
                ]
                if other and reached.applies:
                    reached = Reach(reason=f"{other[0]} measures it")
                reaches[check.name] = reached
                self._not_there(check, reached)
        jobs = [check for check in self._checks(stage) if check.name in reaches]
        works = self._works(stage, [one for one in jobs if one.kind == "job"], reaches)
        ran = yield from self._ask(stage, works)
        self._collect(works, ran)
        for check in jobs:
            if check.kind == "pairs" and reaches[check.name].hosts:
                yield from self._pairs(check, reaches[check.name].hosts)
            elif check.kind == "training" and reaches[check.name].hosts:
                yield from self._training(check, reaches[check.name].hosts)

    def _slurm(self, check: Check) -> slurm_state.Slurm:
        """Return what slurmctld said, without the nodes of which the state is in the results."""
        slurm = self.asked.slurm
        if check.test != "node_state":
            return slurm
        known = {one.host for one in self.results if one.check == "node_state"}
        return dataclasses.replace(
            slurm, nodes=tuple(n for n in slurm.nodes if n.name not in known)
        )

    def _health(self, check: Check) -> None:
        names = {host.name for host in self.hosts}
        given = self.asked.node_results
        of_these = [one for one in given or () if one.host in names and one.host not in self.out]
        if not of_these:
            them = "is empty" if given is None else "has none of these nodes"
            why = f"the group slurm_node_health {them}"
            self.results.append(Result(CLUSTER, check.name, Verdict.NOT_APPLICABLE, detail=why))
        self.results += [dataclasses.replace(one, check=f"health.{one.check}") for one in of_these]

    def _not_there(self, check: Check, reached: Reach) -> None:
        if reached.reason:
            why = line(reached.reason)
            self.results.append(Result(CLUSTER, check.name, Verdict.NOT_APPLICABLE, detail=why))
        for host, why in reached.missing.items():
            what, _arrow, remedy = why.partition(" -> ")
            self.results.append(
                Result(host, check.name, Verdict.INCOMPLETE, detail=line(what), remedy=line(remedy))
            )

    def _works(
        self, stage: str, checks: t.Sequence[Check], reaches: t.Mapping[str, Reach]
    ) -> list[Work]:
        """Return the jobs of a stage.

        One job has what each node does by itself, a second one the groups, one after the other.
        """
        each = [
            (one, reaches[one.name].hosts)
            for one in checks
            if one.of_each and one.launch == "srun" and one.tasks == 1
        ]
        each = [one for one in each if one[1]]
        single: list[Step] = []
        groups: list[Step] = []
        for check in checks:
            hosts = reaches[check.name].hosts
            if check.of_each and not any(check is one for one, _hosts in each):
                single += [
                    self._step(check, (host,), f"{check.name}/{host.name}") for host in hosts
                ]
            elif not check.of_each and hosts:
                groups += self._groups(check, hosts)
        works: list[Work] = []
        if each or single:
            among = {host.name: host for _check, hosts in each for host in hosts}
            over = tuple(
                {**among, **{step.hosts[0].name: step.hosts[0] for step in single}}.values()
            )
            parts = tuple((check, tuple(host.name for host in hosts)) for check, hosts in each)
            works.append(
                Work(
                    self._name(stage, 1 + len(works)),
                    stage,
                    over,
                    each=Each(parts, tuple(among.values())) if each else None,
                    steps=tuple(single),
                    parallel=self.asked.parallel or max(1, len(single)),
                )
            )
        if groups:
            over = tuple({host.name: host for step in groups for host in step.hosts}.values())
            works.append(Work(self._name(stage, 1 + len(works)), stage, over, steps=tuple(groups)))
        return works

    def _groups(self, check: Check, hosts: tuple[Host, ...]) -> list[Step]:
        made = []
        for size in plan.sizes(check, len(hosts)):
            suffix = f".{size}" if len(check.nodes) > 1 else ""
            if not check.mounts:
                made.append(self._step(check, hosts[:size], f"{check.name}{suffix}"))
            for mount in self.site.mounts if check.mounts else ():
                variables = {
                    "VALIDATION_MOUNT": mount.path,
                    "VALIDATION_PLACES": ":".join(mount.places),
                }
                name = f"{check.name}{suffix}.{mount.label}"
                made.append(
                    dataclasses.replace(self._step(check, hosts[:size], name), variables=variables)
                )
        if not made:
            need = min(one for one in check.nodes if isinstance(one, int)) if check.nodes else 2
            why = f"it takes {need} nodes, and {len(hosts)} are left"
            self.results.append(Result(CLUSTER, check.name, Verdict.NOT_APPLICABLE, detail=why))
        return made

    @staticmethod
    def _step(check: Check, hosts: tuple[Host, ...], name: str) -> Step:
        least = min((host.number("gpus") for host in hosts), default=0)
        tasks = max(1, least) if check.tasks == "gpus" else int(check.tasks)
        return Step(name, check, hosts, tasks)

    def _collect(self, works: t.Sequence[Work], ran: t.Mapping[str, Ran]) -> None:
        for work in works:
            one = ran[work.name]
            outputs = collect.steps(one.log, self.asked.frame.run)
            if work.each:
                of_nodes = self._of_each(work, one)
                hosts = {host.name: host for host in work.each.hosts}
                for check, names in work.each.checks:
                    self._judge_each(check, [hosts[name] for name in names], work, one, of_nodes)
            for name in dict.fromkeys(step.check.name for step in work.steps):
                steps = [step for step in work.steps if step.check.name == name]
                places = {step.name: self._place(work, step.hosts, step) for step in steps}
                readings = {
                    step.name: verdicts.read(step.check, outputs.get(step.name), one.why)
                    for step in steps
                }
                self._judge(steps[0].check, places, readings)

    def _judge(
        self,
        check: Check,
        places: t.Mapping[str, Place],
        readings: t.Mapping[str, verdicts.Reading],
    ) -> None:
        """Add the results and the measurements of a check's outputs, by place."""
        for name, place in places.items():
            self.results += verdicts.broken(check, place, readings[name])
        if check.expect is not None or not check.figures:
            self.results += verdicts.expected(check, places, readings)
            for name, place in places.items():
                self._measure(check, place, readings[name], {})
            return
        good = {name: one for name, one in readings.items() if not one.why}
        self.results += [
            verdicts.unread(check, place, readings[name])
            for name, place in places.items()
            if name not in good
        ]
        made, gates = self.references.judged(check, places, good)
        self.results += made
        for name, reading in good.items():
            own = {figure: gates[name, figure] for figure in check.figures}
            self._measure(check, places[name], reading, own)
            found = verdicts.figures(check, reading)[check.figures[0]]
            if found is not None:
                self._best[check.name] = max(found, self._best.get(check.name, 0.0))

    def _measure(
        self,
        check: Check,
        place: Place,
        reading: verdicts.Reading,
        gates: t.Mapping[str, tuple[float | None, str]],
    ) -> None:
        for figure in check.figures:
            gate = gates.get(figure, (None, ""))
            made = verdicts.measurement(check, place, figure, reading, gate)
            if made:
                self.measurements.append(made)

    # -- pairs and training ------------------------------------------------------------------------
    def _pairs(self, check: Check, hosts: tuple[Host, ...]) -> Jobs:
        """Search for the bad node, link or switch by rounds of one job each."""
        if len(hosts) < 2:
            why = "it takes 2 nodes, and 1 is left"
            self.results.append(Result(CLUSTER, check.name, Verdict.NOT_APPLICABLE, detail=why))
            return
        by_name = {host.name: host for host in hosts}
        switches = {host.name: host.switch[-1] for host in hosts if host.switch}
        settings = dataclasses.replace(self.references.settings(check, hosts), full=self.asked.full)
        search = PairSearch(list(by_name), switches, settings)
        seen: list[tuple[measurement.Measurement, Place]] = []
        while pairs := search.next_round():
            steps = [
                self._step(check, (by_name[one], by_name[two]), f"{check.name}/{one},{two}")
                for one, two in pairs
            ]
            number = search.outcome().rounds + 1
            work = Work(
                self._name(check.stage, number, check.name),
                check.stage,
                tuple(by_name[name] for pair in pairs for name in pair),
                steps=tuple(steps),
                parallel=self.asked.parallel or len(steps),
            )
            ran = yield from self._ask(check.stage, [work])
            outputs = collect.steps(ran[work.name].log, self.asked.frame.run)
            found = []
            for pair, step in zip(pairs, steps):
                reading = verdicts.read(check, outputs.get(step.name), ran[work.name].why)
                one = pairing.measured(check, pair, reading, number)
                found.append(one)
                seen.append((one, self._place(work, step.hosts, step)))
            search.record(found)
            bad = sum(one.value is None for one in found)
            most = search.outcome().most_rounds
            self.said.append(
                f"{check.stage}: {check.name}: round {number} of at most {most}: "
                + ("1 pair" if len(found) == 1 else f"{len(found)} pairs")
                + (f", {bad} without a value" if bad else "")
            )
        outcome = search.outcome()
        self.searches.append(outcome)
        self.results += pairing.results(check, outcome, list(by_name), settings)
        measured = pairing.measurements(check, outcome, seen)
        self.measurements += measured
        self.results += self.references.pairs(check, measured)

    def _training(self, check: Check, hosts: tuple[Host, ...]) -> Jobs:
        """Run a small training, and see that it came to its end."""
        if self.asked.training is None:
            return
        size = min(len(hosts), max((one for one in check.nodes if isinstance(one, int)), default=2))
        work = Work(
            self._name(check.stage, 1, check.name),
            check.stage,
            hosts[:size],
            text=self.asked.training(check, hosts[:size]),
            seconds=check.deadline,
        )
        ran = yield from self._ask(check.stage, [work])
        one = ran[work.name]
        # Its script prints no marks: the log of a job that completed is whole.
        code = None if one.why else 0
        output = collect.Output(one.log, code, killed=one.why)
        place = self._place(work, work.hosts)
        self._judge(check, {check.name: place}, {check.name: verdicts.read(check, output, one.why)})

    # -- names -------------------------------------------------------------------------------------
    def _name(self, stage: str, number: int, check: str = "") -> str:
        return "-".join(
            part for part in ("validate", self.asked.frame.run, stage, check, str(number)) if part
        )

    def _log(self, work: Work) -> str:
        return f"{self.asked.frame.directory}/{work.name}.log"

    def _place(self, work: Work, hosts: tuple[Host, ...], step: Step | None = None) -> Place:
        nodes = ",".join(host.name for host in work.hosts)
        again = (
            f"sbatch --exclusive --nodelist={nodes} {self.asked.frame.directory}/{work.name}.sbatch"
        )
        suffix = step.name[len(step.check.name) + 1 :] if step and "/" not in step.name else ""
        mount = step.variables.get("VALIDATION_MOUNT", "") if step else ""
        return Place(hosts, self._log(work), again, mount, suffix)
