# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Addresses of a run that W&B and MLflow write into its log, shown as text. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import re
import typing as t

_MOST = 10
#: `wandb: View run NAME at: URL` (wandb), `View run NAME at: URL` (mlflow 2.11 and later).
_RUN = re.compile(
    r"View run\b.{0,200}?\bat:?\s+(https?://[A-Za-z0-9._~:/?#@!$&()*+,;=%\[\]-]{1,500})"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def found(lines: t.Iterable[str]) -> list[str]:
    """Return the addresses in a log, the first ones, each once. Passwords in them are left out."""
    seen: dict[str, None] = {}
    for line in lines:
        if "View run" not in line:
            continue
        match = _RUN.search(_COLOUR.sub("", line[:2000]))
        if match and len(seen) < _MOST:
            seen[re.sub(r"//[^/@]*@", "//", match[1])] = None
    return list(seen)
