# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settles Hypothesis and the memory of the process, and gives the tests an account.

`make test` draws the same examples each time, so that a change fails for what it changed;
`make soak` draws new ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd

import hypothesis
import pytest

hypothesis.settings.register_profile("test", derandomize=True, deadline=None)
hypothesis.settings.register_profile("soak", deadline=None)
hypothesis.settings.load_profile("soak" if os.environ.get("TRAINWRIGHT_SOAK") else "test")

# A fork copies the tables of all pages. glibc keeps the memory of large buffers for later ones, a gigabyte in the end;
# that of this size and more goes back to the system at once.
_M_MMAP_THRESHOLD = -3
with contextlib.suppress(AttributeError):  # another C library
    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 << 10)


@pytest.fixture
def alice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give alice, the owner of the jobs in memory, the account that runs the tests."""
    known = pwd.getpwnam

    def getpwnam(name: str) -> pwd.struct_passwd:
        return pwd.getpwuid(os.getuid()) if name == "alice" else known(name)

    monkeypatch.setattr(pwd, "getpwnam", getpwnam)
