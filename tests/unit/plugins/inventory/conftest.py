# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The server that replaces AWS, and an environment that only reaches it."""

from __future__ import annotations

import types
from collections.abc import Iterator

import botocore.loaders
import pytest

from tests.fixtures.aws.server import Aws
from tests.unit.plugins.inventory.run import environment

_LOADER = botocore.loaders.Loader()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """The server; all clients of this process share what they read of the service models, which takes a second."""
    monkeypatch.setattr(botocore.loaders, "create_loader", lambda _path=None: _LOADER)
    with Aws() as server, environment(**server.environment):
        yield server


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that botocore would have waited before it tried again."""
    waited: list[float] = []
    monkeypatch.setattr("botocore.endpoint.time", types.SimpleNamespace(sleep=waited.append))
    return waited
