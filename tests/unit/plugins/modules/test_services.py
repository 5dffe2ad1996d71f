# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module services returns and logs no stamp, which may be the digest of a file with a password."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.modules import services

STAMP = "5d" * 32


def test_a_stamp_is_neither_returned_nor_logged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logged: list[t.Any] = []
    monkeypatch.setattr(
        services.AnsibleModule, "_log_to_syslog", lambda _self, text: logged.append(text)
    )
    monkeypatch.setattr(services.Services, "load", lambda _self: None)
    monkeypatch.setattr(services.Services, "plan", lambda _self, _check: [])
    units = [{"name": "slurmdbd", "stamp": STAMP}]
    # Without journald, the same text goes to syslog.
    monkeypatch.setattr("ansible.module_utils.basic.has_journal", False)
    with (
        patch_module_args({"units": units, "_ansible_check_mode": True}),
        pytest.raises(SystemExit),
    ):
        services.main()
    answer = json.loads(capsys.readouterr().out)
    assert answer["changed"] is False
    assert answer["invocation"]["module_args"]["units"][0]["name"] == "slurmdbd"
    assert any("slurmdbd" in text for text in logged)
    assert STAMP not in json.dumps([answer, logged])
