# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The uids by which slurmctld knows the users of the accounting, which it looks up when it starts.

The jobs of a user whose uid has changed since, or who was removed and made again, are refused ("Invalid account or
account/partition combination specified") until a reconfigure (seen with 24.11). Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import pwd
import re
import time
import typing as t

from ..client.cli import Cli
from ..client.session import Session
from ..errors import SlurmError
from .reconfigure import reconfigure

_USER = re.compile(r"^UserName=(\S+)\((\d+)\)(?=\s|$)", re.MULTILINE)
_WAIT, _INTERVAL = 30.0, 0.5  # seconds


def old(shown: str) -> dict[str, tuple[int, int]]:
    """Return the users whose uid is another one here: name -> that of slurmctld and that of passwd.

    shown: of `scontrol show assoc_mgr flags=users`. Users whom this host does not know are left out: nobody can submit
    jobs as one of them.
    """
    found = {}
    for name, number in _USER.findall(shown):
        try:
            now = pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
        if now != int(number):
            found[name] = (int(number), now)
    return found


def renew(session: Session, result: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the result of a module after slurmctld has looked the uids up again, where one has changed.

    Must run on a controller. Raises SlurmError: timeout, when slurmctld stays with the old ones.
    """
    try:
        cli = Cli.from_params(session.params)
        found = _asked(session, cli)
    except SlurmError:
        # Before the first real run there is nothing to ask.
        if session.check:
            return result
        raise
    if not found:
        return result
    told = [
        f"reconfigure slurmctld, which knows {name} by uid {before}, now {now}"
        for name, (before, now) in sorted(found.items())
    ]
    result = {**result, "changed": True, "operations": [*result["operations"], *told]}
    if session.check:
        return result
    reconfigure(session, cli)
    _wait(session, cli)
    return result


def _asked(session: Session, cli: Cli) -> dict[str, tuple[int, int]]:
    return old(session.call(cli.command, "scontrol", "show", "assoc_mgr", "flags=users"))


def _wait(session: Session, cli: Cli) -> None:
    until = time.monotonic() + _WAIT
    while found := _asked(session, cli):
        if time.monotonic() > until:
            raise SlurmError(
                "timeout",
                f"slurmctld still knows {', '.join(sorted(found))} by an old uid {_WAIT:g} s after `scontrol"
                " reconfigure`, and refuses their jobs -> compare `scontrol show assoc_mgr flags=users` with `getent"
                " passwd` on the controller in charge, and restart slurmctld there",
            )
        time.sleep(_INTERVAL)
