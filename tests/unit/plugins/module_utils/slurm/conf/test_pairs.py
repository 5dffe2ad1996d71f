# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of merging the lines of a Slurm configuration file."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import syntax
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf.pairs import (
    merge,
    override,
    text_of,
    written,
)
from hypothesis import example, given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "YES"), (False, "NO"), (["a", 1], "a,1"), (("x",), "x"), (7, "7"), ("7-0", "7-0")],
)
def test_values_are_written_as_slurm_reads_them(value: t.Any, text: str) -> None:
    assert text_of(value) == text


def test_a_value_of_the_site_wins_whatever_its_letters_case_and_null_removes() -> None:
    own = {"a": 3, "B": None, "C": True, "D": ["x", "y"], "E": None}
    assert override([["A", "1"], ["B", "2"]], own) == [["a", "3"], ["C", "YES"], ["D", "x,y"]]


def test_the_computed_lines_come_first_and_win_over_the_defaults() -> None:
    merged = merge({"KillWait": 30, "AUTHTYPE": "none"}, [["AuthType", "munge"]], {})
    assert merged == [["AuthType", "munge"], ["KillWait", "30"]]


def test_the_site_wins_over_both_and_removes_both() -> None:
    defaults, computed = {"KillWait": 30, "JobRequeue": 1}, [["Port", "1"], ["Host", "a"]]
    own = {"killwait": 60, "PORT": 2, "jobrequeue": None, "host": None, "Licenses": "x:1"}
    assert merge(defaults, computed, own) == [
        ["PORT", "2"],
        ["killwait", "60"],
        ["Licenses", "x:1"],
    ]


def test_a_repeated_name_stays_repeated() -> None:
    hosts = [["SlurmctldHost", "a"], ["SlurmctldHost", "b"]]
    assert merge({"SlurmctldHost": "c"}, hosts, {}) == hosts


def test_nothing_that_is_given_is_changed() -> None:
    defaults, computed, own = {"A": 1}, [["B", "2"]], {"c": 3, "a": None}
    merge(defaults, computed, own)
    assert (defaults, computed, own) == ({"A": 1}, [["B", "2"]], {"c": 3, "a": None})


def test_null_removes_all_lines_of_a_name_and_a_value_replaces_them() -> None:
    hosts = [["SlurmctldHost", "a"], ["SlurmctldHost", "b"], ["X", "1"]]
    assert override(hosts, {"slurmctldhost": None}) == [["X", "1"]]
    assert override(hosts, {"SlurmctldHost": "c"}) == [["SlurmctldHost", "c"], ["X", "1"]]


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("a", "a"),
        ("a b", '"a b"'),
        ('"a b"', '"a b"'),
        ('"/srv"', '"/srv"'),
        ("a#b", r"a\#b"),
        ("a #b", r'"a \#b"'),
        (r"^a\.b", r"^a\\.b"),
        ("a\\", "a\\\\"),
        ("", '""'),
        (["a", "b c"], '"a,b c"'),
    ],
)
def test_a_value_is_read_as_it_was_given(value: t.Any, line: str) -> None:
    assert written(value) == line
    text = text_of(value)
    read = syntax.parse(f"SchedulerParameters={line}\nKillWait=1\n")
    assert read.get("SchedulerParameters") == (text[1:-1] if text[:1] == '"' else text)
    assert read.get("KillWait") == "1"


@example("a\\#b \\")
@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters='"'), max_size=12))
def test_any_text_is_one_value(value: str) -> None:
    read = syntax.parse(f"SchedulerParameters={written(value)}\nKillWait=1\n")
    assert read.scalars == {"SchedulerParameters": [value], "KillWait": ["1"]}
    line = syntax.parse(f"PartitionName=a AllowGroups={written(value)} State=UP\n")
    assert line.of("PartitionName") == [{"PartitionName": "a", "AllowGroups": value, "State": "UP"}]


@pytest.mark.parametrize("value", ["a\nb", "a\rb", 'a"b', '"a"b"', '"'])
def test_what_no_line_can_have_is_refused(value: str) -> None:
    with pytest.raises(syntax.ConfError):
        written(value)


def test_words_of_a_site_join_ours() -> None:
    """A list that lost enable_configless left no slurmd able to start."""
    computed = [["SlurmctldParameters", "enable_configless,rl_enable"]]
    own = {"slurmctldparameters": ["idle_on_node_suspend", "rl_enable"], "PrologFlags": "x11,alloc"}
    wanted = [
        ["slurmctldparameters", "enable_configless,rl_enable,idle_on_node_suspend"],
        ["PrologFlags", "alloc,Contain,x11"],
    ]
    once = merge({"PrologFlags": "Alloc,Contain"}, override(computed, own), own)
    assert once == merge({"PrologFlags": "Alloc,Contain"}, computed, own) == wanted


def test_a_value_of_the_site_counts_in_joined_words() -> None:
    computed = [["AuthAltParameters", "jwt_key=/k,max_token_lifespan=60"]]
    own = {"AuthAltParameters": "max_token_lifespan=90"}
    assert override(computed, own) == [["AuthAltParameters", "jwt_key=/k,max_token_lifespan=90"]]
