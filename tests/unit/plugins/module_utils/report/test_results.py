# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Each renderer of results, read again by a reader of its format, also with a host that writes what others obey."""

from __future__ import annotations

import csv
import io
import json
import typing as t
import xml.etree.ElementTree as ElementTree

import jsonschema
import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import (
    NUMBERS,
    SCHEMA,
    Result,
    Verdict,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.report import results as rendered
from ansible_collections.trainwright.slurm.plugins.module_utils.report.table import table

SOURCE = "machine type p5.48xlarge"
RESULTS = [
    Result("c1", "gpus", Verdict.PASS, 8, 8, SOURCE, unit="GPUs"),
    Result("c2", "gpus", Verdict.FAIL, 7, 8, SOURCE, "replace it", "GPUs", "7 on the PCI bus"),
    Result("c2", "memory", Verdict.WARN, 1.5, 2.0, SOURCE, "look", "GiB"),
    Result("c3", "gpu_model", Verdict.INCOMPLETE, None, "H100", SOURCE, "install nvidia-smi"),
    Result("c4", "machine_type", Verdict.NOT_APPLICABLE, detail="no machine type"),
]
EVIL = [Result('c1"\x1b]0;x\x07', "gpus", Verdict.FAIL, '=cmd|" /C x"!A0', "</script><b>", "a\\b")]


def test_the_table_has_what_needs_somebody_first_and_ends_with_the_sum() -> None:
    lines = table("preflight", RESULTS).splitlines()
    assert lines[0].split() == ["HOST", "CHECK", "VERDICT", "FOUND"]
    assert lines[1].split(None, 3) == [
        "c2", "gpus", "FAIL", "7 of 8 GPUs (7 on the PCI bus) -> replace it"
    ]  # fmt: skip
    assert lines[2].startswith("c3") and lines[3].startswith("c2    memory")
    assert lines[-1] == "preflight: 1 PASS, 1 NOT_APPLICABLE, 1 WARN, 1 INCOMPLETE, 1 FAIL"
    assert table("preflight", []).endswith("preflight: nothing was checked\n")


def test_json_is_of_the_schema() -> None:
    made = json.loads(rendered.as_json("preflight", RESULTS))
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    assert made["verdict"] == "FAIL" and len(made["results"]) == 5


def test_junit_counts_each_verdict_as_ci_systems_do() -> None:
    suite = ElementTree.fromstring(rendered.junit("preflight", RESULTS))
    assert suite.attrib == {
        "name": "preflight", "tests": "5", "failures": "1", "errors": "1", "skipped": "1"
    }  # fmt: skip
    cases = {(case.get("classname"), case.get("name")): case for case in suite}
    assert cases["c1", "gpus"].find("*") is None
    failure = cases["c2", "gpus"].find("failure")
    assert failure is not None and failure.get("message", "").startswith("7 of 8 GPUs")
    assert cases["c3", "gpu_model"].find("error") is not None
    assert cases["c4", "machine_type"].find("skipped") is not None
    assert cases["c2", "memory"].findtext("system-out") == "WARN: 1.5 of 2.0 GiB -> look"


def test_csv_has_a_row_for_each_result() -> None:
    rows = list(csv.DictReader(io.StringIO(rendered.as_csv("preflight", RESULTS))))
    assert [row["verdict"] for row in rows] == [
        "PASS",
        "FAIL",
        "WARN",
        "INCOMPLETE",
        "NOT_APPLICABLE",
    ]
    assert rows[1]["value"] == "7" and rows[3]["value"] == "" and rows[1]["remedy"] == "replace it"


def series(text: str) -> dict[str, float]:
    """The samples of a textfile; each metric has its type before its first one."""
    typed, found = set(), {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        elif not line.startswith("#"):
            name, _blank, number = line.rpartition(" ")
            assert name.partition("{")[0] in typed
            found[name] = float(number)
    return found


def test_prometheus_has_verdict_value_and_threshold_as_numbers() -> None:
    found = series(rendered.prometheus("preflight", RESULTS))
    labels = 'suite="preflight",host="c2",check="gpus"'
    assert found[f"trainwright_check_verdict{{{labels}}}"] == NUMBERS[Verdict.FAIL] == 4
    assert found[f'trainwright_check_value{{{labels},unit="GPUs"}}'] == 7
    assert found[f'trainwright_check_threshold{{{labels},unit="GPUs"}}'] == 8
    assert sum("verdict" in name for name in found) == 5
    assert not any("value" in name and "c3" in name for name in found), "it was not found"


def test_html_shows_verdicts_as_badges_and_the_worst_first() -> None:
    page = rendered.as_html("preflight", RESULTS)
    assert page.count('class="verdict FAIL"') == 2, "the whole and the one result"
    assert page.index("7 of 8 GPUs") < page.index("no machine type")


def test_many_results_that_are_alike_share_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendered, "MOST_ROWS", 3)
    many = [
        *(
            Result(f"c{n}", "nccl", Verdict.PASS, 230.5 + n, 188.0, SOURCE, unit="GB/s")
            for n in range(4)
        ),
        Result("c8", "nccl", Verdict.FAIL, 120.0, 188.0, SOURCE, "replace it", "GB/s"),
        Result("c9", "nccl", Verdict.FAIL, 121.0, 188.0, SOURCE, "replace it", "GB/s"),
    ]
    section = rendered.section(many)
    assert [row[:4] for row in section.rows] == [
        ("c8", "nccl", "FAIL", "120.0 of 188.0 GB/s"),
        ("c9", "nccl", "FAIL", "121.0 of 188.0 GB/s"),
        ("c[0-3]", "nccl", "PASS", "230.5 to 233.5 GB/s"),
    ]
    assert "share a row" in section.note
    monkeypatch.setattr(rendered, "MOST_ROWS", 1)
    assert [row[0] for row in rendered.section(many).rows] == ["c[8-9]", "c[0-3]"]
    monkeypatch.setattr(rendered, "MOST_ROWS", 6)
    assert len(rendered.section(many).rows) == 6 and not rendered.section(many).note


@pytest.mark.parametrize("name", sorted(rendered.RENDERERS))
def test_no_format_passes_on_what_a_host_wants_others_to_do(name: str) -> None:
    text = rendered.RENDERERS[name]("preflight", EVIL)
    # JSON escapes control characters itself.
    assert "\x1b" not in text and "\x07" not in text
    reader: dict[str, t.Callable[[], t.Any]] = {
        "json": lambda: json.loads(text),
        "xml": lambda: ElementTree.fromstring(text),
        "csv": lambda: next(csv.DictReader(io.StringIO(text)))["value"].startswith("'="),
        "prom": lambda: series(text),
        "html": lambda: "<b>" not in text and text.count("</script>") == 1,
        "txt": lambda: len(text.splitlines()) == 3,
    }
    assert reader[name]()


@pytest.mark.parametrize("name", sorted(rendered.RENDERERS))
def test_the_same_results_give_the_same_file(name: str) -> None:
    first, second = (rendered.RENDERERS[name]("preflight", list(RESULTS)) for _turn in range(2))
    assert first == second and first.endswith("\n")
