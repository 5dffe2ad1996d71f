# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plugstack.conf that Slurm reads is found where slurm.conf says, and is root's before root writes to it."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import plugstack_place, spank

from .test_slurm_places import put

ETC = "/opt/slurm/etc"


def read(root: Path, conf: str = "") -> dict[str, t.Any]:
    return plugstack_place.facts(conf, ETC, str(root))


@pytest.mark.parametrize(
    ("conf", "path"),
    [
        ("ClusterName=x", f"{ETC}/plugstack.conf"),
        ("#PlugStackConfig=/a/b", f"{ETC}/plugstack.conf"),
        ("ClusterName=x\n plugstackconfig = /etc/site/spank.conf # ours", "/etc/site/spank.conf"),
        ('PlugStackConfig="/etc/site/spank.conf"', "/etc/site/spank.conf"),
    ],
)
def test_slurm_conf_may_name_another_place(tmp_path: Path, conf: str, path: str) -> None:
    put(tmp_path, f"{ETC[1:]}/slurm.conf", conf)
    put(tmp_path, path[1:], f"{spank.INCLUDE}\n")
    found = read(tmp_path, conf)
    assert (found["plugstack_file"], found["plugstack"]) == (path, [spank.INCLUDE])


def test_a_configless_node_reads_what_its_daemon_fetched(tmp_path: Path) -> None:
    put(tmp_path, "run/slurm/conf/slurm.conf", "ClusterName=x")
    put(tmp_path, "run/slurm/conf/plugstack.conf", spank.INCLUDE)
    found = read(tmp_path)
    assert found["plugstack_file"] == "/run/slurm/conf/plugstack.conf" and found["plugstack_own"]
    assert "a copy of what slurmctld sends" in found["plugstack_fault"]


def test_a_pyxis_of_somebody_else_is_found_behind_an_include(tmp_path: Path) -> None:
    """As in the samples of ParallelCluster, once somebody has copied them."""
    own = "required /usr/lib/trainwright/pyxis/spank_pyxis-0.24.0-slurm24.11.so\n"
    put(tmp_path, "opt/slurm/etc/plugstack.conf", "include plugstack.conf.d/*\n" + own)
    assert read(tmp_path)["other_pyxis"] == []
    put(tmp_path, "opt/slurm/etc/plugstack.conf.d/pyxis.conf",
        "# required /x/spank_pyxis.so\nrequired /usr/local/lib/slurm/spank_pyxis.so\n")  # fmt: skip
    assert read(tmp_path)["other_pyxis"] == ["/usr/local/lib/slurm/spank_pyxis.so"]


def test_the_line_of_a_host_s_own_part_is_found_where_slurm_finds_it(tmp_path: Path) -> None:
    """An include is relative to its file; a file that nothing includes does not count, nor does a comment."""
    put(tmp_path, "opt/slurm/etc/plugstack.conf", f"#{spank.INCLUDE}\ninclude site/*.conf\n")
    put(tmp_path, "opt/slurm/etc/plugstack.conf.d/trainwright.conf", spank.INCLUDE)
    assert not read(tmp_path)["plugstack_own"]
    put(tmp_path, "opt/slurm/etc/site/a.conf", "include below/b.conf\n")
    put(tmp_path, "opt/slurm/etc/site/below/b.conf", f"{spank.INCLUDE}\n")
    assert read(tmp_path)["plugstack_own"]
    assert not read(tmp_path, "PlugStackConfig=/etc/other.conf")["plugstack_own"]


def test_files_that_include_each_other_end(tmp_path: Path) -> None:
    put(tmp_path, "opt/slurm/etc/plugstack.conf", "include plugstack.conf\ninclude *.conf\n")
    assert not read(tmp_path)["plugstack_own"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of root")
def test_root_writes_only_to_what_nobody_else_can_change(tmp_path: Path) -> None:
    conf, home = tmp_path / "plugstack.conf", tmp_path / "home"
    (tmp_path / "site.conf").write_text("", encoding="utf-8")
    home.mkdir()
    (home / "conf").write_text("", encoding="utf-8")
    for path in (home, home / "conf"):
        os.chown(path, 12345, 12345)
    assert plugstack_place.fault(str(conf)) == ""
    for target, said in (
        ("site.conf", ""),
        ("home/conf", "leads to what belongs to 12345"),
        ("home/none", "leads to a file that does not exist"),
        ("none", "leads to a file that does not exist"),
        ("/dev/null", "is neither a file nor a directory"),
    ):
        conf.symlink_to(target)
        found = plugstack_place.fault(str(conf))
        assert said in found and bool(said) == bool(found), (target, found)
        conf.unlink()
    conf.write_text("", encoding="utf-8")
    assert plugstack_place.fault(str(conf)) == ""
    conf.chmod(0o666)
    assert "others can write to it" in plugstack_place.fault(str(conf))
