# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of Slurm's messages, in the words of Slurm 22.05 to 26.05, as kinds of errors with a remedy."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import messages
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "kind", "remedy"),
    [
        (
            "slurm_load_node error: Unable to contact slurm controller (connect failure)",
            "down",
            "scontrol ping",
        ),
        ("slurm_update error: Socket timed out on send/recv operation", "down", "slurmctld"),
        ("Slurm backup controller in standby mode", "down", "slurmctld"),
        ("Rate limit exceeded, please retry momentarily", "down", "slurmctld"),
        (
            "slurm_load_ctl_conf error: Zero Bytes were transmitted or received",
            "down",
            "the key or the clock of this host",
        ),
        ("slurm_update error: Access/permission denied", "denied", "AdminLevel operator"),
        ("slurm_update error: Invalid user id", "denied", "become"),
        ("Protocol authentication error", "denied", "munge"),
        ("Authentication credential expired", "denied", "scontrol token"),
        ("slurm_update error: Invalid node name specified", "unknown", "sinfo -N"),
        ("slurm_update error: Invalid partition name specified", "unknown", "sinfo -s"),
        ("slurm_load_jobs error: Invalid job id specified", "unknown", "squeue"),
        (
            "Invalid account or account/partition combination specified",
            "unknown",
            "sacctmgr show account",
        ),
        ("Invalid qos specification", "unknown", "sacctmgr show qos"),
        ("Error creating the reservation: Duplicate reservation name", "exists", "another name"),
        ("Error creating the reservation: Requested nodes are busy", "invalid", "IGNORE_JOBS"),
        ("delete_partition course: Partition is in use", "invalid", "squeue"),
        ("Requested operation not supported on this system", "impossible", "configuration"),
        (
            "You are not running a supported accounting_storage plugin\n"
            "Only 'accounting_storage/slurmdbd' is supported.",
            "off",
            "AccountingStorageType",
        ),
        ("Slurm accounting storage is disabled", "off", "AccountingStorageType"),
        (
            "scontrol: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
            "scontrol: fatal: Could not establish a configuration source",
            "missing",
            "slurm_conf",
        ),
        (" Unknown option: foo=1\n Use keyword 'where' to modify condition", "invalid", "man"),
        ("Something that nobody has seen", "invalid", "correct what it names"),
    ],
)
def test_kinds_and_remedies(text: str, kind: str, remedy: str) -> None:
    error = messages.classify(text, "scontrol update NodeName=c1", who="alice")
    assert error.kind == kind
    what, _arrow, cure = str(error).partition(" -> ")
    assert what.startswith("scontrol update NodeName=c1") and remedy in cure
    assert "\n" not in str(error)


def test_who_asked_is_said_only_where_it_matters() -> None:
    denied = messages.classify("Access/permission denied", "scontrol update", who="alice")
    assert str(denied).startswith(
        "scontrol update (as alice): Access/permission denied -> only root"
    )
    assert "alice" not in str(messages.classify("Invalid node name", "scontrol", who="alice"))


@pytest.mark.parametrize(("database", "kind"), [(True, "database"), (False, "down")])
def test_a_refused_connection_is_that_of_whoever_was_asked(database: bool, kind: str) -> None:
    error = messages.classify("x: Connection refused", "sacctmgr show user", database=database)
    assert error.kind == kind and error.passing


def test_the_persistent_connection_is_always_the_databases() -> None:
    text = (
        "sacctmgr: error: slurm_persist_conn_open_without_init: failed to open persistent connection "
        "to host:localhost:6819: Connection refused\nsacctmgr: error: Sending PersistInit msg: "
        "Connection refused\n Problem with query."
    )
    assert messages.classify(text, "sacct").kind == "database"


def test_the_programs_own_name_is_left_out() -> None:
    assert messages.said("sbatch: error: Batch job submission failed: x\n") == (
        "Batch job submission failed: x"
    )
    assert messages.said("slurm_load_jobs error: Invalid job id") == "Invalid job id"
    assert messages.said(" \n") == "nothing"
    twice = "Error updating the reservation: It is busy\nslurm_update error: It is busy\n"
    assert messages.said(twice) == "Error updating the reservation: It is busy"


@given(st.text())
def test_every_text_gives_one_line_with_a_remedy(text: str) -> None:
    error = messages.classify(text, "scontrol")
    assert "\n" not in str(error) and " -> " in str(error)
    assert len(messages.said(text)) <= 400


@pytest.mark.parametrize(
    "text", ["Invalid job id specified", "Job/step already completing or completed"]
)
def test_what_shows_that_a_job_has_ended(text: str) -> None:
    assert messages.has_ended(f"scancel: error: Kill job error on job id 7: {text}")
    assert not messages.has_ended("Access/permission denied")
