# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of shared_mounts where a server is away; what it plans and mounts is tested with its parts."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.module_utils.node import mounting
from ansible_collections.trainwright.slurm.plugins.modules import shared_mounts


@pytest.mark.parametrize("check", [True, False])
def test_a_mount_that_hangs_is_named_before_a_path_in_it_is_touched(
    check: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan looks where the source of a bind leads to, which hangs on a dead server."""
    mounts = [
        {"path": "/fsx", "source": "nas:/fsx", "fstype": "nfs4", "options": "defaults"},
        {"path": "/apps", "source": "/fsx/apps", "fstype": "none", "options": "bind"},
    ]

    def dead(paths: t.Sequence[str], deadline: float) -> None:
        raise mounting.MountingError(f"mounted, but not usable: {paths} within {deadline}")

    def planned(*_given: t.Any) -> t.NoReturn:
        pytest.fail("a path in a mount that hangs was touched")

    monkeypatch.setattr(mounting, "may_hang", lambda _mounts: ["/fsx"])
    monkeypatch.setattr(mounting, "ask", dead)
    monkeypatch.setattr(mounting, "plan", planned)
    with (
        patch_module_args({"mounts": mounts, "deadline": 7, "_ansible_check_mode": check}),
        pytest.raises(SystemExit),
    ):
        shared_mounts.main()
    answer = json.loads(capsys.readouterr().out)
    assert answer["failed"] and "not usable: ['/fsx'] within 7" in answer["msg"]
