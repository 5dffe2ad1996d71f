# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The recorded outputs of tests/fixtures/validation, and the numbers in them as a person read them."""

from __future__ import annotations

import typing as t
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[5] / "fixtures" / "validation"
MIB = 2.0**20


class Recorded(t.NamedTuple):
    """figures: those that are compared, GB/s where they are bandwidths. last: the point of the largest size.

    points: how many sizes it has. largest: bytes, what the command asked for.
    """

    file: str
    parser: str
    figures: dict[str, float]
    points: int = 0
    last: tuple[int, float] | None = None
    faults: int = 0
    gaps: int = 0
    largest: int | None = None

    @property
    def text(self) -> str:
        return (FIXTURES / self.file).read_text(encoding="utf-8")


RECORDED = [
    Recorded(
        "nccl-tests-a100-allreduce.txt", "nccl_tests",
        {"busbw": 235.26, "busbw_in_place": 235.03, "algbw": 134.44, "busbw_average": 68.4048, "latency_us": 34.73},
        32, (8589934592, 235.26), gaps=1,
    ),
    Recorded(
        "nccl-tests-a100-alltoall.txt", "nccl_tests",
        {"busbw": 224.31, "busbw_in_place": 226.16, "algbw": 256.36, "busbw_average": 58.6481, "latency_us": 89.00},
        29, (8589934592, 224.31), gaps=1,
    ),
    Recorded(
        "nccl-tests-a100-reduce.txt", "nccl_tests",
        {"busbw": 228.38, "busbw_in_place": 228.83, "busbw_average": 65.018, "latency_us": 35.40},
        32, (8589934592, 228.38), gaps=1,
    ),
    Recorded(
        "nccl-tests-a100-reducescatter.txt", "nccl_tests",
        {"busbw": 231.52, "busbw_in_place": 231.25, "busbw_average": 60.168},
        29, (8589934592, 231.52), gaps=1,
    ),
    Recorded(
        "nccl-tests-k80-13.txt", "nccl_tests",
        {"busbw": 0.61, "busbw_average": 0.565546, "latency_us": 2410.0},
        11, (1073741824, 0.61), gaps=1,
    ),
    Recorded(
        "nccl-tests-a100-mpi.txt", "nccl_tests",
        {"busbw": 231.72, "busbw_in_place": 231.70, "algbw": 132.41, "busbw_average": 210.99, "latency_us": 344.8},
        6, (1073741824, 231.72),
    ),
    Recorded(
        "nccl-tests-p5-labels.txt", "nccl_tests",
        {"busbw": 483.05, "busbw_in_place": 483.35, "algbw": 276.03, "busbw_average": 156.742, "latency_us": 12.90},
        32, (17179869184, 483.05),
    ),
    Recorded(
        "nccl-tests-h100-2-nodes.txt", "nccl_tests",
        {"busbw": 471.22, "busbw_in_place": 470.75, "busbw_average": 464.075, "latency_us": 4478.8},
        5, (17179869184, 471.22),
    ),
    Recorded(
        "nccl-tests-gb200-nvl72.txt", "nccl_tests",
        {"busbw": 834.57, "busbw_in_place": 846.82, "busbw_average": 745.53},
        5, (8589934592, 834.57),
    ),
    Recorded(
        "nccl-tests-two-gpus.txt", "nccl_tests",
        {"busbw": 47.49, "busbw_in_place": 47.48, "busbw_average": 47.4509, "latency_us": 22661},
        4, (8589934592, 47.49),
    ),
    Recorded("nccl-log-efa.txt", "nccl_log", {"processes": 1}),
    Recorded("nccl-log-p4d.txt", "nccl_log", {"processes": 2}),
    Recorded("nccl-log-socket.txt", "nccl_log", {"processes": 1}),
    Recorded("osu-5.7.1-bw.txt", "osu", {"bandwidth": 0.00119}, 2, (8, 0.00119), largest=8),
    Recorded("osu-5.7.1-bibw.txt", "osu", {"bandwidth": 0.00384}, 2, (8, 0.00384), largest=8),
    Recorded("osu-5.7.1-latency.txt", "osu", {"latency_us": 25.21}, largest=8),
    Recorded(
        "osu-5.7.1-mbw_mr.txt", "osu", {"bandwidth": 0.25265, "messages": 31608531.76}, 2, (8, 0.25265), largest=8
    ),
    Recorded("osu-5.7.1-allreduce.txt", "osu", {"latency_us": 46.87}, largest=8),
    Recorded("osu-5.7.1-barrier.txt", "osu", {"latency_us": 41.14}),
    Recorded("osu-7.2-latency.txt", "osu", {"latency_us": 2.46}),
    Recorded("osu-7.5-latency.txt", "osu", {"latency_us": 3.34}),
    Recorded("osu-7.5-bw.txt", "osu", {"bandwidth": 24.00574}, 23, (4194304, 24.00574)),
    Recorded("osu-7.5-bw-one-size.txt", "osu", {"bandwidth": 12.25416}, 1, (268435456, 12.25416)),
    Recorded("osu-7.4-allreduce-fail.txt", "osu", {"latency_us": 1.53}, faults=1),
    Recorded("ior-3.0.1-s3.txt", "ior", {"write": 324.02 * MIB / 1e9, "read": 24.03 * MIB / 1e9}, gaps=1),
    Recorded("ior-3.2.1-beegfs.txt", "ior", {"write": 115.02 * MIB / 1e9}),
    Recorded(
        "ior-3.3.0.txt", "ior",
        {"write": 678.06 * MIB / 1e9, "read": 4233.46 * MIB / 1e9, "write_ops": 678.07, "read_ops": 4234}, gaps=1,
    ),
    Recorded(
        "ior-3.4-daos.txt", "ior",
        {"write": 1299.23 * MIB / 1e9, "read": 5429.38 * MIB / 1e9, "write_ops": 1299.84, "read_ops": 5431}, gaps=1,
    ),
    Recorded(
        "mdtest-1.8.1-two.txt", "mdtest",
        {"directory_creation_ops": 19468.483, "file_creation_ops": 35378.025, "file_removal_ops": 99454.686},
    ),
    Recorded(
        "mdtest-1.8.1-tree.txt", "mdtest", {"file_creation_ops": 38704.743, "file_stat_ops": 125477.782}
    ),
    Recorded(
        "mdtest-3.3.0-exascaler.txt", "mdtest",
        {"file_creation_ops": 19186.060, "file_stat_ops": 46829.212, "file_read_ops": 28323.202,
         "file_removal_ops": 17866.900, "directory_creation_ops": 22434.966, "tree_removal_ops": 229.802},
    ),
    Recorded("mdtest-3.3.0-dirs.txt", "mdtest", {"directory_creation_ops": 5539.577, "file_creation_ops": 4610.705}),
    Recorded("mdtest-3.4.0-create-only.txt", "mdtest", {"file_creation_ops": 2943.686, "tree_creation_ops": 1079.858}),
    # Five groups that ran one after another: the slowest reader had 1269 KiB/s and the slowest writer 6443 KiB/s.
    Recorded(
        "fio-2.1.4.json", "fio",
        {"read": 1269 * 1024 / 1e9, "read_iops": 253, "read_latency_us": 250770.05,
         "write": 6443 * 1024 / 1e9, "write_iops": 133, "write_latency_us": 478737.47},
    ),
    Recorded(
        "fio-2.17.json", "fio",
        {"read": 129386 * 1024 / 1e9, "read_iops": 8086.673998, "write": 39312 * 1024 / 1e9, "write_iops": 2457.017193},
    ),
    Recorded(
        "fio-3.16.json", "fio",
        {"read": 0.348743777, "read_iops": 85138.890741, "read_latency_us": 1446.562147113},
    ),
    Recorded("dcgmi-3-pass.json", "dcgmi_diag", {"passed": 9, "failed": 0, "warned": 0, "skipped": 0}),
    Recorded("dcgmi-3-fail.json", "dcgmi_diag", {"passed": 7, "failed": 1, "warned": 1}, faults=1, gaps=1),
    Recorded("dcgmi-3-warn.json", "dcgmi_diag", {"passed": 8, "warned": 1}, gaps=1),
    Recorded("dcgmi-4-persistence.json", "dcgmi_diag", {"passed": 0, "failed": 8}, gaps=8),
    Recorded("fi_info-1.11-p4d.txt", "fi_info", {"efa": 2}),
    Recorded("fi_info-1.20.txt", "fi_info", {"efa": 1}),
    Recorded("fi_info-2.6-g7e.txt", "fi_info", {"efa": 1}),
    Recorded("fi_info-rdm-only.txt", "fi_info", {"efa": 1}),
    Recorded(
        "fi_pingpong-cdi.txt", "fi_pingpong", {"bandwidth": 2.359, "latency_us": 1362.35}, 6, (1048576, 2.359)
    ),
    Recorded(
        "fi_pingpong-cxi.txt", "fi_pingpong", {"bandwidth": 21.23498, "latency_us": 4.97}, 6, (1048576, 21.23498)
    ),
    Recorded(
        "fi_pingpong-installer.txt", "fi_pingpong", {"bandwidth": 2.07845, "latency_us": 1124.9}, 6, (1048576, 2.07845)
    ),
    Recorded("fi_pingpong-tcp.txt", "fi_pingpong", {"bandwidth": 2.659, "latency_us": 1378.3}, 6, (1048576, 2.659)),
    Recorded(
        "perftest-write-bw-8m.txt", "perftest", {"bandwidth": 24056.72 * MIB / 1e9},
        1, (8388608, 24056.72 * MIB / 1e9),
    ),
    Recorded(
        "perftest-write-bw-all.txt", "perftest", {"bandwidth": 23240.68 * MIB / 1e9},
        23, (8388608, 23240.68 * MIB / 1e9), largest=8388608,
    ),
    Recorded(
        "perftest-send-bw-ud.txt", "perftest", {"bandwidth": 9582.67 * MIB / 1e9}, 12, (4096, 9582.67 * MIB / 1e9)
    ),
    Recorded("perftest-write-bw-gbits.txt", "perftest", {"bandwidth": 13.96375}, 1, (65536, 13.96375)),
    Recorded("perftest-write-bw-duration.txt", "perftest", {"bandwidth": 45.43375}, 1, (65536, 45.43375)),
    Recorded("perftest-send-lat-ud.txt", "perftest", {"latency_us": 0.81, "latency_p99_us": 0.84}),
    Recorded("perftest-write-lat-cpu.txt", "perftest", {"latency_us": 4.83, "latency_p99_us": 4.91}),
    Recorded(
        "perftest-write-bw-efa-srd.txt", "perftest", {"bandwidth": 5979.70 * MIB / 1e9},
        23, (8388608, 5979.70 * MIB / 1e9),
    ),
    Recorded("perftest-send-lat-efa-srd.txt", "perftest", {"latency_us": 15.78, "latency_p99_us": 22.37}),
    Recorded("iperf3-3.6.json", "iperf3", {"bandwidth": 0.350296574 / 8, "retransmits": 414}),
    Recorded("iperf3-3.9.json", "iperf3", {"bandwidth": 0.000449933692 / 8, "retransmits": 0}),
    Recorded(
        "nvbandwidth-0.6-gh200.txt", "nvbandwidth",
        {"host_to_device_memcpy_ce": 269.33, "device_to_host_memcpy_ce": 295.15, "host_to_all_memcpy_ce": 370.13,
         "host_device_latency_sm_ns": 772.58},
    ),
    Recorded(
        "nvbandwidth-gb300-station.txt", "nvbandwidth",
        {"host_to_device_memcpy_ce": 359.05, "device_to_host_memcpy_ce": 377.15,
         "host_to_device_bidirectional_memcpy_ce": 175.38},
    ),
    Recorded("nvidia-smi-a10g.xml", "nvidia_smi", {"gpus": 1, "uncorrected": 0, "pcie_width": 8, "temperature": 17}),
    Recorded("nvidia-smi-rtx3080-v13.xml", "nvidia_smi", {"gpus": 1, "pcie_width": 16, "pcie_generation": 4}),
    Recorded("nvidia-smi-t4.xml", "nvidia_smi", {"gpus": 1, "uncorrected": 0, "pcie_width": 8, "pcie_generation": 3}),
    Recorded("topo-2-nv2.txt", "nvidia_topo", {"gpus": 2, "nics": 0, "nvlinks": 2}),
    Recorded("topo-2-phb.txt", "nvidia_topo", {"gpus": 2, "nics": 0, "nvlinks": 0}),
    Recorded("topo-a100.txt", "nvidia_topo", {"gpus": 8, "nics": 0, "nvlinks": 12}),
    Recorded("topo-h100.txt", "nvidia_topo", {"gpus": 8, "nics": 0, "nvlinks": 18}),
    Recorded("topo-dgx-station.txt", "nvidia_topo", {"gpus": 4, "nics": 0, "nvlinks": 0}),
    Recorded("topo-pix.txt", "nvidia_topo", {"gpus": 2, "nics": 0, "nvlinks": 0}),
]  # fmt: skip
#: Recorded outputs that are not a measurement, and a part of the reason.
REFUSED = {
    "refused-nccl-tests-rank-0-twice.txt": ("nccl_tests", "build nccl-tests with MPI=1"),
    "refused-fi_pingpong-dgram.txt": ("fi_pingpong", "use -e rdm"),
    "refused-nvidia-smi-1-of-4.xml": ("nvidia_smi", "1 of 4 GPUs"),
}
