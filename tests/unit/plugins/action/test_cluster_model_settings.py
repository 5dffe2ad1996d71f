# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the action that builds the cluster model: where its settings and its advice come from."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible import context
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.trainwright.slurm.plugins.action import cluster_model
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import CHECKED_ROLES, ROLE_VARS, ROOT, inputs

SPECS = {
    "slurm_name": {"type": "str", "default": "cluster"},
    "slurm_days": {"type": "int", "default": 3},
    "slurm_node": {"type": "dict", "default": {}},
}


def settings(
    variables: dict[str, t.Any], needed: tuple[str, ...] = (), **given: t.Any
) -> dict[str, t.Any]:
    """Return what the action makes of the variables of a play."""
    trusted = {
        name: trust_as_template(value) if isinstance(value, str) else value
        for name, value in variables.items()
    }
    action = cluster_model.ActionModule.__new__(cluster_model.ActionModule)
    action._templar = Templar(DataLoader(), variables=trusted)
    return action._settings(SPECS, set(needed), given, trusted)


def test_a_setting_is_given_or_a_variable_or_the_default() -> None:
    assert settings({}) == {"slurm_name": "cluster", "slurm_days": 3}
    assert settings({"slurm_days": 4, "other": 1})["slurm_days"] == 4
    assert settings({"slurm_days": "{{ other + 1 }}", "other": 1})["slurm_days"] == 2
    assert settings({"slurm_days": 4}, slurm_days=5)["slurm_days"] == 5
    assert settings({"slurm_days": None})["slurm_days"] is None


def test_a_number_for_text_is_text_as_ansible_has_it() -> None:
    assert settings({"slurm_name": 24.11})["slurm_name"] == "24.11"
    assert settings({"slurm_name": True})["slurm_name"] is True


def test_a_variable_without_a_value_is_an_error_only_where_the_model_needs_it() -> None:
    unknown = {"slurm_days": "{{ fact_of_a_host }}"}
    assert "slurm_days" not in settings(unknown)
    with pytest.raises(AnsibleError, match="fact_of_a_host"):
        settings(unknown, needed=("slurm_days",))
    with pytest.raises(AnsibleError, match=r"^cluster: slurm_name: its template .*!unsafe"):
        settings({"slurm_name": "echo ${#files[@]}"}, needed=("slurm_name",))


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ({"args": ["trainwright.slurm.site"]}, "ansible-playbook trainwright.slurm.site"),
        (
            {"args": ["my site.yml"], "inventory": ["/srv/cluster", "/etc/ansible/hosts"]},
            "ansible-playbook -i /srv/cluster 'my site.yml'",
        ),
        ({"args": "all"}, "ansible-playbook trainwright.slurm.site"),  # ansible -m
        ({}, "ansible-playbook trainwright.slurm.site"),
    ],
)
def test_the_command_is_the_one_that_was_typed(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, t.Any], command: str
) -> None:
    monkeypatch.setattr(context, "CLIARGS", arguments)
    monkeypatch.setattr(cluster_model, "default_inventory", lambda: ["/etc/ansible/hosts"])
    assert cluster_model.command() == command


def test_every_role_is_checked() -> None:
    """The role that builds the model comes first."""
    roles = {path.parents[1].name for path in ROOT.glob("roles/*/meta/argument_specs.yml")}
    assert sorted(CHECKED_ROLES) == sorted(roles)
    assert CHECKED_ROLES[0] == ROLE_VARS.parents[1].name


def test_the_role_names_files_that_exist() -> None:
    own = ROLE_VARS.parents[1]
    data = yaml.safe_load((ROLE_VARS / "checked_roles.yml").read_text())
    text = data[f"__{own.name}_argument_specs"].replace(
        f"__{own.name}_checked_roles", str(CHECKED_ROLES)
    )
    templar = Templar(DataLoader(), variables={"role_path": str(own)})
    files = templar.template(trust_as_template(text))
    assert len(files) == len(CHECKED_ROLES) and all(Path(file).is_file() for file in files)


@pytest.mark.parametrize(
    ("playbook", "ours"),
    [
        ("trainwright.slurm.site", True),
        (str(ROOT / "playbooks" / "site.yml"), True),
        (str(ROOT / "site.yml"), True),
        ("/srv/cluster/site.yml", False),
        ("other.collection.site", False),
    ],
)
def test_tags_are_judged_in_our_playbooks_alone(
    monkeypatch: pytest.MonkeyPatch, playbook: str, ours: bool
) -> None:
    """A playbook of the site's own that imports ours may have tags of its own."""
    monkeypatch.setattr(context, "CLIARGS", {"args": [playbook], "tags": ["slurmdd"]})
    action = cluster_model.ActionModule.__new__(cluster_model.ActionModule)
    given = inputs(1)
    found = [str(problem) for problem in action._tag_problems(given)]
    assert bool(found) is ours
    if ours:
        assert "inventory: --tags: no task has the tag 'slurmdd' -> did you mean" in found[0]


def daemon_problems(
    monkeypatch: pytest.MonkeyPatch, given: t.Any, tags: list[str], **recorded: str
) -> list[t.Any]:
    """Return what is said of --tags where the record has other digests than the model, and nothing without them."""
    monkeypatch.setattr(context, "CLIARGS", {"args": ["trainwright.slurm.site"], "tags": tags})
    action = cluster_model.ActionModule.__new__(cluster_model.ActionModule)
    model = build_model(given)
    given["record"] = {**model["record"]}
    assert action._daemon_problems(given, model) == []
    given["record"].update(recorded)
    return action._daemon_problems(given, model)


@pytest.mark.parametrize(
    ("before", "tags", "refused"),
    [("other", ["slurmd"], True), ("", ["slurmd"], False), ("other", [], False)],
)
def test_slurmd_does_not_start_with_what_slurmctld_does_not_have(
    monkeypatch: pytest.MonkeyPatch, before: str, tags: list[str], refused: bool
) -> None:
    found = daemon_problems(monkeypatch, inputs(1), tags, slurmd_digest=before)
    assert bool(found) is refused
    assert not refused or "add slurmctld to --tags" in str(found[0])


@pytest.mark.parametrize(
    ("before", "rest", "tags", "refused"),
    [
        ("other", ["ctl"], ["slurmrestd"], True),
        ("", ["ctl"], ["slurmrestd"], False),
        ("other", [], ["slurmrestd"], False),
        ("other", ["ctl"], ["slurmrestd", "slurmctld"], False),
        ("other", ["ctl"], [], False),
    ],
)
def test_slurmrestd_does_not_start_with_the_old_lines_and_count_as_started_with_the_new_ones(
    monkeypatch: pytest.MonkeyPatch, before: str, rest: list[str], tags: list[str], refused: bool
) -> None:
    given = inputs(1)
    given["groups"]["slurm_rest"] = rest
    found = daemon_problems(monkeypatch, given, tags, clients_digest=before)
    assert bool(found) is refused
    assert not refused or "what slurmrestd reads only when it starts" in str(found[0])


def test_what_a_site_customises_is_checked_before_anything_is_changed() -> None:
    action = cluster_model.ActionModule.__new__(cluster_model.ActionModule)
    given = inputs(
        1,
        slurmd_unit={"Servce": {"LimitCORE": "infinity"}},
        slurmctld_template="nowhere.j2",
        slurm_login_files=[{"path": "motd", "content": "x"}],
    )
    found = {problem.variable: problem for problem in action._customisation_problems(given, {})}
    assert set(found) == {"slurmd_unit", "slurmctld_template", "slurm_login_files"}
    assert "[Servce] is not a section of a service" in found["slurmd_unit"].what
    assert all(problem.remedy for problem in found.values())
