# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the record: what a run that sees only some hosts keeps."""

from __future__ import annotations

import json

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import gpus, inputs


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
    assert model["new_nodes"] == []
    assert model["partitions"][0]["nodes"] == "c[1-3]"
    assert model["compute_hosts"] == ["c3"]
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
    assert {**second, "new_nodes": None} == {**first, "new_nodes": None}
