# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Key=Value lines of slurm.conf, slurmdbd.conf and cgroup.conf from several sources. Pure."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Pairs = list[list[str]]


def text_of(value: t.Any) -> str:
    """Return a value as slurm.conf writes it."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(item) for item in value)
    return str(value)


def override(pairs: Sequence[Sequence[str]], own: Mapping[str, t.Any]) -> Pairs:
    """Return the pairs with a site's own values; names compare without case, null removes one."""
    wanted = {str(key).lower(): (str(key), value) for key, value in own.items()}
    result: Pairs = []
    for key, value in pairs:
        if key.lower() not in wanted:
            result.append([key, value])
            continue
        name, new = wanted.pop(key.lower())
        if new is not None:
            result.append([name, text_of(new)])
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
    rest = [[key, text_of(value)] for key, value in defaults.items() if key.lower() not in known]
    return override([*([key, text_of(value)] for key, value in computed), *rest], own)
