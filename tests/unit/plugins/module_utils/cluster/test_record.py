# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the record: what a run that sees only some hosts keeps."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.record import checked

from tests.unit.cluster import ROOT, gpus, inputs


def test_record_keeps_what_this_run_does_not_see() -> None:
    """A run limited to one node and the controller leaves the other nodes as they were."""
    full = build_model(inputs(3, node={"gpus": gpus(4)}))
    given = inputs(3)
    given["record"] = json.loads(json.dumps(full["record"]))
    given["hosts_in_run"] = ["ctl", "c3"]
    given["facts"] = {host: given["facts"][host] for host in ("ctl", "c3")}
    given["facts"]["c3"]["memory_mb"] = 16000
    model = build_model(given)
    assert model["nodes"][:2] == full["nodes"][:2]
    assert model["nodes"][2]["memory_mb"] == 15200
    assert model["partitions"][0]["nodes"] == "c[1-3]"
    assert model["login"] == full["login"]


def test_record_of_an_unchanged_cluster_is_unchanged() -> None:
    """The second run builds the same model, whatever the order of the inputs."""
    first = build_model(inputs(3))
    given = inputs(3)
    given["record"] = json.loads(json.dumps(first["record"]))
    given["facts"] = dict(reversed(given["facts"].items()))
    given["groups"] = dict(reversed(given["groups"].items()))
    second = build_model(given)
    assert second["record"] == first["record"]
    assert second == first


def written() -> dict[str, t.Any]:
    """Return a record as a controller has it, with keys of hosts that are none left out."""
    given = inputs(2, node={"gpus": gpus(2)})
    for facts in given["facts"].values():
        facts["ssh_host_key"] = ""
    record: dict[str, t.Any] = json.loads(json.dumps(build_model(given)["record"]))
    return record


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["nodes", "c1"], {}, "nodes.c1: lacks name, host, address, hostname, cpus, "),
        (["nodes", "c1"], [], r"nodes.c1: is \[\], not a mapping"),
        (["nodes", "c1"], None, "nodes.c1: is null, not a mapping"),
        (["nodes", "c1", "address"], 7, "nodes.c1.address: is 7, not a text"),
        (["nodes", "c1", "cpus"], "4", "nodes.c1.cpus: is '4', not a number"),
        (["nodes", "c1", "memory_mb"], True, "nodes.c1.memory_mb: is True, not a number"),
        (["nodes", "c1", "options"], None, "nodes.c1.options: is null, not a mapping"),
        (["nodes", "c1", "client"], "no", "nodes.c1.client: is 'no', not true or false"),
        (["nodes", "c1", "principals"], 7, "nodes.c1.principals: is 7, not a list"),
        (["nodes", "c1", "gres", 0], "gpu", r"nodes.c1.gres\[0\]: is 'gpu', not a mapping"),
        (["nodes", "c1", "gres", 0], {"name": "gpu"}, r"nodes.c1.gres\[0\]: lacks type, count, file"),
        (["nodes"], ["c1"], r"^nodes: is \['c1'\], not a mapping"),
        (["hosts", "login1"], {"name": "login1"}, "hosts.login1: lacks address"),
        (["hosts", "login1"], "login1", "hosts.login1: is 'login1', not a mapping"),
        (["choices"], True, "^choices: is True, not a mapping"),
        (["revoked_keys"], [1], "^revoked_keys: is .*, not a mapping"),
        (["cluster"], None, "^cluster: is null, not a text"),
    ],
)  # fmt: skip
def test_a_record_from_which_no_cluster_can_be_read(
    place: list[t.Any], value: object, message: str
) -> None:
    """The message has the place in the file."""
    record: t.Any = written()
    *above, last = place
    part = record
    for key in above:
        part = part[key]
    part[last] = value
    with pytest.raises(ValueError, match=message):
        checked(record)


def test_records_of_all_versions_are_read() -> None:
    record = written()
    assert checked(record)["nodes"] == record["nodes"]
    recorded = (ROOT / "tests/fixtures/cluster/record.json").read_text(encoding="utf-8")
    assert checked(json.loads(recorded))["nodes"].keys() == {"c1", "c2", "login1"}
    assert checked({"format": 1})["nodes"] == {}
