# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""drift.yml compares the nodes of its run, also with --limit, and never passes over one that did not answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def play(place: Path, *options: str, foreign: bool = False) -> subprocess.CompletedProcess[str]:
    """Run drift.yml from a directory that is not the clone, on two hosts that answer and one that does not.

    foreign: whether somebody else manages their Slurm.
    """
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    # Nothing listens there.
    away = {"ansible_host": "127.0.0.9", "ansible_port": 1, "ansible_ssh_retries": 0}
    hosts = {"n1": here, "n2": here, "n3": away}
    above = "slurm_foreign" if foreign else "slurm_cluster"
    tree = {"all": {"children": {above: {"children": {"slurm_compute": {"hosts": hosts}}}}}}
    unknown = () if foreign else ("-e", "drift_allow_unknown=true")
    inventory = place / "hosts.yml"
    inventory.write_text(yaml.safe_dump(tree), encoding="utf-8")
    config = {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "PWD": str(place),
    }
    return subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            *("-i", str(inventory), *options),
            *("-e", "ansible_become=false", *unknown),
            str(ROOT / "playbooks" / "drift.yml"),
        ],
        cwd=place,
        env={**os.environ, **config},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_nodes_whose_slurm_somebody_else_manages_are_compared(tmp_path: Path) -> None:
    """The run matched no host, and ended well."""
    done = play(tmp_path, "--limit", "n1,n2", foreign=True)
    assert done.returncode == 0 and "2 nodes have the same scripts" in done.stdout, done.stdout
    assert play(tmp_path, foreign=True).returncode == 2
    done = play(tmp_path, "--limit", "n9", foreign=True)
    assert done.returncode and "no hosts matched" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("limit", "code", "said"),
    [
        ("n1,n2", 0, "2 nodes have the same scripts"),
        ("all", 2, "n3: did not answer, so its hooks are unknown -> start it"),
    ],
)
def test_it_compares_what_it_was_limited_to(
    limit: str, code: int, said: str, tmp_path: Path
) -> None:
    done = play(tmp_path, "--limit", limit)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr


def test_a_report_is_written_below_the_directory_of_the_caller(tmp_path: Path) -> None:
    """It was written beside the playbook, which may be in an installed collection."""
    done = play(tmp_path, "--limit", "n1,n2", "-e", "drift_report=reports/drift")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "reports" / "drift" / "drift.json").is_file()


def test_a_report_that_cannot_be_written_does_not_keep_the_differences_back(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    done = play(tmp_path, "--limit", "n1,n2", "-e", "drift_report=taken")
    assert done.returncode == 2
    assert "the report cannot be written" in done.stdout + done.stderr
    assert "hosts: " in done.stdout
