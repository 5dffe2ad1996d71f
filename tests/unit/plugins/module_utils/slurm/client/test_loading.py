# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A plugin that Slurm's commands cannot load and a silent slurmctld are faults; a refused job is an answer."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import loading

from tests.unit.images import open_directory

__all__ = ["open_directory"]  # a fixture
PLUGSTACK = """sbatch: error: spank: /etc/slurm/plugstack.conf:3: cannot find /opt/\x1b[31m.so
sbatch: error: Failed to initialize plugin stack
"""


@pytest.mark.parametrize(
    "said",
    [
        PLUGSTACK,
        "sbatch: error: Failed to intialize plugin stack\n",
        "sbatch: error: Plugin stack post-option processing failed\n",
        "sbatch: fatal: failed to initialize cli_filter plugin\n",
        "sbatch: fatal: failed to initialize auth plugin\n",
        "sbatch: error: cannot find auth plugin for auth/none\nsbatch: fatal: no\n",
    ],
)
def test_a_plugin_that_does_not_load_is_a_fault(said: str) -> None:
    assert loading.fault(1, said).plugins
    assert not any(loading.fault(0, said))


@pytest.mark.parametrize(
    "said",
    [
        "",
        "allocation failure: Invalid partition name specified\n",
        "allocation failure: Invalid account or account/partition combination specified\n",
        "sbatch: error: cli_filter plugin terminated with error\n",
        # An optional plugin of the stack: the command goes on.
        "sbatch: error: cannot find spank plugin\nallocation failure: Access denied\n",
    ],
)
def test_any_other_end_is_none(said: str) -> None:
    assert not any(loading.fault(1, said))


@pytest.mark.parametrize(
    "said",
    [
        "allocation failure: Unable to contact slurm controller (connect failure)\n",
        "allocation failure: Socket timed out on send/recv operation\n",
        "sbatch: error: Munge encode failed: x\nallocation failure: Protocol authentication error\n",
        "allocation failure: Zero Bytes were transmitted or received\n",
        "sbatch: fatal: Could not establish a configuration source\n",
        "sbatch: fatal: Unable to process configuration file\n",
    ],
)
def test_a_slurmctld_that_does_not_answer_is_a_fault(said: str) -> None:
    found = loading.fault(1, said)
    assert found.unanswered and not found.plugins


def test_the_words_are_one_short_printable_line() -> None:
    words = loading.fault(1, PLUGSTACK).plugins
    assert words.startswith("error: spank: /etc/slurm/plugstack.conf:3: cannot find /opt/\\x1b[31m")
    assert words.endswith("; error: Failed to initialize plugin stack")
    long = loading.fault(
        1, "Failed to initialize plugin stack " + "\n".join(map(str, range(999)))
    ).plugins
    assert len(long) == loading.LONGEST and "\n" not in long


def test_sbatch_is_tried_until_it_works(open_directory: pathlib.Path) -> None:
    program, marker = open_directory / "sbatch", open_directory / "seen"
    program.write_text(
        f"#!/bin/sh\n[ -e {marker} ] && exit 1\n: >{marker}\n"
        "echo 'Failed to initialize plugin stack' >&2; exit 1\n"
    )
    program.chmod(0o755)
    # As root, sbatch is run as nobody.
    open_directory.chmod(0o777)
    assert not any(loading.fault_here(str(open_directory)))
    assert marker.exists()
    program.write_text("#!/bin/sh\necho 'Failed to initialize plugin stack' >&2; exit 1\n")
    assert loading.fault_here(str(open_directory), patience=0).plugins != ""


@pytest.mark.parametrize(
    ("rc", "said", "words"),
    [
        (127, "sbatch: error while loading shared libraries: libmunge.so.2", "libmunge.so.2"),
        (126, "", "ended"),
        (-11, "", "ended by signal 11"),
    ],
)
def test_an_sbatch_that_does_not_run_is_a_fault(rc: int, said: str, words: str) -> None:
    assert words in loading.fault(rc, said).unanswered


def test_a_host_whose_sbatch_is_missing_or_hangs_has_no_answer(
    open_directory: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_directory.chmod(0o777)
    missing = loading.fault_here(str(open_directory), patience=0).unanswered
    assert missing == f"{open_directory}/sbatch: No such file or directory"
    program = open_directory / "sbatch"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(loading, "_LONGEST_ANSWER", 0.2)
    assert (
        "did not end in 0.2 seconds"
        in loading.fault_here(str(open_directory), patience=0).unanswered
    )
