# The hardware of common cluster machines: EC2's GPU and Trainium types, and reference machines.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The table of machine types, one line each, read by machine_types.py.

Columns, "-" for none or not known:

1. name: EC2's, or one of our own for a machine that is bought
2. architecture, as `uname -m` has it
3. logical CPUs, 4. cores, 5. threads of a core
6. memory in MiB, as it is sold; the kernel shows some percent less
7. devices: count x model : memory of one in MiB; an underscore means a space
8. NVLink links of each GPU; 0 for a GPU without
9. width of each GPU's PCIe link in lanes
10. EFA interfaces at most
11. ports of its compute fabric on InfiniBand
12. NVMe disks of the machine itself for data: count x size of one in GB (10^9 bytes)
13. layers that EC2's DescribeInstanceTopology answers for it; "-" where it has none
14. source, a key of SOURCES
15. fields, as machine_types.MachineType names them, that no source confirms; "-" where all are confirmed

A fraction of a GPU (g6f, gr6f) counts as one with its share of the memory.
"""

from __future__ import annotations

_EC2 = (
    "EC2 DescribeInstanceTypes as recorded in moto 5.2.5; "
    "EC2 User Guide, Prerequisites for Amazon EC2 topology"
)
#: V100 6 links; A100 12; H100, H200, B200, B300 and GB200 18.
_NVLINK = "NVIDIA's data sheets (NVLink)"

#: Where a line comes from.
SOURCES: dict[str, str] = {
    "ec2": f"{_EC2}; {_NVLINK}",
    "ec2-pcie": f"{_EC2}; {_NVLINK}; topology files of aws-ofi-nccl (PCIe)",
    "p6e": f"product page of EC2 P6e-GB200 UltraServers; {_EC2.partition('; ')[2]}; {_NVLINK}",
    "trn2": f"{_EC2}; product page of EC2 Trn2 (memory)",
    "dgx-a100": f"NVIDIA DGX A100 User Guide, Introduction; {_NVLINK}",
    "dgx-h100": f"NVIDIA DGX H100/H200 User Guide, Introduction; {_NVLINK}",
    "dgx-b200": f"NVIDIA DGX B200 User Guide, Introduction; {_NVLINK}",
}

#: Machines with GPUs.
GPU_TYPES = """
p3dn.24xlarge      x86_64  96  48  2 786432  8xV100:32768                6  16 1  0 2x900  3 ec2      pcie_width
p4d.24xlarge       x86_64  96  48  2 1179648 8xA100:40960                12 16 4  0 8x1000 3 ec2-pcie -
p4de.24xlarge      x86_64  96  48  2 1179648 8xA100:81920                12 16 4  0 8x1000 3 ec2-pcie -
p5.4xlarge         x86_64  16  8   2 262144  1xH100:81920  0  16 1  0 1x3800 - ec2      nvlink_links,pcie_width
p5.48xlarge        x86_64  192 96  2 2097152 8xH100:81920                18 16 32 0 8x3800 3 ec2-pcie -
p5e.48xlarge       x86_64  192 96  2 2097152 8xH200:144384               18 16 32 0 8x3800 3 ec2-pcie -
p5en.48xlarge      x86_64  192 96  2 2097152 8xH200:144384               18 16 16 0 8x3800 3 ec2      pcie_width
p6-b200.48xlarge   x86_64  192 96  2 2097152 8xB200:183359               18 16 8  0 8x3800 4 ec2      pcie_width
p6-b300.48xlarge   x86_64  192 96  2 4194304 8xB300:275040               18 16 16 0 8x3800 4 ec2      pcie_width
p6e-gb200.36xlarge aarch64 144 144 1 983040  4xGB200:189440 18 -  4  0 3x7500 3 p6e gpus.memory_mib,efa_interfaces,nvme
g4dn.xlarge        x86_64  4   2   2 16384   1xT4:16384                  0  16 0  0 1x125  - ec2      pcie_width
g4dn.2xlarge       x86_64  8   4   2 32768   1xT4:16384                  0  16 0  0 1x225  - ec2      pcie_width
g4dn.4xlarge       x86_64  16  8   2 65536   1xT4:16384                  0  16 0  0 1x225  - ec2      pcie_width
g4dn.8xlarge       x86_64  32  16  2 131072  1xT4:16384                  0  16 1  0 1x900  - ec2      pcie_width
g4dn.12xlarge      x86_64  48  24  2 196608  4xT4:16384                  0  16 1  0 1x900  - ec2      pcie_width
g4dn.16xlarge      x86_64  64  32  2 262144  1xT4:16384                  0  16 1  0 1x900  - ec2      pcie_width
g4dn.metal         x86_64  96  48  2 393216  8xT4:16384                  0  16 1  0 2x900  - ec2      pcie_width
g5.xlarge          x86_64  4   2   2 16384   1xA10G:22888                0  16 0  0 1x250  - ec2      pcie_width
g5.2xlarge         x86_64  8   4   2 32768   1xA10G:22888                0  16 0  0 1x450  - ec2      pcie_width
g5.4xlarge         x86_64  16  8   2 65536   1xA10G:22888                0  16 0  0 1x600  - ec2      pcie_width
g5.8xlarge         x86_64  32  16  2 131072  1xA10G:22888                0  16 1  0 1x900  - ec2      pcie_width
g5.12xlarge        x86_64  48  24  2 196608  4xA10G:22888                0  16 1  0 1x3800 - ec2      pcie_width
g5.16xlarge        x86_64  64  32  2 262144  1xA10G:22888                0  16 1  0 1x1900 - ec2      pcie_width
g5.24xlarge        x86_64  96  48  2 393216  4xA10G:22888                0  16 1  0 1x3800 - ec2      pcie_width
g5.48xlarge        x86_64  192 96  2 786432  8xA10G:22888                0  16 1  0 2x3800 - ec2      pcie_width
g5g.xlarge         aarch64 4   4   1 8192    1xT4g:16384                 0  16 0  0 -      - ec2      pcie_width
g5g.2xlarge        aarch64 8   8   1 16384   1xT4g:16384                 0  16 0  0 -      - ec2      pcie_width
g5g.4xlarge        aarch64 16  16  1 32768   1xT4g:16384                 0  16 0  0 -      - ec2      pcie_width
g5g.8xlarge        aarch64 32  32  1 65536   1xT4g:16384                 0  16 0  0 -      - ec2      pcie_width
g5g.16xlarge       aarch64 64  64  1 131072  2xT4g:16384                 0  16 0  0 -      - ec2      pcie_width
g5g.metal          aarch64 64  64  1 131072  2xT4g:16384                 0  16 0  0 -      - ec2      pcie_width
g6.xlarge          x86_64  4   2   2 16384   1xL4:22888                  0  16 0  0 1x250  - ec2      pcie_width
g6.2xlarge         x86_64  8   4   2 32768   1xL4:22888                  0  16 0  0 1x450  - ec2      pcie_width
g6.4xlarge         x86_64  16  8   2 65536   1xL4:22888                  0  16 0  0 1x600  - ec2      pcie_width
g6.8xlarge         x86_64  32  16  2 131072  1xL4:22888                  0  16 1  0 2x450  - ec2      pcie_width
g6.12xlarge        x86_64  48  24  2 196608  4xL4:22888                  0  16 1  0 4x940  - ec2      pcie_width
g6.16xlarge        x86_64  64  32  2 262144  1xL4:22888                  0  16 1  0 2x940  - ec2      pcie_width
g6.24xlarge        x86_64  96  48  2 393216  4xL4:22888                  0  16 1  0 4x940  - ec2      pcie_width
g6.48xlarge        x86_64  192 96  2 786432  8xL4:22888                  0  16 1  0 8x940  - ec2      pcie_width
g6e.xlarge         x86_64  4   2   2 32768   1xL40S:45776                0  16 0  0 1x250  3 ec2      pcie_width
g6e.2xlarge        x86_64  8   4   2 65536   1xL40S:45776                0  16 0  0 1x450  3 ec2      pcie_width
g6e.4xlarge        x86_64  16  8   2 131072  1xL40S:45776                0  16 0  0 1x600  3 ec2      pcie_width
g6e.8xlarge        x86_64  32  16  2 262144  1xL40S:45776                0  16 1  0 2x450  3 ec2      pcie_width
g6e.12xlarge       x86_64  48  24  2 393216  4xL40S:45776                0  16 1  0 2x1900 3 ec2      pcie_width
g6e.16xlarge       x86_64  64  32  2 524288  1xL40S:45776                0  16 1  0 2x950  3 ec2      pcie_width
g6e.24xlarge       x86_64  96  48  2 786432  4xL40S:45776                0  16 2  0 2x1900 3 ec2      pcie_width
g6e.48xlarge       x86_64  192 96  2 1572864 8xL40S:45776                0  16 4  0 4x1900 3 ec2      pcie_width
g6f.large          x86_64  2   1   2 8192    1xL4:2861                   0  16 0  0 1x100  - ec2      pcie_width
g6f.xlarge         x86_64  4   2   2 16384   1xL4:2861                   0  16 0  0 1x100  - ec2      pcie_width
g6f.2xlarge        x86_64  8   4   2 32768   1xL4:5722                   0  16 0  0 1x200  - ec2      pcie_width
g6f.4xlarge        x86_64  16  8   2 65536   1xL4:11444                  0  16 0  0 1x450  - ec2      pcie_width
gr6.4xlarge        x86_64  16  8   2 131072  1xL4:22888                  0  16 0  0 1x600  - ec2      pcie_width
gr6.8xlarge        x86_64  32  16  2 262144  1xL4:22888                  0  16 1  0 2x450  - ec2      pcie_width
gr6f.4xlarge       x86_64  16  8   2 131072  1xL4:11444                  0  16 0  0 1x450  - ec2      pcie_width
g7.2xlarge         x86_64  8   8   1 32768   1xRTX_PRO_4500:32768        0  16 0  0 1x440  - ec2      pcie_width
g7.4xlarge         x86_64  16  16  1 65536   1xRTX_PRO_4500:32768        0  16 0  0 1x875  - ec2      pcie_width
g7.8xlarge         x86_64  32  32  1 131072  1xRTX_PRO_4500:32768        0  16 1  0 1x930  - ec2      pcie_width
g7.12xlarge        x86_64  48  48  1 196608  2xRTX_PRO_4500:32768        0  16 1  0 1x1900 - ec2      pcie_width
g7.24xlarge        x86_64  96  96  1 393216  4xRTX_PRO_4500:32768        0  16 1  0 1x3800 - ec2      pcie_width
g7.48xlarge        x86_64  192 192 1 786432  8xRTX_PRO_4500:32768        0  16 2  0 2x3800 - ec2      pcie_width
g7e.2xlarge        x86_64  8   4   2 65536   1xRTX_PRO_Server_6000:98304 0  16 0  0 1x1900 3 ec2      pcie_width
g7e.4xlarge        x86_64  16  8   2 131072  1xRTX_PRO_Server_6000:98304 0  16 0  0 1x1900 3 ec2      pcie_width
g7e.8xlarge        x86_64  32  16  2 262144  1xRTX_PRO_Server_6000:98304 0  16 1  0 1x1900 3 ec2      pcie_width
g7e.12xlarge       x86_64  48  24  2 524288  2xRTX_PRO_Server_6000:98304 0  16 1  0 1x3800 3 ec2      pcie_width
g7e.24xlarge       x86_64  96  48  2 1048576 4xRTX_PRO_Server_6000:98304 0  16 2  0 2x3800 3 ec2      pcie_width
g7e.48xlarge       x86_64  192 96  2 2097152 8xRTX_PRO_Server_6000:98304 0  16 4  0 4x3800 3 ec2      pcie_width
dgx-a100-320 x86_64 256 128 2 1048576 8xA100:40960 12 16 0  8 4x3840 - dgx-a100 memory_mib,infiniband_ports
dgx-a100-640 x86_64 256 128 2 2097152 8xA100:81920 12 16 0  8 8x3840 - dgx-a100 memory_mib,infiniband_ports
dgx-h100 x86_64 224 112 2 2097152 8xH100:81920 18 16 0  8 8x3840 - dgx-h100 memory_mib,infiniband_ports
dgx-h200 x86_64 224 112 2 2097152 8xH200:144384 18 16 0  8 8x3840 - dgx-h100 memory_mib,infiniband_ports
dgx-b200 x86_64 224 112 2 2097152 8xB200:183359 18 16 0  8 8x3840 - dgx-b200 memory_mib,infiniband_ports
"""

#: Machines with Trainium devices. They are in inventories only: no role sets up Neuron.
NEURON_TYPES = """
trn1.2xlarge   x86_64 8   4  2 32768   1xTrainium:32768   - - 0  0 1x474  3 ec2 -
trn1.32xlarge  x86_64 128 64 2 524288  16xTrainium:32768  - - 8  0 4x1900 3 ec2 -
trn1n.32xlarge x86_64 128 64 2 524288  16xTrainium:32768  - - 16 0 4x1900 3 ec2 -
trn2.3xlarge   x86_64 12  6  2 131072  1xTrainium2:98304  - - 1  0 1x470  - trn2 neuron.memory_mib
trn2.48xlarge  x86_64 192 96 2 2097152 16xTrainium2:98304 - - 16 0 4x1900 3 trn2 neuron.memory_mib
trn2u.48xlarge x86_64 192 96 2 2097152 16xTrainium2:98304 - - 16 0 4x1900 3 trn2 neuron
"""
