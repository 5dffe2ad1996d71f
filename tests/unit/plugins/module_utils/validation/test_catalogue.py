# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks as data: those of the role are sound, and a site's changes are merged or refused with a remedy."""

from __future__ import annotations

import math
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware import thresholds
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    catalogue,
    slurm_state,
    verdicts,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.registry import (
    PARSERS,
)

from .stand_in import given

NAMES = {*PARSERS, *verdicts.OWN}


def test_the_checks_of_the_role_are_sound() -> None:
    made = catalogue.load(given(), None, NAMES)
    assert {check.stage for check in made} == set(catalogue.STAGES)
    for check in made:
        assert check.kind != "slurm" or check.test in slurm_state.TESTS, check.name
        assert check.parser == "text" or check.figures or check.expect == "same", check.name
        assert check.kind != "pairs" or check.figures, check.name
        assert not check.references or set(check.references) <= set(check.figures), check.name
        # A measurement that is not judged by anything needs no remedy; an expectation does.
        assert check.expect is None or check.remedy, check.name


def test_references_of_the_role_are_tests_of_the_table() -> None:
    tests = {row.test for row in thresholds.table().values()}
    for check in catalogue.load(given()):
        assert {str(one) for one in check.references.values()} <= tests, check.name


def test_what_stands_in_comes_after_what_it_stands_in_for() -> None:
    names = [check.name for check in catalogue.load(given())]
    for check in catalogue.load(given()):
        assert all(names.index(one) < names.index(check.name) for one in check.unless), check.name


def test_a_site_adds_changes_and_removes() -> None:
    changes = {
        "bios": {"stage": "static", "title": "one BIOS", "command": "cat bios", "expect": "same"},
        "kernel": {"verdict": "FAIL"},
        "stream": None,
        "pair_mpi": None,
    }
    made = {check.name: check for check in catalogue.load(given(), changes, NAMES)}
    assert made["bios"].of_each and made["bios"].deadline == 60
    assert made["kernel"].verdict == "FAIL" and made["kernel"].command == "uname -r"
    assert "stream" not in made and "pair_mpi" in made["pair_sockets"].unless


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (7, "is a int -> a mapping of its keys, or null"),
        ({"title": "x", "command": "y"}, ".stage: is missing"),
        ({"stage": "all", "title": "x", "command": "y"}, ".stage: is 'all' -> one of static"),
        ({"stage": "node", "title": "x"}, ".command: is missing"),
        ({"stage": "node", "title": "x", "kind": "training"}, ".job: is missing"),
        ({"stage": "node", "title": "x", "command": ["y"]}, ".command: is a list -> a text"),
        ({"launch": "ssh"}, ".launch: is 'ssh'"),
        ({"nodes": 0}, ".nodes: is 0"),
        ({"nodes": ["each", 2]}, ".nodes: is"),
        ({"nodes": "some"}, ".nodes: is 'some'"),
        ({"tasks": "many"}, ".tasks: is 'many'"),
        ({"deadline": True}, ".deadline: is True"),
        ({"deadline": "60"}, ".deadline: is '60'"),
        ({"needs": ["tpus"]}, ".needs: 'tpus' is not known"),
        ({"unless": ["nobody"]}, ".unless: 'nobody' is not known"),
        ({"parser": "perl"}, ".parser: is 'perl'"),
        ({"mounts": "yes"}, ".mounts: is 'yes' -> true or false"),
        ({"largest": "2X"}, ".largest: "),
        ({"environment": "A=1"}, ".environment: is a str -> a mapping"),
        ({"references": {"x": 0}}, ".references.x: is 0"),
        ({"references": {"x": 1e-300}}, ".references.x: is 1e-300 -> a number from 0.000001"),
        ({"references": {"x": 1e300}}, ".references.x: is 1e+300"),
        ({"references": {"x": math.nan}}, ".references.x: is nan"),
        ({"references": {"x": math.inf}}, ".references.x: is inf"),
        ({"expect": {"is": 1, "least": 2}}, ".expect: is"),
        ({"expect": {"least": "2"}}, ".expect.least: is '2'"),
        ({"expect": {"version": "ncll"}}, ".expect.version: is 'ncll' -> one of kernel, driver, "),
        ({"expect": {"version": 2}}, ".expect.version: is 2 -> "),
        ({"image": "torch.sqsh"}, ".image: is 'torch.sqsh' -> one of site, ngc"),
        ({"expect": {"matches": "("}}, "is not a regular expression"),
        (
            {"expect": {"matches": ""}},
            ".expect.matches: '' is found in every text, so every output",
        ),
        ({"expect": {"matches": "^"}}, ".expect.matches: '^' is found in every text"),
        ({"expect": {"matches": "x*"}}, ".expect.matches: 'x*' is found in every text"),
        ({"expect": {"matches": "ok|"}}, ".expect.matches: 'ok|' is found in every text"),
        (
            {"expect": {"lacks": ""}},
            ".expect.lacks: '' is found in every text, so no output passes",
        ),
        ({"expect": {"most": math.inf}}, ".expect.most: is inf, with which every value or none"),
        ({"expect": {"least": -math.inf}}, ".expect.least: is -inf"),
        ({"expect": {"most": math.nan}}, ".expect.most: is nan"),
        ({"expect": {"is": math.nan}}, ".expect.is: is nan"),
        ({"colour": "red"}, ".colour: no check has such a key"),
        ({"kind": "pairs", "nodes": [2]}, ".nodes: a check of pairs takes two"),
    ],
)
def test_a_wrong_check_is_refused(keys: t.Any, words: str) -> None:
    sound = {"stage": "node", "title": "x", "command": "y"}
    alone = not isinstance(keys, dict) or "stage" in keys or "title" in keys
    with pytest.raises(catalogue.CheckError) as error:
        catalogue.load(given(), {"mine": keys if alone else {**sound, **keys}}, NAMES)
    assert "validate_checks.mine" in str(error.value) and words in str(error.value)
    assert all(" -> " in line for line in str(error.value).splitlines())


@pytest.mark.parametrize(
    "expect",
    [{"matches": "."}, {"matches": "^$"}, {"lacks": "."}, {"least": 0}, {"is": ""}, {"is": False}],
)
def test_an_expectation_that_something_can_miss_is_accepted(expect: t.Any) -> None:
    assert not list(catalogue.expectation_faults(expect, "x"))


@pytest.mark.parametrize("none", [[], "", ", "])
def test_no_stage_is_not_all_stages(none: t.Any) -> None:
    with pytest.raises(
        catalogue.CheckError, match=r"validate_stages: no stage is left -> .*static"
    ):
        catalogue.stages(none)


def test_all_faults_are_reported_at_once() -> None:
    changes = {"a": {"stage": "x"}, "b-c": {"stage": "node", "title": "x", "command": "y"}}
    with pytest.raises(catalogue.CheckError) as error:
        catalogue.load({}, changes)
    assert {"validate_checks.a.stage", "validate_checks.a.title", "validate_checks.b-c"} <= {
        line.split(": ")[0] for line in str(error.value).splitlines()
    }


def test_stages_come_in_their_order() -> None:
    assert catalogue.stages("mpi, static") == ["static", "mpi"]
    assert catalogue.stages(None) == list(catalogue.STAGES)
    with pytest.raises(catalogue.CheckError, match="network: no such stage -> of static"):
        catalogue.stages(["network"])
