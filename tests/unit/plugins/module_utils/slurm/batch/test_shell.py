# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of reading shell scripts into commands."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch import shell
from hypothesis import given
from hypothesis import strategies as st


def words(text: str) -> list[list[str]]:
    return [[word.text for word in one.words] for one in shell.parse(text).commands]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b\nc", [["a", "b"], ["c"]]),
        ("a \\\n  b # c\nd#e", [["a", "b"], ["d#e"]]),
        ("a 'x;y' \"z & $(b; c)\" d", [["a", "'x;y'", '"z & $(b; c)"', "d"]]),
        ("a; b && c || d | e &", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("if a; then b; else c; fi", [["a"], ["b"], ["c"]]),
        ("while true; do a; done > log &", [["true"], ["a"]]),
        ("f() {\n  a\n}\nf", [["a"], ["f"]]),
        ("function f { a; }\nb", [["a"], ["b"]]),
        ("cat <<EOF\nsrun x\nEOF\nb", [["cat"], ["b"]]),
        ("cat <<-'EOF' > f\n\tsrun x\n\tEOF\nb", [["cat"], ["b"]]),
        ("a 2>&1 > out < in", [["a"]]),
        ("[[ $a < $b && c ]] || d", [["[[ $a < $b && c ]]"], ["d"]]),
        ("(( a > 1 )) && b", [["(( a > 1 ))"], ["b"]]),
        ("case $a in\n  x) b ;;\n  *) c ;;\nesac\nd", [["case", "$a", "in"], ["b"], ["c"], ["d"]]),
        ("a <(b c) ${d:-e f}", [["a", "<(b c)", "${d:-e f}"]]),
    ],
)
def test_commands(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


def test_places_of_commands() -> None:
    text = "A=1 B='x\ny' srun a \\\n  b > out &\nwait"
    first, second = shell.parse(text).commands
    assert (first.line, first.end_line, first.after, first.redirects) == (
        1,
        3,
        "&",
        ((">", "out"),),
    )
    assert [word.text for word in first.assignments] == ["A=1", "B='x\ny'"]
    assert (second.line, second.name) == (4, "wait")
    assert text[first.start : first.end] == text.split(" &")[0]


def test_functions_and_depth() -> None:
    commands = shell.parse("f() { a; if b; then c; fi; }\nfor x in 1 2; do d; done\ne").commands
    found = {one.name: (one.function, one.depth) for one in commands}
    assert found["a"] == ("f", 0) and found["c"] == ("f", 1)
    assert found["d"] == ("", 1) and found["e"] == ("", 0)


@pytest.mark.parametrize(
    "text", ["while true; do a; b; done > out &", "(a; b) > out &", "{ a; b; } > out &"]
)
def test_what_follows_a_compound_command(text: str) -> None:
    last = shell.parse(text + "\nc").commands[-2]
    assert (last.name, last.after, last.redirects) == ("b", "&", ((">", "out"),))


def test_arrays_are_one_word() -> None:
    (command,) = shell.parse("A=(\n  --x 1  # one\n  --y 2\n)").commands
    assert len(command.assignments) == 1 and command.end_line == 4


@pytest.mark.parametrize(
    ("text", "plain", "live"),
    [
        ("a'$b'\"$c\"", "a$b$c", "$c"),
        ('"\\$a $b"', "$a $b", "$b"),
        ("\\$a$(b 'c')", "$a$(b 'c')", "$(b"),
        ("'it'\"'\"'s'", "it's", "'"),
    ],
)
def test_quotes(text: str, plain: str, live: str) -> None:
    assert shell.plain(text) == plain
    assert live in shell.live(text)
    assert ("$a" in shell.live(text)) is False


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("a \\\n  --b \\  # no\n  --c", [("comment", 2)]),
        ("a \\\n  # no\n  --c", [("comment", 2)]),
        ("a \\\n  # --b \\\n  c", [("comment", 2)]),
        ("a \\\n  --b \\\n  # --c\n", []),
        ("a \\ \n  --b", [("space", 1)]),
        ("a \\#b c\\ d", []),
        ("a 'b", [("quote", 1)]),
        ("a \"b 'c\" 'd\"'", []),
    ],
)
def test_what_the_shell_reads_otherwise(text: str, faults: list[tuple[str, int]]) -> None:
    assert [tuple(one) for one in shell.parse(text).faults] == faults


@given(st.text(alphabet="ab =$(){}[]'\"\\\n#;&|<>`-", max_size=60))
def test_anything_is_read_without_an_error(text: str) -> None:
    for command in shell.parse(text).commands:
        for word in (*command.words, *command.assignments):
            shell.plain(word.text)
            shell.live(word.text)
