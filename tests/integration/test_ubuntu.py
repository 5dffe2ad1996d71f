# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ubuntu 24.04 and its Slurm 23.11: the whole of site.yml, jobs, containers, and a second run.

It needs an archive of Ubuntu, which this machine's apt sources or TRAINWRIGHT_UBUNTU_MIRROR name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import yaml

from driver.image import recipe_for
from driver.layout import LocalError

from . import artifacts, small_image
from .site import ROOT, Nodes, Site
from .test_slurm_upgrade import IMAGE, container_job

pytestmark = [
    pytest.mark.soak("a cluster of its own"),
]


@pytest.fixture(scope="module")
def ubuntu() -> Iterator[Site]:
    """A converged cluster of Ubuntu 24.04 with containers."""
    try:
        recipe_for("ubuntu2404")
    except LocalError as error:
        pytest.skip(str(error))
    cluster = Nodes("ubuntu")
    cluster.local.destroy()
    try:
        cluster.local.create(os="ubuntu2404", compute=2, pyxis=True)
        artifacts.tell(cluster.inventory)
        made = Site(cluster)
        made.play("site.yml")
        yield made
    finally:
        if not os.environ.get("TRAINWRIGHT_KEEP"):
            cluster.local.destroy()


def test_jobs_and_containers_run_and_a_second_run_changes_nothing(ubuntu: Site) -> None:
    site = ubuntu
    assert "23.11" in site.run("c1", "slurmd -V")
    assert site.as_user("alice", "srun -Q -N2 -l hostname | sort").split() == [
        "0:",
        "c1",
        "1:",
        "c2",
    ]
    assert site.as_user("alice", "srun -Q -n2 --mpi=pmix printenv PMIX_RANK | sort").split() == [
        "0",
        "1",
    ]
    site.play("first_job.yml")
    small_image.make(site, IMAGE)
    done = container_job(site)
    assert done.returncode == 0
    assert done.stdout.count("ID=ubuntu" if artifacts.REAL else "ID=debian") == 2, done.stderr
    assert site.play("site.yml").changed == set()


def test_apparmor_accepts_the_profile_that_lets_enroot_make_user_namespaces(ubuntu: Site) -> None:
    """Containers of this cluster have this machine's kernel, so the profile is only parsed, and not loaded."""
    text = (ROOT / "roles/enroot/vars/main/apparmor.yml").read_text(encoding="utf-8")
    profile = yaml.safe_load(text)["__enroot_apparmor_profile"]
    ubuntu.run("c1", "apt-get install -y -q --no-install-recommends apparmor")
    parse = "apparmor_parser --skip-kernel-load --skip-cache --names"
    named = ubuntu.run("c1", f"{parse} 2>/dev/null <<'EOF'\n{profile}EOF")
    assert named == "/usr/bin/enroot-nsenter"
    assert "rc=1" in ubuntu.run(
        "c1", f"{parse} <<'EOF'\n{profile.replace('userns', 'usernss')}EOF\necho rc=$?"
    )
