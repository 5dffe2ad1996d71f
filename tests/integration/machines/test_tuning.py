# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""node_tuning on a real kernel with a real tuned. test_reboot.py has that it survives a reboot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..site import tail
from .conftest import Node, play

MAPS, OURS, KERNELS = "vm.max_map_count", "1048576", "65530"
FOREIGN = "/etc/sysctl.d/99-site.conf"


def value(node: Node, key: str) -> str:
    return " ".join(node.run(f"sysctl -n {key}").stdout.split())


def tune(node: Node, *arguments: str) -> str:
    done = play("site.yml", "--tags", "node_tuning", "--limit", node.machine.name, *arguments)
    assert done.returncode == 0, tail(done.stdout, 60)
    return " ".join(done.stdout.split())


@pytest.fixture
def tuned(converged: Node) -> Iterator[Node]:
    """The machine as site.yml tuned it, before and after the test."""
    yield converged
    converged.run(f"rm -f {FOREIGN}; sysctl -qw {MAPS}={OURS}")


def test_a_machine_is_tuned_and_agrees_with_tuned(tuned: Node) -> None:
    assert value(tuned, MAPS) == OURS
    assert value(tuned, "vm.dirty_ratio") == "20"
    assert "trainwright-gpu" in tuned.run("tuned-adm active").stdout
    assert tuned.run("systemctl is-enabled tuned").stdout.strip() == "enabled"
    assert "succeeded" in tuned.run("tuned-adm verify").stdout


@pytest.mark.soak("two more runs of site.yml")
def test_none_undoes_it_and_a_file_of_the_site_wins_afterwards(tuned: Node) -> None:
    jobs = tuned.run("systemctl show --property=InvocationID slurmd").stdout
    tune(tuned, "-e", "node_tuning_profile=none")
    assert value(tuned, MAPS) == KERNELS and value(tuned, "vm.swappiness") == "60"
    left = tuned.run("ls -d /etc/tuned/profiles/* /etc/sysctl.d/91* 2>/dev/null", check=False)
    assert not left.stdout
    assert tuned.run("systemctl is-active tuned", check=False).stdout.strip() == "inactive"

    tuned.run(f"echo '{MAPS} = 262144' >{FOREIGN}; sysctl -qw {MAPS}=262144")
    said = tune(tuned)
    assert f"{MAPS} is 262144, not {OURS}: {FOREIGN} sets it after ours" in said, said
    assert value(tuned, MAPS) == "262144" and value(tuned, "vm.swappiness") == "10"
    assert tuned.run("systemctl show --property=InvocationID slurmd").stdout == jobs
