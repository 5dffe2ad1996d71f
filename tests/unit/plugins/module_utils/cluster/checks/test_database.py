# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""External databases that are refused."""

from __future__ import annotations

from .cases import Case, assert_refused, changed, each, setting

CASES: list[Case] = [
    ("external database", setting("mariadb_external", {"host": "db"}), "cluster", "mariadb_external.password",
     "is empty", "write host"),
    ("external database without slurmdbd", [changed("groups/slurm_database", []),
                                            ("mariadb_external", {"host": "db", "password": "x"})],
     "inventory", "group slurm_database", "is empty", "runs slurmdbd"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)
