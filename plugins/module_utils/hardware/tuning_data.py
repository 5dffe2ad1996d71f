# The settings of a compute node that are tuned, and why.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The table of settings, read by tuning.py; docs/node_tuning.md shows it.

A row is here because a document of the hardware's or the system's maker asks for it, and because it harms no job.
Conditions look at what the machine has, not at the name of its type, so a bought machine and a cloud type with the
same hardware are tuned alike.
"""

from __future__ import annotations

import typing as t

#: The stock profile of tuned that ours includes.
BASE = "throughput-performance"

#: Speed from which a network interface counts as fast, in Mbit/s.
FAST_MBPS = 40000


class Row(t.NamedTuple):
    """One kernel setting. when: a key of CONDITIONS."""

    name: str
    value: str
    when: str
    why: str
    source: str


#: Condition -> how the guide puts it.
CONDITIONS: dict[str, str] = {
    "always": "every compute node",
    "gpus": "with GPUs",
    "efa": "with EFA",
    "fast_network": "with EFA, or an interface of 40 Gbit/s or more",
}

ROWS: tuple[Row, ...] = (
    Row(
        "kernel.numa_balancing",
        "0",
        "gpus",
        "The kernel unmaps pages to learn who uses them, and moves them. Ranks that are bound to the cores near their"
        " GPU gain nothing by that, and lose time to its page faults.",
        "Linux, admin-guide/sysctl/kernel, numa_balancing: off where the work is bound to NUMA nodes",
    ),
    Row(
        "kernel.yama.ptrace_scope",
        "0",
        "efa",
        "Libfabric copies between the processes of a job on one node by process_vm_readv, which Ubuntu's value of 1"
        " forbids. A user's processes can then read each other, and never those of another user.",
        "AWS ParallelCluster User Guide, Elastic Fabric Adapter, note on ptrace protection",
    ),
    Row(
        "net.ipv4.tcp_rmem",
        "4096 131072 16777216",
        "fast_network",
        "Lets one connection (NCCL over sockets, S3, NFS) fill a fast link. Least and default stay the kernel's.",
        "tuned, profile network-throughput (for 40 Gbit/s and more)",
    ),
    Row(
        "net.ipv4.tcp_wmem",
        "4096 16384 16777216",
        "fast_network",
        "The same for sending.",
        "tuned, profile network-throughput (for 40 Gbit/s and more)",
    ),
    Row(
        "vm.dirty_background_ratio",
        "10",
        "always",
        "The kernel's own value, so that it does not depend on the included profile.",
        "Linux, admin-guide/sysctl/vm, dirty_background_ratio",
    ),
    Row(
        "vm.dirty_ratio",
        "20",
        "always",
        "The kernel's own value. The included profile has 40, which on a node of 2 TB would let 800 GB of a checkpoint"
        " wait in memory for the disk.",
        "Linux, admin-guide/sysctl/vm, dirty_ratio",
    ),
    Row(
        "vm.max_map_count",
        "1048576",
        "always",
        "Data loaders that map many files, and allocators that map in small pieces, reach the kernel's 65530 and fail"
        " with 'Cannot allocate memory'. The limit itself costs no memory.",
        "Linux, admin-guide/sysctl/vm, max_map_count; the value is that of Ubuntu 24.04 and Fedora 39 (not verified)",
    ),
)
