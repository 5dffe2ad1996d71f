# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The inventory's cache. It has all tags and addresses, so its files are their owner's alone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ansible.plugins.cache import CachePluginAdjudicator


#: Changes when what is cached changes its form.
_FORMAT = 2
_KEPT = {"hosts", "variables", "warnings", "own"}
_OF_THE_CACHE = ("cache", "cache_plugin", "cache_timeout", "cache_connection", "cache_prefix")


def key_of(core: str, options: Mapping[str, t.Any]) -> str:
    """Core's key, of plugin and path, with a digest of all that changes what is found."""
    asked = {name: value for name, value in options.items() if name not in _OF_THE_CACHE}
    text = json.dumps([_FORMAT, asked], sort_keys=True, default=str)
    return f"{core}_{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def read(cache: CachePluginAdjudicator, key: str) -> dict[str, t.Any] | None:
    """Return what is kept under the key; None where that is nothing, or cannot be used."""
    try:
        found: dict[str, t.Any] = json.loads(cache[key]["fleet"])
    except (KeyError, TypeError, ValueError):
        return None
    return found if set(found) == _KEPT else None


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
    directory = getattr(cache._plugin, "_cache_dir", "")
    for entry in os.scandir(directory) if directory else ():
        # Ansible puts a prefix of its own before the key.
        if any(entry.name.endswith(key) for key in cache):
            with contextlib.suppress(FileNotFoundError):
                os.chmod(entry.path, 0o600)
