# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what all modules that talk to Slurm share."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import arguments


def test_the_token_is_no_log_and_taken_from_the_environment() -> None:
    spec = arguments(own={"type": "str"})
    assert spec["rest_token"]["no_log"] is True
    assert spec["rest_token"]["fallback"][1] == ["SLURM_JWT"]
    assert spec["own"] == {"type": "str"}
