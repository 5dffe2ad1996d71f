# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Arguments of the kernel at the next boot, by GRUB: a file of its own on Debian and Ubuntu, grubby on RHEL's family.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import shutil
import typing as t

from . import files, own_files
from .services import run
from .terminal import PrintableError

DEFAULTS = "/etc/default/grub.d"
FILE = f"{DEFAULTS}/91-trainwright-tuning.cfg"
_TIMEOUT_S = 120


class BootError(PrintableError):
    """Arguments that cannot be set; the message has the cause and the remedy."""


def text(arguments: t.Sequence[str]) -> str:
    """Return the file that GRUB's configuration is made from."""
    words = " ".join(arguments)
    return (
        "# Written by trainwright.slurm (role node_tuning).\n"
        f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {words}"\n'
    )


def _run(argv: list[str]) -> str:
    done = run(argv, timeout=_TIMEOUT_S)
    if done.returncode:
        why = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise BootError(
            f"{argv[0]}: {why[-1]}. Remedy: the node boots as before; run it by hand to see the fault, then run the"
            " role again"
        )
    return done.stdout


def by_file() -> bool:
    """Whether the arguments are in a file that update-grub reads."""
    return bool(not shutil.which("grubby") and shutil.which("update-grub"))


def leaves(wanted: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """Return what is left of the file: items of the manifest. Raises FilesError."""
    return _plan(wanted, True).leaves if by_file() else []


def bring(
    wanted: t.Sequence[str], before: t.Sequence[str], check: bool, pending: bool = False
) -> list[str]:
    """Have the wanted arguments at the next boot, and those of an earlier run no more; return what changes.

    pending: whether an earlier run has ended after it wrote the file, and before update-grub had read it. Raises
    BootError where there is neither update-grub nor grubby.
    """
    if shutil.which("grubby"):
        return _grubby(wanted, before, check)
    if shutil.which("update-grub"):
        return _grub_defaults(wanted, check, pending)
    if not wanted:
        return []
    raise BootError(
        "node_tuning_kernel_arguments: this node has neither update-grub nor grubby, so it is not known where its"
        " boot loader has the arguments. Remedy: set them in the node's image, and take them out of the variable"
    )


def _plan(wanted: t.Sequence[str], check: bool) -> files.Plan:
    above = [{"path": DEFAULTS, "mode": "0755"}] if wanted else []
    return own_files.plan(above, [_state(text(wanted) if wanted else None)], check)


def _grub_defaults(wanted: t.Sequence[str], check: bool, pending: bool) -> list[str]:
    plan = _plan(wanted, check)
    if (plan.changes or pending) and not check:
        was = _read(FILE)
        for change in plan.changes:
            files.apply(change)
        try:
            _run(["update-grub"])
        except BootError:
            # Else the next run would find nothing to do.
            for change in own_files.plan([], [_state(was)], False).changes:
                files.apply(change)
            raise
    changed = [change.path for change in plan.changes]
    return changed or (["update-grub"] if pending else [])


def _state(content: str | None) -> dict[str, t.Any]:
    if content is None:
        return {"path": FILE, "state": "absent"}
    return {"path": FILE, "mode": "0644", "content": content}


def _read(path: str) -> str | None:
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8", errors="replace") as handle:
        return handle.read()


def arguments_of(output: str) -> list[set[str]]:
    """Return the arguments of each entry that `grubby --info=ALL` prints."""
    found = []
    for line in output.splitlines():
        name, _equals, value = line.partition("=")
        if name == "args":
            found.append(set(value.strip().strip('"').split()))
    return found


def _grubby(wanted: t.Sequence[str], before: t.Sequence[str], check: bool) -> list[str]:
    entries = arguments_of(_run(["grubby", "--info=ALL"]))
    add = [item for item in wanted if any(item not in entry for entry in entries)]
    drop = [
        item for item in before if item not in wanted and any(item in entry for entry in entries)
    ]
    if (add or drop) and not check:
        command = ["grubby", "--update-kernel=ALL"]
        command += [f"--remove-args={' '.join(drop)}"] if drop else []
        command += [f"--args={' '.join(add)}"] if add else []
        _run(command)
    return ["arguments of the kernel"] if add or drop else []
