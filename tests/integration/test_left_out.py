# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""site.yml leaves out hosts that are as they were left, and no others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from .conftest import Converged
from .site import Run, tail

pytestmark = pytest.mark.systems("debian12")
#: A host on which nothing is done: its facts, and the look.
MOST = 5
LEAVE_OUT = ("-e", "site_full=false")


def walked(run: Run) -> set[str]:
    """Return the nodes on which a run has walked over the roles."""
    assert run.rc == 0, tail(run.output, 60)
    # The first login host makes what is on shared storage, and always takes part.
    assert run.executions("login1") > MOST
    return {host for host in ("c1", "c2") if run.executions(host) > MOST}


@pytest.fixture
def weighed(quiet_site: Converged) -> Iterator[Converged]:
    """A site with a variable of c1 alone, which goes away afterwards."""
    site = quiet_site
    file = site.cluster.inventory / "host_vars" / "c1.yml"
    assert not file.exists()
    site.play("site.yml", *LEAVE_OUT)  # what earlier tests have changed by hand is put right
    yield site
    file.unlink(missing_ok=True)
    site.play("site.yml", rc=None)


def test_only_hosts_with_something_to_do_take_part(weighed: Converged) -> None:
    site = weighed
    run = site.play("site.yml", *LEAVE_OUT)
    assert walked(run) == set(), tail(run.output, 40)
    assert "2 as left, 0 changed, 0 drifted, 0 failed" in run.output.splitlines()[-1]

    # Something else is wanted on one, and something differs on another.
    variables = site.cluster.inventory / "host_vars"
    variables.mkdir(exist_ok=True)
    (variables / "c1.yml").write_text(yaml.safe_dump({"slurmd_unit": {"Service": {"Nice": 1}}}))
    site.run("c2", "chmod 0640 /etc/default/slurmd")
    run = site.play("site.yml", *LEAVE_OUT)
    assert walked(run) == {"c1", "c2"}, tail(run.output, 40)
    assert "c2: file /etc/default/slurmd: mode: 0640, not 0644 (role slurmd: " in " ".join(
        run.output.split()
    )
    assert site.run("c2", "stat -c %a /etc/default/slurmd").strip() == "644"
    assert "Nice=1" in site.run("c1", "systemctl cat slurmd")

    # A change that another run made, with the inventory as it was before.
    site.play(
        "site.yml",
        "--tags",
        "slurmd",
        "--limit",
        "c1,slurm_controller",
        "-e",
        '{"slurmd_unit": {}}',
    )
    assert "Nice=1" not in site.run("c1", "systemctl cat slurmd")
    run = site.play("site.yml", *LEAVE_OUT)
    assert walked(run) == {"c1"}, tail(run.output, 40)
    assert "Nice=1" in site.run("c1", "systemctl cat slurmd")
    assert walked(site.play("site.yml", "--check", *LEAVE_OUT)) == set()

    run = site.play("site.yml")
    assert walked(run) == {"c1", "c2"}, tail(run.output, 40)
    assert not run.changed
