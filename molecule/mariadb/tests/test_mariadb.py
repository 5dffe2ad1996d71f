# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A MariaDB server with Slurm's database, tuned by the variables."""

from __future__ import annotations

from testinfra.host import Host


def query(host: Host, statement: str) -> str:
    return host.check_output("mariadb --batch --skip-column-names --execute=%s", statement)


def test_service_runs_now_and_after_a_boot(host: Host) -> None:
    service = host.service("mariadb")
    assert service.is_running and service.is_enabled


def test_database_and_its_user_exist(host: Host) -> None:
    assert "slurm_acct_db" in query(host, "SHOW DATABASES").split()
    assert "ON `slurm_acct_db`.* TO `slurm`" in query(host, "SHOW GRANTS FOR slurm@localhost")
    login = "mariadb --user=slurm --password=of-a-container-for-tests slurm_acct_db"
    assert host.run(f"{login} --execute='SELECT 1'").succeeded


def test_settings_are_in_effect(host: Host) -> None:
    assert query(host, "SELECT @@innodb_buffer_pool_size") == str(128 * 1024**2)
    assert query(host, "SELECT @@innodb_lock_wait_timeout") == "901"
