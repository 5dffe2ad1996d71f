# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A tag that selects nothing is refused; those of roles and phases are not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.tags import (
    ROLES,
    starts_with_old,
    tag_problems,
)

ROOT = Path(__file__).resolve().parents[6]
GROUPS = {
    "slurm_cluster": ["ctl1", "c1", "login1"],
    "slurm_controller": ["ctl1"],
    "slurm_compute": ["c1"],
    "slurm_login": ["login1"],
    "slurm_rest": [],
}
ALL = GROUPS["slurm_cluster"]


@pytest.mark.parametrize(
    "tags",
    [
        ["all"],
        ["slurmd"],
        ["slurm_accounts", "configure"],
        ["install"],
        ["always"],
        ["slurmd", ""],
        [],
    ],
)
def test_what_selects_something_is_accepted(tags: list[str]) -> None:
    assert list(tag_problems(tags, GROUPS, ALL)) == []


def test_an_unknown_tag_is_refused_with_the_list() -> None:
    ((what, remedy),) = tag_problems(["slurmdd", "service"], GROUPS, ALL)
    assert what == "no task has the tag 'slurmdd'"
    assert remedy.startswith("did you mean slurmdbd? ") or "did you mean slurmd? " in remedy
    assert "slurm_accounts" in remedy
    assert "configure" in remedy


@pytest.mark.parametrize("tag", ["slurmrestd", "slurmdbd", "pyxis"])
def test_a_role_without_a_host_is_refused(tag: str) -> None:
    ((what, _remedy),) = tag_problems([tag], GROUPS, ALL)
    assert what == f"{tag} would do nothing: this run has no host of the group {ROLES[tag]}"


def test_a_limit_that_leaves_no_host_of_the_role_is_refused() -> None:
    assert list(tag_problems(["slurmd"], GROUPS, ["ctl1", "c1"])) == []
    assert len(list(tag_problems(["slurmd"], GROUPS, ["ctl1"]))) == 1


def test_the_table_has_the_roles_of_site_yml() -> None:
    text = (ROOT / "playbooks" / "site.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:role|name): trainwright\.slurm\.(\w+)", text))
    assert named - {"slurm"} <= set(ROLES)


@pytest.mark.parametrize(
    ("tags", "skipped", "refused"),
    [
        ([], [], False),
        (["all"], [], False),
        (["slurmd"], [], True),
        (["slurm_login"], [], True),
        (["slurmd", "slurmctld"], [], False),
        (["slurmctld"], [], False),
        (["configure"], [], False),
        (["slurmd", "configure"], [], False),
        (["service"], [], False),
        (["node_base"], [], False),
        ([], ["slurmctld"], True),
        ([], ["configure"], True),
        ([], ["service"], False),
        ([], ["slurmctld", "slurmd"], True),
        ([], ["slurmctld", "slurmd", "slurm_login"], False),
        (["all"], ["slurmctld"], True),
    ],
)
def test_daemons_do_not_start_with_an_old_configuration(
    tags: list[str], skipped: list[str], refused: bool
) -> None:
    assert starts_with_old(tags, skipped) is refused


@pytest.mark.parametrize(
    ("tags", "skipped", "refused"),
    [
        (["slurmrestd"], [], True),
        (["slurmrestd", "slurmctld"], [], False),
        (["slurmd"], [], False),
        (["slurmrestd"], ["service"], False),
        ([], ["slurmctld"], True),
        ([], ["slurmctld", "slurmrestd"], False),
    ],
)
def test_nor_does_slurmrestd(tags: list[str], skipped: list[str], refused: bool) -> None:
    assert starts_with_old(tags, skipped, ["slurmrestd"]) is refused
