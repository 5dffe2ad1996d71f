# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs a validation: submits the jobs of each round, prints their progress, hands their logs to the course."""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Mapping

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.trainwright.slurm.plugins.module_utils.checks import result as results
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import stack as stacks
from ansible_collections.trainwright.slurm.plugins.module_utils.node import run_lock
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.module_utils.report.table import table
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import job_messages
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import arguments
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import (
    ENDED,
    Node,
    Partition,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job.schema import JobError
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    catalogue,
    collect,
    directory,
    document,
    endings,
    inputs,
    plan,
    script,
    state,
    summary,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.course import (
    Asked,
    Course,
    Ran,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.options import SPEC
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.script import Work
from ansible_collections.trainwright.slurm.plugins.plugin_utils import validation
from ansible_collections.trainwright.slurm.plugins.plugin_utils.this_run import this_run
from ansible_collections.trainwright.slurm.plugins.plugin_utils.waiting import WaitsForJob

_STATE = "state.json"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0  # seconds between two looks at the jobs
_LATE = 30.0  # seconds for which the log of a job that has ended may be missing here: caches of NFS
_EVERY, _RAREST = (
    15.0,
    300.0,
)  # seconds between two lines that differ in their numbers alone, twice as many each time
_NODES = 10.0  # seconds between two looks at the nodes of jobs that wait
#: Variables with an address of a host that Slurm may have too.
_ADDRESSES = ("ansible_host", "ec2_private_ip")
#: Options that do not make a validation another one.
_SAME = (
    "node_results",
    "baseline",
    "look",
    "again",
    "cap",
    "queue_seconds",
    "wake",
)


class ActionModule(WaitsForJob):
    """A module cannot print while it runs, so each submission and each look is a call of one."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Return the document of the validation."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        checked = ArgumentSpecValidator(arguments(**SPEC)).validate(dict(self._task.args))
        if checked.error_messages:
            result.update(failed=True, msg="; ".join(checked.error_messages), error="invalid")
            return result
        self._options: dict[str, t.Any] = checked.validated_parameters
        self._vars = task_vars or {}
        self._say = self._teller(task_vars)
        self._lock: dict[str, t.Any] = {}
        try:
            try:
                result.update(self._validate())
            finally:
                # Without it, the next run of this control node finds that this one has ended.
                if self._lock:
                    with contextlib.suppress(SlurmError):
                        self._look(release=self._lock)
        except SlurmError as error:
            result.update(failed=True, msg=str(error), error=error.kind)
        except (catalogue.CheckError, plan.PlanError, JobError, results.ResultError) as error:
            result.update(failed=True, msg=printable(str(error)), error="invalid")
        return result

    # -- calls of modules --------------------------------------------------------------------------
    def _module(self, module: str, /, **options: t.Any) -> dict[str, t.Any]:
        """Run a module on the host of the task. Raises SlurmError."""
        shared = {key: self._options[key] for key in arguments() if self._options.get(key)}
        seen: dict[str, t.Any] = self._execute_module(
            module_name=f"trainwright.slurm.{module}",
            module_args={**shared, **options},
            task_vars=self._vars,
        )
        if seen.get("failed"):
            raise SlurmError(seen.get("error", "invalid"), str(seen.get("msg")))
        return seen

    def _look(self, **look: t.Any) -> dict[str, t.Any]:
        return self._module("validate_cluster", directory=self._options["directory"], look=look)

    # -- the run -----------------------------------------------------------------------------------
    def _begin(self) -> dict[str, t.Any]:
        """Take the lock of the directory, and return its state. Raises SlurmError where another run has it."""
        mine = this_run()
        there = self._look(read=[_STATE], take={"holder": mine, "replaces": ""})
        if there["held"] and run_lock.has_ended(run_lock.parsed(there["held"]), mine):
            there = self._look(read=[_STATE], take={"holder": mine, "replaces": there["held"]})
        if there["held"]:
            path = f"{there['directory']}/{directory.LOCK}"
            who = run_lock.described(run_lock.parsed(there["held"]), path)
            raise SlurmError(
                "exists",
                f"validate: {who} tests this cluster now, and two runs would overwrite each other's state in"
                f" {there['directory']} -> wait for its end, or name another validate_directory; if it was killed on"
                f" another control host, remove {path} on {self._vars.get('inventory_hostname', 'this host')}",
            )
        self._lock = mine
        return there

    def _validate(self) -> dict[str, t.Any]:
        options = self._options
        # In their order: those of --tags come in any, and the digest must not depend on it.
        options["stages"] = list(catalogue.stages(options["stages"]))
        checks = validation.checks(options)[0]
        if options["only"]:
            among = {check.stage for check in checks}
            options["stages"] = [stage for stage in options["stages"] if stage in among]
        slurm = self._module(
            "slurm_info", gather=["nodes", "partitions", "controllers", "reservations"]
        )
        nodes = [Node.of(item) for item in slurm["nodes"]]
        partitions = [Partition.of(item) for item in slurm["partitions"]]
        partition = plan.partition_of(partitions, nodes, options["partition"])
        there = self._look(read=[_STATE]) if self._task.check_mode else self._begin()
        kept = {key: value for key, value in options.items() if key in SPEC and key not in _SAME}
        digest = state.digest({**kept, "user": there["user"], "partition": partition})
        found = state.from_json(there["texts"].get(_STATE, ""))
        goes_on = state.goes_on(found, digest) and not options["again"]
        now = time.gmtime()
        new = f"{time.strftime('%Y%m%d-%H%M%S', now)}-{digest[:4]}"
        run = found.run if found and goes_on else new
        asked = validation.asked(
            options,
            slurm,
            self._hosts(nodes),
            run,
            there["directory"],
            found.nodes if found and goes_on else (),
            partition,
        )
        names = tuple(host.name for host in asked.hosts)
        started = found.started if found and goes_on else _stamp(now)
        kept_state = state.State(run, digest, names, started)
        for line in inputs.unused(options["thresholds"], asked.hosts):
            self._say(line)
        course = Course(asked, summary.references(options))
        if self._task.check_mode:
            return {
                "changed": True,
                "lines": summary.planned(asked),
                "summary": "nothing was tested",
                "run": run,
            }
        self._say(
            f"validation {run}: {len(names)} nodes, stages {', '.join(asked.stages)}"
            + ("; continues a run that was interrupted" if goes_on else "")
        )
        if found and not found.ended and not goes_on:
            self._end_jobs(found.run, there["user"])
        files = {f"programs/{name}": str(text) for name, text in options["programs"].items()}
        self._look(write={**files, _STATE: kept_state.to_json()})
        limit = next((one.max_time for one in partitions if one.name == partition), None)
        alive = self._alive(run, there["user"]) if goes_on else {}
        jobs = _Jobs(self, asked, partition, limit, alive)
        self._course(course, jobs)
        if goes_on:
            self._end_jobs(run, there["user"])
        ended = _stamp(time.gmtime())
        made = summary.document(course, options, started, ended, slurm.get("version", ""))
        verdict = results.worst(course.results).value
        final = state.State(run, digest, names, started, ended, verdict)
        self._look(write={_STATE: final.to_json(), f"{run}/validate.json": document.as_text(made)})
        shown = [one for one in course.results if summary.needs_somebody(one)]
        # Without the counts of what is shown: the last line of the playbook has those of all.
        lines = table("validate", summary.shared(shown)).splitlines()[:-1] if shown else []
        return {
            "changed": True,
            "document": made.to_json(),
            "verdict": verdict,
            "failed_tests": results.ends_with_failure(course.results, allow_incomplete=True),
            "failing": results.ends_with_failure(course.results),
            "summary": summary.line_of(course.results),
            "lines": lines,
            # As the user's logs have it: the role has root ask which of them the cap allows.
            "drains": summary.drains(course),
            "directory": asked.frame.directory,
            "run": run,
        }

    def _end_jobs(self, run: str, user: str) -> None:
        """Cancel the jobs of a run that was interrupted, for which nobody waits any more."""
        for number in self._alive(run, user).values():
            self._module("slurm_job", state="cancelled", id=number)

    def _alive(self, run: str, user: str) -> dict[str, int]:
        """Return the jobs of a run that have not ended, by name."""
        jobs = self._module("slurm_info", gather=["jobs"], users=[user])["jobs"]
        ours = [job for job in jobs if job["name"].startswith(f"validate-{run}-")]
        return {job["name"]: int(job["id"]) for job in ours if job["state"] not in ENDED}

    def _hosts(self, nodes: t.Iterable[Node]) -> dict[str, Mapping[str, t.Any]]:
        """Return the variables of the nodes that the inventory has, by their names in Slurm.

        Somebody else's Slurm has names of its own, so a node may also be the host with its address.
        """
        known = self._vars.get("hostvars") or {}
        wanted = (
            *("slurm_node", "ec2_instance_type", "ec2_efa_interfaces", "slurm_network_path"),
            *(stacks.WORD, *stacks.COMPARED, validation.SCRATCH),
        )
        at: dict[str, str] = {}
        if self._options["foreign"]:
            for host in known:
                variables = known[host]
                at.update({str(variables[key]): host for key in _ADDRESSES if variables.get(key)})
        found: dict[str, Mapping[str, t.Any]] = {}
        for node in nodes:
            host = node.name if node.name in known else at.get(node.address)
            if host is not None:
                variables = known[host]
                found[node.name] = {key: variables[key] for key in wanted if key in variables}
        return found

    def _course(self, course: Course, jobs: _Jobs) -> None:
        """Run the jobs of each round until the course is over."""
        rounds = course.run()
        ran: dict[str, Ran] | None = None
        while True:
            try:
                works = next(rounds) if ran is None else rounds.send(ran)
            except StopIteration:
                break
            finally:
                for line in course.said:
                    self._say(line)
                course.said.clear()
            ran = jobs.run(works)


class _Jobs:
    """Submits the jobs of a round, and waits for their end."""

    def __init__(
        self,
        action: ActionModule,
        asked: Asked,
        partition: str,
        limit: int | None,
        alive: dict[str, int],
    ) -> None:
        self.action, self.asked, self.partition, self.limit = action, asked, partition, limit
        #: Jobs of an interrupted run, as they were before its logs were read: one that ends later is not repeated.
        self.alive = alive
        self.options = action._options
        #: Why nodes take no job any more, by name, and those of the last look at which one look is not enough.
        self.lost: dict[str, str] = {}
        self.doubtful: dict[str, str] = {}
        self.looked = 0.0

    def run(self, works: t.Sequence[Work]) -> dict[str, Ran]:
        """Return how each job ended; one whose whole log is there already is not run again."""
        run = self.asked.frame.run
        paths = {work.name: f"{run}/{work.name}.log" for work in works}
        scripts = {work.name: f"{run}/{work.name}.sbatch" for work in works}
        there = self.action._look(read=[*paths.values(), *scripts.values()])["texts"]
        done: dict[str, Ran] = {}
        left: dict[str, Work] = {}
        texts: dict[str, str] = {}
        for work in works:
            smaller = script.without(work, self.lost)
            if smaller is None:
                done[work.name] = self._of(work)
                continue
            text = script.write(smaller, self.asked.frame)
            before = there.get(scripts[work.name], text)
            # The nodes may have changed since a run was interrupted: then its log and its job are of other pairs.
            if before != text:
                self.action._module("slurm_job", state="cancelled", name=work.name)
                self.alive.pop(work.name, None)
            elif collect.complete(there.get(paths[work.name], ""), run, work.name):
                done[work.name] = self._of(work, there[paths[work.name]])
                continue
            left[work.name], texts[work.name] = smaller, text
        if left:
            self.action._look(write={scripts[name]: text for name, text in texts.items()})
            done.update(self._wait(works, left, texts, paths))
        return done

    def _of(self, work: Work, log: str = "", why: str = "", **fields: t.Any) -> Ran:
        """Return how a job ended, with its nodes that were lost."""
        lost = {host.name: self.lost[host.name] for host in work.hosts if host.name in self.lost}
        words = "; ".join(f"{name} {one}" for name, one in lost.items())
        return Ran(log, why or words, lost=lost, **fields)

    def _submit(self, work: Work, text: str) -> int:
        minutes = -(-work.deadline // 60) + 1
        if self.limit:
            minutes = max(1, min(minutes, self.limit // 60))
        given: dict[str, t.Any] = {
            "name": work.name,
            "state": "submitted",
            "content": text,
            "workdir": self.asked.frame.directory,
            "output": f"{self.asked.frame.directory}/{work.name}.log",
            "nodes": str(len(work.hosts)),
            "nodelist": [host.name for host in work.hosts],
            "ntasks_per_node": 1,
            "exclusive": True,
            "memory": "0",
            "time_limit": str(minutes),
            "partition": self.partition,
            "requeue": False,
            "tail_lines": 0,
            # A node that fails must not end what the others measure.
            "options": {"no-kill": True, "open-mode": "truncate"},
        }
        for name in ("account", "reservation"):
            if self.options[name]:
                given[name] = self.options[name]
        return int(self.action._module("slurm_job", **given)["id"])

    def _wait(
        self,
        asked: t.Sequence[Work],
        works: dict[str, Work],
        texts: dict[str, str],
        paths: Mapping[str, str],
    ) -> dict[str, Ran]:
        whole_works = {work.name: work for work in asked}
        done: dict[str, Ran] = {}
        ids: dict[str, int] = {}

        def submit(name: str) -> None:
            if name in self.alive:
                ids[name] = self.alive.pop(name)
                return
            try:
                ids[name] = self._submit(works[name], texts[name])
            except SlurmError as error:
                if error.passing or error.kind in ("missing", "impossible"):
                    raise
                done[name] = self._of(whole_works[name], why=f"Slurm refused its job: {error}")

        for name in works:
            submit(name)
        begin, pause = time.monotonic(), _FIRST_PAUSE
        said = _Said(self.action._say)
        ended: dict[str, float] = {}
        whole_since: dict[str, float] = {}
        while open_ones := [name for name in ids if name not in done]:
            seen = self.action._look(
                jobs=[ids[name] for name in open_ones], read=[paths[name] for name in open_ones]
            )
            views = {name: seen["jobs"][str(ids[name])] for name in open_ones}
            for name in open_ones:
                view = views[name]
                log = seen["texts"].get(paths[name], "")
                through = collect.complete(log, self.asked.frame.run, name)
                whole = through or bool(works[name].text)
                if through:
                    whole_since.setdefault(name, time.monotonic())
                if view["ended"]:
                    since = ended.setdefault(name, time.monotonic())
                    if (
                        not whole
                        and view["state"] == "COMPLETED"
                        and time.monotonic() - since < _LATE
                    ):
                        continue  # the log of a job that came to its end is whole, here a little later
                    good = through or view["state"] == "COMPLETED"
                    why = "" if good else job_messages.failure(view)
                    if why and (given := endings.reason(log)):
                        why = why.replace(" -> ", f" ({given}) -> ", 1)
                    if view["state"] == "COMPLETED" and not whole:
                        why = f"{paths[name]} is not whole on this host -> is validate_directory on shared storage?"
                    done[name] = self._of(
                        whole_works[name], log, why, id=ids[name], seconds=float(view["elapsed"])
                    )
                elif through and time.monotonic() - whole_since[name] > _LATE:
                    # A slurmctld that was killed may not hear of the end of a job until its time limit.
                    self.action._module("slurm_job", state="cancelled", id=ids[name])
                    done[name] = self._of(
                        whole_works[name], log, id=ids[name], seconds=float(view["elapsed"])
                    )
                elif self._waits_too_long(view, time.monotonic() - begin):
                    self.action._module("slurm_job", state="cancelled", id=ids[name])
                    why = f"waited {time.monotonic() - begin:.0f} s in the queue: {job_messages.standing(view)}"
                    done[name] = self._of(whole_works[name], log, why, id=ids[name])
            waiting = [n for n in open_ones if n not in done and views[n]["state"] == "PENDING"]
            if waiting and time.monotonic() - max(begin, self.looked) >= _NODES:
                self._find_lost()
            for name in waiting:
                smaller = script.without(works[name], self.lost)
                if smaller is works[name]:
                    continue
                # It would wait for a node that somebody has to bring back.
                self.action._module("slurm_job", state="cancelled", id=ids[name])
                if smaller is None:
                    done[name] = self._of(whole_works[name], id=ids[name])
                    continue
                works[name], texts[name] = smaller, script.write(smaller, self.asked.frame)
                path = f"{self.asked.frame.run}/{name}.sbatch"
                self.action._look(write={path: texts[name]})
                submit(name)
            said.now(works, views, seen["texts"], paths, done, self.asked.frame.run)
            if [name for name in ids if name not in done]:
                time.sleep(pause)
                pause = min(pause * 1.3, _LONGEST_PAUSE)
        return done

    def _find_lost(self) -> None:
        """Note the nodes that take no job at two looks, so that one that reboots is not given up."""
        self.looked = time.monotonic()
        answer = self.action._module("slurm_info", gather=["nodes"])
        nodes = {item["name"]: Node.of(item) for item in answer["nodes"]}
        found = {host.name: plan.lost(nodes.get(host.name)) for host in self.asked.hosts}
        found = {name: why for name, why in found.items() if why and name not in self.lost}
        sure = {name: why for name, why in found.items() if name in self.doubtful}
        for name, why in sure.items():
            self.action._say(f"{name} {why}: its jobs are cancelled, and it is left out")
        self.lost.update(sure)
        self.doubtful = found

    def _waits_too_long(self, view: Mapping[str, t.Any], waited: float) -> bool:
        if view["state"] != "PENDING":
            return False
        return view["reason"] in job_messages.STUCK or waited > self.options["queue_seconds"]


class _Said:
    """Prints how far the jobs of a round are, when that changes and not too often."""

    def __init__(self, say: t.Callable[[str], None]) -> None:
        self.say, self.at, self.pause = say, 0.0, _EVERY
        self.states: tuple[t.Any, ...] = ()

    def now(
        self,
        works: Mapping[str, Work],
        views: Mapping[str, Mapping[str, t.Any]],
        texts: Mapping[str, str],
        paths: Mapping[str, str],
        done: Mapping[str, Ran],
        run: str,
    ) -> None:
        """Print the state of the jobs that have not ended."""
        open_ones = {name: view for name, view in views.items() if name not in done}
        if not open_ones:
            return
        parts, states = [], []
        for name, view in open_ones.items():
            work = works[name]
            steps = collect.ended(texts.get(paths[name], ""), run)
            where = f"{work.stage}: job {view['id']} on {len(work.hosts)} nodes"
            states.append(
                (name, view["state"], view["reason"] if view["state"] == "PENDING" else "")
            )
            if view["state"] == "PENDING":
                parts.append(f"{where} waits ({view['reason'] or 'no reason given'})")
            else:
                left = max(0, work.deadline - int(view["elapsed"]))
                count = f"{steps} of {work.count} steps done, " if work.count else ""
                parts.append(f"{where} runs: {count}at most {left} s left")
        failed = sum(bool(one.why) for one in done.values())
        line = "; ".join(parts) + f" ({len(done)} of {len(works)} jobs done, {failed} failed)"
        news = tuple(states) != self.states
        if news or time.monotonic() - self.at > self.pause:
            self.say(line)
            self.pause = _EVERY if news else min(2 * self.pause, _RAREST)
            self.states, self.at = tuple(states), time.monotonic()


def _stamp(moment: time.struct_time) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", moment)
