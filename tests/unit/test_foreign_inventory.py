# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An inventory of a Slurm that somebody else manages: what changes Slurm refuses it, before it calls a host."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.unit.test_empty_inventory import ROOT, play

#: No host answers: a playbook that called one would report it as unreachable.
HOST = {"ansible_host": "192.0.2.1", "ansible_connection": "ssh"}
CHANGES_SLURM = ("site.yml", "remove_nodes.yml")
# And those after which its manager would replace machines.
REFUSES = (*CHANGES_SLURM, "reboot.yml", "image.yml")


def inventory(tmp_path: Path, manager: str = "", own: bool = False) -> None:
    """Write an inventory by hand, or as the plugin makes it."""
    children: dict[str, object] = {
        "slurm_foreign": {
            "children": {
                "slurm_controller": {"hosts": {"head": HOST}},
                "slurm_compute": {"hosts": {"gpu-dy-1": HOST}},
            }
        }
    }
    if manager:
        children[manager] = {"hosts": {"head": {}}}
    if own:
        children["slurm_cluster"] = {"hosts": {"c1": HOST}}
    (tmp_path / "inventory").mkdir()
    path = tmp_path / "inventory" / "hosts.yml"
    path.write_text(yaml.safe_dump({"all": {"children": children}}), encoding="utf-8")


@pytest.mark.parametrize("playbook", REFUSES)
@pytest.mark.parametrize(
    ("manager", "own", "arguments", "name"),
    [
        ("parallelcluster", False, (), "AWS ParallelCluster"),
        ("pcs", False, ("--limit", "gpu-dy-1"), "AWS PCS"),
        ("", True, ("--limit", "c1", "--tags", "slurmd"), "somebody else"),
    ],
)
def test_it_is_refused_by_name(
    tmp_path: Path, playbook: str, manager: str, own: bool, arguments: tuple[str, ...], name: str
) -> None:
    inventory(tmp_path, manager, own)
    code, output = play(tmp_path, playbook, *arguments)
    assert code == 2, output
    assert f"is managed by {name}: change its configuration instead" in output
    assert "UNREACHABLE" not in output


def test_every_playbook_is_one_that_uses_slurm_or_one_that_refuses() -> None:
    """A new playbook that works with the cluster model, and so changes Slurm, refuses too."""
    for path in (ROOT / "playbooks").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        builds = "trainwright.slurm.slurmctld" in text or "trainwright.slurm.slurmd" in text
        # join.yml sets up the machine that it runs on, as a node of the cluster that its image is from.
        assert builds == (path.name in (*CHANGES_SLURM, "join.yml")), path.name
        assert ("tasks/refuse_foreign.yml" in text) == (path.name in REFUSES), path.name
