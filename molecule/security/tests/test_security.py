# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every host: secrets are closed to users, and nothing of the collection's is open to changes.

The attacks are in tests/integration/test_security_*.py.
"""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ansible://slurm_cluster"]

SECRETS = (
    *("/etc/munge/munge.key", "/etc/slurm/slurm.key", "/etc/slurm/jwt_hs256.key"),
    *("/etc/slurm/slurmdbd.conf", "/var/lib/trainwright/secrets/ssh_ca", "/etc/shadow"),
)


def as_user(host: Host, command: str) -> bool:
    """Whether a command succeeds with the rights of an ordinary user; no login, which the host may refuse."""
    return host.run("setpriv --reuid alice --regid alice --init-groups sh -c %s", command).succeeded


def ours(host: Host, test: str) -> str:
    """The collection's own files and Slurm's that pass a test of find."""
    names = "'(' -path '*trainwright*' -o -path '*slurm*' -o -path '/usr/local/*' ')'"
    return host.check_output(f"find /etc /usr/lib /usr/local /var/lib/trainwright {names} {test}")


def test_user_reads_no_secret(host: Host) -> None:
    present = [path for path in SECRETS if host.file(path).exists]
    assert len(present) > 1 and as_user(host, "cat /etc/passwd")
    for path in present:
        assert not as_user(host, f"cat {path}"), path


def test_nobody_else_changes_what_is_ours(host: Host) -> None:
    assert ours(host, "! -type l -perm /0022") == ""
    assert "/etc/slurm" in ours(host, "-type d")


def test_nothing_of_ours_is_set_uid(host: Host) -> None:
    assert ours(host, "-type f -perm /6000") == ""
