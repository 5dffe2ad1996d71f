# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Calls sacctmgr: reads the accounting, applies a plan. Runs on nodes: Python 3.9."""

from __future__ import annotations

import json
import os
import subprocess
import time
import typing as t

from . import accounting

_POLL = 0.3
# What sacctmgr prints when slurmdbd does not answer (22.05 to 24.11).
_DOWN = (
    "Connection refused",
    "failed to open persistent connection",
    "Problem talking to the database",
    "Unable to contact slurmdbd",
    "Connection timed out",
    "slurmdbd: Unspecified error",
)


class SacctmgrError(RuntimeError):
    """sacctmgr refused; the message says why and what to do."""


class _DatabaseDown(SacctmgrError):
    """slurmdbd does not answer (yet)."""


def _said(text: str) -> str:
    return " ".join(text.replace("sacctmgr: error:", "").split()) or "nothing"


def run(path: str, arguments: t.Sequence[str]) -> str:
    """Run sacctmgr and return what it prints. Raises SacctmgrError."""
    try:
        done = subprocess.run(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "standard"},
        )
    except subprocess.TimeoutExpired as error:
        raise _DatabaseDown("sacctmgr got no answer from slurmdbd within 60 s") from error
    said = _said(done.stderr + " " + done.stdout)
    if any(mark in done.stderr + done.stdout for mark in _DOWN):
        raise _DatabaseDown(said)
    if done.returncode:
        raise SacctmgrError(f"sacctmgr {' '.join(arguments)}: {_remedy(said)}")
    return done.stdout


def _remedy(said: str) -> str:
    if "no TRES known" in said:
        return f"{said} -> add it to AccountingStorageTRES in slurm.conf (slurm_conf) and run again"
    if "Unknown field" in said or "Unknown option" in said:
        return f"{said} -> this Slurm knows no such option: see man sacctmgr for its names"
    if "Only admins" in said or "Access/permission denied" in said or "not authorized" in said:
        return f"{said} -> run this as root or SlurmUser on a controller"
    if "configuration source" in said or "slurm.conf" in said:
        return f"{said} -> run this on a host that has a slurm.conf, such as the controller"
    if "supported accounting" in said:
        return f"{said} -> set AccountingStorageType=accounting_storage/slurmdbd in slurm.conf"
    return f"{said} -> correct what it names"


def read(path: str, cluster: str, wanted: accounting.Wanted) -> accounting.State:
    """Read the whole accounting of cluster, each kind once."""
    rows = {
        kind: accounting.parse(run(path, ["-nP", *arguments]), columns)
        for kind, (arguments, columns) in accounting.queries(cluster, wanted).items()
    }
    return accounting.State.from_rows(rows)


def _wait_and_read(
    path: str, cluster: str, wanted: accounting.Wanted, wait: float
) -> accounting.State:
    until = time.monotonic() + wait
    while True:
        try:
            return read(path, cluster, wanted)
        except _DatabaseDown as error:
            if time.monotonic() >= until:
                raise SacctmgrError(
                    f"slurmdbd does not answer ({wait:g} s waited): {error} -> on the database "
                    "host see systemctl status slurmdbd and /var/log/slurm/slurmdbd.log, and let "
                    "this host through to its port (6819)"
                ) from error
            time.sleep(_POLL)


def _not_set_up(said: str) -> bool:
    return "slurmdbd does not answer" in said or "configuration source" in said


def _lines(things: t.Mapping[str, t.Any]) -> str:
    return json.dumps(things, indent=1, sort_keys=True) + "\n" if things else ""


def converge(params: t.Mapping[str, t.Any], path: str | None, check: bool) -> dict[str, t.Any]:
    """Read, plan, and unless check apply. Returns the module's result with a list of warnings."""
    wanted = accounting.wanted_from(params)
    cluster = params["cluster"]
    warnings: list[str] = []
    state = accounting.State()
    try:
        if path is None:
            raise SacctmgrError(
                "sacctmgr is not installed here -> run this on a controller, after Slurm's client "
                "commands were installed"
            )
        state = _wait_and_read(path, cluster, wanted, 0 if check else params["wait"])
    except SacctmgrError as error:
        # Before the first real run there is nothing to ask; then everything would be made.
        if not check or (path is not None and not _not_set_up(str(error))):
            raise
        if path is not None:
            warnings.append(f"planned as for an empty accounting: {error}")
    planned = accounting.plan(cluster, wanted, state)
    if not check and path is not None and planned.calls:
        for call in planned.calls:
            run(path, ["-i", *call])
        left = accounting.plan(cluster, wanted, read(path, cluster, wanted))
        warnings += [
            f"{what}: sacctmgr accepted {left.after[what]} and shows {left.before.get(what)} -> "
            "write the value as sacctmgr shows it, or the next run changes it again"
            for what in left.after
        ]
    return {
        "changed": bool(planned.calls),
        "calls": planned.calls,
        "diff": {"before": _lines(planned.before), "after": _lines(planned.after)},
        "warnings": warnings,
    }
