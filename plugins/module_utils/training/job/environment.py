# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The variables of NCCL, EFA, Gloo and Open MPI that a job should set, and those that it should not, with reasons.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t

_NCCL = "NVIDIA NCCL user guide, Environment Variables"
_OFI = "aws-ofi-nccl README and src/platform-aws.c"
_EFA = "libfabric fi_efa(7)"
_TORCH = "PyTorch, torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp"


class Unwanted(t.NamedTuple):
    """A variable that a job should not set.

    pattern: the whole name, as a regular expression that awk reads too (profile.py). values: one of the values that are
    meant, in lower case; "" for any. unless: "mpi" where a job that runs MPI does need it. why, remedy, source.
    """

    pattern: str
    values: str
    unless: str
    why: str
    remedy: str
    source: str


UNWANTED: tuple[Unwanted, ...] = (
    Unwanted(
        "FI_PROVIDER", "efa", "mpi",
        "the plugin of NCCL selects EFA by itself on EC2, and elsewhere libfabric then finds no provider",
        "leave it out; an MPI program alone needs it", _OFI,
    ),
    Unwanted(
        "FI_EFA_USE_DEVICE_RDMA", "", "",
        "libfabric turns RDMA on where the device has it; on a type without it, 1 makes jobs fail",
        "leave it out", _EFA,
    ),
    Unwanted(
        "FI_EFA_FORK_SAFE|RDMAV_FORK_SAFE|RDMAV_HUGEPAGES_SAFE|IBV_FORK_SAFE", "", "",
        "kernels since 5.13 copy registered pages on fork themselves; the old way slows each registration",
        "leave it out", _EFA,
    ),
    Unwanted(
        "FI_EFA_ENABLE_SHM_TRANSFER", "", "",
        "it is the default, and NCCL moves data inside a node by itself",
        "leave it out", _EFA,
    ),
    Unwanted(
        "FI_EFA_SET_CUDA_SYNC_MEMOPS", "", "",
        "libfabric has not read it since 1.19.1; it was for NCCL 2.19 with EFA installers before 1.29",
        "leave it out", "ofiwg/libfabric pull request 9459; aws/aws-ofi-nccl issue 584",
    ),
    Unwanted(
        "FI_EFA_USE_HUGE_PAGE", "1|true|yes", "",
        "huge pages make fork fail with `Cannot allocate memory`, as in workers of a data loader",
        "leave it out, or set 0 if fork fails", _EFA,
    ),
    Unwanted(
        "NCCL_PROTO|NCCL_ALGO", "", "",
        "NCCL and the tuner of its EFA plugin choose by size and topology; a fixed one costs bandwidth",
        "leave it out", f"{_NCCL}; {_OFI}",
    ),
    Unwanted(
        "NCCL_TUNER_PLUGIN|NCCL_BUFFSIZE|NCCL_P2P_NET_CHUNKSIZE", "", "",
        "the EFA plugin sets what its platform needs; a value from elsewhere takes its place",
        "leave it out", _OFI,
    ),
    Unwanted(
        "NCCL_TOPO_FILE", "/opt/(aws-ofi-nccl|amazon)/.*", "",
        "the EFA plugin gives NCCL the topology of its platform; a file of another release takes its place",
        "leave it out", _OFI,
    ),
    Unwanted(
        "LD_PRELOAD", ".*libnccl(-net[^/]*)?[.]so.*", "",
        "it puts another NCCL under PyTorch than the one that it brings, and an image may not have the file",
        "leave it out, and build the image with the NCCL that you want", "ld.so(8)",
    ),
    Unwanted(
        "NCCL_IFNAME", "", "",
        "NCCL has no variable of this name, so it has no effect", "NCCL_SOCKET_IFNAME is the name", _NCCL,
    ),
    Unwanted(
        "NCCL_COMM_TIMEOUT_SECONDS|NCCL_TIMEOUT", "", "",
        "NCCL has no variable of this name, so it has no effect",
        "give timeout= to torch.distributed.init_process_group", _NCCL,
    ),
    Unwanted(
        "NCCL_TREE_THRESHOLD|NCCL_LL_THRESHOLD|NCCL_SINGLE_RING_THRESHOLD", "", "",
        "NCCL has not read it since 2.5", "leave it out", _NCCL,
    ),
    Unwanted(
        "NCCL_(MIN|MAX)_(NCHANNELS|NRINGS)|NCCL_RINGS", "", "",
        "NCCL chooses the channels by the topology; a fixed number takes GPU cores or bandwidth",
        "leave it out", _NCCL,
    ),
    Unwanted(
        "NCCL_CROSS_NIC", "", "",
        "NCCL tries by itself whether rings may cross rails (2 is the default)", "leave it out", _NCCL,
    ),
    Unwanted(
        "NCCL_IB_DISABLE", "1", "",
        "with EFA it has no effect, and on InfiniBand or RoCE it moves all traffic to TCP",
        "leave it out", _NCCL,
    ),
    Unwanted(
        "NCCL_DEBUG_FILE", ".*%r.*", "",
        "NCCL knows %h (host) and %p (process) and no %r: all ranks of a node write one file",
        "write %h and %p", _NCCL,
    ),
    Unwanted(
        "NCCL_ASYNC_ERROR_HANDLING|NCCL_BLOCKING_WAIT|NCCL_DESYNC_DEBUG", "", "",
        "PyTorch 2.2 renamed it and warns of the old name",
        "leave it out (errors are handled by default), or write TORCH_ before it", _TORCH,
    ),
)  # fmt: skip


#: Places that should not be used any more, and their reason: directories, wherever a job names them.
PATHS: tuple[tuple[str, Unwanted], ...] = (
    (
        "/opt/aws-ofi-nccl",
        Unwanted(
            "", "", "",
            "the EFA installer brings the plugin in /opt/amazon/ofi-nccl, where NCCL finds it; an older copy here takes"
            " its place",
            "leave it out", "EFA installer 1.38 and later; aws/aws-ofi-nccl issue 803",
        ),
    ),
)  # fmt: skip


class Setting(t.NamedTuple):
    """A variable that a job should set, and why."""

    name: str
    value: str
    why: str


def unwanted(name: str, value: str, mpi: bool = False) -> Unwanted | None:
    """Return why a job should not set a variable, or None.

    mpi: whether it runs an MPI program.
    """
    for row in UNWANTED:
        if not re.fullmatch(row.pattern, name):
            continue
        if row.unless == "mpi" and mpi:
            continue
        if not row.values or re.fullmatch(row.values, value, re.IGNORECASE):
            return row
    return None


def unwanted_path(text: str) -> tuple[str, Unwanted] | None:
    """Return the first place in a text that should not be used any more, and its row."""
    for path, row in PATHS:
        if re.search(rf"(?<![\w./-]){re.escape(path)}(?![\w.-])", text):
            return path, row
    return None


def unwanted_in(variables: t.Mapping[str, str]) -> list[tuple[str, Unwanted]]:
    """Return which of these variables, set for all programs of a job, should not be set, each with its row."""
    found = [(name, unwanted(name, value)) for name, value in variables.items()]
    return [(name, row) for name, row in found if row]


def settings(machine_type: str = "", *, efa: bool = False, mpi: bool = False) -> list[Setting]:
    """Return the variables for a job over several nodes of a machine type, none that is obsolete.

    machine_type: such as p5.48xlarge; "" where it is not known. efa: whether the nodes have EFA (the
    table of machine types has it). mpi: whether MPI itself carries the data.
    """
    family = machine_type.partition(".")[0]
    found = [
        Setting("NCCL_SOCKET_IFNAME", "^docker,lo,veth", "any interface that leads to other nodes")
    ]
    if re.match(r"g[56]", family):
        found.append(
            Setting("NCCL_SHM_USE_CUDA_MEMCPY", "1", "GPUs without NVLink copy about twice as fast")
        )
    if "gb200" in family or "gb300" in family:
        found += [
            Setting("NCCL_MNNVL_ENABLE", "1", "NVLink spans the nodes of a rack"),
            Setting("NCCL_NVLS_ENABLE", "1", "switches reduce on the way"),
        ]
    if mpi and efa:
        found += [
            Setting("FI_PROVIDER", "efa", "MPI does not choose EFA by itself"),
            Setting("OMPI_MCA_pml", "^ucx", "UCX knows no EFA"),
        ]
    return found


def interface_fits(value: str, interfaces: t.Collection[str], exact: bool) -> bool:
    """Return whether a node with these interfaces has one that the value names.

    exact: whether names are whole ones (Gloo, Open MPI); NCCL takes them for the beginning of one,
    except after `=`, and `^` excludes.
    """
    if value.startswith("^"):
        return True
    whole = exact or value.startswith("=")
    names = [name.strip() for name in value.lstrip("=").split(",") if name.strip()]
    return any(
        one == name or (not whole and one.startswith(name)) for name in names for one in interfaces
    )


#: Variables that name interfaces, and whether they take whole names.
INTERFACES = {
    "NCCL_SOCKET_IFNAME": False,
    "GLOO_SOCKET_IFNAME": True,
    "TP_SOCKET_IFNAME": True,
    "OMPI_MCA_btl_tcp_if_include": True,
    "OMPI_MCA_oob_tcp_if_include": True,
}
