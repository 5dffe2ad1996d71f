# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Shared by the modules that change slurmctld's objects: names, diffs, waiting, creating and removing.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import json
import pwd
import time
import typing as t

from .. import values
from ..errors import SlurmError, unknown_names

if t.TYPE_CHECKING:
    from .session import Session
    from .transport import Transport

_Found = t.TypeVar("_Found")
#: The new settings of an object, and its differences before and after.
Differences = tuple[dict[str, str], dict[str, t.Any], dict[str, t.Any]]
# Options that hold names of the accounting: kind of row, and its column.
_NAMED = {
    "users": ("user", "User"),
    "accounts": ("account", "Account"),
    "allow_accounts": ("account", "Account"),
    "deny_accounts": ("account", "Account"),
    "qos": ("qos", "Name"),
    "allow_qos": ("qos", "Name"),
    "deny_qos": ("qos", "Name"),
}


def diff(before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the diff of two states: what is in them by name, only what differs."""
    return {"before": _lines(before), "after": _lines(after)}


def _lines(things: t.Mapping[str, t.Any]) -> str:
    return json.dumps(things, indent=1, sort_keys=True) + "\n" if things else ""


def hosts(hostlist: t.Sequence[str] | str, what: str) -> list[str]:
    """Return the names in a host list, each once. Raises SlurmError for a malformed one."""
    # A list that was given as one text is split at its commas, those in brackets too.
    text = hostlist if isinstance(hostlist, str) else ",".join(hostlist)
    try:
        return list(dict.fromkeys(values.expand(text)))
    except ValueError as error:
        raise SlurmError(
            "invalid", f"{what}: {text}: {error} -> write names such as gpu[01-08],login1"
        ) from error


def check_names(what: str, names: t.Iterable[str], known: t.Collection[str]) -> None:
    """Raise SlurmError, with the nearest names, unless all names are known."""
    missing = [name for name in names if name not in known]
    if missing:
        raise unknown_names(what, missing, known)


def one_line(option: str, text: str) -> str:
    """Return a text that Slurm can keep in one line. Raises SlurmError for one that it cannot."""
    if any(not character.isprintable() for character in text):
        raise SlurmError(
            "invalid", f"{option} has a line break or a control character -> write it in one line"
        )
    return text


def wait(
    look: t.Callable[[], _Found],
    left: t.Callable[[_Found], str],
    timeout: float,
    pause: float = 0.5,
    longest: float = 5.0,
) -> _Found:
    """Poll look() until left(result) is empty, and return the last result.

    left: "" or what is still awaited and the remedy, which becomes the error. Raises SlurmError:
    timeout, after that many seconds.
    """
    until = time.monotonic() + timeout
    while True:
        found = look()
        why = left(found)
        if not why:
            return found
        if time.monotonic() + pause > until:
            raise SlurmError("timeout", why)
        time.sleep(pause)
        pause = min(pause * 1.3, longest)


def converge(
    session: Session,
    kind: str,
    find: t.Callable[[Transport], t.Any],
    planned: t.Callable[[Transport, t.Any], Differences | None],
) -> dict[str, t.Any]:
    """Create, change or remove one object according to params["state"], and return the module's result.

    kind: partition or reservation, as in the transport's methods. find: the record, or None.
    planned: what brings it (None: a new one) to what the task wants, or None to remove it. Raises SlurmError.
    """
    params, name = session.params, session.params["name"]
    transport = session.using("read")
    there = find(transport)
    settings: dict[str, str] = {}
    before: dict[str, t.Any] = {}
    after: dict[str, t.Any] = {}
    plan = None if params["state"] == "absent" else planned(transport, there)
    if plan is None:
        need = "delete" if there else ""
        before = {name: there.as_dict()} if there else {}
    else:
        settings, old, new = plan
        need = "create" if there is None else "update" if settings else ""
        before = {name: old} if there and need else {}
        after = {name: new} if need else {}
    if need:
        transport = session.using("read", need)
    if need and not session.check:
        given = [name] if need == "delete" else [name, settings]
        try:
            session.call(getattr(transport, f"{need}_{kind}"), *given)
        except SlurmError as error:
            # A call that was tried again after a failover may have been done the first time, or another run has made
            # the object meanwhile, with settings that this task may have to keep.
            found = find(transport) if need == "create" else None
            if found is not None:
                again = planned(transport, found)
                if again and again[0]:
                    session.call(getattr(transport, f"update_{kind}"), name, again[0])
            elif need != "delete" or find(transport) is not None:
                raise _explained(transport, error, params) from error
        there = find(transport)
    return {
        "changed": bool(need),
        kind: there.as_dict() if there else {},
        "diff": diff(before, after),
    }


def _explained(
    transport: Transport, error: SlurmError, params: t.Mapping[str, t.Any]
) -> SlurmError:
    """Return the error with the nearest names, where it came from names that Slurm does not know."""
    if error.kind in ("unknown", "denied", "invalid"):
        try:
            check_accounting(transport, params)
        except SlurmError as better:
            return better
    return error


def check_accounting(transport: Transport, params: t.Mapping[str, t.Any]) -> None:
    """Raise SlurmError, with the nearest names, for accounts, QOS and users that are in none.

    Without accounting, only Slurm itself can check this, so there is no message.
    """
    for option, (kind, column) in _NAMED.items():
        given = params.get(option) or []
        names = [name.lstrip("+-") for name in ([given] if isinstance(given, str) else given)]
        try:
            rows = transport.accounting_rows([kind], "", {kind: [column]})[kind] if names else []
        except SlurmError:
            continue
        known = {row[column.lower()] for row in rows}
        if kind == "user" and transport.name == "cli":
            known |= {entry.pw_name for entry in pwd.getpwall()}
        missing = [name for name in names if known and not {name, name.lower()} & known]
        if missing:
            raise unknown_names(kind, missing, known)
