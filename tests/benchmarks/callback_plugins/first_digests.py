# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ends a run where site.yml has found what is wanted on each host, and keeps that as if it had been done there."""

from __future__ import annotations

DOCUMENTATION = r"""
name: first_digests
type: aggregate
short_description: Keep what is wanted on each host of a simulated fleet, and end the run
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - Ends Ansible with the exit code 0 as soon as it has the digests, since a first run of a thousand hosts takes long.
  - It keeps the record that the run would have left on the controller, too.
options:
  directory:
    description: Directory of the digests, a file for each host.
    type: path
    required: true
    env:
      - name: FLEET_WANTED
  record:
    description: File of the record.
    type: path
    required: true
    env:
      - name: FLEET_RECORD
"""

import json
import os
import typing as t
from pathlib import Path

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Waits for two tasks."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "first_digests"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result: t.Any) -> None:
        if result.task.action == "trainwright.slurm.cluster_model":
            record = json.dumps(result.result["record"])
            Path(self.get_option("record")).write_text(record, encoding="utf-8")
        if result.task.action == "trainwright.slurm.hosts_left":
            for host, digest in result.result["digests"].items():
                Path(self.get_option("directory"), host).write_text(digest, encoding="ascii")
            os._exit(0)
