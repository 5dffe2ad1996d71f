# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files of the control node that an action hands to its host while a module works with them."""

from __future__ import annotations

import contextlib
import os
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ansible.plugins.action import ActionBase


def missing_here(path: str, brings: str) -> str:
    """Return the message about a file that the control node lacks. brings: by which verb a play brings it."""
    return (
        f"{path} is not on the control node -> let the play that {brings} it run first; --limit must not leave its"
        " host out"
    )


@contextlib.contextmanager
def handed_over(action: ActionBase, files: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Copy files to a temporary directory of the host, and remove it afterwards.

    files: paths here by any name. Yields the paths there by the same names.
    """
    directory = action._make_tmp_path()
    try:
        join = action._connection._shell.join_path
        there = {
            name: action._transfer_file(path, join(directory, os.path.basename(path)))
            for name, path in files.items()
        }
        action._fixup_perms2((directory, *there.values()))
        yield there
    finally:
        action._remove_tmp_path(directory)
