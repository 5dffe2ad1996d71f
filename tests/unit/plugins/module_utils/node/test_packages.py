# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which packages count as installed, with lines that dpkg-query printed on Debian 13."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node.packages import Installed

OUTPUT = """installed\tlibpmix2t64\tamd64\t5.0.7-1\tlibpmix2 (= 5.0.7-1)
installed\tmunge\tamd64\t0.5.16-1.1~deb13u1\t
installed\tvim-tiny\tamd64\t2:9.1.1230-2\teditor
installed\tmariadb-server\tamd64\t1:11.8.3-0+deb13u1\tdefault-mysql-server, virtual-mysql-server
config-files\tslurmd\tamd64\t24.11.5-4\t
half-configured\tsackd\tamd64\t24.11.5-4\tslurm-client-daemon
"""


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        ("munge", True),
        ("munge:amd64", True),
        ("munge:arm64", False),
        ("munge=0.5.16-1.1~deb13u1", True),
        ("munge=0.5.16*", True),
        ("munge=0.5.15*", False),
        ("mung", False),
        ("mun*", True),
        ("nothing*", False),
        ("libpmix2", True),
        ("libpmix2=5.0.7-1", False),  # as apt-get: no package of this name has a version
        ("virtual-mysql-server", True),
        ("default-mysql-server", True),
        ("slurmd", False),
        ("sackd", False),
        ("slurm-client-daemon", False),
    ],
)
def test_what_is_there(wanted: str, there: bool) -> None:
    assert Installed(OUTPUT).has(wanted) is there


def test_the_missing_ones_in_the_order_given() -> None:
    assert Installed(OUTPUT).missing(["slurmd", "munge", "git"]) == ["slurmd", "git"]
    assert Installed("").missing(["munge"]) == ["munge"]
