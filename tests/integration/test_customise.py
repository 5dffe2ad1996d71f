# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""docs/customise.md is correct: its variables, its template and its commands work as printed."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from .conftest import Converged
from .site import ROOT, Run

SITE = "ansible-playbook -i ~/cluster trainwright.slurm.site"
GUIDE = (ROOT / "docs" / "customise.md").read_text(encoding="utf-8")


def block(language: str, word: str) -> str:
    """The one block of the guide in a language that has a word."""
    found = [
        text
        for text in re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.M | re.S)
        if word in text
    ]
    assert len(found) == 1, (language, word)
    return found[0]


@dataclass
class Guide:
    """A copy of the cluster's inventory that a reader of the guide changes."""

    site: Converged
    inventory: Path

    def variables(self, text: str) -> None:
        """Write the variables of the cluster's group."""
        (self.inventory / "group_vars" / "slurm_cluster.yml").write_text(text, encoding="utf-8")

    @staticmethod
    def files() -> list[dict[str, str]]:
        """The files that the guide puts on login nodes."""
        return yaml.safe_load(block("yaml", "slurmd_unit"))["slurm_login_files"]

    def run(self, line: str) -> Run:
        """Run a command of the guide on this inventory."""
        program, option, inventory, playbook, *arguments = shlex.split(line)
        assert f"{program} {option} {inventory} {playbook}" == SITE
        name = playbook.removeprefix("trainwright.slurm.") + ".yml"
        return self.site.play(name, *arguments, inventory=self.inventory)


def node_of(site: Converged) -> str:
    """The first compute node."""
    return next(host for host in site.cluster.hosts if re.fullmatch(r"c\d+", host))


def core_limit(site: Converged) -> str:
    """The LimitCORE of slurmd in systemd."""
    return site.run(node_of(site), "systemctl show -P LimitCORE slurmd")


@pytest.fixture
def guide(quiet_site: Converged, tmp_path: Path) -> Iterator[Guide]:
    """The guide's inventory. Afterwards the cluster is as it was: what is no longer asked for goes."""
    site = quiet_site
    inventory = tmp_path / "cluster"
    shutil.copytree(site.inventory, inventory)
    before = core_limit(site)
    made = Guide(site, inventory)
    yield made
    path = made.files()[0]["path"]
    made.variables(yaml.safe_dump({"slurm_login_files": [{"path": path, "state": "absent"}]}))
    made.run(f"{SITE} --tags slurmctld,slurmd,slurm_login")
    site.run("ctl1", "sacctmgr -i delete qos night", check=False)
    assert core_limit(site) == before
    assert site.run("login1", f"test ! -e {path} && echo gone") == "gone"
    head = site.run("ctl1", "head -n1 /etc/slurm/slurm.conf")
    assert head.startswith("# Written by trainwright.slurm (role slurmctld)")


@pytest.mark.systems("debian12")
def test_the_guide_does_what_it_says(guide: Guide) -> None:
    site = guide.site
    text = block("yaml", "slurmd_unit")
    template = block("jinja", "include")
    name = yaml.safe_load(text)["slurmctld_template"]
    (guide.inventory / "group_vars" / name).write_text(template)
    guide.variables(text)
    _preview, apply = block("bash", "--check --diff").splitlines()
    controller = site.pid("ctl1", "slurmctld")
    guide.run(apply)
    assert core_limit(site) == "infinity"
    # The role's own lines are still there.
    unit = site.run(node_of(site), "systemctl show -P KillMode slurmd")
    assert unit == "process"
    conf = site.run("ctl1", "cat /etc/slurm/slurm.conf").splitlines()
    assert conf[0] == template.splitlines()[0]
    assert any(line.startswith("ClusterName=") for line in conf)
    # Slurmctld reads no comments.
    assert site.pid("ctl1", "slurmctld") == controller
    (entry,) = guide.files()
    assert site.run("login1", f"cat {entry['path']}") == entry["content"].strip()

    # An entry more in the inventory, and a run that does nothing else.
    guide.variables(text + yaml.safe_dump({"slurm_qos": [{"name": "night", "priority": 7}]}))
    (command,) = block("bash", "--tags").splitlines()
    run = guide.run(command)
    assert site.run("ctl1", "sacctmgr -nP show qos night format=Name,Priority") == "night|7"
    assert [host for host, _task in run.changed] == ["ctl1"]
