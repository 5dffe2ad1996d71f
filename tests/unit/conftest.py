# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settles Hypothesis, and gives the tests an account.

`make test` draws the same examples each time, so that a change fails for what it changed;
`make soak` draws new ones.
"""

from __future__ import annotations

import os
import pwd

import hypothesis
import pytest

hypothesis.settings.register_profile("test", derandomize=True, deadline=None)
hypothesis.settings.register_profile("soak", deadline=None)
hypothesis.settings.load_profile("soak" if os.environ.get("TRAINWRIGHT_SOAK") else "test")


@pytest.fixture
def alice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give alice, the owner of the jobs in memory, the account that runs the tests."""
    known = pwd.getpwnam

    def getpwnam(name: str) -> pwd.struct_passwd:
        return pwd.getpwuid(os.getuid()) if name == "alice" else known(name)

    monkeypatch.setattr(pwd, "getpwnam", getpwnam)
