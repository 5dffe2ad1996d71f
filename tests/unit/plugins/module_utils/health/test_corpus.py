# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Faults that are found in one cycle and drain with the right reason, and look-alikes that drain nothing.

Each goes the whole way: tools and files, checks, publication, agent.
"""

from __future__ import annotations

import copy
import json
import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Verdict

from .world import DIAG, World

Break = Callable[[World], t.Any]


def gpu(index: int, **values: str) -> Break:
    """Let one GPU report something else."""
    return lambda world: world.gpus[index].update(
        {key.replace("__", "."): value for key, value in values.items()}
    )


def all_gpus(**values: str) -> Break:
    return lambda world: [
        row.update({key.replace("__", "."): value for key, value in values.items()})
        for row in world.gpus
    ]


def log(*messages: str, **more: t.Any) -> Break:
    return lambda world: world.log(*messages, **more)


def file(path: str, text: str) -> Break:
    return lambda world: world.files.update({path: text})


def without(path: str) -> Break:
    return lambda world: world.files.pop(path)


def tool(name: str, code: str) -> Break:
    return lambda world: world.tools.update({name: code})


def smi(code: int, text: str = "") -> Break:
    """Let nvidia-smi end with a code, and print this instead of its rows."""

    def change(world: World) -> None:
        world.smi_code, world.smi_extra, world.gpus = code, text, []

    return change


def lost_gpu(world: World) -> None:
    del world.gpus[3]
    world.smi_extra = "Unable to determine the device handle for GPU3: 0000:86:00.0: Unknown Error"


def links(index: int, texts: list[str]) -> Break:
    return lambda world: world.links.update({index: texts})


def remap(index: int, text: str) -> Break:
    def change(world: World) -> None:
        bus = world.remaps[index].split(",")[0]
        world.remaps[index] = f"{bus}, {text}"

    return change


def fabric(**values: str) -> Break:
    return lambda world: world.fabric.update(values)


def persistence(world: World) -> None:
    """Let DCGM's diagnosis find that persistence mode is off: its answer for 8 GPUs."""
    fixtures = Path(__file__).resolve().parents[4] / "fixtures" / "validation"
    world.dcgm_diag = json.loads((fixtures / "dcgmi-4-persistence.json").read_text())


def diag(status: str, severity: int = 2, old: bool = False) -> Break:
    """Let a test of DCGM's diagnosis end so; old: in the form of DCGM 3."""

    def change(world: World) -> None:
        tree = copy.deepcopy(DIAG)
        result: dict[str, t.Any] = {"status": status, "warnings": [{"error_severity": severity}]}
        result.update({"gpu_id": "2"} if old else {"entity_group": "GPU", "entity_id": 2})
        test = {"name": "PCIe", "results": [result]}
        tree["DCGM Diagnostic"]["test_categories"].append({"category": "Hardware", "tests": [test]})
        world.dcgm_diag = {"DCGM GPU Diagnostic": tree["DCGM Diagnostic"]} if old else tree

    return change


def dcgm(value: str, entity: bool = True) -> Break:
    body: dict[str, t.Any] = {"Overall Health": {"value": value}}
    if entity:
        body["GPU"] = {"children": {"2": {"children": {"PCIe": {"value": value}}}}}
    return lambda world: setattr(world, "dcgm_health", {"body": body})


def service(name: str, state: str) -> Break:
    return lambda world: world.services.update({name: state})


def declared(**values: t.Any) -> Break:
    return lambda world: world.config["declared"].update(values)


def config(**values: t.Any) -> Break:
    return lambda world: world.config.update(values)


def several(*changes: Break) -> Break:
    return lambda world: [change(world) for change in changes]


def without_efa(world: World) -> None:
    world.files = {path: text for path, text in world.files.items() if "rdmap3s0" not in path}


def without_nvme(world: World) -> None:
    del world.files["/sys/class/nvme/nvme2/model"]


def own_check(code: str, **more: t.Any) -> Break:
    def change(world: World) -> None:
        path = world.directory / "own-check"
        path.write_text(f"#!/bin/sh\n{code}\n")
        path.chmod(0o755)
        world.config["checks"] = [
            {"name": "site_raid", "command": [str(path)], "deadline": 2, **more}
        ]

    return change


XID = "NVRM: Xid (PCI:0000:86:00): {}"

# name: (what breaks, check, action, words of the reason)
FAULTS: dict[str, tuple[Break, str, str, str]] = {
    "recovery-reset": (gpu(2, gpu_recovery_action="Reset"), "gpu_recovery_action", "reset", "reset of GPU 2"),
    "recovery-reboot": (gpu(5, gpu_recovery_action="Reboot"), "gpu_recovery_action", "reboot", "reboot of GPU 5"),
    "recovery-of-r610": (gpu(5, gpu_recovery_action="OS Reboot"), "gpu_recovery_action", "reboot", "GPU 5"),
    "recovery-drain": (gpu(1, gpu_recovery_action="Drain P2P"), "gpu_recovery_action", "drain", "GPU 1"),
    "recovery-drain-and-reset": (
        gpu(1, gpu_recovery_action="Drain and Reset"), "gpu_recovery_action", "reset", "GPU 1"),
    "gpu-lost-with-exit-0": (lost_gpu, "gpu_count", "reboot", "7 of 8 GPUs"),
    "gpu-gone-from-the-bus": (smi(15, "GPU is lost"), "gpu_driver", "reboot", "fallen off the bus"),
    "gpu-without-power-cable": (smi(8, "power"), "gpu_driver", "replace", "power cables"),
    "driver-not-loaded": (
        smi(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        "gpu_driver", "reboot", "driver is not loaded"),
    "seven-of-eight-boots-whole": (lambda world: world.gpus.pop(), "gpu_count", "reboot", "7 of 8 GPUs"),
    "remap-failure-1": (remap(0, "1, 0, 1"), "gpu_row_remap", "replace", "GPU 0"),
    "remap-failure-yes": (remap(6, "1, No, Yes"), "gpu_row_remap", "replace", "GPU 6"),
    "remap-512": (remap(6, "512, 0, 0"), "gpu_row_remap", "replace", "512 rows"),
    "ecc-without-recovery-action": (
        several(all_gpus(gpu_recovery_action="[N/A]"), gpu(4, ecc__errors__uncorrected__volatile__total="3")),
        "gpu_ecc", "reset", "GPU 4"),
    "pcie-x8-under-load": (gpu(4, pcie__link__width__current="8"), "gpu_pcie_width", "reboot", "8 of 16 lanes"),
    "nvlink-inactive": (links(3, ["26.562 GB/s"] * 17 + ["<inactive>"]), "gpu_nvlink", "reset", "GPU 3: 17"),
    "nvlink-all-inActive": (
        links(2, ["NVML: Unable to retrieve NVLink information as all links are inActive"]),
        "gpu_nvlink", "reset", "GPU 2: 0"),
    "nvlink-slow": (links(1, ["13.281 GB/s"] * 18), "gpu_nvlink", "reset", "13.281"),
    "xid-79": (log(XID.format("79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")),
               "gpu_xid", "reboot", "Xid 79"),
    "off-the-bus-without-xid": (
        log("NVRM: GPU 0000:86:00.0: GPU has fallen off the bus."), "gpu_xid", "reboot", "Xid 79"),
    "xid-95": (log(XID.format("95, pid=4242, name=python, Uncontained: LTC TAG")), "gpu_xid", "reset", "Xid 95"),
    "xid-119-flood": (log(*[XID.format("119, pid=1, name=x, Timeout waiting for RPC from GSP")] * 500),
                      "gpu_xid", "reset", "500 times"),
    "xid-140-of-a-mig-device": (log("NVRM: Xid (PCI:0000:86:00 GPU-I:05): 140, pid=7"), "gpu_xid", "reset", "Xid 140"),
    "xid-154-reboot": (
        log(XID.format("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")),
        "gpu_xid", "reboot", "Xid 154"),
    "xid-145-fatal": (log(XID.format("145, RLW_REMAP Fatal XC0 i0 Link 09 (0x1 0x2)")), "gpu_xid", "reset", "Xid 145"),
    "old-form-of-xid": (log("NVRM: Xid (0000:86:00): 62, 1234 5678"), "gpu_xid", "reset", "Xid 62"),
    "sxid-fatal": (log("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 46 sourcetrack timeout"),
                   "nvswitch_sxid", "reboot", "SXid 24007"),
    "sxid-without-the-word": (log("nvidia-nvswitch1: SXid (PCI:0000:c1:00.0): 26006, SOE HALTED"),
                              "nvswitch_sxid", "reboot", "SXid 26006"),
    "dead-fabric-manager-behind-Completed": (fabric(ActiveState="failed", SubState="failed"),
                                             "fabric_manager", "drain", "failed"),
    "fabric-state-failure": (gpu(0, fabric__status="Failure"), "fabric_manager", "drain", "Failure"),
    "fabric-manager-of-another-version": (tool("nv-fabricmanager", "echo 'Fabric Manager version is : 570.124.06'"),
                                          "fabric_manager_version", "drain", "570.124.06 instead of 570.133.20"),
    "dcgm-health": (dcgm("Failure"), "dcgm_health", "drain", "GPU 2 PCIe"),
    "dcgm-diag-4": (diag("Fail"), "dcgm_diag", "drain", "PCIe on GPU 2"),
    "dcgm-diag-3": (diag("Fail", old=True), "dcgm_diag", "drain", "PCIe on GPU 2"),
    "dcgm-diag-reset": (diag("Fail", severity=6), "dcgm_diag", "reset", "PCIe on GPU 2"),
    "efa-missing": (without_efa, "efa_count", "reboot", "3 of 4 EFA"),
    "efa-without-carrier-behind-ACTIVE": (
        several(file("/sys/class/infiniband/rdmap0s0/device/net/ens32/operstate", "down"),
                file("/sys/class/infiniband/rdmap0s0/device/net/ens32/carrier", "0")),
        "efa_link", "drain", "ens32"),
    "infiniband-down": (lambda world: world.infiniband(state="1: DOWN", phys_state="3: Disabled"),
                        "infiniband_links", "drain", "7 of 8 active ports"),
    "infiniband-port-missing": (lambda world: world.infiniband(ports=7), "infiniband_links", "drain", "7 of 8"),
    "infiniband-slow": (
        several(config(versions={"infiniband_gbits": 400}), lambda world: world.infiniband(rate="200 Gb/sec (4X HDR)")),
        "infiniband_rate", "drain", "200"),
    "mount-missing": (file("/proc/self/mounts", "/dev/nvme0n1p1 / ext4 rw 0 0"), "mounts", "drain", "/fsx"),
    "mount-read-only": (
        file("/proc/self/mounts", "/dev/nvme0n1p1 / ext4 rw 0 0\nfs-1.fsx:/abc /fsx lustre ro,flock 0 0"),
        "mounts", "drain", "read-only: /fsx"),
    "mount-stale": (several(without("/fsx/.keep")), "mounts", "drain", "/fsx"),
    "root-read-only": (
        file("/proc/self/mounts", "/dev/nvme0n1p1 / ext4 ro 0 0\nfs-1.fsx:/abc /fsx lustre rw,flock 0 0"),
        "root_writable", "reboot", "read-only: /"),
    "root-read-only-ext4-since-6.12": (
        file("/proc/self/mounts", "/dev/nvme0n1p1 / ext4 rw,emergency_ro 0 0\nfs-1.fsx:/abc /fsx lustre rw,flock 0 0"),
        "root_writable", "reboot", "read-only: /"),
    "memory-lost": (file("/proc/meminfo", "MemTotal:       1981808640 kB"), "memory", "reboot", "of 2000000 MiB"),
    "nvme-missing": (without_nvme, "nvme_count", "reboot", "1 of 2 NVMe"),
    "nvme-worn": (tool("nvme", "echo '{\"critical_warning\":4}'"), "nvme_health", "replace", "nvme1: 0x04"),
    "munge-down": (service("munge", "failed"), "slurm_services", "drain", "munge"),
    "pyxis-not-loaded": (file("/etc/trainwright/plugstack.conf", "required /usr/lib/trainwright/guard.so"),
                         "pyxis", "drain", "does not load it"),
    "pyxis-missing": (without("/usr/lib/trainwright/pyxis/spank_pyxis.so"), "pyxis", "drain", "missing"),
    "enroot-missing": (tool("enroot", ""), "container_runtime", "drain", "enroot"),
    "own-check": (own_check("echo array is degraded; exit 2", action="replace"), "site_raid", "replace", "degraded"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_in_one_cycle_and_drains(name: str, tmp_path: Path) -> None:
    change, check, action, words = FAULTS[name]
    world = World(tmp_path)
    change(world)
    found, _host = world.cycle()
    assert found[check].verdict is Verdict.FAIL, found[check]
    decision = world.drains(found)
    assert [one.kind for one in decision.actions] == ["drain"]
    bad = {one.check: one for one in found.values() if one.verdict is Verdict.FAIL}
    reason = decision.actions[0].reason
    assert reason.startswith(f"tw:health:{decision.actions[0].check}: ") and " -> " in reason
    # A fault may fail several checks, and the one with the strongest action is the reason.
    assert decision.actions[0].check in bad
    assert words in f"{found[check].result('gpu1').what}", found[check]
    assert (found[check].action or action) == action


def test_a_healthy_machine_passes(tmp_path: Path) -> None:
    found, _host = World(tmp_path).cycle()
    other = {
        one for one in found.values() if one.verdict not in (Verdict.PASS, Verdict.NOT_APPLICABLE)
    }
    assert not other
    assert sum(one.verdict is Verdict.PASS for one in found.values()) > 25


# name: (what looks like a fault, the verdict of that check)
LOOK_ALIKES: dict[str, tuple[Break, str, str]] = {
    "dcgm-diag-persistence-mode": (persistence, "dcgm_diag", "WARN"),
    "slow-nvidia-smi": (several(tool("nvidia-smi", "sleep 60"),
                                config(checks=[{"name": name, "deadline": 1} for name in (
                                    "gpu_driver", "gpu_count", "gpu_recovery_action", "gpu_ecc", "gpu_row_remap",
                                    "gpu_pcie_width", "gpu_clocks", "gpu_persistence", "gpu_model", "gpu_nvlink",
                                    "gpu_leftovers", "fabric_manager", "fabric_manager_version")])),
                        "gpu_count", "INCOMPLETE"),
    "missing-nvidia-smi": (tool("nvidia-smi", ""), "gpu_count", "INCOMPLETE"),
    "nvidia-smi-prints-10-MB": (tool("nvidia-smi", "head -c 10000000 /dev/zero"), "gpu_driver", "INCOMPLETE"),
    "nvidia-smi-killed": (tool("nvidia-smi", "kill -9 $$"), "gpu_driver", "INCOMPLETE"),
    "nvidia-smi-without-output": (tool("nvidia-smi", "exit 0"), "gpu_driver", "INCOMPLETE"),
    "old-driver-without-recovery-action": (all_gpus(gpu_recovery_action="[N/A]"), "gpu_recovery_action",
                                           "NOT_APPLICABLE"),
    "infoROM": (several(smi(14, "infoROM is corrupted")), "gpu_driver", "WARN"),
    "contained-ecc": (gpu(4, ecc__errors__uncorrected__volatile__total="1"), "gpu_ecc", "WARN"),
    "remap-pending": (remap(3, "1, Yes, No"), "gpu_row_remap", "WARN"),
    "remap-while-MIG": (several(all_gpus(mig__mode__current="Enabled"), remap(3, "1, 1, 1")), "gpu_row_remap",
                        "NOT_APPLICABLE"),
    "power-cap": (all_gpus(clocks_event_reasons__active="0x0000000000000004"), "gpu_clocks", "PASS"),
    "narrow-link-of-an-idle-gpu": (gpu(4, pcie__link__width__current="8", pstate="P8"), "gpu_pcie_width", "WARN"),
    "width-that-no-source-confirms": (
        several(declared(unverified=["pcie_width"]), all_gpus(pcie__link__width__current="8")),
        "gpu_pcie_width", "WARN"),
    "users-xid-31": (log(XID.format("31, pid=4242, name=python, Ch 00000008, MMU Fault"),
                         XID.format("13, pid=4242, name=python, Graphics Exception")), "gpu_xid", "WARN"),
    "xid-43-and-45": (log(XID.format("43, pid=1, name=x"), XID.format("45, pid=1, name=x, Ch 1")), "gpu_xid", "PASS"),
    "xid-63-remap-recorded": (log(XID.format("63, Row Remapper: New row marked")), "gpu_xid", "PASS"),
    "xid-94-contained": (log(XID.format("94, pid=4242, name=python, Contained: SM")), "gpu_xid", "WARN"),
    "xid-145-nonfatal": (log(XID.format("145, RLW_REMAP Nonfatal XC0 i0 Link 09")), "gpu_xid", "WARN"),
    "xid-154-healed": (
        log(XID.format("95, pid=1, name=x"),
            XID.format("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")),
        "gpu_xid", "PASS"),
    "xid-that-nobody-knows": (log(XID.format("999, something new")), "gpu_xid", "WARN"),
    "xid-written-by-a-program": (log(XID.format("79, forged"), priority=12), "gpu_xid", "PASS"),
    "xid-inside-another-line": (log(f"python[77]: segfault; {XID.format('79, forged')}"), "gpu_xid", "PASS"),
    "sxid-non-fatal": (log("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 AN1"),
                       "nvswitch_sxid", "WARN"),
    "sxid-of-the-other-end": (log("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"),
                              "nvswitch_sxid", "WARN"),
    "fabric-manager-still-starts": (
        several(file("/proc/uptime", "60.0 1.0"), fabric(ActiveState="activating", SubState="start")),
        "fabric_manager", "WARN"),
    "fabric-in-progress": (gpu(0, fabric__state="In Progress", fabric__status="N/A"), "fabric_manager", "WARN"),
    "fabric-manager-not-installed": (fabric(LoadState="not-found", ActiveState="inactive"), "fabric_manager",
                                     "INCOMPLETE"),
    "pcie-machine-without-nvlink": (
        several(declared(nvlink=0, gpu_model="L40S"), lambda world: world.links.clear(),
                fabric(ActiveState="inactive")), "fabric_manager", "NOT_APPLICABLE"),
    "no-test-in-dcgm-diag": (lambda world: setattr(world, "dcgm_diag", {"DCGM Diagnostic": {}}), "dcgm_diag",
                             "INCOMPLETE"),
    "dcgm-warning": (dcgm("Warning"), "dcgm_health", "WARN"),
    "dcgm-failure-without-entity": (dcgm("Failure", entity=False), "dcgm_health", "WARN"),
    "dcgm-stopped": (tool("dcgmi", "echo 'Error: unable to establish a connection'; exit 1"), "dcgm_health",
                     "INCOMPLETE"),
    "efa-still-missing-after-boot": (several(file("/proc/uptime", "30.0 1.0"), without_efa), "efa_count", "WARN"),
    "efa-only-device-without-netdev": (
        lambda world: [world.files.pop(f"/sys/class/infiniband/rdmap0s0/device/net/ens32/{name}")
                       for name in ("operstate", "carrier", "flags")], "efa_link", "PASS"),
    "ethernet-port-flaps": (
        several(log("ib_core: eth0: lost carrier", "igb eth0: Link down"),
                file("/sys/class/infiniband/rocep0/ports/1/link_layer", "Ethernet"),
                file("/sys/class/infiniband/rocep0/ports/1/state", "1: DOWN")), "kernel_network", "PASS"),
    "management-port-without-cable": (
        several(lambda world: world.infiniband(), file("/sys/class/infiniband/mlx5_9/ports/1/link_layer", "Ethernet"),
                file("/sys/class/infiniband/mlx5_9/ports/1/state", "1: DOWN")), "infiniband_links", "PASS"),
    "link-downed-at-its-end": (
        several(lambda world: world.infiniband(),
                file("/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", "255")), "infiniband_errors", "WARN"),
    "node-with-an-extra-package": (file("/usr/bin/something-else", "x"), "package_versions", "NOT_APPLICABLE"),
    "another-kernel": (config(versions={"kernel": "6.8.0-1019-aws"}), "kernel_version", "WARN"),
    "a-user-on-one-node": (
        several(config(users=["ubuntu"]), file("/etc/passwd", "root:x:0:0::/:/bin/sh\nmallory:x:1001:1001::/:/bin/sh")),
        "local_users", "WARN"),
    "clock-without-service": (tool("chronyc", "exit 1"), "clock", "WARN"),
    "service-that-reloads": (service("munge", "reloading"), "slurm_services", "PASS"),
    "nvme-tool-missing": (tool("nvme", ""), "nvme_health", "INCOMPLETE"),
    "own-check-that-crashes": (own_check("kill -11 $$"), "site_raid", "INCOMPLETE"),
    "own-check-not-executable": (config(checks=[{"name": "site_raid", "command": ["/etc/passwd"]}]), "site_raid",
                                 "INCOMPLETE"),
    "own-check-of-users": (own_check("exit 2", fault="user"), "site_raid", "WARN"),
    "own-check-that-hangs": (own_check("sleep 60"), "site_raid", "INCOMPLETE"),
    "own-check-that-only-reports": (own_check("exit 2", action="none"), "site_raid", "FAIL"),
    "machine-without-gpus-and-an-old-log": (
        several(declared(gpus=0, nvlink=0, pcie_width=0), log(XID.format("79, x"))), "gpu_xid", "NOT_APPLICABLE"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_look_alike_drains_nothing(name: str, tmp_path: Path) -> None:
    change, check, verdict = LOOK_ALIKES[name]
    world = World(tmp_path)
    change(world)
    found, _host = world.cycle()
    assert found[check].verdict.value == verdict, found[check]
    decision = world.drains(found)
    assert not decision.actions, decision.actions
    if verdict == "INCOMPLETE":
        assert decision.groups["incomplete"] == ["gpu1"]


def test_an_event_of_an_earlier_boot_is_forgotten(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.log(XID.format("79, x"))
    assert world.cycle()[0]["gpu_xid"].verdict is Verdict.FAIL
    world.kmsg = []
    assert world.cycle()[0]["gpu_xid"].verdict is Verdict.FAIL, "pushed out of the kernel's buffer"
    world.files["/proc/sys/kernel/random/boot_id"] = "another"
    assert world.cycle()[0]["gpu_xid"].verdict is Verdict.PASS


def test_a_field_that_the_driver_does_not_know_is_left_out_and_remembered(tmp_path: Path) -> None:
    world = World(tmp_path)
    fields = "index,uuid,pci.bus_id,name,driver_version"
    assert fields.count(",") == 4
    rows = tmp_path / "old"
    rows.write_text("\n".join(f"{n}, GPU-{n}, 0000:0{n}:00.0, NVIDIA H100, 470.1, P0, Enabled, Disabled, 16, 16, 0,"
                              " 0x1, Completed, Success" for n in range(8)))  # fmt: skip
    world.tools["nvidia-smi"] = (
        f'echo "$*" >>{tmp_path}/calls\n'
        'case "$*" in *gpu_recovery_action*)'
        " echo 'Field \"gpu_recovery_action\" is not a valid field to query.'; exit 2;;"
        f" *query-gpu*) cat {rows};; esac"
    )
    found, _host = world.cycle()
    assert found["gpu_count"].verdict is Verdict.PASS
    assert found["gpu_recovery_action"].verdict is Verdict.NOT_APPLICABLE
    before = (tmp_path / "calls").read_text().count("gpu_recovery_action")
    world.cycle()
    assert (tmp_path / "calls").read_text().count("gpu_recovery_action") <= before + 1


@pytest.mark.parametrize("count", [25])
def test_the_corpus_is_as_large_as_it_should_be(count: int) -> None:
    assert len(FAULTS) >= count and len(LOOK_ALIKES) >= count
