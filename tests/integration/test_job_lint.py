# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""job-lint on a login node: it names a mistake by its line, and what it makes of the script is a job that runs."""

from __future__ import annotations

import pytest

from .conftest import Converged

# Each task prints that it is rank 0, since the batch step's own is put into its environment.
SCRIPT = """#!/bin/bash
#SBATCH --job-name=ranks
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --mem=100M
#SBATCH --time=5
#SBATCH --output=ranks-%j.out
export RANK=$SLURM_PROCID
srun sh -c 'echo task $SLURM_PROCID, rank ${RANK:-none}'
"""


@pytest.mark.systems("debian13")
def test_it_names_the_mistake_and_its_script_runs_without_it(quiet_site: Converged) -> None:
    site = quiet_site
    site.as_user("alice", f"cat >ranks.sbatch <<'EOF'\n{SCRIPT}EOF")
    said = site.as_user("alice", "job-lint ranks.sbatch; echo exit $?")
    assert "ranks.sbatch: line 8: error: RANK=$SLURM_PROCID: " in said
    assert said.endswith("exit 1")
    assert "partition nowhere" in site.as_user(
        "alice", "sed '2a #SBATCH --partition=nowhere' ranks.sbatch | job-lint - || true"
    )

    site.as_user("alice", "job-lint --render ranks.sbatch >fixed.sbatch; job-lint fixed.sbatch")
    wrong, fixed = (
        site.as_user("alice", f"sbatch --parsable {name}.sbatch") for name in ("ranks", "fixed")
    )
    for job in (wrong, fixed):
        site.wait_job(job)
    assert "task 1, rank 0" in site.as_user("alice", f"cat ranks-{wrong}.out")
    out = site.as_user("alice", f"cat ranks-{fixed}.out; rm ranks-* ranks.sbatch fixed.sbatch")
    assert "task 0, rank none" in out and "task 1, rank none" in out
