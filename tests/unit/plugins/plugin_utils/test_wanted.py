# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What decides about a host on the control node: its variables, and the files of the site that they name."""

from __future__ import annotations

import multiprocessing
import os
import re
import time
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from ansible import context
from ansible.errors import AnsibleUndefinedVariable
from ansible.module_utils.common.collections import ImmutableDict
from ansible_collections.trainwright.slurm.plugins.plugin_utils import wanted
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cluster import ROOT


def same(value: t.Any) -> t.Any:
    return value


def of(variables: t.Mapping[str, t.Any], places: t.Sequence[str] = ()) -> dict[str, t.Any]:
    return wanted.host_variables(variables, same, places, same)


@given(st.dictionaries(st.sampled_from(["slurm_conf", "my_own", "ansible_host"]), st.integers()))
def test_every_variable_of_the_inventory_is_in_it(variables: dict[str, int]) -> None:
    assert variables.items() <= of(variables).items()


def test_what_the_run_itself_adds_is_not_in_it() -> None:
    added = {
        "ansible_facts": {"trainwright_node": {"a": 1}},
        "trainwright_node": {"a": 1},
        "slurm_facts": {},
        "slurm_model": {},
        "__slurmd_run": {},
        "ansible_forks": 5,
        "inventory_dir": "/a",
        "site_full": False,
    }
    assert of({"slurm_conf": {}, **added}) == of({"slurm_conf": {}})


def test_groups_that_playbooks_know_count_and_those_of_the_run_do_not() -> None:
    first = of({"group_names": ["slurm_compute", "trainwright_as_left"]})
    assert first == of({"group_names": ["slurm_compute"]})
    assert first != of({"group_names": ["slurm_compute", "slurm_pyxis"]})


def unreadable(_value: t.Any) -> t.Any:
    raise AnsibleUndefinedVariable("x is undefined")


@pytest.mark.parametrize(
    "text", ["{{ lookup('env', x) }}", "{{ hostvars[x].y }}", ["{{ x ~ now() }}"]]
)
def test_a_variable_that_cannot_be_read_means_a_walk_if_it_may_change_by_itself(
    text: t.Any,
) -> None:
    with pytest.raises(wanted.NotKnown, match="slurm_conf"):
        wanted.host_variables({"slurm_conf": text}, unreadable, [], same)


def test_of_another_variable_that_cannot_be_read_the_text_counts() -> None:
    """Such as one about facts that nobody has gathered; but for one of ours, whose template may ask what it likes."""
    for text in ("{{ ansible_facts.default_ipv4.address }}", ["{{ item }}"]):
        given = {"sites_banner": text}
        assert wanted.host_variables(given, unreadable, [], same)["sites_banner"] == str(text)
        for name in ("slurmd_files", "node_base_limits", "pam_slurm_adopt_files", "enroot_conf"):
            with pytest.raises(wanted.NotKnown, match=f"{name}: its template cannot be read here"):
                wanted.host_variables({name: text}, unreadable, [], same)


def test_a_variable_that_reads_one_of_the_play_means_a_walk() -> None:
    """The roles have the play's before the inventory's."""
    lines = "{{ lookup('file', site_dir | default('/srv/prod') ~ '/motd') }}"

    def read(of_play: t.Collection[str], **variables: t.Any) -> t.Any:
        return wanted.host_variables(variables, same, [], same, of_play=of_play)

    play = SimpleNamespace(get_vars=lambda: {"site_dir": "/srv/test", "__preflight_alone": False})
    assert wanted.names_of(play) == {"site_dir"}
    assert read(["site_other"], slurmd_files=lines, site_dir="/srv/prod")
    assert read(["site_dir"], slurmd_files="no template of site_dir")
    for variables in (
        {"slurmd_files": lines},
        {"slurmd_files": lines, "site_dir": "/srv/prod"},
        {"slurmd_files": "{{ __text }}", "__text": lines},
    ):
        with pytest.raises(wanted.NotKnown, match="slurmd_files: reads a variable of the play"):
            read(["site_dir"], **variables)


@pytest.mark.parametrize("name", ["ansible_play_hosts", "play_hosts", "slurm_model", "role_path"])
def test_what_a_play_or_a_role_has_of_its_own_is_not_known_also_with_a_default(name: str) -> None:
    with pytest.raises(wanted.NotKnown, match="own"):
        of({"own": [f"{{{{ {name} | default(7) }}}}"]})


@pytest.mark.parametrize(
    "text",
    [
        "{{ lookup('template', 'motd.j2') }}",
        '{{ query("ansible.builtin.template", x) }}',
        "{{ q( 'ansible.legacy.template', 'a') | join }}",
        "{{ lookup(way, 'motd.j2') }}",
        "{%- include 'motd.j2' %}",
    ],
)
def test_another_template_in_a_variable_means_a_walk(text: str) -> None:
    """It may read the cluster model, which is not there yet, so that its text says nothing."""
    for value in (text, [{"path": "/etc/motd.d/a", "content": f'it\'s "x"\n{text}'}]):
        with pytest.raises(wanted.NotKnown, match="slurm_login_files"):
            of({"slurm_login_files": value})
    for value in ("{{ lookup('file', 'template') }}", "{{ lookup('env', 'X') }}", "a query (x)"):
        assert of({"slurm_login_files": value})


@pytest.mark.parametrize("path", ["/run/a.conf", "/etc/../tmp/x", "/var/tmp/y"])
def test_files_that_a_boot_removes_mean_a_walk(path: str) -> None:
    files = [{"path": "/etc/a", "content": "x"}, {"path": path, "content": "x"}]
    with pytest.raises(wanted.NotKnown, match="slurmd_files"):
        of({"slurmd_files": files})
    assert of({"slurmd_files": files[:1]})


@pytest.mark.parametrize(
    ("name", "value"),
    [("node_tuning_kernel_arguments", ["mitigations=off"]), ("node_health_nhc_conf", "* || x")],
)
def test_what_nobody_records_means_a_walk_also_for_one_group(name: str, value: t.Any) -> None:
    """The cluster model has only the first controller's."""
    assert of({name: type(value)()})
    with pytest.raises(wanted.NotKnown, match=name):
        of({name: value})
    play = SimpleNamespace(get_vars=lambda: {name: value})
    with pytest.raises(wanted.NotKnown, match=name):
        wanted.play_variables(play, same, same)


def test_variables_of_the_play_count() -> None:
    """Those of an import_playbook are in no host's variables."""

    def read(given: dict[str, t.Any]) -> dict[str, t.Any]:
        play = SimpleNamespace(get_vars=lambda: given)
        return wanted.play_variables(play, same, same)

    assert read({"slurm_conf": {"KillWait": 7}, "__preflight_alone": False}) == {
        "slurm_conf": {"KillWait": 7}
    }
    for name in ("slurmd_template", "slurmdbd_template", "mariadb_template", "job_hooks_parts"):
        with pytest.raises(wanted.NotKnown, match=name):
            read({name: "/site/x.j2"})
    for value in ("{{ x }}", {"a": ["{% if x %}"]}):
        with pytest.raises(wanted.NotKnown, match="slurm_conf"):
            read({"slurm_conf": value})
    for name, files in (
        ("slurmd_template", "own.j2"),
        ("job_hooks_parts", [{"file": "check.sh"}]),
        ("slurmd_files", [{"path": "/run/a"}]),
    ):
        with pytest.raises(wanted.NotKnown, match=name):
            read({name: files})


def test_hook_files_count_by_their_content(tmp_path: Path) -> None:
    hook = tmp_path / "check.sh"
    hook.write_text("#!/bin/sh\n")
    variables = {"job_hooks_parts": [{"file": "check.sh"}, {"text": "true"}]}
    first = of(variables, [str(tmp_path)])
    assert first == of(variables, [str(tmp_path)])
    hook.write_text("#!/bin/bash\n")
    assert of(variables, [str(tmp_path)]) != first
    hook.unlink()
    with pytest.raises(wanted.NotKnown, match=r"check\.sh"):
        of(variables, [str(tmp_path)])


@pytest.mark.parametrize("role", ["slurmd", "slurm_login", "node_health"])
def test_a_template_of_the_site_means_a_walk(role: str) -> None:
    with pytest.raises(wanted.NotKnown, match=f"{role}_template"):
        of({f"{role}_template": "own.j2"})
    assert of({f"{role}_template": ""})


def test_a_template_for_controllers_does_not() -> None:
    assert of({"slurmctld_template": "own.j2"})


def test_every_role_with_a_template_is_known() -> None:
    """One that runs on hosts that may be left out must be in the list."""
    others = {
        *("mariadb", "slurmctld", "slurmdbd", "slurmrestd", "slurmrestd_front"),
        # Of hosts whose GPU software is managed: these take part always.
        *("gpu_stack", "nccl", "nvidia_container", "nvidia_driver", "openmpi"),
    }
    found = {
        name.removesuffix("_template")
        for file in (ROOT / "roles").glob("*/defaults/main.yml")
        for name in yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        if name.endswith("_template")
    }
    known = {name.removesuffix("_template") for name in wanted._TEMPLATES}
    assert found == known | others


def test_all_that_roles_read_of_the_collection_is_in_its_digest() -> None:
    for file in (ROOT / "roles").rglob("vars/**/*.yml"):
        for part in re.findall(r"/\.\./\.\./(\w+)", file.read_text(encoding="utf-8")):
            assert part in wanted._PARTS, f"{file}: {part}"


def test_the_digest_of_the_collection_is_over_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = tmp_path / "roles" / "a" / "tasks"
    role.mkdir(parents=True)
    (tmp_path / "galaxy.yml").write_text("version: 1\n")
    monkeypatch.setattr(wanted, "_ROOT", tmp_path)
    monkeypatch.setattr(wanted, "begun", lambda: time.time() + 60)
    seen = set()

    def changed() -> bool:
        wanted.collection_digest.cache_clear()
        made = wanted.collection_digest()
        new = made not in seen
        seen.add(made)
        return new

    try:
        assert changed() and not changed()
        (role / "main.yml").write_text("a")
        assert changed()
        (role / "main.yml").rename(role / "other.yml")
        assert changed()
        (role / "__pycache__").mkdir()
        (role / "__pycache__" / "a.pyc").write_text("a")
        assert not changed()
        stand_in = tmp_path / "artifacts"
        stand_in.mkdir()
        monkeypatch.setenv("TRAINWRIGHT_ARTIFACTS", str(stand_in))
        assert changed()
        (stand_in / "SHA256SUMS").write_text("a  b\n")
        assert changed()
        monkeypatch.setattr(wanted.constants, "DEFAULT_HASH_BEHAVIOUR", "merge")
        assert changed()
    finally:
        wanted.collection_digest.cache_clear()


def test_a_collection_that_changes_while_a_run_works_is_that_of_no_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ansible has read the tasks when it began, so nobody knows which of the two has run."""
    file = tmp_path / "galaxy.yml"
    file.write_text("version: 1\n")
    # As an archive brings it: with the time of its making.
    os.utime(file, (1, 1))
    monkeypatch.setattr(wanted, "_ROOT", tmp_path)
    assert time.time() - 86400 * 365 < wanted.begun() <= time.time()
    wanted.collection_digest.cache_clear()
    try:
        with pytest.raises(wanted.NotKnown, match="galaxy.yml: has changed since this run began"):
            wanted.collection_digest()
        # In a worker it is the run that counts, and not the worker.
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert abs(pool.apply(wanted.begun) - wanted.begun()) < 0.1
    finally:
        wanted.collection_digest.cache_clear()


@pytest.mark.parametrize(
    ("options", "whole"),
    [
        ({"tags": ["all"]}, True),
        ({"tags": ()}, True),
        ({"tags": ["slurmd"]}, False),
        ({"tags": ["all"], "skip_tags": ["slurmd"]}, False),
        ({"tags": ["all"], "start_at_task": "Run slurmd"}, False),
        ({"tags": ["all"], "step": True}, False),
    ],
)
def test_a_run_of_some_tasks_is_not_a_whole_one(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, t.Any], whole: bool
) -> None:
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict(options))
    assert wanted.whole_run() is whole


@pytest.mark.parametrize(
    "variables",
    [
        # In the roles it is defined, and here the default hides that it is not.
        {"slurmd_files": "{{ __text | default('') }}", "__text": "{{ slurm_model.cluster }}"},
        {"slurmd_files": "{{ first }}", "first": "{{ __text }}", "__text": "{{ role_path }}"},
        {"slurmd_files": "{{ ansible_text }}", "ansible_text": "{{ slurm_facts.node }}"},
    ],
)
def test_a_helper_that_is_another_one_in_the_roles_means_a_walk(
    variables: dict[str, t.Any],
) -> None:
    with pytest.raises(wanted.NotKnown, match="depends on the play"):
        of(variables)


def test_the_text_of_a_helper_counts_where_it_cannot_be_read() -> None:
    def text(helper: str) -> t.Any:
        variables = {"sites_banner": "{{ __text }}", "__text": helper}
        return wanted.host_variables(variables, unreadable, [], same)

    assert text("{{ x }} one") != text("{{ x }} two")
    assert text("{{ x }} one") == text("{{ x }} one")


def test_a_variable_of_another_host_may_be_another_one_in_the_roles() -> None:
    given = {"own": "{{ hostvars['ctl1'].banner | default('none') }}"}
    for value, known in (("{{ slurm_model.cluster }} v1", False), ("v1", True)):
        others = {
            "banner": value,
            "slurm_facts": {"a": "slurm_model {"},
            "ansible_x": "{ role_path",
        }
        assert wanted.reads_of_a_play(others) is not known
    assert wanted.host_variables(given, same, [], same, others=lambda: False)["own"] == given["own"]
    with pytest.raises(wanted.NotKnown, match="another host's variable"):
        wanted.host_variables(given, same, [], same, others=lambda: True)
    # Nobody is asked without need.
    wanted.host_variables({"own": "x"}, same, [], same, others=unreadable)  # type: ignore[arg-type]


def test_a_variable_with_the_name_of_a_fact_is_one_of_the_inventory() -> None:
    facts = {"domain": "example.org", "mounts": []}
    assert of({"ansible_facts": facts, "domain": "of the inventory"})["domain"]
    assert "domain" not in of({"ansible_facts": facts, "domain": "example.org"})
    with pytest.raises(wanted.NotKnown, match="may read anything"):
        of({"own": "{{ lookup('trainwright.slurm.template', 'a.j2') }}"})
