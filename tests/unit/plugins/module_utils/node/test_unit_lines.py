# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lines that systemd ignores, with a systemd-analyze that says what the real one of systemd 257 said."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import unit_lines
from ansible_collections.trainwright.slurm.plugins.module_utils.node.services import ServicesError


def test_a_value_that_systemd_does_not_take_is_refused_before_the_unit_is_started(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "slurmd.service.d/trainwright.conf"
    own.parent.mkdir()
    own.write_text("")
    unknown = f"{own}:3: Unknown key 'Memory' in section [Service], ignoring."
    section = f"{own}:5: Unknown section 'Foo'. Ignoring."
    wrong = f"{own}:2: Failed to parse LimitCORE=infinite, ignoring: Invalid argument"
    other = "/usr/lib/systemd/system/x.service:1: Failed to parse A=b, ignoring: Invalid argument"
    program = tmp_path / "bin/systemd-analyze"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    def checked(*lines: str, name: str = "slurmd") -> list[str]:
        program.write_text("#!/bin/sh\ncat >&2 <<'END'\n" + "\n".join(lines) + "\nEND\n")
        program.chmod(0o755)
        return unit_lines.check([f"{name}.service"], str(tmp_path))

    assert checked(other) == []
    assert checked(unknown, section, other) == [unknown, section]
    assert checked(wrong, name="munge") == []
    with pytest.raises(ServicesError, match=r"nothing was started; .*LimitCORE=infinite"):
        checked(unknown, wrong)


def test_a_host_without_systemd_analyze_is_not_stopped(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slurmd.service.d").mkdir()
    (tmp_path / "slurmd.service.d/trainwright.conf").write_text("")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert unit_lines.check(["slurmd.service"], str(tmp_path)) == []
