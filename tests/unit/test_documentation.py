# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The generated pages are what docs/generate.py writes today."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import generate  # type: ignore[import-not-found]


def test_generated_pages_are_current() -> None:
    made = generate.pages()
    stale = [
        str(path.relative_to(ROOT))
        for path, text in made.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    gone = set((ROOT / "docs" / "reference").glob("*.md")) - set(made)
    assert not stale and not gone, "run `make docs`"


def test_every_role_has_a_readme() -> None:
    roles = {path.parents[1] for path in ROOT.glob("roles/*/tasks/main.yml")}
    assert {role / "README.md" for role in roles} <= set(generate.pages())


def test_markup_becomes_markdown() -> None:
    text = "Use O(files[].path) with V(a (b\\)), see L(guide, https://example.com) and B(now)."
    expected = "Use `files[].path` with `a (b)`, see [guide](https://example.com) and **now**."
    assert generate.markdown(text) == expected
