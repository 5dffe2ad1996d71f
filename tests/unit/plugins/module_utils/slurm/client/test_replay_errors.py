# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Errors of real releases, as both transports raise them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import cli, rest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError

RECORDED = Path(__file__).resolve().parents[5] / "fixtures" / "slurm"
NOTHING = "nothing"  # no error
#: Case -> the kinds that it may be. Releases differ in a few.
COMMANDS: dict[str, set[str]] = {
    "job_unknown": {"unknown"},
    "update_node_unknown": {"unknown"},
    "update_node_denied": {"denied"},
    "reboot_denied": {"denied"},
    "update_partition_unknown": {"unknown"},
    "update_partition_denied": {"denied"},
    "delete_partition_used": {"invalid"},
    "create_reservation_exists": {"exists"},
    "create_reservation_no_users": {"invalid"},
    "create_reservation_account": {"unknown"},
    "create_reservation_denied": {"denied"},
    "cancel_denied": {"denied"},
    "submit_account": {"unknown"},
    "submit_partition": {"unknown"},
    "submit_qos": {"unknown"},
    "modify_account_denied": {"denied"},
    "no_configuration": {"missing"},
    "no_accounting_accounts": {"off"},
    "no_accounting_ended": {"off"},
    "no_accounting_events": {"off"},
    "no_slurmdbd_accounts": {"database"},
    "no_slurmdbd_ended": {"database"},
    "no_slurmctld_nodes": {"down"},
    "no_slurmctld_jobs": {"down"},
    "no_slurmctld_partitions": {"down"},
    "no_slurmctld_reservations": {"down"},
    "no_slurmctld_configuration": {"down"},
    "no_slurmctld_update_node": {"down"},
    "no_slurmctld_create_reservation": {"down"},
    "no_slurmctld_submit": {"down"},
    "no_munge_nodes": {"denied"},
}
REQUESTS: dict[str, set[str]] = {
    "no_token": {"denied"},
    "wrong_token": {"denied", "database"},  # 23.11 asks slurmdbd first, and says no more
    "unknown_path": {"impossible"},
    "unknown_method": {"impossible"},
    "job_unknown": {"unknown"},
    "update_node_unknown": {"unknown"},
    "update_node_denied": {"denied"},
    "create_reservation_denied": {"denied"},
    "create_partition_nodes": {"unknown", "impossible"},  # before 26.05 there is no such path
    "delete_partition_unknown": {"unknown", "impossible"},
    "delete_partition_used": {"invalid", "impossible"},
    "submit_account": {"unknown"},
    "submit_partition": {"unknown"},
    "cancel_unknown": {"unknown"},
    "cancel_denied": {"denied"},
    "user_unknown": {NOTHING},
    "ended_unknown": {NOTHING},
    "delete_user_unknown": {NOTHING},
    "delete_account_unknown": {NOTHING},
    "delete_user_running": {"invalid"},
    "delete_qos_denied": {"denied"},
    "no_slurmdbd_accounts": {"database"},
    "no_slurmctld_nodes": {"down"},
    "no_slurmctld_job": {"down"},
    "no_slurmctld_cancel": {"down"},
}


def cases(pattern: str, table: dict[str, set[str]]) -> list[Any]:
    found = []
    for path in sorted(RECORDED.glob(pattern)):
        name = "-".join(path.relative_to(RECORDED).parts[:-1])
        recorded = json.loads(path.read_text(encoding="utf-8"))
        for case, kinds in table.items():
            # v0.0.41 answers 200 and says nothing of jobs that it did not cancel.
            silent = case.startswith("cancel_") and "v0.0.41" in name
            if case in recorded and not silent:
                found.append(pytest.param(recorded[case], kinds, id=f"{name}-{case}"))
    assert found, pattern
    return found


def kind_of(call: Any) -> str:
    try:
        call()
    except SlurmError as error:
        assert " -> " in str(error) and "\n" not in str(error)
        return error.kind
    return NOTHING


@pytest.mark.parametrize(("said", "kinds"), cases("*/cli/errors.json", COMMANDS))
def test_commands(said: dict[str, Any], kinds: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess([], said["rc"], said["stdout"], said["stderr"])
    one = cli.Cli()
    monkeypatch.setattr(one, "_run", lambda *_given: done)
    assert kind_of(lambda: one.command(*said["argv"])) in kinds


@pytest.mark.parametrize(("said", "kinds"), cases("*/rest/*/errors.json", REQUESTS))
def test_requests(said: dict[str, Any], kinds: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    one = rest.Rest("http://ctl1:6820", "a.b.c")
    monkeypatch.setattr(one, "_exchange", lambda *_given: (said["status"], said["response"] or ""))
    if said["path"].startswith("/slurm/") and "Unspecified error" in str(said["response"]):
        # It then asks slurmdbd, which is not in this recording.
        monkeypatch.setattr(one, "_unspecified", lambda what: SlurmError("down", "x -> y"))
        kinds = kinds | {"down"}
    assert kind_of(lambda: one.request(said["method"], said["path"])) in kinds
