# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""EFA is installed whole, the loader finds NCCL's plugin, and jobs get EFA's Open MPI with the table's variables."""

from __future__ import annotations

from testinfra.host import Host


def test_the_installer_ran_to_its_end(host: Host) -> None:
    manifest = host.file("/opt/amazon/efa_installed_packages").content_string
    assert "# EFA installer version: 1.90.0" in manifest
    assert "libfabric1-aws_" in manifest and "efa_3." not in manifest, (
        "no kernel module in a container"
    )
    assert host.package("libfabric1-aws").is_installed
    assert not host.file("/var/lib/trainwright/efa-unfinished").exists
    assert host.run("ls -d /var/lib/trainwright/efa-installer-*").rc != 0, (
        "nothing is left of the archive"
    )


def test_the_options_of_the_module_are_there(host: Host) -> None:
    assert (
        "options efa example=1" in host.file("/etc/modprobe.d/trainwright-efa.conf").content_string
    )


def test_the_loader_looks_where_the_plugin_is(host: Host) -> None:
    text = host.file("/etc/ld.so.conf.d/000-trainwright-ofi-nccl.conf").content_string
    directory = next(line for line in text.splitlines() if line.endswith("-linux-gnu"))
    assert host.file(f"{directory}/libnccl-net.so").is_file
    service = host.service("trainwright-ofi-nccl")
    assert service.is_enabled and service.is_running


def test_jobs_get_efas_open_mpi_and_its_variables(host: Host) -> None:
    shown = host.check_output(". /etc/trainwright/mpi.sh; env; command -v mpirun")
    assert "/opt/amazon/openmpi/bin/mpirun" in shown
    assert "FI_PROVIDER=efa" in shown and "OMPI_MCA_pml=^ucx" in shown and "NCCL_" not in shown
    parameters = host.file("/opt/amazon/openmpi/etc/openmpi-mca-params.conf").content_string
    assert "btl_tcp_if_include = eth0" in parameters and "# Of the package." in parameters
