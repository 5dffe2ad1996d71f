# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the filter conf_pairs, in the templates of the roles that call it."""

from __future__ import annotations

import ast
import typing as t

import jinja2
import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.filter.conf_pairs import conf_pairs
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import syntax

from tests.unit.cluster import ROOT, inputs
from tests.unit.configurations import CLUSTERS, conf


def environment() -> jinja2.Environment:
    """Return an environment with the filter and with the whitespace of Ansible's templates."""
    found = jinja2.Environment(
        trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    found.filters["trainwright.slurm.conf_pairs"] = conf_pairs
    return found


def render(role: str, file: str, **variables: t.Any) -> str:
    """Return a template of a role with the role's defaults and constants."""
    path = ROOT / "roles" / role
    given: dict[str, t.Any] = {}
    for source in [path / "defaults/main.yml", *sorted((path / "vars/main").glob("*_conf.yml"))]:
        given.update(yaml.safe_load(source.read_text()) or {})
    template = environment().from_string((path / "templates" / file).read_text())
    return template.render({**given, **variables})


def slurmdbd(**variables: t.Any) -> list[str]:
    """Return the lines of slurmdbd.conf."""
    password = {"__slurmdbd_password": "secret"}
    model = {"slurm_model": build_model(inputs(1))}
    return render("slurmdbd", "slurmdbd.conf.j2", **model, **{**password, **variables}).splitlines()


def test_slurmdbd_conf_reaches_the_file() -> None:
    lines = slurmdbd()
    assert "PurgeJobAfter=24months" in lines
    assert "DbdHost=ctl" in lines and "StoragePass=secret" in lines
    own = {"purgejobafter": "60months", "DebugLevel": None, "ArchiveJobs": True, "DbdPort": 7000}
    changed = slurmdbd(slurmdbd_conf=own)
    assert set(lines) - set(changed) == {
        "PurgeJobAfter=24months",
        "DebugLevel=info",
        "DbdPort=6819",
    }
    assert set(changed) - set(lines) == {
        "purgejobafter=60months",
        "ArchiveJobs=YES",
        "DbdPort=7000",
    }


@pytest.mark.parametrize("cluster", ["defaults", "own_values", "two_controllers"])
def test_slurm_conf_has_the_defaults_the_computed_and_the_sites_lines(cluster: str) -> None:
    model = build_model(CLUSTERS[cluster]())
    text = render("slurmctld", "slurm.conf.j2", slurm_model=model, __slurmctld_hook_lines=[])
    written = {key: values[-1] for key, values in syntax.parse(text).scalars.items()}
    assert written == {syntax.canonical(key): value for key, value in conf(model).items()}
    assert text.index("ClusterName=") < text.index("SchedulerType=")
    assert ("KillWait" in written, "MessageTimeout" in written) == (
        True,
        cluster != "own_values",
    )


def test_a_password_is_read_as_it_is() -> None:
    password = r"a#b\\c d\\"
    text = "\n".join(slurmdbd(__slurmdbd_password=password))
    read = syntax.parse(text, "slurmdbd.conf")
    assert read.get("StoragePass") == password and read.get("PurgeJobAfter") == "24months"


def test_options_that_no_line_can_have_are_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="line end or a double quote"):
        conf_pairs({}, [["A", "b\nPluginDir=/tmp"]])


def test_options_of_partitions_and_nodes_stay_one_value() -> None:
    given = inputs(1)
    given["settings"]["slurm_partitions"] = [
        {"name": "batch", "groups": ["slurm_compute"], "default": True,
         "options": {"AllowGroups": "a b#c", "MaxTime": None}}
    ]  # fmt: skip
    text = render(
        "slurmctld", "slurm.conf.j2", slurm_model=build_model(given), __slurmctld_hook_lines=[]
    )
    (line,) = syntax.parse(text).of("PartitionName")
    assert line["AllowGroups"] == "a b#c" and line["MaxTime"] == "INFINITE"


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="own is .*'PurgeJobAfter=1'.* -> write"):
        conf_pairs({}, [], ["PurgeJobAfter=1"])


def test_the_example_of_the_documentation_is_true() -> None:
    from ansible_collections.trainwright.slurm.plugins.filter import conf_pairs as plugin

    (task,) = yaml.safe_load(plugin.EXAMPLES)
    shown = environment().from_string(task["ansible.builtin.debug"]["msg"]).render()
    assert ast.literal_eval(shown) == [["DbdHost", "ctl1"], ["purgejobafter", "60months"]]
