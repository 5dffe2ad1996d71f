# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""States of partitions that somebody has set by scontrol, kept over a reconfigure or restart of slurmctld.

Slurm takes the state of a partition from slurm.conf then (slurmctld(8), option -R; without ReconfigFlags, a reconfigure
too). A partition that is DOWN for maintenance would be UP, and its waiting jobs start at once. So a reservation of its
nodes keeps jobs away until the state is back. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import typing as t

from ...node import whole_file
from . import text

DIRECTORY = "/var/lib/trainwright/applied"
FILE = "partitions.json"
RESERVATION = "trainwright_partition_"  # and its name
# Minutes after which jobs start again at the latest, also where a run was killed.
_MINUTES = 5
# Seconds in which a run takes up what one that was killed has left; later, somebody may have decided otherwise.
_TAKEN_UP_S = 3600
# A partition in the state DRAIN starts the jobs that wait there.
_STOPPED = ("DOWN", "INACTIVE")

Scontrol = t.Callable[..., tuple[int, str, str]]


def states(scontrol: Scontrol) -> dict[str, str]:
    """Return the state of each partition; {} where slurmctld does not answer."""
    rc, shown, _err = scontrol("show", "partition")
    return {one.name: one.state for one in text.partitions(shown)} if rc == 0 else {}


@contextlib.contextmanager
def kept(
    scontrol: Scontrol,
    directory: str = DIRECTORY,
    usual: t.Mapping[str, str] | None = None,
    apart: t.Collection[str] = (),
) -> t.Iterator[None]:
    """Tell slurmctld something within this, and each partition has its state of before.

    directory: where the states are noted, for a run that is killed. usual: the state of each partition by slurm.conf,
    if that is known. apart: the partitions that get another state on purpose.
    """
    take_up(scontrol, directory)
    before = {
        name: state
        for name, state in states(scontrol).items()
        if name not in apart and state and (usual is None or state != usual.get(name))
    }
    if not before:
        yield
        return
    noted = json.dumps({"at": time.time(), "states": before})
    # Without a note, as of an operator who is not root, only a run that is killed does not find it.
    with contextlib.suppress(OSError):
        os.makedirs(directory, mode=0o700, exist_ok=True)
        whole_file.write(os.path.join(directory, FILE), noted.encode())
    for name in (name for name, state in before.items() if state in _STOPPED):
        _hold(scontrol, name)
    try:
        yield
    finally:
        _put_back(scontrol, os.path.join(directory, FILE), before)


def _hold(scontrol: Scontrol, name: str) -> None:
    _release(scontrol, name)
    options = ["StartTime=now", f"Duration={_MINUTES}", "Users=root", f"PartitionName={name}"]
    options += ["Nodes=ALL", "Flags=IGNORE_JOBS,OVERLAP,PART_NODES"]
    scontrol("create", f"ReservationName={RESERVATION}{name}", *options)


def _release(scontrol: Scontrol, name: str) -> None:
    scontrol("delete", f"ReservationName={RESERVATION}{name}")


def take_up(scontrol: Scontrol, directory: str) -> list[str]:
    """Close the partitions again that a run had noted as closed before it was killed; return their names."""
    path = os.path.join(directory, FILE)
    try:
        with open(path, encoding="utf-8") as handle:
            found = json.load(handle)
        at, noted = float(found["at"]), dict(found["states"])
    except OSError:
        return []
    except (ValueError, TypeError, KeyError):  # cut short by a power failure
        at, noted = 0.0, {}
    recent = 0 <= time.time() - at <= _TAKEN_UP_S
    closed = {name: state for name, state in noted.items() if recent and state != "UP"}
    return _put_back(scontrol, path, closed)


def _put_back(scontrol: Scontrol, path: str, noted: t.Mapping[str, str]) -> list[str]:
    """Give partitions these states; return the names of those that had others.

    They stay noted, and their nodes reserved for a while, where slurmctld does not take it.
    """
    now = states(scontrol)
    other = [name for name in noted if name in now and now[name] != noted[name]]
    updates = [
        scontrol("update", f"PartitionName={name}", f"State={noted[name]}")[0] for name in other
    ]
    if not now or any(updates):
        return []
    for name in noted:
        if noted[name] in _STOPPED:
            _release(scontrol, name)
    with contextlib.suppress(OSError):
        os.unlink(path)
    return sorted(other)
