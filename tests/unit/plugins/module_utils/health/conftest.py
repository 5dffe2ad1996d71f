# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The pauses between probes are short here."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.health import fabric


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric, "_PAUSE", 0.01)
