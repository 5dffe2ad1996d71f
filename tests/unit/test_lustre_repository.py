# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The repository of Lustre's client, as the roles would write it: from the table of FSx, or from a mirror."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from tests.unit.cluster import ROOT

BY_HAND = "/etc/apt/sources.list.d/fsxlustreclientrepo.list"
# Role slurm_packages decides, and role lustre_client writes.
PLAYBOOK = """
- hosts: localhost
  connection: local
  gather_facts: false
  vars_files: [{root}/roles/slurm_packages/vars/main/{vars}]
  tasks:
    - ansible.builtin.include_role: {{name: trainwright.slurm.lustre_client, tasks_from: repository}}
      when: __slurm_packages_adds_lustre
"""


def would_write(path: Path, system: dict[str, str], **given: t.Any) -> str:
    """Return the diff of a run in check mode, which fetches nothing."""
    (vars_file,) = [
        one.name
        for one in (ROOT / "roles/slurm_packages/vars/main").glob("*.yml")
        if "__slurm_packages_adds_lustre:" in one.read_text(encoding="utf-8")
    ]
    playbook = path / "play.yml"
    playbook.write_text(PLAYBOOK.format(root=ROOT, vars=vars_file))
    files = {BY_HAND: given.pop("by_hand", False)}
    mounts = [{"path": "/fsx", "fstype": given.pop("fstype", "lustre")}]
    variables = {
        "slurm_facts": {"node": {"os": system, "files": files}},
        "slurm_model": {"mounts": mounts},
        **given,
    }
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            "-i",
            "localhost,",
            "--check",
            "--diff",
            str(playbook),
            "-e",
            json.dumps({**variables, "ansible_python_interpreter": sys.executable}),
        ],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


UBUNTU = {"id": "ubuntu", "like": "debian", "version": "24.04", "codename": "noble"}
DEBIAN = {"id": "debian", "like": "debian", "version": "13", "codename": "trixie"}


def test_it_is_that_of_fsx_for_the_system(tmp_path: Path) -> None:
    output = would_write(tmp_path, UBUNTU, lustre_client_repository="fsx")
    for line in (
        "URIs: https://fsx-lustre-client-repo.s3.amazonaws.com/ubuntu",
        "Suites: noble",
        "Components: main",
        "Signed-By: /etc/apt/keyrings/trainwright-lustre-client.gpg",
    ):
        assert f"+{line}\n" in output, output
    # The hold of the kernel has a file of this name, which stays.
    assert "/etc/apt/preferences.d/trainwright-lustre " not in output


def test_a_site_replaces_parts_of_it(tmp_path: Path) -> None:
    parts = {"url": "https://mirror.example.org/fsx", "components": ["main", "aws"]}
    output = would_write(
        tmp_path, UBUNTU, lustre_client_repository="fsx", lustre_client_repository_parts=parts
    )
    assert "+URIs: https://mirror.example.org/fsx\n" in output
    assert "+Components: main aws\n" in output and "+Suites: noble\n" in output


@pytest.mark.parametrize(
    ("system", "given"),
    [
        (UBUNTU, {}),
        (UBUNTU, {"lustre_client_repository": "fsx", "fstype": "nfs4"}),
        (UBUNTU, {"lustre_client_repository": "fsx", "by_hand": True}),
        (DEBIAN, {"lustre_client_repository": "fsx"}),
    ],
)
def test_it_is_added_nowhere_else(
    tmp_path: Path, system: dict[str, str], given: dict[str, t.Any]
) -> None:
    output = would_write(tmp_path, system, **given)
    assert "URIs:" not in output and "changed=0" in output
