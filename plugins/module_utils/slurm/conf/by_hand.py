# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files of slurmctld that somebody has changed on the host: it may run with them, and has to hear of it when they go.

The record of what slurmctld was last given knows only of runs. Without this, a run would write the file again and leave
slurmctld with what somebody had reconfigured it to.
"""

from __future__ import annotations

import dataclasses
import os

from ansible_collections.trainwright.slurm.plugins.module_utils.node import keyed

from . import accepted, apply, syntax


def changed(specs: list[dict], settings: apply.Settings) -> dict[str, tuple[str | None, str]]:
    """Return the files whose text differs from what is wanted although slurmctld was given just that.

    By path: the text on the host, None for no file, and the action that another text takes. Reads only.
    """
    found: dict[str, tuple[str | None, str]] = {}
    for spec in specs:
        path = spec["path"]
        if not syntax.read_by_slurmctld(path) or spec.get("secret"):
            continue
        text = accepted.text_of(path)
        wanted = None if spec["state"] == "absent" else accepted.content(spec)
        given = accepted.text_of(accepted.path_of(spec, settings))
        if given is None and wanted is not None:
            continue  # it was never given to slurmctld
        if accepted.differ(given, wanted, path) or not accepted.differ(text, wanted, path):
            continue
        action = "restart" if accepted.is_drop_in(path) else "reconfigure"
        if os.path.basename(path) == "slurm.conf" and text is not None and wanted is not None:
            # A change that no run may make on a live cluster is only put back here.
            decided = accepted.decide(text, wanted, settings.version).action
            action = "restart" if decided == "restart" else "reconfigure"
        found[path] = (text, action)
    return found


def add(
    wanted: apply.Wanted,
    found: dict[str, tuple[str | None, str]],
    specs: list[dict],
    settings: apply.Settings,
) -> apply.Wanted:
    """Return a plan that also makes slurmctld take back what somebody has changed. found: as changed returns it."""
    if not found or wanted.action == "start":
        return wanted
    reasons = [
        f"{os.path.basename(path)}: somebody has changed it on this host -> {one}"
        for path, (_text, one) in found.items()
    ]
    return _also(wanted, [one for _text, one in found.values()], reasons, specs, settings)


def restart(
    wanted: apply.Wanted, why: str, specs: list[dict], settings: apply.Settings
) -> apply.Wanted:
    """Return a plan that also restarts a slurmctld that runs. why: the reason, "" for none."""
    if not why or wanted.action == "start":
        return wanted
    return _also(wanted, ["restart"], [f"{settings.service}: {why} -> restart"], specs, settings)


def _also(
    wanted: apply.Wanted,
    actions: list[str],
    reasons: list[str],
    specs: list[dict],
    settings: apply.Settings,
) -> apply.Wanted:
    action = wanted.action
    for one in actions:
        action = apply._stronger(action, one)
    if action == "reconfigure" and settings.role == "backup":
        action = "restart"
    push = action == "restart" and settings.role == "primary" and not wanted.slurmd_restart
    return dataclasses.replace(
        wanted,
        action=action,
        reasons=[*wanted.reasons, *reasons],
        push=wanted.push or (push and apply._configless(specs)),
    )


def note(
    wanted: apply.Wanted,
    found: dict[str, tuple[str | None, str]],
    specs: list[dict],
    settings: apply.Settings,
) -> apply.Wanted:
    """Note these texts as what slurmctld was last given: a run that is killed is taken up by the next.

    Returns the plan, whose last step notes what is wanted.
    """
    for spec in specs:
        text = found.get(spec["path"], (None, ""))[0] or ""
        if spec["path"] not in found or _is_refused(spec, text, settings):
            continue
        os.makedirs(settings.applied_dir, mode=0o700, exist_ok=True)
        keyed.write_private(accepted.path_of(spec, settings), text)
    return dataclasses.replace(wanted, records=apply._records(specs, settings)) if found else wanted


def _is_refused(spec: dict, text: str, settings: apply.Settings) -> bool:
    """Whether the way back from a text is a change that no run makes on a live cluster: the next would stop at it."""
    if os.path.basename(spec["path"]) != "slurm.conf":
        return False
    return accepted.decide(text, accepted.content(spec), settings.version).action == "refuse"
