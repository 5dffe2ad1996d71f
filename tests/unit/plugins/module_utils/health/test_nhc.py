# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An nhc.conf with the checks that DeepOps' has: each line is a manifest, covered, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Verdict
from ansible_collections.trainwright.slurm.plugins.module_utils.health import manifest, nhc, runner
from ansible_collections.trainwright.slurm.plugins.module_utils.health.host import Host

CONF = r"""
# GPU nodes
 * || check_hw_cpuinfo 2 64 128
 * || check_hw_physmem 1000GB 1100GB 5%
 * || check_num_numa_nodes 8
 * || check_hw_eth eno1
 * || check_hw_ib 400 mlx5_0:1
 * || check_ipoib_up ib0
 * || check_ib_link_ber mlx5_0
 * || check_num_nvme_devs 4
 * || check_num_nvme_devices 4
 * || check_fs_mount_rw /
 gpu01 || check_fs_mount_rw -t "nfs4" -s "nas:/home" -f "/home"
 * || check_fs_used /tmp 95%
 * || check_nv_gpu_count 8
 * || check_nv_pcie_link_width 16
 * || check_nv_retired_pages
 * || check_nv_dcgmi_diag
 * || check_nv_drv_version 570.133.20
 * || check_ps_service -u root -d daemon sshd
 * || check_ps_service -u root slurmd
 * || check_ps_service -u root -d nv-fabricmanager nvidia-fabricmanager
 * || check_ps_service -d chronyd chrony
 * || check_cmd_output -t 2 -r 0 -m "/gdrdrv/" "/sbin/lsmod"
 * || check_cmd_output -m '!/LNetError/' '/bin/journalctl -b'
 * || check_ps_loadavg 300
 * || export NHC_RM=slurm
MARK_OFFLINE=0
 * || check_hw_eth eth0;reboot
 * || check_ps_service '$(reboot)'
 * || check_cmd_output -m "/x/" "lsmod"
 * || check_hw_eth 'unclosed
"""
MADE = [
    "numa_nodes",
    "interface_eno1",
    "interface_ib0",
    "nvidia_driver_version",
    "service_sshd",
    "service_chrony",
    "output_gdrdrv",
]


def test_each_line_is_translated_or_refused() -> None:
    lines = nhc.translate(CONF)
    wanted = [n for n, text in enumerate(CONF.splitlines(), 1) if text.strip() and text[0] != "#"]
    assert [line.number for line in lines] == wanted
    assert [made["name"] for made in nhc.manifests(lines)] == MADE
    refused = {line.check for line in lines if line.outcome == "refused"}
    assert refused == {
        *(
            "check_ib_link_ber",
            "check_num_nvme_devices",
            "check_ps_loadavg",
            "export",
            "MARK_OFFLINE=0",
        ),
        *("check_cmd_output", "check_hw_eth", "check_ps_service", "check_hw_eth 'unclosed"),
    }
    assert all(line.why for line in lines if line.manifest is None)
    text = "\n".join(map(str, lines))
    assert "check_nv_gpu_count: covered: by gpu_count: the machine type" in text
    assert "check_fs_mount_rw: covered: by mounts, for /home in cluster_mounts (only gpu01:" in text
    assert "reads the whole log each cycle" in text


def test_the_manifests_are_taken_as_they_are() -> None:
    found = manifest.checks(nhc.manifests(nhc.translate(CONF)))
    assert set(MADE) <= set(found)


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ('check_cmd_output -m "/gdrdrv/" "/bin/echo gdrdrv 1"', Verdict.PASS),
        ('check_cmd_output -m "/gdrdrv/" "/bin/echo nothing"', Verdict.FAIL),
        ("check_cmd_output -m '!/Error/' '/bin/echo fine'", Verdict.PASS),
        ("check_cmd_output -m '!/Error/' '/bin/echo an Error'", Verdict.FAIL),
        ("check_num_numa_nodes 4096", Verdict.FAIL),
        ("check_hw_eth nothere0", Verdict.FAIL),
        ("check_nv_drv_version 1.2.3", Verdict.FAIL),
    ],
)
def test_a_translated_check_runs(line: str, verdict: Verdict, tmp_path: Path) -> None:
    made = nhc.manifests(nhc.translate(f" * || {line}\n"))
    check = manifest.checks(made)[made[0]["name"]]
    assert runner.command(Host({"node": "n1"}), check).verdict is verdict
