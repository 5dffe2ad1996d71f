# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keeps the inventory's cache, which has all tags and addresses, for its owner only."""

from __future__ import annotations

import contextlib
import os
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible.plugins.cache import CachePluginAdjudicator


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """New files and directories are their owner's alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def write(cache: CachePluginAdjudicator) -> None:
    """Write what has changed, and close the files of a cache in files: Ansible makes them readable to all."""
    with private_files():
        cache.update_cache_if_changed()
    name_of = getattr(cache._plugin, "_get_cache_file_name", None)
    for key in list(cache) if name_of else ():
        with contextlib.suppress(FileNotFoundError):
            os.chmod(name_of(key), 0o600)
