# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The host list filters against sets, and against the reader of slurm.conf, which knows no ClusterShell."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.filter.hostlist import FilterModule
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import syntax
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit import samples

ROOT = Path(__file__).resolve().parents[4]
FILTERS = FilterModule().filters()
expand, compress, intersect, subtract = (
    FILTERS[f"hostlist_{name}"] for name in ("expand", "compress", "intersect", "subtract")
)
THOROUGH = settings(max_examples=samples.MANY, deadline=None)

NUMBERS = ("", "0", "1", "2", "3", "9", "10", "11", "99", "100", "00", "01", "02", "010", "0009")
NAMES = [
    prefix + number + suffix
    for prefix in ("c", "r1-n", "r2-n", "gpu.x", "10")
    for number in NUMBERS
    for suffix in ("", "-ib")
]
BRACKETS = (
    "",
    "7",
    "[1]",
    "[1-3]",
    "[9-11]",
    "[01-12,20]",
    "[08,7,007-009]",
    "[0,2-3]",
    "[99-101]",
)
PARTS = [f"{prefix}{ranges}" for prefix in ("c", "r1n", "x-") for ranges in BRACKETS]
PARTS += [f"r{first}n{last}" for first in BRACKETS for last in BRACKETS[2:]]


def picks(stock: list[str], most: int) -> st.SearchStrategy[list[str]]:
    """Lists of up to most of the stock, by one number: drawing each makes the test ten times slower."""
    base = len(stock) + 1

    def pick(number: int) -> list[str]:
        digits = [number // base**place % base for place in range(most)]
        return [stock[digit - 1] for digit in digits if digit]

    return st.integers(0, base**most - 1).map(pick)


SETS = picks(NAMES, 8).map(set)
LISTS = picks(PARTS, 4).map(",".join)


@THOROUGH
@given(SETS)
@example({"c", "c1", "c01", "c001", "c10"})
def test_what_is_folded_expands_to_the_same_names(names: set[str]) -> None:
    folded = compress(list(names))
    assert set(expand(folded)) == names and len(expand(folded)) == len(names)
    assert sorted(syntax.expand(folded) if folded else []) == sorted(names)
    assert compress(folded) == folded
    # Slurm reads no text behind a range, and prints only the last number of a name folded.
    for part in re.split(r",(?![^\[]*\])", folded):
        assert re.fullmatch(r"[^\[\]]*(\[[^\[\]]*\])?", part)


@THOROUGH
@given(LISTS)
def test_every_list_of_slurm_is_read(text: str) -> None:
    assert set(expand(text)) == set(syntax.expand(text) if text else [])


@THOROUGH
@given(st.text("c0129[]-,! \n@é", max_size=12))
@example("c[1-999999999999]")
def test_any_text_is_read_as_slurm_does_or_refused_with_a_remedy(text: str) -> None:
    try:
        names = expand(text)
    except AnsibleFilterError as error:
        assert str(error).startswith("hostlist_expand: ") and " -> " in str(error)
        return
    assert set(names) == set(syntax.expand(text) if text else [])


@THOROUGH
@given(SETS, SETS)
def test_intersect_and_subtract_are_those_of_sets(one: set[str], other: set[str]) -> None:
    assert intersect(list(one), compress(list(other))) == compress(list(one & other))
    assert subtract(compress(list(one)), list(other)) == compress(list(one - other))


def test_names_are_in_natural_order_each_once() -> None:
    assert expand("c[9-10],c2,c2") == ["c2", "c9", "c10"]
    assert expand(["c[1-2]", "login1", "c2"]) == ["c1", "c2", "login1"]
    assert expand("") == expand([]) == [] and compress([]) == ""


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("c[1-", "do not pair"),
        ("c1]", "do not pair"),
        ("c[[1-2]]", "do not pair"),
        ("c[4-1]", "'4-1' in 'c[4-1]' is not a range"),
        ("c[]", "is not a range"),
        ("c[1-10/2]", "is not a range"),
        ("c[01-100]", "two widths"),
        ("c[1-2]-ib", "no text behind a range"),
        ("r[1-2][3-4]", "side by side"),
        ("c1,,c2", "remove it"),
        ("c1, c2", "without blanks"),
        ("@gpu", "no name has '@' in it"),
        ("c[0-65536]", "65537 names"),
        (["c1", 2], "2 is not a host list but int"),
        (None, "None is not a host list"),
        ({"c1": {}}, "but dict"),
    ],
)
def test_what_slurm_would_not_read_is_refused(given: object, why: str) -> None:
    with pytest.raises(AnsibleFilterError, match=re.escape(why)):
        compress(given)


def test_the_examples_give_what_they_say() -> None:
    jinja = jinja2.Environment()
    jinja.filters.update({f"trainwright.slurm.{name}": FILTERS[name] for name in FILTERS})
    for name in FILTERS:
        page = yaml.safe_load((ROOT / f"plugins/filter/{name}.yml").read_text(encoding="utf-8"))
        tasks = yaml.safe_load(page["EXAMPLES"])
        said = re.findall(r"^  # (.+)$", page["EXAMPLES"], re.M)
        assert page["DOCUMENTATION"]["name"] == name and tasks
        shown = [task["ansible.builtin.debug"]["msg"] for task in tasks]
        assert [jinja.from_string(text).render() for text in shown] == said
