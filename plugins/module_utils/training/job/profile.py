# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The environment of training jobs as a file that a batch script sources, from the table of environment.py. Pure."""

from __future__ import annotations

from ...hardware import machine_types
from . import environment

#: Where each node has its own, and the one for programs whose data goes over MPI.
PATH, MPI_PATH = "/etc/trainwright/training.sh", "/etc/trainwright/training-mpi.sh"


def has_efa(machine_type: str) -> bool:
    """Return whether machines of a type, or of a family such as p5, have EFA."""
    rows = machine_types.table().items()
    return bool(machine_type) and any(
        row.efa_interfaces
        for name, row in rows
        if name == machine_type or name.startswith(f"{machine_type}.")
    )


def profile(machine_type: str = "", *, efa: bool = False, mpi: bool = False) -> str:
    """Return the text of the file for nodes of a machine type.

    It exports what such jobs should set, but for variables that are set already, and names on standard error each
    variable in the environment that should not be set, with the reason. It works in any shell, with `set -eu` too.

    machine_type: "" where it is not known. efa: whether the nodes have EFA. mpi: whether MPI itself carries the data.
    """
    path = MPI_PATH if mpi else PATH
    kind = f" for {machine_type}" if machine_type else ""
    purpose = "programs whose data goes over MPI" if mpi else "training with NCCL or Gloo"
    lines = [
        f"# Written by trainwright.slurm (role slurmd){kind}: the environment of {purpose}.",
        f"# In a batch script, before srun:  . {path}",
        "# What is set already stays, and what should not be set is reported.",
    ]
    for one in environment.settings(machine_type, efa=efa, mpi=mpi):
        lines += [
            f"# {one.why}",
            f'export {one.name}="${{{one.name}-{one.value}}}"',
        ]
    return "\n".join([*lines, _report(path, mpi)]) + "\n"


def _report(path: str, mpi: bool) -> str:
    rows = [
        f'  row("{_text(row.pattern)}", "{_text(row.values)}", "{_text(row.why)}", "{_text(row.remedy)}")'
        for row in environment.UNWANTED
        if not (mpi and row.unless == "mpi")
    ]
    rows += [
        f'  row(".*", "(.*[:=,])?{place}([/:,].*)?", "{place}: {_text(row.why)}", "{_text(row.remedy)}")'
        for place, row in environment.PATHS
    ]
    return "\n".join(
        [
            "awk '",
            "function row(names, values, why, remedy,   name) {",
            "  for (name in ENVIRON)",
            '    if (name ~ ("^(" names ")$") && !(name in said) &&',
            '        (values == "" || tolower(ENVIRON[name]) ~ ("^(" values ")$"))) {',
            "      said[name] = 1",
            f'      print "{path}: " name ": " why " -> " remedy | "cat >&2"',
            "    }",
            "}",
            "BEGIN {",
            *rows,
            "}' </dev/null || :",
        ]
    )


def _text(text: str) -> str:
    """Return a text for a string of awk inside single quotes of a shell."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return plain.replace("'", "'\\''")
