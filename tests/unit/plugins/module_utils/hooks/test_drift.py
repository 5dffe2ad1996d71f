# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the comparison of nodes' scripts."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ansible_collections.trainwright.slurm.plugins.module_utils.hooks import drift

ROOTLESS = "/etc/slurm/prolog.d/95-all-rootless"


def entry(name: str, option: str = "Prolog", digest: str = "1", **more: t.Any) -> dict[str, t.Any]:
    return {"option": option, "name": name, "digest": digest, "writable": "", **more}


def test_nodes_that_are_the_same() -> None:
    same = [entry("/etc/slurm/prolog.d/10-disks")]
    assert drift.drift({"c1": same, "c2": same, "c3": same}) == []


def test_a_script_on_one_node_of_three_is_named() -> None:
    [line] = drift.drift({"c1": [], "c2": [], "c3": [entry(ROOTLESS)]})
    assert line.startswith(
        f"c3: Prolog {ROOTLESS}: is not on the other nodes, and drains the node if it fails -> remove"
    )
    assert drift.drift({"c1": [], "c2": [], "c3": [entry(ROOTLESS)]}, [ROOTLESS]) == []


def test_a_script_that_one_node_lacks_and_one_that_differs() -> None:
    ten, twenty = "/p/10", "/p/20"
    nodes = {f"c{number}": [entry(ten), entry(twenty)] for number in range(1, 5)}
    nodes["c2"] = [entry(ten), entry(twenty, digest="2")]
    nodes["c4"] = [entry(twenty)]
    first, second = drift.drift(nodes)
    assert first.startswith("c4: Prolog /p/10: is missing, and the other nodes have it")
    assert second.startswith("c2: Prolog /p/20: differs from that of c[1,3-4], and drains")


def test_what_somebody_put_into_our_directory() -> None:
    place = f"{drift.DIRECTORY}/95-all-rootless"
    [line] = drift.drift({"c1": [entry(place, "ours")], "c2": []})
    assert line.startswith(f"c1: {place}: somebody put it there; no hook runs it -> remove it")
    ours = entry(f"{drift.DIRECTORY}/prolog", "ours")
    [line] = drift.drift({"c1": [ours], "c2": [{**ours, "digest": "2"}], "c3": [ours]})
    assert line.startswith(f"c2: {drift.DIRECTORY}/prolog: differs from that of c[1,3]")


def test_a_script_that_others_can_change_and_hosts_that_are_silent() -> None:
    nodes = {"c1": [entry("/p/1", writable="ada")], "c2": [entry("/p/1")]}
    first, second = drift.drift(nodes, silent=["c3"])
    assert first.startswith("c1: Prolog /p/1: ada can change it, and root runs it")
    assert second.startswith("c3: did not answer")


def test_a_declared_program_that_no_node_has() -> None:
    gone = entry("/opt/x", "declared", digest="", error="No such file or directory")
    [line] = drift.drift({"c1": [gone], "c2": [gone]}, ["/opt/x"])
    assert line.startswith("c[1-2]: /opt/x: No such file or directory -> install it")


def test_a_node_is_read(tmp_path: Path) -> None:
    for path, text in {
        "etc/slurm/slurm.conf": "Prolog=/etc/slurm/prolog.d/*\nProlog=trainwright-prolog\nTaskProlog=/opt/task\n",
        "etc/slurm/prolog.d/10-a": "a",
        "etc/slurm/prolog.d/95-all-rootless": "b",
        "opt/task": "c",
        "usr/lib/trainwright/hooks/stray": "d",
        "usr/sbin/slurmd": "",
    }.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (tmp_path / "opt/task").chmod(0o777)
    found = drift.scan(declared=["/opt/none"], root=str(tmp_path))
    names = [(one["option"], one["name"]) for one in found]
    assert names == [
        ("Prolog", "/etc/slurm/prolog.d/10-a"),
        ("Prolog", ROOTLESS),
        ("TaskProlog", "/opt/task"),
        ("ours", f"{drift.DIRECTORY}/stray"),
        ("declared", "/opt/none"),
    ]
    assert [bool(one["writable"]) for one in found] == [False, False, True, False, False]
    assert found[-1]["error"] and not found[-1]["digest"]
    assert os.path.exists(tmp_path / "opt/task")


def test_a_pipe_and_a_device_do_not_hold_it_up(tmp_path: Path) -> None:
    place = tmp_path / "etc/slurm/prolog.d"
    place.mkdir(parents=True)
    (tmp_path / "etc/slurm/slurm.conf").write_text("Prolog=/etc/slurm/prolog.d/*\n")
    os.mkfifo(place / "10-pipe")
    (place / "20-endless").symlink_to("/dev/zero")
    (place / "30-script").write_text("#!/bin/sh\n")
    found = {os.path.basename(one["name"]): one for one in drift.scan(root=str(tmp_path))}
    assert found["10-pipe"]["error"] == found["20-endless"]["error"] == "is not a file"
    assert found["30-script"]["digest"]
    lines = drift.drift({"c1": list(found.values()), "c2": [found["30-script"]]})
    assert len(lines) == 2 and "c1: Prolog /etc/slurm/prolog.d/10-pipe: is not a file" in lines[0]
