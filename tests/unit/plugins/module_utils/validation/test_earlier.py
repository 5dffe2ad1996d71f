# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A kept run is read, and refused where it is not a report of this cluster."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import document, earlier
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.plan import PlanError


def kept(cluster: str = "west") -> dict[str, t.Any]:
    return document.Document(document.Run("a-run", cluster, "2026-11-24T12:00:00Z")).to_json()


@pytest.mark.parametrize("given", [kept(), json.dumps(kept())])
@pytest.mark.parametrize("cluster", ["west", ""])
def test_a_report_of_this_cluster_is_read(given: t.Any, cluster: str) -> None:
    found = earlier.run_of(given, cluster)
    assert found and found.run.id == "a-run"


def test_there_need_not_be_one() -> None:
    assert earlier.run_of("", "west") is None and earlier.run_of({}, "west") is None


def test_one_of_another_cluster_is_refused_with_both_names() -> None:
    with pytest.raises(
        PlanError, match="is run a-run of cluster west, and this is cluster east -> give"
    ):
        earlier.run_of(kept(), "east")
    assert earlier.run_of(kept(""), "east")


@pytest.mark.parametrize(
    "given", ["{", "[]", "3", "null ", '{"format": 1}', {"format": 0}, "[" * 100_000]
)
def test_what_is_not_a_report_is_refused_in_one_line(given: t.Any) -> None:
    with pytest.raises(
        PlanError, match=r"^validate_baseline: .* -> keep a good run again"
    ) as error:
        earlier.run_of(given, "west")
    assert "\n" not in str(error.value)
