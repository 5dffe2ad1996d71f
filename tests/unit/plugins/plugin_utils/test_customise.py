# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A site's own settings, files and templates are taken as they are meant, or refused with the remedy."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.filter.customise import FilterModule
from ansible_collections.trainwright.slurm.plugins.plugin_utils import customise

FILTERS = FilterModule().filters()
OURS = [{"path": "/etc/default/slurmd", "content": "A=1\n"}]


def test_the_sites_files_come_after_the_roles() -> None:
    theirs = [
        {"path": "/etc/motd", "content": "hello\n"},
        {"path": "/etc/issue", "state": "absent"},
    ]
    assert customise.site_files(OURS, theirs) == [*OURS, *theirs]
    assert customise.site_files(OURS, []) == OURS


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ("/etc/motd", "is not a list of files"),
        (["/etc/motd"], "does not have a path"),
        ([{"content": "x"}], "does not have a path"),
        ([{"path": "etc/motd"}], "'etc/motd' is not an absolute path"),
        ([{"path": "/etc/../motd"}], "is not an absolute path"),
        ([{"path": "//etc/motd"}], "is not an absolute path"),
        ([{"path": "/home/$USER/x"}], "is not an absolute path"),
        ([{"path": "/etc/mo\ntd"}], "is not an absolute path"),
        ([{"path": 5}], "is not an absolute path"),
        ([{"path": "/etc/default/slurmd"}], "twice, the role itself writes it"),
        ([{"path": "/etc/motd"}, {"path": "/etc/motd"}], "twice, the list has two entries of it"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused(theirs: t.Any, said: str) -> None:
    with pytest.raises(AnsibleFilterError) as raised:
        FILTERS["site_files"](OURS, theirs)
    assert said in str(raised.value)
    assert " -> " in str(raised.value)


def test_a_template_is_looked_up_beside_the_inventory_then_beside_the_playbook(
    tmp_path: Path,
) -> None:
    choose = FILTERS["site_template"]
    inventory, playbook = tmp_path / "inventory", tmp_path / "playbook"
    for directory in (inventory, playbook):
        directory.mkdir()
    places = (str(inventory), str(playbook))
    assert choose("slurm.conf.j2", "", *places) == "slurm.conf.j2"
    (playbook / "slurm.conf.j2").write_text("")
    assert choose("slurm.conf.j2", "slurm.conf.j2", *places) == str(playbook / "slurm.conf.j2")
    (inventory / "slurm.conf.j2").write_text("")
    assert choose("slurm.conf.j2", "slurm.conf.j2", *places) == str(inventory / "slurm.conf.j2")
    assert choose("slurm.conf.j2", str(playbook / "slurm.conf.j2"), *places) == str(
        playbook / "slurm.conf.j2"
    )
    (inventory / "group_vars").mkdir()
    (inventory / "group_vars" / "slurm.conf.j2").write_text("")
    found = choose("slurm.conf.j2", "slurm.conf.j2", *places)
    assert found == str(inventory / "group_vars" / "slurm.conf.j2")
    # An inventory of -i 'host,' is in no directory.
    assert choose("slurm.conf.j2", "slurm.conf.j2", None, places[1]) == str(
        playbook / "slurm.conf.j2"
    )
    with pytest.raises(
        AnsibleFilterError, match="there is no such file on the control node"
    ) as raised:
        choose("slurm.conf.j2", "other.j2", *places)
    assert str(inventory / "other.j2") in str(raised.value)
    assert str(playbook / "other.j2") in str(raised.value)


def test_a_stamp_changes_with_content_and_path_and_not_with_owner_and_mode() -> None:
    stamp = customise.files_stamp(OURS)
    assert len(stamp) == 64
    assert customise.files_stamp([{**OURS[0], "mode": "0600", "owner": "slurm"}]) == stamp
    others = [
        [{**OURS[0], "content": "A=2\n"}],
        [{**OURS[0], "path": "/etc/default/other"}],
        [{**OURS[0], "state": "absent"}],
        [*OURS, {"path": "/etc/motd", "link": "/run/motd"}],
        [],
    ]
    assert len({stamp, *map(customise.files_stamp, others)}) == 1 + len(others)


def test_settings_become_lines() -> None:
    settings = {"A": 1, "B": None, "C": True, "D": False, "E": ["x", "y"], "F": ""}
    assert customise.conf_lines(settings) == "A=1\nC=yes\nD=no\nE=x\nE=y\nF=\n"
    assert customise.conf_lines({"MaxStartups": "1:2:3"}, " ") == "MaxStartups 1:2:3\n"
    assert customise.conf_lines({}) == ""
    own = {"maxstartups": "1", "B": None}
    assert (
        customise.conf_lines({"MaxStartups": "2", "A": 1, "B": 1}, " ", own)
        == "A 1\nmaxstartups 1\n"
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("A=1", "is not a set of settings"),
        ({"A B": 1}, "'A B' is not a name of a setting"),
        ({"A=1\nB": 1}, "is not a name of a setting"),
        ({"A": "1\nB=2"}, "A: '1\\nB=2' has a line break"),
        ({"A": "1\x85B=2"}, "has a line break or a control character"),
        ({"A": {"B": 1}}, "is not a text or a number"),
        ({"A": [None]}, "is not a text or a number"),
    ],
)
def test_settings_that_would_be_read_as_others_are_refused(settings: t.Any, said: str) -> None:
    with pytest.raises(AnsibleFilterError) as raised:
        FILTERS["conf_lines"](settings)
    assert said in str(raised.value)


def test_options_of_kernel_modules_become_lines() -> None:
    options = {
        "nouveau": None,
        "nvidia": {"NVreg_A": 1, "NVreg_B": None, "NVreg_C": '"a=1; b=2"'},
        "mlx5_core": {"on": True, "off": False},
        "idle": {},
    }
    assert FILTERS["module_options"](options).splitlines() == [
        "options nvidia NVreg_A=1",
        'options nvidia NVreg_C="a=1; b=2"',
        "options mlx5_core on=1",
        "options mlx5_core off=0",
    ]
    assert FILTERS["module_options"]({}) == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("nvidia", "is not a set of modules"),
        ({"nvidia": "a=1"}, "nvidia: 'a=1' is not a set of options"),
        ({"nvidia x": {"a": 1}}, "'nvidia x' is not a name of a kernel module"),
        ({"nvidia": {"a=1 b": 1}}, "'a=1 b' is not a name of a kernel module or of its option"),
        ({"nvidia": {"a": "1 b=2"}}, "nvidia a: '1 b=2' would not be one value"),
        ({"nvidia": {"a": "1\ninstall nvidia reboot"}}, "would not be one value"),
        ({"nvidia": {"a": '"1'}}, "would not be one value"),
        ({"nvidia": {"a": "1\\"}}, "would not be one value"),
        ({"nvidia": {"a": ""}}, "would not be one value"),
        ({"nvidia": {"a": [1]}}, "is not a text or a number"),
    ],
)
def test_options_that_would_be_read_as_others_are_refused(options: t.Any, said: str) -> None:
    with pytest.raises(AnsibleFilterError) as raised:
        FILTERS["module_options"](options)
    assert said in str(raised.value) and " -> " in str(raised.value)


def test_controllers_for_conf_server() -> None:
    model = [{"name": "ctl1", "host": "ctl1.site"}, {"name": "ctl2", "host": "ctl2.site"}]
    assert customise.conf_server(model, 6817) == "ctl1:6817,ctl2:6817"
    assert customise.conf_server(["a.site", "b:7000"], 6817) == "a.site:6817,b:7000"
    for bad in ([], [""], ["a b"], ["a\nb"], ["a:"], ["--x"]):
        with pytest.raises(AnsibleFilterError, match=" -> "):
            FILTERS["conf_server"](bad, 6817)


def test_preflight_names_the_variable_of_each_problem() -> None:
    given = {
        "slurmd_unit": {"Service": {"LimitCORE": "infinity"}, "X-Site": {"A": 1}},
        "slurmctld_unit": {"Servce": {"LimitCORE": "infinity"}},
        "slurmdbd_unit": {"Service": {"Environment": "A=1\nB=2"}},
        "slurmd_files": [{"path": "motd"}],
        "slurmd_template": "missing.j2",
        "slurm_login_template": "",
        "slurm_login_files": [],
        "slurm_conf": {"a": "b\n"},
    }
    found = dict(customise.problems(given, ["/site"], lambda path: False))
    assert set(found) == {"slurmctld_unit", "slurmdbd_unit", "slurmd_files", "slurmd_template"}
    assert "[Servce] is not a section of a service" in found["slurmctld_unit"]
    assert all(" -> " in text for text in found.values())


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("efa_conf", {"a": "1 b=2"}),
        ("gdrcopy_conf", {"dbg enabled": 1}),
        ("nccl_conf", {"NCCL_DEBUG": "WARN\nA=1"}),
        ("nvidia_container_conf", {"NVIDIA CTK": "1"}),
        ("nvidia_driver_conf", {"NVreg_A": 1}),
        ("rdma_core_conf", {"mlx5_core": {"a": "1\n"}}),
        ("nvidia_dcgm_unit", {"Servce": {"Nice": 1}}),
        ("gpu_stack_template", "missing.j2"),
        ("cuda_toolkit_files", [{"content": "no path"}]),
    ],
)
def test_preflight_refuses_what_no_part_of_the_gpu_software_can_write(
    name: str, bad: t.Any
) -> None:
    ((found, text),) = customise.problems({name: bad}, ["/site"], lambda path: False)
    assert found == name and " -> " in text
