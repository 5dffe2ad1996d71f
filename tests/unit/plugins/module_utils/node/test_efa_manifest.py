# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The list of packages that the EFA installer leaves behind."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.module_utils.node import efa_manifest


def test_the_list_of_the_efa_installer() -> None:
    """As posted: on one line, by dpkg and by rpm."""
    deb = (
        "# EFA installer version: 1.17.2\n# Debug packages installed: no\n# Packages installed:\n"
        "efa-config_1.10_all libfabric-aws-bin_1.16.0~amzn3.0_amd64 libfabric1-aws_1.16.0~amzn3.0_amd64"
        " openmpi40-aws_4.1.4-1_amd64 rdma-core_41.0-1_amd64 efa_1.16.0-1.amzn1_amd64\n"
    )
    assert efa_manifest.parse(deb) == {
        "efa": "1.17.2",
        "libfabric": "1.16.0~amzn3.0",
        "openmpi": "4.1.4",
        "rdma_core": "41.0",
    }
    rpm = (
        "# EFA installer version: 1.22.0\n# Packages installed:\n"
        "efa-config-1.13-1.el8.noarch libfabric-aws-1.17.0-1.el8.x86_64 libfabric-aws-devel-1.17.0-1.el8.x86_64"
        " openmpi40-aws-4.1.5-1.x86_64 libnccl-ofi-1.15.0-1.el9.x86_64 rdma-core-devel-43.0-1.el8.x86_64"
        " rdma-core-43.0-1.el8.x86_64\n"
    )
    assert efa_manifest.parse(rpm) == {
        "efa": "1.22.0",
        "libfabric": "1.17.0",
        "ofi_nccl": "1.15.0",
        "openmpi": "4.1.5",
        "rdma_core": "43.0",
    }
    assert efa_manifest.parse("") == {}


def test_the_names_of_its_packages() -> None:
    text = (
        "# Packages installed:\nefa_2.8.0-1.amzn1_amd64.deb libfabric1-aws_2.4.0_amd64 rdma-core_58.0-1_amd64\n"
        "libfabric-aws-2.4.0-1.el9.x86_64 efa-2.8.0-1.el9.x86_64.rpm efa-config-1.18-1.el9.noarch\n"
    )
    names = ["efa", "libfabric1-aws", "rdma-core", "libfabric-aws", "efa-config"]
    assert efa_manifest.package_names(text) == names
