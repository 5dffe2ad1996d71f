# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The reservations that keep users' jobs from nodes: new ones until their first checks, and those in quarantine.

site.yml puts new nodes into the first, and the agent takes them out; the second is a person's. Runs on nodes:
Python 3.9.
"""

from __future__ import annotations

import typing as t

from .. import values
from ..records import Node, Reservation

NAME = "trainwright_first_checks"
QUARANTINE = "trainwright_quarantine"
#: States in which a node has not been there yet, and Slurm's marks of nodes that come and go.
_ABSENT = ("CLOUD", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP")


class Slurm(t.Protocol):
    """The part of a transport that changes reservations."""

    def create_reservation(self, name: str, settings: t.Mapping[str, str]) -> None: ...

    def update_reservation(self, name: str, settings: t.Mapping[str, str]) -> None: ...

    def delete_reservation(self, name: str) -> None: ...


def members(reservations: t.Iterable[Reservation], name: str = NAME) -> frozenset[str]:
    """Return the names of the nodes in one of them."""
    there = [one.nodes for one in reservations if one.name == name and one.nodes]
    return frozenset(node for nodes in there for node in values.expand(nodes))


def is_new(node: Node) -> bool:
    """Whether Slurm has never seen the node at work. One that comes and goes is not: jobs would not start it."""
    if node.registered or node.state == "FUTURE" or set(node.flags) & set(_ABSENT):
        return False
    # A node publishes in one of these; slurmctld keeps both where it forgets the rest.
    return not (node.extra or node.comment or node.boot_time)


def change(slurm: Slurm, there: t.Collection[str], wanted: t.Collection[str], user: str) -> None:
    """Bring the first reservation to these nodes. user: who may work there besides root. Raises SlurmError."""
    if set(there) == set(wanted):
        return
    if not wanted:
        slurm.delete_reservation(NAME)
    elif there:
        slurm.update_reservation(NAME, {"Nodes": values.compress(wanted)})
    else:
        settings = {
            "StartTime": "now",
            "Duration": "UNLIMITED",
            "Users": ",".join(dict.fromkeys([user, "root"])),
        }
        settings.update(Flags="IGNORE_JOBS,OVERLAP", Nodes=values.compress(wanted))
        slurm.create_reservation(NAME, settings)


def line(held: t.Collection[str]) -> str:
    """Return what to say about nodes that are held, "" without one."""
    if not held:
        return ""
    return (
        f"New nodes, held until their first health checks pass: {values.compress(held)} -> the agent gives them to the"
        " jobs, and its report on the active controller names what fails; to give them up to jobs unchecked: scontrol"
        f" delete reservation={NAME}"
    )
