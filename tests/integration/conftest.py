"""One real cluster an operating system, made once, for all scenarios.

Debian 12 has one controller and munge; Debian 13 has two controllers and auth/slurm: between them
they cover both ways of each. Which cluster, with which variables, is in the system's Molecule scenario:
vars/cluster.yml and vars/site.yml. Set TRAINWRIGHT_KEEP=1 to keep the clusters after the run,
and to use them again.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from . import artifacts
from .site import ROOT, SCENARIOS, SOAK, VENV_BIN, Nodes, Run, Site, read_report, tail

KEEP = bool(os.environ.get("TRAINWRIGHT_KEEP"))
# The systems, and the scenario of each that has its cluster.
SYSTEMS = {"debian12": "debian12", "debian13": "default"}
# The scenario that gets a check before its first run; in `make soak` both do.
CHECKED_FIRST = "debian12"


@dataclass
class Converged(Site):
    """A site with what its first runs did."""

    os: str = ""
    scenario: str = ""
    first_check: Run | None = None
    first: Run | None = None

    def idempotence(self) -> Run:
        """Run site.yml on every host by `molecule idempotence`, which fails when a task changes anything."""
        return molecule("idempotence", self.scenario, arguments=("-e", "site_full=true"))


def molecule(command: str, *scenarios: str, arguments: tuple[str, ...] = ()) -> Run:
    """Run `molecule COMMAND -s SCENARIO ...`, as a person does, and fail with its output.

    arguments: of ansible-playbook.
    """
    argv = ["molecule", command, *(word for name in scenarios for word in ("-s", name))]
    argv += ["--", *arguments] if arguments else []
    path = f"{VENV_BIN}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "run.json"
        environment = {
            **os.environ,
            "PATH": path,
            "NO_COLOR": "1",
            "ANSIBLE_NOCOLOR": "1",
            "TRAINWRIGHT_RUN_JSON": str(report),
        }
        started = time.monotonic()
        done = subprocess.run(
            argv,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        run = Run(done.returncode, done.stdout, read_report(report), time.monotonic() - started)
    assert run.rc == 0, f"{' '.join(argv)}: {run.rc}:\n{tail(run.output, 80)}"
    return run


@pytest.fixture(scope="session")
def site(request: pytest.FixtureRequest) -> Iterator[Converged]:
    """A converged cluster of the operating system that the test names."""
    scenario = SYSTEMS[request.param]
    variables = SCENARIOS / scenario / "vars"
    shape = yaml.safe_load((variables / "cluster.yml").read_text())["cluster"]
    settings = yaml.safe_load((variables / "site.yml").read_text())
    cluster = Nodes(scenario)
    made = Converged(cluster=cluster, extra_vars=settings, os=shape["os"], scenario=scenario)
    if not (KEEP and cluster.local.exists):
        cluster.local.destroy()
        cluster.local.create(**shape)
        artifacts.tell(cluster.inventory)
        if SOAK or scenario == CHECKED_FIRST:
            made.first_check = made.play("site.yml", "--check")
    # Finds the containers and starts none.
    made.first = molecule("converge", scenario)
    yield made
    if not KEEP:
        molecule("destroy", scenario)


@pytest.fixture
def quiet_site(site: Converged) -> Iterator[Converged]:
    """The site without jobs before and after the test."""
    site.end_all_jobs()
    yield site
    site.end_all_jobs()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that ask for a site run on both systems, or in `make test` on those that ``systems`` names.

    The time on both is not worth it there; `make soak` runs them on both, but for those that say with ``only``
    what the other one lacks.
    """
    if "site" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("systems")
        names = list(SYSTEMS)
        if marker and (not SOAK or marker.kwargs.get("only")):
            names = list(marker.args)
        metafunc.parametrize("site", names, indirect=True, scope="session")
