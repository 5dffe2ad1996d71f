# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A drop-in contains its settings, and a name or value that systemd would misread is refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.filter.unit_drop_in import unit_drop_in


def test_sections_and_settings_keep_their_order() -> None:
    sections = {"Unit": {"After": "munge.service"}, "Service": {"TasksMax": "infinity", "Nice": 5}}
    assert (
        unit_drop_in(sections)
        == "[Unit]\nAfter=munge.service\n\n[Service]\nTasksMax=infinity\nNice=5\n"
    )


def test_a_list_gives_several_lines_and_an_empty_text_resets() -> None:
    assert (
        unit_drop_in({"Service": {"ExecStart": ["", "/usr/sbin/slurmd -D"]}})
        == "[Service]\nExecStart=\nExecStart=/usr/sbin/slurmd -D\n"
    )
    assert unit_drop_in({"Unit": {"ConditionPathExists": ""}}) == "[Unit]\nConditionPathExists=\n"


def test_null_removes_a_setting_or_a_section() -> None:
    sections = {
        "Unit": None,
        "Service": {"Restart": None, "RestartSec": 5},
        "Install": {"Alias": None},
    }
    assert unit_drop_in(sections) == "[Service]\nRestartSec=5\n"
    assert unit_drop_in({"Service": {"Restart": None, "After": []}}) == ""
    assert unit_drop_in({}) == ""


def test_truth_values_are_systemds() -> None:
    assert (
        unit_drop_in({"Service": {"Delegate": True, "PrivateTmp": False}})
        == "[Service]\nDelegate=yes\nPrivateTmp=no\n"
    )


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (["Service"], "not a set of sections"),
        ({"service": {"Nice": 5}}, "'service' is not a section of a unit"),
        ({"Service]\n[Unit": {"Nice": 5}}, "is not a section of a unit"),
        ({"Service": "Nice=5"}, "[Service]: 'Nice=5' is not a set of settings"),
        ({"Service": {"Nice=5\nUser": "root"}}, "is not a setting of systemd"),
        ({"Service": {"": "root"}}, "is not a setting of systemd"),
        ({"Service": {"nice": 5}}, "'nice' is not a setting of systemd"),
        (
            {"Service": {"Environment": "A=1\nUser=root"}},
            "[Service] Environment: 'A=1\\nUser=root'",
        ),
        ({"Service": {"Environment": ["A=1", "B=2\r"]}}, "has a line break"),
        ({"Service": {"ExecStart": "/bin/true \\"}}, "ends with a backslash"),
        ({"Service": {"Environment": {"A": 1}}}, "is not a text or a number"),
        ({"Service": {"Environment": [None]}}, "is not a text or a number"),
    ],
)
def test_what_systemd_would_misread_is_refused(sections: t.Any, said: str) -> None:
    with pytest.raises(AnsibleFilterError) as raised:
        unit_drop_in(sections)
    assert said in str(raised.value)
    assert " -> " in str(raised.value)
