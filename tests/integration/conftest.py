"""One real cluster an operating system, made once, for all scenarios.

Debian 12 has one controller and munge; Debian 13 has two controllers and auth/slurm: between them they
cover both ways of each. Set TRAINWRIGHT_KEEP=1 to keep the clusters after the run, and to use them again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .site import ROOT, Run, Site

sys.path.insert(0, str(ROOT))
from local.cluster import Cluster  # noqa: E402

KEEP = bool(os.environ.get("TRAINWRIGHT_KEEP"))

SHAPES = {
    "debian12": {"controllers": 1, "compute": 2, "gpus": 8, "vars": {}},
    "debian13": {
        "controllers": 2,
        "compute": 3,
        "gpus": 8,
        "vars": {
            "slurm_auth_type": "slurm",
            "slurm_state_save_location": "/shared/slurmctld",
        },
    },
}


@dataclass
class Converged(Site):
    """A site with what its first runs did."""

    os: str = ""
    first_check: Run | None = None
    first: Run | None = None


@pytest.fixture(scope="session")
def site(request: pytest.FixtureRequest) -> Iterator[Converged]:
    """A converged cluster of the operating system that the test names."""
    os_name = request.param
    shape = SHAPES[os_name]
    cluster = Cluster(
        name=f"t{os_name[-2:]}", os=os_name, compute=shape["compute"], gpus=shape["gpus"], controllers=shape["controllers"]
    )
    standing = KEEP and Path(cluster.inventory).exists()
    if not standing:
        cluster.destroy()
        cluster.create()
    made = Converged(cluster=cluster, extra_vars=dict(shape["vars"]), os=os_name)
    if not standing:
        made.first_check = made.play("site.yml", "--check")
    made.first = made.play("site.yml")
    yield made
    if not KEEP:
        cluster.destroy()


@pytest.fixture
def quiet_site(site: Converged) -> Iterator[Converged]:
    """The site without jobs before and after the test, all compute nodes up."""
    site.run("ctl1", "scancel -f --user=alice,bob 2>/dev/null || true")
    yield site
    site.run("ctl1", "scancel -f --user=alice,bob 2>/dev/null || true")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that ask for a site run on both systems, unless marked with ``systems``."""
    if "site" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("systems")
        names = list(marker.args) if marker else list(SHAPES)
        metafunc.parametrize("site", names, indirect=True, scope="session")
