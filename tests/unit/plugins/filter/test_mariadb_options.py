# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An option file has ours with the site's on top, and names and values that MariaDB would misread are refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.filter.mariadb_options import mariadb_options

OURS = {"mysqld": {"bind-address": "127.0.0.1", "max_allowed_packet": "16M"}}


@pytest.mark.parametrize(
    ("theirs", "text"),
    [
        ({}, "[mysqld]\nbind-address = 127.0.0.1\nmax_allowed_packet = 16M\n"),
        (None, "[mysqld]\nbind-address = 127.0.0.1\nmax_allowed_packet = 16M\n"),
        ({"max-allowed-packet": "64M"}, "[mysqld]\nbind-address = 127.0.0.1\nmax_allowed_packet = 64M\n"),
        ({"bind_address": None}, "[mysqld]\nmax_allowed_packet = 16M\n"),
        ({"mysqld": {"bind_address": None}}, "[mysqld]\nmax_allowed_packet = 16M\n"),
        ({"mysqld": None}, ""),
        ({"bind_address": None, "max_allowed_packet": None, "skip_name_resolve": True},
         "[mysqld]\nskip_name_resolve = ON\n"),
        ({"mysqld": None, "client": {"port": 3307, "ssl": False}}, "[client]\nport = 3307\nssl = OFF\n"),
        ({"mysqld": None, "mariadb": {"plugin_load_add": ["a", "b"]}},
         "[mariadb]\nplugin_load_add = a\nplugin_load_add = b\n"),
    ],
)  # fmt: skip
def test_ours_with_the_sites_on_top(theirs: t.Any, text: str) -> None:
    assert mariadb_options(OURS, theirs) == text


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({"a\nb": 1}, "is not an option of MariaDB"),
        ({"mysqld": {"a b": 1}}, "[mysqld] 'a b' is not an option of MariaDB"),
        ({"mysqld]\n[x": {"a": 1}}, "is not a section of an option file"),
        ({"init_connect": "x\n[mysqld_safe]"}, "has a line break"),
        ({"mysqld": {"a": {"b": 1}}}, "is not a text or a number"),
        (["a"], "is not a set of options"),
    ],
)
def test_what_mariadb_would_misread_is_refused(theirs: t.Any, said: str) -> None:
    with pytest.raises(AnsibleFilterError) as raised:
        mariadb_options(OURS, theirs)
    assert said in str(raised.value) and " -> " in str(raised.value)
