# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the cluster model as a whole."""

from __future__ import annotations

import copy

import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import ROOT, inputs


def test_inputs_are_left_alone() -> None:
    """Building a model changes nothing in its inputs."""
    given = inputs(2)
    given["record"] = build_model(inputs(3))["record"]
    before = copy.deepcopy(given)
    build_model(given)
    assert given == before


def test_defaults_and_argument_specs_agree() -> None:
    """Each variable is documented with the default it has."""
    defaults = yaml.safe_load((ROOT / "roles/cluster/defaults/main.yml").read_text())
    specs = yaml.safe_load((ROOT / "roles/cluster/meta/argument_specs.yml").read_text())[
        "argument_specs"
    ]["main"]
    assert {name: spec.get("default") for name, spec in specs["options"].items()} == defaults


def test_documented_keys_are_the_models_keys() -> None:
    """RETURN documents each key of the model."""
    from ansible_collections.trainwright.slurm.plugins.modules import cluster_model

    documented = yaml.safe_load(cluster_model.RETURN)
    by_the_action = {"news", "as_expected", "wanted", "wanted_services", "record_stays", "looks"}
    assert set(documented) - by_the_action == set(build_model(inputs(1)))
