# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""playbooks/quarantine.yml, run unchanged for two operators, whose Slurm is a file and a scontrol that edits it."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest

from tests.unit.test_dataset_playbooks import play

#: As that of 22.05, as far as the playbook needs it. With "meanwhile", another run makes that of the reservation right
#: after the next change of it; with "first", before the next creation.
SCONTROL = """\
import datetime, json, re, sys
PLACE = {place!r}
state = json.load(open(PLACE))
words = [word for word in sys.argv[1:] if not word.startswith("-")]
given = dict(word.split("=", 1) for word in words if "=" in word)
if sys.argv[1:] == ["--version"]:
    print("slurm 22.05.8")
elif words == ["show", "nodes"]:
    for name, node in state["nodes"].items():
        print("NodeName=%s Arch=x86_64\\n   CPUAlloc=0 CPUTot=8" % name)
        print("   State=%s ThreadsPerCore=1\\n   Reason=%s\\n" % (node["state"], node["reason"]))
elif words == ["show", "jobs"]:
    print("No jobs in the system")
elif words == ["show", "reservations"]:
    one = state["reservation"]
    start = datetime.datetime(2026, 1, 1)
    if one:
        print("ReservationName=trainwright_quarantine StartTime=%s EndTime=%s Duration=365-00:00:00" % (
            start.isoformat(), (start + datetime.timedelta(365)).isoformat()))
        print("   Nodes=%s NodeCnt=1 CoreCnt=8 Flags=IGNORE_JOBS,OVERLAP,SPEC_NODES" % one["Nodes"])
        print("   Users=%s Groups=(null) State=ACTIVE\\n" % one["Users"])
elif "NodeName" in given:
    first, last = (re.findall("[0-9]+", given["NodeName"]) * 2)[:2]
    for number in range(int(first), int(last) + 1):
        word = "IDLE+DRAIN" if given["State"] == "DRAIN" else "IDLE"
        state["nodes"]["c%d" % number] = {{"state": word, "reason": given.get("Reason", "")}}
elif words[0] == "delete":
    state["reservation"] = None
elif words[0] == "create" and (state["reservation"] or state.get("first")):
    state["reservation"] = state.pop("first", state["reservation"])
    json.dump(state, open(PLACE, "w"))
    sys.exit("Error creating the reservation: Duplicate reservation name")
else:
    if given.get("Nodes") == "ALL":
        given["Nodes"] = "c[1-3]"
    state["reservation"] = {{**(state["reservation"] or {{}}), **given}}
    state["reservation"] = state.pop("meanwhile", state["reservation"])
json.dump(state, open(PLACE, "w"))
"""
INVENTORY = """\
slurm_cluster:
  children:
    slurm_controller: {hosts: {ctl1: {ansible_connection: local, ansible_become: false}}}
    slurm_node_health: {hosts: {c1: }}
"""
ANN = {"Nodes": "c1", "Users": "ann"}
DRAINED = {"state": "IDLE+DRAIN", "reason": "tw:health:gpu_count: 7 of 8 GPUs -> replace it"}
IDLE = {"state": "IDLE", "reason": ""}


class Site:
    """A cluster of three nodes, of which ann has the first in quarantine."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "bin").mkdir()
        self.write(reservation=ANN, nodes={"c1": IDLE, "c2": DRAINED, "c3": DRAINED})
        command = place / "bin" / "scontrol"
        text = SCONTROL.format(place=str(place / "slurm.json"))
        command.write_text(f"#!{sys.executable}\n{text}")
        command.chmod(0o755)
        (place / "cluster.yml").write_text(INVENTORY)

    def write(self, **state: t.Any) -> None:
        (self.place / "slurm.json").write_text(json.dumps(state))

    @property
    def state(self) -> dict[str, t.Any]:
        return json.loads((self.place / "slurm.json").read_text())  # type: ignore[no-any-return]

    @property
    def there(self) -> tuple[str, str] | None:
        """Nodes and users of the reservation."""
        one = self.state["reservation"]
        return one and (one["Nodes"], one["Users"])

    @property
    def drained(self) -> list[str]:
        return [name for name, node in self.state["nodes"].items() if "DRAIN" in node["state"]]

    def play(self, *more: str, rc: int = 0, **variables: t.Any) -> str:
        inventory = str(self.place / "cluster.yml")
        given = {"slurm_prefix": str(self.place), **variables}
        ended, said = play(
            self.place, "quarantine", given, "-i", inventory, *more,
            PATH=f"{self.place / 'bin'}:/usr/bin:/bin",
        )  # fmt: skip
        assert ended == rc, said
        return " ".join(said.split())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_two_operators_have_nodes_there_and_each_ends_their_own(site: Site) -> None:
    """The second one's run has not seen the reservation of the first one when it makes its own."""
    site.write(reservation=None, first=ANN, nodes=site.state["nodes"])
    before = site.state
    site.play("--check", nodes="c2", quarantine_users="ben")
    assert site.state == before
    said = site.play(nodes="c2", quarantine_users="ben")
    assert site.there == ("c[1-2]", "ann,ben") and site.drained == ["c3"]
    assert "then -e nodes=c2 -e quarantine_end=true" in said
    site.play(nodes="c[2-3]", quarantine_end=True)
    assert site.there == ("c1", "ann,ben") and site.drained == ["c2", "c3"]
    assert site.state["nodes"]["c3"] == DRAINED
    site.play(quarantine_end=True)
    assert site.there is None and site.drained == ["c1", "c2", "c3"]


def test_a_node_that_another_run_takes_out_meanwhile_stays_drained(site: Site) -> None:
    site.write(meanwhile=ANN, **site.state)
    said = site.play(nodes="c[1-2]", quarantine_users="ben", rc=2)
    assert (
        "c2: not in the reservation trainwright_quarantine, which another run has changed or ended meanwhile; no"
        " node was resumed -> run this again"
    ) in said
    assert site.drained == ["c2", "c3"] and site.there == ("c1", "ann")
    site.play(nodes="ALL", quarantine_users="ben")
    assert site.drained == [] and site.there == ("c[1-3]", "ann,ben")


def test_the_end_for_a_node_that_does_not_exist_is_refused(site: Site) -> None:
    before = site.state
    assert "does not know the node c9" in site.play(nodes="c[1,9]", quarantine_end=True, rc=2)
    assert site.state == before
