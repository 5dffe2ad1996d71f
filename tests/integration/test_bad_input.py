"""Bad input against a live cluster: refused by host and variable, with its remedy, and nothing changed.

One case of each kind: the groups, a type, accounting, storage, a host that is away, and what only a real host shows.
Each is a run of site.yml; the faults of hosts that one run can find are one run. All kinds of all of these are refused
in the unit tests, by the same plugin (tests/unit/plugins/action/test_cluster_model.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.unit.bad_input import CASES, Case
from tests.unit.bad_values import MOVES

from .conftest import Converged
from .site import Run, Site, tail

pytestmark = pytest.mark.systems("debian12", only="the one controller that the cases name")

# Plays that change nothing; no other one may begin.
PREFLIGHT_PLAYS = {
    "Refuse a Slurm that somebody else manages",
    "Find the cluster's groups",
    "Read a Slurm that somebody else manages",
    "Read the nodes and refuse bad input",
}
# State of a node that must not change: files with their times, and services with their start.
FINGERPRINT = """
cd /
{ find etc usr/local usr/lib/os-release var/spool/cron var/lib/trainwright root home -xdev \
    '(' -type f -o -type l ')' -printf '%p %m %U:%G %s %T@ %l\\n'
  find etc var/lib/trainwright -xdev -type f -print0 | xargs -0 sha256sum
  stat -c '%n %s %Y' var/lib/dpkg/status var/lib/mysql/slurm_acct_db/*.frm
  systemctl show -p Id,MainPID,ActiveEnterTimestampMonotonic \
    slurmctld slurmdbd slurmd slurmrestd slurmrestd-front munge mariadb ssh
  grep -v /run/user/ proc/mounts
} 2>&1 | sort
"""


# --- faults on hosts ----------------------------------------------------------------------------


@contextmanager
def edited(site: Site, host: str, path: str, expressions: list[str]) -> Iterator[None]:
    """A file of a host changed by sed; put back with its times."""
    copy = "/run/bad-input.saved"
    script = " ".join(f"-e '{expression}'" for expression in expressions)
    site.run(host, f"cp -a {path} {copy}")
    try:
        site.run(host, f"sed -i {script} {path}")
        yield
    finally:
        site.run(host, f"cp -a {copy} {path} && rm {copy}")


def extra_user(site: Site, host: str, name: str, uid: int) -> AbstractContextManager[None]:
    """A local user whom nobody declared."""
    return edited(site, host, "/etc/passwd", [f"$ a {name}:x:{uid}:100::/nonexistent:/bin/sh"])


@contextmanager
def foreign_listener(site: Site, host: str, port: int) -> Iterator[None]:
    """Another program on a port."""
    unit = "bad-input-listener"
    site.run(host, f"systemd-run --quiet --unit={unit} python3 -m http.server {port}")
    try:
        site.run(
            host,
            f"timeout 20 sh -c 'until ss -Hltn sport = :{port} | grep -q .; do sleep 0.1; done'",
        )
        yield
    finally:
        site.run(host, f"systemctl stop {unit}", check=False)


@contextmanager
def no_way(site: Site, host: str, target: str) -> Iterator[None]:
    """A host that cannot send to another, as behind a firewall. Ansible's own way stays."""
    route = f"blackhole {site.cluster.addresses[target]}/32"
    site.run(host, f"ip route add {route}")
    try:
        yield
    finally:
        site.run(host, f"ip route del {route}")


# --- the cases ----------------------------------------------------------------------------------

# Those that leave the hosts as they are: a wrong inventory or variable.
WRITTEN = {
    "no-group-slurm-cluster",
    "wrong-type",
    "account-name",
    "too-little-disk",
    "controller-away",
    # services of a live cluster that would move
    "database-moved",
    "database-removed",
    "database-turned-external",
    "controller-replaced",
}
# The fault itself, of those that are about a host.
FAULTS: dict[str, Callable[[Site], AbstractContextManager[object]]] = {
    "user-with-another-uid": partial(extra_user, host="c2", name="dora", uid=5000),
    "port-taken": partial(foreign_listener, host="c2", port=7818),
    "firewall": partial(no_way, host="c1", target="ctl1"),
    "broken-record": partial(
        edited, host="ctl1", path="/var/lib/trainwright/record.json", expressions=["1 s/^/x/"]
    ),
}
# One run finds these, and is told of all of them.
TOGETHER = ("user-with-another-uid", "port-taken", "firewall")
CHOSEN = [case for case in (*CASES, *MOVES) if case.id in WRITTEN | set(FAULTS)]


# --- the test -----------------------------------------------------------------------------------


def fingerprints(site: Site) -> dict[str, str]:
    """State that must not change, by host."""
    hosts = site.cluster.hosts
    with ThreadPoolExecutor(len(hosts)) as pool:
        return dict(
            zip(hosts, pool.map(lambda host: site.run(host, FINGERPRINT), hosts), strict=True)
        )


def difference(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """The lines of the fingerprints that differ, each with its host."""
    return [
        f"{host}: {line}"
        for host in before
        for line in sorted(set(before[host].splitlines()) ^ set(after[host].splitlines()))
    ]


@pytest.fixture(scope="module")
def untouched(site: Converged) -> Iterator[dict[str, str]]:
    """The nodes before the first case; after the last one they must be the same."""
    before = fingerprints(site)
    yield before
    assert difference(before, fingerprints(site)) == []


def wrong_inventory(case: Case, site: Site, directory: Path) -> Path:
    """The inventory of a case: the cluster's own, or a copy made wrong."""
    if not (case.host_variables or case.inventory):
        return site.inventory
    text = case.inventory_text((site.inventory / "hosts.yml").read_text())
    (directory / "hosts.yml").write_text(text)
    (directory / "group_vars").symlink_to((site.inventory / "group_vars").resolve())
    return directory


def problems_said(run: Run) -> list[str]:
    """The lines of the messages of all failed tasks."""
    failures = re.findall(r"^fatal: \[.+?\]: FAILED! => (\{.*\})$", run.output, re.MULTILINE)
    return [line for failure in failures for line in json.loads(failure)["msg"].splitlines()]


def play(case: Case, site: Site, directory: Path) -> Run:
    """The run of site.yml with the bad input of a case."""
    inventory = wrong_inventory(case, site, directory)
    return site.play("site.yml", inventory=inventory, rc=None, **case.variables)


@pytest.fixture(scope="module")
def runs(
    site: Converged,
    untouched: dict[str, str],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Future[Run]]]:
    """The runs of the chosen cases that damage no host, two at a time: none of them changes anything."""
    chosen = [
        item.callspec.params["case"]
        for item in request.session.items
        if getattr(item, "originalname", "") == "test_bad_input_is_refused"
    ]
    with ThreadPoolExecutor(2) as pool:
        yield {
            case.id: pool.submit(play, case, site, tmp_path_factory.mktemp(case.id))
            for case in chosen
            if case.id in WRITTEN
        }


@dataclass
class Tried:
    """A run with bad input, and the nodes before and after it."""

    before: dict[str, str]
    run: Run
    after: dict[str, str]


def tried(cases: list[Case], site: Site, directory: Path) -> Tried:
    """Run site.yml while hosts have the faults of the cases, and their variables are set."""
    with ExitStack() as faults:
        for case in cases:
            faults.enter_context(FAULTS[case.id](site))
        before = fingerprints(site)
        variables = {name: value for case in cases for name, value in case.variables.items()}
        run = site.play(
            "site.yml", inventory=wrong_inventory(cases[0], site, directory), rc=None, **variables
        )
        return Tried(before, run, fingerprints(site))


@pytest.fixture(scope="module")
def together(
    site: Converged, runs: dict[str, Future[Run]], tmp_path_factory: pytest.TempPathFactory
) -> Tried:
    """The run in which the hosts have several faults."""
    wait(runs.values())
    cases = [case for case in CHOSEN if case.id in TOGETHER]
    return tried(cases, site, tmp_path_factory.mktemp("together"))


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.id)
def test_bad_input_is_refused(
    case: Case,
    site: Converged,
    untouched: dict[str, str],
    runs: dict[str, Future[Run]],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if case.id in TOGETHER:
        found = request.getfixturevalue("together")
    elif case.id in FAULTS:
        wait(runs.values())
        found = tried([case], site, tmp_path)
    else:
        run = runs[case.id].result()
        found = Tried(untouched, run, fingerprints(site))
    run = found.run
    assert run.rc not in (0, 250), tail(run.output, 40)
    said = problems_said(run)
    matching = case.lines(said)
    assert matching, "\n".join(said) or tail(run.output, 40)
    # People read the terminal: the line appears there unchanged, and not once for every host.
    shown = re.sub(
        r"^\[ERROR\]: (Task failed: |Action failed: )*", "", run.output, flags=re.MULTILINE
    )
    assert shown.splitlines().count(matching[0]) == 1, tail(run.output, 40)
    assert run.changed == set()
    assert set(re.findall(r"^PLAY \[(.*?)\]", run.output, re.MULTILINE)) <= PREFLIGHT_PLAYS
    assert difference(found.before, found.after) == []


def test_one_case_of_each_kind_is_run() -> None:
    assert len(CHOSEN) == len(WRITTEN) + len(FAULTS)
