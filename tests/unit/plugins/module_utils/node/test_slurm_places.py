# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm is found wherever somebody else has put it, and nobody but root can say where it is."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import slurm_places, spank

PCS = "opt/aws/pcs/scheduler/slurm-"


def put(root: Path, path: str, text: str = "") -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def test_slurm_of_parallelcluster(tmp_path: Path) -> None:
    put(tmp_path, "opt/slurm/sbin/slurmd")
    put(tmp_path, "opt/slurm/etc/slurm.conf")
    put(tmp_path, "opt/slurm/lib/slurm/auth_munge.so")
    assert slurm_places.slurm_places(str(tmp_path)) == {
        "prefix": "/opt/slurm",
        "sbin": "/opt/slurm/sbin",
        "config_dir": "/opt/slurm/etc",
        "plugin_dir": "/opt/slurm/lib/slurm",
    }
    assert slurm_places.manager("/opt/slurm", str(tmp_path)) == ""
    put(tmp_path, "etc/parallelcluster/cfnconfig")
    assert slurm_places.manager("/opt/slurm", str(tmp_path)) == "parallelcluster"


def test_slurm_of_pcs_is_the_newest_unless_another_is_given(tmp_path: Path) -> None:
    for release in ("24.11", "25.05", "25.11"):
        put(tmp_path, f"{PCS}{release}/bin/sinfo")
    put(tmp_path, "etc/aws/pcs/scheduler/slurm-25.11/plugstack.conf.d/x.conf")
    newest = slurm_places.slurm_places(str(tmp_path))
    assert newest["prefix"] == f"/{PCS}25.11"
    assert newest["config_dir"] == "/etc/aws/pcs/scheduler/slurm-25.11"
    assert slurm_places.manager(newest["prefix"], str(tmp_path)) == "pcs"
    given = slurm_places.slurm_places(str(tmp_path), f"/{PCS}24.11/")
    assert given["prefix"] == f"/{PCS}24.11"


def test_slurm_of_debian(tmp_path: Path) -> None:
    put(tmp_path, "usr/sbin/slurmd")
    put(tmp_path, "usr/lib/x86_64-linux-gnu/slurm-wlm/auth_munge.so")
    places = slurm_places.slurm_places(str(tmp_path))
    assert places["plugin_dir"] == "/usr/lib/x86_64-linux-gnu/slurm-wlm"
    assert places["config_dir"] == "/etc/slurm"


def test_a_slurm_conf_of_the_host_is_named_unless_it_leads_to_the_fetched_one(
    tmp_path: Path,
) -> None:
    assert slurm_places.own_conf("/etc/slurm", str(tmp_path)) == ""
    path = tmp_path / "etc/slurm/slurm.conf"
    path.parent.mkdir(parents=True)
    path.symlink_to("/run/slurm/conf/slurm.conf")
    assert slurm_places.own_conf("/etc/slurm", str(tmp_path)) == ""
    path.unlink()
    path.symlink_to("/srv/elsewhere")  # also one that leads nowhere
    assert slurm_places.own_conf("/etc/slurm", str(tmp_path)) == "/etc/slurm/slurm.conf"
    path.unlink()
    put(tmp_path, "etc/slurm/slurm.conf")
    assert slurm_places.own_conf("/etc/slurm", str(tmp_path)) == "/etc/slurm/slurm.conf"


def test_a_directory_that_leads_to_the_fetched_one_is_no_conf_of_the_host(tmp_path: Path) -> None:
    """Moved away, the fetched one would be gone."""
    put(tmp_path, "run/slurm/conf/slurm.conf")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/slurm").symlink_to(tmp_path / "run/slurm/conf")
    assert slurm_places.own_conf("/etc/slurm", str(tmp_path)) == ""


def test_the_slurm_conf_of_an_rpm_is_told_from_somebodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, programs = tmp_path / "slurm.conf", tmp_path / "bin"
    path.write_text("ClusterName=cluster\n")
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    assert not slurm_places.is_packaged(str(path)), "a host without rpm"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (programs / "rpm").write_text(
        f"#!/bin/sh\n[ \"$1 $2\" = '-qf --qf' ] && printf '/usr/bin/srun\\t%s\\n%s\\t{digest}\\n' 0 \"$4\"\n"
    )
    (programs / "rpm").chmod(0o755)
    assert slurm_places.is_packaged(str(path))
    path.write_text("ClusterName=ours\n")
    assert not slurm_places.is_packaged(str(path))
    (programs / "rpm").write_text("#!/bin/sh\necho 'file is not owned by any package'\nexit 1\n")
    assert not slurm_places.is_packaged(str(path))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("B=2 C=3\nA=1\n", True),
        ("a = 1  # one\n\n# two\nC=3 b=2\n", True),
        ("A=1\nB=2 \\\n  C=3\n", True),
        ("A=1\nB=2\nC=3\n", False),
        ("A=1\nB=2 C=4\n", False),
        ("A=1\nB=2 C=x\n", False),
    ],
)
def test_digests_of_a_slurm_conf_are_of_what_slurm_heeds(
    tmp_path: Path, text: str, same: bool
) -> None:
    for place, content in (("run/slurm/conf", "A=1\nB=2 C=3\n"), ("etc/slurm", text)):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "slurm.conf").write_text(content)
    found = slurm_places.conf_digests("/etc/slurm", str(tmp_path))
    assert (found["conf_fetched"] == found["conf_written"]) is same
    assert found["conf_accepted"] == "" and len(found["conf_written"]) == 64


def test_a_host_without_slurm_will_have_it_in_usr(tmp_path: Path) -> None:
    places = slurm_places.slurm_places(str(tmp_path))
    assert (places["prefix"], places["config_dir"]) == ("/usr", "/etc/slurm")
    # One that is given stays where it is, so that the message names it.
    assert slurm_places.slurm_places(str(tmp_path), "/sw/slurm")["prefix"] == "/sw/slurm"


def test_only_a_prefix_that_is_given_may_be_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "bin/sinfo")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin")
    assert str(tmp_path) not in slurm_places.prefixes()
    assert slurm_places.prefixes(given=str(tmp_path))[0] == str(tmp_path)


def process(proc: Path, number: int, name: str, program: Path | str) -> None:
    directory = proc / str(number)
    directory.mkdir(parents=True)
    (directory / "comm").write_text(f"{name}\n", encoding="utf-8")
    (directory / "exe").symlink_to(program)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of root")
def test_the_prefix_of_a_running_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = tmp_path / "proc"
    for name in ("old", "new", "users", "other"):
        put(tmp_path, f"{name}/sbin/slurmd")
        put(tmp_path, f"{name}/sbin/slurmctld")
    process(proc, 10, "slurmctld", tmp_path / "old/sbin/slurmctld")
    process(proc, 20, "slurmd", tmp_path / "new/sbin/slurmd")
    process(proc, 30, "slurmd", tmp_path / "users/sbin/slurmd")
    process(proc, 40, "bash", tmp_path / "other/sbin/slurmd")
    # Of a container: its path is another file here, or none.
    process(proc, 50, "slurmd", "/nonexistent/sbin/slurmd")
    os.chown(proc / "30", 12345, 12345)
    # The directories of a test are below /tmp, where others can write.
    monkeypatch.setattr(slurm_places, "_only_roots", os.path.isfile)
    found = slurm_places.running_prefixes(str(proc))
    assert found == [str(tmp_path / "new"), str(tmp_path / "old")]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of root")
def test_a_program_of_a_user_is_not_a_daemon(tmp_path: Path) -> None:
    program = tmp_path / "slurm/sbin/slurmd"
    put(tmp_path, "slurm/sbin/slurmd")
    os.chown(program, 12345, 12345)
    process(tmp_path / "proc", 10, "slurmd", program)
    assert slurm_places.running_prefixes(str(tmp_path / "proc")) == []


def test_includes_are_read_as_slurm_does(tmp_path: Path) -> None:
    put(tmp_path, "opt/slurm/etc/slurm.conf",
        "ClusterName=train\nInclude slurm_parallelcluster.conf\nProlog=/a/*\n prolog = /b # c\n")  # fmt: skip
    put(tmp_path, "opt/slurm/etc/slurm_parallelcluster.conf",
        "include /opt/slurm/etc/pcluster/queue.conf\nAccountingStorageHost=db\n")  # fmt: skip
    put(tmp_path, "opt/slurm/etc/pcluster/queue.conf", "NodeName=gpu-dy-cr-1\n")
    text = slurm_places.slurm_conf("/opt/slurm/etc", str(tmp_path))
    assert "NodeName=gpu-dy-cr-1" in text and "AccountingStorageHost=db" in text
    assert slurm_places.scripts(text, "Prolog") == ["/a/*", "/b"]
    assert slurm_places.scripts(text, "Epilog") == []


def test_files_that_include_each_other_end(tmp_path: Path) -> None:
    put(tmp_path, "etc/slurm/slurm.conf", "include slurm.conf\nClusterName=x\n")
    assert slurm_places.slurm_conf("/etc/slurm", str(tmp_path)).count("ClusterName") == 5


def test_a_configless_node_has_what_its_daemon_fetched(tmp_path: Path) -> None:
    put(tmp_path, "run/slurm/conf/slurm.conf", "ClusterName=train\n")
    assert slurm_places.slurm_conf("/opt/slurm/etc", str(tmp_path)) == "ClusterName=train"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("include {etc}/plugstack.conf.d/*", True),
        ("include plugstack.conf.d/*.conf", True),
        ("include {etc}/plugstack.conf.d/pyxis.conf", False),
        ("include /home/alice/plugstack.conf.d/*", False),
        ("required {etc}/plugstack.conf.d/*", False),
    ],
)
def test_the_directory_of_which_plugstack_conf_includes_all_files(
    tmp_path: Path, line: str, found: bool
) -> None:
    """Only where it is there: nothing else would create it before a file is written to it."""
    conf, directory = ["optional x.so", line.format(etc=tmp_path)], tmp_path / "plugstack.conf.d"
    assert spank.included_directory(conf, str(tmp_path)) == ""
    directory.mkdir()
    assert spank.included_directory(conf, str(tmp_path)) == (str(directory) if found else "")
