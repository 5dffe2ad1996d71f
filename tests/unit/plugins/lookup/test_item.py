# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lookup item goes down a variable without a look at what is beside its way."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.trainwright.slurm.plugins.lookup.item import LookupModule


class Counts(dict[str, t.Any]):
    """A mapping that counts what is taken out of it."""

    taken = 0

    def __getitem__(self, key: str) -> t.Any:
        self.taken += 1
        return super().__getitem__(key)

    def __iter__(self) -> t.Iterator[str]:
        raise AssertionError("gone through")


def item(*terms: str, **variables: t.Any) -> list[t.Any]:
    return LookupModule().run(list(terms), variables)


def test_one_item_of_a_thousand_is_taken() -> None:
    wanted = Counts({f"c{number}": {"digest": number} for number in range(1000)})
    assert item("model", "wanted", "c7", "digest", model={"wanted": wanted}) == [7]
    assert wanted.taken == 1


def test_a_whole_variable_is_returned_as_it_is() -> None:
    hosts = ["c1", "c2"]
    assert item("hosts", hosts=hosts)[0] is hosts


@pytest.mark.parametrize(
    ("terms", "where"),
    [(["nodel"], "nodel"), (["model", "wanted", "c9"], "model.wanted.c9"), (["model", "text", "x"], "model.text.x")],
)  # fmt: skip
def test_what_is_not_there_is_named(terms: list[str], where: str) -> None:
    with pytest.raises(AnsibleLookupError, match=f"item: {where} is not there -> "):
        item(*terms, model={"wanted": {"c1": 1}, "text": "words"})
