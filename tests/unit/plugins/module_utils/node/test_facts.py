# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the node facts against recorded files, made-up trees and this very machine."""

from __future__ import annotations

import os
import pathlib
import socket
import time

import pytest
from ansible_collections.trainwright.slurm.plugins.action.node_facts import clock_offset
from ansible_collections.trainwright.slurm.plugins.module_utils.node import facts, machine, network

FIXTURES = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "node"


def recorded(name: str) -> str:
    return (FIXTURES / name).read_text()


def put(root: pathlib.Path, path: str, text: str = "") -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def put_cpus(root: pathlib.Path, layout: list[tuple[int, str]]) -> None:
    """A CPU tree: (socket, sibling list) of each logical CPU."""
    put(root, "sys/devices/system/cpu/online", f"0-{len(layout) - 1}\n")
    for cpu, (package, siblings) in enumerate(layout):
        base = f"sys/devices/system/cpu/cpu{cpu}/topology"
        put(root, f"{base}/physical_package_id", f"{package}\n")
        put(root, f"{base}/thread_siblings_list", f"{siblings}\n")


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ([(0, "0-1"), (0, "0-1")], (2, 1, 1, 2)),
        ([(0, "0,4"), (0, "1,5"), (1, "2,6"), (1, "3,7")] * 2, (8, 2, 2, 2)),
        ([(-1, "0"), (-1, "1")], (2, 1, 2, 1)),
        # One thread switched off: nothing even can be said, so one flat socket.
        ([(0, "0-1"), (0, "0-1"), (0, "2")], (3, 1, 3, 1)),
    ],
)
def test_cpu_layout(tmp_path, layout, expected):
    put_cpus(tmp_path, layout)
    found = machine.cpu_layout(str(tmp_path))
    assert tuple(
        found[key] for key in ("cpus", "sockets", "cores_per_socket", "threads_per_core")
    ) == (expected)


def test_cpu_list():
    assert machine.expand_cpu_list("0-2,5,7-8\n") == [0, 1, 2, 5, 7, 8]
    assert machine.expand_cpu_list("") == []


def test_memory_is_rounded_down(tmp_path):
    put(tmp_path, "proc/meminfo", "MemTotal:       24684123 kB\nMemFree:  1 kB\n")
    assert machine.memory_mb(str(tmp_path)) == 24105


@pytest.mark.parametrize(
    ("name", "like", "version"),
    [("debian13", "debian", "13"), ("ubuntu2404", "debian", "24.04"), ("rocky9", "rhel", "9.4")],
)
def test_os_release(tmp_path, name, like, version):
    put(tmp_path, "etc/os-release", recorded(f"os-release-{name}.txt"))
    found = machine.os_release(str(tmp_path))
    assert (found["like"], found["version"]) == (like, version)


def test_cgroup_hybrid_when_both_kinds_are_mounted(tmp_path):
    put(tmp_path, "proc/self/cgroup", recorded("cgroup-hybrid.txt"))
    found = machine.cgroup(str(tmp_path))
    assert found["mode"] == "hybrid"
    assert "memory" in found["controllers"]
    assert "name=systemd" not in found["controllers"]


def test_cgroup_v2_alone(tmp_path):
    put(tmp_path, "proc/self/cgroup", "0::/system.slice/ssh.service\n")
    put(tmp_path, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
    assert machine.cgroup(str(tmp_path)) == {
        "mode": "v2",
        "controllers": ["cpu", "cpuset", "io", "memory", "pids"],
    }


def test_gpus_are_named_by_minor_and_not_by_index(tmp_path):
    put(
        tmp_path,
        "proc/driver/nvidia/gpus/0000:43:00.0/information",
        recorded("gpu-information.txt"),
    )
    minors = machine.gpu_minors(str(tmp_path))
    gpus = machine.parse_nvidia_smi(recorded("nvidia-smi.csv"), minors)
    assert [gpu["device"] for gpu in gpus] == ["/dev/nvidia0", "/dev/nvidia3"]
    assert gpus[0]["model"] == "NVIDIA H100 80GB HBM3"
    assert gpus[0]["memory_mb"] == 81559


def test_nvidia_smi_that_fails_gives_no_gpus():
    text = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    assert machine.parse_nvidia_smi(text, {}) == []
    for odd in ("\u00b2", "9" * 5000):  # digits that int() refuses
        assert machine.parse_nvidia_smi(f"{odd}, NVIDIA H100, 81559, 00000000:1B:00.0", {}) == []


def test_gpu_devices_in_order_without_control_devices(tmp_path):
    for name in ("nvidia10", "nvidia2", "nvidia0", "nvidiactl", "nvidia-uvm"):
        put(tmp_path, f"dev/{name}")
    devices = machine.gpu_devices(str(tmp_path))
    assert [gpu["device"] for gpu in devices] == ["/dev/nvidia0", "/dev/nvidia2", "/dev/nvidia10"]
    assert [gpu["index"] for gpu in devices] == [0, 1, 2]


def test_apt_policy():
    assert facts.parse_apt_policy(recorded("apt-policy.txt")) == ("", "22.05.8-4+deb12u3")
    installed = "slurmd:\n  Installed: 24.11.5-4\n  Candidate: 24.11.5-4\n"
    assert facts.parse_apt_policy(installed) == ("24.11.5-4", "24.11.5-4")
    assert facts.parse_apt_policy("") == ("", "")


def test_package_queries():
    assert facts.parse_dpkg_query("not-installed \nconfig-files 1\ninstalled 24.11.5-4\n") == (
        "24.11.5-4"
    )
    assert facts.parse_rpm_query("package slurm is not installed\n23.11.10-1.el9\n") == (
        "23.11.10-1.el9"
    )


@pytest.mark.parametrize(
    ("version", "upstream"),
    [("22.05.8-4+deb12u3", "22.05.8"), ("1:25.05.3-1", "25.05.3"), ("26.05.0~rc1", "26.05.0")]
    + [("", "")],
)
def test_upstream_version(version, upstream):
    assert facts.upstream_version(version) == upstream


def test_service_states():
    text = recorded("systemctl-show.txt")
    assert facts.service_states(text, ("slurmctld", "slurmdbd", "slurmd")) == {
        "slurmctld": "active",
        "slurmdbd": "absent",
        "slurmd": "failed",
    }
    assert set(facts.service_states("").values()) == {"absent"}


def test_enabled_services():
    text = "LoadState=loaded\nActiveState=inactive\nUnitFileState={}\n"
    shown = "\n".join(map(text.format, ("enabled", "disabled", "masked", "")))
    assert facts.enabled_services(shown, ("slurmctld", "slurmdbd", "slurmd", "sackd")) == [
        "slurmctld"
    ]
    assert facts.enabled_services("") == []


def test_slurm_conf_keys_know_no_case():
    text = "clustername=demo # ours\nStateSaveLocation = /var/spool/x\n#AuthType=auth/munge\n"
    assert facts.slurm_conf_values(text) == {
        "ClusterName": "demo",
        "StateSaveLocation": "/var/spool/x",
    }


def test_hosts_of_the_services():
    slurm = "clustername=demo\nSlurmctldHost=a(10.0.0.1) # primary\nslurmctldhost = b\n#SlurmctldHost=c\n"
    database = "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=d\n"
    slurmdbd = "StorageHost=localhost\nStoragePass=secret\nStorageLoc=slurm_acct_db\n"
    assert facts.service_hosts(slurm + database, slurmdbd) == {
        "cluster": "demo",
        "controllers": ["a(10.0.0.1)", "b"],
        "database": "d",
        "storage_host": "localhost",
        "storage_database": "slurm_acct_db",
    }
    assert facts.service_hosts(slurm + "AccountingStorageHost=d", "")["database"] == ""
    assert not any(facts.service_hosts("", "").values())


def test_listening_inodes_leaves_connections_out(tmp_path):
    put(tmp_path, "proc/net/tcp", recorded("net-tcp.txt"))
    assert network.listening_inodes(str(tmp_path), {22, 6817}) == {"156921": 22}


def test_listeners_and_probes_on_this_machine():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        name = pathlib.Path("/proc/self/comm").read_text().strip()
        assert network.listeners("/", [port, 1]) == {str(port): name}
        assert network.probe(f"127.0.0.1:{port}") == "open"
    assert network.probe(f"127.0.0.1:{port}") == "refused"
    assert network.probe("no-port") == "unresolved"


def test_controllers_of_slurm_conf_that_answer(monkeypatch):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        lines = f"SlurmctldHost=a(127.0.0.1)\nSlurmctldHost=localhost\nSlurmctldPort={port}-{port + 3}\n"
        assert facts.controller_targets(lines) == {
            "a(127.0.0.1)": f"127.0.0.1:{port}",
            "localhost": f"localhost:{port}",
        }
        assert network.peer(f"localhost:{port}") == "127.0.0.1"
        monkeypatch.setattr(
            facts.slurm_places, "slurm_conf", lambda _directory: f"{lines}SlurmctldHost=b(::1)\n"
        )
        found = facts.gather([], [], [], [], [], reach_controllers=True)
        assert found["controllers_reached"] == {
            "a(127.0.0.1)": "127.0.0.1",
            "localhost": "127.0.0.1",
        }
        assert facts.gather([], [], [], [], [])["controllers_reached"] == {}
    assert network.peer(f"127.0.0.1:{port}") == "" == network.peer("no-port")
    assert facts.controller_targets("SlurmctldHost=b\n") == {"b": "b:6817"}


def test_disk_takes_the_nearest_parent_and_the_last_mount(tmp_path):
    mountinfo = (
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"2 1 0:5 / {tmp_path} rw - tmpfs none rw\n"
        f"3 2 0:6 / {tmp_path} rw - xfs /dev/sdb rw\n"
    )
    found = machine.disk(str(tmp_path / "not" / "yet"), mountinfo)
    assert found["fstype"] == "xfs"
    assert found["mount"] == str(tmp_path)
    assert found["free_mb"] > 0
    assert found["project_quota"] is False


@pytest.mark.parametrize(
    ("options", "enforced"),
    [
        ("rw,attr2,inode64,prjquota", True),
        ("rw,usrquota,pqnoenforce", False),
        ("rw,noquota", False),
    ],
)
def test_a_quota_of_directories_is_enforced_only_with_its_option(options, enforced):
    mountinfo = f"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:6 / /srv rw - xfs /dev/sdb {options}\n"
    assert machine.mount_of("/srv/data", mountinfo)["project_quota"] is enforced
    assert machine.mount_of("/home", mountinfo)["project_quota"] is False


def test_container_is_told_from_metal(tmp_path):
    assert machine.virtualization(str(tmp_path)) == "none"
    put(tmp_path, "sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    put(tmp_path, "sys/class/dmi/id/product_name", "p5.48xlarge\n")
    assert machine.virtualization(str(tmp_path)) == "amazon"
    put(tmp_path, "run/systemd/container", "podman\n")
    assert machine.virtualization(str(tmp_path)) == "container"


def test_gather_here_is_complete_and_starts_few_commands(monkeypatch):
    started = []
    real = facts.subprocess.Popen

    def popen(argv, **values):
        started.append(argv[0])
        return real(argv, **values)

    monkeypatch.setattr(facts.subprocess, "Popen", popen)
    node = facts.gather(ports=[], reach=[], paths=["/var"], users=["root"], uids=[0])
    assert len(started) <= 4
    assert node["cpus"] == (
        node["sockets"] * node["cores_per_socket"] * node["threads_per_core"] * node["boards"]
    )
    assert node["users"]["root"] == {"uid": 0, "gid": 0}
    assert node["uids"] == {"0": "root"}
    assert node["hostname"] == os.uname().nodename.partition(".")[0]
    assert set(node["services"]) == set(facts.SERVICES)


def test_files_are_there_or_not_or_not_known(tmp_path):
    put(tmp_path, "opt/prolog.d/a.sh", "")
    put(tmp_path, "lib/slurm/proctrack_site.so", "")
    paths = ["/opt/prolog.d/*", "/opt/none", "proctrack_site.so", "proctrack_none.so"]
    found = facts.present(paths, "/lib/slurm", str(tmp_path))
    assert found == dict(zip(paths, [True, False, True, False]))
    assert facts.present(["proctrack_site.so"], "", str(tmp_path)) == {"proctrack_site.so": None}


@pytest.mark.parametrize("true_offset", [0.0, 5.0, -120.0])
def test_clock_offset_holds_the_true_one(true_offset):
    # Asked at 100, started at 100.4, ended at 100.9, answer at 101.0 of the control node's clock.
    offset, error = clock_offset(100.0, 100.4 + true_offset, 100.9 + true_offset, 101.0)
    assert abs(offset - true_offset) <= error
    assert error == pytest.approx(0.25)


def device(root, address, vendor, device_id, kind):
    for name, value in (("vendor", vendor), ("device", device_id), ("class", kind)):
        put(root, f"sys/bus/pci/devices/{address}/{name}", f"{value}\n")


def test_devices_on_the_bus_are_seen_without_a_driver(tmp_path):
    device(tmp_path, "0000:53:00.0", "0x10de", "0x2330", "0x030200")
    device(tmp_path, "0000:64:00.0", "0x10de", "0x2330", "0x030200")
    # An NVSwitch, an EFA interface, an ENA interface.
    device(tmp_path, "0000:75:00.0", "0x10de", "0x22a3", "0x068000")
    device(tmp_path, "0000:86:00.0", "0x1d0f", "0xefa2", "0x020000")
    device(tmp_path, "0000:87:00.0", "0x1d0f", "0xec20", "0x020000")
    put(tmp_path, "sys/bus/pci/devices/0000:53:00.0/current_link_width", "16\n")
    # What the kernel writes where it does not know.
    put(tmp_path, "sys/bus/pci/devices/0000:64:00.0/current_link_width", "255\n")
    assert machine.on_bus(str(tmp_path)) == {"gpus": 2, "efa": 1, "gpu_lanes": [16]}
    assert machine.on_bus(str(tmp_path / "nowhere")) == {"gpus": 0, "efa": 0, "gpu_lanes": []}


def test_nvlink_counts_the_links_that_are_up():
    text = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"
        "\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n"
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n"
        "\t Link 0: <inactive>\n\t Link 1: 26.562 GB/s\n"
    )
    assert machine.parse_nvlink(text) == [2, 1]
    said = "NVML: Unable to retrieve NVLink information as all links are inActive\n"
    assert machine.parse_nvlink(said) == [] == machine.parse_nvlink("")


def test_infiniband_ports_without_those_of_ethernet_and_efa(tmp_path):
    for name, layer, state in (
        ("mlx5_0", "InfiniBand", "4: ACTIVE"),
        ("mlx5_1", "InfiniBand", "1: DOWN"),
        ("mlx5_2", "Ethernet", "4: ACTIVE"),
        ("rdmap16s27", "Unspecified", "4: ACTIVE"),
    ):
        port = f"sys/class/infiniband/{name}/ports/1"
        put(tmp_path, f"{port}/link_layer", f"{layer}\n")
        put(tmp_path, f"{port}/state", f"{state}\n")
        put(tmp_path, f"{port}/rate", "400 Gb/sec (4X NDR)\n")
    assert machine.infiniband_ports(str(tmp_path)) == [
        {"device": "mlx5_0", "port": 1, "active": True, "rate_gbps": 400},
        {"device": "mlx5_1", "port": 1, "active": False, "rate_gbps": 400},
    ]


@pytest.mark.parametrize("count", [32, 31, 0])
def test_efa_devices_are_counted_by_their_driver(tmp_path, count):
    (tmp_path / "sys/bus/pci/drivers/efa").mkdir(parents=True)
    for index in range(count):
        device_of = tmp_path / f"sys/class/infiniband/rdmap{index}s0/device"
        device_of.mkdir(parents=True)
        (device_of / "driver").symlink_to(tmp_path / "sys/bus/pci/drivers/efa")
    assert len(machine.efa_devices(str(tmp_path))) == count


MOUNTINFO = """\
26 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw
40 26 0:40 / /home rw,noatime - nfs4 10.0.0.5:/home rw,vers=4.2
41 26 0:41 / /fsx rw,noatime - lustre 10.0.0.7@tcp:/abcdef rw
42 26 0:42 / /data rw - nfs4 10.0.0.5:/data rw
43 26 259:2 / /data rw - ext4 /dev/sdb rw
44 26 0:44 / /odd\\040place rw - nfs4 10.0.0.5:/x rw
45 26 0:45 / /dev/shm rw - tmpfs tmpfs rw
"""


def test_network_mounts_of_a_node() -> None:
    """One that is hidden by a local disk, and one whose path fstab cannot have as it is, are left out."""
    assert machine.network_mounts(MOUNTINFO) == [
        {"path": "/fsx", "source": "10.0.0.7@tcp:/abcdef", "fstype": "lustre"},
        {"path": "/home", "source": "10.0.0.5:/home", "fstype": "nfs4"},
    ]


@pytest.mark.parametrize("fstype", ["cifs", "smb3", "efs", "ceph", "fuse.glusterfs", "beegfs"])
def test_a_mount_of_each_network_file_system_is_found(fstype: str) -> None:
    mounted = f"40 26 0:40 / /data rw - {fstype} there:/data rw"
    assert machine.network_mounts(mounted)[0]["fstype"] == fstype


def test_a_command_that_hangs_ends_with_what_it_has_started(tmp_path):
    commands = facts.Commands()
    commands.start("slow", ["sh", "-c", f"sleep 300 & echo $! >{tmp_path}/child; wait"])
    assert commands.output("slow", timeout=1.0) == ""
    child = (tmp_path / "child").read_text().strip()

    def ended() -> bool:  # gone, or waiting to be forgotten
        return machine.read(f"/proc/{child}/stat").rpartition(")")[2].split()[:1] in ([], ["Z"])

    until = time.monotonic() + 10
    while not ended():
        assert time.monotonic() < until, "it still runs"
        time.sleep(0.02)
