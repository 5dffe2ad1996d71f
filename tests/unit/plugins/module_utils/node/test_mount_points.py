# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of mount points: the system's directories and odd paths are refused, a site's own are not."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.node import mount_points

ROOT = Path(__file__).resolve().parents[5]

REFUSED: list[t.Any] = [
    "/", "//", "/etc", "/etc/", "/etc/ssh", "/usr", "/usr/bin", "/usr/local", "/usr/localx", "/bin", "/sbin", "/lib",
    "/lib64", "/lib64/x", "/boot/efi", "/dev/shm", "/proc", "/proc/1/root", "/sys/fs/cgroup", "/run", "/run/user",
    "/root", "/root/.ssh", "/tmp", "/tmp/x", "/var", "/var/", "/var/run/munge", "/var/lib", "/var/lib/dpkg/info",
    "/var/log", "/var/tmp", "/opt", "/opt/aws/bin", "etc", "", None, 7, ["/data"], "~", "/a/../etc", "/..",
    "/data/.", "/./etc", "//etc", "/data//x", "/data/x y", "/data\n/etc", "/data\t", "/data\0", "/data\x1b[2J",
    "/{{ x }}", "/$HOME", "/$(id)", "/`id`", "/a;b", "/a|b", "/a'b", '/a"b', "/a\\b", "/a*", "/a?", "/a#b", "/a,b",
    "/a\u202e", "/a\u200b",
]  # fmt: skip
KEPT = [
    "/home", "/home/", "/home/alice", "/data", "/fsx", "/fsx1", "/srv", "/srv/nfs", "/mnt", "/mnt/data", "/media",
    "/opt/apps", "/usr/local/apps", "/scratch", "/etcetera", "/variable", "/a.b", "/a..b", "/x/etc", "/données",
    "/home/user@example", "/data/-x",
]  # fmt: skip


@pytest.mark.parametrize("path", REFUSED, ids=ascii)
def test_refused(path: t.Any) -> None:
    wrong = mount_points.problem_of(path)
    assert wrong and wrong.what and wrong.remedy


@pytest.mark.parametrize("path", KEPT, ids=ascii)
def test_kept(path: str) -> None:
    assert mount_points.problem_of(path) is None
    assert mount_points.problem_of(path, tagged=True) is None


@pytest.mark.parametrize(
    "path", ["/var/lib/mysql", "/var/spool/slurmctld", "/var/log/slurm", "/opt/slurm/etc"]
)
def test_a_tag_may_name_less_than_the_inventory(path: str) -> None:
    assert mount_points.problem_of(path) is None
    assert mount_points.problem_of(path, tagged=True)


def test_the_purposes_are_those_of_the_argument_specification() -> None:
    spec = yaml.safe_load(
        (ROOT / "roles/cluster/meta/argument_specs.yml").read_text(encoding="utf-8")
    )
    mounts = spec["argument_specs"]["main"]["options"]["cluster_mounts"]["options"]
    assert mounts["purpose"]["choices"] == ["", *mount_points.PURPOSES]
    assert mount_points.purpose_problem("") is mount_points.purpose_problem("home") is None
    assert mount_points.purpose_problem("homes")


def test_the_table_is_in_order_and_gives_reasons() -> None:
    paths = [row.path for row in mount_points.TABLE]
    assert paths == sorted(set(paths))
    allowed = {row.path for row in mount_points.TABLE if not row.reason}
    assert allowed == {"/home", "/media", "/mnt", "/srv"}
