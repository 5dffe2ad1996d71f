# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""slurm_conf on real files: what is found, refused, written, and what it takes."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import file
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError

TEXT = """# ours
ClusterName=t
SlurmctldHost=ctl1
NodeName=c[1-2] CPUs=4
PartitionName=batch Nodes=ALL
"""


def no_slurm(argv: list[str]) -> tuple[int, str, str]:
    raise AssertionError(f"runs {argv}")


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SLURM_CONF", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(file, "DIRECTORIES", ())
    monkeypatch.setattr(file, "_CONFIG", (str(tmp_path / "none"), str(tmp_path)))
    path = tmp_path / "slurm.conf"
    path.write_text(TEXT)
    return path


def edit(path: Path | None, run: file.Run = no_slurm, **options: t.Any) -> file.Edit:
    given = {"path": str(path) if path else None, "version": "24.11", **options}
    return file.Edit(given, run)


def program(path: Path, name: str, text: str = "") -> Path:
    """A program that prints a text."""
    path.mkdir(parents=True, exist_ok=True)
    made = path / name
    made.write_text(f"#!/bin/sh\necho '{text}'\n")
    made.chmod(0o755)
    return made


def test_the_file_is_replaced_with_its_mode_through_a_link(conf: Path) -> None:
    conf.chmod(0o640)
    link = conf.parent / "link.conf"
    link.symlink_to(conf)
    made = edit(link, settings={"MaxJobCount": 5})
    assert made.changed and conf.read_text() == TEXT
    made.write()
    assert conf.read_text() == TEXT.replace("ctl1\n", "ctl1\nMaxJobCount=5\n")
    assert link.is_symlink() and conf.stat().st_mode & 0o7777 == 0o640
    assert {path.name for path in conf.parent.iterdir()} == {"slurm.conf", "link.conf"}
    assert not edit(link, settings={"MaxJobCount": 5}).changed


def test_bytes_that_are_no_utf8_and_line_ends_stay(conf: Path) -> None:
    conf.write_bytes(b"# M\xfcnchen\r\nClusterName=t\r\n")
    edit(conf, settings={"KillWait": 9}).write()
    assert conf.read_bytes() == b"# M\xfcnchen\r\nClusterName=t\r\nKillWait=9\r\n"


@pytest.mark.parametrize(
    ("version", "given", "action", "slurmd", "steps"),
    [
        ("24.11", {}, "none", False, []),
        ("24.11", {"MaxJobCount": 5}, "reconfigure", False, ["scontrol reconfigure"]),
        ("22.05", {"MaxJobCount": 5}, "restart", False, ["slurmctld", "scontrol reconfigure"]),
        ("22.05", {"TaskPlugin": "a"}, "reconfigure", True, ["reconfigure", "restart slurmd"]),
        ("24.11", {"SlurmdPort": 7}, "restart", True, ["slurmctld", "restart slurmd"]),
    ],
)
def test_what_a_change_takes(
    conf: Path, version: str, given: dict[str, t.Any], action: str, slurmd: bool, steps: list[str]
) -> None:
    result = edit(conf, version=version, settings=given).result()
    assert (result["action"], result["slurmd_restart"]) == (action, slurmd)
    assert len(result["next_steps"]) == len(steps)
    for said, part in zip(result["next_steps"], steps):
        assert part in said
    assert [reason["parameter"] for reason in result["reasons"]] == list(given)
    assert all(reason["why"] for reason in result["reasons"])


def test_nodes_take_a_restart_before_23_11(conf: Path) -> None:
    nodes = [{"name": "c3", "CPUs": 4}, {"name": "c[1-2]", "Weight": 3}]
    old = edit(conf, version="22.05", nodes=nodes).result()
    assert old["action"] == "restart"
    why = {reason["parameter"]: reason["why"] for reason in old["reasons"]}
    assert "when nodes come or go" in why["NodeName=c3"]
    assert "unless noted otherwise" in why["NodeName=c1 Weight"]
    assert edit(conf, nodes=nodes).result()["action"] == "reconfigure"


@pytest.mark.parametrize("name", ["StateSaveLocation", "SlurmdSpoolDir", "SelectType"])
def test_what_loses_jobs_is_refused_unless_it_is_allowed(conf: Path, name: str) -> None:
    made = edit(conf, settings={name: "/x"})
    assert f"{name} (" in made.refused and "allow_refused" in made.refused
    assert made.result()["action"] == "refuse" and made.result()["next_steps"] == []
    allowed = edit(conf, settings={name: "/x"}, allow_refused=True)
    assert not allowed.refused and allowed.result()["action"] == "restart"
    assert allowed.result()["reasons"][0]["action"] == "refuse"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"settings": {"MaxJobCounts": 1}}, "did you mean MaxJobCount"),
        ({"nodes": [{"name": "c1", "CPU": 1}]}, "did you mean CPUs"),
        ({"settings": {"CertmgrType": "x"}, "version": "22.05"}, "Slurm has it from 24.11 on"),
        ({"partitions": [{"name": "x", "Nodes": "c[2-3]"}]}, "no NodeName line has: c3 -> "),
        (
            {"partitions": [{"name": "x", "Nodes": "c[1-2]"}], "file": "cgroup.conf"},
            "cannot have such lines",
        ),
        ({"file": "gres.conf", "settings": {"MaxJobCount": 1}}, "it belongs to slurm.conf"),
    ],
)
def test_what_slurm_would_not_read_is_refused(
    conf: Path, options: dict[str, t.Any], why: str
) -> None:
    with pytest.raises(SlurmError, match=why):
        edit(conf, **options)


def test_nodes_that_were_missing_before_are_not_this_change(conf: Path) -> None:
    conf.write_text(TEXT + "PartitionName=old Nodes=gone\n")
    assert edit(conf, settings={"KillWait": 9}).changed
    with pytest.raises(SlurmError, match=r"PartitionName=new .* c9"):
        edit(conf, partitions=[{"name": "new", "Nodes": "gone,c9"}])


def test_includes_are_read_and_not_edited(conf: Path) -> None:
    (conf.parent / "more-t.conf").write_text("Include deep.conf\nNodeName=d1 CPUs=1\n")
    (conf.parent / "deep.conf").write_text("KillWait=30\n")
    conf.write_text(TEXT + "Include more-%c.conf\n")
    with pytest.raises(SlurmError, match=r"path: .*/deep\.conf"):
        edit(conf, settings={"KillWait": 9})
    assert edit(conf, partitions=[{"name": "d", "Nodes": "d1"}]).changed
    deep = edit(conf.parent / "deep.conf", settings={"KillWait": 9})
    assert deep.new == "KillWait=9\n" and deep.result()["file"] == "slurm.conf"
    (conf.parent / "deep.conf").unlink()
    with pytest.raises(SlurmError, match=r"deep\.conf: No such file"):
        edit(conf, settings={"KillWait": 9})


def test_a_file_that_cannot_be_read_is_left_to_a_person(conf: Path) -> None:
    conf.write_text("A=1 B=2\n")
    with pytest.raises(SlurmError, match=r"line 1: A and B are in one line.* by hand"):
        edit(conf, settings={"KillWait": 9})


def test_the_file_is_found(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert edit(None).path == str(conf)
    other = conf.parent / "own" / "etc"
    other.mkdir(parents=True)
    (other / "cluster.conf").write_text("KillWait=1\n")
    monkeypatch.setenv("SLURM_CONF", str(other / "cluster.conf"))
    assert edit(None).path == str(other / "cluster.conf")
    (other / "cgroup.conf").write_text("")
    assert edit(None, file="cgroup.conf").path == str(other / "cgroup.conf")
    (other / "slurm.conf").write_text("KillWait=2\n")
    assert edit(None, slurm_prefix=str(conf.parent / "own")).path == str(other / "slurm.conf")
    with pytest.raises(SlurmError, match="there is no .*gres.conf -> give its path"):
        edit(None, file="gres.conf", slurm_prefix=str(conf.parent))


def real(argv: list[str]) -> tuple[int, str, str]:
    return 0, os.popen(" ".join(argv)).read(), ""


def test_the_version_is_that_of_the_programs_beside_the_file(conf: Path) -> None:
    etc = conf.parent / "opt" / "etc"
    etc.mkdir(parents=True)
    path = etc / "slurm.conf"
    path.write_text(TEXT)
    program(conf.parent / "opt" / "bin", "scontrol", "slurm 23.11.4")
    assert edit(path, real, version=None).version == "23.11.4"
    program(conf.parent / "opt" / "sbin", "slurmctld", "slurm-wlm 24.05.1")
    assert edit(path, real, version=None).version == "24.05.1"
    with pytest.raises(SlurmError, match="give version"):
        edit(conf, version=None)


def test_the_parser_of_slurm_has_the_last_word(conf: Path) -> None:
    refuses = "0x"

    def scontrol(argv: list[str]) -> tuple[int, str, str]:
        text = Path(argv[1].partition("=")[2]).read_text()
        return (1, "", "scontrol: fatal: bad KillWait\n") if refuses in text else (0, "a", "")

    program(conf.parent / "bin", "scontrol")
    assert edit(conf, scontrol, slurm_prefix=str(conf.parent), settings={"KillWait": 9}).changed
    with pytest.raises(SlurmError, match="nothing was written.*bad KillWait"):
        edit(conf, scontrol, slurm_prefix=str(conf.parent), settings={"KillWait": "0x"})
    # A file that it could not read before, such as one that is included elsewhere, is not judged.
    refuses = "ClusterName"
    assert edit(conf, scontrol, slurm_prefix=str(conf.parent), settings={"KillWait": "0x"}).changed


def test_other_files_have_their_own_answers(conf: Path) -> None:
    database = conf.parent / "slurmdbd.conf"
    database.write_text("StoragePass=tiger\nDbdPort=1\n")
    made = edit(database, secret_settings={"StoragePass": "lion"}, settings={"DbdPort": 2})
    result = made.result()
    assert (result["action"], result["next_steps"]) == ("restart", ["systemctl restart slurmdbd"])
    assert [reason["parameter"] for reason in result["reasons"]] == ["DbdPort", "StoragePass"]
    assert "tiger" not in str(result) and "lion" not in str(result)
    assert "StoragePass=(hidden)\nDbdPort=2" in made.diff()["after"]
    assert "tiger" not in str(made.diff()) and "StoragePass=lion" in made.new
    assert edit(database, settings={"AuthType": "x"}).refused
    gres = conf.parent / "gres.conf"
    gres.write_text("NodeName=c1 Name=gpu Type=a File=/dev/x\n")
    swap = [
        {"NodeName": "c1", "Name": "gpu", "Type": "a", "File": "/dev/x", "state": "absent"},
        {"NodeName": "c1", "Name": "gpu", "Type": "b", "File": "/dev/x"},
    ]
    assert edit(gres, version="22.05", gres=swap).result()["action"] == "restart"
    assert edit(gres, version="24.11", gres=swap).result()["action"] == "reconfigure"
    cgroup = conf.parent / "cgroup.conf"
    cgroup.write_text("")
    made = edit(cgroup, settings={"ConstrainCores": True})
    assert made.new == "ConstrainCores=yes\n" and made.result()["action"] == "reconfigure"


def test_a_thousand_nodes_are_edited_in_seconds(conf: Path) -> None:
    lines = "".join(f"NodeName=n{i} CPUs=4 RealMemory=1000\n" for i in range(1000))
    conf.write_text(TEXT + lines)
    nodes = [{"name": f"n{i}", "RealMemory": 2000} for i in range(1000)]
    made = edit(conf, nodes=nodes)
    assert made.new == TEXT + lines.replace("=1000\n", "=2000\n")
