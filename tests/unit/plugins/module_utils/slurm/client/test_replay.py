# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Replays what real Slurms printed: text, --json and slurmrestd of a version lead to equal records.

tests/fixtures/slurm/<version>/expected.json holds the records. It is made from the text, with
TW_WRITE_EXPECTED=1 in the environment, and then read by a person.
"""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import data, text

FIXTURES = Path(__file__).resolve().parents[5] / "fixtures" / "slurm"
KINDS = ("nodes", "jobs", "partitions", "reservations", "licenses", "controllers", "ended_jobs")
OWN_NAME = {"nodes": "name", "controllers": "host", "jobs": "id", "ended_jobs": "id"}
#: (kind, version of the API: "38", or "39-44") -> fields that its documents do not have, or not in
#: full; the sources are the files that data.py names.
NOT_SHOWN: dict[tuple[str, str], tuple[str, ...]] = {
    # No flags, no share; "disabled" may be that of the cluster.
    ("partitions", "38-38"): ("over_subscribe", "preempt_mode"),
    ("partitions", "39-44"): ("default", "hidden", "root_only", "preempt_mode"),
    ("partitions", "39-39"): ("state",),
    ("partitions", "45-99"): ("preempt_mode",),  # CLUSTER_GLOBAL; the text has the one in force
    ("reservations", "38-99"): ("comment",),
    ("ended_jobs", "38-39"): ("exit_code",),
    ("ended_jobs", "38-38"): ("reservation",),
    # sacct has no columns for these in 22.05, which is why it is not asked for them.
    ("ended_jobs", "38-99"): ("restarts", "stdout", "stderr"),
}


def versions() -> list[str]:
    return sorted(path.parent.name for path in FIXTURES.glob("*/cli"))


def api_of(path: Path, version: str) -> int:
    """Return 42 for documents of v0.0.42; --json has that of its release."""
    if path.parent.parent.name == "rest":
        return int(path.parent.name.rpartition(".")[2])
    year, month = (int(part) for part in version.split("."))
    # 22.05 has 38, and each of the two releases of a year one more from 23.02 on.
    releases = {(22, 5): 38, (23, 2): 39, (23, 11): 40, (24, 5): 41, (24, 11): 42}
    return releases.get((year, month)) or 43 + 2 * (year - 25) + (month > 8)


def not_shown(kind: str, api: int) -> set[str]:
    found: set[str] = set()
    for (of, span), fields in NOT_SHOWN.items():
        first, _dash, last = span.partition("-")
        if of == kind and int(first) <= api <= int(last):
            found |= set(fields)
    return found


def by_name(kind: str, records: t.Iterable[dict[str, t.Any]]) -> dict[t.Any, dict[str, t.Any]]:
    return {record[OWN_NAME.get(kind, "name")]: record for record in records}


def recorded_at(jobs: t.Iterable[dict[str, t.Any]]) -> int:
    """Return when it was recorded: a running job has its start and for how long it has run."""
    return max(job["start_time"] + job["elapsed"] for job in jobs if job["state"] == "RUNNING")


def moving(kind: str, record: dict[str, t.Any]) -> set[str]:
    """Return fields that may differ between two looks at the same moment."""
    return {"elapsed"} if kind.endswith("jobs") and record["state"] == "RUNNING" else set()


def read_text(version: str, kind: str, name: str) -> list[dict[str, t.Any]]:
    shown = (FIXTURES / version / "cli" / f"{name}.txt").read_text(encoding="utf-8")
    return [record.as_dict() for record in getattr(text, kind)(shown)]


def expected(version: str) -> dict[str, t.Any]:
    path = FIXTURES / version / "expected.json"
    if os.environ.get("TW_WRITE_EXPECTED"):
        made: dict[str, t.Any] = {
            kind: read_text(version, kind, kind) for kind in (*KINDS, "events")
        }
        path.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return t.cast("dict[str, t.Any]", json.loads(path.read_text(encoding="utf-8")))


def as_json(value: t.Any) -> t.Any:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("version", versions())
def test_the_text_is_read_as_a_person_read_it(version: str) -> None:
    wanted = expected(version)
    for kind in (*KINDS, "events"):
        assert as_json(read_text(version, kind, kind)) == wanted[kind], kind


@pytest.mark.parametrize("version", versions())
@pytest.mark.parametrize("kind", ["nodes", "jobs"])
def test_both_forms_of_the_text_say_the_same(version: str, kind: str) -> None:
    """As far as no text in it looks like a field, which the recorded ones do not."""
    wanted = by_name(kind, expected(version)[kind])
    read = by_name(kind, read_text(version, kind, f"{kind}_oneline"))
    assert read.keys() == wanted.keys()
    for name, record in read.items():
        for field in record.keys() - moving(kind, record) - {"gres_used"}:
            assert as_json(record[field]) == wanted[name][field], (name, field)


DOCUMENTS = [
    (version, path)
    for version in versions()
    for path in sorted(
        [*(FIXTURES / version).glob("cli_json/*.json"), *(FIXTURES / version).glob("rest/*/*.json")]
    )
    if path.stem in KINDS
]


@pytest.mark.parametrize(
    ("version", "path"),
    DOCUMENTS,
    ids=[str(path.relative_to(FIXTURES).with_suffix("")) for _version, path in DOCUMENTS],
)
def test_a_document_says_what_the_text_says(version: str, path: Path) -> None:
    document, kind = json.loads(path.read_text(encoding="utf-8")), path.stem
    if not isinstance(document, dict) or not any(
        document.get(key) for key in (kind, "jobs", "pings")
    ):
        pytest.skip("this API has no such document, or an empty one")
    wanted = by_name(kind, expected(version)[kind])
    given = [document]
    if kind in ("jobs", "reservations"):
        given.append(recorded_at(expected(version)["jobs"]))
    read = by_name(kind, (record.as_dict() for record in getattr(data, kind)(*given)))
    hidden = not_shown(kind, api_of(path, version))
    # Nodes that are not there yet are shown by scontrol --future only; of the jobs, some documents
    # have only a few, to keep this directory small.
    future = {name for name, record in wanted.items() if record.get("state") == "FUTURE"}
    least = {3, 5} if kind.endswith("jobs") else wanted.keys() - future
    assert least <= read.keys() <= wanted.keys()
    different = {
        f"{name}.{field}": (value, wanted[name][field])
        for name, record in read.items()
        for field, value in as_json(record).items()
        if field not in hidden | moving(kind, record) and value != wanted[name][field]
    }
    assert not different


def test_the_configuration_of_26_05_is_in_its_documents() -> None:
    paths = sorted(FIXTURES.glob("*/rest/*/configuration.json"))
    for path in paths:
        version = path.parents[2].name
        shown = (FIXTURES / version / "cli" / "configuration.txt").read_text(encoding="utf-8")
        wanted = text.configuration(shown).settings
        read = data.configuration(json.loads(path.read_text(encoding="utf-8"))).settings
        for key in ("ClusterName", "SelectType", "SchedulerType", "StateSaveLocation"):
            assert read[key] == wanted[key]
