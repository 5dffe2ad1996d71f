# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The batch scripts of tests/fixtures/jobs, and a cluster that they are written for."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint.rule import Cluster

JOBS = Path(__file__).resolve().parents[4] / "fixtures" / "jobs"
CLEAN = sorted(JOBS.glob("clean/*.sh"))
MISTAKES = sorted(JOBS.glob("mistakes/*.sh"))
ALL = [*CLEAN, *MISTAKES]

CLUSTER = Cluster(
    interfaces=frozenset(("lo", "ens5", "docker0")),
    partitions=frozenset(("gpu-queue", "compute-gpu", "c-nlp")),
    directory_exists=lambda path: path in ("/shared", "/shared/logs"),
    workdir="/shared/alice",
    release=(22, 5),
)


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"
