# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is and runs: readers of /proc and /sys, and parsers of the few commands needed.

Every reader takes the root of the file system, so that recorded trees can stand in for a machine.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import glob
import grp
import os
import platform
import pwd
import re
import shutil
import socket
import struct
import subprocess
import threading
import time

from . import spank

SERVICES = ("slurmctld", "slurmdbd", "slurmd", "slurmrestd", "sackd", "munge", "mariadb")
KNOWN_USERS = ("slurm", "munge", "slurmrestd")
# Distribution names first, then SchedMD's own packages.
DEB_PACKAGES = ("slurmd", "slurmctld", "slurm-client", "slurm-smd-slurmd", "slurm-smd-client")
RPM_PACKAGES = ("slurm", "slurm-slurmd", "slurm-slurmctld")
PREFIXES = ("/usr", "/opt/slurm", "/usr/local", "/usr/local/slurm", "/opt/slurm/current")
CONF_KEYS = ("AuthType", "ClusterName", "SlurmdSpoolDir", "StateSaveLocation")
COMMAND_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
}
TCP_LISTEN = "0A"


def read(path: str, default: str = "") -> str:
    """Text of a file without surrounding blanks; default where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return default


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
        # -1 is what some ARM machines say: one socket.
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
        # The .metal types have no hypervisor, but the same vendor.
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


def parse_nvidia_smi(text: str, minors: dict[str, int]) -> list[dict[str, object]]:
    """GPUs from nvidia-smi's CSV of index, name, memory.total (MiB) and pci.bus_id.

    minors: device minor by PCI address, since /dev/nvidiaN is numbered by minor and not by index.
    """
    gpus = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != 4 or not parts[0].isdigit():
            continue
        index = int(parts[0])
        minor = minors.get(pci_address(parts[3]), index)
        gpus.append(
            {
                "device": "/dev/nvidia%d" % minor,
                "index": index,
                "model": parts[1],
                "memory_mb": int(parts[2]) if parts[2].isdigit() else 0,
            }
        )
    return gpus


def pci_address(text: str) -> str:
    """PCI address in the kernel's form: "00000000:1B:00.0" -> "0000:1b:00.0"."""
    domain, _colon, rest = text.strip().lower().partition(":")
    return "%s:%s" % (domain[-4:], rest)


def gpu_minors(root: str = "/") -> dict[str, int]:
    """Device minor of each NVIDIA GPU by PCI address, as the driver tells them."""
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


def interface_addresses() -> list[tuple[str, str]]:
    """(interface, IPv4 address) pairs of this machine, loopback left out (SIOCGIFCONF)."""
    size = 128 * 40
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        buffer = array.array("B", b"\0" * size)
        request = struct.pack("iL", size, buffer.buffer_info()[0])
        used = struct.unpack("iL", fcntl.ioctl(sock.fileno(), 0x8912, request))[0]
    raw = buffer.tobytes()[:used]
    pairs = []
    for start in range(0, used, 40):  # struct ifreq: 16 bytes of name, then a sockaddr
        name = raw[start : start + 16].split(b"\0", 1)[0].decode().partition(":")[0]
        address = socket.inet_ntoa(raw[start + 20 : start + 24])
        if not address.startswith("127."):
            pairs.append((name, address))
    return pairs


def default_interface(root: str = "/") -> str:
    """Interface of the IPv4 default route, "" without one."""
    for line in read(os.path.join(root, "proc/net/route")).splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000":
            return fields[0]
    return ""


def nics(root: str, pairs: list[tuple[str, str]]) -> list[dict[str, object]]:
    """Network interfaces with their speed in Mbit/s (0: unknown) and first IPv4 address."""
    found = []
    for path in sorted(glob.glob(os.path.join(root, "sys/class/net/*"))):
        name = os.path.basename(path)
        if name == "lo" or not os.path.isdir(path):
            continue
        address = next((address for nic, address in pairs if nic == name), "")
        if not address and not os.path.exists(os.path.join(path, "device")):
            continue  # a virtual interface nobody uses
        speed = max(read_int(os.path.join(path, "speed")), 0)
        found.append({"name": name, "speed_mbps": speed, "address": address})
    return found


def efa_devices(root: str = "/") -> list[str]:
    """RDMA devices driven by the EFA driver."""
    return sorted(
        os.path.basename(path)
        for path in glob.glob(os.path.join(root, "sys/class/infiniband/*"))
        if os.path.basename(os.path.realpath(os.path.join(path, "device/driver"))) == "efa"
    )


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


def listening_inodes(root: str, ports: set[int]) -> dict[str, int]:
    """Socket inode -> port, for every listening TCP socket on one of these ports."""
    inodes = {}
    for name in ("tcp", "tcp6"):
        for line in read(os.path.join(root, "proc/net", name)).splitlines()[1:]:
            fields = line.split()
            if len(fields) < 10 or fields[3] != TCP_LISTEN:
                continue
            port = int(fields[1].rpartition(":")[2], 16)
            if port in ports:
                inodes[fields[9]] = port
    return inodes


def listeners(root: str, ports: list[int]) -> dict[str, str]:
    """Which process listens on each of the ports; free ports are left out, "?" where not told."""
    inodes = listening_inodes(root, set(ports))
    found = {str(port): "?" for port in inodes.values()}
    waiting = dict(inodes)
    for process in glob.glob(os.path.join(root, "proc/[0-9]*")) if inodes else ():
        try:
            entries = os.listdir(os.path.join(process, "fd"))
        except OSError:
            continue
        for entry in entries:
            try:
                target = os.readlink(os.path.join(process, "fd", entry))
            except OSError:
                continue
            port = waiting.pop(target[8:-1], None) if target.startswith("socket:[") else None
            if port is not None:
                found[str(port)] = read(os.path.join(process, "comm"), "?")
        if not waiting:
            break
    return found


def probe(target: str, timeout: float = 3.0) -> str:
    """Result of one TCP connection to "host:port"; refused means that the way there is open."""
    host, _colon, port = target.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=timeout):
            return "open"
    except socket.gaierror:
        return "unresolved"
    except ConnectionRefusedError:
        return "refused"
    except socket.timeout:
        return "filtered: no answer in %g s" % timeout
    except ValueError:
        return "unresolved"
    except OSError as error:
        return "filtered: %s" % (error.strerror or error)


class Probes:
    """TCP probes that run beside everything else."""

    def __init__(self, targets: list[str], deadline: float = 8.0) -> None:
        self.results: dict[str, str] = {}
        self.targets = list(dict.fromkeys(targets))
        self.end = time.monotonic() + deadline
        # Daemon threads: a resolver that hangs must not keep the module from ending.
        self.threads = [
            threading.Thread(target=self._probe, args=(target,), daemon=True)
            for target in self.targets
        ]
        for thread in self.threads:
            thread.start()

    def _probe(self, target: str) -> None:
        self.results[target] = probe(target)

    def collect(self) -> dict[str, str]:
        for thread in self.threads:
            thread.join(max(self.end - time.monotonic(), 0))
        return {target: self.results.get(target, "unresolved") for target in self.targets}


def unescape_mount(text: str) -> str:
    """A path from mountinfo, where blanks are written in octal."""
    return re.sub(r"\\(\d{3})", lambda match: chr(int(match.group(1), 8)), text)


def disk(path: str, mountinfo: str) -> dict[str, object]:
    """Free space (MiB), file system type and mount point of a path or its nearest parent."""
    where = os.path.abspath(path)
    while not os.path.exists(where):
        where = os.path.dirname(where)
    where = os.path.realpath(where)
    space = os.statvfs(where)
    best, fstype = "", ""
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split()
        if not dash or len(fields) < 5:
            continue
        mount = unescape_mount(fields[4])
        inside = where == mount or where.startswith(mount.rstrip("/") + "/")
        # The last of several mounts on one point is the one in use.
        if inside and len(mount) >= len(best):
            best, fstype = mount, right.split()[0]
    return {
        "free_mb": space.f_bavail * space.f_frsize // 2**20,
        "fstype": fstype,
        "mount": best,
    }


def accounts(names: list[str], uids: list[int]) -> dict[str, dict]:
    """Users and groups by name (None where there is none) and names by uid."""
    users: dict[str, object] = {}
    groups: dict[str, object] = {}
    for name in names:
        try:
            entry = pwd.getpwnam(name)
            users[name] = {"uid": entry.pw_uid, "gid": entry.pw_gid}
        except KeyError:
            users[name] = None
        try:
            groups[name] = {"gid": grp.getgrnam(name).gr_gid}
        except KeyError:
            groups[name] = None
    holders = {}
    for uid in uids:
        with contextlib.suppress(KeyError):
            holders[str(uid)] = pwd.getpwuid(uid).pw_name
    return {"users": users, "groups": groups, "uids": holders}


def fqdn(nodename: str, hosts: str) -> str:
    """Full name without asking DNS, which may hang: the kernel's, else the one in /etc/hosts."""
    if "." in nodename:
        return nodename
    for line in hosts.splitlines():
        names = line.partition("#")[0].split()[1:]
        if nodename in names:
            full = [name for name in names if name.startswith(nodename + ".")]
            if full:
                return full[0]
    return nodename


def parse_apt_policy(text: str) -> tuple[str, str]:
    """(installed, candidate) version of the first package that has one, from apt-cache policy."""
    installed = candidate = ""
    for key, value in re.findall(r"^\s+(Installed|Candidate): (\S+)", text, re.M):
        if value == "(none)":
            continue
        if key == "Installed":
            installed = installed or value
        else:
            candidate = candidate or value
    return installed, candidate


def parse_dpkg_query(text: str) -> str:
    """Version of the first installed package in "<status> <version>" lines."""
    for line in text.splitlines():
        status, _blank, version = line.partition(" ")
        if status == "installed" and version:
            return version
    return ""


def parse_rpm_query(text: str) -> str:
    """Version of the first package in rpm's "<version>-<release>" lines."""
    for line in text.splitlines():
        if re.match(r"\d", line):
            return line.strip()
    return ""


def upstream_version(version: str) -> str:
    """Version without epoch and packaging: "1:24.11.5-4" -> "24.11.5"."""
    return re.split(r"[-+~]", version.partition(":")[2] or version, maxsplit=1)[0]


def parse_show(text: str) -> list[dict[str, str]]:
    """Properties of each unit, in the order in which systemctl show was asked for them."""
    units = []
    for block in text.strip("\n").split("\n\n") if text.strip() else ():
        properties = {}
        for line in block.splitlines():
            key, equals, value = line.partition("=")
            if equals:
                properties[key] = value
        units.append(properties)
    return units


def service_states(text: str, names: tuple[str, ...] = SERVICES) -> dict[str, str]:
    """State of each service, "absent" where there is no such unit or no systemd."""
    states = dict.fromkeys(names, "absent")
    for name, unit in zip(names, parse_show(text)):
        if unit.get("LoadState") not in (None, "not-found"):
            states[name] = unit.get("ActiveState", "absent")
    return states


def slurm_conf_values(text: str, keys: tuple[str, ...] = CONF_KEYS) -> dict[str, str]:
    """Values of some slurm.conf parameters, whose names know no upper and lower case."""
    wanted = {key.lower(): key for key in keys}
    values = {}
    for line in text.splitlines():
        key, equals, value = line.partition("#")[0].partition("=")
        name = wanted.get(key.strip().lower())
        if equals and name and value.strip():
            values[name] = value.split()[0]
    return values


def mpi_plugins(plugin_dir: str, root: str = "/") -> list[str]:
    """What `srun --mpi=` takes here: the MPI plugins in Slurm's plugin directory, such as ["pmi2", "pmix_v5"]."""
    pattern = os.path.join(root, plugin_dir.lstrip("/"), "mpi_*.so") if plugin_dir else ""
    return sorted(os.path.basename(path)[4:-3] for path in glob.glob(pattern))


def slurm_places(root: str = "/") -> dict[str, str]:
    """Where Slurm is installed; the places it will have where it is not yet."""

    def exists(path: str) -> bool:
        return os.path.exists(os.path.join(root, path.lstrip("/")))

    def has_slurm(candidate: str) -> bool:
        return any(
            exists(candidate + name)
            for name in ("/sbin/slurmd", "/sbin/slurmctld", "/sbin/slurmdbd", "/bin/sinfo")
        )

    prefix = next((candidate for candidate in PREFIXES if has_slurm(candidate)), "/usr")
    config_dir = "/etc/slurm"
    if prefix != "/usr" and exists(prefix + "/etc") and not exists("/etc/slurm/slurm.conf"):
        config_dir = prefix + "/etc"
    plugin_dir = ""
    for pattern in ("lib/*/slurm-wlm", "lib/*/slurm", "lib64/slurm", "lib/slurm"):
        for path in sorted(glob.glob(os.path.join(root, prefix.lstrip("/"), pattern))):
            if glob.glob(os.path.join(path, "auth_*.so")):
                plugin_dir = plugin_dir or "/" + os.path.relpath(path, root)
    return {
        "prefix": prefix,
        "sbin": prefix + "/sbin",
        "config_dir": config_dir,
        "plugin_dir": plugin_dir,
    }


class Commands:
    """The few commands that facts need, all started at once and collected later."""

    def __init__(self) -> None:
        self.running: dict[str, subprocess.Popen] = {}

    def start(self, key: str, argv: list[str]) -> None:
        if shutil.which(argv[0], path=COMMAND_ENV["PATH"]) is None:
            return
        self.running[key] = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=COMMAND_ENV,
            text=True,
            errors="replace",
        )

    def output(self, key: str, timeout: float = 20.0) -> str:
        """Standard output; "" where the command is missing, failed to answer or was too slow."""
        process = self.running.pop(key, None)
        if process is None:
            return ""
        try:
            return process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            return ""


def start_version_query(commands: Commands, like: str, places: dict[str, str]) -> None:
    """Ask the package manager, or the daemon itself where Slurm is not packaged."""
    if places["prefix"] != "/usr":
        daemons = [os.path.join(places["sbin"], name) for name in ("slurmd", "slurmctld")]
        present = [path for path in daemons if os.path.exists(path)]
        commands.start("daemon", [*(present or [places["prefix"] + "/bin/sinfo"])[:1], "-V"])
    elif like == "debian":
        form = "${db:Status-Status} ${Version}\n"
        commands.start("packages", ["dpkg-query", "-W", "-f", form, *DEB_PACKAGES])
    elif like == "rhel":
        commands.start("packages", ["rpm", "-q", "--qf", "%{VERSION}-%{RELEASE}\n", *RPM_PACKAGES])


def slurm_version(commands: Commands, like: str, places: dict[str, str]) -> dict[str, str]:
    """Installed version, and the packaged one that an installation would leave."""
    packages = commands.output("packages")
    installed = parse_dpkg_query(packages) if like == "debian" else parse_rpm_query(packages)
    candidate = installed.partition(":")[2] or installed
    if not installed and like == "debian" and glob.glob("/var/lib/apt/lists/*_Packages*"):
        # Costs half a second of CPU, so it is asked only before the installation.
        commands.start("apt", ["apt-cache", "policy", *DEB_PACKAGES])
        candidate = parse_apt_policy(commands.output("apt"))[1].rpartition(":")[2]
    daemon = os.path.join(places["sbin"], "slurmd")
    if not installed and places["prefix"] == "/usr" and os.path.exists(daemon):
        commands.start("daemon", [daemon, "-V"])  # in /usr, but no package: a site's own build
    match = re.search(r"slurm(?:-wlm)? (\d\S*)", commands.output("daemon"))
    if match:
        installed = match.group(1)
    return {"version": upstream_version(installed), "candidate": candidate}


# Programs that Enroot and Pyxis call, and the package that has them on Debian.
CONTAINER_PROGRAMS = {
    "enroot": "enroot",
    "mksquashfs": "squashfs-tools",
    "squashfuse": "squashfuse",
    "fuse-overlayfs": "fuse-overlayfs",
    "parallel": "parallel",
    "jq": "jq",
    "curl": "curl",
    "zstd": "zstd",
}
# Where they are: not in /usr/local/sbin, which has what role enroot puts before two of them.
CONTAINER_PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONTAINER_PACKAGES = ("enroot", "enroot+caps", "trainwright-pyxis")


def start_container_query(commands: Commands, like: str) -> None:
    """Ask the package manager for Enroot and Pyxis."""
    if like == "debian":
        form = "${Package} ${db:Status-Status} ${Version}\n"
        commands.start("containers", ["dpkg-query", "-W", "-f", form, *CONTAINER_PACKAGES])
    else:
        form = "%{NAME} installed %{VERSION}-%{RELEASE}\n"
        commands.start("containers", ["rpm", "-q", "--qf", form, *CONTAINER_PACKAGES])


def containers(commands: Commands, plugin: str = spank.PLUGIN) -> dict[str, object]:
    """Enroot and Pyxis of this node: versions, missing programs, and the Slurm that the plugin was built for."""
    output = commands.output("containers")
    versions = dict(re.findall(r"^(\S+) installed (\S+)$", output, re.M))
    built_for, error = "", ""
    try:
        built_for = "%d.%02d" % spank.built_for(plugin)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as problem:
        error = str(problem)
    return {
        "enroot": versions.get("enroot", ""),
        "enroot_caps": versions.get("enroot+caps", ""),
        "missing_programs": sorted(
            name for name in CONTAINER_PROGRAMS if shutil.which(name, path=CONTAINER_PATH) is None
        ),
        "crun": shutil.which("crun", path=COMMAND_ENV["PATH"]) is not None,
        "pyxis": versions.get("trainwright-pyxis", ""),
        "pyxis_built_for": built_for,
        "pyxis_error": error,
    }


def gather(
    ports: list[int],
    reach: list[str],
    paths: list[str],
    users: list[str],
    uids: list[int],
) -> dict[str, object]:
    """All facts of this node; see the module node_facts for what each of them means."""
    root = "/"
    probes = Probes(reach)
    commands = Commands()
    places = slurm_places(root)
    release = os_release(root)
    commands.start("services", ["systemctl", "show", "--property=LoadState,ActiveState", *SERVICES])
    query = "--query-gpu=index,name,memory.total,pci.bus_id"
    commands.start("gpus", ["nvidia-smi", query, "--format=csv,noheader,nounits"])
    start_version_query(commands, release["like"], places)
    start_container_query(commands, release["like"])

    uname = os.uname()
    pairs = interface_addresses()
    first = default_interface(root)
    pairs.sort(key=lambda pair: pair[0] != first)
    mountinfo = read("/proc/self/mountinfo")
    tmp = os.statvfs("/tmp")
    facts: dict[str, object] = {
        "hostname": uname.nodename.partition(".")[0],
        "fqdn": fqdn(uname.nodename, read("/etc/hosts")),
        "addresses": [address for _nic, address in pairs],
        "os": release,
        "kernel": uname.release,
        "arch": uname.machine,
        "python": platform.python_version(),
        "virtualization": virtualization(root),
        **cpu_layout(root),
        "memory_mb": memory_mb(root),
        "tmp_disk_mb": tmp.f_blocks * tmp.f_frsize // 2**20,
        "nics": nics(root, pairs),
        "efa": efa_devices(root),
        "nvme": nvme_disks(root),
        "cgroup": cgroup(root),
        **accounts(list(dict.fromkeys([*KNOWN_USERS, *users])), uids),
        "ports": listeners(root, ports),
        "disks": {path: disk(path, mountinfo) for path in paths},
        "ssh_host_key": " ".join(read("/etc/ssh/ssh_host_ed25519_key.pub").split()[:2]),
        "boot_id": read("/proc/sys/kernel/random/boot_id"),
        "slurmd_running_conf": slurm_conf_values(
            read(os.path.join(places["config_dir"], "slurm.conf"))
        ),
    }
    # dpkg keeps a journal here only while it works: one that is left tells of an interruption.
    facts["packages_interrupted"] = bool(glob.glob("/var/lib/dpkg/updates/[0-9]*"))
    facts["slurm"] = {
        **slurm_version(commands, release["like"], places),
        **places,
        "mpi": mpi_plugins(places["plugin_dir"]),
    }
    facts["containers"] = containers(commands)
    facts["services"] = service_states(commands.output("services"))
    facts["gpus"] = parse_nvidia_smi(commands.output("gpus"), gpu_minors(root)) or gpu_devices(root)
    facts["reach"] = probes.collect()
    return facts
