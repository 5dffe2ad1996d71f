# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm's host lists, such as c[1-4,7], in playbooks; each filter is documented in its own .yml."""

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.hostlist import (
    HostlistError,
    fold,
    read,
)


def expand(given: object) -> list[str]:
    """Return the names in a host list or in a list of them, each once, in natural order."""
    return read(given)


def compress(given: object) -> str:
    """Return the host list of the names as Slurm prints it; "" for none."""
    return fold(read(given))


def intersect(given: object, other: object) -> str:
    """Return the host list of the names that are in both."""
    return fold(set(read(given)) & set(read(other)))


def subtract(given: object, other: object) -> str:
    """Return the host list of the names that are not in the other."""
    return fold(set(read(given)) - set(read(other)))


def _said(name: str, function: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
    """The function with its errors as those of the filter."""

    @functools.wraps(function)
    def filtered(*given: object) -> t.Any:
        try:
            return function(*given)
        except HostlistError as error:
            raise AnsibleFilterError(f"{name}: {error}") from error

    return filtered


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Any]:
        filters: dict[str, t.Callable[..., t.Any]] = {
            "hostlist_expand": expand,
            "hostlist_compress": compress,
            "hostlist_intersect": intersect,
            "hostlist_subtract": subtract,
        }
        return {name: _said(name, function) for name, function in filters.items()}
