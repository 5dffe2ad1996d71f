# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`make bench`: times site.yml against yardstick.sh on fresh local clusters of the same shape, and
accounts.yml against a loop over sacctmgr on the first of them, container steps against plain ones, the inventory of
EC2 against boto3 alone and amazon.aws.aws_ec2, the upload of data sets against aws s3 sync, the job hooks, site.yml on
a simulated fleet, and how long a training makes no progress after a fault.

Ends with 1 when a figure misses its limit, with 2 when something could not be measured.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "molecule")]

from ansible.plugins.loader import init_plugin_loader

# Some benchmarks import from the collection.
init_plugin_loader([str(ROOT / ".collections")])

from driver.cluster import Cluster
from driver.host import podman
from driver.layout import SYSTEMS, LocalError
from tests.benchmarks import dataset, fleet, health, hooks, inventory, join, resume
from tests.benchmarks.accounts import Accounts
from tests.benchmarks.accounts import measure as measure_accounts
from tests.benchmarks.containers import Starts
from tests.benchmarks.containers import measure as measure_containers
from tests.benchmarks.figures import (
    BUSY,
    Measurement,
    Run,
    busy_share,
    marks,
    misses,
    render,
    report,
)
from tests.integration.artifacts import REAL
from tests.integration.site import Nodes, Site
from tests.integration.test_container_jobs import IMAGE, provide

YARDSTICK = ROOT / "tests" / "benchmarks" / "yardstick.sh"
SITE = ROOT / "playbooks" / "site.yml"
ACCOUNTS = ROOT / "playbooks" / "accounts.yml"
STAGE = ROOT / "playbooks" / "container_image.yml"
PEER = ROOT / "tests" / "fixtures" / "benchmarks" / "peer.yml"
FIRST_JOB = ROOT / "playbooks" / "first_job.yml"
RESULTS = ROOT / ".cache" / "bench"
TIMEOUT = 1800


class Bench:
    """One benchmark: where its logs go, and on which clusters it runs."""

    def __init__(self, name: str, system: str, keep: bool, peer: Path | None = None) -> None:
        self.cluster = Cluster(name)
        self.system = system
        self.keep = keep
        self.peer = peer
        self.stamp = datetime.now().strftime("%Y-%m-%dT%H%M%S")
        self.logs = RESULTS / self.stamp
        self.logs.mkdir(parents=True, exist_ok=True)
        self.slurm_version = ""

    def measure(self, compute: int, yardstick_only: bool, with_accounts: bool) -> Measurement:
        """Both ways on a fresh cluster each, twice in a row; then accounts on the second one."""
        with self._fresh(compute):
            yardstick = (self._yardstick(compute, "first"), self._yardstick(compute, "second"))
            roles = {host.name: host.role for host in self.cluster.hosts}
        if yardstick_only:
            return Measurement(compute, roles, yardstick)
        with self._fresh(compute):
            site = (self._site(compute, "first"), self._site(compute, "second"))
            mitogen = self._mitogen(compute)
            accounts = self._accounts() if with_accounts else None
        peer = None
        if self.peer:
            with self._fresh(compute):
                peer = (self._peer(compute, "first"), self._peer(compute, "second"))
        containers = self.containers() if with_accounts and REAL else None
        return Measurement(compute, roles, yardstick, site, mitogen, peer, accounts, containers)

    def containers(self) -> Starts:
        """Starts of container steps, on a cluster with Enroot and Pyxis."""
        with self._fresh(2, pyxis=True):
            self._play(SITE, "site-containers", {})
            provide(Site(Nodes(self.cluster.name)))
            user = ("su", "-", "alice", "-c")

            def timed(command: str) -> float:
                # The end of the step before is not part of the start of this one.
                idle = "while sinfo -h -t completing -o x | grep -q x; do sleep 0.1; done"
                script = (
                    f"{idle}; began=$(date +%s%N); {command} >&2; echo $(($(date +%s%N) - began))"
                )
                output = self.cluster.ssh("login1", shlex.join([*user, script])).stdout
                return int(output.split()[-1]) / 1e9

            def forget() -> None:
                os.sync()
                Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")

            def stage() -> None:
                options = {"container_image_name": "train", "container_image_stage": True}
                options["container_image_reference"] = IMAGE
                self._play(STAGE, "stage", {}, "-e", json.dumps(options))

            return measure_containers(timed, forget, stage)

    def joining(self) -> join.Timing:
        """Joining from an image against site.yml for a bare node, on a cluster with one node."""
        with self._fresh(1):
            self._play(SITE, "site-joining", {})
            return join.measure(Site(Nodes(self.cluster.name)))

    def resuming(self) -> resume.Timing:
        """Trainings that fail and go on, on a cluster with three nodes."""
        with self._fresh(3):
            self._play(SITE, "site-resuming", {})
            return resume.measure(Site(Nodes(self.cluster.name)))

    def warm_up(self, compute: int) -> None:
        """Fill the network's package cache, so that the first run does not pay for it."""
        with self._fresh(compute):
            self._yardstick(compute, "warm-up")

    @contextmanager
    def _fresh(self, compute: int, pyxis: bool = False) -> Iterator[None]:
        self.cluster.destroy()
        self.cluster.create(self.system, compute, pyxis=pyxis)
        for host in self.cluster.hosts:
            # Other machines compile modules for each task.
            self.cluster.ssh(host.name, "rm /usr/lib/python3/dist-packages/compiled_zips.pth")
        try:
            yield
            query = "dpkg-query -W -f '${Version}' slurmctld"
            self.slurm_version = self.cluster.ssh("ctl1", query, check=False).stdout.strip()
        finally:
            if not self.keep:
                self.cluster.destroy()

    def _yardstick(self, compute: int, which: str) -> Run:
        busy = _busy()
        hosts = [f"{host.name}={host.address}" for host in self.cluster.hosts]
        command = [str(YARDSTICK), str(self.cluster.key), str(self.cluster.known_hosts), *hosts]
        reached = marks(self._run(command, f"yardstick-{compute}-{which}", {})[0])
        return Run(reached["stands"], busy, round(reached["job"] - reached["stands"], 2), {}, {})

    def _site(self, compute: int, which: str) -> Run:
        busy = _busy()
        name = f"site-{compute}-{which}"
        summary = self.logs / f"{name}.json"
        seconds = self._play(SITE, name, {"TRAINWRIGHT_RUN_JSON": str(summary)})
        hosts = json.loads(summary.read_text(encoding="utf-8"))["hosts"]
        job_seconds = None
        if which == "first" and FIRST_JOB.exists():
            job_seconds = self._play(FIRST_JOB, f"first_job-{compute}", {})
        return Run(
            seconds,
            busy,
            job_seconds,
            {host: counts["executions"] for host, counts in hosts.items()},
            {host: counts["changed"] for host, counts in hosts.items()},
        )

    def _peer(self, compute: int, which: str) -> Run:
        busy = _busy()
        name = f"peer-{compute}-{which}"
        key = self.logs / "munge.key"
        if which == "first":
            key.write_bytes(os.urandom(1024))
        summary = self.logs / f"{name}.json"
        settings = {
            "ANSIBLE_ROLES_PATH": str(self.peer),
            # It reads facts as variables, such as ansible_distribution.
            "ANSIBLE_INJECT_FACT_VARS": "true",
            "TRAINWRIGHT_RUN_JSON": str(summary),
        }
        seconds = self._play(PEER, name, settings, "-e", f"peer_munge_key={key}")
        hosts = json.loads(summary.read_text(encoding="utf-8"))["hosts"]
        counts = [
            {host: found[what] for host, found in hosts.items()}
            for what in ("executions", "changed")
        ]
        return Run(seconds, busy, None, *counts)

    def _mitogen(self, compute: int) -> float | None:
        spec = importlib.util.find_spec("ansible_mitogen")
        if spec is None or spec.origin is None:
            return None
        plugins = Path(spec.origin).parent / "plugins" / "strategy"
        settings = {"ANSIBLE_STRATEGY": "mitogen_linear", "ANSIBLE_STRATEGY_PLUGINS": str(plugins)}
        return self._play(SITE, f"site-{compute}-mitogen", settings)

    def _accounts(self) -> Accounts:
        def shell(command: str) -> str:
            print("accounts-shell ... ", end="", flush=True)
            began = time.monotonic()
            output = self.cluster.ssh("ctl1", command, timeout=TIMEOUT).stdout
            print(f"{time.monotonic() - began:.1f} s", flush=True)
            return output

        def play(variables: Path, name: str) -> tuple[float, int]:
            summary = self.logs / f"{name}.json"
            settings = {"TRAINWRIGHT_RUN_JSON": str(summary)}
            seconds = self._play(ACCOUNTS, name, settings, "-e", f"@{variables}")
            hosts = json.loads(summary.read_text(encoding="utf-8"))["hosts"]
            return seconds, sum(counts["changed"] for counts in hosts.values())

        return measure_accounts(shell, play, self.logs)

    def _play(
        self, playbook: Path, name: str, settings: Mapping[str, str], *arguments: str
    ) -> float:
        ansible = Path(sys.executable).with_name("ansible-playbook")
        command = [str(ansible), "-i", str(self.cluster.inventory), str(playbook), *arguments]
        return self._run(command, name, settings)[1]

    def _run(self, command: list[str], name: str, settings: Mapping[str, str]) -> tuple[str, float]:
        """Run a command with its output in a log; return the output and the seconds it took."""
        log = self.logs / f"{name}.log"
        print(f"{name} ... ", end="", flush=True)
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            **settings,
        }
        with log.open("w", encoding="utf-8") as stream:
            began = time.monotonic()
            code = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
                check=False,
            ).returncode
            seconds = round(time.monotonic() - began, 2)
        output = log.read_text(encoding="utf-8")
        print(f"{seconds:.1f} s", flush=True)
        if code:
            tail = "\n".join(output.splitlines()[-25:])
            raise LocalError(f"{name} ended with {code}; its output is in {log}, and ends:\n{tail}")
        return output, seconds

    def machine(self) -> dict[str, object]:
        """Conditions of the figures other than the code."""
        git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
        return {
            "date": self.stamp,
            "commit": commit,
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "ansible_core": version("ansible-core"),
            "podman": podman("version", "--format={{.Client.Version}}").stdout.strip(),
            "os": self.system,
            "slurm": self.slurm_version,
        }


def _busy() -> float:
    stat = Path("/proc/stat")
    before = stat.read_text(encoding="ascii")
    time.sleep(1)
    return busy_share(before, stat.read_text(encoding="ascii"))


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(prog="bench.py", description=__doc__)
    arguments.add_argument(
        "--scale", type=int, nargs="+", default=[2], metavar="COMPUTE", help="compute nodes (2)"
    )
    arguments.add_argument("--os", choices=SYSTEMS, default="debian13")
    arguments.add_argument("--name", default="bench", help="the cluster it makes anew (bench)")
    arguments.add_argument(
        "--containers-only", action="store_true", help="only the starts of container steps"
    )
    arguments.add_argument(
        "--inventory-only", action="store_true", help="only the inventory of EC2, without clusters"
    )
    arguments.add_argument(
        "--dataset-only", action="store_true", help="only the upload of data sets, without clusters"
    )
    arguments.add_argument(
        "--hooks-only", action="store_true", help="only the job hooks, without clusters"
    )
    arguments.add_argument(
        "--health-only", action="store_true", help="only a health cycle of a node, without clusters"
    )
    arguments.add_argument(
        "--join-only", action="store_true", help="only nodes from an image against bare nodes"
    )
    arguments.add_argument(
        "--resume-only", action="store_true", help="only trainings that fail and go on"
    )
    arguments.add_argument(
        "--fleet-only", action="store_true", help="only runs on simulated nodes, without clusters"
    )
    arguments.add_argument(
        "--nodes",
        type=int,
        nargs="+",
        default=list(fleet.SIZES),
        help="sizes of the simulated fleet (%(default)s)",
    )
    arguments.add_argument(
        "--instances",
        type=int,
        nargs="+",
        default=list(inventory.SIZES),
        help="sizes of the inventory of EC2 (%(default)s)",
    )
    arguments.add_argument(
        "--peer",
        type=Path,
        metavar="DIRECTORY",
        help="a directory with the role galaxyproject.slurm, measured as well on the same hosts",
    )
    arguments.add_argument("--yardstick-only", action="store_true", help="leave site.yml out")
    arguments.add_argument("--warm-up", action="store_true", help="one run before, not measured")
    arguments.add_argument("--keep", action="store_true", help="leave the last cluster standing")
    return arguments


def inventories(sizes: list[int]) -> tuple[dict[str, object], list[str]]:
    """Time the inventory of EC2, plain and wide, print its table; return what is kept and what was missed."""
    busy = _busy()
    timings = [inventory.measure(size, wide) for wide in (False, True) for size in sizes]
    print(f"\n{inventory.render(timings)}\n")
    if busy > BUSY:
        print(f"{busy:.0%} of the CPU time was in use before: the ratios are rough.")
    return {"busy": busy, "timings": [asdict(one) for one in timings]}, inventory.misses(timings)


def datasets() -> tuple[dict[str, object], list[str]]:
    """Time uploads, print their table; return what is kept and what was missed."""
    busy = _busy()
    timings = [dataset.measure(*shape) for shape in dataset.SHAPES]
    print(f"\n{dataset.render(timings)}\n")
    if busy > BUSY:
        print(f"{busy:.0%} of the CPU time was in use before: the ratios are rough.")
    return {"busy": busy, "timings": [asdict(one) for one in timings]}, dataset.misses(timings)


def job_hooks() -> tuple[dict[str, object], list[str]]:
    """Time the job hooks, print what they add; return what is kept and what was missed."""
    busy, timing = _busy(), hooks.measure()
    print(f"\n{hooks.render(timing)}\n")
    if busy > BUSY:
        print(f"{busy:.0%} of the CPU time was in use before: the times are rough.")
    return {"busy": busy, "timing": asdict(timing)}, hooks.misses(timing)


def cycles() -> tuple[dict[str, object], list[str]]:
    """Time a health cycle, print its line; return what is kept and what was missed."""
    cycle = health.measure()
    print(f"\n{health.render(cycle)}\n")
    return asdict(cycle), health.misses(cycle)


def fleets(sizes: list[int]) -> tuple[dict[str, object], list[str]]:
    """Time runs on simulated nodes, print their table; return what is kept and what was missed."""
    busy = _busy()
    timings = [fleet.measure(size) for size in sizes]
    print(f"\n{fleet.render(timings)}\n")
    if busy > BUSY:
        print(f"{busy:.0%} of the CPU time was in use before: the times are rough.")
    return {"busy": busy, "timings": [asdict(one) for one in timings]}, fleet.misses(timings)


def joins(bench: Bench) -> tuple[dict[str, object], list[str]]:
    """Time nodes from an image, print the line; return what is kept and what was missed."""
    busy, timing = _busy(), bench.joining()
    print(f"\n{join.render(timing)}\n")
    if busy > BUSY:
        print(f"{busy:.0%} of the CPU time was in use before: the times are rough.")
    return {"busy": busy, "timing": asdict(timing)}, join.misses(timing)


def resumptions(bench: Bench) -> tuple[dict[str, object], list[str]]:
    """Time trainings that fail and go on, print their table; return what is kept; no figure has a limit."""
    busy, timing = _busy(), bench.resuming()
    print(f"\n{resume.render(timing)}\n")
    if busy > BUSY:
        print(f"{busy:.0%} of the CPU time was in use before: the times are rough.")
    return {"busy": busy, "timing": asdict(timing)}, []


def main() -> int:
    args = parser().parse_args()
    try:
        if args.peer and not (args.peer / "galaxyproject.slurm").is_dir():
            raise LocalError(
                f"--peer {args.peer}: no galaxyproject.slurm there -> "
                f"`ansible-galaxy role install galaxyproject.slurm -p {args.peer}`"
            )
        bench = Bench(args.name, args.os, args.keep, args.peer and args.peer.resolve())
        if args.containers_only:
            print(json.dumps(asdict(bench.containers()), indent=2))
            return 0
        if args.inventory_only:
            kept, missed = inventories(args.instances)
            return finish(bench, {"machine": bench.machine(), "inventory": kept}, missed)
        if args.dataset_only:
            kept, missed = datasets()
            return finish(bench, {"machine": bench.machine(), "dataset": kept}, missed)
        if args.hooks_only:
            kept, missed = job_hooks()
            return finish(bench, {"machine": bench.machine(), "job_hooks": kept}, missed)
        if args.health_only:
            kept, missed = cycles()
            return finish(bench, {"machine": bench.machine(), "health": kept}, missed)
        if args.fleet_only:
            kept, missed = fleets(args.nodes)
            return finish(bench, {"machine": bench.machine(), "fleet": kept}, missed)
        if args.join_only:
            kept, missed = joins(bench)
            return finish(bench, {"machine": bench.machine(), "join": kept}, missed)
        if args.resume_only:
            kept, missed = resumptions(bench)
            return finish(bench, {"machine": bench.machine(), "resume": kept}, missed)
        if args.warm_up:
            bench.warm_up(args.scale[0])
        measurements = [
            bench.measure(compute, args.yardstick_only, compute == args.scale[0])
            for compute in args.scale
        ]
        parts: dict[str, object] = {}
        missed = []
        if not args.yardstick_only:
            parts["inventory"], missed = inventories(args.instances)
            parts["dataset"], more = datasets()
            missed += more
            parts["job_hooks"], more = job_hooks()
            missed += more
            parts["health"], more = cycles()
            missed += more
            parts["fleet"], more = fleets(args.nodes)
            missed += more
            parts["join"], more = joins(bench)
            missed += more
            parts["resume"], more = resumptions(bench)
            missed += more
    except (LocalError, RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 2
    print(f"\n{render(measurements)}")
    found = report(measurements, bench.machine())
    return finish(bench, {**found, **parts}, [*misses(measurements), *missed])


def finish(bench: Bench, found: Mapping[str, object], missed: list[str]) -> int:
    """Save the result, print missed limits; return the exit status."""
    result = RESULTS / f"{bench.stamp}.json"
    text = json.dumps(found, indent=2)
    result.write_text(text + "\n", encoding="utf-8")
    print(f"\nKept in {result.relative_to(ROOT)}")
    for line in missed:
        print(f"MISSED: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
