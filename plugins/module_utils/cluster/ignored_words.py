# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Messages about words of the site's slurm_conf that its Slurm ignores. Pure."""

from __future__ import annotations

import typing as t

from ..slurm.conf import pairs, words

if t.TYPE_CHECKING:
    from .inputs import Settings


def _why(word: words.Ignored) -> str:
    """Return since when, or until when, Slurm has a word."""
    first, _dash, last = word.releases.partition("-")
    if not word.releases:
        return "in no release that is known here"
    spans = [f"from {first}" if first else "", f"until {last}" if last else ""]
    return " ".join(filter(None, spans))


def messages(settings: Settings, version: str) -> list[str]:
    """Return a message for each option with such words. Those that look misspelt are refused before."""
    given, found = settings.get("slurm_conf") or {}, []
    for name, value in given.items():
        if value is None or isinstance(value, dict):
            continue
        text = pairs.unquoted(pairs.text_of(value))
        listed = [f"{one.word} ({_why(one)})" for one in words.ignored(str(name), text, version)]
        if listed:
            found.append(f"slurm_conf.{name}: Slurm {version} ignores {', '.join(listed)}")
    return found
