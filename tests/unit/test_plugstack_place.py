# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where role pyxis puts its lines in the plugstack.conf of a Slurm that somebody else manages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from tests.unit.test_empty_inventory import OTHERS, ROOT, play

ETC = "/opt/slurm/etc"
INCLUDE = "include /etc/trainwright/plugstack.conf"
SHARED = (
    f"required {ETC}/trainwright/spank_guard-slurm24.11.so unless=/etc/trainwright/plugstack.conf"
)


@pytest.mark.parametrize(
    ("slurm", "given", "path"),
    [
        ({}, "", f"{ETC}/plugstack.conf"),
        (
            {"plugstack_dir": f"{ETC}/plugstack.conf.d"},
            "",
            f"{ETC}/plugstack.conf.d/trainwright.conf",
        ),
        # A block of an earlier run stays where it is: twice, each job would load Pyxis twice.
        (
            {"plugstack_dir": f"{ETC}/plugstack.conf.d", "plugstack": [INCLUDE]},
            "",
            f"{ETC}/plugstack.conf",
        ),
        ({"plugstack_dir": f"{ETC}/plugstack.conf.d"}, f"{ETC}/own.conf", f"{ETC}/own.conf"),
        # PlugStackConfig in slurm.conf.
        ({"plugstack_file": "/etc/site/spank.conf"}, "", "/etc/site/spank.conf"),
        (
            {
                "plugstack_file": "/etc/site/spank.conf",
                "plugstack_dir": "/etc/site/plugstack.conf.d",
            },
            "",
            "/etc/site/plugstack.conf.d/trainwright.conf",
        ),
    ],
)
def test_the_place_of_the_lines(
    tmp_path: Path, slurm: dict[str, object], given: str, path: str
) -> None:
    facts = {"config_dir": ETC, "plugstack": [], "plugstack_file": f"{ETC}/plugstack.conf", "plugstack_dir": "",
             "manager": "parallelcluster"}  # fmt: skip
    node = {"slurm": {**facts, "version": "24.11.5", **slurm}}
    show = {"path": "{{ __pyxis_plugstack_file }}", "lines": "{{ __pyxis_plugstack_lines }}"}
    tasks = [
        {"ansible.builtin.include_vars": {"dir": str(ROOT / "roles" / "pyxis" / "vars" / "main")}},
        {
            "ansible.builtin.copy": {
                "dest": str(tmp_path / "made"),
                "content": "{{ show | to_json }}",
            }
        },
    ]
    variables = {
        "slurm_facts": {"node": node},
        "pyxis_plugstack_file": given,
        "pyxis_slurm_prefix": "",
        "ansible_python_interpreter": sys.executable,
    }
    (tmp_path / "inventory").write_text(OTHERS, encoding="utf-8")
    made = [{"hosts": "all", "gather_facts": False, "tasks": tasks, "vars": {"show": show}}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(made), encoding="utf-8")
    code, said = play(tmp_path, str(tmp_path / "play.yml"), "-e", json.dumps(variables))
    assert code == 0, said
    assert json.loads((tmp_path / "made").read_text(encoding="utf-8")) == {
        "path": path,
        "lines": [INCLUDE, SHARED],
    }


def test_no_line_is_added_where_a_host_before_it_failed() -> None:
    """A host that failed is left out of later plays, and these would add the line without its part being there."""
    plays = yaml.safe_load((ROOT / "playbooks" / "containers.yml").read_text(encoding="utf-8"))
    names = [play["name"] for play in plays]
    before = plays[1 : names.index("Add Pyxis to Slurm")]
    assert before and [one["name"] for one in before if not one.get("any_errors_fatal")] == []
