# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tries what reads GPUs on a machine that has one, and captures what the tools there print.

    python3 tests/benchmarks/gpu.py DIRECTORY

Needs root and Python alone; with PyTorch it also trains by the recipes. It writes the output of each tool into the
directory, and figures.json. For a machine that is not a node of a cluster: it takes /etc/trainwright/health.json and
/usr/lib/trainwright for itself, and removes them.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path("/usr/lib/trainwright")
CONFIG = Path("/etc/trainwright/health.json")
QUERY = "timestamp,name,utilization.gpu,memory.used,memory.total,temperature.gpu"
TOOLS = {
    "smi.txt": "nvidia-smi",
    "smi-q.xml": "nvidia-smi -q -x",
    "smi-list.txt": "nvidia-smi -L",
    "smi-facts.csv": "nvidia-smi --query-gpu=index,name,memory.total,pci.bus_id --format=csv,noheader,nounits",
    "smi-sample.csv": f"nvidia-smi --query-gpu={QUERY} --format=csv,noheader",
    "smi-topo.txt": "nvidia-smi topo -m",
    "smi-nvlink.txt": "nvidia-smi nvlink --status",
    "smi-mig.txt": "nvidia-smi mig -lgip",
    "dcgmi.txt": "dcgmi discovery -l",
    "proc-version.txt": "cat /proc/driver/nvidia/version",
    "proc-information.txt": "cat /proc/driver/nvidia/gpus/*/information",
    "devices.txt": "ls -l /dev/nvidia*",
    "bus.txt": "grep -H . /sys/bus/pci/devices/*/vendor /sys/bus/pci/devices/*/class | grep -B1 0x03",
}
TIMES = 5
HOLDER = """import torch, time
held = torch.ones(1 << 28, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
time.sleep(60)"""


def shell(command: str, timeout: float = 240) -> tuple[int, str, float]:
    """Run a command; return its exit code, what it printed, and its seconds."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return 124, (error.stdout or b"").decode(errors="replace"), time.monotonic() - began
    return done.returncode, done.stdout.decode(errors="replace"), time.monotonic() - began


def library() -> None:
    """Put the node-side library where nodes have it."""
    LIBRARY.mkdir(parents=True, exist_ok=True)
    place = LIBRARY / "node_tools"
    place.symlink_to(ROOT / "plugins/module_utils")
    sys.path.insert(0, str(LIBRARY))


def captured(directory: Path) -> dict[str, dict[str, Any]]:
    """Keep what each tool prints."""
    found = {}
    for name, command in TOOLS.items():
        code, text, seconds = shell(command, 60)
        (directory / name).write_text(text, encoding="utf-8")
        found[name] = {"rc": code, "seconds": round(seconds, 3), "lines": len(text.splitlines())}
    return found


def facts() -> dict[str, Any]:
    """What node_facts says of this machine, whether that would be believed, and its median time."""
    gather = importlib.import_module("node_tools.node.facts").gather
    schema = importlib.import_module("node_tools.node.fact_schema")
    took, node = [], {}
    for _ in range(TIMES):
        began = time.monotonic()
        node = gather([6818], [], ["/var/log"], [], [])
        took.append(time.monotonic() - began)
    kept = ("gpus", "nvlink", "on_bus", "driver_from", "stack", "efa", "infiniband", "kernel_build")
    return {
        "seconds": round(statistics.median(took), 3),
        "fault": schema.fault(node, True, ""),
        "node": {name: node.get(name) for name in kept},
    }


def parsed(directory: Path) -> dict[str, Any]:
    """What the parsers of validation make of the captured output; their error where they refuse it."""
    found: dict[str, Any] = {}
    for module, file in (("nvidia_smi", "smi-q.xml"), ("nvidia_topo", "smi-topo.txt")):
        parser = importlib.import_module(f"node_tools.validation.parsers.{module}")
        try:
            found[module] = repr(parser.parse((directory / file).read_text(encoding="utf-8")))
        except Exception as error:
            found[module] = f"{type(error).__name__}: {error}"
    return found


def health(gpus: list[dict[str, Any]]) -> dict[str, Any]:
    """The checks of node_health with the GPUs declared that are there, and with one more."""
    found: dict[str, Any] = {}
    CONFIG.parent.mkdir(parents=True, exist_ok=True)
    model = gpus[0]["model"] if gpus else "NVIDIA H100"
    holder = None
    for name, count in (
        ("as_declared", len(gpus)),
        ("one_missing", len(gpus) + 1),
        ("busy", len(gpus)),
    ):
        if name == "busy":
            # Somebody's process without a job.
            command = [shutil.which("python3") or sys.executable, "-c", HOLDER]
            holder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            if holder.stdout is None or holder.stdout.readline().strip() != b"held":
                break
        declared = {"machine_type": "one GPU", "gpus": count, "gpu_model": model, "pcie_width": 16}
        config = {
            "node": "machine",
            "enabled": True,
            "declared": declared,
            "memory_mb": 0,
            "mounts": [],
            "units": [],
        }
        CONFIG.write_text(json.dumps(config), encoding="utf-8")
        program = ROOT / "roles/node_health/files/trainwright-health"
        code, text, seconds = shell(f"sh {program} run --json 2>/dev/null", 120)
        try:
            said = [
                f"{one['check']}: {one['verdict']}: {one['detail'] or one['value']}"
                for one in json.loads(text)["results"]
            ]
        except (ValueError, KeyError) as error:
            said = [f"{error}: {text[-1500:]}"]
        found[name] = {"rc": code, "seconds": round(seconds, 2), "said": said}
    if holder:
        holder.kill()
        holder.wait()
    return found


def training(directory: Path) -> dict[str, Any]:
    """The recipes on one GPU, with what NCCL logs, and what is read of it."""
    found: dict[str, Any] = {}
    python = shutil.which("python3") or sys.executable
    if shell(f"{python} -c 'import torch; assert torch.cuda.is_available()'", 120)[0]:
        return {"left out": "no PyTorch with a GPU"}
    progress = importlib.import_module("node_tools.training.watch.progress")
    gpu_use = importlib.import_module("node_tools.training.watch.gpu_use")
    nccl_log = importlib.import_module("node_tools.validation.parsers.nccl_log")
    for recipe, arguments in (("ddp", "--steps 2000"), ("fsdp", "--steps 200")):
        place = directory / "work" / recipe
        place.mkdir(parents=True)
        for file in (ROOT / "recipes" / recipe).glob("*.py"):
            shutil.copy(file, place)
        log = directory / f"{recipe}.log"
        sampler = f"nvidia-smi --query-gpu={QUERY} --format=csv,noheader -l 1 > {directory}/{recipe}-gpu.csv & s=$!"
        command = (
            f"cd {place}; mkdir checkpoints; {sampler}; export NCCL_DEBUG=INFO TRAIN_CHECKPOINTS={place}/checkpoints;"
            f" {python} -m torch.distributed.run --standalone --nproc-per-node 1 train.py {arguments} > {log} 2>&1;"
            " c=$?; kill $s; exit $c"
        )
        code, said, seconds = shell(command, 180)
        text = log.read_text(encoding="utf-8", errors="replace")
        found[recipe] = {
            "rc": code,
            "seconds": round(seconds, 1),
            "said": said[-500:],
            "end": text[-300:],
        }
        readers: dict[str, Any] = {
            "progress": lambda lines: progress.read(lines),
            "gpus": lambda lines: gpu_use.read("machine", lines),
            "nccl": lambda lines: nccl_log.parse("\n".join(lines)),
        }
        for name, read in readers.items():
            source = directory / f"{recipe}-gpu.csv" if name == "gpus" else log
            try:
                lines = source.read_text(encoding="utf-8", errors="replace").splitlines()
                found[recipe][name] = repr(read(lines))[-900:]
            except Exception as error:
                found[recipe][name] = f"{type(error).__name__}: {error}"
    shutil.rmtree(directory / "work", ignore_errors=True)
    return found


def main() -> int:
    """Try each part; one that fails does not keep the others from it."""
    directory = Path(sys.argv[1]).absolute()
    if LIBRARY.exists() or CONFIG.exists():
        print(
            f"{LIBRARY} is there -> use a machine that is not a node of a cluster", file=sys.stderr
        )
        return 2
    directory.mkdir(parents=True, exist_ok=True)
    library()
    figures: dict[str, Any] = {"tools": captured(directory)}
    parts = {
        "facts": facts,
        "parsed": lambda: parsed(directory),
        "health": lambda: health(figures["facts"]["node"]["gpus"] or []),
        "training": lambda: training(directory),
    }
    for name, part in parts.items():
        try:
            figures[name] = part()
        except Exception as error:
            figures[name] = {"failed": f"{type(error).__name__}: {error}"}
    shutil.rmtree(LIBRARY)
    CONFIG.unlink(missing_ok=True)
    text = json.dumps(figures, indent=1, default=str)
    (directory / "figures.json").write_text(text + "\n", encoding="utf-8")
    print(text[:11000])
    return 0


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    sys.exit(main())
