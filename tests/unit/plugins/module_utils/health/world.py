# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A healthy machine with 8 H100s as files and fake tools, in the real formats; each test breaks one thing."""

from __future__ import annotations

import copy
import json
import time
import typing as t
from pathlib import Path

from ansible_collections.trainwright.slurm.plugins.module_utils.health import (
    gpu,
    manifest,
    publication,
    runner,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.health.agent.decide import (
    Decision,
    Settings,
    decide,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.health.finding import Finding
from ansible_collections.trainwright.slurm.plugins.module_utils.health.host import Host
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Node

BOOT = "5c3c4a2e-0d3f-4a0e-9a56-6f0f8a9f2b11"
DECLARED = {
    "machine_type": "p5.48xlarge",
    "architecture": "x86_64",
    "cpus": 192,
    "memory_mb": 2097152,
    "gpus": 8,
    "gpu_model": "H100",
    "gpu_memory_mb": 81920,
    "nvlink": 18,
    "pcie_width": 16,
    "efa": 4,
    "nvme": 2,
    "infiniband": 0,
    "unverified": [],
}
BUSES = [f"00000000:{bus}:00.0" for bus in ("53", "64", "75", "86", "97", "A8", "B9", "CA")]
GOOD_GPU = {
    "name": "NVIDIA H100 80GB HBM3",
    "driver_version": "570.133.20",
    "pstate": "P0",
    "persistence_mode": "Enabled",
    "mig.mode.current": "Disabled",
    "pcie.link.width.current": "16",
    "pcie.link.width.max": "16",
    "ecc.errors.uncorrected.volatile.total": "0",
    "clocks_event_reasons.active": "0x0000000000000001",
    "gpu_recovery_action": "None",
    "fabric.state": "Completed",
    "fabric.status": "Success",
}
DIAG = {
    "DCGM Diagnostic": {
        "test_categories": [
            {
                "category": "Deployment",
                "tests": [
                    {
                        "name": "software",
                        "results": [{"entity_group": "GPU", "entity_id": 0, "status": "Pass"}],
                        "test_summary": {"status": "Pass"},
                    }
                ],
            }
        ]
    }
}


class World:
    """The machine. gpus: rows of nvidia-smi; files: by path; tools: shell code by name; config: health.json."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config: dict[str, t.Any] = {
            "node": "gpu1",
            "declared": copy.deepcopy(DECLARED),
            "memory_mb": 2000000,
            "mounts": [{"path": "/fsx", "options": "rw"}],
            "spool_dir": "/var/spool/slurmd",
            "units": ["slurmd", "munge"],
            "pyxis": True,
            "enroot": True,
            "dcgm": True,
            "clock": True,
        }
        self.gpus = [
            {"index": str(number), "uuid": f"GPU-{number:08x}", "pci.bus_id": bus, **GOOD_GPU}
            for number, bus in enumerate(BUSES)
        ]
        self.remaps = [f"{bus}, 0, 0, 0" for bus in BUSES]
        self.links = {number: ["26.562 GB/s"] * 18 for number in range(8)}
        self.kmsg: list[str] = []
        self.fabric = {
            "LoadState": "loaded",
            "ActiveState": "active",
            "SubState": "running",
            "NRestarts": "0",
        }
        self.dcgm_health: t.Any = {"body": {"Overall Health": {"value": "Healthy"}}}
        self.dcgm_diag: t.Any = copy.deepcopy(DIAG)
        self.smi_extra = ""
        self.smi_code = 0
        self.memory: dict[str, t.Any] = {}
        self.context = "boot"
        self.services = {"slurmd": "active", "munge": "active"}
        self.tools: dict[str, str] = {
            "nv-fabricmanager": "echo 'Fabric Manager version is : 570.133.20'",
            "nvme": 'echo \'{"critical_warning":0,"temperature":310}\'',
            "chronyc": "echo 'A9FEA97B,169.254.169.123,4,1732.1,0.000001,0.000001,0,-1,0,0.01,0,0.0001,16,Normal'",
            "enroot": "exit 0",
            "dpkg-query": "exit 1",
        }
        self.files: dict[str, str] = {
            "/proc/uptime": "86400.00 1000.00",
            "/proc/sys/kernel/random/boot_id": BOOT,
            "/proc/sys/kernel/osrelease": "6.8.0-1021-aws",
            "/proc/meminfo": "MemTotal:       2113650000 kB\nMemFree: 1 kB",
            "/proc/self/mounts": "/dev/nvme0n1p1 / ext4 rw,relatime 0 0\nfs-1.fsx:/abc /fsx lustre rw,flock 0 0",
            "/proc/driver/nvidia/version": (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build"
            ),
            "/etc/passwd": "root:x:0:0:root:/root:/bin/bash",
            "/etc/trainwright/plugstack.conf": "required /usr/lib/trainwright/pyxis/spank_pyxis.so",
            "/usr/lib/trainwright/pyxis/spank_pyxis.so": "ELF",
            "/fsx/.keep": "",
            "/var/spool/slurmd/.keep": "",
            "/tmp/.keep": "",
            "/sys/module/efa/version": "2.13.0g",
        }
        for number, bus in enumerate(BUSES):
            place = f"/sys/bus/pci/devices/0000:{bus[9:].lower()}"
            self.files[f"{place}/vendor"] = "0x10de"
            self.files[f"{place}/class"] = "0x030200"
            if number < 4:
                self.efa(number)
        for number in range(3):
            kind = (
                "Amazon Elastic Block Store" if number == 0 else "Amazon EC2 NVMe Instance Storage"
            )
            self.files[f"/sys/class/nvme/nvme{number}/model"] = kind

    def efa(self, number: int) -> None:
        """Add an EFA device."""
        place = f"/sys/class/infiniband/rdmap{number}s0"
        self.files[f"{place}/device/vendor"] = "0x1d0f"
        self.files[f"{place}/ports/1/state"] = "4: ACTIVE"
        self.files[f"{place}/ports/1/link_layer"] = "Unspecified"
        self.files[f"{place}/ports/1/hw_counters/no_completion_cmds"] = "0"
        if number == 0:
            self.files[f"{place}/device/net/ens32/operstate"] = "up"
            self.files[f"{place}/device/net/ens32/carrier"] = "1"
            self.files[f"{place}/device/net/ens32/flags"] = "0x1003"

    def infiniband(self, ports: int = 8, **other: str) -> None:
        """Make it a machine with InfiniBand instead of EFA. other: values of the last port."""
        self.config["declared"].update(efa=0, infiniband=8)
        for number in range(ports):
            place = f"/sys/class/infiniband/mlx5_{number}/ports/1"
            values = {
                "state": "4: ACTIVE",
                "phys_state": "5: LinkUp",
                "rate": "400 Gb/sec (4X NDR)",
            }
            values["link_layer"] = "InfiniBand"
            values.update(other if number == ports - 1 else {})
            for key, value in values.items():
                self.files[f"{place}/{key}"] = value
            for counter in ("link_downed", "symbol_error", "link_error_recovery"):
                self.files.setdefault(f"{place}/counters/{counter}", "0")

    def log(self, *messages: str, at: float = 5000.0, priority: int = 4) -> None:
        """Add lines to the kernel log."""
        for text in messages:
            number = len(self.kmsg) + 1
            self.kmsg.append(f"{priority},{number},{int(at * 1e6) + number},-;{text}")

    # -- writing ---------------------------------------------------------------------------------
    def _nvlink(self) -> str:
        lines = []
        for number, links in self.links.items():
            lines.append(f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: GPU-{number:08x})")
            lines += [f"\t Link {index}: {text}" for index, text in enumerate(links)]
        return "\n".join(lines)

    def build(self) -> Host:
        """Write files and tools, and return the host."""
        root, tools = self.directory / "root", self.directory / "tools"
        data = self.directory / "data"
        tools.mkdir(exist_ok=True)
        data.mkdir(exist_ok=True)
        self.files["/dev/kmsg"] = "\n".join(self.kmsg) + "\n"
        for path, text in self.files.items():
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text + "\n")
        rows = [", ".join(row[field] for field in gpu.FIELDS) for row in self.gpus]
        fabric = "\n".join(f"{key}={value}" for key, value in self.fabric.items())
        units = "\n\n".join(
            f"Id={name}.service\nLoadState=loaded\nActiveState={state}"
            for name, state in self.services.items()
        )
        for name, text in {
            "gpus": "\n".join([*rows, *filter(None, [self.smi_extra])]),
            "remaps": "\n".join(self.remaps),
            "nvlink": self._nvlink(),
            "fabric": fabric,
            "units": units,
            "health": json.dumps(self.dcgm_health),
            "diag": json.dumps(self.dcgm_diag),
        }.items():
            (data / name).write_text(text + "\n")
        written = {
            "nvidia-smi": f'case "$*" in *query-gpu*) cat {data}/gpus;; *remapped*) cat {data}/remaps;; '
            f"*nvlink*) cat {data}/nvlink;; esac; exit {self.smi_code}",
            "systemctl": f'case "$*" in *fabricmanager*) cat {data}/fabric;; *) cat {data}/units;; esac',
            "dcgmi": f'case "$*" in *health*) cat {data}/health;; *diag*) cat {data}/diag;; esac',
            **self.tools,
        }
        for name, code in written.items():
            if code:
                path = tools / name
                path.write_text(f"#!/bin/sh\n{code}\n")
                path.chmod(0o755)
        return Host(
            self.config,
            self.memory,
            root=str(root),
            tools=(str(tools), "/usr/bin", "/bin"),
            context=self.context,
        )

    # -- from the machine to the agent -----------------------------------------------------------
    def cycle(self) -> tuple[dict[str, Finding], Host]:
        """Run all checks of the context as a cycle does, and return what was found."""
        host = self.build()
        checks = manifest.checks(self.config.get("checks") or ())
        found = [
            runner.judged(one, checks[one.check])
            for one in runner.run(runner.due(checks, host), host)
        ]
        self.memory = {**self.memory, **host.remembered}
        return {one.check: one for one in found}, host

    def drains(self, found: t.Mapping[str, Finding], **node: t.Any) -> Decision:
        """Return what an enforcing agent does about a node that publishes this."""
        checks = manifest.checks(self.config.get("checks") or ())
        bad, unsure = publication.failures(found.values(), checks)
        text = publication.dump(
            publication.Publication("gpu1", BOOT[:8], 1, int(time.time()), bad, unsure)
        )
        record = Node(
            "gpu1",
            **{
                "state": "IDLE",
                "partitions": ("batch",),
                "version": "24.11",
                **node,
                "extra": text,
            },
        )
        return decide([record], {}, Settings(enforce=True, checks=checks), int(time.time()))
