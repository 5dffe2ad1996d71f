# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a node waits for a reboot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import fact_schema
from ansible_collections.trainwright.slurm.plugins.module_utils.node.reboots import reboot_reasons


def test_a_host_that_waits_for_nothing(tmp_path: Path) -> None:
    assert reboot_reasons(str(tmp_path)) == []


def test_the_reasons_of_roles_and_of_the_system(tmp_path: Path) -> None:
    ours = tmp_path / "run" / "trainwright" / "reboot-required"
    ours.mkdir(parents=True)
    (ours / "lustre_client").write_text("\ncredits of ksocklnd\nmore\n")
    (ours / "empty").write_text("")
    (ours / "My-Driver.new").write_text("x")
    (ours / "535\n").write_text("y")
    (ours / ".hidden").write_text("being written")
    (tmp_path / "run" / "reboot-required").write_text("*** System restart required ***\n")
    (tmp_path / "run" / "reboot-required.pkgs").write_text(
        "linux-base\nlinux-image-6.12\nlinux-base\n"
    )
    found = reboot_reasons(str(tmp_path))
    assert fact_schema.FACTS["reboot"](found, "reboot") == ""
    assert found == [
        {"part": "part_535_", "reason": "y"},
        {"part": "my_driver_new", "reason": "x"},
        {"part": "empty", "reason": "no reason given"},
        {"part": "lustre_client", "reason": "credits of ksocklnd"},
        {"part": "system", "reason": "upgrade of linux-base, linux-image-6.12"},
    ]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A pipe without a writer would hang every run, and a link could show a secret in sinfo."""
    ours = tmp_path / "run" / "trainwright" / "reboot-required"
    ours.mkdir(parents=True)
    (tmp_path / "secret").write_text("root:$y$j9T$")
    (ours / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(ours / "pipe")
    (ours / "directory").mkdir()
    (ours / "driver").write_text("x" * 10_000_000)
    assert reboot_reasons(str(tmp_path)) == [{"part": "driver", "reason": "x" * 120}]


@pytest.mark.parametrize("text", ['a "b"', "x\x1b[31my", "ü" * 300, "a=b|c\\d'"])
def test_every_reason_is_one_that_the_control_node_takes(tmp_path: Path, text: str) -> None:
    ours = tmp_path / "run" / "trainwright" / "reboot-required"
    ours.mkdir(parents=True)
    (ours / "driver").write_text(text)
    found = reboot_reasons(str(tmp_path))
    assert len(found) == 1 and fact_schema.FACTS["reboot"](found, "reboot") == ""
