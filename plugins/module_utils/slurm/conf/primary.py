# The files that only the primary controller keeps, on a host that is not or was not the primary.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""proved.json and before.json belong to the primary, and each controller has a directory of its own for them.

On a host that was the primary once and is it again, they would be months old: a step that fails would bring back a
configuration without the nodes of those months. restart.json stays: at worst it refuses one more run of some hosts.
"""

from __future__ import annotations

import contextlib
import os
import typing as t

from . import accepted, syntax


def controllers(text: str) -> list[str]:
    """Return SlurmctldHost of a slurm.conf, the primary first; [] for one that Slurm cannot read."""
    try:
        return syntax.parse(text).scalars.get("SlurmctldHost", [])
    except syntax.ConfError:
        return []


def controllers_of(files: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """Return SlurmctldHost of the slurm.conf among files, as module slurmctld_config takes them."""
    texts = [spec.get("content") for spec in files if spec["path"].endswith("/slurm.conf")]
    return controllers("".join(filter(None, texts)))


def moves(applied: str, wanted: str) -> bool:
    """Whether another host is the primary in the wanted slurm.conf; its address may change."""
    first, now = (
        [one.partition("(")[0] for one in controllers(text)[:1]] for text in (applied, wanted)
    )
    return first != now


def forget(directory: str) -> None:
    """Remove the files of the last proof. A second call does nothing."""
    for name in (accepted.PROVED, accepted.BEFORE):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(os.path.join(directory, name))
