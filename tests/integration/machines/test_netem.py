# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A delay by netem on the interface of a machine, which only a kernel of its own has, against a kept baseline.

Two nodes cannot be told from each other: test_netem_switch.py names the late one of six.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ..site import tail
from ..test_validate import of, report
from .conftest import Node, play

pytestmark = [pytest.mark.soak("two validations of emulated machines")]

#: The network between the machines is their second one.
DELAY = "tc qdisc add dev eth1 root netem delay 50ms"
SOCKETS = {"pair_sockets": {"deadline": 200}}


def validated(place: Path, baseline: Path, **more: Any) -> tuple[int, str, dict[str, Any]]:
    """Measure the pair over TCP; return the exit code, the output and the report."""
    given = {
        "validate_user": "alice",
        "validate_directory": "/data/validation",
        "validate_report": str(place),
        "validate_only": ["pair_sockets"],
        "validate_checks": SOCKETS,
        "validate_baseline": str(baseline),
        "validate_again": True,
        **more,
    }
    done = play("validate.yml", "-e", json.dumps(given))
    return done.returncode, done.stdout, report(place)


def latency(found: dict[str, Any]) -> float:
    """Microseconds of one way between the two machines."""
    values = [
        one["value"]
        for one in found["measurements"]
        if one["kind"] == "pair" and one["unit"] == "us"
    ]
    assert values, found["measurements"]
    return float(max(values))


def test_a_late_interface_fails_against_the_baseline(both: dict[str, Node], tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    late = both["vm2"]
    code, said, found = validated(tmp_path / "good", baseline, validate_keep_baseline=True)
    assert code == 0 and baseline.is_file(), tail(said, 60)
    assert not of(found, "FAIL", "INCOMPLETE")
    good = latency(found)

    late.run(f"modprobe sch_netem && {DELAY}")
    try:
        code, said, found = validated(tmp_path / "late", baseline)
    finally:
        late.run("tc qdisc del dev eth1 root")
    assert (code, found["verdict"]) == (2, "FAIL"), tail(said, 60)
    # One way of the two is 50 ms longer.
    assert good < 25_000 <= latency(found), found["measurements"]
    assert ("vm1 - vm2", "pair_sockets.latency_us.baseline") in of(found, "FAIL"), found["results"]
