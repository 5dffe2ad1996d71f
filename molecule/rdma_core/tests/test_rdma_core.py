# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The tools of InfiniBand, Open MPI of the distribution, and a plugin of NCCL that was built here."""

from __future__ import annotations

from testinfra.host import Host


def test_the_tools_are_there(host: Host) -> None:
    for name in ("ibstat", "ibv_devinfo", "ib_write_bw"):
        assert host.exists(name), name


def test_modules_and_their_options_are_written(host: Host) -> None:
    modules = host.file("/etc/modules-load.d/trainwright-rdma.conf").content_string.splitlines()
    assert modules[1:] == ["ib_umad", "ib_uverbs", "rdma_ucm"]
    options = host.file("/etc/modprobe.d/trainwright-rdma.conf").content_string
    assert "options mlx5_core prof_sel=3" in options


def test_open_mpi_takes_the_sites_parameters(host: Host) -> None:
    shown = host.check_output(". /etc/trainwright/mpi.sh; env; ompi_info --param btl tcp --level 9")
    assert "FI_PROVIDER" not in shown, "no EFA here"
    line = next(one for one in shown.splitlines() if '"btl_tcp_if_include"' in one)
    assert '"eth0"' in line


def test_open_mpi_was_built_with_pmix(host: Host) -> None:
    assert "pmix" in host.check_output("ompi_info --config").lower()


def test_the_loader_has_the_plugin_that_was_built(host: Host) -> None:
    assert host.package("trainwright-ofi-nccl").version.startswith("1.19.0+")
    assert "/opt/trainwright/ofi-nccl/lib/libnccl-net.so" in host.check_output("ldconfig -p")
    assert not host.file("/var/lib/trainwright/build/ofi-nccl").exists
