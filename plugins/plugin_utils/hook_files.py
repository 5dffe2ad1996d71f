# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files of the job hooks, and the parts that a site keeps beside its inventory."""

from __future__ import annotations

import os
import typing as t

from ..module_utils.hooks import plan, program


class HookError(ValueError):
    """A part whose file cannot be used; the message ends with the remedy."""


def site_part(name: str, places: t.Sequence[str]) -> str:
    """Return the text of a part. places: directories in which a relative path is looked up, in this order.

    Raises HookError for a file that is not there or is not text.
    """
    tried = [os.path.abspath(os.path.join(place, os.path.expanduser(name))) for place in places]
    path = next((path for path in tried if os.path.isfile(path)), "")
    if not path:
        raise HookError(
            f"{name}: there is no such file on the control node (looked for {', '.join(dict.fromkeys(tried))}) -> put "
            "it into group_vars of the inventory, or give its absolute path"
        )
    try:
        with open(path, encoding="utf-8") as handle:
            text = handle.read()
    except (OSError, UnicodeDecodeError) as error:
        raise HookError(f"{path}: {error} -> give a readable script") from None
    if not text.startswith("#!/"):
        raise HookError(
            f"{path}: does not begin with #! and an interpreter -> write one, such as #!/bin/bash"
        )
    what, remedy = plan.script_fault(text)
    if what:
        raise HookError(f"{path}: {what} -> {remedy}")
    return text


def problems(settings: t.Mapping[str, t.Any], places: t.Sequence[str]) -> list[tuple[str, str]]:
    """Return (variable, what is wrong and the remedy) for the files of the site's parts."""
    found = []
    for index, part in enumerate(settings.get("job_hooks_parts") or []):
        name = part.get("file") if isinstance(part, t.Mapping) else None
        if isinstance(name, str) and name:
            try:
                site_part(name, places)
            except HookError as error:
                found.append((f"job_hooks_parts[{index}].file", str(error)))
    return found


def hook_files(
    hooks: t.Mapping[str, t.Any],
    directory: str,
    kinds: t.Sequence[str],
    places: t.Sequence[str],
) -> list[dict[str, t.Any]]:
    """Return an entry for the program of each kind: absent without parts, and where its place is another directory.

    hooks: job_hooks of the cluster model. Raises HookError.
    """
    version = tuple(hooks["version"])
    parts = [
        plan.Part(**{**part, "options": tuple(map(tuple, part["options"]))})
        for part in hooks["parts"]
    ]
    entries: list[dict[str, t.Any]] = []
    for kind in kinds:
        place = plan.place_of(kind, (version[0], version[1]))
        wanted = any(part.kind == kind for part in parts)
        own = os.path.dirname(place) == directory
        if directory != plan.DIRECTORY:
            # Those that slurmctld hands out; before 23.11 it does not, and they are absent.
            own, place = "/" not in place, f"{directory}/trainwright-{kind}"
        else:
            place = f"{directory}/{kind}"
        if wanted and own:
            text = program.program(kind, hooks["mode"], parts, lambda name: site_part(name, places))
            entries.append({"path": place, "mode": "0755", "content": text})
        else:
            entries.append({"path": place, "state": "absent"})
    return entries


#: Begins with a digit that sorts first: Slurm runs the files of a glob from z to a and from 9 to 0, so ours are last.
BESIDE = "00_trainwright_{}"


def beside(
    slurm: t.Mapping[str, t.Any], settings: t.Mapping[str, t.Any], places: t.Sequence[str]
) -> list[dict[str, t.Any]]:
    """Return the entries for the directories whose files a Slurm of somebody else runs as Prolog and Epilog.

    slurm: the part of that name of node_facts. settings: the variables of role job_hooks. A kind without parts is
    absent. Raises HookError for bad settings, and for parts of a kind for which that Slurm does not have a directory.
    """
    faults = [f"{name}: {what} -> {remedy}" for name, what, remedy in plan.problems(settings)]
    faults += [f"{name}: {text}" for name, text in problems(settings, places)]
    if faults:
        raise HookError("; ".join(faults))
    parts, conf = plan.parts_of(settings), f"{slurm['config_dir']}/slurm.conf"
    others = sorted({part.kind for part in parts} - set(plan.ON_NODES))
    if others:
        raise HookError(
            f"{conf}: belongs to somebody else, and a part of {others[0]} needs a line there -> take {others[0]} out of"
            " job_hooks_parts, and set job_hooks_mps to false"
        )
    entries: list[dict[str, t.Any]] = []
    for kind in plan.ON_NODES:
        values = [value for value in slurm.get(kind) or [] if value.endswith("/*")]
        wanted = any(part.kind == kind for part in parts)
        if wanted and not values:
            option = plan.OPTIONS[kind]
            raise HookError(
                f"{conf}: {option} is not a directory, and this Slurm belongs to somebody else -> set {option} there,"
                f" such as {option}=/etc/slurm/{kind}.d/*, and run this again"
            )
        for value in values[:1]:
            entry = {"path": f"{os.path.dirname(value)}/{BESIDE.format(kind)}"}
            if wanted:
                text = program.program(
                    kind, settings["job_hooks_mode"], parts, lambda name: site_part(name, places)
                )
                entries.append({**entry, "mode": "0755", "content": text})
            else:
                entries.append({**entry, "state": "absent"})
    return entries
