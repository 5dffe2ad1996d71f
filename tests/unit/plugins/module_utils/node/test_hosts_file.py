# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lines of /etc/hosts above the cluster's, by which a daemon would not find its controller at the next boot."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.drift_report import report
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    drift_paths,
    hosts_file,
    manifest,
)

BLOCK = "10.0.0.1 ctl1 ctl1.example\n10.0.0.2 c1\nfd00::2 c1\n"
MARKED = f"# BEGIN trainwright.slurm hosts\n{BLOCK}# END trainwright.slurm hosts\n"


@pytest.mark.parametrize(
    ("above", "below", "found"),
    [
        ("127.0.0.1 localhost\n127.0.1.1 c1.example c1\n", "", []),
        ("10.0.0.1 ctl1\n::1 c1\nfd00::2 c1\n", "", []),
        ("# 10.9.9.9 ctl1\n10.9.9.9 other # ctl1\n\n", "", []),
        ("", "10.9.9.9 ctl1\n", []),
        ("10.9.9.9 other CTL1\n", "", ["ctl1 10.9.9.9"]),
        ("10.9.9.9 ctl1.example\nfd00::9 c1 ctl1\n", "", ["ctl1.example 10.9.9.9", "c1 fd00::9"]),
    ],
)
def test_lines_that_count_before_those_of_the_cluster(
    above: str, below: str, found: list[str]
) -> None:
    assert hosts_file.overridden(above + MARKED + below, BLOCK) == found
    assert hosts_file.overridden(above + below, BLOCK) == []


def test_they_are_a_difference_with_its_own_remedy(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = tmp_path / "hosts"
    monkeypatch.setattr(hosts_file, "PATH", str(hosts))
    key = "k"
    item = {"kind": "block", "name": str(hosts), "marker": "trainwright.slurm hosts"}
    item["digest"] = manifest.digest(BLOCK.encode(), key)

    def differences(text: str) -> list[drift_paths.Difference]:
        hosts.write_text(text)
        return drift_paths.differences(item, drift_paths.look(item, key))

    assert differences(f"127.0.1.1 c1\n{MARKED}") == []
    (found,) = differences("".join(f"10.9.9.{n} ctl1\n" for n in range(5)) + MARKED)
    shown = "ctl1 10.9.9.0, ctl1 10.9.9.1, ctl1 10.9.9.2, and more"
    assert found == (drift_paths.FIRST, shown, "the lines of trainwright.slurm hosts")
    words = dict(zip(("what", "found", "left"), found))
    one = {"kind": "block", "name": str(hosts), "role": "node_base", "part": "", **words}
    look = {"state": "drifted", "differences": [one], "unknown": []}
    (line,) = report({"c1": look})["lines"]
    assert f"lines above: {shown}" in line
    assert line.endswith(
        f"remove these lines from {hosts} there, which count before those of the cluster"
    )
