# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the computed lines of slurm.conf and slurmdbd.conf."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import pairs, syntax

from tests.unit.cluster import ROOT, inputs
from tests.unit.configurations import CLUSTERS, DEFAULTS, conf


def test_two_controllers() -> None:
    """The first controller is the primary."""
    given = inputs(1)
    given["groups"]["slurm_controller"] = ["ctl", "login1"]
    pairs = [pair for pair in build_model(given)["slurm_conf"] if pair[0] == "SlurmctldHost"]
    assert pairs == [["SlurmctldHost", "ctl(10.0.0.2)"], ["SlurmctldHost", "login1(10.0.0.3)"]]


def test_no_database_no_accounting() -> None:
    """An empty group slurm_database turns accounting off."""
    given = inputs(1)
    given["groups"]["slurm_database"] = []
    model = build_model(given)
    assert model["database"] is None
    assert model["slurmdbd_conf"] == []
    assert not [key for key in conf(model) if key.startswith("AccountingStorage")]


def test_external_database() -> None:
    """slurmdbd gets MariaDB's address, and the model does not contain a password."""
    external = {"host": "db", "port": 3307, "user": "u", "password": "pa55word", "database": "d"}
    model = build_model(inputs(1, mariadb_external=external))
    assert model["database"] and model["database"]["external"]
    pairs = dict(model["slurmdbd_conf"])
    assert (pairs["StorageHost"], pairs["StoragePort"], pairs["StorageUser"]) == ("db", "3307", "u")
    assert "pa55word" not in json.dumps(model)


def test_overrides() -> None:
    """A person's setting wins; null takes a default out."""
    given = inputs(1, slurm_conf={"KillWait": 60, "RebootProgram": None, "MpiDefault": "pmi2"})
    settings = conf(build_model(given))
    assert settings["KillWait"] == "60"
    assert settings["MpiDefault"] == "pmi2"
    assert "RebootProgram" not in settings


@pytest.mark.parametrize("cluster", sorted(CLUSTERS))
def test_what_is_written_is_what_it_was_when_all_lines_were_computed(cluster: str) -> None:
    """Recorded before the constant lines became data of the roles: only the order may differ."""
    before = json.loads((ROOT / "tests/fixtures/cluster/configurations.json").read_text())[cluster]
    model = build_model(CLUSTERS[cluster]())
    for name in ("slurm_conf", "slurmdbd_conf"):
        if before[name]:
            merged = pairs.merge(DEFAULTS[name], model[name], model.get(f"{name}_given", {}))
            assert sorted(merged) == sorted(before[name])
    assert model["slurmd_digests"] == before["slurmd_digests"]


def test_no_default_line_is_one_that_slurmd_restarts_for() -> None:
    """The digest that restarts slurmd is made of the computed lines alone."""
    names = {name.lower() for name in DEFAULTS["slurm_conf"]}
    for version in (
        "21.08",
        "22.05",
        "23.02",
        "23.11",
        "24.05",
        "24.11",
        "25.05",
        "25.11",
        "26.05",
    ):
        restart = {name.lower() for name in syntax.restart_parameters("slurmd", version)}
        assert not names & restart, version


@pytest.mark.parametrize("cluster", sorted(CLUSTERS))
def test_no_default_line_is_computed_as_well(cluster: str) -> None:
    given = CLUSTERS[cluster]()
    given["settings"]["slurm_conf"] = {}
    model = build_model(given)
    for name, defaults in DEFAULTS.items():
        assert not {key.lower() for key, _value in model[name]} & {key.lower() for key in defaults}


def test_slurmdbd_uses_the_database_that_role_mariadb_makes() -> None:
    model = build_model(inputs(1, mariadb_database="acct", mariadb_user="accounting"))
    pairs = dict(model["slurmdbd_conf"])
    assert (pairs["StorageLoc"], pairs["StorageUser"]) == ("acct", "accounting")
    pairs = dict(build_model(inputs(1))["slurmdbd_conf"])
    assert (pairs["StorageLoc"], pairs["StorageUser"]) == ("slurm_acct_db", "slurm")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "max_token_lifespan=604800"),
        ({"slurm_token_max_lifespan": 60}, "max_token_lifespan=60"),
        ({"slurm_token_max_lifespan": 0}, ""),
        (
            {"slurm_token_max_lifespan": 0, "slurm_user_tokens": "false"},
            "disable_token_creation",
        ),
    ],
)
def test_tokens_of_users_are_limited(settings: dict[str, t.Any], words: str) -> None:
    model = build_model(inputs(1, **settings))
    key = "jwt_key=/etc/slurm/jwt_hs256.key"
    assert conf(model)["AuthAltParameters"] == ",".join(filter(None, [key, words]))
    assert dict(model["slurmdbd_conf"])["AuthAltParameters"] == key


@pytest.mark.parametrize(
    ("version", "wanted"),
    [("22.05.8", "enable_configless"), ("23.02.7", "enable_configless,rl_enable")],
)
def test_requests_are_limited_by_user_where_slurm_can(version: str, wanted: str) -> None:
    given = inputs(1)
    for facts in given["facts"].values():
        facts["slurm"]["candidate"] = version
    assert conf(build_model(given))["SlurmctldParameters"] == wanted


def test_job_tmp() -> None:
    without, model = build_model(inputs(1)), build_model(inputs(1, slurm_job_tmp="/local/jobs"))
    assert "JobContainerType" not in conf(without) and without["job_container_conf"] == []
    assert conf(model)["JobContainerType"] == "job_container/tmpfs"
    assert model["job_container_conf"] == [["AutoBasePath", "true"], ["BasePath", "/local/jobs"]]
