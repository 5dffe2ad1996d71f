# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Key=Value lines of slurm.conf, slurmdbd.conf and cgroup.conf from several sources. Pure."""

from __future__ import annotations

import typing as t

from .syntax import render_value
from .value_tables import JOINED

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Pairs = list[list[str]]
_JOINED = {name.lower() for name in JOINED}


def text_of(value: t.Any) -> str:
    """Return a value as slurm.conf writes it."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(item) for item in value)
    return str(value)


def written(value: t.Any) -> str:
    """Return a value as its line has it, which Slurm reads as exactly this value. Raises ConfError.

    Quotes around a value are those of the file, not a part of it.
    """
    text = text_of(value)
    made = render_value(unquoted(text))
    return f'"{made}"' if unquoted(text) != text and not made.startswith('"') else made


def unquoted(text: str) -> str:
    """Return a value without the quotes around it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def joined(ours: str, theirs: str) -> str:
    """Return two lists of words as one, each word once; of key=value theirs, in its place.

    Such lists hold what a part of the collection works by (SlurmctldParameters: enable_configless), so a
    site adds to them.
    """
    words: dict[str, str] = {}
    for text in (ours, theirs):
        for word in filter(None, (part.strip() for part in unquoted(text).split(","))):
            words[word.partition("=")[0].lower()] = word
    return ",".join(words.values())


def override(pairs: Sequence[Sequence[str]], own: Mapping[str, t.Any]) -> Pairs:
    """Return the pairs with a site's own values; names compare without case, null removes one.

    A site's words join those of the options in JOINED.
    """
    wanted = {str(key).lower(): (str(key), value) for key, value in own.items()}
    result: Pairs = []
    for key, value in pairs:
        if key.lower() not in wanted:
            result.append([key, value])
            continue
        # One line takes the place of all that a name has, such as SlurmctldHost; null of none.
        name, new = wanted[key.lower()]
        if new is not None:
            text = text_of(new)
            result.append([name, joined(value, text) if key.lower() in _JOINED else text])
            wanted[key.lower()] = (name, None)
    result.extend([key, text_of(value)] for key, value in wanted.values() if value is not None)
    return result


def merge(
    defaults: Mapping[str, t.Any], computed: Sequence[Sequence[str]], own: Mapping[str, t.Any]
) -> Pairs:
    """Return all lines of a file: a site's own go before the computed, those before the defaults.

    The computed pairs come first, since they are what a reader looks for (ClusterName, hosts); a name
    may be there twice (SlurmctldHost).
    """
    known = {key.lower() for key, _value in computed}
    base = {key.lower(): text_of(value) for key, value in defaults.items()}
    first = [
        [key, joined(base.get(key.lower(), ""), text) if key.lower() in _JOINED else text]
        for key, text in ([key, text_of(value)] for key, value in computed)
    ]
    rest = [[key, text_of(value)] for key, value in defaults.items() if key.lower() not in known]
    return override([*first, *rest], own)
