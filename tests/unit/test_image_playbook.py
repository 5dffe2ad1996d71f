# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""image.yml installs the GPU and EFA software where it is managed, and gives join.yml all that its roles read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.test_empty_inventory import ROOT, play

NAME = "Set up the GPU and EFA software"
LOCAL = {"ansible_connection": "local"}
INVENTORY = {
    "all": {
        "children": {
            "slurm_controller": {"hosts": {"ctl": LOCAL}},
            "slurm_compute": {"hosts": {"c1": LOCAL, "img": LOCAL}},
            "slurm_image": {"hosts": {"img": LOCAL}},
        }
    }
}


def find(playbook: str) -> dict[str, Any]:
    plays = yaml.safe_load((ROOT / "playbooks" / playbook).read_text(encoding="utf-8"))
    (found,) = [one for one in plays if one["name"] == NAME]
    return dict(found)


def run(tmp_path: Path, managed: list[str], efa: str = "", **plan: Any) -> tuple[int, str]:
    """Run the play with its own hosts and refusals, and without its roles. efa: why EFA waits for a boot."""
    of_image = find("image.yml")
    of_image["become"] = False
    of_image["tasks"] = [
        task for task in of_image["tasks"] if "ansible.builtin.import_role" not in task
    ] + [{"ansible.builtin.debug": {"msg": "set up {{ inventory_hostname }}"}}]
    model = {"stack": {"hosts": {host: {} for host in managed}}}
    told = {"ansible.builtin.set_fact": {"slurm_model": model}}
    first = {"hosts": "ctl", "gather_facts": False, "tasks": [told]}
    (tmp_path / "inventory").write_text(yaml.safe_dump(INVENTORY), encoding="utf-8")
    (tmp_path / "play.yml").write_text(yaml.safe_dump([first, of_image]), encoding="utf-8")
    boot = {"waits": False, "reason": "", **plan}
    given = json.dumps({"__gpu_stack_boot": boot, "__gpu_stack_efa_waits_for": efa})
    return play(tmp_path, str(tmp_path / "play.yml"), "-e", given)


@pytest.mark.parametrize(
    ("managed", "hosts"), [(["c1", "img"], ["img"]), (["c1"], []), ([], [])], ids=str
)
def test_only_a_managed_machine_for_an_image_gets_it(
    tmp_path: Path, managed: list[str], hosts: list[str]
) -> None:
    code, said = run(tmp_path, managed)
    assert code == 0, said
    assert [host for host in ("ctl", "c1", "img") if f"set up {host}" in said] == hosts


def test_packages_that_wait_for_a_boot_are_not_put_into_an_image(tmp_path: Path) -> None:
    reason = "NVIDIA driver 2 instead of 1, which is loaded"
    for given in ({"waits": True, "reason": reason}, {"efa": reason}):
        code, said = run(tmp_path, ["img"], **given)
        assert code == 2 and "set up img" not in said
        assert f"img: {reason}, and the next boot installs it -> reboot" in said


def test_it_installs_what_site_yml_installs() -> None:
    role = "ansible.builtin.import_role"
    installed = [
        [task[role]["name"] for task in find(playbook)["tasks"] if role in task]
        for playbook in ("site.yml", "image.yml")
    ]
    assert installed[0] == ["trainwright.slurm.gpu_stack"]
    assert installed[1] == [*installed[0], "trainwright.slurm.cluster"]


def test_a_node_that_joins_has_every_key_of_the_model_that_its_roles_read() -> None:
    """The model in the image is a part of the cluster's, and join.yml adds what the controllers know."""
    (_read, joining) = yaml.safe_load((ROOT / "playbooks" / "join.yml").read_text("utf-8"))
    text = json.dumps(joining)
    roles = {name for name in re.findall(r"trainwright\.slurm\.([a-z_]+)", text)} & {
        path.name for path in (ROOT / "roles").iterdir()
    }
    assert {"slurmd", "node_health", "slurm_auth"} <= roles
    plays = yaml.safe_load((ROOT / "playbooks" / "image.yml").read_text("utf-8"))
    keys = {*plays[-1]["vars"]["__image_model_keys"], "hosts", "host_keys", "nodes"}
    read = set()
    for role in roles:
        for path in (ROOT / "roles" / role).rglob("*"):
            if path.suffix in (".yml", ".j2") and {"tasks", "vars", "templates"} & {*path.parts}:
                read |= set(re.findall(r"slurm_model\.([a-z_]+)", path.read_text("utf-8")))
    assert "mounts" in read and read <= keys, read - keys


def test_a_node_that_joins_has_every_variable_of_other_roles_that_its_roles_read() -> None:
    """Such as slurm_job_tmp, which role node_scratch reads: the control node's variables are not there."""
    (_read, joining) = yaml.safe_load((ROOT / "playbooks" / "join.yml").read_text("utf-8"))
    plays = yaml.safe_load((ROOT / "playbooks" / "image.yml").read_text("utf-8"))
    module = "trainwright.slurm.node_bundle"
    (pack,) = [task[module] for task in plays[-1]["tasks"] if module in task]
    read = set()
    for role in re.findall(r"trainwright\.slurm\.([a-z_]+)", json.dumps(joining)):
        for path in (ROOT / "roles" / role).rglob("*"):
            if path.suffix in (".yml", ".j2") and {"tasks", "vars", "templates"} & {*path.parts}:
                text = path.read_text("utf-8")
                read |= set(re.findall(r"\b((?:slurm|lustre)_[a-z_]+) \| default\(", text))
    # What the inventory declares for the node comes with the next site.yml, and another Slurm is refused.
    read -= {"slurm_facts", "slurm_model", "slurm_key", "slurm_node", "slurm_prefix"}
    assert "slurm_job_tmp" in read
    assert [one for one in read if not re.fullmatch("|".join(pack["variables"]), one)] == []


def test_the_health_checks_of_a_node_that_joins_are_configured(tmp_path: Path) -> None:
    """As the role has it, with no more of the model than join.yml gives."""
    (_read, joining) = yaml.safe_load((ROOT / "playbooks" / "join.yml").read_text("utf-8"))
    tasks = [
        task
        for task in joining["tasks"][0]["block"]
        if task["name"] == "Take the node as the controllers define it"
    ]
    shown = "{{ slurm_model | trainwright.slurm.health_config('img', groups, {}) | to_json }}"
    tasks.append({"ansible.builtin.debug": {"msg": shown}})
    tasks.insert(
        0,
        {"ansible.builtin.set_fact": {"slurm_model": {"auth_type": "munge", "slurmd_digest": ""}}},
    )
    of_node = {"hosts": "img", "gather_facts": False, "tasks": tasks}
    (tmp_path / "inventory").write_text(yaml.safe_dump(INVENTORY), encoding="utf-8")
    (tmp_path / "play.yml").write_text(yaml.safe_dump([of_node]), encoding="utf-8")
    known = {"nodes": [{"name": "gpu07", "memory": 1024}]}
    code, said = play(
        tmp_path, str(tmp_path / "play.yml"), "-e", json.dumps({"__join_known": known})
    )
    assert code == 0, said
    said = said.replace("\\", "")
    assert '"node": "gpu07"' in said and '"memory_mb": 1024' in said


@pytest.mark.parametrize(("kind", "code"), [("munge", 0), ("slurm", 2)])
def test_keys_that_a_node_cannot_ask_with_are_refused(tmp_path: Path, kind: str, code: int) -> None:
    plays = yaml.safe_load((ROOT / "playbooks" / "image.yml").read_text("utf-8"))
    (reading,) = [one for one in plays if one["name"] == "Read the cluster and refuse bad input"]
    told = {"ansible.builtin.set_fact": {"slurm_model": {"auth_type": kind}}}
    reading.update(become=False, tasks=[told, *reading["tasks"][1:]])
    (tmp_path / "inventory").write_text(yaml.safe_dump(INVENTORY), encoding="utf-8")
    (tmp_path / "play.yml").write_text(yaml.safe_dump([reading]), encoding="utf-8")
    got, said = play(tmp_path, str(tmp_path / "play.yml"))
    assert got == code, said
    refused = "slurm_auth_type slurm: nodes join from an image with munge alone -> add the nodes"
    assert (refused in said) == bool(code)
