# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The directories in which a daemon of Slurm writes, by its configuration."""

from __future__ import annotations

DOCUMENTATION = r"""
name: written_directories
short_description: List the directories in which slurmctld or slurmdbd writes
version_added: "1.0.0"
author: The trainwright team (@trainwright)
description:
  - Returns values for C(ReadWritePaths) of the daemon's unit, of the directories that C(ProtectSystem=full) and
    C(ProtectHome=read-only) would make read-only.
  - Each starts with C(-), so a directory that does not exist does not keep the unit from starting.
options:
  _input:
    description: Settings of slurm.conf or slurmdbd.conf as the filter C(conf_pairs) returns them.
    type: list
    elements: list
    required: true
"""

EXAMPLES = r"""
- name: Show the directories
  ansible.builtin.debug:
    msg: >-
      {{ [['SlurmctldLogFile', '/var/log/slurm/slurmctld.log'], ['StateSaveLocation', '/home/slurm/state']]
         | trainwright.slurm.written_directories }}
  # ['-/home/slurm/state']
"""

RETURN = r"""
_value:
  description: The directories, each once.
  type: list
  elements: str
"""

import posixpath
import re
import typing as t
from collections.abc import Sequence

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf.pairs import unquoted

_DIRECTORIES = ("statesavelocation", "archivedir")
_FILES = (
    "slurmctldlogfile",
    "slurmctldpidfile",
    "slurmschedlogfile",
    # slurmdbd's
    "logfile",
    "pidfile",
)
_READ_ONLY = re.compile(r"/(usr|boot|efi|etc|home|root|run/user)(/|$)")


def _as_systemd_reads(path: str) -> str:
    text = "-" + path.replace("%", "%%")
    return f'"{text}"' if re.search(r"\s", text) else text


def written_directories(pairs: Sequence[Sequence[str]]) -> list[str]:
    """Return the values of ReadWritePaths for the settings of a daemon."""
    values = {key.lower(): unquoted(str(value)) for key, value in pairs}
    files = list(_FILES)
    # Of another plugin it is a URL, the name of a database, or a program.
    if values.get("jobcomptype", "").lower() in ("jobcomp/filetxt", "filetxt"):
        files.append("jobcomploc")
    paths = [values.get(key, "") for key in _DIRECTORIES]
    paths += [posixpath.dirname(values.get(key, "")) for key in files]
    paths = [posixpath.normpath(path) for path in paths if path.startswith("/")]
    return [_as_systemd_reads(path) for path in dict.fromkeys(paths) if _READ_ONLY.match(path)]


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"written_directories": written_directories}
