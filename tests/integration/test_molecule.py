"""The Molecule scenarios as people run them: those of a cluster on the one that is there, roles alone from nothing."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import yaml

from .conftest import Converged, molecule
from .site import SCENARIOS, SOAK

# The scenarios by the one whose containers they use.
BY_CLUSTER: dict[str, list[str]] = {}
for path in sorted(SCENARIOS.glob("*/molecule.yml")):
    name = path.parent.name
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    environment = settings.get("ansible", {}).get("env", {})
    BY_CLUSTER.setdefault(environment.get("TRAINWRIGHT_CLUSTER", name), []).append(name)


def alone(scenario: str) -> bool:
    """Whether a scenario's hosts belong to no cluster."""
    shape = yaml.safe_load((SCENARIOS / scenario / "vars" / "cluster.yml").read_text())["cluster"]
    return bool(shape.get("bare"))


def test_scenarios_of_the_cluster_verify(quiet_site: Converged) -> None:
    molecule("verify", *BY_CLUSTER[quiet_site.scenario])


def changes(output: str) -> dict[str, list[list[str]]]:
    """The tasks that changed a host other than the control node, for each run of each step of `molecule test`."""
    found: dict[str, list[list[str]]] = {}
    task, current = "", []
    for line in output.splitlines():
        if started := re.search(r" > (\w+)\] Executing$", line):
            current = []
            found.setdefault(started[1], []).append(current)
        elif line.startswith("TASK ["):
            task = line.split("]")[0]
        elif line.startswith("changed: [") and not line.startswith("changed: [localhost"):
            current.append(task)
    return found


# Of the roles that work alone, the one with the most of its own; `make soak` runs all.
ALONE = [name for name in BY_CLUSTER if alone(name) and (SOAK or name == "enroot")]


@pytest.mark.parametrize("scenario", ALONE)
def test_role_works_alone_and_its_check_mode_is_true(scenario: str) -> None:
    """Check mode of a fresh host leaves everything to do, of a finished one nothing.

    Where roles of a scenario run the same tasks, a real run leaves less of them to the later roles than check mode.
    """
    changed = changes(molecule("test", scenario).output)
    (real,), (fresh, finished) = changed["converge"], changed["check"]
    assert [*dict.fromkeys(fresh)] == [*dict.fromkeys(real)] != []
    assert Counter(fresh) >= Counter(real)
    assert finished == []
