# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The report of drift.yml: no host that was not seen whole counts as left, and no answer can break it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.filter.drift_report import drift_report
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import from_json
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.drift_report import (
    WITH_UNIT,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.report.results import RENDERERS

from tests.unit.cluster import ROOT, specs

ROLES = [path.parents[1].name for path in ROOT.glob("roles/*/meta/argument_specs.yml")]
LEFT = {"state": "as left", "differences": [], "unknown": [], "left_out": 0, "items": 7}
MODE = {"kind": "file", "name": "/etc/a", "what": "mode", "found": "0600", "left": "0644"}
MODE |= {"role": "slurmd", "part": "Write it"}
OPEN = {"role": "slurmd", "part": "Write it", "why": "a run began to change it and did not end"}


def answer(**values: t.Any) -> dict[str, t.Any]:
    return {**LEFT, **values}


def test_a_host_that_is_as_left() -> None:
    found = drift_report({"c1": LEFT})
    assert found["lines"] == []
    assert found["summary"] == "hosts: 1 as left, 0 drifted, 0 not known, 0 unreachable"
    assert not found["drifted"] | found["unknown"] | found["unreachable"]


def test_a_line_for_each_difference_with_its_role() -> None:
    found = drift_report({"c1": answer(state="drifted", differences=[MODE])})
    assert found["lines"] == [
        "c1: file /etc/a: mode: 0600, not 0644 (role slurmd: Write it) -> run site.yml with --limit"
        " c1,slurm_controller, or keep the change in the inventory"
    ]
    assert found["drifted"]


DROP_IN = "/etc/systemd/system/slurmd.service.d/mine.conf"
REMOVE = "remove it and run systemctl daemon-reload there, or first move its settings to "


@pytest.mark.parametrize(
    ("role", "what", "found", "remedy"),
    [
        ("slurmd", "drop-ins", DROP_IN, REMOVE + "slurmd_unit"),
        ("nfs_server", "drop-ins", DROP_IN, REMOVE + "the inventory"),
        ("slurmd", "unit file", "/run/systemd/system/slurmd.service", REMOVE + "slurmd_unit"),
        # That of the package, where a person has removed the role's.
        ("slurmd", "unit file", "/usr/lib/systemd/system/slurmd.service", "run site.yml with --limit c1"),
        # Whose the change is, is known only once systemd has read it.
        ("slurmd", "files", "changed on the disk", "see systemctl cat /etc/a there, run systemctl daemon-reload"),
    ],
)  # fmt: skip
def test_a_file_that_no_run_removes_is_to_be_removed(
    role: str, what: str, found: str, remedy: str
) -> None:
    one = {**MODE, "kind": "unit", "role": role, "what": what, "found": found}
    (line,) = drift_report({"c1": answer(state="drifted", differences=[one])})["lines"]
    assert line.partition(" -> ")[2].startswith(remedy)


def test_the_roles_with_settings_of_units_are_those_that_have_the_variable() -> None:
    assert {role for role in ROLES if f"{role}_unit" in specs(role)} == WITH_UNIT


def test_a_difference_of_a_playbook_of_the_site_names_that_playbook() -> None:
    own = {**MODE, "role": "storage.yml"}
    assert drift_report({"c1": answer(state="drifted", differences=[own])})["lines"] == [
        "c1: file /etc/a: mode: 0600, not 0644 (storage.yml: Write it) -> run storage.yml with --limit c1, or keep the"
        " change in the inventory"
    ]


@pytest.mark.parametrize(
    "said",
    [
        answer(state="not known", unknown=[OPEN]),
        answer(state="not known", items=0),
        {"failed": True, "msg": "no root -> become"},
        {},
        {"state": "fine"},
        {"state": ["as left"]},
        {"failed": True, "state": "as left"},
    ],
)
def test_a_host_that_was_not_seen_whole_is_not_known(said: dict[str, t.Any]) -> None:
    found = drift_report({"c1": said})
    assert found["states"]["not known"] == 1
    assert found["unknown"]
    assert len(found["lines"]) == 1


def test_an_unreachable_host_is_one() -> None:
    found = drift_report({"c1": LEFT, "c2": {"unreachable": True}})
    assert found["unreachable"]
    assert found["lines"] == ["c2: unreachable -> see whether it runs and answers SSH"]


def test_the_hooks_are_results_too() -> None:
    found = drift_report({"c1": LEFT}, ["c1: /x: differs from that of c2 -> compare them"])
    assert found["drifted"]
    assert found["lines"] == ["c1: /x: differs from that of c2 -> compare them"]
    found = drift_report({"c1": LEFT}, ["c1: did not answer, so its hooks are unknown -> start it"])
    assert (found["drifted"], found["unreachable"]) == (False, True)


@pytest.mark.parametrize(
    "said",
    [
        answer(state="drifted", differences=[{"kind": "\x1b[2J", "name": "a\nb\r", "what": 7}]),
        answer(state="drifted", differences="x", unknown=7, left_out="many", items=None),
        answer(state="drifted", differences=[None, "x", MODE], left_out=10**9),
        answer(state="drifted", differences=[MODE, MODE, {**MODE, "what": "unknown"}]),
        answer(state="not known", unknown=[{}, None]),
    ],
)
def test_no_answer_of_a_host_breaks_the_report(said: dict[str, t.Any]) -> None:
    found = drift_report({"c1": said})
    results = from_json(found["results"])
    for render in RENDERERS.values():
        assert render("drift", results)
    assert "\x1b" not in "".join(found["lines"])


def test_a_textfile_has_each_series_once_and_the_number_of_differences() -> None:
    said = answer(state="drifted", differences=[MODE, {**MODE, "name": "/etc/b"}], left_out=3)
    text = RENDERERS["prom"]("drift", from_json(drift_report({"c1": said})["results"]))
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))
    assert (
        'trainwright_check_value{suite="drift",host="c1",check="as_left",unit="differences"} 5'
        in text
    )


def test_a_host_that_is_not_known_has_no_number_of_differences() -> None:
    """Monitoring would take 0 for a host as left."""
    found = drift_report({"c1": answer(state="not known", unknown=[OPEN]), "c2": LEFT})
    values = {one["host"]: one["value"] for one in found["results"] if one["unit"]}
    assert values == {"c1": None, "c2": 0}
    text = RENDERERS["prom"]("drift", from_json(found["results"]))
    assert 'trainwright_check_value{suite="drift",host="c1"' not in text
    assert 'trainwright_check_verdict{suite="drift",host="c1",check="as_left"} 3' in text


def test_another_version_of_a_package_has_a_remedy_of_its_own() -> None:
    """site.yml takes over a newer one, and leaves an older one."""
    one = {**MODE, "kind": "package", "name": "munge", "what": "version"}
    one |= {"found": "1", "left": "2"}
    (line,) = drift_report({"c1": answer(state="drifted", differences=[one])})["lines"]
    assert line.endswith(
        " -> install 2 again, or, to keep a newer one, run site.yml with --limit c1,slurm_controller"
    )
    groups = {**MODE, "kind": "user", "what": "groups", "found": "adm", "left": ""}
    (line,) = drift_report({"c1": answer(state="drifted", differences=[groups])})["lines"]
    assert "groups: adm, not nothing" in line
