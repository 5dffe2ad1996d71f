# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a node: readers of /proc and /sys, and parsers of the few commands needed.

Every reader takes the root of the file system, so that recorded trees can replace a machine.
"""

from __future__ import annotations

import contextlib
import glob
import grp
import os
import platform
import pwd
import re
import shutil
import signal
import subprocess
import typing as t

from . import (
    deadline,
    file_systems,
    fstab,
    logins,
    plugstack_place,
    reboots,
    scratch,
    slurm_places,
    spank,
    stack,
)
from .machine import (
    MOUNTINFO,
    cgroup,
    cpu_layout,
    disk,
    efa_devices,
    gpu_devices,
    gpu_minors,
    infiniband_ports,
    memory_mb,
    mount_of,
    network_mounts,
    nvme_disks,
    on_bus,
    os_release,
    parse_nvidia_smi,
    parse_nvlink,
    read,
    virtualization,
)
from .network import Probes, default_interface, interface_addresses, listeners, nics, peer
from .unit_properties import parse_show

SERVICES = (
    "slurmctld",
    "slurmdbd",
    "slurmd",
    "slurmrestd",
    "slurmrestd-front",
    "sackd",
    "munge",
    "mariadb",
    "trainwright-gpu-stack",
)
KNOWN_USERS = ("slurm", "munge", "slurmrestd")
# Distribution names first, then SchedMD's own packages.
DEB_PACKAGES = ("slurmd", "slurmctld", "slurm-client", "slurm-smd-slurmd", "slurm-smd-client")
RPM_PACKAGES = ("slurm", "slurm-slurmd", "slurm-slurmctld")
CONF_KEYS = ("AuthType", "ClusterName", "SlurmdSpoolDir", "StateSaveLocation")
COMMAND_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
}


def accounts(names: list[str], uids: list[int], gids: list[int]) -> dict[str, dict]:
    """Users and groups by name (None where there is none), names by uid and by gid."""
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
    group_holders = {}
    for gid in gids:
        with contextlib.suppress(KeyError):
            group_holders[str(gid)] = grp.getgrgid(gid).gr_name
    return {"users": users, "groups": groups, "uids": holders, "gids": group_holders}


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


def service_states(text: str, names: tuple[str, ...] = SERVICES) -> dict[str, str]:
    """State of each service, "absent" where there is no such unit or no systemd."""
    states = dict.fromkeys(names, "absent")
    for name, unit in zip(names, parse_show(text)):
        if unit.get("LoadState") not in (None, "not-found"):
            states[name] = unit.get("ActiveState", "absent")
    return states


def enabled_services(text: str, names: tuple[str, ...] = SERVICES) -> list[str]:
    """The services that systemd starts at boot, whether they run now or not."""
    shown = zip(names, parse_show(text))
    return [name for name, unit in shown if unit.get("UnitFileState") == "enabled"]


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


def service_hosts(slurm_conf: str, slurmdbd_conf: str) -> dict[str, object]:
    """Where the services of the cluster are, by its configuration files; without slurm.conf only the storage.

    controllers are written as SlurmctldHost is, the primary first. Passwords are not read.
    """
    found = slurm_conf_values(
        slurm_conf, ("AccountingStorageHost", "AccountingStorageType", "ClusterName")
    )
    storage = slurm_conf_values(slurmdbd_conf, ("StorageHost", "StorageLoc"))
    uses_database = found.get("AccountingStorageType") == "accounting_storage/slurmdbd"
    lines = re.findall(
        r"^[ \t]*SlurmctldHost[ \t]*=[ \t]*([^\s#]+)", slurm_conf, re.IGNORECASE | re.MULTILINE
    )
    return {
        "cluster": found.get("ClusterName", ""),
        "controllers": lines,
        "database": found.get("AccountingStorageHost", "localhost") if uses_database else "",
        "storage_host": storage.get("StorageHost", ""),
        "storage_database": storage.get("StorageLoc", ""),
    }


def controller_targets(slurm_conf: str) -> dict[str, str]:
    """By SlurmctldHost of a slurm.conf, its "host:port"; of several ports the first."""
    found = slurm_conf_values(slurm_conf, ("SlurmctldPort",))
    port = found.get("SlurmctldPort", "6817").partition("-")[0]
    targets = {}
    for text in t.cast("list[str]", service_hosts(slurm_conf, "")["controllers"]):
        name, _bracket, address = text.rstrip(")").partition("(")
        targets[text] = f"{address or name}:{port}"
    return targets


def mpi_plugins(plugin_dir: str, root: str = "/") -> list[str]:
    """Values of `srun --mpi=` on this host: the MPI plugins in Slurm's plugin directory, such as ["pmi2"]."""
    pattern = os.path.join(root, plugin_dir.lstrip("/"), "mpi_*.so") if plugin_dir else ""
    return sorted(os.path.basename(path)[4:-3] for path in glob.glob(pattern))


def disks(paths: list[str], mountinfo: str) -> dict[str, dict[str, object]]:
    """Space and file system of each path; answers is false where the file system does not answer."""
    found = deadline.answers(lambda path: disk(path, mountinfo), paths)
    silent = {"free_mb": 0, "answers": False}
    return {
        path: found.get(path) or {**silent, **mount_of(os.path.abspath(path), mountinfo)}
        for path in paths
    }


def present(paths: list[str], plugin_dir: str, root: str = "/") -> dict[str, bool | None]:
    """Whether each file is there; None for one in a plugin directory that is not there yet, and without an answer."""
    places: dict[str, str] = {}
    for path in paths:
        absolute = path.startswith("/")
        place = path if absolute else os.path.join(plugin_dir, path)
        if absolute or plugin_dir:
            places[path] = os.path.join(root, place.lstrip("/"))
    found = deadline.answers(
        lambda full: os.path.exists(full) or bool(glob.glob(full)), places.values()
    )
    return {path: found.get(places.get(path, "")) for path in paths}


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
            # A group of its own, since a script that hangs may wait for a program of its own.
            start_new_session=True,
        )

    def output(self, key: str, timeout: float = 20.0) -> str:
        """Standard output; "" where the command is missing, failed to answer or was too slow."""
        process = self.running.pop(key, None)
        if process is None:
            return ""
        try:
            return process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
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
USERNS_RESTRICTED = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
CONTAINER_PACKAGES = ("enroot", "enroot+caps", "trainwright-pyxis", "trainwright-guard")


def start_package_query(commands: Commands, like: str, more: t.Sequence[str] = ()) -> None:
    """Ask the package manager for Enroot, Pyxis, and more packages by name."""
    names = [*CONTAINER_PACKAGES, *more]
    if like == "debian":
        form = "${Package} ${db:Status-Status} ${Version}\n"
        commands.start("versions", ["dpkg-query", "-W", "-f", form, *names])
    else:
        # Only with -a does rpm read * in a name.
        form = "%{NAME} installed %{VERSION}-%{RELEASE}\n"
        commands.start("versions", ["rpm", "-qa", "--qf", form, *names])


def package_versions(commands: Commands) -> dict[str, str]:
    """Versions by name of the packages that start_package_query asked for and that are installed."""
    return dict(re.findall(r"^(\S+) installed (\S+)$", commands.output("versions"), re.M))


def containers(versions: t.Mapping[str, str], plugin: str = spank.PLUGIN) -> dict[str, object]:
    """Enroot and Pyxis of this node: versions, missing programs, and the Slurm that the plugin was built for."""
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
        "guard": versions.get("trainwright-guard", ""),
        "plugstack": spank.own_part(),
        "pyxis_error": error,
        # Ubuntu from 23.10: only a program with a profile of AppArmor that allows it makes user namespaces.
        "userns_restricted": read(USERNS_RESTRICTED).strip() == "1",
    }


def mountable(root: str, release: str) -> dict[str, bool | None]:
    """Return which types of file systems the kernel of this host can mount, None for those that it may load."""
    place = os.path.join(root, "lib/modules", release)
    texts = {name: read(f"{place}/modules.{name}") for name in ("alias", "dep")}
    return file_systems.kernel_has(
        file_systems.KERNEL_NAMES,
        read(os.path.join(root, "proc/filesystems")),
        texts if texts["dep"] else None,
        os.path.exists(os.path.join(root, "proc/modules")),
    )


def gather(
    ports: list[int],
    reach: list[str],
    paths: list[str],
    users: list[str],
    uids: list[int],
    gids: list[int] | None = None,
    files: list[str] | None = None,
    connected_as: str = "",
    slurm_prefix: str = "",
    scratch_path: str = "",
    scratch_devices: list[str] | None = None,
    scratch_wipe: list[str] | None = None,
    reach_controllers: bool = False,
) -> dict[str, object]:
    """All facts of this node; see the module node_facts for what each of them means."""
    root = "/"
    places = slurm_places.slurm_places(root, slurm_prefix)
    mountinfo = read(MOUNTINFO)
    # First, since they fork, and the probes are threads.
    space, there = disks(paths, mountinfo), present(files or [], places["plugin_dir"])
    probes = Probes(reach)
    commands = Commands()
    release = os_release(root)
    properties = "--property=LoadState,ActiveState,UnitFileState"
    commands.start("services", ["systemctl", "show", properties, *SERVICES])
    query = "--query-gpu=index,name,memory.total,pci.bus_id"
    commands.start("gpus", ["nvidia-smi", query, "--format=csv,noheader,nounits"])
    commands.start("nvlink", ["nvidia-smi", "nvlink", "--status"])
    start_version_query(commands, release["like"], places)
    start_package_query(commands, release["like"], stack.package_names())
    commands.start("sudoers", logins.SUDOERS)

    uname = os.uname()
    pairs = interface_addresses()
    first = default_interface(root)
    pairs.sort(key=lambda pair: pair[0] != first)
    own_conf = slurm_places.conf_text(os.path.join(places["config_dir"], "slurm.conf"))
    conf = own_conf or slurm_places.slurm_conf(places["config_dir"])
    controllers = controller_targets(conf) if reach_controllers else {}
    peers = Probes(list(controllers.values()), ask=peer)
    tmp = os.statvfs("/tmp")
    facts: dict[str, object] = {
        "hostname": uname.nodename.partition(".")[0],
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
        "infiniband": infiniband_ports(root),
        "on_bus": on_bus(root),
        "nvme": nvme_disks(root),
        "scratch": scratch.as_facts(
            scratch.look(scratch_path, scratch_devices or [], scratch_wipe or [])
        )
        if scratch_path
        else {},
        "cgroup": cgroup(root),
        **accounts(list(dict.fromkeys([*KNOWN_USERS, *users])), uids, gids or []),
        "ports": listeners(root, ports),
        "disks": space,
        "mounts": network_mounts(mountinfo),
        "unmounted": fstab.unmounted(read(os.path.join(root, "etc/fstab")), mountinfo)[:256],
        "file_systems": mountable(root, uname.release),
        "files": there,
        "ssh_host_key": " ".join(read("/etc/ssh/ssh_host_ed25519_key.pub").split()[:2]),
        "boot_id": read("/proc/sys/kernel/random/boot_id"),
        "reboot": [*reboots.reboot_reasons(root), *stack.of_next_boot(virtualization(root), root)],
        "slurmd_running_conf": slurm_conf_values(own_conf),
        # slurmd and sackd keep what they have from slurmctld.
        "service_hosts": service_hosts(
            conf,
            slurm_places.conf_text(os.path.join(places["config_dir"], "slurmdbd.conf")),
        ),
    }
    # dpkg keeps a journal here only while it works: a remaining one means that it was interrupted. So does the policy
    # of deb_packages that keeps services from starting.
    facts["packages_interrupted"] = bool(
        glob.glob("/var/lib/dpkg/updates/[0-9]*")
        or "trainwright.slurm" in read("/usr/sbin/policy-rc.d")
    )
    kept = slurm_places.own_conf(places["config_dir"], root)
    packaged = bool(kept) and release["like"] != "debian" and slurm_places.is_packaged(kept)
    facts["slurm"] = {
        **slurm_version(commands, release["like"], places),
        **places,
        "mpi": mpi_plugins(places["plugin_dir"]),
        **plugstack_place.facts(conf, places["config_dir"], root),
        "manager": slurm_places.manager(places["prefix"]),
        **slurm_places.conf_digests(places["config_dir"], root),
        "own_conf": "" if packaged else kept,
        "packaged_conf": kept if packaged else "",
        "prolog": slurm_places.scripts(conf, "Prolog"),
        "epilog": slurm_places.scripts(conf, "Epilog"),
        "task_prolog": slurm_places.scripts(conf, "TaskProlog"),
    }
    packages = package_versions(commands)
    facts["containers"] = containers(packages)
    facts["stack"] = stack.stack(packages, root)
    facts["efa_whole"] = stack.efa_whole(packages, root)
    facts["driver_from"] = stack.driver_from(packages, root)
    facts["kernel_build"] = stack.kernel_build(root, uname.release)
    loginuid = read("/proc/self/loginuid").strip()
    facts["login"] = logins.login_user(os.environ, connected_as, loginuid)
    facts["sudoers"] = logins.parse_sudoers(commands.output("sudoers"), str(facts["hostname"]))
    shown = commands.output("services")
    facts["services"] = service_states(shown)
    facts["services_enabled"] = enabled_services(shown)
    facts["gpus"] = parse_nvidia_smi(commands.output("gpus"), gpu_minors(root)) or gpu_devices(root)
    facts["nvlink"] = parse_nvlink(commands.output("nvlink"))
    facts["reach"] = probes.collect()
    answers = peers.collect("")
    facts["controllers_reached"] = {
        text: answers[target] for text, target in controllers.items() if answers[target]
    }
    return facts
