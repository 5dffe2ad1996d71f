# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Facts of a machine: CPUs, memory, operating system, cgroups, GPUs, EFA, disks. Runs on nodes: Python 3.9."""

from __future__ import annotations

import glob
import os
import re
import typing as t

from .file_systems import TABLE

MOUNTINFO = "/proc/self/mountinfo"


def read(path: str, default: str = "") -> str:
    """Text of a file without surrounding blanks; default where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return default


def real_uid(status: str) -> int:
    """Return the real user of a process from its /proc/PID/status, -1 where that does not say it.

    A program with the set-user-id bit keeps the real user of whoever started it, and the owner of /proc/PID may be root
    for any process that is not dumpable: proc(5).
    """
    for line in status.splitlines():
        name, _colon, numbers = line.partition(":")
        if name == "Uid" and numbers.split():
            return int(numbers.split()[0])
    return -1


def read_int(path: str, default: int = 0) -> int:
    """First number in a file; default where there is none."""
    try:
        return int(read(path).split()[0])
    except (IndexError, ValueError):
        return default


def expand_cpu_list(text: str) -> list[int]:
    """Numbers of a kernel CPU list: "0-2,5" -> [0, 1, 2, 5]."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _dash, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def cpu_layout(root: str = "/") -> dict[str, int]:
    """Logical CPUs, sockets, cores a socket and threads a core, as slurmd counts them."""
    base = os.path.join(root, "sys/devices/system/cpu")
    online = expand_cpu_list(read(os.path.join(base, "online")))
    packages, cores = set(), set()
    for cpu in online:
        topology = os.path.join(base, "cpu%d" % cpu, "topology")
        # Some ARM machines report -1 for one socket.
        packages.add(max(read_int(os.path.join(topology, "physical_package_id")), 0))
        cores.add(read(os.path.join(topology, "thread_siblings_list")) or str(cpu))
    cpus = len(online) or os.cpu_count() or 1
    sockets = len(packages) or 1
    cores_per_socket = max((len(cores) or cpus) // sockets, 1)
    threads = max(cpus // (sockets * cores_per_socket), 1)
    if sockets * cores_per_socket * threads != cpus:
        # Uneven (hybrid cores, CPUs switched off): one flat socket is what Slurm can express.
        sockets, cores_per_socket, threads = 1, cpus, 1
    return {
        "cpus": cpus,
        "boards": 1,
        "sockets": sockets,
        "cores_per_socket": cores_per_socket,
        "threads_per_core": threads,
    }


def memory_mb(root: str = "/") -> int:
    """Memory in MiB, rounded down as slurmd does."""
    match = re.search(r"^MemTotal:\s+(\d+)", read(os.path.join(root, "proc/meminfo")), re.M)
    return int(match.group(1)) // 1024 if match else 0


def os_release(root: str = "/") -> dict[str, str]:
    """Distribution from os-release; like is "debian", "rhel" or the distribution's own id."""
    text = read(os.path.join(root, "etc/os-release")) or read(
        os.path.join(root, "usr/lib/os-release")
    )
    values = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            values[key.strip()] = value.strip().strip("\"'")
    name = values.get("ID", "")
    family = {name, *values.get("ID_LIKE", "").split()}
    like = name
    if family & {"debian", "ubuntu"}:
        like = "debian"
    elif family & {"rhel", "fedora", "centos", "amzn"}:
        like = "rhel"
    return {
        "id": name,
        "like": like,
        "version": values.get("VERSION_ID", ""),
        "codename": values.get("VERSION_CODENAME", ""),
        "pretty": values.get("PRETTY_NAME", name),
    }


def virtualization(root: str = "/") -> str:
    """ "container", the hypervisor's name, or "none"."""
    environ = read(os.path.join(root, "proc/1/environ"))
    if (
        read(os.path.join(root, "run/systemd/container"))
        or re.search(r"(^|\0)container=", environ)
        or os.path.exists(os.path.join(root, "run/.containerenv"))
        or os.path.exists(os.path.join(root, ".dockerenv"))
    ):
        return "container"
    dmi = " ".join(
        read(os.path.join(root, "sys/class/dmi/id", name))
        for name in ("sys_vendor", "product_name")
    ).lower()
    if "amazon" in dmi:
        # The .metal types do not have a hypervisor, but the same vendor.
        return "none" if ".metal" in dmi else "amazon"
    for word, name in (
        ("kvm", "kvm"),
        ("qemu", "qemu"),
        ("vmware", "vmware"),
        ("virtualbox", "oracle"),
        ("microsoft corporation virtual", "microsoft"),
        ("google compute", "google"),
        ("openstack", "kvm"),
        ("xen", "xen"),
    ):
        if word in dmi:
            return name
    cpuinfo = read(os.path.join(root, "proc/cpuinfo"))
    return "vm" if re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.M) else "none"


def cgroup(root: str = "/") -> dict[str, object]:
    """Mode and controllers; "hybrid" is what slurmd's cgroup/v2 plugin refuses to start in."""
    lines = read(os.path.join(root, "proc/self/cgroup")).splitlines()
    v2 = any(line.startswith("0::") for line in lines)
    v1 = [line.split(":")[1] for line in lines if not line.startswith("0::") and ":" in line]
    if v1:
        controllers = {
            name for entry in v1 for name in entry.split(",") if name and "=" not in name
        }
        return {"mode": "hybrid" if v2 else "v1", "controllers": sorted(controllers)}
    text = read(os.path.join(root, "sys/fs/cgroup/cgroup.controllers"))
    return {"mode": "v2" if v2 else "v1", "controllers": sorted(text.split())}


# Python's isdigit() takes characters that int() refuses, and int() refuses very long numbers.
_SMALL = re.compile(r"[0-9]{1,9}")


def parse_nvidia_smi(text: str, minors: dict[str, int]) -> list[dict[str, object]]:
    """GPUs from nvidia-smi's CSV of index, name, memory.total (MiB) and pci.bus_id.

    minors: device minor by PCI address, since /dev/nvidiaN is numbered by minor and not by index.
    """
    gpus = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != 4 or not _SMALL.fullmatch(parts[0]):
            continue
        index = int(parts[0])
        minor = minors.get(pci_address(parts[3]), index)
        gpus.append(
            {
                "device": "/dev/nvidia%d" % minor,
                "index": index,
                "model": parts[1],
                "memory_mb": int(parts[2]) if _SMALL.fullmatch(parts[2]) else 0,
            }
        )
    return gpus


def pci_address(text: str) -> str:
    """PCI address in the kernel's form: "00000000:1B:00.0" -> "0000:1b:00.0"."""
    domain, _colon, rest = text.strip().lower().partition(":")
    return "%s:%s" % (domain[-4:], rest)


def gpu_minors(root: str = "/") -> dict[str, int]:
    """Device minor of each NVIDIA GPU by PCI address, from the driver."""
    minors = {}
    for path in glob.glob(os.path.join(root, "proc/driver/nvidia/gpus/*/information")):
        match = re.search(r"^Device Minor:\s*(\d+)", read(path), re.M)
        if match:
            minors[pci_address(os.path.basename(os.path.dirname(path)))] = int(match.group(1))
    return minors


def gpu_devices(root: str = "/") -> list[dict[str, object]]:
    """GPUs by their device files alone, for nodes without nvidia-smi."""
    numbers = sorted(
        int(match.group(1))
        for path in glob.glob(os.path.join(root, "dev/nvidia[0-9]*"))
        if (match := re.fullmatch(r"nvidia(\d+)", os.path.basename(path)))
    )
    return [
        {"device": "/dev/nvidia%d" % number, "index": index, "model": "", "memory_mb": 0}
        for index, number in enumerate(numbers)
    ]


def efa_devices(root: str = "/") -> list[str]:
    """RDMA devices driven by the EFA driver."""
    return sorted(
        os.path.basename(path)
        for path in glob.glob(os.path.join(root, "sys/class/infiniband/*"))
        if os.path.basename(os.path.realpath(os.path.join(path, "device/driver"))) == "efa"
    )


#: PCI identifiers of the kernel's drivers: NVIDIA, whose GPUs are display or 3D controllers, and Amazon's EFA devices.
NVIDIA, GPU_CLASSES = "0x10de", ("0x0300", "0x0302")
AMAZON, EFA_IDS = "0x1d0f", re.compile(r"0xefa[0-9a-f]")


def on_bus(root: str = "/") -> dict[str, object]:
    """NVIDIA GPUs and EFA devices on the PCI bus, which need no driver to be seen there.

    gpu_lanes: of each GPU the lanes that its link has now; virtual machines may not show them.
    """
    gpus = efa = 0
    lanes = []
    for path in sorted(glob.glob(os.path.join(root, "sys/bus/pci/devices/*"))):
        vendor = read(os.path.join(path, "vendor"))
        if vendor == NVIDIA and read(os.path.join(path, "class")).startswith(GPU_CLASSES):
            gpus += 1
            # 0, 63 and 255 are a width that the kernel does not know.
            width = read_int(os.path.join(path, "current_link_width"))
            lanes += [width] if 1 <= width <= 32 else []
        elif vendor == AMAZON:
            efa += bool(EFA_IDS.fullmatch(read(os.path.join(path, "device"))))
    return {"gpus": gpus, "efa": efa, "gpu_lanes": lanes}


def parse_nvlink(text: str) -> list[int]:
    """Links of each GPU that are up, from `nvidia-smi nvlink --status`; empty without an answer."""
    links: list[int] = []
    for line in text.splitlines():
        if re.match(r"GPU \d+:", line):
            links.append(0)
        elif links and re.match(r"\s+Link \d+: [\d.]+ GB/s", line):
            links[-1] += 1
    return links


def infiniband_ports(root: str = "/") -> list[dict[str, object]]:
    """Ports of InfiniBand; those of Ethernet and EFA are left out. rate_gbps is 0 where it is unknown."""
    ports = []
    for path in sorted(glob.glob(os.path.join(root, "sys/class/infiniband/*/ports/*"))):
        if read(os.path.join(path, "link_layer")) == "InfiniBand":
            parts = path.split(os.sep)
            ports.append(
                {
                    "device": parts[-3],
                    "port": int(parts[-1]) if parts[-1].isdigit() else 0,
                    "active": "ACTIVE" in read(os.path.join(path, "state")),
                    "rate_gbps": read_int(os.path.join(path, "rate")),
                }
            )
    return ports


def nvme_disks(root: str = "/") -> list[dict[str, object]]:
    """NVMe namespaces with size in GB (10^9 bytes) and model."""
    disks = []
    for path in sorted(glob.glob(os.path.join(root, "sys/block/nvme*"))):
        name = os.path.basename(path)
        if not re.fullmatch(r"nvme\d+n\d+", name):
            continue
        disks.append(
            {
                "device": "/dev/" + name,
                "size_gb": read_int(os.path.join(path, "size")) * 512 // 10**9,
                "model": read(os.path.join(path, "device/model")),
            }
        )
    return disks


def unescape_mount(text: str) -> str:
    """A path from mountinfo, where blanks are written in octal."""
    return re.sub(r"\\(\d{3})", lambda match: chr(int(match.group(1), 8)), text)


def escape_mount(text: str) -> str:
    """Return a path or source as fstab has it: blanks, tabs, line ends and backslashes in octal. Source: fstab(5)."""
    return re.sub(r"[ \t\n\\]", lambda match: f"\\{ord(match[0]):03o}", text)


def mount_rows(mountinfo: str) -> t.Iterator[tuple[list[str], list[str]]]:
    """Yield the fields of each line of mountinfo: those before its dash, five or more, and the two or more after it.

    A user names the mount point and the source of a FUSE file system. The kernel writes blanks, tabs, line ends and
    backslashes of such names in octal, and no other character: what else Python takes for the end of a line or for a
    blank (U+2028, form feed) would make lines of the user's choice. Source: proc_pid_mountinfo(5).
    """
    for line in mountinfo.split("\n"):
        left, _dash, right = line.partition(" - ")
        fields, of_type = left.split(" "), right.split(" ")
        if len(fields) >= 5 and len(of_type) >= 2:
            yield fields, of_type


def is_plain_path(path: str) -> bool:
    """Whether a mount point is one that cluster_mounts can have."""
    return re.fullmatch(r"/[\w.+@/-]+", path) is not None


#: File systems that several hosts mount, as the kernel names them: a client may have another name there.
_NETWORK = {
    *(name for name, row in TABLE.items() if row.network),
    *("beegfs_nodev", "fuse.glusterfs", "orangefs", "panfs", "smb3"),
}
_MOUNTS = 256


def network_mounts(mountinfo: str) -> list[dict[str, str]]:
    """The network file systems that are mounted, by path: path, source, fstype. Paths as fstab can have them."""
    found: dict[str, dict[str, str]] = {}
    for fields, of_type in mount_rows(mountinfo):
        path = unescape_mount(fields[4])
        # The last of several mounts on one point is the one in use.
        found.pop(path, None)
        if of_type[0] in _NETWORK and is_plain_path(path):
            source = unescape_mount(of_type[1])
            found[path] = {"path": path, "source": source, "fstype": of_type[0]}
    return [found[path] for path in sorted(found)][:_MOUNTS]


def disk(path: str, mountinfo: str) -> dict[str, object]:
    """Free space (MiB), file system type and mount point of a path or its nearest parent. May hang: see deadline.py."""
    where = os.path.abspath(path)
    while not os.path.exists(where):
        where = os.path.dirname(where)
    where = os.path.realpath(where)
    space = os.statvfs(where)
    free_mb = space.f_bavail * space.f_frsize // 2**20
    return {"free_mb": free_mb, "answers": True, **mount_of(where, mountinfo)}


def mount_of(where: str, mountinfo: str) -> dict[str, object]:
    """Type and mount point of the file system of a path, by the path alone, and whether it enforces project quotas."""
    best, fstype, quota = "", "", False
    for fields, of_type in mount_rows(mountinfo):
        mount = unescape_mount(fields[4])
        inside = where == mount or where.startswith(mount.rstrip("/") + "/")
        # The last of several mounts on one point is the one in use.
        if inside and len(mount) >= len(best):
            best, fstype = mount, of_type[0]
            # xfs shows it as prjquota, and as pqnoenforce where it only counts.
            quota = "prjquota" in of_type[-1].split(",")
    return {"fstype": fstype, "mount": best, "project_quota": quota}
