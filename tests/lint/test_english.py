# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Phrases that made readers start a sentence again stay out of the guides, comments, docstrings and task names.

Code, quotations and generated pages are not checked.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Regular expression -> cure. A sentence begins at the start of a line or after a full stop.
BANNED = {
    r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|later\b|such\b)\w+": "write 'is not a ...'",
    r"\b(?:has|have) no\b": "write 'does not have', 'lacks' or 'without'",
    r"\bmend(?:s|ed|ing)?\b": "write 'fix'",
    r"\baside\b": "write 'asynchronously', 'separately' or 'under a temporary name'",
    r"\bbears?\b": "write 'accepts' or 'tolerates'",
    r"(?<!\beach )(?<!\blast )\bone's\b": "name the owner: 'a host's'",
    r"\bsake\b": "name the reason",
    r"\bfor want of\b": "write 'because ... is missing' or 'without'",
    r"\bstands?\b(?!-)": "write 'is', 'exists', 'runs' or 'means'",
    r"\banew\b": "write 'again'",
    r"\bgo(?:es)? on (?:with|without|from|where|as|to)\b": "write 'continue'",
    r"\btakes? (?:out|away)\b": "write 'remove'",
    r"(?:^|\. )(?:What|Who|Whose) (?!is wrong\b)\w+": "name the thing or person that is the subject",
    r"(?:^|[.;] )Of (?:an?|the|those|what|several|two|its?|them|all|which)\b": "put the subject first",
    r"\btells? (?:how|what|which|whether|where|who)\b": "write 'report', 'print' or 'show'",
    r"\bof which (?:it|nothing|one|\w+ says)\b": "name the thing in a sentence of its own",
}


def _guide(text: str) -> Iterator[tuple[int, str]]:
    """The prose of a page, without headings, code and quotations."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and not line.startswith("#"):
            yield number, re.sub(r"^[\s|#-]+", "", re.sub(r'`[^`]*`|"[^"]*"', "x", line))


def _python(text: str) -> Iterator[tuple[int, str]]:
    """Comments and docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node, clean=False)
            for offset, line in enumerate((docstring or "").splitlines()):
                yield node.body[0].lineno + offset, line.strip()


def _yaml(text: str) -> Iterator[tuple[int, str]]:
    """Comments and names of plays and tasks."""
    for number, line in enumerate(text.splitlines(), 1):
        found = re.search(r"(?:^|\s)#+ (.*)|^\s*- name: (.*)", line)
        if found:
            yield number, found[1] or found[2]


READERS = {".md": _guide, ".py": _python, ".yml": _yaml}


@cache
def texts() -> list[tuple[str, str]]:
    """Place and text of each line that people read."""
    paths = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "plugins").rglob("*.py"),
        *(ROOT / "roles").glob("*/*/**/*.yml"),
        *(ROOT / "playbooks").rglob("*.yml"),
    ]
    return [
        (f"{path.relative_to(ROOT)}:{number}", re.sub(r"`[^`]*`", "x", line))
        for path in sorted(paths)
        for number, line in READERS[path.suffix](path.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("phrase", BANNED)
def test_phrase_does_not_return(phrase: str) -> None:
    found = [f"{place}: {text.strip()}" for place, text in texts() if re.search(phrase, text)]
    assert not found, f"{BANNED[phrase]}:\n" + "\n".join(found)


def test_lines_of_each_kind_are_read() -> None:
    """An empty list of lines would pass every phrase."""
    for suffix in READERS:
        assert len([place for place, _ in texts() if f"{suffix}:" in place]) > 100, suffix
