# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The action that keeps a bundle in the cache of the control node."""

from __future__ import annotations

import errno
import os
import types
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.action.node_bundle import ActionModule


def test_a_full_cache_is_an_error_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int) -> t.NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    given = {"directory": str(tmp_path)}
    action: t.Any = object.__new__(ActionModule)
    action._task = types.SimpleNamespace(check_mode=False)
    monkeypatch.setattr(ActionBase, "run", lambda *_given: {})
    monkeypatch.setattr(action, "validate_argument_spec", lambda **_spec: (None, given))
    monkeypatch.setattr(action, "_entries", lambda *_given: [])
    assert Path(action.run()["path"]).exists()
    (made,) = tmp_path.iterdir()
    made.unlink()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AnsibleActionFail, match=rf"{made}: No space left on device -> make room"):
        action.run()
    assert not [*tmp_path.iterdir()]
